"""Capture events on stable storage until their memories are: waiting, decided upon, or given up.

`put` stores an event, `journal` its documents: from then on no model is asked about it. `remove` forgets it
when its files are there, `give_up` moves it to the dead, where a person may `revive` or `drop` it. Each is
one transaction. Beyond a cap the oldest dead *turns* go; what was acknowledged as durable never does. All
methods that are awaited raise StoreError unless they say otherwise.
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
    """One for the daemon; lives in its event loop.

    `restored` is set when the file is open. `dead_count` is how many events were given up, `trouble` why the
    last one could not be stored or removed, or nothing.
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
        self._storing: set[str] = set()  # of these, in a transaction that has not ended
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
        """Events that wait on disk, or are on their way there."""
        return len(self._sizes)

    @property
    def bytes(self) -> int:
        return sum(self._sizes.values())

    @property
    def stored(self) -> tuple[int, int]:
        """Events that are on disk by now, and their bytes."""
        sizes = [size for event_id, size in self._sizes.items() if event_id not in self._storing]
        return len(sizes), sum(sizes)

    def holds(self, event_id: str) -> bool:
        """Whether anything of an event is on disk."""
        return event_id in self._sizes or event_id in self._journalled

    def documents(self, event_id: str) -> Decision | None:
        """What was decided about an event, None if nothing was."""
        return self._documents.get(event_id)

    def stored_roots(self, event: Event) -> list[tuple[Root, str]]:
        """The roots of an event and of what was decided about it, each with the identity that it had."""
        stored = [*zip(event.roots, event.identities, strict=False)]
        return stored + [(each.root, each.identity) for each in self._documents.get(event.id, ())]

    def is_journalled(self, event_id: str) -> bool:
        """Whether what was decided will survive a power cut."""
        return event_id in self._journalled

    def restore(self, stored: StoredEvents) -> None:
        """Take over what a file holds, as it is opened."""
        self._left = stored
        self._sizes = {event.id: size for event, size in stored.events}
        self._documents |= dict(stored.documents)
        self._journalled = {event_id for event_id, _ in stored.documents}
        self.dead_count = stored.dead
        self.restored.set()

    def left(self) -> tuple[Event, ...]:
        """Events to be done, in order, once. Of one that only memory held there may be documents alone."""
        left, self._left = self._left, StoredEvents()
        if left.events or left.documents:
            logger.info("events taken up events=%d decided=%d", len(left.events), len(left.documents))
        waiting = {event.id: event for event, _ in left.events}
        decided = {event_id: Event(id=event_id, kind="explicit") for event_id, _ in left.documents}
        return tuple(event for _, event in sorted({**decided, **waiting}.items()))

    def has_room(self, count: int, size: int) -> bool:
        """Whether so many further events of so many bytes in all may wait."""
        return self.count + count <= self._max_events and self.bytes + size <= self._max_bytes

    async def put(self, event: Event) -> bool:
        """Whether there was room; the event will survive a power cut then."""
        if not self.has_room(1, len(encoded(event))):
            return False
        await self.put_all([event])
        return True

    async def put_all(self, events: Sequence[Event], *also: Change) -> None:
        """Store events in place of those with their ids, and what belongs to them, whatever room there is."""
        rows = [(event.id, encoded(event)) for event in events]
        before = {event_id: self._sizes.get(event_id) for event_id, _ in rows}
        # Who removes an event while it is being stored must find it here.
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

    def decided(self, event_id: str, documents: Decision) -> None:
        """Take note of what an event comes to, as yet in memory only."""
        self._documents[event_id] = documents

    async def journal(self, event_id: str, *also: Change) -> None:
        """Make durable what was decided about an event, as it is by then, and what belongs to it."""
        written: Decision | None = None
        while (documents := self._documents.get(event_id)) is not written and documents is not None:
            await self._commit(self._tables.journal.change({event_id: documents}), *also)
            written, also = documents, ()
        self._journalled.add(event_id)

    async def rewrite(self, left: CutEvent) -> None:
        """Put what is left of an event in the place of what there is of it, and nothing where it has gone."""
        event_id = left.event.id
        if left.documents is not None and event_id in self._documents:
            self._documents[event_id] = left.documents
        there = event_id in self._sizes, event_id in self._journalled
        if any(there):
            await self._run(partial(self._rewrite, left, *there))
        if event_id in self._sizes:
            self._sizes[event_id] = len(encoded(left.event))

    async def remove(self, event_id: str) -> None:
        """Forget an event, or see to it as soon as the disk allows. Raises nothing.

        It counts against the cap until it is gone, and a daemon may run for weeks.
        """
        self._documents.pop(event_id, None)
        if not self.holds(event_id):
            return
        if not await self._removed(event_id) and self._removing is None:
            self._removing = asyncio.create_task(self._keep_removing(), name="remove events")
            self._removing.add_done_callback(log_failure)

    async def _removed(self, event_id: str) -> bool:
        try:
            await self._run(partial(self._remove, event_id))
        except StoreError as error:
            if event_id not in self._unremoved:
                logger.warning("event stays event=%s error=%s", event_id, error)
            self._unremoved.add(event_id)
            return False
        self._unremoved.discard(event_id)
        self._gone(event_id)
        return True

    async def _keep_removing(self) -> None:
        try:
            while self._unremoved:
                await asyncio.sleep(self._retry_s)
                for event_id in sorted(self._unremoved):
                    await self._removed(event_id)
        finally:
            self._removing = None  # from here on another one is needed

    def stop(self) -> None:
        """What could not be removed is done again, to no effect, by the next daemon."""
        if self._removing is not None:
            self._removing.cancel()

    async def give_up(self, event: Event, reason: str, *, is_decided: bool = True) -> None:
        """Move an event, which need not be on disk, to the dead: with what was decided about it, if anything.

        Unless it `is_decided` it will be found out anew what it comes to.
        """
        documents = self._documents.get(event.id) if is_decided else None
        dead = DeadLetter(event, reason[:_REASON_LENGTH], utc_now(), documents=documents)
        self.dead_count = await self._run(partial(self._give_up, dead))
        self._gone(event.id)

    async def dead(self) -> tuple[DeadLetter, ...]:
        """Events that were given up, oldest first."""
        found = await self._run(self._tables.dead)
        self.dead_count = len(found)
        return found

    async def revive(self, event_id: str) -> Event | None:
        """Let a dead event wait again, whatever room there is; None if there is none that could be read."""
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
        """Erase a dead event; false if there is none of this id."""
        dropped = await self._run(partial(self._tables.drop, [event_id]))
        self.dead_count -= dropped
        return dropped > 0

    async def cut_dead(self, unwanted: Sequence[Words]) -> CutCount:
        """Take the sentences that hold an unwanted text out of dead events; empty ones are erased."""
        done, gone = await self._run(partial(self._tables.cut_dead, unwanted))
        self.dead_count -= gone
        return done

    def _gone(self, event_id: str) -> None:
        self._sizes.pop(event_id, None)
        self._documents.pop(event_id, None)
        self._journalled.discard(event_id)

    async def _run(self, work: Callable[[Connection], T]) -> T:
        try:
            result = await self._database.run(work)
        except StoreError as error:
            self.trouble = str(error)
            raise
        self.trouble = ""
        return result

    async def _commit(self, *changes: Change) -> None:
        try:
            await self._database.commit(*changes)
        except StoreError as error:
            self.trouble = str(error)
            raise
        self.trouble = ""

    def _rewrite(self, left: CutEvent, waits: bool, is_journalled: bool, connection: Connection) -> None:
        event_id = left.event.id
        # What is not there went while this waited for its turn.
        if waits and self._tables.waiting.erase(connection, event_id):
            self._tables.waiting.write(connection, event_id, left.event)
        if is_journalled and left.documents is not None and self._tables.journal.erase(connection, event_id):
            self._tables.journal.write(connection, event_id, left.documents)

    def _remove(self, event_id: str, connection: Connection) -> None:
        self._tables.remove(connection, event_id)

    def _give_up(self, dead: DeadLetter, connection: Connection) -> int:
        return self._tables.give_up(connection, dead, self._max_dead_bytes)
