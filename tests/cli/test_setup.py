"""`forgectl setup`: what is shown, asked, done, and left to the person.

Agents that have settings are real here; those that have commands of their own are run in tests/agents.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from forged_client.protocol import Status
from tests.cli import reports

REFUSES = "#!/bin/sh\necho 'no network' >&2\nexit 1\n"


@pytest.fixture
def setup(forgectl, repo, tmp_path, daemon):
    """`forgectl setup` with a daemon that answers and no systemd."""
    daemon.answers[Status] = reports.status()

    def run(*arguments, **surroundings):
        return forgectl(
            "setup", *arguments, **{"workspace": str(repo), "programs": (str(tmp_path),), **surroundings}
        )

    return run


def lay(file: Path, text: str) -> Path:
    file.write_text(text)
    file.chmod(0o755)
    return file


def everything(home: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in home.rglob("*")}


def test_without_a_terminal_nothing_is_done_unasked(setup, qwen, home):
    shown = setup()

    assert shown.code == 2
    assert "pass --yes when not on a terminal" in shown.err
    assert everything(home) == {}


@pytest.mark.parametrize("answer", ["n\n", "y\n"])
def test_it_shows_what_it_will_do_and_asks_once(setup, qwen, home, monkeypatch, answer):
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    shown = setup(interactive=True)

    assert shown.code == (0 if answer == "y\n" else 1)
    assert f"Qwen Code 0.15.10 ({qwen})" in shown.err
    assert f"adds entries of forged to {home}/.qwen/settings.json" in shown.err
    assert shown.err.count("Do this?") == 1
    assert (home / ".qwen/settings.json").exists() == (answer == "y\n")


def test_yes_connects_and_says_what_was_done_and_what_is_left(setup, qwen, home):
    shown = setup("--yes")

    assert shown.code == 0
    assert f"done  Qwen Code: wrote forged's entries into {home}/.qwen/settings.json" in shown.out
    assert (
        "- memories that others put into a repository are used only after `forgectl trust` there" in shown.out
    )
    assert "done  daemon: forged " in shown.out
    assert "Codex" not in shown.out.replace("cli:codex", "")


def test_done_again_nothing_is_done(setup, qwen, home):
    setup("--yes")
    before = everything(home)

    assert "Qwen Code: is connected already" in setup("--yes").out
    assert everything(home) == before


def test_in_the_home_of_another_user_nothing_is_done(setup, qwen, home, monkeypatch):
    """As with sudo, which often leaves HOME as it is."""
    monkeypatch.setattr("os.geteuid", lambda: home.stat().st_uid + 1)
    shown = setup("--yes")

    assert shown.code == 78
    assert f"HOME ({home}) belongs to another user; run this as yourself, without sudo, or" in shown.err
    assert everything(home) == {}


def test_a_home_that_is_not_there_is_said(setup, qwen, home):
    home.rmdir()
    shown = setup("--yes")

    assert shown.code == 78
    assert f"HOME ({home}) cannot be used: No such file or directory; run this as yourself" in shown.err


def test_a_dry_run_changes_nothing(setup, qwen, home):
    shown = setup("--dry-run")

    assert shown.code == 0
    assert "adds entries of forged to" in shown.out
    assert everything(home) == {}


def test_remove_takes_exactly_that_away(setup, qwen, home):
    (home / ".qwen").mkdir()
    (home / ".qwen/settings.json").write_text("{ /* mine */ }")
    before = everything(home)
    setup("--yes")
    shown = setup("--remove", "--yes")

    assert shown.code == 0
    assert "removed forged's entries from" in shown.out
    assert "Your memories stay, in ~/.forge and in .forge of each repository" in shown.out
    assert everything(home) == before


def test_one_agent_that_fails_does_not_keep_the_others_from_it(setup, qwen, path, home):
    lay(path / "claude", REFUSES)
    shown = setup("--yes")

    assert shown.code == 69
    assert "NOT   Claude Code: `claude plugin marketplace add" in shown.out
    assert "failed: no network" in shown.out
    assert "done  Qwen Code: wrote" in shown.out


def test_settings_that_are_no_json_are_left_and_the_lines_to_put_in_are_shown(setup, qwen, home):
    (home / ".qwen").mkdir()
    (home / ".qwen/settings.json").write_text("{]")
    shown = setup("--yes")

    assert shown.code == 69
    assert f"NOT   Qwen Code: {home}/.qwen/settings.json: it is no JSON at line 1; fix it" in shown.out
    assert '\n    "SessionStart": [\n' in shown.out
    assert (home / ".qwen/settings.json").read_text() == "{]"


def test_an_agent_that_is_named_and_not_here_gets_the_command_how_to_come_by(setup, qwen, home):
    shown = setup("gemini", "qwen", "--yes")

    assert shown.code == 69
    assert "NOT   Gemini CLI: gemini is not in PATH: npm install -g @google/gemini-cli, then" in shown.out
    assert "done  Qwen Code" in shown.out


def test_only_what_is_named_is_connected(setup, qwen, home):
    (home / ".cursor").mkdir()
    setup("cursor", "--yes")

    assert not (home / ".qwen").exists()
    assert re.search("hook.py'? cursor", (home / ".cursor/hooks.json").read_text())


def test_a_home_that_cannot_be_written_is_a_sentence_and_not_a_traceback(setup, qwen, monkeypatch):
    def read_only(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("os.mkdir", read_only)
    shown = setup("--yes")

    assert shown.code == 69
    assert "cannot be written: Read-only file system" in shown.out


def test_json_tells_the_plan_what_was_done_and_what_is_left(setup, qwen, path):
    lay(path / "claude", REFUSES)
    shown = setup("--yes", "--json")
    done = {one["about"]: one for one in shown.json["done"]}

    assert shown.code == 69
    assert shown.err == ""
    assert done["Qwen Code"]["failed"] == ""
    assert "no network" in done["Claude Code"]["failed"]
    assert any("forgectl trust" in line for line in shown.json["left"])
    assert any(line.startswith("Qwen Code") for line in shown.json["plan"])


def test_yes_writes_no_configuration_and_trusts_and_starts_nothing(setup, qwen, home, monkeypatch):
    """What costs, and what others wrote, is left as commands; of a key only its name is seen."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    shown = setup("--yes")
    written = {path.relative_to(home).parts[0] for path in everything(home)}

    assert "`forgectl config classifier NAME`\n    NAME: cli:qwen/MODEL\n" in shown.out
    assert "from about 17,000 tokens a day, 40 turns, on your account" in shown.out
    assert "OPENAI_API_KEY is set in this shell" in shown.out
    assert written == {".qwen", ".local"}
    assert {path.name for path in home.glob(".local/*")} == {"share"}
    assert all(b"sk-secret" not in (data or b"") for data in everything(home).values())
    assert "sk-secret" not in shown.out + shown.err


