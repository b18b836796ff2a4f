"""What requests to write came to, so that one that is sent again is not done again.

A request has a key that its client made. Before a file gets its name, one transaction puts on record that it
is ours, what its details are and which key it is for; a kill after that leaves rows without a file, which
the request's next attempt completes. Rows of requests are kept for a day. What is forgotten leaves its key
alone: a late repetition must not bring it back.

Callers are threads. Those that wait at the same time share a transaction.

`Receipts` are the replies to requests that write no new file: what a verb is about to answer before its first
step, and what it has answered after the last. They hold ids and no text.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from forged.errors import StoreError
from forged.state import tables
from forged.state.database import Database
from forged.state.details import Detail, Detailing, Details, put_detail
from forged.state.trust import OwnFile, TrustRecords, put_own

if TYPE_CHECKING:
    from sqlite3 import Connection

KEPT_S = 24 * 3600
_PRUNE_EVERY_S = 600


class Known(msgspec.Struct, frozen=True):
    """What a request came to: the id of a memory, or nothing if that was forgotten since.

    `digest` is of what was asked for; `existed`: the memory was there before.
    """

    digest: str
    memory_id: str
    existed: bool = False


class Begun(msgspec.Struct, frozen=True):
    """One write that is about to happen: the file, its details and the request of it, if there are such.

    `identity` is that of the root. A row that the key has already is returned and nothing put, unless it is
    to be `again`.
    """

    identity: str
    file: OwnFile | None = None
    key: str = ""
    known: Known | None = None
    again: bool = False
    detailing: Detailing | None = None


_Detailed = tuple[str, Detail]
_Waiting = tuple[Sequence[Begun], Future[tuple[Known | None, ...]]]


class Requests:
    """The rows; all of it asks the file, which is open."""

    def __init__(
        self,
        database: Database,
        trust: TrustRecords,
        details: Details,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives Unix seconds."""
        self._database = database
        self._trust = trust
        self._details = details
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._pruned_at = float("-inf")

    def begin(self, writes: Sequence[Begun]) -> Future[tuple[Known | None, ...]]:
        """Put writes on record, durably once it is done; the row that each key had already, or None.

        Called in any thread; fails with StoreError, and nothing is on record then.
        """
        done: Future[tuple[Known | None, ...]] = Future()
        with self._lock:
            self._waiting.append((writes, done))
            is_first = len(self._waiting) == 1
        if is_first:
            try:
                self._database.submit(self._serve)
            except StoreError as error:
                self._fail(self._taken(), error)
        return done

    async def of(self, key: str) -> Known | None:
        """Return the outcome of a request with this key, or None. Raises StoreError."""
        return await self._database.run(partial(_known, key))

    async def forget(self, memory_ids: Collection[str]) -> None:
        """Keep nothing but the keys of the requests that wrote these. Raises StoreError."""
        wanted = frozenset(memory_ids)
        await self._database.run(lambda connection: _forget(connection, wanted))

    def _taken(self) -> list[_Waiting]:
        with self._lock:
            taken, self._waiting = self._waiting, []
        return taken

    def _fail(self, waiting: Sequence[_Waiting], error: BaseException) -> None:
        for _, done in waiting:
            done.set_exception(error)

    def _serve(self) -> None:
        """Serve all that wait, in the thread of the file."""
        waiting = self._taken()
        try:
            rows, details = self._database.change(
                lambda connection: self._begin([writes for writes, _ in waiting], connection)
            )
        except BaseException as error:
            self._fail(waiting, error)
            raise
        self._details.wrote(details)
        for (writes, done), known in zip(waiting, rows, strict=True):
            self._trust.wrote(
                (write.identity, write.file)
                for write, row in zip(writes, known, strict=True)
                if row is None and write.file is not None
            )
            done.set_result(known)

    def _begin(
        self, waiting: Sequence[Sequence[Begun]], connection: Connection
    ) -> tuple[list[tuple[Known | None, ...]], list[_Detailed]]:
        """The row that each key had, and the details that were put."""
        now = int(self._clock())
        if now - self._pruned_at > _PRUNE_EVERY_S:
            self._pruned_at = now
            connection.execute("DELETE FROM requests WHERE at <= ?", (now - KEPT_S,))
        details: list[_Detailed] = []
        known = [tuple([_begin(write, now, details, connection) for write in each]) for each in waiting]
        return known, details


class Receipt(msgspec.Struct, frozen=True):
    """The reply to a request: as it will be once all is done, or as it was given.

    `digest` is of what was asked for; `reply` is bytes that whoever writes them can read.
    """

    digest: str
    reply: bytes
    is_given: bool = False


class Receipts:
    """One for the daemon. `clock` gives Unix seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def of(self, key: str) -> Receipt | None:
        """The receipt of a key. Raises StoreError."""
        return await self._database.run(partial(_receipt, key))

    async def put(self, key: str, receipt: Receipt) -> None:
        """Let this be the receipt of a key, durably on return. Raises StoreError."""
        await self._database.run(partial(_put_receipt, key, receipt, int(self._clock())))


def _receipt(key: str, connection: Connection) -> Receipt | None:
    row = tables.row_of(connection, "receipts", key)
    if row is None:
        return None
    _, digest, reply, is_given, _ = row
    return Receipt(str(digest), reply if isinstance(reply, bytes) else b"", bool(is_given))


def _put_receipt(key: str, receipt: Receipt, now: int, connection: Connection) -> None:
    connection.execute("DELETE FROM receipts WHERE at <= ?", (now - KEPT_S,))
    tables.put(connection, "receipts", key, receipt.digest, receipt.reply, int(receipt.is_given), now)


def _known(key: str, connection: Connection) -> Known | None:
    row = tables.row_of(connection, "requests", key)
    return None if row is None else Known(str(row[1]), str(row[2]), bool(row[3]))


def _begin(write: Begun, now: int, details: list[_Detailed], connection: Connection) -> Known | None:
    if write.key and not write.again and (row := tables.row_of(connection, "requests", write.key)):
        _, digest, memory_id, existed, _ = row
        return Known(str(digest), str(memory_id), bool(existed))
    if write.file is not None:
        put_own(write.identity, (write.file,), connection)
    if write.detailing is not None and (put := put_detail(write.detailing, connection)):
        details.append(put)
    if write.key and (known := write.known) is not None:
        tables.put(connection, "requests", write.key, known.digest, known.memory_id, int(known.existed), now)
    return None


def _forget(connection: Connection, memory_ids: frozenset[str]) -> None:
    for memory_id in memory_ids:
        wanted = "SELECT key, existed, at FROM requests WHERE memory_id = ?"
        for key, existed, at in connection.execute(wanted, (memory_id,)).fetchall():
            tables.put(connection, "requests", key, "", "", existed, at)
