"""Linux' inotify by hand: watches on single directories, and their events when they are asked for.

In: paths of directories. Out: `Event`s, read without waiting; the descriptor is readable when there are some,
so that an event loop can wait for it and nothing wakes up in vain. watchfiles was left for this: it looks for
events in a loop of its own, 20 to 440 times a second, and one file name that is no text ends all its watches.

Raises OSError; `Inotify()` also where the system has no inotify. `watch` and `unwatch` walk a path and may
block on a dead disk: call them in a thread. `read` may be called in another one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator

import msgspec

MODIFY, ATTRIB, CLOSE_WRITE = 0x2, 0x4, 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF, UNMOUNT, OVERFLOW, IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
ENTRIES = MOVED_FROM | MOVED_TO | CREATE | DELETE
"""Something of that name came to the directory or left it."""
GONE = DELETE_SELF | MOVE_SELF | UNMOUNT | IGNORED
"""The directory itself is no longer where it was, or no longer watched."""

_ONLY_DIRECTORIES, _ADD_TO_MASK = 0x0100_0000, 0x2000_0000
_HEAD = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_READ_BYTES = 16 * 1024
# Not there, or nothing that we may look into.
_NO_DIRECTORY = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP})
_MEANS = {
    errno.ENOSPC: "too many directories are watched (fs.inotify.max_user_watches)",
    errno.EMFILE: "Too many open files, or fs.inotify.max_user_instances",
    errno.ENOSYS: "this system has no inotify",
}


class Event(msgspec.Struct, frozen=True):
    """`watch` is -1 when events were lost (OVERFLOW); `name` is of the entry, empty for the directory."""

    watch: int
    mask: int
    name: bytes


class Inotify:
    """One instance of the kernel's; holds a descriptor until `close`."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._library, "inotify_init1"):
            raise _error(errno.ENOSYS)
        self.descriptor = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise _error(ctypes.get_errno())

    def watch(self, path: str, mask: int) -> int | None:
        """Number of the watch on a directory; None if there is none that can be read.

        It belongs to the directory and not to the path: the same as long as the same directory stands there,
        also by two paths, and never used again.
        """
        flags = mask | _ONLY_DIRECTORIES | _ADD_TO_MASK
        number: int = self._library.inotify_add_watch(self.descriptor, os.fsencode(path), flags)
        if number >= 0:
            return number
        code = ctypes.get_errno()
        if code in _NO_DIRECTORY:
            return None
        raise _error(code)

    def unwatch(self, number: int) -> None:
        self._library.inotify_rm_watch(self.descriptor, number)  # fails for a directory that is gone: as well

    def read(self) -> tuple[Event, ...]:
        """Some of the events that wait, some hundred at most."""
        try:
            return tuple(_events(os.read(self.descriptor, _READ_BYTES)))
        except BlockingIOError:
            return ()

    def close(self) -> None:
        """End all watches, which can take the kernel a tenth of a second."""
        os.close(self.descriptor)


def _events(data: bytes) -> Iterator[Event]:
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        yield Event(watch, mask, data[at : at + length].rstrip(b"\0"))
        at += length


def _error(code: int) -> OSError:
    return OSError(code, _MEANS.get(code) or os.strerror(code))
