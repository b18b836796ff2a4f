"""How often each memory was found, and when last: never in its file, which a hit must not change.

Answered from memory and written every five seconds: a kill may lose the last counts. Memories that nobody
found for longest go where there are too many.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

import msgspec

from forged.state import tables
from forged.state.database import Database
from forged.state.details import key_of
from forged.state.soft_rows import ChangedRows

if TYPE_CHECKING:
    from sqlite3 import Connection

COUNTED = 1 << 16


class Access(msgspec.Struct, frozen=True):
    """How often a memory was found; `last` is Unix milliseconds, 0 if it never was."""

    count: int = 0
    last: int = 0


Row = tuple[str, Access]
_NEVER = Access()


class Accesses:
    """One for the daemon; lives in its event loop. `clock` gives Unix seconds."""

    def __init__(
        self, database: Database, clock: Callable[[], float] = time.time, most: int = COUNTED
    ) -> None:
        self._clock = clock
        self._most = most
        self._known: OrderedDict[str, Access] = OrderedDict()  # found longest ago first
        self._changed = ChangedRows(database, "accesses", "how often memories are found is")

    def restore(self, rows: Iterable[Row]) -> None:
        """Take over what a file holds, as it is opened; what was found by then is counted on top."""
        now, self._known = self._known, OrderedDict(sorted(rows, key=lambda each: each[1].last))
        for key, access in now.items():
            self._set(key, Access(self._known.get(key, _NEVER).count + access.count, access.last))

    def get(self, root: str, memory_id: str) -> Access:
        return self._known.get(key_of(root, memory_id), _NEVER)

    def hit(self, memories: Iterable[tuple[str, str]]) -> None:
        """Each of these, by root and id, was found now."""
        now = int(self._clock() * 1000)
        for root, memory_id in memories:
            key = key_of(root, memory_id)
            self._set(key, Access(self._known.get(key, _NEVER).count + 1, now))
        while len(self._known) > self._most:
            self._changed.add(self._known.popitem(last=False)[0])

    async def forget(self, root: str, memory_ids: Collection[str]) -> None:
        """Keep nothing of these memories of a root; durably. Raises StoreError."""
        for key in (key_of(root, each) for each in memory_ids):
            if self._known.pop(key, None) is not None:
                self._changed.add(key)
        await self._changed.write(self._row)

    async def save(self) -> None:
        """Write what has changed since the last time. Raises nothing; what fails is written later."""
        await self._changed.save(self._row)

    def _set(self, key: str, access: Access) -> None:
        self._known[key] = access
        self._known.move_to_end(key)
        self._changed.add(key)

    def _row(self, key: str) -> tables.Row | None:
        access = self._known.get(key)
        return None if access is None else (key, access.count, access.last)


def all_accesses(connection: Connection) -> tuple[Row, ...]:
    """All rows."""
    return tuple(
        (str(key), Access(*(each if isinstance(each, int) else 0 for each in counts)))
        for key, *counts in tables.rows(connection, "accesses")
    )
