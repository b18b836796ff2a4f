"""Synchronize one root on this machine with the rows of its owner on a server.

`Replication.step` compares both, carries out the merge plan, and says if there is more to do. It may be
killed anywhere: finished work is recognized. Asking only for changes is an optimization. Raises SharedError,
StoreError and ProviderError, after which the next step continues.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from forged.attributes import UNKNOWN, Facts
from forged.errors import MemoryFormatError
from forged.postgres.merging import FileVersion, FileVersions, MergePlan, merge_plan, resolution_of
from forged.state import RemovalMark, Replicas

# Files in one message, of at most 256 KiB each.
AT_ONCE = 100
Item = TypeVar("Item")


class CarriedFile(msgspec.Struct, frozen=True):
    """Bytes of a memory file on its way between machines, and the memory's attributes.

    `is_own`: row level security shows that only this user could write it.
    """

    data: bytes
    facts: Facts = UNKNOWN
    is_own: bool = False


class FileChange(msgspec.Struct, frozen=True):
    """File to write as a row, in place of one with the hash `expected`, or as a new one."""

    carried: CarriedFile
    version: FileVersion
    expected: str = ""


class RemoteChanges(msgspec.Struct, frozen=True):
    """Changed rows and removal marks of an owner, up to the `cursor` that the next question starts from.

    The row of a memory whose mark has changed is included if it exists.
    """

    versions: Mapping[str, FileVersion]
    marks: Mapping[str, RemovalMark]
    cursor: int


class PushResult(msgspec.Struct, frozen=True):
    """Result of a transfer: written ids, and refused ids, which are invalid or may not leave."""

    ids: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()


class LocalFiles(Protocol):
    """Interface to the files of a root for replication: scan, read, write, replace, forget."""

    async def look(self) -> FileVersions:
        """Scan the root; return the file versions of all memories to synchronize, by id."""
        ...

    async def read(self, ids: Sequence[str]) -> Mapping[str, CarriedFile]:
        """Return files of the last scan by id, with attributes; those changed since are left out."""
        ...

    async def write(self, files: Mapping[str, CarriedFile]) -> PushResult:
        """Write new memory files; return the ids written, and those of invalid files as refused."""
        ...

    async def rewrite(self, memory_id: str, carried: CarriedFile, expected: str) -> PushResult:
        """Replace a file whose hash is `expected`; return its id as written or refused, or none."""
        ...

    async def take_away(self, ids: Sequence[str]) -> None:
        """Forget memories, and link their successors to their predecessors."""
        ...


class RemoteRows(Protocol):
    """Interface to an owner's rows on a server for replication: changes, files, writes, removal marks."""

    async def changes_since(self, since: int) -> RemoteChanges:
        """Return file versions and removal marks changed since a cursor (0: all), with the next cursor."""
        ...

    async def fetch(self, ids: Sequence[str]) -> Mapping[str, CarriedFile]:
        """Return the files of existing rows by id, with attributes."""
        ...

    async def push(self, changes: Mapping[str, FileChange]) -> PushResult:
        """Write files whose row has the expected hash; return ids written, and those refused."""
        ...

    async def mark(self, marks: Mapping[str, RemovalMark]) -> None:
        """Store removal marks that are later than the server's, and delete forgotten rows."""
        ...


class SyncState(msgspec.Struct, frozen=True):
    """Progress of a root's synchronization: changes left, files kept here, rows refused, last equality.

    `kept_here` may not leave; `refused` are rows that are no valid files. `at` is the last time of equality
    in Unix seconds, 0 for never.
    """

    behind: int = 0
    kept_here: int = 0
    refused: int = 0
    at: float = 0.0


