"""The daemon's database on a disk that fails where a test says so."""

from __future__ import annotations

from collections.abc import Callable
from sqlite3 import Connection
from typing import TypeVar

from forged.errors import StoreError
from forged.state.database import Change, Database

T = TypeVar("T")


class FlakyDatabase(Database):
    """Fails at the operations whose names are in `failing`; `asked` are all names, in order."""

    failing: frozenset[str] = frozenset()
    asked: tuple[str, ...] = ()

    async def run(self, work: Callable[[Connection], T], *, durable: bool = True) -> T:
        self._ask(getattr(work, "func", work).__name__.strip("_"))
        return await super().run(work, durable=durable)

    async def commit(self, *changes: Change, durable: bool = True) -> None:
        """A change has the name of its table."""
        for change in changes:
            if not change.is_empty:
                self._ask(change.name)
        await super().commit(*changes, durable=durable)

    def _ask(self, name: str) -> None:
        self.asked += (name,)
        if name in self.failing:
            raise StoreError(f"cannot {name}: the disk is on fire")
