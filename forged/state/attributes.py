"""Table of the attributes (`Facts`) that a memory's file does not hold: type, importance, metadata, writer.

Files stay as a person wrote them. A row is put in the transaction that puts the write itself on record,
before the file has a name: whoever finds a memory finds its attributes, and a kill between leaves a row that
nobody reads until the request comes again. A new version takes over those of the one that it replaces, but
for what its own patch changes. Counts are rows of their own (`accesses`), which are written behind. There is
room for 131,072 memories and 64 MiB. Answered from memory, in any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from forged.attributes import UNCHANGED, UNKNOWN, Facts, FactsPatch
from forged.state.database import Change, Database
from forged.state.rows import MemoryRows, key_of

if TYPE_CHECKING:
    from sqlite3 import Connection

# Of all memories together; the rows that were put longest ago go first.
MOST, MOST_IN_ALL = 1 << 17, 64 << 20


class NewFacts(msgspec.Struct, frozen=True):
    """Attributes of a memory that is about to be written into a root, where it replaces `base`."""

    root: str
    id: str
    base: str = ""
    patch: FactsPatch = UNCHANGED


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

    def following(self, writes: Iterable[NewFacts], connection: Connection) -> Change:
        """Return the attributes of writes that share a transaction: one may replace another one of them."""
        fresh: dict[str, Facts | None] = {}
        for write in writes:
            base = key_of(write.root, write.base)
            before = (fresh.get(base) or self.read(connection, base)) if write.base else None
            after = write.patch.apply(before or UNKNOWN)
            if after != UNKNOWN:
                fresh[key_of(write.root, write.id)] = after
        return self.change(fresh)
