"""Templates and the table of agents as the files that agents read. Nothing is written here.

In a template of JSON a string that is a name between @ stands for a value: "@version@", "@hooks@" (all events
of the agent), "@server@" (forged's MCP server), "@hook@" (the command of its hooks, in words). In one of
JavaScript it is the same text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import forged
from forged.integrations.agent_table import AgentRow, agent_rows, template
from forged.integrations.machine import SERVER_VARIABLES, Machine

NAME = "forged"


def plugin_files(machine: Machine) -> dict[str, str]:
    """The folder that is a plug-in of three agents: texts by their names in it."""
    owners = [row for row in agent_rows().values() if row.way == "plugin"]
    return {name: text for row in owners for name, text in files(row, machine).items()}


def files(row: AgentRow, machine: Machine) -> dict[str, str]:
    """What is rendered for one agent, by the names of the files."""
    values = _values(row, machine)
    return {name: _filled(source, values) for name, source in row.files.items()}


def hooks(row: AgentRow, machine: Machine) -> dict[str, list[object]]:
    """The hooks of all events of an agent."""
    line = machine.hook_line(row.name)
    return {event: [_hook(row, line, round(wait / row.unit_s))] for event, wait in row.events.items()}


def server(row: AgentRow, machine: Machine) -> dict[str, Any]:
    """The MCP server as this agent wants it described.

    Where the agent passes its environment on, nothing of it is written down: hooks see the agent's, and a
    server that saw another one would be that of another daemon once the person moves a folder.
    """
    entry = machine.server(row.name)
    if row.name == "opencode":
        return {"type": "local", "command": [entry["command"], *entry["args"]], "enabled": True}
    if row.name == "vscode":
        entry = {"type": "stdio", **entry}
    if row.server_env == "named":
        entry["env_vars"] = list(SERVER_VARIABLES)
    elif row.server_env == "written" and machine.moved:
        entry["env"] = machine.moved
    return entry


def _hook(row: AgentRow, line: str, timeout: int) -> object:
    if row.shape == "plain":
        return {"command": line, "timeout": timeout}
    one = {"type": "command", "command": line, "timeout": timeout}
    return one if row.shape == "typed" else {"hooks": [one]}


def _values(row: AgentRow, machine: Machine) -> dict[str, object]:
    return {
        "@version@": forged.__version__,
        "@hooks@": hooks(row, machine),
        "@server@": server(row, machine),
        "@hook@": list(machine.hook_words(row.name)),
    }


def _filled(source: str, values: Mapping[str, object]) -> str:
    text = template(source)
    if source.endswith(".json"):
        return json.dumps(_replaced(json.loads(text), values), indent=2) + "\n"
    for name, value in values.items():
        text = text.replace(f'"{name}"', json.dumps(value)).replace(name, str(value))
    return text


def _replaced(value: object, values: Mapping[str, object]) -> object:
    if isinstance(value, dict):
        return {key: _replaced(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, values) for inner in value]
    return values.get(value, value) if isinstance(value, str) else value
