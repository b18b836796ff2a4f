"""Put into the environment of a copy: writes down which functions of the product each test enters.

The copy's path file imports this in every process of a test, daemons and workers too. Each process writes a
line "test <tab> file <tab> function" when it enters a function for the first time under a test, at once,
because many of them are killed. Which test runs is said by a file that all of them have mapped: some daemons
serve many tests. (PYTEST_DONT_REWRITE: pytest itself is imported later.)
"""

from __future__ import annotations

import itertools
import mmap
import os
import sys
import threading
from types import CodeType, FrameType

_HERE = os.path.dirname(os.path.abspath(__file__))
_LINES = os.path.join(_HERE, "seen.lines")
with open(os.path.join(_HERE, "seen.tree"), encoding="utf-8") as _file:
    _TREE = _file.read()
_PARTS = ("forged", "client/forged_client", "tests/evaluation", "tests/demo")
_WHERE = tuple(f"{_TREE}/{part}/" for part in _PARTS)
with open(os.path.join(_HERE, "seen.test"), "r+b") as _file:
    _running = mmap.mmap(_file.fileno(), 0)  # four bytes that differ from test to test, then its name
_numbers = itertools.count(1)


class _Process:
    number = b""
    test = ""
    seen: dict[int, CodeType] = {}  # noqa: RUF012  # the values keep their ids from being used again


def _write(line: str) -> None:
    file = os.open(_LINES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"\n{line}".encode())  # begins a line of its own, whoever was killed before
    os.close(file)


def _entered(frame: FrameType, _event: str, _argument: object) -> None:
    if _running[:4] != _Process.number:
        _Process.number = _running[:4]
        _Process.test = _running[4:].rstrip(b"\0").decode()
        _Process.seen.clear()
    code = frame.f_code
    if id(code) in _Process.seen:
        return
    _Process.seen[id(code)] = code
    if _Process.test and code.co_filename.startswith(_WHERE):
        path = code.co_filename[len(_TREE) + 1 :]
        _write(f"{_Process.test}\t{path}\t{code.co_qualname}")


def pytest_runtest_logstart(nodeid: str) -> None:
    name = nodeid.partition("[")[0].encode()
    _running[4:] = name.ljust(len(_running) - 4, b"\0")
    _running[:4] = next(_numbers).to_bytes(4, "big")
    sys.settrace(_entered)  # it ends where it raises, as on a stack that is full


def pytest_runtest_logreport(report: object) -> None:
    _write(f"{report.nodeid.partition('[')[0]}\t\t{report.duration}")  # type: ignore[attr-defined]


threading.settrace(_entered)
sys.settrace(_entered)
