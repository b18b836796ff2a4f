"""Record of the daemon that has `state.db` open, in a file that is locked while it lives.

A second daemon reads it to explain to the person why `state.db` is in use. The lock shows if the recorded
daemon is alive. SQLite's own lock decides who may use `state.db`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import stat

SUFFIX = ".holder"
"""Suffix of the record's name, after the name of the file that it describes."""


_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST = 8192


class Holder:
    """Locked record that this daemon has `state.db` open; for the thread of the database."""

    def __init__(self, path: str, address: str) -> None:
        """Take the paths of the file and of this daemon's socket, or ""; nothing is touched yet."""
        self._path = path + SUFFIX
        self._address = address
        self._descriptor = -1

    def sign(self) -> None:
        """Write and lock the record of this daemon, unless done before; ignore failures."""
        if self._descriptor >= 0:
            return
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
            try:
                self._write(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            self._descriptor = descriptor

    def release(self) -> None:
        """Remove this daemon's record, then unlock it, so as to never remove another daemon's."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, descriptor: int) -> None:
        """Lock the open file and write the record. Raises OSError if it is not this user's or locked."""
        if not _is_ours(descriptor):
            raise OSError(f"{self._path} is not a file of yours")
        os.fchmod(descriptor, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        record = {"pid": os.getpid(), "socket": self._address, "place": _place(), "host": os.uname().nodename}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(record).encode(), 0)


def in_use_message(path: str) -> str:
    """Return a sentence on which daemon has the file at `path` open, as far as recorded, and the remedy."""
    record = _read_record(path + SUFFIX)
    if record is None:
        return (
            f"another program has {path} open, a daemon of yours at another address or a backup: end it; "
            "this daemon tries again every 5 s"
        )
    pid, address = record["pid"], record["socket"]
    named = ", ".join((f"pid {pid}", *([f"socket {address}"] if address else [])))
    sentence = f"another daemon of yours ({named}) has {path} open"
    if record["place"] != _place():
        return (
            f"{sentence}; it runs in another container or machine ({record['host']}): end it there with "
            "`forgectl stop`, or give this one a state of its own as `forgectl docs containers` says"
        )
    if not address:
        return sentence
    ended = f"`FORGED_SOCKET={shlex.quote(address)} forgectl stop`"
    return f"{sentence}; set FORGED_SOCKET to that socket here, or end it: {ended}"


def _read_record(path: str) -> dict[str, str] | None:
    """Return the record of a living daemon that holds the file; None without one, or if it is invalid."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError:
        return None
    try:
        if not _is_ours(descriptor) or _is_free(descriptor):
            return None
        found = json.loads(os.pread(descriptor, _LONGEST, 0))
        record = {name: str(found[name]) for name in ("pid", "socket", "place", "host")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    finally:
        os.close(descriptor)
    return record if all(map(str.isprintable, record.values())) else None


def _is_free(descriptor: int) -> bool:
    """Return True if no living daemon holds the lock of the record."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_ours(descriptor: int) -> bool:
    """Return True for a regular file of this user without other hard links."""
    found = os.fstat(descriptor)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1


def _place() -> str:
    """Return the scope in which a pid and a path are unique: this boot, machine and namespaces."""
    sentence = [os.uname().nodename] if not os.path.exists("/proc/self/ns") else []
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        sentence.append(file.read().strip())
    for kind in ("pid", "mnt"):
        with contextlib.suppress(OSError):
            sentence.append(os.readlink(f"/proc/self/ns/{kind}"))
    return " ".join(sentence)
