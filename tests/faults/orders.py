"""Faults to order in a daemon and its worker: which call, the how manieth, and what happens there.

An order is a file in a directory that `faulty` looks into at every call it wraps, so that a fault can be
ordered and taken back while the daemon runs. One that is not lasting is carried out once: whoever meets it
takes the file away first, so that the next daemon runs clean.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Literal

import msgspec

Call = Literal[
    "link", "unlink", "fsync", "rename", "replace", "send", "get", "commit", "give", "receive", "truncate"
]
ORDERS = "FORGED_TEST_FAULTS"
_LOG = "log"


class Fault(msgspec.Struct, frozen=True):
    """What is to happen `at` the so-manieth `call` of a process that is about something.

    `about` is searched as a pattern in the path that a call is about, in the bytes that are passed on, in the
    statements of a transaction that is committed, or in the number of descriptors that are given or received.
    `does`: kill (the process that makes the call), kill-daemon, half (send a part, then be killed), or the
    name of an errno that the call fails with. `after` lets the call happen first.
    """

    process: Literal["daemon", "worker"]
    call: Call
    about: str
    at: int
    does: str
    after: bool
    lasting: bool


class Fired(msgspec.Struct, frozen=True):
    """A fault that happened; `at` is in seconds of the monotonic clock, which all processes share."""

    order: str
    pid: int
    at: float


class Faults:
    """Orders for one daemon; a test gives them."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._numbers = itertools.count()
        self.env = {ORDERS: str(directory)}

    def arm(
        self,
        process: Literal["daemon", "worker"],
        call: Call,
        about: str = "",
        *,
        at: int = 1,
        does: str = "kill",
        after: bool = False,
        lasting: bool = False,
    ) -> str:
        """Order a fault; returns the name of the order."""
        name = f"{next(self._numbers)}.order"
        fresh = self._directory / f"{name}~"
        fresh.write_bytes(msgspec.json.encode(Fault(process, call, about, at, does, after, lasting)))
        fresh.rename(self._directory / name)
        return name

    def disarm(self) -> None:
        """Take back every order."""
        for path in self._directory.glob("*.order"):
            path.unlink(missing_ok=True)

    @property
    def fired(self) -> list[Fired]:
        """All that happened, in order."""
        try:
            lines = (self._directory / _LOG).read_bytes().splitlines()
        except FileNotFoundError:
            return []
        return [msgspec.json.decode(line, type=Fired) for line in lines]


def note(directory: str, fired: Fired) -> None:
    """Write down that a fault happens."""
    log = os.open(os.path.join(directory, _LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.write(log, msgspec.json.encode(fired) + b"\n")
    os.close(log)
