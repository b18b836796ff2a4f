"""One look at the directories of a root: the snapshot of what is there now.

Goes in: a root, and the snapshot before. Comes out: that same snapshot if nothing changed, else the next one.
Nothing is raised for what is on disk: whatever is odd about an entry is a `Problem` in the snapshot.

The files are the interface: people, git, the Go program and any number of daemons change them at any time.
A scan compares change keys (inode, size, mtime, ctime) and opens only what changed. With the names of the
files that changed, only they are looked at, so that an edit is cheap in a large store; a watcher's word is
only a hint, and scans of everything go on beside it. What is said about an edit must not depend on the way
it was found, which a test proves.

A file that is being saved in place is not a deletion: as long as it was good before and is still moving, its
last good memory stays and the snapshot says `unsettled`, so that the caller looks again soon.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import logging
import operator
import os
import re
import stat
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator

from forged.errors import InConflict, MemoryFormatError, NoText, StoreError
from forged.files import atomic
from forged.files.frontmatter import MAX_FILE_BYTES, read
from forged.files.roots import Root
from forged.files.snapshot import FileEntry, Key, Listing, Snapshot, from_scan, printable
from forged.memory import Memory, Problem

logger = logging.getLogger(__name__)

QUIET_S = 0.25  # a file saved in place is read once it has not moved for so long
GRACE_S = 2.0  # a file that was good and is not any more keeps its last good memory for so long
_BATCH = 64
_UNDECODED = re.compile("[\ud800-\udfff]")
_NEVER: Key = (0, 0, 0, 0)  # of a file to be read again at the next scan
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ID = operator.attrgetter("id")

Enter = Callable[[int, str], int]
"""Opens a directory of a name within an open one."""


def scan(
    root: Root,
    previous: Snapshot | None = None,
    files: frozenset[str] = frozenset(),
    *,
    pause: Callable[[], None] | None = None,
    clock: Callable[[], float] = time.time,
) -> Snapshot:
    """Look at every entry, and read what changed since `previous`.

    Args:
        root: its first folder wins between files that are equally new.
        previous: the last snapshot of this root, if there is one.
        files: paths in the folders; if there are any, everything else is taken to be as it was.
        pause: called after every 0.25 ms of work, where an event loop has to answer meanwhile.
        clock: seconds since the epoch.
    """
    before = {listing.path: listing for listing in previous.listings} if previous else {}
    yield_if_due = Pace(pause).yield_if_due if pause else _no_pause
    one = _Pass(root, files if previous else frozenset(), yield_if_due, clock)
    listings = tuple(
        one.directory(folder, before.get(path) or Listing(path, {}))
        for folder in root.folders
        for path in (os.path.join(root.top, folder),)
    )
    if previous is not None:
        same = all(new is old for new, old in zip(listings, previous.listings, strict=True))
        if same and previous.unsettled == one.unsettled:
            return previous
        if files and (few := _from_changes(previous, listings, files, unsettled=one.unsettled)):
            return few
    return from_scan(listings, previous, unsettled=one.unsettled, yield_if_due=yield_if_due)


def _no_pause() -> None:
    """Nobody waits meanwhile."""


def open_part(parent: int, name: str) -> int:
    """Open a directory within another one."""
    return os.open(name, atomic.DIRECTORY, dir_fd=parent)


def open_folder(top: str, folder: str, enter: Enter = open_part) -> int:
    """Open a directory at or below `top` and return its descriptor; `enter` opens each part of the way.

    A symlinked part is followed as long as it ends inside `top`; a cloned repository may hold one that does
    not. Raises StoreError for a link that leads out, else OSError.
    """
    real_top, real = os.path.realpath(top), os.path.realpath(os.path.join(top, folder))
    if os.path.commonpath((real_top, real)) != real_top:
        raise StoreError(f"a symbolic link leads out of {top}; it is not followed")
    current = os.open(real_top, atomic.DIRECTORY)
    for part in os.path.relpath(real, real_top).split("/"):
        parent = current
        try:
            current = enter(parent, part)
        finally:
            os.close(parent)
    return current


# --- what is no memory ----------------------------------------------------------------------------------

_MOST_LISTED, _MOST_LOOKED_AT, _DEEPEST = 1000, 20_000, 8
# Copies that editors and programs make of a file while it is open, or of the one before.
_COPY = re.compile(
    r"\.|.*~$|#.*#$|4913$|.*\.(?:sw[a-z]|tmp|temp|bak|orig|rej|part|crswap|kate-swp)$|.*___jb_(?:tmp|old)___$"
)


def no_memories(root: Root) -> tuple[Problem, ...]:
    """Return the files in the folders of a root that are no memories, and why, sorted by path: 1,000 at most.

    A scan passes them by. Hidden files and copies that editors make are left out, and so is what a scan
    names itself. Nothing is raised: a folder that cannot be opened is named by a scan as well.
    """
    found: list[Problem] = []
    seen: set[tuple[int, int]] = set()
    looked_at = itertools.count()
    for folder in root.folders:
        with contextlib.suppress(OSError, StoreError):
            directory = open_folder(root.top, folder)
            try:
                found += _no_memories(directory, os.path.join(root.top, folder), seen, looked_at, 0)
            finally:
                os.close(directory)
    return tuple(sorted(found))[:_MOST_LISTED]


def _no_memories(
    directory: int, path: str, seen: set[tuple[int, int]], looked_at: Iterator[int], depth: int
) -> Iterator[Problem]:
    status = os.fstat(directory)
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    with os.scandir(directory) as entries:
        for entry in itertools.takewhile(lambda _: next(looked_at) < _MOST_LOOKED_AT, entries):
            is_of_scan = depth == 0 and entry.name.endswith(".md")
            if is_of_scan or _COPY.match(entry.name):
                continue
            here = f"{path}/{entry.name}"
            if not entry.is_dir(follow_symlinks=False):
                yield Problem(printable(here), _why_no_memory(entry, depth))
            elif depth < _DEEPEST:
                with contextlib.suppress(OSError):
                    below = os.open(entry.name, atomic.DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
                    try:
                        yield from _no_memories(below, here, seen, looked_at, depth + 1)
                    finally:
                        os.close(below)


def _why_no_memory(entry: os.DirEntry[str], depth: int) -> str:
    if entry.is_symlink():
        return "is a symbolic link; put the file itself here"
    if not entry.is_file(follow_symlinks=False):
        return "is not a regular file"
    if depth:
        return "lies in a folder below that of memories; move it up, with a name that ends in .md"
    ending = os.path.splitext(entry.name)[1]
    told = f"its name ends in {printable(ending)[:20]}" if ending else "its name has no ending"
    return f"{told}; rename it to end in .md"


SLICE_S = 0.00025


class Pace:
    """Slices of 0.25 ms of long work in a thread beside an event loop, with a `pause` after each.

    A tight loop holds the interpreter lock and makes every ping wait: their p99 grew 94-fold beside one. A
    slice is measured in time, because a machine may be busy and a text may be long.
    """

    def __init__(self, pause: Callable[[], None]) -> None:
        self._pause = pause
        self._slice_ends = time.perf_counter() + SLICE_S

    def yield_if_due(self) -> None:
        """Pause if the slice is over; to be called often, after each small step."""
        if time.perf_counter() >= self._slice_ends:
            self.pause()

    def pause(self) -> None:
        """Pause now: after a step that is a slice of its own."""
        self._pause()
        self._slice_ends = time.perf_counter() + SLICE_S


class _Pass:
    """One pass over the directories of a root."""

    def __init__(
        self,
        root: Root,
        files: frozenset[str],
        yield_if_due: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.unsettled = False
        self._root = root
        self._files = files
        self._yield_if_due = yield_if_due
        self._clock = clock
        self._inodes: set[tuple[int, int]] = set()

    def directory(self, folder: str, before: Listing) -> Listing:
        """Read one directory; `before` itself if nothing in it changed."""
        try:
            directory = open_folder(self._root.top, folder)
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
            files, fresh = self._split(before)
        else:
            files, fresh = self._compare(directory, before.files)
        for name, is_file in fresh.items():
            seen = self._look(directory, name, before.files.get(name), is_file=is_file)
            if seen is not None:
                files[name] = seen
                if seen.reason:
                    # The reason, which status shows, may quote the file.
                    logger.debug("questionable memory file=%s", printable(name))
            self._yield_if_due()
        held = all(files.get(name) is before.files.get(name) for name in fresh)
        return _renewed(before, before.files if held and len(files) == len(before.files) else files, "")

    def _split(self, before: Listing) -> tuple[dict[str, FileEntry], dict[str, bool]]:
        """Take everything over but the files in question, which are to be looked at."""
        named = [path.rpartition("/") for path in sorted(self._files)]
        fresh = {name: False for folder, _, name in named if folder == before.path}
        same = before.files.copy()
        for name in fresh:
            same.pop(name, None)
        return same, fresh

    def _compare(
        self, directory: int, known: dict[str, FileEntry]
    ) -> tuple[dict[str, FileEntry], dict[str, bool]]:
        """Split the entries into those seen before and those to look at. The loop is the cost of a rescan.

        With each that is to be looked at, whether it is known to be a regular file.
        """
        same: dict[str, FileEntry] = {}
        fresh: dict[str, bool] = {}
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
                        fresh[name] = entry.is_file(follow_symlinks=False)
                self._yield_if_due()
        return same, fresh

    def _look(self, directory: int, name: str, old: FileEntry | None, *, is_file: bool) -> FileEntry | None:
        """Judge one entry; `old` itself if it did not change, None if it is gone."""
        try:
            if old is not None or not is_file:
                status, data = os.stat(name, dir_fd=directory, follow_symlinks=False), b""
                if old is not None and old.key == _key(status):
                    return old
                if old is not None and self._is_being_saved(status, old):
                    return self._hold(old)
                is_file = stat.S_ISREG(status.st_mode)
            if is_file:  # nothing else is opened: a device may act on that
                status, data = _read(directory, name)
        except FileNotFoundError:
            return None
        except OSError as error:
            return _unreadable(directory, name, error)
        reason = _refusal(name, status)
        if reason:
            return FileEntry(_key(status), None, reason)
        if len(data) != status.st_size:
            return self._hold(old or FileEntry(_NEVER, None, "is being written"))
        return self._judge(name, status, data, old)

    def _judge(self, name: str, status: os.stat_result, data: bytes, old: FileEntry | None) -> FileEntry:
        try:
            reading = read(data, self._root.scope, name[:-3])
        except MemoryFormatError as error:
            may_pass = not isinstance(error, InConflict) and self._age(status) < GRACE_S
            if old is not None and old.memory is not None and may_pass:
                return self._hold(old)
            return FileEntry(_key(status), None, str(error), is_blank=isinstance(error, NoText))
        memory = reading.memory
        if old is not None and old.memory == memory:
            memory = old.memory
        return FileEntry(_key(status), memory, "; ".join(reading.notes), hashlib.sha256(data).hexdigest())

    def _is_being_saved(self, status: os.stat_result, old: FileEntry) -> bool:
        """Whether a good file's own bytes changed just now; a rename over it is whole at once."""
        inode, size, mtime, _ = old.key
        moved = status.st_ino == inode and (status.st_size, status.st_mtime_ns) != (size, mtime)
        return moved and old.memory is not None and self._age(status) < QUIET_S

    def _age(self, status: os.stat_result) -> float:
        """Seconds since the last change; a time in the future counts like one in the past."""
        return abs(self._clock() - status.st_mtime)

    def _hold(self, old: FileEntry) -> FileEntry:
        self.unsettled = True
        return old


