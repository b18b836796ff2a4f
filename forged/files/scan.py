"""One pass over the directories of a root: what is there, as a frozen snapshot.

The files are the interface: people, git, the Go program and any number of daemons change them at any time.
A scan compares change keys (inode, size, mtime, ctime) and opens only what changed. Whatever is odd about an
entry is a `Problem` in the snapshot, never an exception and never a wait.

With the names of the files that changed, only they are looked at: a watcher's word makes an edit cheap in a
large store. It is only a hint, so scans of everything go on beside it.

A file that is being saved in place is not a deletion: as long as it was good before and is still moving, its
last good memory stays and the snapshot says `unsettled`, so that the caller looks again soon.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import re
import stat
from collections.abc import Callable
from typing import TypeAlias

from forged.errors import MemoryFormatError, StoreError
from forged.files import atomic
from forged.files.frontmatter import MAX_FILE_BYTES, read
from forged.files.pace import Pace
from forged.files.snapshot import Key, Listing, Seen, Snapshot, edited, made, printable

logger = logging.getLogger(__name__)

QUIET_S = 0.25  # a file saved in place is read once it has not moved for so long
GRACE_S = 2.0  # a file that was good and is not any more keeps its last good memory for so long
_BATCH = 64
_UNDECODED = re.compile("[\ud800-\udfff]")
_NEVER: Key = (0, 0, 0, 0)  # of a file to be read again at the next scan
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def scan(
    top: str,
    folders: tuple[str, ...],
    scope: str,
    previous: Snapshot | None,
    files: frozenset[str] = frozenset(),
    *,
    pause: Callable[[], None],
    clock: Callable[[], float],
) -> Snapshot:
    """Look at every entry and read what changed since `previous`, which is returned if nothing did.

    `folders` are relative to the absolute `top`; the earlier one wins between equals. `pause` is called after
    every 0.25 ms of work, `clock` gives seconds since the epoch. Never raises for what is on disk.

    `files`, if there are any, are paths of files in the folders; everything else is taken to be as it was.
    """
    before = {listing.path: listing for listing in previous.listings} if previous else {}
    breathe = Pace(pause).breathe
    one = _Pass(scope, breathe, clock, files if previous is not None else frozenset())
    listings = tuple(
        one.directory(top, folder, before.get(path) or Listing(path, {}))
        for folder in folders
        for path in (os.path.join(top, folder),)
    )
    if previous is None:
        return made(listings, None, unsettled=one.unsettled, breathe=breathe)
    same = all(new is old for new, old in zip(listings, previous.listings, strict=True))
    if same and previous.unsettled == one.unsettled:
        return previous
    few = edited(previous, listings, files, unsettled=one.unsettled) if files else None
    return few or made(listings, previous, unsettled=one.unsettled, breathe=breathe)


class _Named:
    """An entry of a directory whose name is known, in place of what `os.scandir` would give."""

    def __init__(self, directory: int, name: str) -> None:
        self.name = name
        self._directory = directory

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        return os.stat(self.name, dir_fd=self._directory, follow_symlinks=follow_symlinks)

    def is_file(self, *, follow_symlinks: bool) -> bool:
        return stat.S_ISREG(self.stat(follow_symlinks=follow_symlinks).st_mode)


Entry: TypeAlias = "os.DirEntry[str] | _Named"


class _Pass:
    """One pass over the directories of a root."""

    def __init__(
        self, scope: str, breathe: Callable[[], None], clock: Callable[[], float], files: frozenset[str]
    ) -> None:
        self.unsettled = False
        self._scope = scope
        self._files = files
        self._clock = clock
        self._breathe = breathe
        self._inodes: set[tuple[int, int]] = set()

    def directory(self, top: str, folder: str, before: Listing) -> Listing:
        """Read one directory; `before` itself if nothing in it changed."""
        try:
            directory = atomic.open_inside(top, folder)
        except FileNotFoundError:
            return _renewed(before, {}, "")
        except StoreError as error:
            return _renewed(before, {}, str(error))
        except OSError as error:
            # Unreadable for now is not deleted; something else in its place is.
            files = {} if error.errno in {errno.ENOTDIR, errno.ELOOP} else before.files
            return _renewed(before, files, f"cannot be opened: {atomic.why(error)}")
        try:
            status = os.fstat(directory)
            if (status.st_dev, status.st_ino) in self._inodes:  # the second folder is a link to the first
                return _renewed(before, {}, "")
            self._inodes.add((status.st_dev, status.st_ino))
            return self._entries(directory, before)
        except OSError as error:
            return _renewed(before, before.files, f"cannot be listed: {atomic.why(error)}")
        finally:
            os.close(directory)

    def _entries(self, directory: int, before: Listing) -> Listing:
        if self._files and not before.reason:
            files, fresh = self._compare_some(directory, before)
        else:
            files, fresh = self._compare(directory, before.files)
        for entry in fresh:
            name = entry.name
            seen = self._look(directory, entry, before.files.get(name))
            if seen is not None:
                files[name] = seen
                if seen.reason:
                    # The reason, which status shows, may quote the file.
                    logger.debug("questionable memory file=%s", printable(name))
            self._breathe()
        held = all(files.get(entry.name) is before.files.get(entry.name) for entry in fresh)
        return _renewed(before, before.files if held and len(files) == len(before.files) else files, "")

    def _compare_some(self, directory: int, before: Listing) -> tuple[dict[str, Seen], list[Entry]]:
        """Take everything over but those of the files in question that have changed."""
        same = before.files.copy()
        fresh: list[Entry] = []
        for path in sorted(self._files):
            folder, _, name = path.rpartition("/")
            if folder == before.path:
                entry, seen = _Named(directory, name), same.pop(name, None)
                if seen is not None and seen.key == _key_of(entry):
                    same[name] = seen
                else:
                    fresh.append(entry)
        return same, fresh

    def _compare(self, directory: int, known: dict[str, Seen]) -> tuple[dict[str, Seen], list[Entry]]:
        """Split the entries into those seen before and those to look at. The loop is the cost of a rescan."""
        same: dict[str, Seen] = {}
        fresh: list[Entry] = []
        with os.scandir(directory) as entries:
            while batch := list(itertools.islice(entries, _BATCH)):
                for entry in batch:
                    name = entry.name
                    if name[-3:] != ".md" or name[0] == ".":
                        continue
                    seen = known.get(name)
                    if seen is not None and seen.key == _key_of(entry):
                        same[name] = seen
                    else:
                        fresh.append(entry)
                self._breathe()
        return same, fresh

    def _look(self, directory: int, entry: Entry, old: Seen | None) -> Seen | None:
        """Judge one changed entry; None if it is gone."""
        try:
            if not entry.is_file(follow_symlinks=False):  # not opened: a device may act on that
                status, data = entry.stat(follow_symlinks=False), b""
            elif old is not None and self._is_being_saved(entry.stat(follow_symlinks=False), old):
                return self._hold(old)
            else:
                status, data = _read(directory, entry.name)
        except FileNotFoundError:
            return None
        except OSError as error:
            return _unreadable(entry, error)
        reason = _refusal(entry.name, status)
        if reason:
            return Seen(_key(status), None, reason)
        if len(data) != status.st_size:
            return self._hold(old or Seen(_NEVER, None, "is being written"))
        return self._judge(entry.name, status, data, old)

    def _judge(self, name: str, status: os.stat_result, data: bytes, old: Seen | None) -> Seen:
        try:
            reading = read(data, self._scope, name[:-3])
        except MemoryFormatError as error:
            if old is not None and old.memory is not None and self._age(status) < GRACE_S:
                return self._hold(old)
            return Seen(_key(status), None, str(error))
        memory = reading.memory
        if old is not None and old.memory == memory:
            memory = old.memory
        return Seen(_key(status), memory, "; ".join(reading.notes))

    def _is_being_saved(self, status: os.stat_result, old: Seen) -> bool:
        """Whether a good file's own bytes changed just now; a rename over it is whole at once."""
        inode, size, mtime, _ = old.key
        moved = status.st_ino == inode and (status.st_size, status.st_mtime_ns) != (size, mtime)
        return moved and old.memory is not None and self._age(status) < QUIET_S

    def _age(self, status: os.stat_result) -> float:
        """Seconds since the last change; a time in the future counts like one in the past."""
        return abs(self._clock() - status.st_mtime)

    def _hold(self, old: Seen) -> Seen:
        self.unsettled = True
        return old


