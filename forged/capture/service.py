"""Capture for the rest of the daemon: takes events, runs the worker, and answers what a person asks of it.

`accept` takes an event and answers with a word. `durable` is said when the event is on stable storage, and
then holds: such an event is never replaced, never evicted, and ends in memories or among the dead. An event
leaves only when its memories are on disk, so whatever dies in between is done again, and done again it
changes nothing that is visible. `run` does the work until it is cancelled; `close` comes after that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

import msgspec

from forged.capture.dispatcher import Dispatcher, Keeps, MakeSupervisor, Rank
from forged.capture.gate import Gate
from forged.capture.queue import CaptureQueue, Change, Waiting
from forged.capture.supervisor import Supervisor
from forged.capture.values import WorkerSettings
from forged.counters import Metrics
from forged.errors import StoreError
from forged.models import Governor, Health
from forged.state import Cut, Event, Left, State, cut
from forged.text.forgetting import Words

logger = logging.getLogger(__name__)


class Outcome(msgspec.Struct, frozen=True):
    """The acknowledgement: accepted, coalesced, durable or rejected, and then why."""

    word: str
    reason: str = ""


class CaptureState(msgspec.Struct, frozen=True, kw_only=True):
    """What status shows of capture beside the counters, as fields of the wire's CaptureReport."""

    state: str
    reason: str
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
    """One for the daemon.

    `rank` finds the memories that a model should know about, `keeper` decides what is kept and writes it.
    """

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        state: State,
        governor: Governor,
        metrics: Metrics,
        rank: Rank,
        keeper: Keeps,
        keeps: bool = True,
        coalesce: bool = True,
        off: str = "",
        problem: str = "",
        health: Health | None = None,
        supervisor: MakeSupervisor = Supervisor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`keeps` false leaves every event in memory; `off` and `problem` say why nothing can be captured.

        `supervisor` makes what keeps the worker; `clock` gives seconds that never go back.
        """
        self._state = state
        self._events = state.events
        self._metrics = metrics
        self._keeps = keeps
        self.off = off
        self._problem = problem
        self._clock = clock
        self._queue = CaptureQueue(coalesce=coalesce)
        self._dispatcher = Dispatcher(
            settings=settings,
            queue=self._queue,
            state=state,
            gate=Gate(governor, health or Health(clock=clock)) if settings.classifier else None,
            metrics=metrics,
            rank=rank,
            keeper=keeper,
            keeps=keeps,
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
        if event.is_durable and self._keeps:
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
        if reason := self._state.pauses.reason(event.tops):
            return reason
        return "" if event.window else "nothing_to_capture"

    def _refused(self, reason: str) -> Outcome:
        self._metrics.captures_rejected += 1
        return Outcome("rejected", reason)

    async def _store(self, event: Event) -> Outcome:
        try:
            if not await self._events.put(event):
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
            self._dispatcher.start(self._events.remove(waiting.event.id))
        self._metrics.captures_replaced += sum(waiting.event is not event for waiting in change.evicted)
        self._dispatcher.supervisor.want()
        self._dispatcher.wake()
        return change

    # --- what a person asks ---------------------------------------------------------------------------

    async def purge(self, unwanted: Sequence[Words]) -> Cut:
        """Take every sentence that holds an unwanted text out of all events; what was done.

        What is in hand is found out about anew with what is left of it; an event that is empty then goes.
        Raises StoreError.
        """
        await self._taken_up.wait()
        done = Cut()
        for waiting in self._queue.waiting():
            left = await self._without(waiting, unwanted)
            done += left.cut
            if left.sentences and left.is_empty:
                self._queue.drop(waiting)
                await self._events.remove(waiting.event.id)
            elif left.sentences:
                waiting.rewrite(left.event)
                await self._events.rewrite(left)
        return done + await self._events.cut_dead(unwanted)

    async def _without(self, waiting: Waiting, unwanted: Sequence[Words]) -> Left:
        """What is left of one that waits, as it is by then."""
        while True:
            event, documents = waiting.event, self._events.documents(waiting.event.id)
            left = await asyncio.to_thread(cut, event, documents, unwanted)
            if waiting.event is event and self._events.documents(event.id) is documents:
                return left

    async def retry(self, event_id: str) -> bool:
        """Queue a dead event again; false if there is none of this id. Raises StoreError."""
        await self._taken_up.wait()
        event = await self._events.revive(event_id)
        if event is None:
            return False
        self._add(event, on_disk=True)
        return True

    def resumed(self) -> None:
        """What was paused may go on."""
        self._dispatcher.wake()

    def state(self) -> CaptureState:
        state, reason = self._condition()
        in_hand, supervisor = self._queue.in_hand, self._dispatcher.supervisor
        return CaptureState(
            state=state,
            reason=reason,
            worker_pid=supervisor.pid,
            worker_restarts=supervisor.restarts,
            turns=self._queue.turns,
            spooled=self._events.count,
            spool_bytes=self._events.bytes,
            in_hand=in_hand.event.id if in_hand is not None else "",
            in_hand_age_s=round(self._clock() - in_hand.taken_at, 3) if in_hand is not None else 0.0,
            last_success=self._dispatcher.last_success,
            last_error=self._last_error,
            dead=self._events.dead_count,
        )

    @property
    def _last_error(self) -> str:
        return self._state.problem or self._events.trouble or self._dispatcher.last_error

    def _condition(self) -> tuple[str, str]:
        if self.off:
            return "off", self.off
        if trouble := self._problem or self._dispatcher.supervisor.problem:
            return "failing", trouble
        if not self._taken_up.is_set():
            return "waiting", "what an earlier daemon left is being read"
        if paused := self._state.pauses.reason(()):
            return "paused", paused
        if self._queue.in_hand is not None:
            return "busy", ""
        if len(self._queue):
            return "waiting", self._dispatcher.waits_for or self._queue.trouble or self._last_error
        return "idle", ""

    # --- life -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take up what an earlier daemon left, keep a worker, and hand it one event after the other.

        Without a classifier no worker is kept: what was accepted waits for a daemon that has one.
        """
        self._taken_up.clear()
        try:
            await self._state.opened()
            self._take_up()
        finally:
            self._taken_up.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take_up_late())
            if not (self.off or self._problem):
                group.create_task(self._dispatcher.run())

    async def close(self) -> None:
        """After `run` was cancelled: what only memory holds is stored for the next daemon."""
        self._closing = True
        await self._dispatcher.settle()
        waiting = self._queue.in_memory()
        if not waiting or not self._keeps:
            return
        try:
            await self._events.put_all(waiting)
        except StoreError as error:
            logger.warning("waiting turns are lost events=%d error=%s", len(waiting), error)
        else:
            logger.info("waiting turns stored events=%d", len(waiting))

    def _take_up(self) -> None:
        """What was acknowledged before the last end waits again, in its order."""
        for event in self._events.left():
            self._add(event, on_disk=True)

    async def _take_up_late(self) -> None:
        """The same, if the state could not be opened at first."""
        await self._events.restored.wait()
        self._take_up()
