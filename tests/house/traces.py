"""Traces of the processes: calls into files of the project, without heartbeats.

A `Call` is one line of a process's file. An opened text file is a line too, with the requesting function as
caller. So is a link: the moment at which a memory file got its name. A heartbeat is a pair of caller and
function that an idle daemon shows in every stretch of idle time, such as the sweep of connections each
second and the watcher's look at its directories. It is no part of a flow. Neither are the writes every five
seconds, which idle time shows only sometimes: everything that is called from there alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_OPENED, _LINKED = "<open>", "<link>"  # as `function`, by hook/sitecustomize.py
_SELDOM = "forged/state/state.py:State._save"


class Call(NamedTuple):
    """Entry of a function of the project, for the first time or after a wait."""

    pid: int
    at: int
    thread: int
    cause: int
    caller: str
    file: str
    function: str

    @property
    def edge(self) -> tuple[str, str, str]:
        return self.caller, self.file, self.function

    @property
    def name(self) -> str:
        """Return its name as `caller` of other calls."""
        return f"{self.file}:{self.function}"


class Traces:
    """The folder of all processes' traces; each line is read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.heartbeats: frozenset[tuple[str, str, str]] = frozenset()
        self.readings: list[Call] = []
        self.links: list[Call] = []
        self._calls: list[Call] = []
        self._read: dict[Path, int] = {}

    def calls(self, since: int) -> list[Call]:
        """Return all calls from a moment on, without heartbeats, in the order of time."""
        for path in self.folder.iterdir():
            for call in self._new(path):
                {_OPENED: self.readings, _LINKED: self.links}.get(call.function, self._calls).append(call)
        self._calls.sort(key=lambda call: call.at)
        periodic = self._called_from(_SELDOM)
        recent = (call for call in self._calls if call.at >= since and call.caller not in periodic)
        return [call for call in recent if call.edge not in self.heartbeats]

    def _called_from(self, name: str) -> set[str]:
        """Return a function, and all functions that only it was ever seen to call."""
        callers: dict[str, set[str]] = {}
        for call in self._calls:
            callers.setdefault(call.name, set()).add(call.caller)
        found: set[str] = set()
        more = {name}
        while more:
            found |= more
            more = {each for each, by in callers.items() if by <= found} - found
        return found

    def _new(self, path: Path) -> list[Call]:
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            whole, _, _ = file.read().rpartition(b"\n")
        self._read[path] = self._read.get(path, 0) + len(whole) + bool(whole)
        return [_call(int(path.name), line) for line in whole.decode().splitlines()]


def _call(pid: int, line: str) -> Call:
    at, thread, cause, caller, file, function = line.split("\t")
    return Call(pid, int(at), int(thread), int(cause), caller, file, function)
