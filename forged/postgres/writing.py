"""Write and remove rows, in one transaction for each owner.

A row is written over the one with its id, so that repeating a write is harmless. A forgotten row has a
tombstone, which blocks later writes: writers and removers of one owner or document wait for each other by a
row of `forged.locks`. Listeners are notified of the owner, never of the content. Raises psycopg's errors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby

import msgspec

from forged.memory import Scope
from forged.postgres import statements
from forged.postgres.connecting import Connection
from forged.postgres.relating import EntityTables
from forged.postgres.tables import TABLES
from forged.postgres.values import Stored

MOST_OF_SESSION = 100
# Number of rows from which a copy through a temporary table is faster.
COPIED_FROM = 50
_AT_ONCE = 500
_DOCUMENT_SLOTS = range(1, 65)  # slot 0 is that of an owner's entities, and of all rows but documents
_LONGEST_NAME = 100

Owner = tuple[Scope, str]


class RemovalBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Removal of memories of one owner, or of all pieces of documents; `at` is its time."""

    scope: Scope
    owner: str
    ids: tuple[str, ...]
    at: datetime
    kind: str = "chain"


class RowWriter:
    """Writes and removes rows; `name` identifies it for listeners.

    `fitting` drops the vector of a row that is of another model than the server has for the row.
    """

    def __init__(
        self, connection: Connection, name: str = "", fitting: Callable[[Stored], Stored] = lambda row: row
    ) -> None:
        self._connection = connection
        self._name = name
        self._fitting = fitting

    async def put(self, rows: Sequence[Stored]) -> None:
        """Write rows over those with their ids, by owner; leave out forgotten and older ones."""
        last = {(row.scope, row.owner, row.id): self._fitting(row) for row in rows}
        for owner, own in groupby(sorted(last.values(), key=_owner), key=_owner):
            for some in _batches(list(own)):
                await self._put_of_owner(owner, some)

    async def _put_of_owner(self, owner: Owner, rows: Sequence[Stored]) -> None:
        """Write rows of one owner, update heads and entities, and notify listeners, in one transaction."""
        scope, _ = owner
        async with self._connection.transaction():
            await self._lock(owner, {row.document_id for row in rows} if scope is Scope.ORG else None)
            if len(rows) >= COPIED_FROM:
                await self._copy_rows(scope, rows)
            else:
                values = [TABLES[scope].values(row) for row in rows]
                await self._connection.cursor().executemany(statements.put_one(scope), values)
            turned = await self._settle_owner(owner)
            await self._entity_tables(owner).renew([*(row.id for row in rows), *turned])
            await self._notify(owner)

    async def _copy_rows(self, scope: Scope, rows: Sequence[Stored]) -> None:
        """Write many rows of one scope, copied into a temporary table first."""
        table, cursor = TABLES[scope], self._connection.cursor()
        await cursor.execute(statements.incoming(scope))
        columns = ", ".join(table.columns)
        async with cursor.copy(f"COPY incoming ({columns}) FROM STDIN (FORMAT BINARY)".encode()) as copy:
            copy.set_types([table.type_of(column) for column in table.columns])
            for row in rows:
                await copy.write_row(tuple(table.values(row).values()))
        await cursor.execute(statements.put_many(scope))

    async def _settle_owner(self, owner: Owner) -> list[str]:
        """Delete surplus rows of a session, or update heads of an owner; return ids of changed heads."""
        scope, name = owner
        if scope == Scope.SESSION:
            values = {"owner": name, "most": MOST_OF_SESSION}
            await self._connection.execute(statements.KEEP_NEWEST, values)
        elif TABLES[scope].versions:
            settle = statements.settle_heads(scope)
            cursor = await self._connection.execute(settle, {"owner": name})
            return [str(found[0]) for found in await cursor.fetchall()]
        return []

    def _entity_tables(self, owner: Owner) -> EntityTables:
        """Return an EntityTables for an owner's rows, on this connection."""
        return EntityTables(self._connection, *owner)

    async def remove(self, batch: RemovalBatch) -> None:
        """Remove rows and entities, leave tombstones, and notify listeners, in one transaction."""
        owner = (batch.scope, batch.owner)
        ids, values = list(batch.ids), msgspec.structs.asdict(batch)
        values |= {"scope": str(batch.scope), "ids": ids}
        async with self._connection.transaction():
            await self._lock(owner, batch.ids if batch.kind == "document" else None)
            await self._connection.execute(statements.BURY, values)
            if batch.kind == "document":
                ids = await self._remove_pieces(batch)
            else:
                await self._connection.execute(statements.remove(batch.scope), values)
            turned = await self._settle_owner(owner)
            await self._entity_tables(owner).renew([*ids, *turned])
            await self._notify(owner)

    async def _remove_pieces(self, batch: RemovalBatch) -> list[str]:
        """Delete the pieces of documents made up to the removal's time; return their ids."""
        gone: list[str] = []
        for document in batch.ids:
            values = {"document": document, "at": batch.at}
            cursor = await self._connection.execute(statements.REMOVE_DOCUMENT, values)
            gone += [str(found[0]) for found in await cursor.fetchall()]
        return gone

    async def rows_without_vector(
        self, scope: Scope, owner: str, after: str, most: int, *, crossed: bool = False
    ) -> list[Stored]:
        """Return ids and texts of an owner's current rows without a vector, in the order of ids.

        `crossed`: those that may have one of the first model where one of the second is due.
        """
        values = {"owner": owner, "after": after, "most": most}
        statement = statements.without_vector(scope, crossed=crossed)
        cursor = await self._connection.execute(statement, values)
        return [
            Stored(scope=scope, owner=owner, id=each, content=text) for each, text in await cursor.fetchall()
        ]

    async def fill(self, row: Stored) -> bool:
        """Add the vector to a row that still has this text and lacks it; return True if it is added."""
        values = {"owner": row.owner, "id": row.id, "content": row.content, "vector": row.vector}
        async with self._connection.transaction():
            cursor = await self._connection.execute(statements.fill(row.scope, row.model), values)
            if cursor.rowcount:
                await self._notify((row.scope, row.owner))
        return bool(cursor.rowcount)

    async def count(self, hits: Mapping[tuple[Scope, str, str], int], at: datetime) -> None:
        """Add `hits` to the answer counts of rows, by scope, owner and id, and set their last use."""
        for (scope, owner, memory_id), times in sorted(hits.items()):
            values = {"owner": owner, "id": memory_id, "count": times, "at": at}
            await self._connection.execute(statements.count(scope), values)

    async def sweep(self, now: datetime) -> int:
        """Remove expired rows of all sessions; return their number."""
        return (await self._connection.execute(statements.SWEEP, {"now": now})).rowcount

    async def _lock(self, owner: Owner, documents: Collection[str] | None) -> None:
        """Let other writers of the owner, or of these documents, wait until the commit."""
        await lock_rows(self._connection, owner, documents)

    async def _notify(self, owner: Owner) -> None:
        """Record the daemon as a writer of the owner's rows, and notify listeners that they changed."""
        await announce(self._connection, owner, self._name)