def _renewed(before: Listing, files: dict[str, Seen], reason: str) -> Listing:
    if reason == before.reason and (files is before.files or not (files or before.files)):
        return before
    return Listing(before.path, files, reason)


def _key(status: os.stat_result) -> Key:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _key_of(entry: Entry) -> Key | None:
    try:
        return _key(entry.stat(follow_symlinks=False))
    except FileNotFoundError:
        return None


def _refusal(name: str, status: os.stat_result) -> str:
    """Say why an entry is not read; nothing if it is."""
    if not stat.S_ISREG(status.st_mode):
        link = stat.S_ISLNK(status.st_mode)
        return "is a symbolic link; put the file itself here" if link else "is not a regular file"
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    if status.st_size > MAX_FILE_BYTES:
        return f"larger than {MAX_FILE_BYTES // 1024} KiB; split it into smaller memories"
    if not name.isascii() and _UNDECODED.search(name):
        return "its name is not UTF-8; rename it"
    return ""


def _read(directory: int, name: str) -> tuple[os.stat_result, bytes]:
    """Read a file that may have become anything since it was listed; at most one byte more than it had."""
    fd = os.open(name, _READ_FLAGS, dir_fd=directory)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return status, b""
        data = os.read(fd, status.st_size + 1)
        while len(data) < status.st_size and (more := os.read(fd, status.st_size + 1 - len(data))):
            data += more
        return status, data
    finally:
        os.close(fd)


def _unreadable(entry: Entry, error: OSError) -> Seen:
    """Keep what only its owner can change until the key does; try anything else (too many files) again."""
    lasting = error.errno in {errno.EACCES, errno.EPERM, errno.ELOOP}
    key = _key_of(entry) if lasting else None
    return Seen(key or _NEVER, None, f"cannot be read: {atomic.why(error)}")
