"""Render templates and the agent table as the files that agents read. Writes no file.

In a JSON template a string that is a name between @ is replaced by a value: "@version@", "@hooks@" (all
events of the agent), "@server@" (forged's MCP server), "@hook@" (the command of its hooks, as words). In a
JavaScript template the same text is replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import forged
from forged.agent_table import AgentRow, agent_rows
from forged.integrations.machine import SERVER_VARIABLES, Machine

NAME = "forged"


def plugin_files(machine: Machine) -> dict[str, str]:
    """Return the plug-in's files for all agents that install plug-ins: texts by relative paths."""
    owners = [row for row in agent_rows().values() if row.way == "plugin"]
    return {name: text for row in owners for name, text in files(row, machine).items()}


def files(row: AgentRow, machine: Machine) -> dict[str, str]:
    """Render the templates that the agent table names for an agent: texts by relative paths."""
    values = _placeholder_values(row, machine)
    return {name: _render_template(source, values) for name, source in row.files.items()}


def hooks(row: AgentRow, machine: Machine) -> dict[str, list[object]]:
    """Return forged's hooks for an agent's settings, by event, with timeouts in its time unit."""
    line = machine.hook_shell_line(row.name)
    return {event: [_hook_setting(row, line, round(wait / row.unit_s))] for event, wait in row.events.items()}


def server(row: AgentRow, machine: Machine) -> dict[str, Any]:
    """Return forged's MCP server as an entry of this agent's settings, with its environment if needed.

    If the agent passes its environment on, none is written down. Hooks see the agent's environment, and a
    server with another one would use another daemon after you move a folder.
    """
    entry = machine.server(row.name)
    if row.name == "opencode":
        return {"type": "local", "command": [entry["command"], *entry["args"]], "enabled": True}
    if row.name == "vscode":
        entry = {"type": "stdio", **entry}
    if row.server_env == "named":
        entry["env_vars"] = list(SERVER_VARIABLES)
    elif row.server_env == "written" and machine.custom_locations:
        entry["env"] = machine.custom_locations
    return entry


def _hook_setting(row: AgentRow, line: str, timeout: int) -> object:
    """Return one hook with command and timeout in the form that the agent's settings have."""
    if row.shape == "plain":
        return {"command": line, "timeout": timeout}
    one = {"type": "command", "command": line, "timeout": timeout}
    return one if row.shape == "typed" else {"hooks": [one]}


def _placeholder_values(row: AgentRow, machine: Machine) -> dict[str, object]:
    """Return the values of `@version@`, `@hooks@`, `@server@` and `@hook@` in an agent's templates."""
    return {
        "@version@": forged.__version__,
        "@hooks@": hooks(row, machine),
        "@server@": server(row, machine),
        "@hook@": list(machine.hook_command(row.name)),
    }


def _render_template(source: str, values: Mapping[str, object]) -> str:
    """Fill in the placeholders of a template of the plug-in, JSON or JavaScript, and return its text."""
    text = template(source)
    if source.endswith(".json"):
        return json.dumps(_replace_placeholders(json.loads(text), values), indent=2) + "\n"
    for name, value in values.items():
        text = text.replace(f'"{name}"', json.dumps(value)).replace(name, str(value))
    return text


def _replace_placeholders(value: object, values: Mapping[str, object]) -> object:
    """Return JSON data in which each string that is a placeholder has become its value, at any depth."""
    if isinstance(value, dict):
        return {key: _replace_placeholders(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replace_placeholders(inner, values) for inner in value]
    return values.get(value, value) if isinstance(value, str) else value


def template(name: str) -> str:
    """Return the text of a template in the folder `plugin`, by its name."""
    return resources.files("forged.integrations").joinpath("plugin", name).read_text("utf-8")
