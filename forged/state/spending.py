"""What model calls have cost, by day and purpose, as the governor counts it: read once, written now and then.

Counts are approximate money and not data, so writing them waits for no disk, and whatever is wrong with that
ends no call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from forged.state.database import Database
from forged.state.rows import Rows
from forged.state.tables import Row
from forged_client.protocol import DayCost

if TYPE_CHECKING:
    from forged.models import Governor


class Spending(Rows[DayCost]):
    """The governor's accounts in the file."""

    def __init__(self, database: Database, governor: Governor) -> None:
        super().__init__(database, "spending", DayCost, is_copied=True)
        self._governor = governor

    def restore(self, found: Iterable[Row[DayCost]]) -> None:
        """Have the governor add to what a file holds."""
        super().restore(found)
        self._governor.restore(self.values())

    async def save(self) -> None:
        """Write what has changed since the last time. Raises nothing; what fails is written later."""
        now = {f"{spent.day} {spent.purpose}": spent for spent in self._governor.accounts()}
        gone = dict.fromkeys(self.keys() - now)
        self.update(gone | {key: spent for key, spent in now.items() if self.get(key) != spent})
        await super().save()
