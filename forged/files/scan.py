"""Scan the directories of a root into a snapshot of its current files.

Takes a root and the last snapshot; returns the same snapshot if nothing changed, else a new one. Problems of
entries are values in the snapshot; nothing is raised. A scan compares change keys (inode, size, mtime, ctime)
and opens only changed files. Given the names of changed files, it looks at these alone, with the same result,
as a test proves. While a valid file is being saved in place, its last memory stays, and the snapshot is
`unsettled`: the caller scans again soon.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import logging
import os
import re
import stat
import time
from collections.abc import Callable

from forged.errors import InConflict, MemoryFormatError, NoText, StoreError
from forged.files import atomic
from forged.files.frontmatter import MAX_FILE_BYTES, read
from forged.files.roots import Root, open_folder
from forged.files.snapshot import FileEntry, Key, Listing, Snapshot, from_changes, from_scan, printable

logger = logging.getLogger(__name__)
QUIET_S = 0.25  # a file saved in place is read after it was unchanged for this time
GRACE_S = 2.0  # an invalid file that was valid keeps its last memory for this time
_BATCH = 64
_UNDECODED = re.compile("[\ud800-\udfff]")
_NEVER: Key = (0, 0, 0, 0)  # change key of a file to be read again at the next scan
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def scan(
    root: Root,
    previous: Snapshot | None = None,
    files: frozenset[str] = frozenset(),
    *,
    pause: Callable[[], None] | None = None,
    clock: Callable[[], float] = time.time,
) -> Snapshot:
    """Scan a root's folders into a snapshot, `previous` if unchanged; only changed files are read.

    Args:
        root: its first folder wins between files that are equally new.
        previous: the last snapshot of this root, if there is one.
        files: paths in the folders; if given, all other files count as unchanged.
        pause: called after every 0.25 ms of work, for a responsive event loop.
        clock: seconds since the epoch.
    """
    before = {listing.path: listing for listing in previous.listings} if previous else {}
    yield_if_due = Pace(pause).yield_if_due if pause else lambda: None
    one = _ScanPass(root, files if previous else frozenset(), yield_if_due, clock)
    listings = tuple(
        one.scan_directory(folder, before.get(path) or Listing(path, {}))
        for folder in root.folders
        for path in (os.path.join(root.top, folder),)
    )
    if previous is not None:
        same = all(new is old for new, old in zip(listings, previous.listings, strict=True))
        if same and previous.unsettled == one.unsettled:
            return previous
        if files and (few := from_changes(previous, listings, files, unsettled=one.unsettled)):
            return few
    return from_scan(listings, previous, unsettled=one.unsettled, yield_if_due=yield_if_due)


SLICE_S = 0.00025


class Pace:
    """Limits long work in a thread next to an event loop: a `pause` after each 0.25 ms.

    A tight loop holds the interpreter lock, which made the p99 of pings 94 times longer.
    """

    def __init__(self, pause: Callable[[], None]) -> None:
        self._pause = pause
        self._slice_ends = time.perf_counter() + SLICE_S

    def yield_if_due(self) -> None:
        """Pause if 0.25 ms of work are over; called after each small step."""
        if time.perf_counter() >= self._slice_ends:
            self.pause()

    def pause(self) -> None:
        """Pause now and begin a new slice of 0.25 ms; called after a step that takes a whole slice."""
        self._pause()
        self._slice_ends = time.perf_counter() + SLICE_S


class _ScanPass:
    """One scan of the folders of a root; `unsettled` becomes True if a file in them is being saved."""

    def __init__(
        self, root: Root, files: frozenset[str], yield_if_due: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self.unsettled = False
        self._root = root
        self._files = files
        self._yield_if_due = yield_if_due
        self._clock = clock
        self._inodes: set[tuple[int, int]] = set()

    def scan_directory(self, folder: str, before: Listing) -> Listing:
        """Return the listing of one folder, which may be missing; `before` itself if nothing changed."""
        try:
            directory = open_folder(self._root.top, folder)
        except FileNotFoundError:
            return _listing_or_same(before, {}, "")
        except StoreError as error:
            return _listing_or_same(before, {}, str(error))
        except OSError as error:
            # A directory that is unreadable for now is not deleted; another entry in its place is a change.
            files = {} if error.errno in {errno.ENOTDIR, errno.ELOOP} else before.files
            return _listing_or_same(before, files, f"cannot be opened: {atomic.why(error)}")
        try:
            status = os.fstat(directory)
            if (status.st_dev, status.st_ino) in self._inodes:  # the second folder links to the first
                return _listing_or_same(before, {}, "")
            self._inodes.add((status.st_dev, status.st_ino))
            return self._scan_entries(directory, before)
        except OSError as error:
            return _listing_or_same(before, before.files, f"cannot be listed: {atomic.why(error)}")
        finally:
            os.close(directory)

    def _scan_entries(self, directory: int, before: Listing) -> Listing:
        """Return the listing of an open directory; only files with another change key are read."""
        if self._files and not before.reason:
            files, fresh = self._split_by_names(before)
        else:
            files, fresh = self._split_by_listing(directory, before.files)
        for name, is_file in fresh.items():
            seen = self._read_entry(directory, name, before.files.get(name), is_file=is_file)
            if seen is not None:
                files[name] = seen
                if seen.reason:  # shown by status; may quote the file
                    logger.debug("questionable memory file=%s", printable(name))
            self._yield_if_due()
        held = all(files.get(name) is before.files.get(name) for name in fresh)
        return _listing_or_same(
            before, before.files if held and len(files) == len(before.files) else files, ""
        )

    def _split_by_names(self, before: Listing) -> tuple[dict[str, FileEntry], dict[str, bool]]:
        """Return the entries that count as unchanged, and the names that the caller gave as changed."""
        named = [path.rpartition("/") for path in sorted(self._files)]
        fresh = {name: False for folder, _, name in named if folder == before.path}
        same = before.files.copy()
        for name in fresh:
            same.pop(name, None)
        return same, fresh

    def _split_by_listing(
        self, directory: int, known: dict[str, FileEntry]
    ) -> tuple[dict[str, FileEntry], dict[str, bool]]:
        """Return unchanged entries, and the other names with True if it surely is a regular file."""
        same: dict[str, FileEntry] = {}
        fresh: dict[str, bool] = {}
        with os.scandir(directory) as entries:
            while batch := list(itertools.islice(entries, _BATCH)):
                for entry in batch:
                    name = entry.name
                    if name[-3:] != ".md" or name[0] == ".":
                        continue
                    seen = known.get(name)
                    if seen is not None and seen.key == _change_key_of(entry):
                        same[name] = seen
                    else:
                        fresh[name] = entry.is_file(follow_symlinks=False)
                self._yield_if_due()
        return same, fresh

    def _read_entry(
        self, directory: int, name: str, old: FileEntry | None, *, is_file: bool
    ) -> FileEntry | None:
        """Return the entry of a file, read if it changed, or the old one while it is saved; None if gone."""
        try:
            if old is not None or not is_file:
                status, data = os.stat(name, dir_fd=directory, follow_symlinks=False), b""
                if old is not None and old.key == _change_key(status):
                    return old
                if old is not None and self._is_being_saved(status, old):
                    return self._keep_unsettled(old)
                is_file = stat.S_ISREG(status.st_mode)
            if is_file:  # only regular files are opened: opening a device may have effects
                status, data = _read_file(directory, name)
        except FileNotFoundError:
            return None
        except OSError as error:
            return _unreadable_entry(directory, name, error)
        reason = _refusal_reason(name, status)
        if reason:
            return FileEntry(_change_key(status), None, reason)
        if len(data) != status.st_size:
            return self._keep_unsettled(old or FileEntry(_NEVER, None, "is being written"))
        return self._parse_entry(name, status, data, old)

    def _parse_entry(
        self, name: str, status: os.stat_result, data: bytes, old: FileEntry | None
    ) -> FileEntry:
        """Return a file's entry from its bytes; one that just became invalid keeps its last memory."""
        try:
            reading = read(data, self._root.scope, name[:-3])
        except MemoryFormatError as error:
            may_pass = not isinstance(error, InConflict) and self._age(status) < GRACE_S
            if old is not None and old.memory is not None and may_pass:
                return self._keep_unsettled(old)
            return FileEntry(_change_key(status), None, str(error), is_blank=isinstance(error, NoText))
        memory = reading.memory
        if old is not None and old.memory == memory:
            memory = old.memory
        return FileEntry(
            _change_key(status), memory, "; ".join(reading.notes), hashlib.sha256(data).hexdigest()
        )

    def _is_being_saved(self, status: os.stat_result, old: FileEntry) -> bool:
        """Return True if the bytes of a valid file changed just now; a rename is complete at once."""
        inode, size, mtime, _ = old.key
        moved = status.st_ino == inode and (status.st_size, status.st_mtime_ns) != (size, mtime)
        return moved and old.memory is not None and self._age(status) < QUIET_S

    def _age(self, status: os.stat_result) -> float:
        """Return the seconds since a file's last change; a time in the future counts like one in the past."""
        return abs(self._clock() - status.st_mtime)

    def _keep_unsettled(self, old: FileEntry) -> FileEntry:
        """Return the old entry, and mark the scan unsettled so that it is read again."""
        self.unsettled = True
        return old