def test_a_program_of_the_repository_is_no_agent(setup, path, repo, home, monkeypatch):
    (repo / "bin").mkdir()
    lay(repo / "bin/claude", f"#!/bin/sh\ntouch {home}/ran\n")
    monkeypatch.setenv("PATH", f"{repo}/bin:/usr/bin:/bin")

    assert setup("--yes").code == 1
    assert not (home / "ran").exists()


def test_what_a_file_is_called_cannot_steer_the_terminal(setup, home, path, monkeypatch):
    odd = path / "a\x1b[31mb"
    odd.mkdir()
    lay(odd / "qwen", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(odd))
    shown = setup("--yes")

    assert "\x1b" not in shown.out + shown.err
    assert "a^[[31mb/qwen" in shown.err


# --- the service ---------------------------------------------------------------------------------------


def test_where_systemd_answers_it_starts_the_daemon_from_now_on_and_remove_ends_that(
    setup, qwen, systemd, home
):
    given = {"programs": systemd.programs, "executable": sys.executable}
    before = everything(home)
    shown = setup("--yes", **given)

    assert "done  service: enabled forged.socket" in shown.out
    assert (systemd.units / "forged.service").exists()
    assert "disable --now forged.socket forged.service" not in systemd.received()
    assert "done  service: disabled" in setup("--remove", "--yes", **given).out
    assert not (systemd.units / "forged.service").exists()
    assert set(everything(home)) - {systemd.units, systemd.units.parent, systemd.units.parents[1]} == set(
        before
    )


def test_units_that_the_person_had_before_stay(setup, qwen, systemd, forgectl):
    given = {"programs": systemd.programs, "executable": sys.executable}
    forgectl("service", "install", **given)
    setup("--yes", **given)
    setup("--remove", "--yes", **given)

    assert (systemd.units / "forged.service").exists()
