"""Outcomes of write requests, so that a repeated request is not carried out twice.

Before a file gets its name, one transaction records that it is forged's, its attributes and the key of its
request. After a kill, the next attempt completes these rows. Rows are kept for a day. Of a forgotten memory
only the key stays, because a late repetition must not bring it back. Callers are threads; callers that wait
at the same time share a transaction. `Receipts` are replies to requests that write no new file: ids without
text, written before the first step and after the last.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from forged.attributes import UNCHANGED, UNKNOWN, Facts, FactsPatch
from forged.errors import StoreError
from forged.state.attributes import Attributes
from forged.state.database import Change, Database, Table
from forged.state.rows import key_of
from forged.state.trust import OwnFile, TrustRecords

if TYPE_CHECKING:
    from sqlite3 import Connection

KEPT_S = 24 * 3600
_PRUNE_EVERY_S = 600


class RequestOutcome(msgspec.Struct, frozen=True):
    """Outcome of a write request: the id of the memory, or "" if that was forgotten since.

    `digest` is that of the request; `existed`: the memory was there before.
    """

    digest: str
    memory_id: str
    existed: bool = False


class PendingWrite(msgspec.Struct, frozen=True):
    """A write about to happen in a root: the new file, its attributes, and the key of its request.

    If the key has a row already, that is returned and nothing is put, except with `again`. The attributes are
    those of `base`, the replaced memory, with the patch `patch`.
    """

    identity: str
    file: OwnFile | None = None
    key: str = ""
    known: RequestOutcome | None = None
    again: bool = False
    root: str = ""
    base: str = ""
    patch: FactsPatch = UNCHANGED


_Waiting = tuple[Sequence[PendingWrite], Future[tuple[RequestOutcome | None, ...]]]


class Requests:
    """Table of outcomes of write requests by key, so that a repeated request writes nothing twice."""

    def __init__(
        self,
        database: Database,
        trust: TrustRecords,
        attributes: Attributes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Register the table in `database`; `clock` gives Unix seconds."""
        self._database = database
        self._table = Table(database, "requests", RequestOutcome)
        self._trust = trust
        self._attributes = attributes
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._pruned_at = float("-inf")
        self._changes: tuple[Change, ...] = ()  # changes of the current transaction

    def begin(self, writes: Sequence[PendingWrite]) -> Future[tuple[RequestOutcome | None, ...]]:
        """Record writes and their attributes durably; the future has the row that each key had, or None.

        Callable in any thread. Fails with StoreError; then nothing is recorded.
        """
        done: Future[tuple[RequestOutcome | None, ...]] = Future()
        with self._lock:
            self._waiting.append((writes, done))
            is_first = len(self._waiting) == 1
        if is_first:
            try:
                self._database.submit(self._write_waiting)
            except StoreError as error:
                self._fail_all(self._take_waiting(), error)
        return done

    async def of(self, key: str) -> RequestOutcome | None:
        """Return the outcome of the write request with this key, or None. Raises StoreError."""
        return await self._database.run(partial(self._known, key))

    async def forget(self, memory_ids: Collection[str]) -> None:
        """Empty the outcomes of requests that wrote these memories; the keys stay. Raises StoreError."""
        wanted = frozenset(memory_ids)
        await self._database.run(partial(self._forget, wanted))

    def _take_waiting(self) -> list[_Waiting]:
        """Remove and return the writes that wait for the next transaction."""
        with self._lock:
            taken, self._waiting = self._waiting, []
        return taken

    def _fail_all(self, waiting: Sequence[_Waiting], error: BaseException) -> None:
        """Set an error as the result of all these waiting writes."""
        for _, done in waiting:
            done.set_exception(error)

    def _write_waiting(self) -> None:
        """Record all waiting writes in one transaction, and resolve their futures."""
        waiting = self._take_waiting()
        try:
            known = self._database.change(partial(self._begin, [writes for writes, _ in waiting]))
        except BaseException as error:
            self._fail_all(waiting, error)
            raise
        for change in self._changes:
            change.apply()
        for (_, done), rows in zip(waiting, known, strict=True):
            done.set_result(rows)

    def _begin(
        self, waiting: Sequence[Sequence[PendingWrite]], connection: Connection
    ) -> list[tuple[RequestOutcome | None, ...]]:
        """Write outcomes, own files and attributes; return the row that each key had already."""
        now = int(self._clock())
        if now - self._pruned_at > _PRUNE_EVERY_S:
            self._pruned_at = now
            self._table.erase_until(connection, now - KEPT_S)
        known = [tuple([self._put_outcome(write, now, connection) for write in each]) for each in waiting]
        fresh = [
            (write, write.file)
            for writes, rows in zip(waiting, known, strict=True)
            for write, row in zip(writes, rows, strict=True)
            if row is None and write.file is not None
        ]
        files = {key_of(write.identity, file.id): file for write, file in fresh}
        facts: dict[str, Facts | None] = {}
        for write, file in fresh:  # one may replace another one of the same batch
            if not write.base and write.patch == UNCHANGED:
                continue
            base = key_of(write.root, write.base)
            before = (facts.get(base) or self._attributes.read(connection, base)) if write.base else None
            after = write.patch.apply(before or UNKNOWN)
            if after != UNKNOWN:
                facts[key_of(write.root, file.id)] = after
        self._changes = (self._trust.own_files.change(files), self._attributes.change(facts))
        for change in self._changes:
            change.write(connection)
        return known

    def _put_outcome(self, write: PendingWrite, now: float, connection: Connection) -> RequestOutcome | None:
        """Return the outcome that a request's key has already, else write the new one and return None."""
        if write.key and not write.again and (row := self._known(write.key, connection)) is not None:
            return row
        if write.key and write.known is not None:
            self._table.write(connection, write.key, write.known, float(now))
        return None

    def _known(self, key: str, connection: Connection) -> RequestOutcome | None:
        return self._table.read(connection, key)

    def _forget(self, memory_ids: frozenset[str], connection: Connection) -> None:
        """Empty the rows of requests that wrote these memories; their keys stay."""
        for row in tuple(self._table.read_all(connection)):
            if row.value.memory_id in memory_ids:
                self._table.write(connection, row.key, RequestOutcome("", "", row.value.existed), row.at)


class Receipt(msgspec.Struct, frozen=True):
    """Reply to a request that writes no new file: the planned one at first, then the final one.

    `digest` is that of the request; `reply` is bytes for its writer.
    """

    digest: str
    reply: bytes
    is_given: bool = False


class Receipts:
    """Table of replies to requests that write no new file, by key, for a day. `clock` gives Unix seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._table = Table(database, "receipts", Receipt)
        self._clock = clock

    async def of(self, key: str) -> Receipt | None:
        """Return the stored reply to the request with this key, or None. Raises StoreError."""
        return await self._table.database.run(lambda connection: self._table.read(connection, key))

    async def put(self, key: str, receipt: Receipt) -> None:
        """Store the reply to a request by key, durably; delete those older than a day. Raises StoreError."""
        now = self._clock()

        def put(connection: Connection) -> None:
            self._table.erase_until(connection, now - KEPT_S)
            self._table.write(connection, key, receipt, now)

        await self._table.database.run(put)