def _from_changes(
    previous: Snapshot, listings: tuple[Listing, ...], files: frozenset[str], *, unsettled: bool
) -> Snapshot | None:
    """The snapshot after changes to `files` alone; None where that cannot be told without the other files.

    Without problems each id has one file and each file a memory, and so it must be again.
    """
    changes = list(_changes(previous.listings, listings, files))
    # A name that is not ASCII may look like another one.
    questionable = any(
        after is not None and (after.reason or not os.path.basename(path).isascii())
        for path, _, after in changes
    )
    if previous.problems or questionable or any(listing.reason for listing in listings):
        return None
    memories, paths, hashes = list(previous.memories), list(previous.paths), list(previous.hashes)
    for _, before, _ in changes:
        if before is not None and before.memory is not None:
            row = bisect_left(memories, before.memory.id, key=_ID)
            del memories[row], paths[row], hashes[row]
    for path, _, after in changes:
        if after is not None and after.memory is not None:
            row = bisect_left(memories, after.memory.id, key=_ID)
            if memories[row : row + 1] and memories[row].id == after.memory.id:
                return None
            memories.insert(row, after.memory)
            paths.insert(row, path)
            hashes.insert(row, after.sha256)
    if len(memories) != sum(len(listing.files) for listing in listings):
        return None
    changed = any(_memory(before) is not _memory(after) for _, before, after in changes)
    return Snapshot(tuple(memories), tuple(paths), (), changed, unsettled, listings, tuple(hashes))


