"""Table of the agents that forged knows, `agents.toml`, which documents its keys; and their processes."""

from __future__ import annotations

import contextlib
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from forged_client.typed import resolved

Way = Literal["plugin", "file", "settings"]
Shape = Literal["group", "plain", "typed"]
ServerEnv = Literal["passed", "named", "written"]


class AgentRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Row of agents.toml: programs, files, settings and hooks of one agent; that file documents the keys."""

    title: str
    program: str
    install: str
    places: tuple[str, ...]
    way: Way
    folders: tuple[str, ...] = ()
    name: str = ""
    macos: str = ""
    tried: str = ""
    unit_s: float = 1.0
    shape: Shape = "group"
    events: dict[str, int] = {}
    installs: tuple[tuple[str, ...], ...] = ()
    removes: tuple[tuple[str, ...], ...] = ()
    env: dict[str, str] = {}
    server_env: ServerEnv = "written"
    headless: tuple[str, ...] = ()
    files: dict[str, str] = {}
    copies: dict[str, str] = {}
    settings: dict[str, str] = {}
    head: dict[str, dict[str, int]] = {}
    leaves: str = ""
    left: str = ""

    def is_run_as(self, path: str) -> bool:
        """Return True for a path of the agent's program, of another one of it, or in its folders."""
        name = _ENDING.sub("", os.path.basename(path).removeprefix("-"))
        package = self.install.rpartition(" ")[2] if self.install.startswith("npm ") else ""
        inside = (*self.folders, f"node_modules/{package}") if package else self.folders
        is_inside = any(f"/{folder}/" in path for folder in inside)
        return is_inside or name == self.program or name.startswith(f"{self.program}-")


@cache
def agent_rows() -> dict[str, AgentRow]:
    """Return the rows of agents.toml by the names of the agents."""
    text = resources.files("forged").joinpath("agents.toml").read_text("utf-8")
    read = msgspec.convert(tomllib.loads(text), resolved(dict[str, AgentRow]))
    return {name: msgspec.structs.replace(row, name=name) for name, row in read.items()}


# Programs that run a script, which is the first word behind them that is no option.
_INTERPRETERS = re.compile(r"(?:node(?:js)?|bun|deno|tsx|python[\d.]*)(?:\.exe)?")
_ENDING = re.compile(r"\.(?:exe|[cm]?js|ts|py|sh)$")


def agent_that_runs(command: Sequence[str], program: str = "") -> str:
    """Return the title of the agent that a process with this command line is, or "".

    `program` is the file that it runs, as a process may give itself another name.
    """
    words = [program, *command[:1]]
    if any(_INTERPRETERS.fullmatch(os.path.basename(word)) for word in words):
        words += [word for word in command[1:] if not word.startswith("-")][:1]
    return next((row.title for row in agent_rows().values() if any(map(row.is_run_as, words))), "")


# --- processes below an agent --------------------------------------------------------------------------

_TICKS = os.sysconf("SC_CLK_TCK")  # of the kernel, in a second


def doubt_about(pid: int, since_s: float) -> str:
    """Return why the text of a process may not be that of a person at a terminal, or "". Reads /proc.

    A parent that is an agent, or cannot be seen, is a reason. So is a process that lost its parent, or has no
    terminal. One that began later than `since_s` seconds after boot is another one with the same id.
    """
    try:
        process = _Process.of(pid)
        if process.began > since_s * _TICKS + 1:
            raise ProcessLookupError
        parents = list(process.with_parents())
        if _Process.of(pid).began != process.began:
            raise ProcessLookupError
    except (OSError, ValueError, IndexError):
        return "the process that sent it cannot be seen"
    if agent := next(filter(None, (agent_that_runs(each.command, each.program) for each in parents)), ""):
        return f"it came from a process of {agent}"
    if not process.terminal:
        return "it did not come from a terminal"
    if all(each.pid != process.session for each in parents):
        return "the process that sent it has lost its terminal's shell"
    return ""


class _Process(msgspec.Struct, frozen=True):
    """A process in /proc, with the clock tick after boot when it began, and its program if it can be seen."""

    pid: int
    parent: int
    session: int
    terminal: int
    began: int
    command: tuple[str, ...]
    program: str

    @staticmethod
    def of(pid: int) -> _Process:
        """Read a process. Raises OSError, and ValueError or IndexError for a text of another form."""
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        _, *rest = stat.rpartition(b")")[2].split()  # behind the name: state, parent, group, session, ...
        fields = [int(each) for each in rest]
        words = Path(f"/proc/{pid}/cmdline").read_bytes().removesuffix(b"\0").split(b"\0")
        command, program = tuple(map(os.fsdecode, words)), ""
        with contextlib.suppress(OSError):  # of another user
            program = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")  # by an update
        return _Process(pid, fields[0], fields[2], fields[3], fields[18], command, program)

    def with_parents(self) -> Iterator[_Process]:
        """Yield the process and its parents, up to process 1. Raises OSError for one that is gone."""
        yield self
        if self.pid == 1:
            return
        try:
            parent = _Process.of(self.parent)
        except FileNotFoundError:
            if _belongs_to_another(self.parent):  # and is hidden from this user
                return
            raise
        if parent.began > self.began:
            raise ProcessLookupError
        yield from parent.with_parents()


def _belongs_to_another(pid: int) -> bool:
    """Return True if a process is there and of another user."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return pid > 0
    except OSError:
        return False
    return False