def _listing_or_same(before: Listing, files: dict[str, FileEntry], reason: str) -> Listing:
    """Return the last listing of a directory itself if nothing in it changed, else a new one."""
    if reason == before.reason and (files is before.files or not (files or before.files)):
        return before
    return Listing(before.path, files, reason)


def _change_key(status: os.stat_result) -> Key:
    """Return the change key of a file: inode, size, mtime and ctime."""
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _change_key_of(entry: os.DirEntry[str]) -> Key | None:
    try:
        return _change_key(entry.stat(follow_symlinks=False))
    except FileNotFoundError:
        return None


def _refusal_reason(name: str, status: os.stat_result) -> str:
    """Return why a file is not read: link, other owner, size or name; or ""."""
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


def _read_file(directory: int, name: str) -> tuple[os.stat_result, bytes]:
    """Return status and bytes of a file; no bytes if it is no regular file any more, or too large."""
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


def _unreadable_entry(directory: int, name: str, error: OSError) -> FileEntry:
    """Return an entry with the reason for an unreadable file; it is read again if waiting can help."""
    key = _NEVER
    if error.errno in {errno.EACCES, errno.EPERM, errno.ELOOP}:
        with contextlib.suppress(OSError):
            key = _change_key(os.stat(name, dir_fd=directory, follow_symlinks=False))
    return FileEntry(key, None, f"cannot be read: {atomic.why(error)}")