def _memory(seen: FileEntry | None) -> Memory | None:
    return None if seen is None else seen.memory


def _changes(
    before: tuple[Listing, ...], after: tuple[Listing, ...], files: frozenset[str]
) -> Iterator[tuple[str, FileEntry | None, FileEntry | None]]:
    """Path, old and new state of each of the files that is not as it was."""
    for old, new in zip(before, after, strict=True):
        for path in sorted(files):
            folder, _, name = path.rpartition("/")
            if folder == new.path and old.files.get(name) is not new.files.get(name):
                yield path, old.files.get(name), new.files.get(name)


def _renewed(before: Listing, files: dict[str, FileEntry], reason: str) -> Listing:
    if reason == before.reason and (files is before.files or not (files or before.files)):
        return before
    return Listing(before.path, files, reason)


def _key(status: os.stat_result) -> Key:
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _key_of(entry: os.DirEntry[str]) -> Key | None:
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


def _unreadable(directory: int, name: str, error: OSError) -> FileEntry:
    """Keep what only its owner can change until the key does; try anything else (too many files) again."""
    key = _NEVER
    if error.errno in {errno.EACCES, errno.EPERM, errno.ELOOP}:
        with contextlib.suppress(OSError):
            key = _key(os.stat(name, dir_fd=directory, follow_symlinks=False))
    return FileEntry(key, None, f"cannot be read: {atomic.why(error)}")
