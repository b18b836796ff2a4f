"""What a scan saw, as frozen values, and how the files of several directories become one list of memories.

One memory per id: of two files with one id the newer is used and the other is a problem. A snapshot is made
from all files, or, when a watcher named the few that changed, from the one before it: what is said about an
edit must not depend on the way, which a test proves.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterator

import msgspec

from forged.memory import Memory, Problem, time_ns

Key = tuple[int, int, int, int]
"""Inode, size, mtime and ctime in nanoseconds: equal means unchanged."""

_ID = operator.attrgetter("id")


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A `.md` entry as last read. With a memory, `reason` is what should be put right; without, why not."""

    key: Key
    memory: Memory | None
    reason: str = ""


class Listing(msgspec.Struct, frozen=True, eq=False):
    """One directory as last read: its entries by name, and why it could not be read if so."""

    path: str
    files: dict[str, Seen]
    reason: str = ""


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """All memories of a root at one time.

    memories: one per id, sorted by id.
    paths: the file of each, same order.
    problems: sorted by path.
    changed: whether memories or problems differ from the snapshot before.
    unsettled: whether some file is being saved right now; scan again soon.
    listings: what the next scan compares with.
    """

    memories: tuple[Memory, ...]
    paths: tuple[str, ...]
    problems: tuple[Problem, ...]
    changed: bool
    unsettled: bool
    listings: tuple[Listing, ...]


def made(
    listings: tuple[Listing, ...], previous: Snapshot | None, *, unsettled: bool, breathe: Callable[[], None]
) -> Snapshot:
    """Go through all files; `breathe` is called after each."""
    chosen, problems = _choose(listings, breathe)
    ids = sorted(chosen)
    memories = tuple(chosen[id_].memory for id_ in ids)
    paths = tuple(chosen[id_].path for id_ in ids)
    changed = previous is None or (memories, problems) != (previous.memories, previous.problems)
    return Snapshot(memories, paths, problems, changed, unsettled, listings)


def edited(
    previous: Snapshot, listings: tuple[Listing, ...], files: frozenset[str], *, unsettled: bool
) -> Snapshot | None:
    """The snapshot after changes to `files` alone; None where that cannot be told without the other files.

    Without problems each id has one file and each file a memory, and so it must be again.
    """
    changes = list(_changes(previous.listings, listings, files))
    questionable = any(after is not None and after.reason for _, _, after in changes)
    if previous.problems or questionable or any(listing.reason for listing in listings):
        return None
    memories, paths = list(previous.memories), list(previous.paths)
    for _, before, _ in changes:
        if before is not None and before.memory is not None:
            row = bisect_left(memories, before.memory.id, key=_ID)
            del memories[row], paths[row]
    for path, _, after in changes:
        if after is not None and after.memory is not None:
            row = bisect_left(memories, after.memory.id, key=_ID)
            if memories[row : row + 1] and memories[row].id == after.memory.id:
                return None
            memories.insert(row, after.memory)
            paths.insert(row, path)
    if len(memories) != sum(len(listing.files) for listing in listings):
        return None
    changed = any(_memory(before) is not _memory(after) for _, before, after in changes)
    return Snapshot(tuple(memories), tuple(paths), (), changed, unsettled, listings)


def _memory(seen: Seen | None) -> Memory | None:
    return None if seen is None else seen.memory


def _changes(
    before: tuple[Listing, ...], after: tuple[Listing, ...], files: frozenset[str]
) -> Iterator[tuple[str, Seen | None, Seen | None]]:
    """Path, old and new state of each of the files that is not as it was."""
    for old, new in zip(before, after, strict=True):
        for path in sorted(files):
            folder, _, name = path.rpartition("/")
            if folder == new.path and old.files.get(name) is not new.files.get(name):
                yield path, old.files.get(name), new.files.get(name)


class _Choice(msgspec.Struct, frozen=True, gc=False):
    """A memory and where it was found; `rank` orders directories."""

    memory: Memory
    path: str
    rank: int


def _choose(
    listings: tuple[Listing, ...], breathe: Callable[[], None]
) -> tuple[dict[str, _Choice], tuple[Problem, ...]]:
    """Pick one memory per id, and collect what is wrong, sorted by path."""
    chosen: dict[str, _Choice] = {}
    losers: list[_Choice] = []
    problems = [Problem(printable(listing.path), listing.reason) for listing in listings if listing.reason]
    for rank, listing in enumerate(listings):
        for name, seen in listing.files.items():
            path = f"{listing.path}/{name}"
            if seen.reason:
                problems.append(Problem(printable(path), seen.reason))
            if seen.memory is not None:
                choice = _Choice(seen.memory, path, rank)
                rival = chosen.setdefault(seen.memory.id, choice)
                if rival is not choice:
                    chosen[seen.memory.id], loser = sorted((rival, choice), key=_newest_first)
                    losers.append(loser)
            breathe()
    for loser in losers:
        winner = chosen[loser.memory.id]
        problems.append(Problem(loser.path, f"has the same id as {winner.path}, which is used"))
    return chosen, tuple(sorted(problems, key=_path_and_reason))


def _newest_first(choice: _Choice) -> tuple[int, int, int, str]:
    memory = choice.memory
    return (-time_ns(memory.updated_at), -time_ns(memory.created_at), choice.rank, choice.path)


def _path_and_reason(problem: Problem) -> tuple[str, str]:
    return (problem.path, problem.reason)


def printable(path: str) -> str:
    """Return a path as text that can be shown and sent; what is not UTF-8 is escaped."""
    return path.encode("utf-8", "backslashreplace").decode()
