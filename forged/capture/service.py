"""Capture as the daemon sees it: what it accepts, what waits, and what a person may do about it.

The queue is the daemon's; the worker has one event at a time. An event leaves only when its memories are on
disk, so whatever dies in between is done again, and done again it changes nothing that is visible: what was
decided is journalled beside the event before a file appears (reliability-anchors.md 3.1). `durable` is said
after fsync and then holds: such an event is never replaced, never evicted, and ends in memories or in dead/.

`gate` says when an event may cost a call, `handover` what the worker does next, `shelf` what is on disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from forged.capture.dispatcher import HandOver, MakeSupervisor, Rank, Written
from forged.capture.gate import Gate
from forged.capture.queue import CaptureQueue, Change
from forged.capture.shelf import Shelf, Unwanted
from forged.capture.spool import Buried, Spool
from forged.capture.supervisor import Supervisor
from forged.capture.values import Event, WorkerSettings
from forged.config.known_models import BUILTIN_RULES
from forged.counters import Metrics
from forged.errors import StoreError
from forged.models.budget import Breaker, Governor
from forged.state.pauses import Pauses


class Outcome(msgspec.Struct, frozen=True):
    """The acknowledgement: accepted, coalesced, durable or rejected, and then why."""

    word: str
    reason: str = ""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What status shows of capture beside the counters; the fields of the wire's CaptureReport."""

    state: str
    reason: str
    classifier: str
    worker_pid: int
    worker_restarts: int
    turns: int
    spooled: int
    spool_bytes: int
    in_hand: str
    in_hand_age_s: float
    last_success: str
    last_error: str
    dead: int


