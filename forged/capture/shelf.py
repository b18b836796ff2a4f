"""The spool as the event loop sees it: one change at a time, in a thread, and what fails is done again.

It also knows of which events there may be files besides the event's own. A worker journals an event that
only memory holds, and may die before it can say so: that journal has to go with the event, or the next
daemon would link memories that somebody may have forgotten meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import ParamSpec, TypeVar

from forged.capture.spool import Buried, Loaded, Spool
from forged.capture.values import Document, Event
from forged.errors import StoreError

logger = logging.getLogger(__name__)

_RETRY_S = 2.0
_SETTLE_S = 1.0

P = ParamSpec("P")
T = TypeVar("T")
# Asked in a thread, with all texts of an event.
Unwanted = Callable[[Sequence[str]], bool]


class Shelf:
    """One for the daemon; lives in its event loop.

    `dead_count` is how many events were given up, `trouble` why the last event could not be stored or
    removed, or nothing.
    """

    def __init__(self, spool: Spool, *, keeps: bool = True, retry_s: float = _RETRY_S) -> None:
        """`keeps` false leaves every event in memory."""
        self._spool = spool
        self.keeps = keeps
        self._retry_s = retry_s
        self._changing = asyncio.Lock()
        self._errands: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None
        self._leftovers: set[str] = set()
        self._touched: set[str] = set()
        self._decided: set[str] = set()
        self._orphans: set[str] = set()
        self.dead_count = 0
        self.trouble = ""

    @property
    def count(self) -> int:
        return self._spool.count

    @property
    def bytes(self) -> int:
        return self._spool.bytes

    # --- what is known of an event's files ------------------------------------------------------------

    def touched(self, event_id: str) -> None:
        """A worker had the event and did not finish it: there may be a journal."""
        self._touched.add(event_id)

    def decided(self, event_id: str) -> None:
        """There is a journal."""
        self._touched.add(event_id)
        self._decided.add(event_id)

    def may_hold(self, event_id: str) -> bool:
        """Whether there may be files of an event that was never put here."""
        return event_id in self._touched

    def is_decided(self, event_id: str) -> bool:
        """Whether it is known that a journal says what the event comes to: no model is asked then."""
        return event_id in self._decided

    def is_orphan(self, event_id: str) -> bool:
        """Whether the journal is all that is left."""
        return event_id in self._orphans

    def _done_with(self, event_id: str) -> None:
        for known in (self._touched, self._decided, self._orphans):
            known.discard(event_id)

    # --- events that wait -----------------------------------------------------------------------------

    async def load(self) -> Loaded:
        """What an earlier daemon left, in its order; what cannot be read is logged and stays."""
        left = await self._alone(self._load)
        for problem in left.problems:
            logger.warning("spool file=%s problem=%s", problem.path, problem.reason)
        for event_id in left.orphans:
            self.decided(event_id)
        self._orphans |= set(left.orphans)
        if left.events or left.orphans:
            logger.info("spool taken up events=%d journals=%d", len(left.events), len(left.orphans))
        return left

    def _load(self) -> Loaded:
        left = self._spool.load()
        for event in left.events:
            try:
                if self._spool.journalled(event.id) is not None:
                    self.decided(event.id)
            except StoreError:  # it is there; the worker will say what is wrong with it
                self.decided(event.id)
        try:
            self.dead_count = self._spool.dead_count()
        except StoreError as error:
            self.trouble = str(error)
        return left

    async def put(self, event: Event) -> bool:
        """Whether there was room; on stable storage then. Raises StoreError: the event is not here."""
        try:
            has_room = await self._alone(self._put, event)
        except StoreError as error:
            self.trouble = str(error)
            raise
        self.trouble = ""
        return has_room

    def _put(self, event: Event) -> bool:
        if not self._spool.has_room(event.size):
            return False
        self._spool.put(event)
        return True

    async def put_all(self, events: Sequence[Event]) -> None:
        """Store what only memory holds, before the daemon ends. Waits for nobody; what fails is logged."""
        try:
            await asyncio.to_thread(self._spool.put_all, events)
        except StoreError as error:
            logger.warning("waiting turns are lost events=%d error=%s", len(events), error)
        else:
            logger.info("waiting turns spooled events=%d", len(events))

    async def among(self, events: Sequence[Event], unwanted: Unwanted) -> frozenset[str]:
        """Ids of those that are unwanted for what was said, or for what was decided about it."""
        return await self._alone(self._among, events, unwanted)

    def _among(self, events: Sequence[Event], unwanted: Unwanted) -> frozenset[str]:
        return frozenset(event.id for event in events if unwanted(_texts(event, self._journal(event.id))))

    def _journal(self, event_id: str) -> tuple[Document, ...]:
        if not self.may_hold(event_id):
            return ()
        try:
            return self._spool.journalled(event_id) or ()
        except StoreError as error:
            logger.warning("journal not read event=%s error=%s", event_id, error)
            return ()

    async def remove(self, event_id: str) -> None:
        """Take all files of an event away, or have them taken away as soon as the disk allows.

        They count against the cap, and a daemon may run for weeks.
        """
        self._done_with(event_id)
        if not await self._removed(event_id) and self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep())

    async def _removed(self, event_id: str) -> bool:
        try:
            await self._alone(self._spool.remove, event_id)
        except StoreError as error:  # done again at the next start at the latest, which changes nothing
            self.trouble = str(error)
            if event_id not in self._leftovers:
                logger.warning("spool file stays event=%s error=%s", event_id, error)
            self._leftovers.add(event_id)
            return False
        self._leftovers.discard(event_id)
        self.trouble = ""
        return True

    async def _sweep(self) -> None:
        while self._leftovers:
            await asyncio.sleep(self._retry_s)
            for event_id in sorted(self._leftovers):
                await self._removed(event_id)
        self._sweeping = None

    # --- events that were given up --------------------------------------------------------------------

    async def bury(self, event: Event, reason: str) -> None:
        """Move an event to the dead. Raises StoreError: then it is here, or in both places.

        Where nothing that waits may be on disk, nothing that was given up may either: it is dropped.
        """
        if not self.keeps:
            await self.remove(event.id)
            return
        try:
            await self._alone(self._bury, event, reason)
        except StoreError as error:
            self.trouble = str(error)
            raise
        self._done_with(event.id)

    def _bury(self, event: Event, reason: str) -> None:
        self._spool.bury(event, reason)
        self.dead_count = self._spool.dead_count()

    async def dead(self) -> tuple[Buried, ...]:
        """Raises StoreError."""
        found = await self._alone(self._spool.dead)
        self.dead_count = len(found)
        return found

    async def revive(self, event_id: str) -> Event | None:
        """Take a dead event back; None if there is none of this id. Raises StoreError."""
        event, is_decided = await self._alone(self._revive, event_id)
        if event is not None and is_decided:
            self.decided(event_id)
        return event

    def _revive(self, event_id: str) -> tuple[Event | None, bool]:
        event = self._spool.revive(event_id)
        if event is None:
            return None, False
        self.dead_count = self._spool.dead_count()
        return event, self._spool.journalled(event_id) is not None

    async def drop(self, event_id: str) -> bool:
        """Erase a dead event; false if there is none of this id. Raises StoreError."""
        return await self._alone(self._drop, (event_id,)) > 0

    async def purge_dead(self, unwanted: Unwanted) -> int:
        """Erase dead events; returns how many. Raises StoreError."""
        return await self._alone(self._purge_dead, unwanted)

    def _purge_dead(self, unwanted: Unwanted) -> int:
        dead = self._spool.dead()
        return self._drop([item.event.id for item in dead if unwanted(_texts(item.event, item.documents))])

    def _drop(self, event_ids: Sequence[str]) -> int:
        dropped = sum(self._spool.drop_dead(event_id) for event_id in event_ids)
        if dropped:
            self.dead_count = self._spool.dead_count()
        return dropped

    # --- in the background ----------------------------------------------------------------------------

    def start(self, errand: Coroutine[None, None, None]) -> None:
        """Have something done that nobody waits for."""
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def settle(self) -> None:
        """Let errands end for a moment, and what would be done again for ever end now."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._errands:
            await asyncio.wait(self._errands, timeout=_SETTLE_S)

    async def _alone(self, change: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        async with self._changing:
            return await asyncio.to_thread(change, *args, **kwargs)


def _texts(event: Event, documents: Sequence[Document]) -> tuple[str, ...]:
    said = (utterance.text for utterance in event.window)
    return (*said, *(document.memory.content for document in documents))
