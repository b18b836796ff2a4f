"""Tables of attributes of memories (`Facts`) and of access counts.

Attributes are written in the transaction that records a write, before the file gets its name. After a kill
between the two, the row waits for the repeated request. A new version inherits the attributes of the one that
it replaces, except for the changes of its patch. There is room for 131,072 memories and 64 MiB. Counts are
write-behind. Both tables answer from memory, in any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from forged.attributes import UNKNOWN, Facts
from forged.state.database import Database
from forged.state.rows import MemoryRows, key_of

# Limit for all memories together; the oldest rows are removed first.
MOST, MOST_IN_ALL = 1 << 17, 64 << 20


class Attributes(MemoryRows[Facts]):
    """Table of the attributes of all memories, by the root's path and the memory's id."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "attributes", Facts, durable=True, most=MOST, most_bytes=MOST_IN_ALL)

    def of(self, root: str, memory_id: str) -> Facts:
        """Return the attributes of a memory, without its counts; the defaults where none were set."""
        return self.get(key_of(root, memory_id), UNKNOWN)

    async def put(self, root: str, facts: Mapping[str, Facts]) -> None:
        """Set attributes of memories of a root by id, durably, empty ones left out. Raises StoreError."""
        await self.database.commit(
            self.restore_change(root, {each: known for each, known in facts.items() if known != UNKNOWN})
        )


COUNTED = 1 << 16


class Access(msgspec.Struct, frozen=True):
    """Access count of a memory and the time of the last access: `last`, Unix milliseconds, 0 for never."""

    count: int = 0
    last: int = 0

    def __add__(self, later: Access) -> Access:
        return Access(self.count + later.count, max(self.last, later.last))


_NEVER = Access()


class Accesses(MemoryRows[Access]):
    """Table of access counts of memories, by the root's path and the memory's id."""

    def __init__(
        self, database: Database, clock: Callable[[], float] = time.time, most: int = COUNTED
    ) -> None:
        super().__init__(database, "accesses", Access, most=most, merge=Access.__add__, clock=clock)
        self.on_hit: Callable[[str, str], object] = lambda _root, _id: None  # called for each access

    def hit(self, memories: Iterable[tuple[str, str]]) -> None:
        """Count one access now for each of these memories, given by root and id; saved within seconds."""
        now = Access(1, int(self._clock() * 1000))
        for root, memory_id in memories:
            key = key_of(root, memory_id)
            self.update({key: self.get(key, _NEVER) + now})
            self.on_hit(root, memory_id)

    def of(self, root: str, memory_id: str) -> Access:
        """Return the access count of a memory and its last access, zeros for none."""
        return self.get(key_of(root, memory_id), _NEVER)
