"""Rows that may be lost with the last five seconds: counts, which are worth no wait for a disk.

A table is written whole when something in it has changed, and whatever is wrong with that ends nothing: it is
said once in the log and tried again the next time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from forged.errors import StoreError
from forged.state import tables
from forged.state.database import Database

if TYPE_CHECKING:
    from sqlite3 import Connection

logger = logging.getLogger(__name__)


class SoftRows:
    """All rows of one table; `what` is counted in it, as the log says it."""

    def __init__(self, database: Database, table: str, what: str) -> None:
        self._database = database
        self._table = table
        self._what = what
        self._written: tuple[tables.Row, ...] = ()
        self._warned = False

    def restore(self, rows: Sequence[tables.Row]) -> None:
        """Take note of what the file holds, as it is opened."""
        self._written = tuple(rows)

    async def save(self, rows: Sequence[tables.Row]) -> None:
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


def _replace(table: str, rows: Sequence[tables.Row], connection: Connection) -> None:
    tables.clear(connection, table)
    for row in rows:
        tables.put(connection, table, *row)
