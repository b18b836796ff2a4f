"""State of agents with plug-ins, by their files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from forged.integrations import agent_rows, rendering, report
from forged.integrations.status import PLUGIN

IN_CACHE = ".claude/plugins/cache/forged-memory/forged"


def state(machine, agent="claude"):
    (found,) = report(machine, [agent])
    return found


@pytest.fixture
def claude(machine, home):
    """Claude Code with the plug-in, as its own command leaves it."""
    files = rendering.files(agent_rows()["claude"], machine)
    for name, text in files.items():
        put(Path(machine.plugin, name), text)
    put(home / f"{IN_CACHE}/0.1.0/hooks/hooks.json", files["forged/hooks/hooks.json"])
    put(home / f"{IN_CACHE}/0.1.0/.mcp.json", files["forged/.mcp.json"])
    listed = {"plugins": {PLUGIN: [{"installPath": str(home / IN_CACHE / "0.1.0")}]}}
    put(home / ".claude/plugins/installed_plugins.json", json.dumps(listed))
    put(home / ".claude/settings.json", json.dumps({"enabledPlugins": {PLUGIN: True}}))
    return home


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_an_agent_that_is_not_here_is_neither_here_nor_connected(machine):
    assert [(one.is_installed, one.connection) for one in report(machine)] == [(False, "")] * len(
        agent_rows()
    )


def test_a_plug_in_that_is_as_it_would_be_rendered_is_connected(machine, claude, stand_in):
    stand_in("claude", "echo 2.1.197 '(Claude Code)'")
    found = state(machine)

    assert (found.connection, found.version, found.remedy, found.mcp) == ("connected", "2.1.197", "", True)


def test_a_copy_that_the_agent_does_not_use_any_more_is_none(machine, claude):
    put(claude / ".claude/plugins/installed_plugins.json", "{}")

    assert state(machine).connection == ""


def test_a_plug_in_of_another_installation_is_older_and_setup_fixes_it(machine, claude):
    file = claude / IN_CACHE / "0.1.0/hooks/hooks.json"
    file.write_text(file.read_text().replace('"timeout": 10', '"timeout": 11'))

    assert (state(machine).connection, state(machine).remedy) == ("older", "`forgectl setup claude`")


def test_a_plug_in_whose_interpreter_is_gone_is_damaged(machine, claude):
    file = claude / IN_CACHE / "0.1.0/hooks/hooks.json"
    file.write_text(file.read_text().replace(machine.python, "/gone/bin/python"))

    assert state(machine).connection == "damaged"
    assert "runs /gone/bin/python, which is gone" in state(machine).detail


def test_a_plug_in_whose_own_folder_is_gone_is_damaged_though_there_is_a_copy(machine, claude):
    """Claude Code runs the hooks of a folder on this machine from there."""
    shutil.rmtree(machine.plugin)

    assert state(machine).connection == "damaged"
    assert state(machine).detail.startswith(f"{machine.plugin}/")
    assert state(machine).remedy == "`forgectl setup claude`"


def test_a_plug_in_that_its_person_switched_off_is_off_and_setup_is_no_remedy(machine, claude):
    put(claude / ".claude/settings.json", '{"enabledPlugins": {"forged@forged-memory": false}}')

    assert state(machine).connection == "off"
    assert "switch it on in Claude Code" in state(machine).remedy


def test_files_of_an_agent_that_cannot_be_read_are_a_finding(machine, claude):
    put(claude / ".claude/plugins/installed_plugins.json", "{{{")

    assert state(machine).connection == "damaged"


@pytest.mark.parametrize(
    "text", ["[]", '{"plugins": 1}', '{"plugins": {"forged@forged-memory": [1, {"x": 2}]}}']
)
def test_files_of_an_agent_of_another_form_are_no_connection(machine, claude, text):
    put(claude / ".claude/plugins/installed_plugins.json", text)

    assert state(machine).connection == ""


def test_a_version_is_that_of_the_package_before_it_is_asked_for(machine, stand_in, programs, tmp_path):
    package = tmp_path / "lib/gemini"
    put(package / "package.json", '{"name": "gemini-cli", "version": "0.61.0"}')
    stand_in("index.js", f"touch {tmp_path}/asked", package / "dist")
    (programs / "gemini").symlink_to(package / "dist/index.js")

    assert state(machine, "gemini").version == "0.61.0"
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("script", ["exit 1", "echo nothing", "echo"])
def test_an_agent_that_tells_no_version_has_none(machine, stand_in, script):
    stand_in("codex", script)

    assert state(machine, "codex").version == ""


def test_an_editor_without_a_program_in_path_is_here_when_its_folder_is(machine, home):
    (home / ".cursor").mkdir()

    assert state(machine, "cursor").is_installed
    assert not state(machine, "vscode").is_installed