class Replication:
    """Two-way synchronization of one root with its owner's rows. For one task at a time."""

    def __init__(
        self, owner: tuple[str, str], folder: LocalFiles, rows: RemoteRows, replicas: Replicas
    ) -> None:
        self.owner = owner
        self.progress = SyncState()
        self._folder = folder
        self._rows = rows
        self._replicas = replicas
        self._there: dict[str, FileVersion] = {}
        self._marks: dict[str, RemovalMark] = {}
        self._cursor = 0
        self._kept_here: dict[str, str] = {}  # hashes of files that may not leave
        self._refused: dict[str, str] = {}  # hashes of rows that are no files

    def start_over(self) -> None:
        """Drop the known state of the server, so that the next step asks for all rows."""
        self._there, self._marks, self._cursor = {}, {}, 0

    async def step(self) -> bool:
        """Compare root and rows, transfer, merge, forget; return True if there was work to do."""
        await self._fetch_changes()
        here = await self._folder.look()
        plan = merge_plan(here, self._there, self._replicas.of(self.owner), self._marks)
        await self._replicas.merge_marks(self.owner, plan.marks)
        await self._replicas.record_common(self.owner, plan.met)
        pull = [each for each in plan.pull if self._refused.get(each) != self._there[each].sha256]
        push = [each for each in plan.push if self._kept_here.get(each) != here[each].sha256]
        both = [each for each in plan.both if self._refused.get(each) != self._there[each].sha256]
        self._note_progress(plan, len(pull) + len(push) + len(both), here)
        if plan.marks_to_send:
            await self._rows.mark(plan.marks_to_send)
        if plan.take_away:
            await self._folder.take_away(plan.take_away)
        for some in batches(pull):
            await self._pull(some, here)
        for each in both:
            await self._resolve(each, here)
        for some in batches(push):
            await self._push(some, here)
        return self.progress.behind > 0

    async def _fetch_changes(self) -> None:
        """Fetch changes since the last cursor into the known state of the server."""
        news = await self._rows.changes_since(self._cursor)
        self._marks.update(news.marks)
        for each in news.marks:  # a row may be gone and its mark withdrawn since
            self._there.pop(each, None)
        self._there.update(news.versions)
        self._cursor = news.cursor

    def _note_progress(self, plan: MergePlan, moving: int, here: FileVersions) -> None:
        """Update `progress` by the work of a plan."""
        kept = sum(each in here and here[each].sha256 == hash_ for each, hash_ in self._kept_here.items())
        behind = moving + len(plan.take_away) + len(plan.marks_to_send)
        at = self.progress.at if behind else time.time()
        self.progress = SyncState(behind, kept, len(self._refused), at)

    async def _pull(self, ids: Sequence[str], here: FileVersions) -> None:
        """Fetch rows' files and write them into the root; remember rows that are no valid files."""
        fetched = await self._rows.fetch(ids)
        fresh = {each: carried for each, carried in fetched.items() if each not in here}
        done = [await self._folder.write(fresh)] if fresh else []
        changed = sorted(fetched.keys() - fresh.keys())
        done += [await self._folder.rewrite(each, fetched[each], here[each].sha256) for each in changed]
        # Rows that are too large for a file are not fetched.
        refused = {each for one in done for each in one.refused} | set(ids) - fetched.keys()
        self._refused |= {each: self._there[each].sha256 for each in refused}
        await self._record_common(combined_result(done).ids)

    async def _resolve(self, memory_id: str, here: FileVersions) -> None:
        """Merge a file that changed on both sides, the same way on every machine, and write it here."""
        theirs = (await self._rows.fetch([memory_id])).get(memory_id)
        ours = (await self._folder.read([memory_id])).get(memory_id)
        if theirs is None or ours is None:
            return
        try:
            end = resolution_of(memory_id, self.owner[0], ours.data, theirs.data)
        except MemoryFormatError:
            self._refused[memory_id] = self._there[memory_id].sha256
            return
        if end.second_id:
            await self._folder.write({end.second_id: CarriedFile(end.second, ours.facts, theirs.is_own)})
        kept = await self._folder.rewrite(
            memory_id, CarriedFile(end.data, ours.facts, theirs.is_own), here[memory_id].sha256
        )
        await self._record_common(kept.ids)  # so that the current file counts as changed

    async def _push(self, ids: Sequence[str], here: FileVersions) -> None:
        """Send the root's files as rows, noted beforehand; remember those that may not leave."""
        found = await self._folder.read(ids)
        changes = {
            each: FileChange(carried, here[each], self._there[each].sha256 if each in self._there else "")
            for each, carried in found.items()
        }
        # Noted before the write: after a kill the file must be known to have been here. It is not a common
        # file, because another machine may have written first.
        fresh = {each: change.version.sha256 for each, change in changes.items() if not change.expected}
        await self._replicas.record_sent(self.owner, fresh)
        taken = await self._rows.push(changes) if changes else PushResult()
        self._kept_here |= {each: here[each].sha256 for each in taken.refused}
        self._there |= {each: here[each] for each in taken.ids}
        await self._record_common(taken.ids)

    async def _record_common(self, ids: Collection[str]) -> None:
        """Record that both sides have the same files of these ids."""
        hashes = {each: self._there[each].sha256 for each in ids if each in self._there}
        await self._replicas.record_common(self.owner, hashes)


def combined_result(several: Sequence[PushResult]) -> PushResult:
    """Return one result with the ids of several."""
    return PushResult(
        frozenset().union(*(each.ids for each in several)),
        frozenset().union(*(each.refused for each in several)),
    )


def batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield the items in order, in batches of at most AT_ONCE."""
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]
