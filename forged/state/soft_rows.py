"""Rows that may be lost with the last five seconds: counts, which are worth no wait for a disk.

`SoftRows` writes a table whole when something in it has changed, `ChangedRows` only what has. Whatever is
wrong with that ends nothing: it is said once in the log and tried again the next time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from forged.errors import StoreError
from forged.state import tables
from forged.state.database import Database

if TYPE_CHECKING:
    from sqlite3 import Connection

logger = logging.getLogger(__name__)

RowOf = Callable[[str], tables.Columns | None]


class SoftRows:
    """All rows of one table; `what` is counted in it, as the log says it."""

    def __init__(self, database: Database, table: str, what: str) -> None:
        self._database = database
        self._table = table
        self._what = what
        self._written: tuple[tables.Columns, ...] = ()
        self._warned = False

    def restore(self, rows: Sequence[tables.Columns]) -> None:
        """Take note of what the file holds, as it is opened."""
        self._written = tuple(rows)

    async def save(self, rows: Sequence[tables.Columns]) -> None:
        """Let these be the rows, if they are not. Raises nothing; what fails is written later."""
        now = tuple(rows)
        if now == self._written:
            return
        try:
            await self._database.run(partial(_replace, self._table, now), durable=False)
        except StoreError as error:
            if not self._warned:
                logger.warning("%s counted in memory only error=%s", self._what, error)
            self._warned = True
        else:
            self._written, self._warned = now, False


class ChangedRows:
    """The rows of one table that have changed since they were written, by their keys."""

    def __init__(self, database: Database, table: str, what: str) -> None:
        self._database = database
        self._table = table
        self._what = what
        self._changed: set[str] = set()
        self._warned = False

    def add(self, key: str) -> None:
        """The row of this key is another one, or gone."""
        self._changed.add(key)

    async def save(self, row_of: RowOf) -> None:
        """Write the rows, of which None is gone. Raises nothing; what fails is written later."""
        try:
            await self.write(row_of, durable=False)
        except StoreError as error:
            if not self._warned:
                logger.warning("%s counted in memory only error=%s", self._what, error)
            self._warned = True
        else:
            self._warned = False

    async def write(self, row_of: RowOf, *, durable: bool = True) -> None:
        """The same at once. Raises StoreError."""
        keys, self._changed = self._changed, set()
        if not keys:
            return
        rows = {key: row_of(key) for key in keys}
        try:
            await self._database.run(partial(_write, self._table, rows), durable=durable)
        except StoreError:
            self._changed |= keys
            raise


def _write(table: str, rows: Mapping[str, tables.Columns | None], connection: Connection) -> None:
    for key, row in rows.items():
        if row is None:
            tables.remove(connection, table, key)
        else:
            tables.put(connection, table, *row)


def _replace(table: str, rows: Sequence[tables.Columns], connection: Connection) -> None:
    tables.clear(connection, table)
    for row in rows:
        tables.put(connection, table, *row)
