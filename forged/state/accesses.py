"""How often each memory was found, and when last: never in its file, which a hit must not change.

Answered from memory and written behind: a kill may lose the last counts. Memories that nobody found for
longest go where there are too many.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from forged.state.database import Database
from forged.state.rows import MemoryRows, key_of

COUNTED = 1 << 16


class Access(msgspec.Struct, frozen=True):
    """How often a memory was found; `last` is Unix milliseconds, 0 if it never was."""

    count: int = 0
    last: int = 0

    def __add__(self, later: Access) -> Access:
        return Access(self.count + later.count, max(self.last, later.last))


_NEVER = Access()


class Accesses(MemoryRows[Access]):
    """One for the daemon, by the root's path. `clock` gives Unix seconds."""

    def __init__(
        self, database: Database, clock: Callable[[], float] = time.time, most: int = COUNTED
    ) -> None:
        super().__init__(database, "accesses", Access, most=most, merge=Access.__add__, clock=clock)

    def hit(self, memories: Iterable[tuple[str, str]]) -> None:
        """Each of these, by root and id, was found now."""
        now = Access(1, int(self._clock() * 1000))
        for root, memory_id in memories:
            key = key_of(root, memory_id)
            self.update({key: self.get(key, _NEVER) + now})

    def of(self, root: str, memory_id: str) -> Access:
        return self.get(key_of(root, memory_id), _NEVER)
