"""Changes in a root's folders since the last look, from inotify, without listing the folders.

`take` returns the paths of files that were created, changed, moved or removed since the last call. It
returns None if changes are unknown; then a full scan is needed. The kernel records an event before the
causing call returns; on network file systems changes are always unknown. All roots of a process share one
instance of inotify, because a user has 128. `watchfiles` was rejected: it collects in a thread and delivers
later.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

_CREATE, _MOVED_TO = 0x100, 0x80
# modify, attributes, moved from, delete; the folder itself deleted or moved; folders only
_WANTED = 0x2 | 0x4 | 0x40 | _MOVED_TO | _CREATE | 0x200 | 0x400 | 0x800 | 0x01000000
_ITSELF_GONE = 0x400
_OVERFLOW, _IGNORED = 0x4000, 0x8000
# unmounted, watch gone; the folder itself deleted or moved
_LOST = 0x2000 | _IGNORED | 0x400 | 0x800
_MOST_PENDING = 1024  # pending events of one root; more need a full scan
_HEAD = struct.Struct("iIII")
_READ_BYTES = 1 << 16
# ext2 to 4, xfs, btrfs, tmpfs, f2fs, zfs, bcachefs, overlay
_LOCAL = {0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0x2FC12FC1, 0xCA451A4E, 0x794C7630}

_NO_INSTANCE = "no inotify instance is left (fs.inotify.max_user_instances), or no file descriptor: used up"
_NO_WATCH = "this user's inotify watches (fs.inotify.max_user_watches) are used up"

_Place = tuple[int, int]


class DirectoryEvents:
    """Tells by inotify which memory files in some folders changed since the last `take`."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = tuple(folders)
        self._places: tuple[_Place | None, ...] | None = None  # the watched folders
        self._pending = _Pending()
        weakref.finalize(self, _KERNEL.leave, self._pending)

    def take(self, own: frozenset[str] = frozenset()) -> frozenset[str] | None:
        """Return paths of memory files with an event since the last call; None if changes are unknown.

        Events of the creation of the files `own` are left out; the caller knows them.
        """
        places = tuple(_device_and_inode(folder) for folder in self._folders)
        if places != self._places:
            self._watch(places)
            return None
        events = _KERNEL.take(self._pending)
        if events is None:
            self._places = None  # the next look follows this one
            return None
        expected, found = set(own), set[str]()
        for folder, mask, name in events:
            if name.startswith(b"."):
                continue
            path = f"{folder}/{os.fsdecode(name)}"
            if mask in (_CREATE, _MOVED_TO) and path in expected:
                expected.discard(path)
            else:
                found.add(path)
        return frozenset(found)

    def _watch(self, places: tuple[_Place | None, ...]) -> None:
        """Watch the folders that exist now, unless one is on a file system with incomplete events."""
        there = [folder for folder, place in zip(self._folders, places, strict=True) if place is not None]
        is_known = _KERNEL.watch(self._pending, there if all(map(_is_local, there)) else None)
        self._places = places if is_known else None


