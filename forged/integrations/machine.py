"""Locations on this machine: an agent's folder, its program, and the programs of forged.

A `Machine` is made once at the entry point and passed on, so that a test has one of its own. Its paths are
absolute and not resolved, because an interpreter's link selects its virtual environment.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

import forged
import forged_client
from forged import config
from forged.agent_table import AgentRow, agent_rows
from forged_client.address import home

# Folders besides PATH where installers put programs.
_PROGRAM_FOLDERS = (".local/bin", ".npm-global/bin", ".bun/bin", ".opencode/bin", ".claude/local")
_PLACES = (
    "FORGED_SOCKET",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
)
SERVER_VARIABLES = (*_PLACES, "FORGED_BYPASS")
"""Variables that an MCP server needs as its agent has them: locations of forged, and the bypass."""

RECORD = "setup.json"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of user, workspace and forged's programs, with the environment; finds agents' programs.

    `data` is forged's data folder. No program in `workspace` is ever run.
    """

    home: str
    environ: Mapping[str, str]
    workspace: str
    data: str
    python: str
    hook: str
    bridge: str

    @property
    def plugin(self) -> str:
        """Return the folder, in forged's data folder, from which agents install the plug-in."""
        return os.path.join(self.data, "plugin")

    def hook_command(self, agent: str) -> tuple[str, ...]:
        """Return an agent's hook command as words, with the signs by which it knows a headless session."""
        signs = (f"--headless={sign}" for sign in agent_rows()[agent].headless)
        return (self.python, "-I", "-S", self.hook, agent, *signs)

    def hook_shell_line(self, agent: str) -> str:
        """Return the shell line of an agent's hooks, which succeeds even if forged is gone.

        An interpreter without its script ends with 2, a shell without its program with 127. Some agents take
        that for an objection and would stop every turn after forged was moved or deleted.
        """
        return f"{shlex.join(self.hook_command(agent))} 2>/dev/null || true"

    def server(self, agent: str) -> dict[str, Any]:
        """Return command and arguments that start forged's MCP server for this agent."""
        return {"command": self.python, "args": ["-I", "-S", self.bridge, agent]}

    @property
    def custom_locations(self) -> dict[str, str]:
        """Return the set variables that move forged's socket or folders, if absolute and not the default."""
        set_here = {name: self.environ.get(name, "") for name in _PLACES}
        if set_here["XDG_RUNTIME_DIR"].rstrip("/") == f"/run/user/{os.geteuid()}":  # the default
            del set_here["XDG_RUNTIME_DIR"]
        return {name: value for name, value in set_here.items() if value.startswith("/")}

    def folder(self, row: AgentRow) -> str:
        """Return the path of an agent's settings folder by the agent table, even if it does not exist."""
        if sys.platform == "darwin" and row.macos:
            return self.path(row.macos)
        found = (self._resolve_place(place) for place in row.places)
        return next((path for path in found if path), self.path(row.places[-1]))

    def path(self, place: str) -> str:
        """Return a path from the agent table with `~/` replaced by the home directory."""
        return os.path.join(self.home, place[2:]) if place.startswith("~/") else place

    def _resolve_place(self, place: str) -> str:
        """Return a path of the agent table with its leading variable or ~ replaced; "" if that is unset."""
        if not place.startswith("$"):
            return self.path(place)
        variable, _, rest = place[1:].partition("/")
        value = self.environ.get(variable, "")
        return os.path.join(value, rest).rstrip("/") if os.path.isabs(value) else ""

    def program(self, name: str) -> str:
        """Return the absolute path of a program, never one in the current repository; "" if there is none."""
        candidates = (os.path.join(folder, name) for folder in self._program_folders())
        usable = (path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK))
        return next((path for path in usable if not self.is_of_workspace(path)), "")

    def _program_folders(self) -> Iterator[str]:
        """Yield the folders in which agents' programs are searched: those of PATH, then of installers."""
        yield from filter(os.path.isabs, self.environ.get("PATH", "").split(":"))
        yield from (os.path.join(self.home, folder) for folder in _PROGRAM_FOLDERS)

    def is_of_workspace(self, path: str) -> bool:
        """Return True if a path is in the current repository, by its name or after resolving links."""
        top = _repository_top(os.path.realpath(self.workspace)) if self.workspace else "/"
        if top in {"/", os.path.realpath(self.home)}:
            return False
        return any(f"{each}/".startswith(f"{top}/") for each in (path, os.path.realpath(path)))


def machine_of(environ: Mapping[str, str], workspace: str) -> Machine:
    """Describe this machine by environment, workspace and forged's own programs. Raises AddressError."""
    return Machine(
        home=home(environ),
        environ=environ,
        workspace=workspace,
        data=str(config.data_folder(environ)),
        python=sys.executable,
        hook=os.path.join(os.path.dirname(forged_client.__file__), "hook.py"),
        bridge=os.path.join(os.path.dirname(forged.__file__), "mcp", "bridge.py"),
    )


def _repository_top(folder: str) -> str:
    """Return the nearest folder at or above this one that has a .git; the given folder if there is none."""
    at = folder
    while not os.path.lexists(os.path.join(at, ".git")):
        if (above := os.path.dirname(at)) == at:
            return folder
        at = above
    return at
