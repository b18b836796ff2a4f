"""Queue on disk of writes for a team's server, in order, until the server has them.

A write names its memory or document, so that a forget finds it: adding a removal deletes all pending writes
of the same memory in the same transaction. A write that failed has its `WriteFailure`, which decides when it
is tried again. Later writes of the same memory or document wait behind it, others do not. A full queue
refuses new memories, but still takes removals. Only headings are in memory; `row` is bytes for their writer.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from forged.errors import ErrorKind, StoreError
from forged.state.database import Database, Table

if TYPE_CHECKING:
    from sqlite3 import Connection

MOST_WRITES, MOST_BYTES = 20_000, 64 << 20

# put: write a row. remove: delete a memory. document: delete all pieces of one.
WriteKind = Literal["put", "remove", "document"]
_REMOVALS: frozenset[WriteKind] = frozenset({"remove", "document"})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0
_AT_LATEST_S = 3600.0


class WriteFailure(msgspec.Struct, frozen=True):
    """Last failure of a write that the server did not take: reason, class, number, and Unix time.

    `access` identifies the rights of the role and the models of both sides at that time.
    """

    reason: str
    kind: ErrorKind
    times: int
    at: float
    access: str = ""

    def pause_s(self, now: float, access: str) -> float:
        """Return the seconds until the next attempt, 0 if it is due; a changed `access` makes it due."""
        if self.kind == "passing":
            pause = min(_FIRST_PAUSE_S * 2.0**self.times, _LONGEST_PAUSE_S)
        else:
            pause = _AT_LATEST_S if access == self.access else 0.0
        return min(max(0.0, self.at + pause - now), pause)

    def without_pause(self) -> WriteFailure:
        """Return the failure as due, if it may have passed."""
        return msgspec.structs.replace(self, at=0.0) if self.kind == "passing" else self


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """Queued change for a server; `id` is a memory's or document's; `document` is that of a piece."""

    kind: WriteKind
    scope: str
    owner: str
    id: str
    document: str = ""
    row: bytes = b""
    failure: WriteFailure | None = None

    @classmethod
    def removals(cls, kind: str, scope: str, owner: str, ids: Iterable[str], at: datetime) -> list[Write]:
        """Return the writes that remove memories of an owner, or documents for the kind "document"."""
        queued: WriteKind = "document" if kind == "document" else "remove"
        row = msgspec.msgpack.encode((kind, at))
        return [cls(kind=queued, scope=scope, owner=owner, id=each, row=row) for each in ids]

    @property
    def is_removal(self) -> bool:
        """Return True for a removal of a memory or document."""
        return self.kind in _REMOVALS

    @property
    def is_refused(self) -> bool:
        """Return True for a row that the server will never take; a removal is tried for ever."""
        return self.failure is not None and self.failure.kind == "final" and not self.is_removal

    def is_cancelled_by(self, other: Write) -> bool:
        """Return True if `other`, of the same owner and memory or document, makes the write needless."""
        if (self.scope, self.owner) != (other.scope, other.owner):
            return False
        if other.kind == "put":
            return self.is_refused and self.id == other.id
        return other.is_removal and other.id == (self.document if other.kind == "document" else self.id)

    @property
    def name(self) -> tuple[str, ...]:
        """Return the name of the memory, or document to remove, that later writes wait for."""
        return ("document", self.id) if self.kind == "document" else (self.scope, self.owner, self.id)

    @property
    def waits_for(self) -> frozenset[tuple[str, ...]]:
        """Return the names of the memory and document whose earlier writes this one waits for."""
        return frozenset({self.name, ("document", self.document)} if self.document else {self.name})


class Outbox:
    """Queue on disk of writes for a team's server, by growing positions; lives in the event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._table = Table(database, "outbox", Write, load=self._load)
        self._headings: dict[int, tuple[Write, int]] = {}  # headings without rows; the size of each
        self._next = 1

    def _load(self, connection: Connection) -> Callable[[], object]:
        """Read the headings of all queued writes; return a function that takes them over."""
        rows = self._table.read_all(connection)
        headings = {int(row.key): _heading(row.value) for row in rows if row.key.isdecimal()}

        def restore() -> None:
            self._headings |= headings
            self._next = max((self._next, *(position + 1 for position in headings)))

        return restore

    @property
    def waiting(self) -> int:
        """Return the number of pending writes."""
        return sum(not heading.is_refused for heading, _ in self._headings.values())

    @property
    def refused(self) -> tuple[Write, ...]:
        """Return the writes that the server will never take, without rows."""
        return tuple(heading for heading, _ in self._headings.values() if heading.is_refused)

    @property
    def troubles(self) -> Mapping[str, int]:
        """Return the reasons of pending writes that failed, each with their number."""
        failing = (heading for heading, _ in self._headings.values() if not heading.is_refused)
        return Counter(heading.failure.reason for heading in failing if heading.failure is not None)

    @property
    def failing_kinds(self) -> frozenset[ErrorKind]:
        """Return the classes of the failures of pending writes."""
        return frozenset(each.failure.kind for each, _ in self._headings.values() if each.failure is not None)

    def count(self, kinds: Collection[str]) -> int:
        """Return the number of pending writes of these kinds."""
        return sum(heading.kind in kinds and not heading.is_refused for heading, _ in self._headings.values())

    def holds_up(self, writes: Iterable[Write]) -> bool:
        """Return True if pending writes of the same memories or documents must be sent before these."""
        names = frozenset().union(*(write.waits_for for write in writes))
        return any(each.name in names for each, _ in self._headings.values() if not each.is_refused)

    def reason_of(self, document: str) -> str:
        """Return why the pending pieces of a document are not on the server, "" if nothing failed."""
        pending = (heading for heading, _ in self._headings.values() if heading.document == document)
        return next((each.failure.reason for each in pending if each.failure is not None), "")

    def pieces_of(self, document: str) -> frozenset[str]:
        """Return the ids of those pieces of a document whose write is pending."""
        waiting = (heading for heading, _ in self._headings.values() if not heading.is_refused)
        return frozenset(each.id for each in waiting if each.kind == "put" and each.document == document)

    @property
    def ids_to_remove(self) -> frozenset[str]:
        """Return the ids of memories and documents whose removal is pending."""
        return frozenset(heading.id for heading, _ in self._headings.values() if heading.is_removal)

    async def add(self, writes: Sequence[Write]) -> None:
        """Append writes durably; they delete those they cancel. If full, only removals pass."""
        gone = self._cancelled_by(writes)
        fresh = dict(enumerate(writes, self._next))
        if not all(write.is_removal for write in writes):
            self._check_room(fresh)
        self._next += len(fresh)
        await self._database.run(partial(self._change, fresh, gone))
        self._drop_headings(gone)
        self._headings |= {position: _heading(write) for position, write in fresh.items()}

    async def due(self, most: int, kinds: Collection[str], access: str = "") -> list[tuple[int, Write]]:
        """Return up to `most` due writes of these kinds, oldest first, with positions.

        `access` is compared with that of failures. A write is due unless it pauses after a failure, or an
        earlier one of its memory or document is pending.
        """
        now, named, due = time.time(), set[tuple[str, ...]](), list[int]()
        for position, (heading, _) in self._headings.items():
            if heading.kind not in kinds or heading.is_refused:
                continue
            failure = heading.failure
            if named.isdisjoint(heading.waits_for) and (failure is None or failure.pause_s(now, access) == 0):
                due.append(position)
                if len(due) == most:
                    break
            named.add(heading.name)
        return await self._database.run(partial(self._read, due)) if due else []

    def next_due_s(self, kinds: Collection[str], access: str = "") -> float | None:
        """Return the seconds until a pending write of these kinds is due, None without any."""
        now = time.time()
        pending = [each for each, _ in self._headings.values() if each.kind in kinds and not each.is_refused]
        return min(
            (each.failure.pause_s(now, access) if each.failure else 0.0 for each in pending), default=None
        )

    async def delete_sent(self, positions: Sequence[int]) -> None:
        """Delete writes that the server has. After a power cut one may be sent twice, which is harmless."""
        if positions:
            await self._database.run(partial(self._change, {}, positions), durable=False)
            self._drop_headings(positions)

    async def fail(self, failures: Sequence[tuple[int, Write, WriteFailure]]) -> None:
        """Record the last failures of writes, which decide about their next attempts."""
        failed = {at: msgspec.structs.replace(write, failure=failure) for at, write, failure in failures}
        await self._database.run(partial(self._rewrite, failed))
        self._headings |= {
            position: _heading(write) for position, write in failed.items() if position in self._headings
        }

    def end_pauses(self) -> None:
        """Make all writes due whose failure may have passed, as the server takes writes again."""
        for position, (heading, size) in list(self._headings.items()):
            if heading.failure is not None:
                failure = heading.failure.without_pause()
                self._headings[position] = msgspec.structs.replace(heading, failure=failure), size

    async def withdraw(self, removals: Sequence[Write]) -> None:
        """Delete queued writes that these removals cancel, without queuing the removals."""
        await self._erase(self._cancelled_by(removals))

    async def forget(self, ids: Collection[str]) -> None:
        """Delete queued writes of these memories of any owner; removals of them stay in the queue."""
        await self._erase(self._positions(lambda heading: heading.id in ids and not heading.is_removal))

    async def _erase(self, gone: Sequence[int]) -> None:
        """Delete the writes at these positions in the file and in memory, durably."""
        if gone:
            await self._database.run(partial(self._change, {}, gone))
            self._drop_headings(gone)

    def _cancelled_by(self, writes: Sequence[Write]) -> list[int]:
        """Return the positions of queued writes that these writes make needless."""
        named: defaultdict[tuple[str, ...], list[Write]] = defaultdict(list)
        for write in writes:
            named[write.name].append(write)
        return self._positions(
            lambda heading: any(
                heading.is_cancelled_by(write) for name in heading.waits_for for write in named.get(name, ())
            )
        )

    def _check_room(self, fresh: Mapping[int, Write]) -> None:
        """Raise StoreError if the queue has no room for these new writes."""
        size = sum(size for _, size in self._headings.values()) + sum(len(w.row) for w in fresh.values())
        if len(self._headings) + len(fresh) > MOST_WRITES or size > MOST_BYTES:
            raise StoreError(
                f"{len(self._headings)} writes wait for the shared server, and there is no room for more; "
                "see `forgectl shared status`"
            )

    def _positions(self, meant: Callable[[Write], bool]) -> list[int]:
        """Return the positions of queued writes whose heading a predicate accepts, oldest first."""
        return [position for position, (heading, _) in self._headings.items() if meant(heading)]

    def _drop_headings(self, positions: Iterable[int]) -> None:
        """Drop the headings of deleted writes from memory, by position."""
        for position in positions:
            self._headings.pop(position, None)

    def _change(self, fresh: Mapping[int, Write], gone: Iterable[int], connection: Connection) -> None:
        """Delete the writes at some positions and store others, in one transaction."""
        self._table.erase(connection, *map(_key, gone))
        for position, write in fresh.items():
            self._table.write(connection, _key(position), write)

    def _rewrite(self, changed: Mapping[int, Write], connection: Connection) -> None:
        """Replace the writes at some positions that were not deleted meanwhile, in one transaction."""
        for position, write in changed.items():
            if self._table.read(connection, _key(position)) is not None:
                self._table.write(connection, _key(position), write)

    def _read(self, positions: Sequence[int], connection: Connection) -> list[tuple[int, Write]]:
        """Return the whole writes at these positions, with rows; those deleted meanwhile are left out."""
        rows = ((position, self._table.read(connection, _key(position))) for position in positions)
        return [(position, write) for position, write in rows if write is not None]


def _heading(write: Write) -> tuple[Write, int]:
    """Return a write without its row, and the size of the row."""
    return msgspec.structs.replace(write, row=b""), len(write.row)


def _key(position: int) -> str:
    return f"{position:020}"
