"""Connecting agents by their settings, and what happens when their own commands refuse.

Real agents are connected in tests/agents; the stand-ins here only do what those do when something is wrong.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import msgspec
import pytest

from forged.integrations import (
    IntegrationError,
    agent_rows,
    connect,
    disconnect,
    planned_steps,
    remove_own_files,
    report,
)
from tests.support.daemon.processes import wait_for_end

SETTINGS = '{\n  // mine\n  "theme": "dark",\n}\n'


def done(machine, agent):
    return list(connect(machine, agent_rows()[agent]))


def undone(machine, agent):
    return [*disconnect(machine, agent_rows()[agent]), *remove_own_files(machine)]


def state(machine, agent):
    (found,) = report(machine, [agent])
    return found


def contents(home: Path) -> dict[str, object]:
    """Every file, folder and mode below HOME."""
    return {
        str(path.relative_to(home)): (
            stat.S_IMODE(path.lstat().st_mode),
            path.read_bytes() if path.is_file() else os.readlink(path) if path.is_symlink() else None,
        )
        for path in sorted(home.rglob("*"))
    }


@pytest.fixture
def used(home):
    """A HOME whose person has settings of all three agents that are connected by theirs."""
    for name, text in {
        ".qwen/settings.json": SETTINGS,
        ".cursor/hooks.json": '{"version": 1, "hooks": {"stop": [{"command": "notify"}]}}',
        ".cursor/mcp.json": "",
        ".config/Code/User/mcp.json": '{\r\n\t"servers": {}\r\n}',
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(text.encode())
        (home / name).chmod(0o640)
    return home


@pytest.mark.parametrize("agent", ["qwen", "cursor", "vscode", "opencode"])
@pytest.mark.parametrize("existing", ["used", "home"])
def test_what_was_connected_and_taken_away_again_leaves_home_as_it_was(machine, agent, existing, request):
    home = request.getfixturevalue(existing)
    before = contents(home)

    assert done(machine, agent)
    assert state(machine, agent).connection == "connected"
    assert contents(home) != before
    assert undone(machine, agent)
    assert contents(home) == before


def test_settings_keep_their_mode_and_their_comments(machine, used):
    done(machine, "qwen")
    file = used / ".qwen/settings.json"

    assert "// mine" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("agent", ["qwen", "cursor", "vscode", "opencode"])
def test_the_connection_of_an_installation_that_is_gone_is_found_and_replaced(machine, used, agent):
    before = contents(used)
    elsewhere = used / "old/forged_client/hook.py"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.touch()
    done(msgspec.structs.replace(machine, hook=str(elsewhere)), agent)
    assert state(machine, agent).connection == "older"
    elsewhere.unlink()
    gone = state(machine, agent)

    assert gone.connection == "damaged"
    assert f"{elsewhere}, which is gone" in gone.detail
    assert gone.remedy == f"`forgectl setup {agent}`"
    done(machine, agent)
    assert state(machine, agent).connection == "connected"
    elsewhere.parent.rmdir()
    elsewhere.parent.parent.rmdir()
    undone(machine, agent)
    assert contents(used) == before


def test_an_agent_that_has_written_its_settings_anew_keeps_what_it_wrote(machine, used):
    done(machine, "qwen")
    file = used / ".qwen/settings.json"
    reported = {"theme": "light", "hooks": {}, "mcpServers": {}}
    entries = json.loads(file.read_text().replace("// mine", "").replace('"dark",', '"dark"'))
    file.write_text(json.dumps({**entries, "theme": "light"}, indent=4))
    undone(machine, "qwen")

    assert {**reported, **json.loads(file.read_text())} == reported


def test_without_its_record_entries_are_taken_out_all_the_same(machine, used):
    done(machine, "qwen")
    os.unlink(f"{machine.data}/setup.json")
    undone(machine, "qwen")

    assert "hook.py" not in (used / ".qwen/settings.json").read_text()
    assert state(machine, "qwen").connection == ""


@pytest.mark.parametrize("record", ["", "{", '{"agents": 1}', "[]"])
def test_a_record_that_cannot_be_read_is_none(machine, used, record):
    done(machine, "qwen")
    Path(machine.data, "setup.json").write_text(record)

    assert undone(machine, "qwen")
    assert state(machine, "qwen").connection == ""


def test_settings_behind_a_link_are_changed_where_they_lie(machine, used):
    real = used / "dotfiles/settings.json"
    real.parent.mkdir()
    (used / ".qwen/settings.json").rename(real)
    (used / ".qwen/settings.json").symlink_to(real)
    before = contents(used)
    done(machine, "qwen")

    assert (used / ".qwen/settings.json").is_symlink()
    assert "hook.py" in real.read_text()
    undone(machine, "qwen")
    assert contents(used) == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": ', "no JSON at line 1; fix it, or add these yourself"),
        (b"[]", "contains no object; fix it"),
        (b'{"hooks": []}', "its hooks"),
        (
            b'{"mcpServers": {"forged": {"command": "x"}}}',
            "mcpServers.forged is there already and runs something else",
        ),
        (b"\xff\xfe{}", "is not UTF-8 and is left as it is"),
        (b" " * (1 << 20) + b"{}", "larger than 1,048,576 bytes"),
    ],
)
def test_settings_that_are_not_understood_are_left_as_they_are(machine, used, text, reason):
    file = used / ".qwen/settings.json"
    file.write_bytes(text)
    with pytest.raises(IntegrationError, match=reason):
        done(machine, "qwen")

    assert file.read_bytes() == text


def test_the_lines_to_put_in_by_hand_are_the_ones_that_setup_would_have_put_in(machine, used):
    (used / ".qwen/settings.json").write_text("[]")
    with pytest.raises(IntegrationError) as refused:
        done(machine, "qwen")
    by_hand = str(refused.value).partition("leave the rest as it is: ")[2]
    (used / ".qwen/settings.json").write_text(by_hand)

    assert state(machine, "qwen").connection == "connected"


def test_settings_that_are_broken_are_a_finding_only_where_forged_is_in_them(machine, used):
    file = used / ".qwen/settings.json"
    file.write_text('{"a": ')
    assert state(machine, "qwen").connection == ""

    file.write_text(SETTINGS)
    done(machine, "qwen")
    file.write_text(file.read_text()[:-3])
    assert state(machine, "qwen").connection == "damaged"
    assert (
        state(machine, "qwen").detail
        == f"{file}: it is no JSON at line {file.read_text().count(chr(10)) + 1}"
    )


@pytest.mark.parametrize("kind", ["folder", "pipe", "foreign"])
def test_what_is_no_file_of_the_person_is_no_settings(machine, used, kind, monkeypatch):
    file = used / ".qwen/settings.json"
    if kind == "foreign":
        monkeypatch.setattr("os.geteuid", lambda: 4711)
    else:
        file.unlink()
        file.mkdir() if kind == "folder" else os.mkfifo(file)
    with pytest.raises(IntegrationError, match=r"move it away|belongs to user|cannot be read"):
        done(machine, "qwen")
    assert state(machine, "qwen").connection == "damaged"


def test_settings_that_change_between_looking_and_writing_are_left_alone(machine, used, monkeypatch):
    from forged.integrations import file_io

    file = used / ".qwen/settings.json"
    real = file_io.make_folders

    def meanwhile(folder: str) -> list[str]:
        if folder == str(file.parent):
            file.write_text('{"theme": "new"}')
        return real(folder)

    monkeypatch.setattr(file_io, "make_folders", meanwhile)
    with pytest.raises(IntegrationError, match="changed meanwhile"):
        done(machine, "qwen")
    assert file.read_text() == '{"theme": "new"}'


# --- an agent's own command that does not do what it is told -------------------------------------------


NEWER = "it was tried with {}: `npm install -g {}`, then `forgectl setup {}`"


@pytest.mark.parametrize(
    "says", ["error: unknown command 'plugin'", "error: unrecognized subcommand", "Unknown argument: consent"]
)
def test_an_agent_that_is_too_old_for_plug_ins_is_informed_which_version_was_tried(machine, stand_in, says):
    stand_in("claude", f'echo "{says}" >&2; exit 1')
    with pytest.raises(IntegrationError) as refused:
        done(machine, "claude")

    tried = agent_rows()["claude"].tried
    update_advice = NEWER.format(f"Claude Code {tried}", "@anthropic-ai/claude-code", "claude")
    assert str(refused.value).endswith(f"failed: {says}; {update_advice}")


def test_a_command_that_says_it_is_done_and_has_done_nothing_is_not_believed(machine, stand_in):
    stand_in("gemini")
    with pytest.raises(IntegrationError) as refused:
        done(machine, "gemini")

    update_advice = NEWER.format(f"Gemini CLI {agent_rows()['gemini'].tried}", "@google/gemini-cli", "gemini")
    assert str(refused.value) == f"gemini reports success, but no plug-in is there; {update_advice}"


def test_taking_away_what_never_came_to_be_is_not_called_a_removal(machine, stand_in):
    stand_in("codex", "exit 1")
    with pytest.raises(IntegrationError):
        done(machine, "codex")

    assert undone(machine, "codex")[0] == "no plug-in of forged was there"


def test_the_command_that_is_shown_can_be_pasted_where_a_folder_has_blanks(machine):
    spaced = msgspec.structs.replace(machine, data="/home/Jörg Müller/forged")

    assert "add '/home/Jörg Müller/forged/plugin' && " in planned_steps(spaced, agent_rows()["claude"])[0]


def test_a_command_that_never_ends_is_ended_with_all_that_it_started(
    machine, stand_in, monkeypatch, tmp_path
):
    monkeypatch.setattr("forged.integrations.harness._WITHIN_S", 0.5)
    stand_in("codex", f"sleep 600 & echo $! > {tmp_path}/pid; wait")
    with pytest.raises(IntegrationError, match=r"did not end within .* run it yourself"):
        done(machine, "codex")

    wait_for_end(int((tmp_path / "pid").read_text()))


def test_an_agents_command_has_its_own_folder_in_path_and_memory_is_off_in_it(
    machine, stand_in, tmp_path, home
):
    next_to = stand_in(
        "codex", f'node; echo "$FORGED_BYPASS $PWD $HOME" > {tmp_path}/told', home / ".local/bin"
    )
    stand_in("node", f"touch {tmp_path}/ran", next_to.parent)
    with pytest.raises(IntegrationError):
        done(machine, "codex")

    assert (tmp_path / "ran").exists()
    assert (tmp_path / "told").read_text() == f"1 {machine.plugin} {home}\n"


def test_a_plug_in_whose_program_is_gone_cannot_be_taken_away_and_says_by_what(machine, home):
    with pytest.raises(
        IntegrationError, match="gemini is not there any more, and only it can remove its plug-in: npm"
    ):
        undone(machine, "gemini")
