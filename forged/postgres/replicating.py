"""Synchronize one root on this machine with the rows of its owner on a server.

`Replication.step` compares both, carries out the merge plan, and says if there is more to do. It may be
killed anywhere: finished work is recognized. Asking only for changes is an optimization. Raises SharedError,
StoreError and ProviderError, after which the next step continues.
"""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from forged.attributes import UNKNOWN, Facts
from forged.errors import MemoryFormatError, SharedError
from forged.postgres.merging import FileVersion, FileVersions, MergePlan, merge_plan, resolution_of
from forged.postgres.replaying import next_failure
from forged.state import Owner, RemovalMark, Replica, Replicas, WriteFailure

# Files in one message, of at most 256 KiB each.
AT_ONCE = 100
Item = TypeVar("Item")


class CarriedFile(msgspec.Struct, frozen=True):
    """Bytes of a memory file on its way between machines, and the memory's attributes.

    `is_own`: row level security shows that only this user could write it. `offset_us` is added to the file's
    times to get those of the server's clock.
    """

    data: bytes
    facts: Facts = UNKNOWN
    is_own: bool = False
    offset_us: int = 0


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
    """Result of a transfer: written ids, and refused ids with the reason.

    `failed` are writes that the server did not take, with its errors; `error` says that it takes none now.
    """

    ids: frozenset[str] = frozenset()
    refused: Mapping[str, str] = {}
    failed: Mapping[str, SharedError] = {}
    error: SharedError | None = None


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

    async def join_twins(self, ids: Collection[str]) -> None:
        """Let one of two memories with the same text replace the other, among these ids of the last scan."""
        ...

    async def take_away(self, ids: Sequence[str]) -> None:
        """Forget memories, and link their successors to their predecessors."""
        ...


class RemoteRows(Protocol):
    """Interface to an owner's rows on a server for replication: changes, files, writes, removal marks."""

    @property
    def offset_us(self) -> int:
        """Return the microseconds by which the server's clock is ahead of this machine's."""
        ...

    async def access(self) -> str:
        """Return a digest of the rights and models that refused writes depend on."""
        ...

    async def changes_since(self, since: int) -> RemoteChanges:
        """Return file versions and removal marks changed since a cursor (0: all), with the next cursor."""
        ...

    async def fetch(self, ids: Sequence[str]) -> Mapping[str, CarriedFile]:
        """Return the files of existing rows by id, with attributes."""
        ...

    async def push(self, changes: Mapping[str, FileChange]) -> PushResult:
        """Write files whose row has the expected hash; return ids written, refused and failed."""
        ...

    async def mark(self, marks: Mapping[str, RemovalMark]) -> PushResult:
        """Store removal marks that are later than the server's, delete forgotten rows; return failures."""
        ...


class Unsent(msgspec.Struct, frozen=True):
    """File or removal mark that is not on the server: its hash, and the last failure, or why it may not.

    A removal mark has no hash, and is tried for ever.
    """

    sha256: str
    reason: str
    failure: WriteFailure | None = None

    @property
    def may_pass(self) -> bool:
        """Return True if it is tried again without a change of the file."""
        return self.failure is not None and (self.failure.kind != "final" or not self.sha256)

    def without_pause(self) -> Unsent:
        """Return it as due, if it is tried again."""
        if self.failure is None or not self.may_pass:
            return self
        return msgspec.structs.replace(self, failure=msgspec.structs.replace(self.failure, at=0.0))

    def waits(self, sha256: str, now: float, access: str) -> bool:
        """Return True if the file with this hash is not to be sent now."""
        if self.sha256 != sha256:
            return False
        return self.failure is None or not self.may_pass or self.failure.pause_s(now, access) > 0


class SyncState(msgspec.Struct, frozen=True):
    """Progress of a root's synchronization: changes left, files kept here, rows refused, last equality.

    `kept_here` are reasons why files are not on the server, by id; `refused` are rows that are no files. `at`
    is the last time of equality in Unix seconds, 0 for never. `problem` stopped the last round. `absent` are
    files that were removed here by hand and stay on the server.
    """

    behind: int = 0
    kept_here: Mapping[str, str] = {}
    refused: int = 0
    at: float = 0.0
    problem: str = ""
    absent: int = 0


