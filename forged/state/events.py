"""Capture events on stable storage: waiting, decided, or given up.

`put` stores an event. `journal` stores its documents; after that no model is asked about it. `remove` deletes
it when its files are written. `give_up` moves it to the dead events, where a person may `revive` or `drop`
it. Each is one transaction. Beyond a limit the oldest dead *turns* are removed, durable events never. All
async methods raise StoreError unless they say otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from forged.errors import StoreError
from forged.fair_queue import log_failure
from forged.files import Root
from forged.memory import utc_now
from forged.state.cutting import CutCount, CutEvent
from forged.state.database import Change, Database
from forged.state.event_rows import EventTables, StoredEvents
from forged.state.event_values import DeadLetter, Decision, Event, encoded
from forged.text.forgetting import Words

if TYPE_CHECKING:
    from sqlite3 import Connection

logger = logging.getLogger(__name__)

_RETRY_S = 2.0
_REASON_LENGTH = 2000

T = TypeVar("T")


class EventStore:
    """Store of capture events that wait, are decided or are dead. For the event loop of the daemon.

    `restored` is set when the file is open. `dead_count` counts dead events. `trouble` explains why the last
    event could not be stored or removed, or is empty.
    """

    def __init__(
        self,
        database: Database,
        *,
        max_bytes: int = 64 << 20,
        max_events: int = 4096,
        max_dead_bytes: int = 32 << 20,
        retry_s: float = _RETRY_S,
    ) -> None:
        self._database = database
        self._tables = EventTables(database, self.restore)
        self._max_bytes = max_bytes
        self._max_events = max_events
        self._max_dead_bytes = max_dead_bytes
        self._retry_s = retry_s
        self._sizes: dict[str, int] = {}
        self._storing: set[str] = set()  # events in an unfinished transaction
        self._documents: dict[str, Decision] = {}
        self._journalled: set[str] = set()
        self._unremoved: set[str] = set()
        self._removing: asyncio.Task[None] | None = None
        self._left: StoredEvents = StoredEvents()
        self.restored = asyncio.Event()
        self.dead_count = 0
        self.trouble = ""

    @property
    def count(self) -> int:
        """Return the number of waiting or decided events, on disk or being written."""
        return len(self._sizes)

    @property
    def bytes(self) -> int:
        """Return the size of waiting or decided events, on disk or being written."""
        return sum(self._sizes.values())

    @property
    def stored(self) -> tuple[int, int]:
        """Return the count and bytes of the waiting or decided events on disk."""
        sizes = [size for event_id, size in self._sizes.items() if event_id not in self._storing]
        return len(sizes), sum(sizes)

    def holds(self, event_id: str) -> bool:
        """Return True if an event or its decision is on disk or being written."""
        return event_id in self._sizes or event_id in self._journalled

    def documents(self, event_id: str) -> Decision | None:
        """Return the memories decided for an event, which may be none; None if it is undecided."""
        return self._documents.get(event_id)

    def stored_roots(self, event: Event) -> list[tuple[Root, str]]:
        """Return the roots of an event and its decided memories, each with its identity at that time."""
        stored = [*zip(event.roots, event.identities, strict=False)]
        return stored + [(each.root, each.identity) for each in self._documents.get(event.id, ())]

    def is_journalled(self, event_id: str) -> bool:
        """Return True if the decision on an event is on disk and survives a power cut."""
        return event_id in self._journalled

    def restore(self, stored: StoredEvents) -> None:
        """Take over the events and decisions of the file at open, and set `restored`."""
        self._left = stored
        self._sizes = {event.id: size for event, size in stored.events}
        self._documents |= dict(stored.documents)
        self._journalled = {event_id for event_id, _ in stored.documents}
        self.dead_count = stored.dead
        self.restored.set()

    def take_restored(self) -> tuple[Event, ...]:
        """Return the events found at open, waiting or decided, in order; later calls return none."""
        left, self._left = self._left, StoredEvents()
        if left.events or left.documents:
            logger.info("events taken up events=%d decided=%d", len(left.events), len(left.documents))
        waiting = {event.id: event for event, _ in left.events}
        decided = {event_id: Event(id=event_id, kind="explicit") for event_id, _ in left.documents}
        return tuple(event for _, event in sorted({**decided, **waiting}.items()))

    def has_room(self, count: int, size: int) -> bool:
        """Return True if so many more events of so many bytes may wait."""
        return self.count + count <= self._max_events and self.bytes + size <= self._max_bytes

    async def put(self, event: Event) -> bool:
        """Store an event durably; return False if there is no room for it."""
        if not self.has_room(1, len(encoded(event))):
            return False
        await self.put_all([event])
        return True

    async def put_all(self, events: Sequence[Event], *also: Change) -> None:
        """Store events and related changes, regardless of room; events with known ids are replaced."""
        rows = [(event.id, encoded(event)) for event in events]
        before = {event_id: self._sizes.get(event_id) for event_id, _ in rows}
        # A concurrent removal must find the event here.
        self._sizes |= {event_id: len(data) for event_id, data in rows}
        fresh = {event_id for event_id, size in before.items() if size is None}
        self._storing |= fresh
        try:
            await self._commit(self._tables.waiting.change({event.id: event for event in events}), *also)
        except StoreError:
            for event_id, size in before.items():
                if size is None:
                    self._sizes.pop(event_id, None)
                elif event_id in self._sizes:
                    self._sizes[event_id] = size
            raise
        finally:
            self._storing -= fresh

    def set_decision(self, event_id: str, documents: Decision) -> None:
        """Set the memories decided for an event, in memory only, until `journal` stores them."""
        self._documents[event_id] = documents

    async def journal(self, event_id: str, *also: Change) -> None:
        """Store the decision on an event durably, with related changes, again if it changed meanwhile."""
        written: Decision | None = None
        while (documents := self._documents.get(event_id)) is not written and documents is not None:
            await self._commit(self._tables.journal.change({event_id: documents}), *also)
            written, also = documents, ()
        self._journalled.add(event_id)

    async def rewrite(self, left: CutEvent) -> None:
        """Replace an event and its decided memories by what a cut left of them, unless they are gone."""
        event_id = left.event.id
        if left.documents is not None and event_id in self._documents:
            self._documents[event_id] = left.documents
        there = event_id in self._sizes, event_id in self._journalled
        if any(there):
            await self._run(partial(self._rewrite, left, *there))
        if event_id in self._sizes:
            self._sizes[event_id] = len(encoded(left.event))

    async def remove(self, event_id: str) -> None:
        """Delete an event with its decision, later if the disk fails now. Raises nothing.

        Until then it counts against the limit.
        """
        self._documents.pop(event_id, None)
        if not self.holds(event_id):
            return
        if not await self._try_remove(event_id) and self._removing is None:
            self._removing = asyncio.create_task(self._keep_removing(), name="remove events")
            self._removing.add_done_callback(log_failure)

    async def _try_remove(self, event_id: str) -> bool:
        """Delete an event and its decision; return False if that failed, and note it for retries."""
        try:
            await self._run(partial(self._remove, event_id))
        except StoreError as error:
            if event_id not in self._unremoved:
                logger.warning("event stays event=%s error=%s", event_id, error)
            self._unremoved.add(event_id)
            return False
        self._unremoved.discard(event_id)
        self._drop_in_memory(event_id)
        return True

    async def _keep_removing(self) -> None:
        """Retry failed deletions of events every few seconds until none is left."""
        try:
            while self._unremoved:
                await asyncio.sleep(self._retry_s)
                for event_id in sorted(self._unremoved):
                    await self._try_remove(event_id)
        finally:
            self._removing = None  # a later failure starts a new task

    def stop(self) -> None:
        """Stop retrying deletions; the next daemon repeats unfinished ones, which changes nothing."""
        if self._removing is not None:
            self._removing.cancel()

    async def give_up(self, event: Event, reason: str, *, is_decided: bool = True) -> None:
        """Move an event to the dead events, with its decided memories if any.

        Unless it `is_decided`, it is classified again when revived.
        """
        documents = self._documents.get(event.id) if is_decided else None
        dead = DeadLetter(event, reason[:_REASON_LENGTH], utc_now(), documents=documents)
        self.dead_count = await self._run(partial(self._give_up, dead))
        self._drop_in_memory(event.id)

    async def dead(self) -> tuple[DeadLetter, ...]:
        """Return all dead events, in the order of their acceptance, and renew `dead_count`."""
        found = await self._run(self._tables.dead)
        self.dead_count = len(found)
        return found

    async def revive(self, event_id: str) -> Event | None:
        """Move a dead event back to the waiting ones and return it; None if unknown or unreadable."""
        found = await self._run(partial(self._tables.revive, event_id))
        if found is None:
            return None
        event, size, documents = found
        self.dead_count -= 1
        self._sizes[event_id] = size
        if documents is not None:
            self._documents[event_id] = documents
            self._journalled.add(event_id)
        return event

    async def drop(self, event_id: str) -> bool:
        """Delete a dead event for good; return False for an unknown id."""
        dropped = await self._run(partial(self._tables.drop, [event_id]))
        self.dead_count -= dropped
        return dropped > 0

    async def cut_dead(self, unwanted: Sequence[Words]) -> CutCount:
        """Cut forgotten texts from dead events and delete empty ones; return the counts."""
        done, gone = await self._run(partial(self._tables.cut_dead, unwanted))
        self.dead_count -= gone
        return done

    def _drop_in_memory(self, event_id: str) -> None:
        """Drop the size and the decision of an event from memory."""
        self._sizes.pop(event_id, None)
        self._documents.pop(event_id, None)
        self._journalled.discard(event_id)

    async def _run(self, work: Callable[[Connection], T]) -> T:
        """Run work on the file in a transaction; `trouble` is set to the reason of a failure, or cleared."""
        try:
            result = await self._database.run(work)
        except StoreError as error:
            self.trouble = str(error)
            raise
        self.trouble = ""
        return result

    async def _commit(self, *changes: Change) -> None:
        """Write changes in one transaction; `trouble` is set to the reason of a failure, or cleared."""
        try:
            await self._database.commit(*changes)
        except StoreError as error:
            self.trouble = str(error)
            raise
        self.trouble = ""

    def _rewrite(self, left: CutEvent, waits: bool, is_journalled: bool, connection: Connection) -> None:
        """Replace an event and its decision in a transaction, unless they were removed meanwhile."""
        event_id = left.event.id
        # An event that is missing was removed meanwhile.
        if waits and self._tables.waiting.erase(connection, event_id):
            self._tables.waiting.write(connection, event_id, left.event)
        if is_journalled and left.documents is not None and self._tables.journal.erase(connection, event_id):
            self._tables.journal.write(connection, event_id, left.documents)

    def _remove(self, event_id: str, connection: Connection) -> None:
        """Delete an event in a transaction."""
        self._tables.remove(connection, event_id)

    def _give_up(self, dead: DeadLetter, connection: Connection) -> int:
        """Move an event to the dead events in a transaction; return the number of dead events."""
        return self._tables.give_up(connection, dead, self._max_dead_bytes)
