"""Where things lie on this machine: an agent's folder, its program, and what plug-ins run of forged.

A `Machine` is made once at the entry and handed down, so that a test has one of its own. The paths in it are
absolute and not resolved: an interpreter's link is what makes it that of its environment.
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
from forged.integrations.agent_table import AgentRow, agent_rows
from forged_client.address import home

# Beside PATH: where installers put programs that a thin PATH does not know.
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
"""Variables that a server must see as its agent does: where forged's things lie, and whether it is off."""

RECORD = "setup.json"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is forged's data folder; `workspace` is where the person stands, nothing of it is ever run."""

    home: str
    environ: Mapping[str, str]
    workspace: str
    data: str
    python: str
    hook: str
    bridge: str

    @property
    def plugin(self) -> str:
        """The folder that is a plug-in of three agents."""
        return os.path.join(self.data, "plugin")

    def hook_words(self, agent: str) -> tuple[str, ...]:
        """What a hook of this agent runs."""
        signs = (f"--headless={sign}" for sign in agent_rows()[agent].headless)
        return (self.python, "-I", "-S", self.hook, agent, *signs)

    def hook_line(self, agent: str) -> str:
        """The same for a shell. Where forged is gone it says nothing and ends well.

        An interpreter without its script ends with 2, a shell without its program with 127; some agents take
        that for an objection and would stop every turn of a person who has moved or deleted forged.
        """
        return f"{shlex.join(self.hook_words(agent))} 2>/dev/null || true"

    def server(self, agent: str) -> dict[str, Any]:
        """The command of this agent's MCP server."""
        return {"command": self.python, "args": ["-I", "-S", self.bridge, agent]}

    @property
    def moved(self) -> dict[str, str]:
        """The variables that say where forged's things lie, where the person has set them."""
        set_here = {name: self.environ.get(name, "") for name in _PLACES}
        if set_here["XDG_RUNTIME_DIR"].rstrip("/") == f"/run/user/{os.geteuid()}":  # looked for in any case
            del set_here["XDG_RUNTIME_DIR"]
        return {name: value for name, value in set_here.items() if value.startswith("/")}

    def folder(self, row: AgentRow) -> str:
        """Where an agent keeps its things, whether or not it is there."""
        if sys.platform == "darwin" and row.macos:
            return self.path(row.macos)
        found = (self._named(place) for place in row.places)
        return next((path for path in found if path), self.path(row.places[-1]))

    def path(self, place: str) -> str:
        """A path that may begin with ~."""
        return os.path.join(self.home, place[2:]) if place.startswith("~/") else place

    def _named(self, place: str) -> str:
        if not place.startswith("$"):
            return self.path(place)
        variable, _, rest = place[1:].partition("/")
        value = self.environ.get(variable, "")
        return os.path.join(value, rest).rstrip("/") if os.path.isabs(value) else ""

    def program(self, name: str) -> str:
        """Absolute path of a program; none that the repository brings in which the person stands."""
        candidates = (os.path.join(folder, name) for folder in self._search())
        usable = (path for path in candidates if os.path.isfile(path) and os.access(path, os.X_OK))
        return next((path for path in usable if not self.is_of_workspace(path)), "")

    def _search(self) -> Iterator[str]:
        yield from filter(os.path.isabs, self.environ.get("PATH", "").split(":"))
        yield from (os.path.join(self.home, folder) for folder in _PROGRAM_FOLDERS)

    def is_of_workspace(self, path: str) -> bool:
        """Whether a path lies in the repository in which the person stands, by its name or in truth."""
        top = _top(os.path.realpath(self.workspace)) if self.workspace else "/"
        if top in {"/", os.path.realpath(self.home)}:
            return False
        return any(f"{each}/".startswith(f"{top}/") for each in (path, os.path.realpath(path)))


def machine_of(environ: Mapping[str, str], workspace: str) -> Machine:
    """This machine, as the process's environment shows it. Raises AddressError where there is no home."""
    return Machine(
        home=home(environ),
        environ=environ,
        workspace=workspace,
        data=str(config.data_folder(environ)),
        python=sys.executable,
        hook=os.path.join(os.path.dirname(forged_client.__file__), "hook.py"),
        bridge=os.path.join(os.path.dirname(forged.__file__), "mcp", "bridge.py"),
    )


def _top(folder: str) -> str:
    at = folder
    while not os.path.lexists(os.path.join(at, ".git")):
        if (above := os.path.dirname(at)) == at:
            return folder
        at = above
    return at
