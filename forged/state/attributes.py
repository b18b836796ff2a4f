"""Tables of what a memory's file does not hold: its attributes (`Facts`), and how often it was found.

Attributes are put in the transaction that puts the write itself on record, before the file has a name: a kill
between leaves a row that nobody reads until the request comes again. A new version takes over those of the
one that it replaces, but for the changes of its patch; there is room for 131,072 memories and 64 MiB. Counts
are written behind: a kill may lose the last. Both are answered from memory, in any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from forged.attributes import UNKNOWN, Facts
from forged.state.database import Database
from forged.state.rows import MemoryRows, key_of

# Of all memories together; the rows that were put longest ago go first.
MOST, MOST_IN_ALL = 1 << 17, 64 << 20


class Attributes(MemoryRows[Facts]):
    """One for the daemon. All roots together, by the root's path and the memory's id."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "attributes", Facts, durable=True, most=MOST, most_bytes=MOST_IN_ALL)

    def of(self, root: str, memory_id: str) -> Facts:
        """Return the attributes of a memory, without its counts; the defaults where none were set."""
        return self.get(key_of(root, memory_id), UNKNOWN)

    async def put(self, root: str, facts: Mapping[str, Facts]) -> None:
        """Let these be the attributes of memories of a root, durably. Raises StoreError."""
        await self.database.commit(
            self.returned(root, {each: known for each, known in facts.items() if known != UNKNOWN})
        )


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