class Replication:
    """Two-way synchronization of one root with its owner's rows. For one task at a time."""

    def __init__(
        self, owner: Owner, folder: LocalFiles, rows: RemoteRows, replicas: Replicas, author: str = ""
    ) -> None:
        """Take `author`, the user's name for an agent of the team, else ""."""
        self.owner = owner
        self._author = author
        self.progress = SyncState()
        self._folder = folder
        self._rows = rows
        self._replicas = replicas
        self._there: dict[str, FileVersion] = {}
        self._marks: dict[str, RemovalMark] = {}
        self._cursor = 0
        self._absent: frozenset[str] = frozenset()
        self._unsent: dict[str, Unsent] = {}
        self._unsent_marks: dict[str, Unsent] = {}
        self._access = ""
        self._refused: dict[str, str] = {}  # hashes of rows that are no files

    def start_over(self) -> None:
        """Drop the known state of the server, so that the next step asks for all rows and sends all files."""
        self._there, self._marks, self._cursor = {}, {}, 0
        for unsent in (self._unsent, self._unsent_marks):
            unsent.update({each: entry.without_pause() for each, entry in unsent.items()})

    async def step(self) -> bool:
        """Compare root and rows, transfer, merge, forget; return True if there was work to do.

        Other work goes on if a file or mark cannot be sent. Raises the server's error if it takes none.
        """
        await self._fetch_changes()
        here = self._with_server_times(await self._folder.look())
        known = self._replicas.of(self.owner)
        self._absent = frozenset(
            each for each in self._there.keys() - here.keys() if _was_here(known.get(each))
        )
        plan = merge_plan(here, self._there, known, self._marks, self._author)
        await self._replicas.merge_marks(self.owner, plan.marks)
        await self._replicas.record_common(self.owner, plan.met)
        await self._look_at_access()
        now = time.time()
        pull = [each for each in plan.pull if self._refused.get(each) != self._there[each].sha256]
        push = [each for each in plan.push if not self._waits(self._unsent, each, here[each].sha256, now)]
        both = [each for each in plan.both if self._refused.get(each) != self._there[each].sha256]
        marks = {
            each: mark
            for each, mark in plan.marks_to_send.items()
            if not self._waits(self._unsent_marks, each, "", now)
        }
        self._note_progress(plan, len(pull) + len(both), push, here)
        error = await self._send_marks(marks)
        if plan.take_away:
            await self._folder.take_away(plan.take_away)
        for some in batches(pull):
            await self._pull(some, here)
        for each in both:
            await self._resolve(each, here)
        for some in batches(push):
            error = error or await self._push(some, here)
        if error is not None:
            raise error
        if pull or push or both or marks or plan.take_away:
            return True
        await self._folder.join_twins(plan.met)  # of all, or machines that know some would not agree
        return False

    @property
    def hidden(self) -> frozenset[str]:
        """Return the ids of rows that no answer of this machine has: removed here, or missing."""
        known = self._replicas.of(self.owner).items()
        removed = (
            each
            for each, replica in known
            if replica.mark is not None and replica.mark.is_dead and self._marks.get(each) != replica.mark
        )
        return self._absent.union(removed)

    def record_problem(self, problem: str) -> None:
        """Note in `progress` why the last round stopped, "" if it did not."""
        self.progress = msgspec.structs.replace(self.progress, problem=problem)

    def _with_server_times(self, here: FileVersions) -> FileVersions:
        """Return files with creation times by the server's clock and authors, as their rows have them."""
        offset_us, there = self._rows.offset_us, self._there
        return {
            each: version
            if not version.created
            else FileVersion(
                version.sha256,
                there[each].created if each in there else version.created + offset_us,
                version.supersedes,
                there[each].author if each in there else self._author,
            )
            for each, version in here.items()
        }

    async def _look_at_access(self) -> None:
        """Ask for the server's rights and models if refused files or marks depend on them."""
        unsent = (*self._unsent.values(), *self._unsent_marks.values())
        if any(each.failure is not None and each.failure.kind != "passing" for each in unsent):
            self._access = await self._rows.access()

    def _waits(self, unsent: Mapping[str, Unsent], memory_id: str, sha256: str, now: float) -> bool:
        """Return True if a file or mark is not to be sent now, after a failure."""
        return memory_id in unsent and unsent[memory_id].waits(sha256, now, self._access)

    async def _fetch_changes(self) -> None:
        """Fetch changes since the last cursor into the known state of the server."""
        news = await self._rows.changes_since(self._cursor)
        self._marks.update(news.marks)
        for each in news.marks:  # a row may be gone and its mark withdrawn since
            self._there.pop(each, None)
        self._there.update(news.versions)
        self._cursor = news.cursor

    def _note_progress(self, plan: MergePlan, moving: int, push: Collection[str], here: FileVersions) -> None:
        """Update `progress` by the work of a plan; forget failures of files that changed or are sent."""
        self._unsent = {
            each: unsent
            for each, unsent in self._unsent.items()
            if each in plan.push and here[each].sha256 == unsent.sha256
        }
        self._unsent_marks = {
            each: unsent for each, unsent in self._unsent_marks.items() if each in plan.marks_to_send
        }
        kept = {each: unsent.reason for each, unsent in self._unsent.items()}
        kept |= {each: f"its removal {unsent.reason}" for each, unsent in self._unsent_marks.items()}
        waiting = {each for each, unsent in self._unsent.items() if unsent.may_pass}.union(push)
        behind = moving + len(waiting) + len(plan.take_away) + len(plan.marks_to_send)
        at = self.progress.at if behind else time.time()
        self._refused = {
            each: sha256
            for each, sha256 in self._refused.items()
            if each in self._there and self._there[each].sha256 == sha256
        }
        self.progress = SyncState(
            behind, kept, len(self._refused), at, self.progress.problem, len(self._absent)
        )

    async def _send_marks(self, marks: Mapping[str, RemovalMark]) -> SharedError | None:
        """Send removal marks; record those that fail, and return the error if the server takes none."""
        if not marks:
            return None
        result = await self._rows.mark(marks)
        await self._record_failures(self._unsent_marks, result, dict.fromkeys(marks, ""))
        return result.error

    async def _record_failures(
        self, unsent: dict[str, Unsent], result: PushResult, hashes: Mapping[str, str]
    ) -> None:
        """Record which files or marks were not sent, and why, for the time of their next attempt."""
        if result.failed:
            self._access = await self._rows.access()
        for each, error in result.failed.items():
            before = unsent[each].failure if each in unsent else None
            failure = next_failure(before, error, self._access)
            is_refused = failure.kind == "final" and bool(hashes[each])
            word = "refused by the server" if is_refused else "waits"
            unsent[each] = Unsent(hashes[each], f"{word}: {error}", failure)
        for each, reason in result.refused.items():
            unsent[each] = Unsent(hashes[each], reason)

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
            end = resolution_of(
                memory_id, self.owner[0], (ours.data, self._rows.offset_us), (theirs.data, theirs.offset_us)
            )
        except MemoryFormatError:
            self._refused[memory_id] = self._there[memory_id].sha256
            return
        if end.second_id:
            await self._folder.write({end.second_id: CarriedFile(end.second, ours.facts, theirs.is_own)})
        kept = await self._folder.rewrite(
            memory_id, CarriedFile(end.data, ours.facts, theirs.is_own), here[memory_id].sha256
        )
        await self._record_common(kept.ids)  # so that the current file counts as changed

    async def _push(self, ids: Sequence[str], here: FileVersions) -> SharedError | None:
        """Send the root's files as rows, noted beforehand; return the error if the server takes none."""
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
        self._there |= {each: here[each] for each in taken.ids}
        await self._record_common(taken.ids)
        await self._record_failures(self._unsent, taken, {each: here[each].sha256 for each in ids})
        return taken.error

    async def _record_common(self, ids: Collection[str]) -> None:
        """Record that both sides have the same files of these ids."""
        hashes = {each: self._there[each].sha256 for each in ids if each in self._there}
        await self._replicas.record_common(self.owner, hashes)


def _was_here(replica: Replica | None) -> bool:
    """Return True if a memory that is missing now was in a file here, and was not removed by a command."""
    return replica is not None and bool(replica.sha256) and (replica.mark is None or not replica.mark.is_dead)


def combined_result(several: Sequence[PushResult]) -> PushResult:
    """Return one result with the ids of several."""
    return PushResult(
        frozenset().union(*(each.ids for each in several)),
        dict(ChainMap(*(dict(each.refused) for each in several))),
    )


def batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield the items in order, in batches of at most AT_ONCE."""
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]
