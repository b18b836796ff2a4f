"""README and the page on upgrades, from the first command to the last: an environment by pip, daily use,
completion, an agent, the service, a newer version, the end.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import forged
from tests.install.conftest import REPO, Place, blocks
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import needs_user_manager, user_manager

PAGE, CLIENT = "forged/docs/upgrade.md", "forged/docs/client.md"
NEWER = "0.1.1.dev1"
PAGES = sorted(page.stem for page in (REPO / "forged" / "docs").glob("*.md"))


@pytest.fixture(scope="module")
def installed(person: Place, checkout: Path) -> Place:
    """A person who has run README's lines, in a shell that found what they put on the path."""
    script = blocks("README.md", "Install")[0]
    path = person.run(f'{script}\nprintf "\\n%s" "$PATH"', checkout).rpartition("\n")[2]
    return Place(person.home, path)


def test_daily_use_finds_what_was_remembered(installed, work):
    printed = installed.run(blocks("README.md", "Daily use")[0], work)

    assert printed.count("Migrations run with atlas; goose is gone.") == 2  # by `search` and by `why`
    assert f"on in {work}; no problems\n" in printed
    assert [file.suffix for file in (work / ".forge" / "memory").iterdir()] == [".md"]


def test_the_local_model_is_there(installed, work):
    assert "local:multilingual-e5-small; runs in process" in installed.run("forgectl doctor", work)


def test_the_manual_is_part_of_what_is_installed(installed, work):
    listed = installed.run("forgectl docs", work)
    shown = [installed.run(f"forgectl docs {page}", work) for page in PAGES]

    assert [line.split()[0] for line in listed.splitlines()] == PAGES
    assert shown == [(REPO / "forged" / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in PAGES]


def test_completion_knows_the_verbs(installed, work):
    script = blocks(PAGE, "Completion")[0]
    registered = installed.run(f"{script}\ncomplete -p forgectl", work)
    offered = installed.run(
        "forgectl", work, _FORGECTL_COMPLETE="bash_complete", COMP_WORDS="forgectl sta", COMP_CWORD="1"
    )

    assert registered.endswith(" forgectl\n")
    assert offered == "plain,status\n"


def test_an_agent_needs_the_client_alone(installed, checkout, work, tmp_path):
    """In an environment without other packages, the page's lines get the block from the running daemon."""
    environment = tmp_path / "agent"
    agent = Place(installed.home, f"{environment}/bin:/usr/bin:/bin")
    agent.run(f"python3 -m venv {environment}", tmp_path)
    agent.run("pip install -c constraints.txt ./client", checkout)
    before, after = (
        blocks(CLIENT, f"{when} a turn", "python")[0].replace("/home/me/project", str(work))
        for when in ("Before", "After")
    )
    *after, close = after.splitlines()
    assert close.startswith("observer.close()")
    script = [before, *after, "print(prompt_block)", "print(observer.close(10))"]
    (tmp_path / "agent.py").write_text("\n".join(script))

    packages = {each["name"] for each in json.loads(agent.run("pip list --format json", tmp_path))}
    printed = agent.run("python agent.py", tmp_path)

    assert packages - {"pip", "setuptools"} == {"msgspec", "forged-memory-client"}
    assert "Migrations run with atlas" in printed
    assert printed.endswith("True\n")


def test_logs_restart_and_stop_show_the_log_and_end_the_daemon(installed, work):
    assert installed.daemons()

    printed = installed.run("forgectl logs\nforgectl restart\nforgectl stop", work)

    assert " serving socket=" in printed
    assert "stopped forged, pid " in printed
    eventually(lambda: not installed.daemons(), PATIENCE_S)


@pytest.mark.skipif(
    shutil.which("systemctl") is None, reason="systemctl is missing: the service was NOT tried"
)
def test_where_no_user_manager_answers_the_service_is_prepared_and_that_is_said(installed, work):
    """Nor does the one of who runs these tests, which reads another home."""
    script = blocks(PAGE, "Run it as a service")[0].strip()
    reported = installed.run(f"{script} 2>&1 || test $? = 69", work)

    assert "the units are written, but " in reported
    assert service_of(installed)
    assert "removed " in installed.run("forgectl service uninstall", work)
    assert not any((installed.home / ".config/systemd/user").iterdir())


@needs_user_manager
def test_the_service_runs_what_was_installed(installed):
    with user_manager(installed.home) as manager:

        def run(script: str) -> str:
            done = manager.run("bash", "-euc", f"export PATH='{installed.path}'\n{script}")
            assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
            return done.stdout

        assert "enabled forged.socket: systemd listens at " in run(blocks(PAGE, "Run it as a service")[0])
        assert service_of(installed)
        run("forgectl ping")
        assert f"path={program(installed)} " in manager.systemctl(
            "show", "forged.service", "--property=ExecStart"
        )
        assert "active (running)" in run("forgectl service status")
        assert "removed " in run("forgectl service uninstall")
    assert not any((installed.home / ".config/systemd/user").iterdir())


def program(installed: Place) -> str:
    """Where the page's commands put the daemon."""
    return f"{installed.home}/.local/share/forged/bin/forged"


def service_of(installed: Place) -> bool:
    """Whether the unit that lies there starts that program."""
    unit = installed.home / ".config/systemd/user/forged.service"
    return f"ExecStart={program(installed)} serve" in unit.read_text().splitlines()


def test_the_page_installs_as_readme_does():
    by_make, by_pipx = blocks(PAGE, "Install")

    assert [by_make] == blocks("README.md", "Install")
    assert f"With pipx: `{by_pipx.strip()}`" in (REPO / "README.md").read_text()


def test_an_upgrade_is_taken_up_by_a_restart_and_reported_until_then(installed, checkout, work, tmp_path):
    newer = tmp_path / "newer"
    shutil.copytree(checkout, newer)
    for name in ("forged/__init__.py", "client/forged_client/version.py", "pyproject.toml"):
        text = (newer / name).read_text()
        assert forged.__version__ in text
        (newer / name).write_text(text.replace(forged.__version__, NEWER))
    upgrade, restart = blocks(PAGE, "Upgrade")[0].splitlines()
    installed.run("forgectl ping", work)
    (before,) = installed.daemons()

    installed.run(upgrade, newer)
    reported = installed.run("forgectl ping 2>&1", work)
    restarted = installed.run(restart, work)

    assert f"this forgectl is {NEWER}; `forgectl restart`" in reported
    assert str(before) in restarted
    assert before not in installed.daemons()
    assert f"forged {NEWER}, pid " in installed.run("forgectl status --all", work)
    assert installed.run("forgectl ping 2>&1", work) == "pong\n"


def test_uninstalling_stops_the_daemon_and_leaves_the_memories(installed, work):
    assert installed.daemons()

    installed.run(blocks(PAGE, "Uninstall")[0], work)

    eventually(lambda: not installed.daemons(), PATIENCE_S)
    assert [path.name for path in (installed.home / ".local").rglob("*forged*")] == []
    assert len(list((work / ".forge" / "memory").iterdir())) == 1
