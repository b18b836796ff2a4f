"""State of each agent: installed, connected, by which forged, and trusted by Codex.

All of it is read from files, and no agent is run; only its version may need a call. It changes nothing and
raises nothing: an unreadable file is a finding.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from forged.agent_table import AgentRow, agent_rows
from forged.integrations import codex, entries, file_io, harness, rendering
from forged.integrations.entries import SettingsEntry
from forged.integrations.file_io import IntegrationError
from forged.integrations.jsonc import NotJson, parse
from forged.integrations.machine import Machine

# Environment of a server's entry, from the shell in which setup ran.
_ENV = re.compile(r',\s*"env(?:ironment)?": \{[^{}]*\}')
Connection = Literal["", "connected", "older", "off", "damaged"]
PLUGIN = "forged@forged-memory"
# As words of a shell or of a list.
_RUN = re.compile(r"""(/[^'"]*?)['"]?[, ]+"?-I[", ]+-S[", ]+'?(/[^'"]*?/forged_client/hook\.py)""")


class AgentState(msgspec.Struct, frozen=True):
    """State of one agent: its program, its version, how forged is connected, and the remedy if needed.

    `program` is empty if not found, `connection` if forged is not connected. `older`: by another forged, or
    one at another path. `off`: you switched it off. `damaged`: its program is gone, or its files cannot be
    read. `trust` is for Codex: `given` or `missing`; without it no hook runs. `remedy` is the command that
    fixes the state, if needed.
    """

    agent: str
    title: str
    program: str = ""
    version: str = ""
    folder: str = ""
    connection: Connection = ""
    detail: str = ""
    remedy: str = ""
    trust: Literal["", "given", "missing"] = ""
    mcp: bool = False

    @property
    def is_installed(self) -> bool:
        """Return True if the agent's program or, for one known by its settings only, its folder was found."""
        return bool(self.program or self.folder)


def report(machine: Machine, names: Sequence[str] = (), *, versions: bool = True) -> tuple[AgentState, ...]:
    """Return the state of all agents, or of those named, in table order; `versions` may run them."""
    wanted = [row for name, row in agent_rows().items() if not names or name in names]
    return tuple(state(machine, row, versions=versions) for row in wanted)


def state(machine: Machine, row: AgentRow, *, versions: bool = False, exact: bool = False) -> AgentState:
    """Return the state of one agent; `versions` may run it, `exact` compares its server's environment."""
    program, folder = machine.program(row.program), machine.folder(row)
    known = folder if os.path.isdir(folder) and (row.way == "settings" and not row.tried) else ""
    connection, detail = _connection(machine, row, exact=exact)
    return AgentState(
        agent=row.name,
        title=row.title,
        program=program,
        version=_find_version(machine, row, program) if program and versions else "",
        folder=known,
        connection=connection,
        detail=detail,
        remedy=_remedy(row, connection),
        trust=_trust(machine, row) if row.name == "codex" and connection == "connected" else "",
        mcp=connection == "connected",
    )


def settings(machine: Machine, row: AgentRow) -> dict[str, tuple[SettingsEntry, ...]]:
    """Return the hooks and the MCP server that forged needs in an agent's settings, by file."""
    found: dict[str, tuple[SettingsEntry, ...]] = {}
    for section, place in row.settings.items():
        path = path_of(machine, row, place)
        if section == "hooks":
            hooks = rendering.hooks(row, machine)
            new = tuple(SettingsEntry(("hooks", event), "", each[0]) for event, each in hooks.items())
        else:
            new = (SettingsEntry((section,), rendering.NAME, rendering.server(row, machine)),)
        found[path] = (*found.get(path, ()), *new)
    return found


def path_of(machine: Machine, row: AgentRow, place: str) -> str:
    """Return the absolute path of a file of an agent: below HOME after ~/, else in the agent's folder."""
    return machine.path(place) if place.startswith("~/") else os.path.join(machine.folder(row), place)


def _connection(machine: Machine, row: AgentRow, *, exact: bool) -> tuple[Connection, str]:
    """Return how forged is connected to an agent, and a detail: path, or problem. Raises nothing."""
    exact = exact or row.server_env != "written"
    try:
        if row.way == "settings":
            return _connection_by_settings(settings(machine, row), exact=exact)
        wanted = rendering.files(row, machine)
        if row.way == "file":
            return _connection_by_files(
                {os.path.join(machine.folder(row), name): text for name, text in wanted.items()}, exact=exact
            )
        folder = machine.folder(row)
        copies = {
            path: wanted[name] for name, copy in row.copies.items() for path in _copies(row, folder, copy)
        }
        connection, detail = _connection_by_files(copies, exact=exact)
        if connection and (off := _switched_off(folder, row)):
            return "off", off
        sources = (os.path.join(machine.plugin, name) for name in wanted)
        if connection == "connected" and (gone := [path for path in sources if not os.path.isfile(path)]):
            return (
                "damaged",
                f"{gone[0]} is gone, and {row.title} uses a copy of it",
            )  # Claude Code runs neither
    except (IntegrationError, NotJson) as error:
        return "damaged", str(error)
    return connection, detail


def _connection_by_files(wanted: dict[str, str], *, exact: bool) -> tuple[Connection, str]:
    """Compare an agent's copies of the plug-in's files with wanted texts; return connection and detail."""
    found = [(path, here, text) for path, text in wanted.items() if (here := file_io.read(path)) is not None]
    if not found:
        return "", ""
    is_same = all(
        here == text or (not exact and _without_env(here) == _without_env(text)) for _, here, text in found
    )
    return _judge_connection(is_same, "".join(here for _, here, _ in found), found[0][0])


def _connection_by_settings(
    wanted: dict[str, tuple[SettingsEntry, ...]], *, exact: bool
) -> tuple[Connection, str]:
    """Compare forged's entries in an agent's settings with the wanted ones; return connection and detail."""
    texts = {path: file_io.read(path) or "" for path in wanted}
    ours = [path for path, text in texts.items() if _has_entries(path, text)]
    if not ours:
        return "", ""
    is_same = all(
        path in ours and entries.has_all(texts[path], each, exact=exact) for path, each in wanted.items()
    )
    return _judge_connection(is_same, "".join(texts[path] for path in ours), ours[0])


def _has_entries(path: str, text: str) -> bool:
    """Return True if a file's text has entries of forged. Raises IntegrationError with the path."""
    try:
        return entries.has_entries(text)
    except NotJson as error:
        raise IntegrationError(f"{path}: {error}") from error


def _without_env(text: str) -> str:
    """Return the text of a plug-in's file without the environment of its MCP server, for a comparison."""
    return _ENV.sub("", text)


def _judge_connection(is_same: bool, text: str, path: str) -> tuple[Connection, str]:
    """Return `damaged` (a program is gone), `connected` (same text) or `older`, and a detail."""
    gone = [each for run in _RUN.findall(text) for each in run if not os.path.exists(each)]
    if gone:
        return "damaged", f"{path} runs {gone[0]}, which is gone"
    return (
        ("connected", path)
        if is_same
        else ("older", (f"{path} was written by another forged, or changed by hand"))
    )


def _copies(row: AgentRow, folder: str, copy: str) -> list[str]:
    """Return paths of an agent's copies of a plug-in's file; of several versions only the newest in use."""
    before, star, after = os.path.join(folder, copy).partition("*")
    there = glob.glob(f"{glob.escape(before)}{star}{after}") if star else [before]
    if row.name == "claude":  # uninstalled versions stay there for some days
        in_use = _installed_by_claude(folder)
        there = [path for path in there if path.removesuffix(after) in in_use]
    return sorted(there, key=os.path.getmtime)[-1:] if star else there


def _installed_by_claude(folder: str) -> tuple[str, ...]:
    """Return the folders from which Claude Code runs forged's plug-in, by its list of installed plug-ins."""
    plugins = _read_json(os.path.join(folder, "plugins", "installed_plugins.json")).get("plugins")
    listed = plugins.get(PLUGIN) if isinstance(plugins, dict) else None
    found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return tuple(path for one in found if isinstance(path := one.get("installPath"), str))


def _switched_off(folder: str, row: AgentRow) -> str:
    """Return a sentence with the file if Claude Code's or Codex's settings switch the plug-in off, or ""."""
    if row.name == "claude":
        path = os.path.join(folder, "settings.json")
        enabled = _read_json(path).get("enabledPlugins")
        if isinstance(enabled, dict) and enabled.get(PLUGIN) is False:
            return f"it is switched off in {path}"
    if row.name == "codex" and not codex.is_on(folder, PLUGIN):
        return f"it is switched off in {os.path.join(folder, 'config.toml')}"
    return ""


def _trust(machine: Machine, row: AgentRow) -> codex.Trust:
    """Return `given` if Codex trusts forged's hooks as they are, else `missing`."""
    return codex.hook_trust(machine.folder(row), PLUGIN, rendering.hooks(row, machine))


def _read_json(path: str) -> dict[str, object]:
    """Return the object in a JSON file; empty if there is none. Raises NotJson."""
    text = file_io.read(path) or ""
    found = parse(text).value if text.strip() else {}
    return found if isinstance(found, dict) else {}


def _remedy(row: AgentRow, connection: Connection) -> str:
    """Return the command or step that repairs a connection of this state; empty if it is connected."""
    if connection == "off":
        return f"switch it on in {row.title}, or `forgectl setup --remove {row.name}`"
    return "" if connection == "connected" else f"`forgectl setup {row.name}`"


def _find_version(machine: Machine, row: AgentRow, program: str) -> str:
    """Return an agent's version: from a package.json near its program, else by running it."""
    folder = os.path.dirname(os.path.realpath(program))
    for _ in range(4):
        try:
            with open(os.path.join(folder, "package.json"), encoding="utf-8") as file:
                found = json.loads(file.read(file_io.MOST_BYTES))
        except (OSError, ValueError):
            folder = os.path.dirname(folder)
            continue
        version = found.get("version") if isinstance(found, dict) else None
        if isinstance(version, str) and found.get("name"):
            return version[:40]
        folder = os.path.dirname(folder)
    return harness.version_of(machine, row, program)
