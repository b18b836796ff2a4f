"""Bring a root on this machine and the rows of its owner on a server into step.

`Replication.step` looks at both, does what `planned` says, and tells whether there is more to do. It may be
killed anywhere: what is done already is found done. Asking the server only for changes makes it fast and
nothing else. Raises SharedError, StoreError and ProviderError, after which the next step goes on.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from forged.attributes import UNKNOWN, Facts
from forged.errors import MemoryFormatError
from forged.postgres.merging import FileVersion, Held, MergePlan, planned, resolved
from forged.state import RemovalMark, Replicas

# So many files travel together, of at most 256 KiB each.
AT_ONCE = 100
Item = TypeVar("Item")


class CarriedFile(msgspec.Struct, frozen=True):
    """The bytes of a file, and what is known of it beside them."""

    data: bytes
    facts: Facts = UNKNOWN


class FileChange(msgspec.Struct, frozen=True):
    """A file that is to be a row, where there was one with the hash `expected`, or none."""

    carried: CarriedFile
    version: FileVersion
    expected: str = ""


class RemoteChanges(msgspec.Struct, frozen=True):
    """What has changed in the rows of an owner up to a `cursor`, which is that of the next question.

    The row of a memory whose mark has changed is among them, if it is there.
    """

    versions: Mapping[str, FileVersion]
    marks: Mapping[str, RemovalMark]
    cursor: int


class PushResult(msgspec.Struct, frozen=True):
    """What the other side has now, and what it did not get because it may not have it."""

    ids: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()


class LocalFiles(Protocol):
    """The files of a root."""

    async def look(self) -> Held:
        """All that counts, by id."""
        ...

    async def read(self, ids: Sequence[str]) -> Mapping[str, CarriedFile]:
        """Files as they were at the last look; one that is another now is left out."""
        ...

    async def write(self, files: Mapping[str, CarriedFile]) -> PushResult:
        """Write new files."""
        ...

    async def rewrite(self, memory_id: str, carried: CarriedFile, expected: str) -> PushResult:
        """Write other bytes into the file with the hash `expected`."""
        ...

    async def take_away(self, ids: Sequence[str]) -> None:
        """Forget memories, and let what replaced one of them replace what that had replaced."""
        ...


class RemoteRows(Protocol):
    """The rows of an owner."""

    async def news(self, since: int) -> RemoteChanges:
        """What has changed since a cursor; since 0, all there is."""
        ...

    async def fetch(self, ids: Sequence[str]) -> Mapping[str, CarriedFile]:
        """The files of rows that are there."""
        ...

    async def push(self, changes: Mapping[str, FileChange]) -> PushResult:
        """Write rows that are as expected and not forgotten."""
        ...

    async def mark(self, marks: Mapping[str, RemovalMark]) -> None:
        """Let later marks hold, and take away what is forgotten."""
        ...


class SyncState(msgspec.Struct, frozen=True):
    """How far the two sides are: `behind` is how much there was to do at the last look.

    `kept_here` may not leave, `refused` are rows that are no files of ours. `at` is Unix seconds, 0 if they
    were never in step.
    """

    behind: int = 0
    kept_here: int = 0
    refused: int = 0
    at: float = 0.0


class Replication:
    """One root and its rows. For one task at a time."""

    def __init__(
        self, owner: tuple[str, str], folder: LocalFiles, rows: RemoteRows, replicas: Replicas
    ) -> None:
        self.owner = owner
        self.standing = SyncState()
        self._folder = folder
        self._rows = rows
        self._replicas = replicas
        self._there: dict[str, FileVersion] = {}
        self._marks: dict[str, RemovalMark] = {}
        self._cursor = 0
        self._kept_here: dict[str, str] = {}  # hashes of files that may not leave
        self._refused: dict[str, str] = {}  # and of rows that are no files

    def start_over(self) -> None:
        """Ask the server for all it holds next time: it may be another one than it was."""
        self._there, self._marks, self._cursor = {}, {}, 0

    async def step(self) -> bool:
        """Bring both sides nearer; whether they may have to be looked at again."""
        await self._hear()
        here = await self._folder.look()
        plan = planned(here, self._there, self._replicas.of(self.owner), self._marks)
        await self._replicas.learn(self.owner, plan.marks)
        await self._replicas.met(self.owner, plan.met)
        pull = [each for each in plan.pull if self._refused.get(each) != self._there[each].sha256]
        push = [each for each in plan.push if self._kept_here.get(each) != here[each].sha256]
        both = [each for each in plan.both if self._refused.get(each) != self._there[each].sha256]
        self._stand(plan, len(pull) + len(push) + len(both), here)
        if plan.marks_to_send:
            await self._rows.mark(plan.marks_to_send)
        if plan.take_away:
            await self._folder.take_away(plan.take_away)
        for some in batches(pull):
            await self._pull(some, here)
        for each in both:
            await self._settle(each, here)
        for some in batches(push):
            await self._push(some, here)
        return self.standing.behind > 0

    async def _hear(self) -> None:
        news = await self._rows.news(self._cursor)
        self._marks.update(news.marks)
        for each in news.marks:  # a row may have gone and the mark been taken back since
            self._there.pop(each, None)
        self._there.update(news.versions)
        self._cursor = news.cursor

    def _stand(self, plan: MergePlan, moving: int, here: Held) -> None:
        kept = sum(each in here and here[each].sha256 == hash_ for each, hash_ in self._kept_here.items())
        behind = moving + len(plan.take_away) + len(plan.marks_to_send)
        at = self.standing.at if behind else time.time()
        self.standing = SyncState(behind, kept, len(self._refused), at)

    async def _pull(self, ids: Sequence[str], here: Held) -> None:
        fetched = await self._rows.fetch(ids)
        fresh = {each: carried for each, carried in fetched.items() if each not in here}
        done = [await self._folder.write(fresh)] if fresh else []
        changed = sorted(fetched.keys() - fresh.keys())
        done += [await self._folder.rewrite(each, fetched[each], here[each].sha256) for each in changed]
        # What is too large to be a file of ours does not even come.
        refused = {each for one in done for each in one.refused} | set(ids) - fetched.keys()
        self._refused |= {each: self._there[each].sha256 for each in refused}
        await self._met(one_of(done).ids)

    async def _settle(self, memory_id: str, here: Held) -> None:
        """Both sides have changed a file: make of the two what everybody makes of them, and send it later."""
        theirs = (await self._rows.fetch([memory_id])).get(memory_id)
        ours = (await self._folder.read([memory_id])).get(memory_id)
        if theirs is None or ours is None:
            return
        try:
            end = resolved(memory_id, self.owner[0], ours.data, theirs.data)
        except MemoryFormatError:
            self._refused[memory_id] = self._there[memory_id].sha256
            return
        if end.beside_id:
            await self._folder.write({end.beside_id: CarriedFile(end.beside, ours.facts)})
        kept = await self._folder.rewrite(
            memory_id, CarriedFile(end.data, ours.facts), here[memory_id].sha256
        )
        await self._met(kept.ids)  # so that what is here now counts as changed since

    async def _push(self, ids: Sequence[str], here: Held) -> None:
        """Send files; the next step sees to those with which somebody was faster."""
        found = await self._folder.read(ids)
        changes = {
            each: FileChange(carried, here[each], self._there[each].sha256 if each in self._there else "")
            for each, carried in found.items()
        }
        # Noted before: whoever is killed after the server has it must know later that it was here. It is no
        # file that both had: somebody else may have been faster, with another one.
        fresh = {each: change.version.sha256 for each, change in changes.items() if not change.expected}
        await self._replicas.sent(self.owner, fresh)
        taken = await self._rows.push(changes) if changes else PushResult()
        self._kept_here |= {each: here[each].sha256 for each in taken.refused}
        self._there |= {each: here[each] for each in taken.ids}
        await self._met(taken.ids)

    async def _met(self, ids: Collection[str]) -> None:
        hashes = {each: self._there[each].sha256 for each in ids if each in self._there}
        await self._replicas.met(self.owner, hashes)


def one_of(several: Sequence[PushResult]) -> PushResult:
    """What came of several parts."""
    return PushResult(
        frozenset().union(*(each.ids for each in several)),
        frozenset().union(*(each.refused for each in several)),
    )


def batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]
