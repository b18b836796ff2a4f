"""Snapshot of all memories of a root at one time, as a scan creates it.

One memory for each id: of two files with one id the newer is used, and the other is a problem.
"""

from __future__ import annotations

import operator
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

import msgspec

from forged.memory import Memory, Problem, one_form, time_ns

_ID = operator.attrgetter("id")
Key = tuple[int, int, int, int]
"""Inode, size, mtime and ctime in nanoseconds: equal means unchanged."""


class FileEntry(msgspec.Struct, frozen=True, gc=False):
    """A `.md` file as last read: change key, memory or None, hash, and a reason to correct the file.

    `sha256`, in hex, is that of the bytes of the memory. `is_blank`: the file has no text.
    """

    key: Key
    memory: Memory | None
    reason: str = ""
    sha256: str = ""
    is_blank: bool = False


class Listing(msgspec.Struct, frozen=True, eq=False):
    """One directory as last read: its `.md` files by name, and the reason if it could not be read."""

    path: str
    files: dict[str, FileEntry]
    reason: str = ""


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """All memories of a root at one time, one for each id, sorted by it, with `paths` and `hashes`.

    `hashes` are SHA-256 in hex, `problems` are sorted by path. `changed`: memories or problems differ from
    the last snapshot. `unsettled`: a file is being saved, scan again soon. The next scan compares with
    `listings`.
    """

    memories: tuple[Memory, ...]
    paths: tuple[str, ...]
    problems: tuple[Problem, ...]
    changed: bool
    unsettled: bool
    listings: tuple[Listing, ...]
    hashes: tuple[str, ...]

    @property
    def unread(self) -> tuple[Problem, ...]:
        """Return the problems of files and directories whose text is missing from answers."""
        return tuple(each for each in self.problems if each.loses)


def from_scan(
    listings: tuple[Listing, ...],
    previous: Snapshot | None,
    *,
    unsettled: bool,
    yield_if_due: Callable[[], None],
) -> Snapshot:
    """Build a snapshot from all files in the listings of a root; `yield_if_due` is called after each."""
    chosen, problems = _choose_files(listings, yield_if_due)
    ids = sorted(chosen)
    memories = tuple(chosen[id_].memory for id_ in ids)
    paths = tuple(chosen[id_].path for id_ in ids)
    changed = previous is None or (memories, problems) != (previous.memories, previous.problems)
    hashes = tuple(chosen[id_].sha256 for id_ in ids)
    return Snapshot(memories, paths, problems, changed, unsettled, listings, hashes)


def from_changes(
    previous: Snapshot, listings: tuple[Listing, ...], files: frozenset[str], *, unsettled: bool
) -> Snapshot | None:
    """Build a snapshot from the last one after changes to `files` alone; None if it needs a full build.

    Without problems each id has one file and each file is a memory; that must hold afterwards.
    """
    changes = list(_changed_entries(previous.listings, listings, files))
    # Two names that are not ASCII may look alike.
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
    """Return the memory of an entry, None without an entry or a memory."""
    return None if seen is None else seen.memory


def _changed_entries(
    before: tuple[Listing, ...], after: tuple[Listing, ...], files: frozenset[str]
) -> Iterator[tuple[str, FileEntry | None, FileEntry | None]]:
    """Yield each of these paths whose entry changed, with the entry before and after."""
    for old, new in zip(before, after, strict=True):
        for path in sorted(files):
            folder, _, name = path.rpartition("/")
            if folder == new.path and old.files.get(name) is not new.files.get(name):
                yield path, old.files.get(name), new.files.get(name)


class File(msgspec.Struct, frozen=True, gc=False):
    """A memory with the path and hash of its file; `rank` is the place of its directory in the root."""

    memory: Memory
    path: str
    rank: int
    sha256: str


def _choose_files(
    listings: tuple[Listing, ...], yield_if_due: Callable[[], None]
) -> tuple[dict[str, File], tuple[Problem, ...]]:
    """Return the newest file of each id, which is used, and the problems of all files and directories."""
    chosen: dict[str, File] = {}
    losers: list[File] = []
    problems = [Problem(printable(each.path), each.reason, loses=True) for each in listings if each.reason]
    for rank, listing in enumerate(listings):
        problems += _look_alikes(listing)
        for name, seen in listing.files.items():
            path = f"{listing.path}/{name}"
            if seen.reason:
                loses = seen.memory is None and not seen.is_blank
                problems.append(Problem(printable(path), seen.reason, loses))
            if seen.memory is not None:
                choice = File(seen.memory, path, rank, seen.sha256)
                rival = chosen.setdefault(seen.memory.id, choice)
                if rival is not choice:
                    chosen[seen.memory.id], loser = sorted((rival, choice), key=_newest_first)
                    losers.append(loser)
            yield_if_due()
    for loser in losers:
        winner = chosen[loser.memory.id]
        reason = f"has the same id as {winner.path}, which is used"
        problems.append(Problem(loser.path, reason, loser.memory.content != winner.memory.content))
    return chosen, tuple(sorted(problems))


def _look_alikes(listing: Listing) -> Iterator[Problem]:
    """Yield a problem for each file name that equals another of its folder in another Unicode form."""
    firsts: dict[str, str] = {}
    for name in sorted(name for name in listing.files if not name.isascii()):
        first = firsts.setdefault(one_form(name), name)
        pair = (listing.files[first].memory, listing.files[name].memory)
        if first != name and not (pair[0] and pair[1] and pair[0].id == pair[1].id):
            other = printable(f"{listing.path}/{first}")
            yield Problem(
                printable(f"{listing.path}/{name}"),
                f"has the same name as {other}, in another Unicode form; rename one of them",
            )


def _newest_first(choice: File) -> tuple[int, int, int, str]:
    """Return the sort key of files of one id: the newest memory first, then the first directory."""
    memory = choice.memory
    return (-time_ns(memory.updated_at), -time_ns(memory.created_at), choice.rank, choice.path)


def files_of(snapshot: Snapshot) -> list[File]:
    """Return every file of a snapshot that holds a memory, also older files of an id."""
    return [
        File(seen.memory, f"{listing.path}/{name}", rank, seen.sha256)
        for rank, listing in enumerate(snapshot.listings)
        for name, seen in listing.files.items()
        if seen.memory is not None
    ]


def one_per_id(files: Iterable[File]) -> tuple[File, ...]:
    """Return the file with the newest memory of each id, sorted by id."""
    newest: dict[str, File] = {}
    for file in files:
        rival = newest.setdefault(file.memory.id, file)
        if rival is not file:  # most ids of thousands of files are unique
            newest[file.memory.id] = min(rival, file, key=_newest_first)
    return tuple(newest[id_] for id_ in sorted(newest))


def printable(path: str) -> str:
    """Return a path as displayable text; bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "backslashreplace").decode()
