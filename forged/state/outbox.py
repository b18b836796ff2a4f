"""Queue on disk of writes for a team's server, in order, until the server has them.

A write names its memory or document, so that a forget finds it: adding a removal deletes all pending writes
of the same memory in the same transaction. A write that the server refuses for good is set aside with the
reason. A full queue refuses new memories, but still takes removals. Only headings are in memory; `row` is
bytes for their writer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from forged.errors import StoreError
from forged.state.database import Database, Table

if TYPE_CHECKING:
    from sqlite3 import Connection

MOST_WRITES, MOST_BYTES = 20_000, 64 << 20

# put: write a row. fill: add its vector. remove: delete a memory. document: delete all pieces of one.
WriteKind = Literal["put", "fill", "remove", "document"]
REMOVALS: frozenset[WriteKind] = frozenset({"remove", "document"})


class Write(msgspec.Struct, frozen=True, kw_only=True):
    """Queued change for a server; `id` is a memory's or document's; `document` is that of a piece.

    `refused` is the reason of the server, or "" while the write is pending.
    """

    kind: WriteKind
    scope: str
    owner: str
    id: str
    document: str = ""
    row: bytes = b""
    refused: str = ""

    def is_cancelled_by(self, removal: Write) -> bool:
        """Return True if a removal, of the same owner and memory or document, makes the write needless."""
        if (self.scope, self.owner) != (removal.scope, removal.owner):
            return False
        return removal.id == (self.document if removal.kind == "document" else self.id)


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
        return sum(not heading.refused for heading, _ in self._headings.values())

    @property
    def set_aside(self) -> tuple[Write, ...]:
        """Return the writes that the server refused for good, with the reason and without rows."""
        return tuple(heading for heading, _ in self._headings.values() if heading.refused)

    def count(self, kinds: Collection[str]) -> int:
        """Return the number of pending writes of these kinds."""
        return sum(heading.kind in kinds and not heading.refused for heading, _ in self._headings.values())

    def pieces_of(self, document: str) -> frozenset[str]:
        """Return the ids of those pieces of a document whose write is pending."""
        waiting = (heading for heading, _ in self._headings.values() if not heading.refused)
        return frozenset(each.id for each in waiting if each.kind == "put" and each.document == document)

    @property
    def documents_to_remove(self) -> frozenset[str]:
        """Return the ids of documents whose removal is pending or set aside."""
        return frozenset(heading.id for heading, _ in self._headings.values() if heading.kind == "document")

    async def add(self, writes: Sequence[Write]) -> None:
        """Append writes durably; removals delete those they cancel. If full, only removals pass."""
        removals = [write for write in writes if write.kind in REMOVALS]
        gone = self._cancelled_by(removals)
        fresh = dict(enumerate(writes, self._next))
        if len(removals) < len(writes):
            self._check_room(fresh)
        self._next += len(fresh)
        await self._database.run(partial(self._change, fresh, gone))
        self._drop_headings(gone)
        self._headings |= {position: _heading(write) for position, write in fresh.items()}

    async def oldest(self, most: int, kinds: Collection[str]) -> list[tuple[int, Write]]:
        """Return up to `most` pending writes of these kinds, oldest first, each with its position."""
        those = self._positions(lambda heading: heading.kind in kinds and not heading.refused)[:most]
        return await self._database.run(partial(self._read, those)) if those else []

    async def delete_sent(self, positions: Sequence[int]) -> None:
        """Delete writes that the server has. After a power cut one may be sent twice, which is harmless."""
        if positions:
            await self._database.run(partial(self._change, {}, positions), durable=False)
            self._drop_headings(positions)

    async def refuse(self, position: int, write: Write, why: str) -> None:
        """Set aside a write that the server will never accept, with the reason; "" queues it again."""
        refused = msgspec.structs.replace(write, refused=why)
        await self._database.run(partial(self._change, {position: refused}, ()))
        if position in self._headings:
            self._headings[position] = _heading(refused)

    async def retry(self) -> None:
        """Queue all writes again that were set aside; their cause may be fixed."""
        for position in self._positions(lambda heading: bool(heading.refused)):
            for _, write in await self._database.run(partial(self._read, [position])):
                await self.refuse(position, write, "")

    async def withdraw(self, removals: Sequence[Write]) -> None:
        """Delete queued writes that these removals cancel, without queuing the removals."""
        await self._erase(self._cancelled_by(removals))

    async def forget(self, ids: Collection[str]) -> None:
        """Delete queued writes of these memories of any owner; removals of them stay in the queue."""
        await self._erase(self._positions(lambda heading: heading.id in ids and heading.kind not in REMOVALS))

    async def _erase(self, gone: Sequence[int]) -> None:
        """Delete the writes at these positions in the file and in memory, durably."""
        if gone:
            await self._database.run(partial(self._change, {}, gone))
            self._drop_headings(gone)

    def _cancelled_by(self, removals: Sequence[Write]) -> list[int]:
        """Return the positions of queued writes that these removals make needless."""
        return self._positions(lambda heading: any(heading.is_cancelled_by(removal) for removal in removals))

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

    def _read(self, positions: Sequence[int], connection: Connection) -> list[tuple[int, Write]]:
        """Return the whole writes at these positions, with rows; those deleted meanwhile are left out."""
        rows = ((position, self._table.read(connection, _key(position))) for position in positions)
        return [(position, write) for position, write in rows if write is not None]


def _heading(write: Write) -> tuple[Write, int]:
    """Return a write without its row, and the size of the row."""
    return msgspec.structs.replace(write, row=b""), len(write.row)


def _key(position: int) -> str:
    return f"{position:020}"
