"""Trace of every function of the project that this process enters, in a file of its own.

Python imports a module of this name when a process starts. So an environment alone traces the daemon, its
capture worker and a client: PYTHONPATH leads here, HOUSE_TO names a folder, HOUSE_OF the directories of the
packages. No part of the project is changed or imported.

One line for each call: time (monotonic nanoseconds, one clock for all processes), thread, cause, caller,
file, function. `caller` is the innermost running function of the project, as `file:function`. `cause` is the
number of the event-loop callback that led to the call: tasks and `to_thread` inherit the callback's context
and so the number; 0 has no callback. The code of a module or a class body is not a function: an import is no
call.

A text file of the packages is traced when it is opened, with `<open>` as function. Its `caller` is the
requesting function: an `__init__` reads for others. A Markdown file is traced when it is linked to its name,
with `<link>` as function.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from contextvars import ContextVar
from functools import cache
from inspect import CO_OPTIMIZED
from types import FrameType

_PACKAGES = tuple(filter(None, os.environ.get("HOUSE_OF", "").split(os.pathsep)))
_cause: ContextVar[int] = ContextVar("cause", default=0)
_causes = itertools.count(1)


@cache
def _named(path: str) -> str:
    """Return a file of the packages as `package/module.py`; "" for any other."""
    package = next((each for each in _PACKAGES if path.startswith(each + os.sep)), "")
    return os.path.relpath(path, os.path.dirname(package)) if package else ""


def _caller(frame: FrameType) -> tuple[str, bool]:
    """Return the calling function of the project, and True if the event loop called it."""
    above = frame.f_back
    by_loop = False
    while above is not None:
        code = above.f_code
        if name := _named(code.co_filename):
            return f"{name}:{code.co_qualname}", by_loop
        by_loop = by_loop or (code.co_qualname == "Handle._run")
        above = above.f_back
    return "-", by_loop


def _in_task() -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio.current_task() is not None


def _note(frame: FrameType, event: str, _: object) -> None:
    code = frame.f_code
    if event != "call" or not code.co_flags & CO_OPTIMIZED or not (name := _named(code.co_filename)):
        return
    caller, by_loop = _caller(frame)
    if by_loop and not _in_task():
        _cause.set(next(_causes))
    _write(f"{threading.get_ident()}\t{_cause.get()}\t{caller}\t{name}\t{code.co_qualname}")


def _note_opening(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or not isinstance(arguments[0], str):
        return
    name = _named(arguments[0])
    if not name or name.endswith((".py", ".pyc", ".bin")) or not os.path.isfile(arguments[0]):
        return
    _write(f"0\t0\t{_asked_by(sys._getframe(1))}\t{name}\t<open>")


def _note_link(event: str, arguments: tuple[object, ...]) -> None:
    if event == "os.link" and str(arguments[1]).endswith(".md"):
        _write(f"0\t0\t{_asked_by(sys._getframe(1))}\t{arguments[1]}\t<link>")


def _asked_by(frame: FrameType) -> str:
    asking: FrameType | None = frame
    while asking is not None:
        name = _named(asking.f_code.co_filename)
        if name and not name.endswith("__init__.py"):
            return f"{name}:{asking.f_code.co_qualname}"
        asking = asking.f_back
    return "-"


def _write(line: str) -> None:
    os.write(_file(), f"{time.monotonic_ns()}\t{line}\n".encode())


@cache
def _file() -> int:
    return os.open(f"{os.environ['HOUSE_TO']}/{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


if _PACKAGES:
    sys.addaudithook(_note_opening)
    sys.addaudithook(_note_link)
    threading.setprofile(_note)
    sys.setprofile(_note)
