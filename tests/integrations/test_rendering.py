"""Rendered files: complete, for every agent, and for this installation alone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import msgspec
import pytest

import forged
from forged.integrations import agent_rows, rendering
from forged.integrations.machine import SERVER_VARIABLES
from forged.integrations.rendering import template
from forged.text.harnesses import HOOKS

JSON = [row for row in agent_rows().values() if row.way == "plugin"]


@pytest.mark.parametrize("name", [name for name in agent_rows() if name != "opencode"])
def test_an_agent_is_asked_for_the_events_that_forged_understands_and_for_no_others(name):
    known = {event.partition(":")[0] for event in HOOKS[name].events}
    has_none = {"SessionEnd"} if name == "vscode" else set()

    assert set(agent_rows()[name].events) == known - has_none


def test_the_file_for_opencode_tells_all_the_events_that_forged_understands():
    reported = set(re.findall(r'happened\("(\w+)"', template("opencode.js")))

    assert reported == set(HOOKS["opencode"].events)


@pytest.mark.parametrize("row", JSON, ids=lambda row: row.name)
def test_every_file_is_json_with_all_places_filled(row, machine):
    for text in rendering.files(row, machine).values():
        assert isinstance(json.loads(text), dict)
        assert "@" not in text.replace("forged@", "")


def test_a_plug_in_has_the_version_its_hooks_with_their_timeouts_and_the_server(machine):
    files = {name: json.loads(text) for name, text in rendering.plugin_files(machine).items()}
    line = machine.hook_shell_line("gemini")

    assert files["forged/.claude-plugin/plugin.json"]["version"] == forged.__version__
    assert files["gemini-extension.json"]["mcpServers"]["forged"]["args"][-1] == "gemini"
    assert files["hooks/hooks.json"]["hooks"]["BeforeAgent"] == [
        {"hooks": [{"type": "command", "command": line, "timeout": 10_000}]}
    ]
    assert files["forged/hooks/hooks.json"]["hooks"]["Stop"][0]["hooks"][0]["timeout"] == 10
    assert files["forged/codex/hooks.json"]["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"] <= 3


def test_each_agent_is_named_to_the_hook_that_it_runs(machine):
    machine = msgspec.structs.replace(machine, hook="/opt/forged/hook.py")
    for row in agent_rows().values():
        for text in (*rendering.files(row, machine).values(), json.dumps(rendering.hooks(row, machine))):
            assert text.count("hook.py") == text.count(f"hook.py {row.name}") + text.count(
                f'hook.py", "{row.name}'
            )


def test_agents_have_hooks_and_servers_in_their_own_forms(machine):
    cursor, vscode, opencode = (agent_rows()[name] for name in ("cursor", "vscode", "opencode"))

    assert rendering.hooks(cursor, machine)["sessionEnd"][0].keys() == {"command", "timeout"}
    assert rendering.hooks(vscode, machine)["Stop"][0]["type"] == "command"
    assert rendering.server(vscode, machine)["type"] == "stdio"
    assert rendering.server(opencode, machine)["command"][0] == machine.python


@pytest.mark.parametrize("row", agent_rows().values(), ids=lambda row: row.name)
def test_a_server_sees_where_forgeds_things_lie_as_the_hooks_of_its_agent_do(row, machine):
    """Variables that the agent passes on or that are named are never frozen at setup."""
    places = {name: f"/moved/{name}" for name in SERVER_VARIABLES if name != "FORGED_BYPASS"}
    environ = {**machine.environ, **places, "FORGED_BYPASS": "1"}
    custom_locations = msgspec.structs.replace(machine, environ=environ)
    now, then = rendering.server(row, machine), rendering.server(row, custom_locations)

    if row.server_env == "written":
        assert then.pop("env") == places
    assert then == now
    assert "/moved/" not in json.dumps([rendering.files(row, custom_locations), then])
    assert now.get("env_vars", []) == (list(SERVER_VARIABLES) if row.server_env == "named" else [])


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_file_for_opencode_is_javascript_whatever_is_in_a_path(machine, tmp_path):
    odd = msgspec.structs.replace(machine, python="/odd \"'\\ $`/python", hook="/ü/forged_client/hook.py")
    (text,) = rendering.files(agent_rows()["opencode"], odd).values()
    module = tmp_path / "forged.mjs"
    module.write_text(text)
    reported = subprocess.run(["node", "--check", module], capture_output=True, text=True, check=False)
    shown = subprocess.run(
        [
            "node",
            "-e",
            f"{text.split('export')[0].replace('import', '//')}; console.log(JSON.stringify(HOOK))",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert reported.returncode == 0, reported.stderr
    assert json.loads(shown.stdout) == list(odd.hook_command("opencode"))
