"""What model calls have cost, by day and purpose, as the governor counts it: read once, written now and then.

Counts are approximate money and not data, so writing them waits for no disk, and whatever is wrong with that
ends no call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from forged.state import tables
from forged.state.database import Database
from forged.state.soft_rows import SoftRows

if TYPE_CHECKING:
    from sqlite3 import Connection

    from forged.models import Governor

# Day (UTC, as YYYY-MM-DD), purpose, calls, failed ones among them, prompt tokens, completion tokens.
Spent = tuple[str, str, int, int, int, int]


class Spending:
    """The governor's accounts in the file."""

    def __init__(self, database: Database, governor: Governor) -> None:
        self._rows = SoftRows(database, "spending", "costs are")
        self._governor = governor

    def restore(self, spent: Sequence[Spent]) -> None:
        """Take over what a file holds, as it is opened."""
        self._governor.restore(spent)
        self._rows.restore(tuple(map(_row, spent)))

    async def save(self) -> None:
        """Write what has changed since the last time. Raises nothing; what fails is written later."""
        await self._rows.save([_row(msgspec.structs.astuple(each)) for each in self._governor.accounts()])


def put_spent(connection: Connection, spent: Spent) -> None:
    tables.put(connection, "spending", *_row(spent))


def all_spent(connection: Connection) -> tuple[Spent, ...]:
    """All rows. Raises Damaged."""
    return tuple(_spent(row) for row in tables.rows(connection, "spending"))


def _spent(row: tables.Columns) -> Spent:
    day, _, purpose = str(row[0]).partition(" ")
    calls, failed, prompt, completion = (count if isinstance(count, int) else 0 for count in row[1:])
    return (day, purpose, calls, failed, prompt, completion)


def _row(spent: Spent) -> tables.Columns:
    day, purpose, *counts = spent
    return (f"{day} {purpose}", *counts)
