"""`forged` as it is, but for calls of the system that fail, or are the last, on order (`orders`).

Started as `python -m tests.faults.faulty serve`. A spawned worker imports its parent's main module again,
under another name, so it is wrapped as well. Of forged nothing is changed but the limit on calls, which is
lifted: what is wrapped is `os`, what SQLite commits, what `multiprocessing` sends and receives, and
descriptors that pass through a socket.
"""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import re
import signal
import socket
import sqlite3
import struct
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.queues import Queue

import msgspec

from forged.__main__ import main
from tests.faults.orders import ORDERS, Fault, Fired, note

_real_link, _real_unlink, _real_fsync, _real_replace = os.link, os.unlink, os.fsync, os.replace
_real_rename = os.rename
_real_truncate, _real_give, _real_receive = os.ftruncate, socket.send_fds, socket.recv_fds
_real_send, _real_get, _real_connect = Connection.send_bytes, Queue.get, sqlite3.connect
# As SQLite says it.
_SAID = {
    "EIO": ("SQLITE_IOERR_FSYNC", "disk I/O error"),
    "ENOSPC": ("SQLITE_FULL", "disk is full"),
    "EROFS": ("SQLITE_READONLY", "attempt to write a readonly database"),
}


class _Orders:
    """The orders for this process."""

    def __init__(self, process: str, directory: str) -> None:
        self._process = process
        self._directory = directory
        self._met: Counter[str] = Counter()
        self._known: dict[str, Fault] = {}

    def wrap(self, call: str, real: Callable, about: Callable[..., str]) -> Callable:
        def wrapped(*args, **kwargs):
            self.meet(call, about(*args, **kwargs), after=False)
            result = real(*args, **kwargs)
            self.meet(call, about(*args, **kwargs), after=True)
            return result

        return wrapped

    def meet(self, call: str, about: str, *, after: bool, half: Callable[[], object] | None = None) -> None:
        """Let a fault happen if one was ordered for here."""
        for name in os.listdir(self._directory):
            fault = self._fault(name)
            if fault is None or (fault.call, fault.after) != (call, after):
                continue
            if not re.search(fault.about, about, re.DOTALL):
                continue
            self._met[name] += 1
            if self._met[name] >= fault.at and self._claimed(name, fault):
                note(self._directory, Fired(name, os.getpid(), time.monotonic()))
                _happen(fault.does, half)

    def _fault(self, name: str) -> Fault | None:
        if not name.endswith(".order"):
            return None
        if name not in self._known:
            with contextlib.suppress(FileNotFoundError), open(f"{self._directory}/{name}", "rb") as file:
                self._known[name] = msgspec.json.decode(file.read(), type=Fault)
        fault = self._known.get(name)
        return fault if fault is not None and fault.process == self._process else None

    def _claimed(self, name: str, fault: Fault) -> bool:
        if fault.lasting:
            return True
        try:
            _real_unlink(f"{self._directory}/{name}")
        except FileNotFoundError:
            return False
        return True


def _happen(does: str, half: Callable[[], object] | None) -> None:
    match does:
        case "kill-daemon":
            parent = multiprocessing.parent_process()
            os.kill(os.getpid() if parent is None else parent.pid, signal.SIGKILL)
            signal.pause()  # the end of the daemon is ours
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "half":
            assert half is not None
            half()
            os.kill(os.getpid(), signal.SIGKILL)
        case name:
            code = getattr(errno, name)
            raise OSError(code, os.strerror(code))


# --- what a call is about ---------------------------------------------------------------------------------


def _target(_: str, name: str, *, dst_dir_fd: int | None = None, **__: object) -> str:
    return _path(name, dst_dir_fd)


def _path(name: str, dir_fd: int | None = None) -> str:
    return name if dir_fd is None else os.path.join(_opened(dir_fd), name)


def _opened(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


def install(process: str, directory: str) -> None:
    orders = _Orders(process, directory)
    os.link = orders.wrap("link", _real_link, _target)
    os.replace = orders.wrap("replace", _real_replace, _target)
    os.rename = orders.wrap("rename", _real_rename, _target)
    os.unlink = orders.wrap("unlink", _real_unlink, lambda path, *, dir_fd=None: _path(path, dir_fd))
    os.fsync = orders.wrap("fsync", _real_fsync, _opened)
    os.ftruncate = orders.wrap("truncate", _real_truncate, lambda descriptor, _: _opened(descriptor))
    socket.send_fds = orders.wrap("give", _real_give, lambda *args: f"{len(args[2])}")

    def recv_fds(*args):
        orders.meet("receive", "", after=False)
        received = _real_receive(*args)
        orders.meet("receive", f"{len(received[1])}", after=True)
        return received

    def send_bytes(self, data, *args):
        about = bytes(data).decode("latin-1")

        def half() -> None:
            whole = struct.pack("!i", len(data)) + bytes(data)
            os.write(self.fileno(), whole[: len(whole) // 2])

        orders.meet("send", about, after=False, half=half)
        _real_send(self, data, *args)
        orders.meet("send", about, after=True)

    def get(self, *args, **kwargs):
        data = _real_get(self, *args, **kwargs)
        orders.meet("get", data.decode("latin-1"), after=True)
        return data

    class Database(sqlite3.Connection):
        """A connection whose transactions can be met when they are committed."""

        said: tuple[str, ...] = ()

        def execute(self, sql, parameters=(), /):
            if sql != "COMMIT":
                self.said = () if sql.startswith("BEGIN") else (*self.said, sql)
                return super().execute(sql, parameters)
            about = "; ".join(self.said)
            try:
                orders.meet("commit", about, after=False)
            except OSError as failure:
                name, words = _SAID[errno.errorcode[failure.errno]]
                error = sqlite3.OperationalError(words)
                error.sqlite_errorname = name
                raise error from None
            done = super().execute(sql)
            orders.meet("commit", about, after=True)
            return done

    socket.recv_fds = recv_fds
    Connection.send_bytes = send_bytes
    Queue.get = get
    sqlite3.connect = lambda *args, **options: _real_connect(*args, **options, factory=Database)


if ORDERS in os.environ:
    install("daemon" if __name__ == "__main__" else "worker", os.environ[ORDERS])

if __name__ == "__main__":
    from forged.daemon import build  # not above: each of a thousand workers would import the whole daemon

    build.CALLS_PER_MINUTE = 0
    main()