class _Pending:
    """Events not taken yet of one `DirectoryEvents` (folder, mask, name), and the watches of its folders."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, bytes]] = []
        self.is_lost = False
        self.watches: set[int] = set()


class _SharedInotify:
    """One inotify instance, shared by every `DirectoryEvents` of this process: a user may have 128.

    A folder has one watch for all users of it. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fd = -1
        self._waiting: dict[int, dict[_Pending, str]] = {}  # by watch: its users, and the folder of each
        self._refused: dict[
            _Pending, tuple[Sequence[str], str]
        ] = {}  # folders that could not be watched, with the reason
        self._left: deque[_Pending] = deque()

    def watch(self, pending: _Pending, folders: Sequence[str] | None) -> bool:
        """Collect events of exactly these folders from now on; return False if that is impossible.

        None means folders on a file system with incomplete events.
        """
        with self._locked():
            self._remove_watches(pending)
            pending.events, pending.is_lost = [], False
            libc = _libc()
            if libc is None or folders is None:
                return False
            if self._fd < 0:
                self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if self._fd < 0:
                self._refused[pending] = folders, _NO_INSTANCE
                return False
            self._dispatch()
            for folder in folders:
                watch = libc.inotify_add_watch(self._fd, os.fsencode(folder), _WANTED)
                if watch < 0:
                    is_full = ctypes.get_errno() == errno.ENOSPC
                    self._remove_watches(pending)
                    if is_full:
                        self._refused[pending] = folders, _NO_WATCH
                    return False
                self._waiting.setdefault(watch, {})[pending] = folder
                pending.watches.add(watch)
            return True

    def take(self, pending: _Pending) -> list[tuple[str, int, bytes]] | None:
        """Return the events of one `DirectoryEvents` since the last call; None if some are lost."""
        with self._locked():
            self._dispatch()
            events, pending.events = pending.events, []
            return None if pending.is_lost else events

    def leave(self, pending: _Pending) -> None:
        """Release the watches of one `DirectoryEvents`; safe in a garbage collection at any time."""
        self._left.append(pending)
        if self._lock.acquire(blocking=False):
            self._release()

    def unwatched_reason(self, folders: Iterable[str]) -> str:
        """Return the kernel limit that kept any of these folders from being watched, or ""."""
        wanted, refused = frozenset(folders), tuple(self._refused.values())
        return next((why for each, why in refused if not wanted.isdisjoint(each)), "")

    def drop_lost_watches(self) -> None:
        """Drop the watches of removed folders, which the kernel has ended."""
        with self._locked():
            self._dispatch()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock during the block; afterwards also release watches that were left meanwhile."""
        self._lock.acquire()
        try:
            yield
        finally:
            self._release()

    def _release(self) -> None:
        """Release the lock, once all watches that were left meanwhile are removed."""
        while True:
            while self._left:
                self._remove_watches(self._left.popleft())
            if self._fd >= 0 and not self._waiting:
                os.close(self._fd)
                self._fd = -1
            self._lock.release()
            if not self._left or not self._lock.acquire(blocking=False):
                return

    def _remove_watches(self, pending: _Pending) -> None:
        """Remove watches of one `DirectoryEvents` that no other shares, and its refusal reason."""
        libc = _libc()
        self._refused.pop(pending, None)
        for watch in pending.watches:
            others = self._waiting.get(watch, {})
            others.pop(pending, None)
            if not others and self._waiting.pop(watch, None) is not None and libc is not None:
                libc.inotify_rm_watch(self._fd, watch)
        pending.watches = set()

    def _dispatch(self) -> None:
        """Read kernel events; add those of `.md` files to a `DirectoryEvents`, or mark a loss."""
        for watch, mask, name in self._read_events():
            if mask & _OVERFLOW:
                for pending in {each for waiting in self._waiting.values() for each in waiting}:
                    _mark_lost(pending)
                continue
            for pending, folder in self._waiting.get(watch, {}).items():
                if mask & _LOST or len(pending.events) >= _MOST_PENDING:
                    _mark_lost(pending)
                elif not pending.is_lost and name.endswith(b".md"):
                    pending.events.append((folder, mask, name))
            if mask & _IGNORED:
                for pending in self._waiting.pop(watch, {}):
                    pending.watches.discard(watch)

    def _read_events(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield watch, mask and name of each pending event of the inotify instance."""
        while self._fd >= 0:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size + length
                yield watch, mask, data[at - length : at].rstrip(b"\0")


def _mark_lost(pending: _Pending) -> None:
    """Drop the pending events of one `DirectoryEvents` and mark them as lost: a full scan is needed."""
    pending.events, pending.is_lost = [], True


_KERNEL = _SharedInotify()
drop_lost_watches = _KERNEL.drop_lost_watches
unwatched_reason = _KERNEL.unwatched_reason


def count_inotify_instances() -> int:
    """Return how many inotify instances this process has; 0 if that is unknown."""
    held = 0
    with contextlib.suppress(OSError):
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                held += os.readlink(f"/proc/self/fd/{number}") == "anon_inode:inotify"
    return held


def watch_refusal(folders: Iterable[str]) -> str:
    """Return why the kernel cannot watch all these folders at once; "" if it can, or without inotify.

    A watcher takes three descriptors: an instance of inotify, one of epoll and an eventfd.
    """
    libc = _libc()
    if libc is None:
        return ""
    held = [libc.inotify_init1(os.O_CLOEXEC)]
    if held[0] < 0:
        return _NO_INSTANCE
    try:
        held.append(os.eventfd(0))
        held.append(os.eventfd(0))
        is_full = any(
            libc.inotify_add_watch(held[0], os.fsencode(folder), _ITSELF_GONE) < 0
            and ctypes.get_errno() == errno.ENOSPC
            for folder in folders
        )
    except OSError:
        return _NO_INSTANCE
    finally:
        for descriptor in held:
            os.close(descriptor)
    return _NO_WATCH if is_full else ""


def _device_and_inode(folder: str) -> _Place | None:
    """Return device and inode of a folder, or None if it cannot be read."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_local(folder: str) -> bool:
    """Return True if a folder is on a local file system with complete events."""
    libc, buffer = _libc(), ctypes.create_string_buffer(256)
    if libc is None or libc.statfs(os.fsencode(folder), buffer):
        return False
    (kind,) = struct.unpack_from("l", buffer)
    return kind & 0xFFFFFFFF in _LOCAL


@cache
def _libc() -> ctypes.CDLL | None:
    """Return the C library if it has inotify, else None."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    return libc if hasattr(libc, "inotify_init1") else None
