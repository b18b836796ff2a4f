"""Put into the environment of a copy: writes down which functions of the product each test enters.

The copy's path file imports this in every process of a test, daemons and workers too. Each process writes a
line "test <tab> file <tab> function" when it enters a function for the first time under a test, at once,
because many of them are killed. A process other than pytest's belongs to the test that was running when it
began. (PYTEST_DONT_REWRITE: pytest itself is imported later.)
"""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType, FrameType

_HERE = os.path.dirname(os.path.abspath(__file__))
_LABEL = os.path.join(_HERE, "seen.label")
_LINES = os.path.join(_HERE, "seen.lines")
with open(os.path.join(_HERE, "seen.tree"), encoding="utf-8") as _file:
    _TREE = _file.read()
_WHERE = (f"{_TREE}/forged/", f"{_TREE}/client/forged_client/")


class _Process:
    test = ""
    seen: dict[int, CodeType] = {}  # noqa: RUF012  # the values keep their ids from being used again


def _write(line: str) -> None:
    file = os.open(_LINES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"\n{line}".encode())  # begins a line of its own, whoever was killed before
    os.close(file)


def _entered(frame: FrameType, _event: str, _argument: object) -> None:
    code = frame.f_code
    if id(code) in _Process.seen:
        return
    _Process.seen[id(code)] = code
    if _Process.test and code.co_filename.startswith(_WHERE):
        path = code.co_filename[len(_TREE) + 1 :]
        _write(f"{_Process.test}\t{path}\t{code.co_qualname}")


def pytest_runtest_logstart(nodeid: str) -> None:
    _Process.test = nodeid.partition("[")[0]
    _Process.seen.clear()
    with open(_LABEL, "w", encoding="utf-8") as label:
        label.write(_Process.test)
    sys.settrace(_entered)  # it ends where it raises, as on a stack that is full


def pytest_runtest_logreport(report: object) -> None:
    _write(f"{_Process.test}\t\t{report.duration}")  # type: ignore[attr-defined]


if os.path.exists(_LABEL):
    with open(_LABEL, encoding="utf-8") as _file:
        _Process.test = _file.read()
threading.settrace(_entered)
sys.settrace(_entered)