class Pipeline:
    """One for the daemon. `rank` attaches heads to an event, `written` is told of every file."""

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        spool: Spool,
        governor: Governor,
        pauses: Pauses,
        metrics: Metrics,
        rank: Rank,
        written: Written,
        keeps: bool = True,
        coalesce: bool = True,
        off: str = "",
        problem: str = "",
        supervisor: MakeSupervisor = Supervisor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`keeps` false leaves everything in memory; `off` and `problem` say why nothing can be captured.

        `supervisor` makes what keeps the worker; `clock` gives seconds that never go back.
        """
        self._classifier = settings.classifier
        self._pauses = pauses
        self._metrics = metrics
        self.off = off
        self._problem = problem
        self._clock = clock
        self._queue = CaptureQueue(coalesce=coalesce)
        self._shelf = Shelf(spool, keeps=keeps)
        self._handing = HandOver(
            settings=settings,
            queue=self._queue,
            shelf=self._shelf,
            gate=Gate(governor, Breaker(clock), asks_model=settings.classifier != BUILTIN_RULES),
            pauses=pauses,
            metrics=metrics,
            rank=rank,
            written=written,
            make_supervisor=supervisor,
            clock=clock,
        )
        self._taken_up = asyncio.Event()  # clear while `run` reads what an earlier daemon left
        self._taken_up.set()
        self._closing = False

    # --- what agents hand over ------------------------------------------------------------------------

    async def accept(self, event: Event) -> Outcome:
        """Take an event, or say why not. A durable one is on stable storage on return."""
        await self._taken_up.wait()  # what its session left comes before it
        if reason := self._refusal(event):
            return self._refused(reason)
        if event.is_durable and self._shelf.keeps:
            return await self._store(event)
        change = self._add(event, on_disk=False)
        if any(waiting.event is event for waiting in change.evicted):
            return self._refused("queue_full")
        if change.coalesced:
            self._metrics.captures_coalesced += 1
            return Outcome("coalesced")
        self._metrics.captures_accepted += 1
        return Outcome("accepted")

    def _refusal(self, event: Event) -> str:
        if self.off:
            return self.off
        if self._closing:
            return "the daemon is stopping"
        if reason := self._pauses.reason(event.tops):
            return reason
        return "" if event.window else "nothing_to_capture"

    def _refused(self, reason: str) -> Outcome:
        self._metrics.captures_rejected += 1
        return Outcome("rejected", reason)

    async def _store(self, event: Event) -> Outcome:
        try:
            if not await self._shelf.put(event):
                return self._refused("spool_full")
        except StoreError as error:
            return self._refused(f"storage_error: {error}")
        self._add(event, on_disk=True)
        self._metrics.captures_durable += 1
        return Outcome("durable")

    def _add(self, event: Event, *, on_disk: bool) -> Change:
        """Queue an event; what left the queue for it leaves the disk as well."""
        change = self._queue.add(event, on_disk=on_disk)
        for waiting in (*change.coalesced, *change.evicted):
            if self._handing.has_files(waiting):
                self._shelf.start(self._shelf.remove(waiting.event.id))
        self._metrics.captures_replaced += sum(waiting.event is not event for waiting in change.evicted)
        self._handing.supervisor.want()
        self._handing.wake()
        return change

    # --- what a person asks ---------------------------------------------------------------------------

    async def purge(self, unwanted: Unwanted) -> int:
        """Take events that wait or were given up away for good, because their text was forgotten.

        `unwanted` gets what was said in an event and what was decided about it. The worker may finish the one
        that it has; nothing else comes of that. Raises StoreError if the dead could not be looked through.
        """
        await self._taken_up.wait()
        ids = await self._shelf.among(self._queue.events(), unwanted)
        dropped = (*self._queue.drop(lambda event: event.id in ids), *self._handing.disowned(ids))
        for waiting in dropped:
            if self._handing.has_files(waiting):
                await self._shelf.remove(waiting.event.id)
        return len(dropped) + await self._shelf.purge_dead(unwanted)

    async def dead(self) -> tuple[Buried, ...]:
        """Events that were given up, oldest first. Raises StoreError."""
        return tuple(item for item in await self._shelf.dead() if not self._waits(item.event.id))

    async def retry(self, event_id: str) -> bool:
        """Queue a dead event again; false if there is none of this id. Raises StoreError."""
        await self._taken_up.wait()
        if self._waits(event_id):
            return False
        event = await self._shelf.revive(event_id)
        if event is None:
            return False
        self._add(event, on_disk=True)
        return True

    async def drop(self, event_id: str) -> bool:
        """Erase a dead event; false if there is none of this id. Raises StoreError."""
        return not self._waits(event_id) and await self._shelf.drop(event_id)

    def _waits(self, event_id: str) -> bool:
        """Whether it is in the line, as one is whose burial was cut short: it is not dead yet."""
        return any(event.id == event_id for event in self._queue.events())

    def resumed(self) -> None:
        """What was paused may go on."""
        self._handing.wake()

    def state(self) -> State:
        state, reason = self._condition()
        hand, supervisor = self._handing.hand, self._handing.supervisor
        return State(
            state=state,
            reason=reason,
            classifier=self._classifier,
            worker_pid=supervisor.pid,
            worker_restarts=supervisor.restarts,
            turns=self._queue.turns,
            spooled=self._shelf.count,
            spool_bytes=self._shelf.bytes,
            in_hand=hand.waiting.event.id if hand is not None else "",
            in_hand_age_s=round(self._clock() - hand.since, 3) if hand is not None else 0.0,
            last_success=self._handing.last_success,
            last_error=self._last_error,
            dead=self._shelf.dead_count,
        )

    @property
    def _last_error(self) -> str:
        return self._shelf.trouble or self._handing.last_error

    def _condition(self) -> tuple[str, str]:
        if self.off:
            return "off", self.off
        if trouble := self._problem or self._handing.supervisor.problem:
            return "failing", trouble
        if paused := self._pauses.reason(()):
            return "paused", paused
        if self._handing.hand is not None:
            return "busy", ""
        if len(self._queue):
            return "waiting", self._handing.waits_for or self._last_error
        if not self._taken_up.is_set():
            return "waiting", "the spool is being read"
        return "idle", ""

    # --- life -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take up what an earlier daemon left, keep a worker, and hand it one event after the other.

        Ends by itself if there is nobody to hand anything to. What was accepted is kept then, for a daemon
        that can classify it.
        """
        self._taken_up.clear()
        try:
            await self._take_up()
        finally:
            self._taken_up.set()
        if not (self.off or self._problem):
            await self._handing.run()

    async def close(self) -> None:
        """After `run` was cancelled: what only memory holds goes to the spool (B30)."""
        self._closing = True
        await self._shelf.settle()
        waiting = [event for event in self._queue.in_memory() if not self._handing.is_unwanted(event)]
        if waiting and self._shelf.keeps:
            await self._shelf.put_all(waiting)

    async def _take_up(self) -> None:
        """What was acknowledged before the last end waits again, in its order."""
        left = await self._shelf.load()
        for event_id in left.orphans:
            self._add(Event(id=event_id, kind="explicit"), on_disk=True)
        for event in left.events:
            self._add(event, on_disk=True)
