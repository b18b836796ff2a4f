"""Capture as the daemon sees it: what it accepts, what the worker does next, and what becomes of it.

The queue is the daemon's; the worker has one event at a time. An event leaves only when its memories are on
disk, so whatever dies in between is done again, and done again it changes nothing that is visible: what was
decided is journalled beside the event before a file appears (reliability-anchors.md 3.1). `durable` is said
after fsync and then holds: such an event is never replaced, never evicted, and ends in memories or in dead/.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine

import msgspec

from forged.capture.queue import CaptureQueue, Change, Waiting
from forged.capture.spool import Buried, Loaded, Spool
from forged.capture.supervisor import Supervisor
from forged.capture.values import (
    Done,
    Event,
    Failed,
    Head,
    Journalled,
    Linked,
    Ready,
    Report,
    Task,
    Usage,
    WorkerSettings,
)
from forged.cost import Breaker, Governor
from forged.errors import StoreError
from forged.memory import utc_now
from forged.metrics import Metrics
from forged.pauses import Pauses
from forged.roots import Root

logger = logging.getLogger(__name__)

MOST_KILLS, MOST_FAILURES = 3, 5
_ATTEMPTS = 2
# An event's own back-off after a failed call, doubling; storage that is full is looked at more often.
_RETRY_S, _RETRY_MOST_S, _STORAGE_RETRY_S = 2.0, 60.0, 2.0
# What a worker may take beyond its classifier's time limit: the scan of a large store, and its files.
_GRACE_S = 60.0
# Failures that would have met any event: they say nothing about this one.
_NOT_ITS_FAULT = frozenset({"unreachable", "rate_limited", "auth", "limit", "storage"})
_ERRANDS_S = 1.0
_PROMPT_TOKENS = 1500  # of a classifier's prompt without the window, roughly

Rank = Callable[[Event], Awaitable[tuple[Head, ...]]]


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


class _Hand(msgspec.Struct):
    """The event that the worker has: since when, whether it got anywhere, and whether its calls are paid."""

    waiting: Waiting
    since: float
    given: bool = False
    progress: bool = False
    linked: int = 0
    paid: bool = False


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
        written: Callable[[Root, frozenset[str]], object],
        keeps: bool = True,
        coalesce: bool = True,
        off: str = "",
        problem: str = "",
    ) -> None:
        """`keeps` false leaves everything in memory; `off` and `problem` say why nothing can be captured."""
        self._settings = settings
        self._spool = spool
        self._governor = governor
        self._pauses = pauses
        self._metrics = metrics
        self._rank = rank
        self._written = written
        self._keeps = keeps
        self.off = off
        self._problem = problem
        self._queue = CaptureQueue(coalesce=coalesce)
        self._breaker = Breaker(time.monotonic)
        self._supervisor = Supervisor(
            settings, on_report=self._report, on_death=self._died, on_change=self._wake
        )
        self._changed = asyncio.Event()
        self._taken_up = asyncio.Event()  # clear while `run` reads what an earlier daemon left
        self._taken_up.set()
        self._disk = asyncio.Lock()  # one change of the spool at a time
        self._errands: set[asyncio.Task[None]] = set()
        self._hand: _Hand | None = None
        self._journalled: set[str] = set()
        self._orphans: set[str] = set()
        self._closing = False
        self._dead = 0
        self._gate = ""  # why nothing is handed over although something waits
        self._gate_until = 0.0
        self._last_success = self._last_error = ""

    # --- what the handlers ask ------------------------------------------------------------------------

    async def accept(self, event: Event) -> Outcome:
        """Take an event, or say why not. A durable one is on stable storage on return."""
        if reason := self._refusal(event):
            return self._refused(reason)
        await self._taken_up.wait()  # what its session left comes before it
        if event.is_durable and self._keeps:
            async with self._disk:
                if not self._spool.has_room(event.size):
                    return self._refused("spool_full")
                try:
                    await asyncio.to_thread(self._spool.put, event)
                except StoreError as error:
                    self._last_error = str(error)
                    return self._refused(f"storage_error: {error}")
            self._add(event, on_disk=True)
            self._metrics.captures_durable += 1
            return Outcome("durable")
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
        if reason := self._pauses.reason(_tops(event)):
            return reason
        return "" if event.window else "nothing_to_capture"

    def _refused(self, reason: str) -> Outcome:
        self._metrics.captures_rejected += 1
        return Outcome("rejected", reason)

    def _add(self, event: Event, *, on_disk: bool) -> Change:
        """Queue an event; what left the queue for it leaves the disk as well."""
        change = self._queue.add(event, on_disk=on_disk)
        for waiting in (*change.coalesced, *change.evicted):
            if self._has_files(waiting):
                self._start(self._forget_file(waiting.event.id))
        self._metrics.captures_replaced += len(change.evicted)
        self._supervisor.want()
        self._wake()
        return change

    def _has_files(self, waiting: Waiting) -> bool:
        return waiting.on_disk or waiting.event.id in self._journalled

    async def purge(self, unwanted: Callable[[Event], bool]) -> int:
        """Take events that wait or were given up away for good, because their text was forgotten."""
        dropped = self._queue.drop(unwanted)
        async with self._disk:
            for waiting in dropped:
                if self._has_files(waiting):
                    await asyncio.to_thread(self._spool.remove, waiting.event.id)
            buried = await asyncio.to_thread(self._spool.dead)
            gone = [item.event.id for item in buried if unwanted(item.event)]
            for event_id in gone:
                await asyncio.to_thread(self._spool.drop_dead, event_id)
        self._dead -= len(gone)
        return len(dropped) + len(gone)

    async def dead(self) -> tuple[Buried, ...]:
        """Events that were given up, oldest first. Raises StoreError."""
        async with self._disk:
            found = await asyncio.to_thread(self._spool.dead)
        self._dead = len(found)
        return found

    async def retry(self, event_id: str) -> bool:
        """Queue a dead event again; false if there is none of this id. Raises StoreError."""
        async with self._disk:
            event = await asyncio.to_thread(self._spool.revive, event_id)
        if event is None:
            return False
        self._dead -= 1
        self._add(event, on_disk=True)
        return True

    async def drop(self, event_id: str) -> bool:
        """Erase a dead event; false if there is none of this id. Raises StoreError."""
        async with self._disk:
            dropped = await asyncio.to_thread(self._spool.drop_dead, event_id)
        self._dead -= dropped
        return dropped

    def resumed(self) -> None:
        """What was paused may go on."""
        self._wake()

    def state(self) -> State:
        state, reason = self._condition()
        hand = self._hand
        return State(
            state=state,
            reason=reason,
            classifier=self._settings.classifier,
            worker_pid=self._supervisor.pid,
            worker_restarts=self._supervisor.restarts,
            turns=self._queue.turns,
            spooled=self._spool.count,
            spool_bytes=self._spool.bytes,
            in_hand=hand.waiting.event.id if hand is not None else "",
            in_hand_age_s=round(time.monotonic() - hand.since, 3) if hand is not None else 0.0,
            last_success=self._last_success,
            last_error=self._last_error,
            dead=self._dead,
        )

    def _condition(self) -> tuple[str, str]:
        if self.off:
            return "off", self.off
        if trouble := self._problem or self._supervisor.problem:
            return "failing", trouble
        if paused := self._pauses.reason(()):
            return "paused", paused
        if self._hand is not None:
            return "busy", ""
        if len(self._queue):
            return "waiting", self._gate or self._last_error
        if not self._taken_up.is_set():
            return "waiting", "the spool is being read"
        return "idle", ""

    # --- life -----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take up what an earlier daemon left, keep a worker, and hand it one event after the other."""
        if self.off:
            return
        self._taken_up.clear()
        try:
            await self._recover()
        except StoreError as error:  # what is there stays there; new turns are captured all the same
            logger.warning("spool cannot be read error=%s", error)
            self._last_error = str(error)
        self._taken_up.set()
        if self._problem:
            await asyncio.Event().wait()  # accepted events are kept for a daemon that can classify them
        async with asyncio.TaskGroup() as group:
            group.create_task(self._supervisor.run())
            group.create_task(self._hand_over())

    async def close(self) -> None:
        """After `run` was cancelled: what only memory holds goes to the spool (B30)."""
        self._closing = True
        if self._errands:
            await asyncio.wait(self._errands, timeout=_ERRANDS_S)
        waiting = self._queue.in_memory()
        if waiting and self._keeps:
            try:
                await asyncio.to_thread(self._spool.put_all, waiting)
            except StoreError as error:
                logger.warning("waiting turns are lost events=%d error=%s", len(waiting), error)
            else:
                logger.info("waiting turns spooled events=%d", len(waiting))

    async def _recover(self) -> None:
        """What was acknowledged before the last end waits again, in its order."""
        async with self._disk:
            left, journalled, dead = await asyncio.to_thread(self._left_behind)
        for problem in left.problems:
            logger.warning("spool file=%s problem=%s", problem.path, problem.reason)
        self._dead = dead
        self._journalled |= journalled
        self._orphans |= set(left.orphans)
        for event_id in left.orphans:
            self._add(Event(id=event_id, kind="explicit"), on_disk=True)
        for event in left.events:
            self._add(event, on_disk=True)
        if left.events or left.orphans:
            logger.info("spool taken up events=%d journals=%d", len(left.events), len(left.orphans))

    # --- handing over ---------------------------------------------------------------------------------

    async def _hand_over(self) -> None:
        while True:
            self._changed.clear()
            wait_s = await self._next()
            try:
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _next(self) -> float | None:
        """Give the worker an event if it can have one; seconds until it is worth another look."""
        now = time.monotonic()
        if self._hand is not None or not self._supervisor.ready:
            return None
        if now < self._gate_until:
            return self._gate_until - now
        self._gate = ""
        waiting = self._queue.take(now, self._is_held)
        if waiting is None:
            return self._queue.wait_s(now, self._is_held)
        if wait_s := self._gated(waiting.event):
            self._queue.put_back(now, 0.0)
            self._gate_until = now + wait_s
            return wait_s
        self._hand = _Hand(waiting, now)
        heads = await self._heads(waiting.event)
        if self._supervisor.ready:
            self._hand.given = True
            event = None if waiting.event.id in self._orphans else waiting.event
            task = Task(waiting.event.id, event, heads, self._attempts)
            self._supervisor.give(task, self._settings.timeout_s + _GRACE_S)
        else:
            self._again(0.0)
        return None

    @property
    def _asks_model(self) -> bool:
        return self._settings.classifier != "builtin:rules"

    @property
    def _attempts(self) -> int:
        return 1 if self._breaker.is_probe else _ATTEMPTS

    def _gated(self, event: Event) -> float:
        """Seconds until this event may cost a call, 0 if it may now; says why in `_gate`."""
        if not self._asks_model or event.id in self._journalled | self._orphans:
            return 0.0
        if wait_s := self._breaker.wait_s(time.monotonic()):
            self._gate = f"calls fail, next attempt in {wait_s:.0f} s: {self._last_error}"
            return wait_s
        refusal = self._governor.admit(_estimate(event))
        if refusal is None:
            return 0.0
        self._gate = refusal.message
        return refusal.wait_s

    def _is_held(self, event: Event) -> bool:
        return bool(self._pauses.reason(_tops(event)))

    async def _heads(self, event: Event) -> tuple[Head, ...]:
        if event.id in self._journalled | self._orphans:
            return ()
        try:
            return await self._rank(event)
        except StoreError as error:  # the classifier does without (B76)
            logger.debug("no heads event=%s error=%s", event.id, error)
            return ()

    # --- what the worker says -------------------------------------------------------------------------

    def _report(self, report: Report) -> None:
        hand = self._hand
        if isinstance(report, Ready):
            self._wake()
            return
        if hand is None or hand.waiting.event.id != report.event_id:
            logger.warning("report about another event=%s", report.event_id)
            return
        match report:
            case Journalled():
                hand.progress = True
                self._journalled.add(report.event_id)
                self._pay(hand, report.usage, failed=0)
                self._count(report)
            case Linked():
                self._linked(hand)
                self._written(report.root, frozenset({report.path}))
            case Done():
                self._done(hand, report)
            case Failed():
                self._failed(hand, report)

    def _linked(self, hand: _Hand) -> None:
        """Count a document in place; what an earlier attempt put there is no progress of this one."""
        hand.linked += 1
        if hand.linked > hand.waiting.linked:
            hand.waiting.linked = hand.linked
            hand.progress = True

    def _done(self, hand: _Hand, report: Done) -> None:
        hand.given = False
        if not hand.paid:
            self._pay(hand, report.usage, failed=0)
            self._count(report)
        if self._asks_model:
            self._breaker.succeeded()
        self._metrics.captures_finished += 1
        self._metrics.captured += report.written
        self._last_success = utc_now()
        self._last_error = ", ".join(report.failed)
        if self._has_files(hand.waiting):
            self._start(self._finish(hand.waiting))
        else:
            self._settled(report.event_id)

    def _count(self, report: Journalled | Done) -> None:
        self._metrics.capture_invalid += report.tally.invalid
        self._metrics.capture_duplicates += report.tally.duplicates
        self._metrics.secrets_redacted += report.tally.secrets

    def _failed(self, hand: _Hand, report: Failed) -> None:
        hand.given = False
        self._pay(hand, report.usage, failed=max(report.usage.calls, 1) if self._asks_model else 0)
        self._metrics.capture_failures += 1
        if self._last_error != report.message:
            logger.warning(
                "capture failed event=%s reason=%s error=%s", report.event_id, report.reason, report.message
            )
        self._last_error = report.message
        if self._asks_model and report.reason not in ("storage", "internal"):
            self._breaker.failed(report.reason, report.retry_after_s)
        waiting = hand.waiting
        if report.reason == "storage":
            self._again(_STORAGE_RETRY_S)
            return
        waiting.failures += report.reason not in _NOT_ITS_FAULT
        if waiting.failures >= MOST_FAILURES:
            self._start(self._bury(waiting, f"{MOST_FAILURES} calls failed, the last: {report.message}"))
            return
        self._again(report.retry_after_s or min(_RETRY_S * 2.0**waiting.failures, _RETRY_MOST_S))

    def _died(self, reason: str) -> None:
        """A kill counts against the event only if the worker had it and got nowhere with it."""
        hand = self._hand
        if hand is None or not hand.given:
            return
        hand.given = False
        waiting = hand.waiting
        if self._asks_model and not hand.paid and waiting.event.id not in self._journalled:
            self._pay(hand, Usage(1, _estimate(waiting.event), 0), failed=1)
        waiting.kills += not hand.progress
        logger.info("worker died event=%s kills=%d reason=%s", waiting.event.id, waiting.kills, reason)
        if waiting.kills >= MOST_KILLS:
            self._start(self._bury(waiting, f"the worker died {MOST_KILLS} times over it: {reason}"))
        else:
            self._again(0.0)

    def _pay(self, hand: _Hand, usage: Usage, *, failed: int) -> None:
        hand.paid = True
        if usage.calls:
            self._governor.spend(
                "capture",
                calls=usage.calls,
                failed=failed,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
            )

    # --- ends of an event -----------------------------------------------------------------------------

    def _again(self, delay_s: float) -> None:
        self._hand = None
        self._queue.put_back(time.monotonic(), delay_s)
        self._wake()

    async def _finish(self, waiting: Waiting) -> None:
        """The event's memories are on disk: its file goes, then its journal."""
        await self._forget_file(waiting.event.id)
        self._settled(waiting.event.id)

    async def _bury(self, waiting: Waiting, reason: str) -> None:
        try:
            async with self._disk:
                await asyncio.to_thread(self._spool.bury, waiting.event, reason)
                self._dead = await asyncio.to_thread(self._spool.dead_count)
        except StoreError as error:
            self._last_error = str(error)
            logger.warning("cannot set aside event=%s error=%s", waiting.event.id, error)
            self._again(_RETRY_MOST_S)
            return
        logger.warning("event set aside event=%s reason=%s", waiting.event.id, reason)
        self._settled(waiting.event.id)

    def _settled(self, event_id: str) -> None:
        self._queue.finish()
        self._hand = None
        self._journalled.discard(event_id)
        self._orphans.discard(event_id)
        self._wake()

    async def _forget_file(self, event_id: str) -> None:
        """Take an event that is done with out of the spool, or have it taken out once the disk allows."""
        if not await self._removed(event_id):
            self._start(self._removed_later(event_id))

    async def _removed(self, event_id: str) -> bool:
        try:
            async with self._disk:
                await asyncio.to_thread(self._spool.remove, event_id)
        except StoreError as error:  # done again at the next start at the latest, which changes nothing
            self._last_error = str(error)
            logger.warning("spool file stays event=%s error=%s", event_id, error)
            return False
        return True

    async def _removed_later(self, event_id: str) -> None:
        """Files of finished events count against the cap, and a daemon may run for weeks."""
        await asyncio.sleep(_STORAGE_RETRY_S)
        while not await self._removed(event_id):
            await asyncio.sleep(_STORAGE_RETRY_S)

    def _start(self, errand: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    def _wake(self) -> None:
        self._changed.set()

    def _left_behind(self) -> tuple[Loaded, set[str], int]:
        left = self._spool.load()
        journalled = {event.id for event in left.events if self._spool.journalled(event.id) is not None}
        return left, journalled, self._spool.dead_count()


def _tops(event: Event) -> tuple[str, ...]:
    return tuple(root.top for root in event.roots)


def _estimate(event: Event) -> int:
    return _PROMPT_TOKENS + event.size // 4
