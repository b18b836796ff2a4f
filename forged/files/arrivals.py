"""What happened in a root's folders since the last look, told by the kernel and without reading them.

Goes in: the folders. Comes out of `taken`: the paths of the files that were made, changed, moved or removed
since it was called last, or None where nobody knows: then everything has to be looked at, and that look sees
all that is not told later. Nothing is raised.

The kernel notes an event before the call that caused it returns, so what an editor saved a moment ago is
told. Of network file systems it tells only what this machine does: these, and systems without inotify, are
never known. `watchfiles` was rejected: it collects in a thread of its own and hands over later.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import weakref
from collections.abc import Iterator, Sequence
from functools import cache

_CREATE, _MOVED_TO = 0x100, 0x80
# modify, attributes, moved from, delete; the folder itself deleted or moved; directories alone
_WANTED = 0x2 | 0x4 | 0x40 | _MOVED_TO | _CREATE | 0x200 | 0x400 | 0x800 | 0x01000000
# unmounted, queue too long, watch gone; the folder itself deleted or moved
_LOST = 0x2000 | 0x4000 | 0x8000 | 0x400 | 0x800
_HEAD = struct.Struct("iIII")
_READ_BYTES = 1 << 16
# ext2 to 4, xfs, btrfs, tmpfs, f2fs, zfs, bcachefs, overlay
_LOCAL = {0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0x2FC12FC1, 0xCA451A4E, 0x794C7630}

_Place = tuple[int, int]


class Arrivals:
    """The events of some folders, which need not be there."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = tuple(folders)
        self._fd: int | None = None
        self._close: weakref.finalize[[int], Arrivals] | None = None
        self._places: tuple[_Place | None, ...] | None = None  # of the folders, as they are watched
        self._names: dict[int, str] = {}

    def taken(self, own: frozenset[str] = frozenset()) -> frozenset[str] | None:
        """Paths of memory files with an event since the last call; None if all has to be looked at.

        Left out is that the files `own` came to be, which the caller knows.
        """
        places = tuple(_place(folder) for folder in self._folders)
        if self._fd is None or places != self._places:
            self._watch(places)
            return None
        expected, found = set(own), set[str]()
        for watch, mask, name in self._events(self._fd):
            if mask & _LOST:
                self._places = None  # once this look is over there is another
                return None
            if not name.endswith(b".md") or name.startswith(b"."):
                continue
            path = f"{self._names.get(watch, '')}/{os.fsdecode(name)}"
            if mask in (_CREATE, _MOVED_TO) and path in expected:
                expected.discard(path)
            else:
                found.add(path)
        return frozenset(found)

    def _watch(self, places: tuple[_Place | None, ...]) -> None:
        """Begin anew with the folders that are there, if each can be watched."""
        if self._close is not None:
            self._close()
        self._fd = self._close = self._places = None
        there = [folder for folder, place in zip(self._folders, places, strict=True) if place is not None]
        libc = _libc()
        if libc is None or not all(map(_is_local, there)):
            return
        fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if fd < 0:
            return
        self._close = weakref.finalize(self, os.close, fd)
        watches = {libc.inotify_add_watch(fd, os.fsencode(folder), _WANTED): folder for folder in there}
        if -1 not in watches:
            self._fd, self._places, self._names = fd, places, watches

    def _events(self, fd: int) -> Iterator[tuple[int, int, bytes]]:
        while True:
            try:
                data = os.read(fd, _READ_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size + length
                yield watch, mask, data[at - length : at].rstrip(b"\0")


def _place(folder: str) -> _Place | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_local(folder: str) -> bool:
    libc, buffer = _libc(), ctypes.create_string_buffer(256)
    if libc is None or libc.statfs(os.fsencode(folder), buffer):
        return False
    (kind,) = struct.unpack_from("l", buffer)
    return kind & 0xFFFFFFFF in _LOCAL


@cache
def _libc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    return libc if hasattr(libc, "inotify_init1") else None
