"""What model calls have cost, by day and purpose, as the governor counts it: read once, written now and then.

Counts are approximate money and not data, so writing them waits for no disk, and whatever is wrong with that
ends no call.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from forged.errors import StoreError
from forged.state import tables
from forged.state.database import Database

if TYPE_CHECKING:
    from sqlite3 import Connection

    from forged.models import Governor

logger = logging.getLogger(__name__)

# Day (UTC, as YYYY-MM-DD), purpose, calls, failed ones among them, prompt tokens, completion tokens.
Spent = tuple[str, str, int, int, int, int]


class Spending:
    """The governor's accounts in the file."""

    def __init__(self, database: Database, governor: Governor) -> None:
        self._database = database
        self._governor = governor
        self._written: tuple[Spent, ...] = ()
        self._warned = False

    def restore(self, spent: Sequence[Spent]) -> None:
        """Take over what a file holds, as it is opened."""
        self._governor.restore(spent)
        self._written = tuple(spent)

    async def save(self) -> None:
        """Write what has changed since the last time. Raises nothing; what fails is written later."""
        now: tuple[Spent, ...] = tuple(map(msgspec.structs.astuple, self._governor.accounts()))
        if now == self._written:
            return
        try:
            await self._database.run(partial(_save, now), durable=False)
        except StoreError as error:
            if not self._warned:
                logger.warning("costs are counted in memory only error=%s", error)
            self._warned = True
        else:
            self._written, self._warned = now, False


def put_spent(connection: Connection, spent: Spent) -> None:
    day, purpose, *counts = spent
    tables.put(connection, "spending", f"{day} {purpose}", *counts)


def all_spent(connection: Connection) -> tuple[Spent, ...]:
    """All rows. Raises Damaged."""
    return tuple(_spent(row) for row in tables.rows(connection, "spending"))


def _spent(row: tables.Row) -> Spent:
    day, _, purpose = str(row[0]).partition(" ")
    calls, failed, prompt, completion = (count if isinstance(count, int) else 0 for count in row[1:])
    return (day, purpose, calls, failed, prompt, completion)


def _save(spent: Sequence[Spent], connection: Connection) -> None:
    connection.execute("DELETE FROM spending")
    for each in spent:
        put_spent(connection, each)
