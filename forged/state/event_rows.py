"""Tables of capture events: waiting, decided, and given up.

Each method runs in the database's thread within a transaction. Damaged means that a row cannot be read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from forged.state.cutting import CutCount, cut
from forged.state.database import Database, Table
from forged.state.event_values import DeadLetter, Decision, Event
from forged.text.forgetting import Words

if TYPE_CHECKING:
    from sqlite3 import Connection

logger = logging.getLogger(__name__)


class StoredEvents(msgspec.Struct, frozen=True):
    """Contents of the event tables at open: waiting events with sizes, decided memories, dead count."""

    events: tuple[tuple[Event, int], ...] = ()
    documents: tuple[tuple[str, Decision], ...] = ()
    dead: int = 0


class EventTables:
    """Tables of waiting, decided and dead events in `state.db`; `restored` gets their contents at open."""

    def __init__(self, database: Database, restored: Callable[[StoredEvents], object]) -> None:
        self._restored = restored
        self.waiting = Table(database, "events", Event, load=self._load)
        self.journal = Table(database, "journal", Decision)
        self._dead = Table(database, "dead", DeadLetter)

    def _load(self, connection: Connection) -> Callable[[], object]:
        """Read waiting and decided events and count dead ones; return a function that hands them over."""
        stored = StoredEvents(
            tuple((row.value, row.size) for row in self.waiting.read_all(connection)),
            tuple((row.key, row.value) for row in self.journal.read_all(connection)),
            self._dead.count_rows(connection),
        )
        return lambda: self._restored(stored)

    def remove(self, connection: Connection, event_id: str) -> None:
        """Delete a waiting event and the memories decided for it."""
        self.waiting.erase(connection, event_id)
        self.journal.erase(connection, event_id)

    def give_up(self, connection: Connection, dead: DeadLetter, most_bytes: int) -> int:
        """Move an event to the dead events, kept within `most_bytes`; return the count of dead events.

        Only turns are removed to keep the limit.
        """
        self._dead.write(connection, dead.event.id, dead)
        self._erase_oldest_turns(connection, most_bytes)
        self.remove(connection, dead.event.id)
        return self._dead.count_rows(connection)

    def _erase_oldest_turns(self, connection: Connection, most_bytes: int) -> None:
        """Delete the oldest dead turns while dead events take more than `most_bytes`."""
        sizes = self._dead.sizes(connection)
        over = sum(sizes.values()) - most_bytes
        for event_id, size in sizes.items():
            if over <= 0:
                return
            found = self._dead.read(connection, event_id)
            if found is not None and found.event.kind == "turn":
                self._dead.erase(connection, event_id)
                over -= size
                logger.warning("dead turn erased, there are too many event=%s bytes=%d", event_id, size)

    def dead(self, connection: Connection) -> tuple[DeadLetter, ...]:
        """Return all dead events with the sizes of their rows, in the order of their acceptance."""
        rows = self._dead.read_all(connection)
        return tuple(msgspec.structs.replace(row.value, bytes=row.size) for row in rows)

    def revive(self, event_id: str, connection: Connection) -> tuple[Event, int, Decision | None] | None:
        """Make a dead event wait again; return it, size, decision; None if gone or unreadable."""
        found = self._dead.read(connection, event_id)
        if found is None or not found.event.window:
            return None
        self.waiting.write(connection, event_id, found.event)
        if found.documents is not None:
            self.journal.write(connection, event_id, found.documents)
        self._dead.erase(connection, event_id)
        return found.event, len(self.waiting.encode(found.event)), found.documents

    def drop(self, event_ids: Sequence[str], connection: Connection) -> int:
        """Delete dead events by id for good; return how many existed."""
        return self._dead.erase(connection, *event_ids)

    def cut_dead(self, unwanted: Sequence[Words], connection: Connection) -> tuple[CutCount, int]:
        """Cut a forgotten text from all dead events; return the counts, and how many events were deleted."""
        done, gone = CutCount(), 0
        for row in tuple(self._dead.read_all(connection)):
            left = cut(row.value.event, row.value.documents, unwanted)
            done += left.cut
            if left.sentences and left.is_empty:
                gone += self.drop([row.key], connection)
            elif left.sentences:
                rest = msgspec.structs.replace(row.value, event=left.event, documents=left.documents)
                self._dead.write(connection, row.key, rest)
        return done, gone