async def lock_rows(connection: Connection, owner: Owner, documents: Collection[str] | None = None) -> None:
    """Let other writers of an owner's rows wait until the commit; with `documents` only those of these."""
    scope, whose = owner
    if scope is Scope.SESSION:  # its rows depend on no others
        return
    slots = [0] if scope is not Scope.ORG else list(_DOCUMENT_SLOTS)
    if documents is not None:
        slots = sorted({_slot_of(each) for each in documents})
    await connection.execute(statements.LOCK, {"scope": str(scope), "owner": whose, "slots": slots})


async def announce(connection: Connection, owner: Owner, daemon: str) -> None:
    """Record a daemon as a writer of an owner's rows, and notify listeners that they changed."""
    scope, whose = owner
    values = {"scope": str(scope), "owner": whose, "daemon": daemon[:_LONGEST_NAME]}
    if scope is not Scope.SESSION:
        await connection.execute(statements.WROTE, values)
    await connection.execute(statements.NOTIFY, {"payload": payload(owner)})


def _slot_of(document_id: str) -> int:
    """Return the number of the lock of a document."""
    return _DOCUMENT_SLOTS[int.from_bytes(hashlib.blake2b(document_id.encode(), digest_size=4).digest()) % 64]


def _owner(row: Stored) -> Owner:
    """Return scope and owner of a row."""
    return (row.scope, row.owner)


def _batches(rows: Sequence[Stored]) -> Iterator[Sequence[Stored]]:
    """Yield rows in order, in batches of at most 500."""
    for start in range(0, len(rows), _AT_ONCE):
        yield rows[start : start + _AT_ONCE]


def owner_digest(owner: str) -> str:
    """Return the hash that names an owner in notifications."""
    return hashlib.sha256(owner.encode()).hexdigest()[:16]


def payload(owner: Owner) -> str:
    """Return the text of a notification: scope, and digest of the owner."""
    scope, whose = owner
    return f"{scope} {owner_digest(whose)}"


def without_vector(rows: Iterable[Stored]) -> list[Stored]:
    """Return the rows that have no vector."""
    return [row for row in rows if row.vector is None]
