"""Capture service: accept submissions, run the worker, and answer requests about capture.

An acknowledged event is never replaced or cut; it ends in memories or among the dead events. If there is no
room, the submission is refused. An event leaves only after its memories are on disk, so a kill in between
loses nothing. `run` works until cancelled; `close` comes after that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

from forged.capture.call_limiter import CallLimiter
from forged.capture.committer import Committer
from forged.capture.dispatcher import EventDispatcher, Forget, Meant, Rank
from forged.capture.intake import Intake, OffRecord, Outcome, Submission, SubmittedEvents
from forged.capture.queue import CaptureQueue, EventFlusher, QueuedEvent, session_key
from forged.capture.supervisor import MakeSupervisor, Supervisor
from forged.capture.values import WorkerSettings
from forged.capture.vectors import VectorsOf
from forged.counters import Metrics
from forged.errors import StoreError
from forged.files import Root
from forged.models import EndpointHealth, Governor
from forged.state import Change, CutCount, CutEvent, Event, Kind, State, cut, new_event_id
from forged.text.forgetting import Words
from forged_client.protocol import CaptureReport

logger = logging.getLogger(__name__)


class CaptureService:
    """Queues submitted conversations and turns them into memories. One for the daemon.

    `rank` finds existing memories that a model should know.
    """

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        state: State,
        governor: Governor,
        metrics: Metrics,
        rank: Rank,
        committer: Committer,
        vectors: VectorsOf | None = None,
        batch_turns: int = 1,
        off: str = "",
        problem: str = "",
        health: EndpointHealth | None = None,
        supervisor: MakeSupervisor = Supervisor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`off` and `problem` explain why nothing can be captured; `clock` returns monotonic seconds."""
        self._state = state
        self._events = state.events
        self._metrics = metrics
        self.off = off
        self._problem = problem
        self._clock = clock
        self.off_record = OffRecord()
        self._queue = CaptureQueue(batch_turns=batch_turns)
        self._dispatcher = EventDispatcher(
            settings=settings,
            queue=self._queue,
            state=state,
            limiter=CallLimiter(governor, health or EndpointHealth(clock=clock))
            if settings.classifier
            else None,
            metrics=metrics,
            rank=rank,
            vectors=vectors,
            committer=committer,
            off_record=self.off_record,
            make_supervisor=supervisor,
            clock=clock,
        )
        self.notifications = self._dispatcher.notifications
        self._restored = asyncio.Event()  # clear while `run` reads stored events
        self._restored.set()
        self._closing = False
        self._flusher = EventFlusher(state, self._queue)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        waits_for_more = settings.classifier and batch_turns > 1
        self._intake = Intake(
            state,
            metrics,
            self.off_record,
            is_urgent=_is_urgent if waits_for_more else None,
            full=self._full,
            answer=self._dispatcher.answer,
        )

    async def submit(self, submission: Submission) -> Outcome:
        """Accept a submission, or reject it with a reason; submissions of one session run in order.

        A capture in parts is classified once. `durable` means on stable storage; a turn is there within a
        second.
        """
        if submission.problem:
            return self._reject(submission.problem)
        event_id = new_event_id()  # before any await, so that ids have the order of arrival
        tops = tuple(root.top for root in submission.roots)
        reason = await self._refusal(tops)
        key = session_key(submission.session_id, submission.roots) or event_id
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            if reason:
                is_paused = submission.session_id and self._state.pauses.is_paused(tops)
                if is_paused and await self._intake.mark_seen(submission, key):
                    self._flusher.schedule()
                return self._reject(reason)
            if (done := self._state.parts.finished_slices(submission.event_id)) is not None:
                return Outcome("coalesced" if submission.kind == "turn" else "durable", slices=done)
            taken = await self._intake.take(submission, event_id, key if submission.session_id else "")
            if isinstance(taken, SubmittedEvents):
                return await self._accept(submission.kind, taken, tops)
            return self._reject(taken.reason) if taken.word == "rejected" else taken

    async def _accept(self, kind: Kind, taken: SubmittedEvents, tops: tuple[str, ...]) -> Outcome:
        """Queue a capture's events and advance its cursor, or reject it; turns are stored later."""
        events = taken.events
        if reason := await self._refusal(tops if events else ()):
            return self._reject(reason)
        if not events and not taken.is_known:
            return self._reject("nothing_to_capture")
        gone = self._state.parts.of(taken.capture_id)
        size = sum(event.size for event in events) - sum(part.size for part in gone.values())
        if full := self._full(len(events), size):
            return self._reject(full)
        before, also = self._state.capture_cursors.of(taken.session), list[Change]()
        if taken.capture_id:
            done = self._state.parts.completion_change(taken.capture_id, len(events), at_once=kind == "turn")
            also.append(done)
        if taken.cursor is not None:
            self._state.capture_cursors.update({taken.session: taken.cursor})
        if kind != "turn" and (trouble := await self._store_durable(taken, also)):
            if taken.cursor is not None:
                self._state.capture_cursors.update({taken.session: before})
            return self._reject(trouble)
        waited = len(self._queue)
        self._enqueue(events, on_disk=kind != "turn", at_once=taken.is_urgent)
        if kind != "turn":
            self._metrics.captures_durable += 1
            return Outcome("durable", slices=len(events))
        self._flusher.schedule(*also)
        if len(self._queue) == waited:
            self._metrics.captures_coalesced += 1
            return Outcome("coalesced", slices=len(events))
        self._metrics.captures_accepted += 1
        return Outcome("accepted", slices=len(events))

    async def _store_durable(self, taken: SubmittedEvents, also: Sequence[Change]) -> str:
        """Store events that must be on disk before the reply; return the error, or ""."""
        self._queue.ripen(taken.session)
        if taken.learned is not None:
            also = [*also, self._state.learned.change({taken.session: taken.learned})]
        try:
            await self._flusher.flush(taken.events, *also)
        except StoreError as error:
            return f"storage_error: {error}"
        return ""

    def _reject(self, reason: str) -> Outcome:
        """Count a rejected submission, and return the outcome with the reason."""
        self._metrics.captures_rejected += 1
        return Outcome("rejected", reason)

    def _full(self, count: int, size: int) -> str:
        """Return the reason why `count` more events of `size` bytes have no room, or ""."""
        held = self._queue.in_memory()
        size += sum(waiting.size for waiting in held) + self._state.parts.bytes
        if self._events.has_room(count + len(held), size):
            return ""
        waits = self._events.count + len(held)
        return f"spool_full: {waits} events wait already; `forgectl status` shows why"

    async def _refusal(self, tops: tuple[str, ...]) -> str:
        """Return the reason why captures are refused now, or ""; wait for stored events first."""
        await self._restored.wait()
        if self.off:
            return self.off
        if self._closing:
            return "the daemon is stopping"
        return self._state.pauses.reason(tops)

    def _enqueue(
        self, events: Sequence[Event], *, on_disk: bool, at_once: bool = True, sealed: bool = False
    ) -> None:
        """Queue events, start the worker now if it never ran, and wake the dispatcher."""
        for event in events:
            self._queue.add(event, on_disk=on_disk, now=self._clock(), at_once=at_once, sealed=sealed)
        if events:
            self._dispatcher.supervisor.want()
        self._dispatcher.wake()

    async def obey(self, submission: Submission, forget: Forget, within_s: float) -> Meant:
        """Do what a prompt of an interactive session asks of the memory; return memories that it asks for."""
        if self.off or self._closing:
            return ()
        key = session_key(submission.session_id, submission.roots)
        return await self._dispatcher.obey(submission, key, forget, within_s)

    async def wait_until_classified(self, session_id: str, roots: tuple[Root, ...], within_s: float) -> bool:
        """Wait until no event of a session is queued; return False on a timeout."""
        session = session_key(session_id, roots)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._restored.wait()
                while self._queue.holds(session):
                    await self._dispatcher.ended.wait()
        return self._restored.is_set() and not self._queue.holds(session)

    async def purge(self, unwanted: Sequence[Words]) -> CutCount:
        """Cut sentences with an unwanted text out of captures (parts, queue, review, dead); return counts.

        The event in hand is classified again with its rest. Raises StoreError.
        """
        await self._restored.wait()
        done = await self._state.parts.cut(unwanted)
        done += await self._state.to_review.cut(unwanted)
        for waiting in self._queue.waiting():
            left = await self._cut_event(waiting, unwanted)
            done += left.cut
            if left.sentences and left.is_empty:
                self._queue.drop(waiting)
                await self._events.remove(waiting.event.id)
            elif left.sentences:
                waiting.rewrite(left.event)
                await self._events.rewrite(left)
        return done + await self._events.cut_dead(unwanted)

    async def _cut_event(self, waiting: QueuedEvent, unwanted: Sequence[Words]) -> CutEvent:
        """Return an event and its documents without unwanted texts, anew if changed meanwhile."""
        while True:
            event, documents = waiting.event, self._events.documents(waiting.event.id)
            left = await asyncio.to_thread(cut, event, documents, unwanted)
            if waiting.event is event and self._events.documents(event.id) is documents:
                return left

    async def retry(self, event_id: str) -> bool:
        """Queue a dead event again; return False for an unknown id. Raises StoreError."""
        await self._restored.wait()
        event = await self._events.revive(event_id)
        if event is None:
            return False
        self._enqueue((event,), on_disk=True, sealed=True)
        return True

    def waiting(self) -> tuple[Event, ...]:
        """Return every queued event, in order."""
        return self._queue.events()

    async def recheck_folders(self) -> None:
        """Check the folders of events that wait for theirs; release those with folders at their paths."""
        await self._dispatcher.recheck_folders()

    async def drop(self, event_id: str) -> bool:
        """Erase a queued event and its stored copy; return False for an unknown id."""
        waiting = next((each for each in self._queue.waiting() if each.event.id == event_id), None)
        if waiting is None:
            return False
        self._queue.drop(waiting)
        await self._events.remove(event_id)
        return True

    def resume(self) -> None:
        """Look for events to process at once, after a pause or an outage ended."""
        self._dispatcher.wake()

    def report(self) -> CaptureReport:
        """Return the report of capture for `status`."""
        state, reason = self._condition()
        in_hand, supervisor = self._queue.in_hand, self._dispatcher.supervisor
        spooled, spool_bytes = self._events.stored
        return CaptureReport(
            state=state,
            reason=reason,
            worker_pid=supervisor.pid,
            worker_restarts=supervisor.restarts,
            turns=self._queue.turns,
            spooled=spooled,
            spool_bytes=spool_bytes,
            in_hand=in_hand.event.id if in_hand is not None else "",
            in_hand_age_s=round(self._clock() - in_hand.taken_at, 3) if in_hand is not None else 0.0,
            last_success=self._dispatcher.last_success,
            last_error=self._last_error,
            dead=self._events.dead_count,
        )

    @property
    def _last_error(self) -> str:
        """Return the error of the state, else of stored events, else of the last attempt, or ""."""
        return self._state.problem or self._events.trouble or self._dispatcher.last_error

    def _condition(self) -> tuple[str, str]:
        """Return the state word of capture for `status`, and its reason."""
        if self.off:
            return "off", self.off
        if trouble := self._problem or self._dispatcher.supervisor.problem:
            return "failing", trouble
        if not self._restored.is_set():
            return "waiting", "events from before the restart are being read"
        if doubt := self._state.pauses.doubt:
            return "failing", doubt
        if paused := self._state.pauses.reason(()):
            return "paused", paused
        if self._queue.in_hand is not None:
            return "busy", ""
        if len(self._queue):
            return "waiting", self._dispatcher.waits_for or self._queue.trouble or self._last_error
        return "idle", ""

    async def run(self) -> None:
        """Queue stored events and process the queue until cancelled.

        Without a classifier all events wait for a later daemon.
        """
        self._restored.clear()
        try:
            await self._state.wait_until_open()
            self._restore()
        finally:
            self._restored.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._restore_late())
            if not (self.off or self._problem):
                group.create_task(self._dispatcher.run())

    async def close(self) -> None:
        """Refuse captures, end tasks, and store events that are only in memory; call it after `run`."""
        self._closing = True
        await self._dispatcher.settle()
        self._flusher.stop()
        if not self._flusher.is_due:
            return
        count = len(self._queue.in_memory())
        try:
            await self._flusher.flush(())
        except StoreError as error:
            logger.warning("waiting turns are lost events=%d error=%s", count, error)
        else:
            logger.info("waiting turns stored events=%d", count)

    def _restore(self) -> None:
        """Queue the events of an earlier daemon in their order; no further turns join them."""
        self._enqueue(self._events.take_restored(), on_disk=True, sealed=True)

    async def _restore_late(self) -> None:
        """Queue the events of an earlier daemon once they can be read from disk."""
        await self._events.restored.wait()
        self._restore()


def _is_urgent(typed: Sequence[str]) -> bool:
    """Return True if a message among the typed ones should not wait for further turns."""
    from forged.capture.rules.engine import is_urgent  # noqa: PLC0415 - only a daemon with a model needs the rules

    return is_urgent(typed)
