"""README from its first command to its last: an environment by pip, daily use, completion, units, the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.install.conftest import REPO, Place, blocks

PAGES = sorted(page.stem for page in (REPO / "forged" / "docs").glob("*.md"))


@pytest.fixture(scope="module")
def installed(person: Place, checkout: Path) -> Place:
    """A person who has run README's lines, in a shell that found what they put on the path."""
    script = blocks("README.md", "Install")[0]
    path = person.run(f'{script}\nprintf "\\n%s" "$PATH"', checkout).rpartition("\n")[2]
    return Place(person.home, path)


def test_daily_use_finds_what_was_remembered(installed, work):
    printed = installed.run(blocks("README.md", "Daily use")[0], work)

    assert "\n> Database migrations run with atlas since May; goose is gone.\n</forged-memories" in printed
    assert f"  repo  {work}\n" in printed
    assert [file.suffix for file in (work / ".forge" / "memory").iterdir()] == [".md"]


def test_the_local_model_is_there(installed, work):
    assert "local:multilingual-e5-small; runs in process" in installed.run("forgectl doctor", work)


def test_the_manual_is_part_of_what_is_installed(installed, work):
    listed = installed.run("forgectl docs", work)
    shown = [installed.run(f"forgectl docs {page}", work) for page in PAGES]

    assert [line.split()[0] for line in listed.splitlines()] == PAGES
    assert shown == [(REPO / "forged" / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in PAGES]


def test_completion_knows_the_verbs(installed, work):
    script = blocks("README.md", "Shell completion")[0]
    registered = installed.run(f"{script}\ncomplete -p forgectl", work)
    offered = installed.run(
        "forgectl", work, _FORGECTL_COMPLETE="bash_complete", COMP_WORDS="forgectl sta", COMP_CWORD="1"
    )

    assert registered.endswith(" forgectl\n")
    assert offered == "plain,status\n"


def test_the_units_are_copied_and_start_what_was_installed(installed, work):
    script = "\n".join(
        line
        for line in blocks("forged/docs/operations.md", "systemd")[0].splitlines()
        if "systemctl" not in line
    )
    installed.run(script, work)

    units = installed.home / ".config" / "systemd" / "user"
    assert sorted(unit.name for unit in units.iterdir()) == ["forged.service", "forged.socket"]
    program = f"{installed.home}/.local/share/forged/bin/forged"
    assert f"ExecStart={program} serve" in (units / "forged.service").read_text().splitlines()
    assert Path(program).is_file()
    for (
        unit
    ) in units.iterdir():  # with the units there, autostart would ask the service manager of this machine
        unit.unlink()


def test_an_agent_needs_the_client_alone(installed, checkout, work, tmp_path):
    """In an environment that has nothing else, README's lines get the block from the daemon that runs."""
    environment = tmp_path / "agent"
    agent = Place(installed.home, f"{environment}/bin:/usr/bin:/bin")
    agent.run(f"python3 -m venv {environment}", tmp_path)
    agent.run("pip install ./client", checkout)
    code = blocks("README.md", "Daily use", "python")[0].replace("/path/to/repo", str(work))
    messages = [{"role": "user", "content": "How do we run migrations?"}]
    (tmp_path / "agent.py").write_text(
        f"messages = {messages}\n{code}\nprint(block)\nprint(observer.close(10))\n"
    )

    packages = {each["name"] for each in json.loads(agent.run("pip list --format json", tmp_path))}
    printed = agent.run("python agent.py", tmp_path)

    assert packages - {"pip", "setuptools"} == {"msgspec", "forged-memory-client"}
    assert "Database migrations run with atlas" in printed
    assert printed.endswith("True\n")


def test_uninstalling_stops_the_daemon_and_leaves_the_memories(installed, work):
    assert installed.daemons()

    installed.run(blocks("README.md", "Stop and uninstall")[0], work)

    assert installed.daemons() == []
    assert [path.name for path in (installed.home / ".local").rglob("*forged*")] == []
    assert len(list((work / ".forge" / "memory").iterdir())) == 1
