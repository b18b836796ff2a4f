"""One event after the other to the worker, and what becomes of each: done, tried again, or given up.

The worker has one event at a time, and whatever ends that (a report, a death, a purge) ends it once. An event
leaves the line only when its files are gone from the spool or lie among the dead; if the disk does not allow
that, the same end is tried again and the worker is not asked twice. Nothing that a hand-over needs may end
the daemon: a ranking that fails or hangs costs the classifier its list and nobody else anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from forged.capture.gate import Gate
from forged.capture.hand import Hand
from forged.capture.queue import CaptureQueue, Waiting
from forged.capture.shelf import Shelf
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
    WorkerSettings,
)
from forged.counters import Metrics
from forged.errors import ForgedError, StoreError
from forged.files.roots import Root
from forged.memory import utc_now
from forged.state.pauses import Pauses

logger = logging.getLogger(__name__)

_BURIAL_RETRY_S = 60.0
# What a worker may take beyond its classifier's time limit: the scan of a large store, and its files.
_GRACE_S = 60.0
_RANK_S = 5.0

Rank = Callable[[Event], Awaitable[tuple[Head, ...]]]
Written = Callable[[Root, frozenset[str]], object]
MakeSupervisor = Callable[..., Supervisor]


class HandOver:
    """One for the daemon. `rank` attaches heads to an event, `written` is told of every file."""

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        queue: CaptureQueue,
        shelf: Shelf,
        gate: Gate,
        pauses: Pauses,
        metrics: Metrics,
        rank: Rank,
        written: Written,
        make_supervisor: MakeSupervisor,
        clock: Callable[[], float],
    ) -> None:
        """`clock` gives seconds that never go back."""
        self._limit_s = settings.timeout_s + _GRACE_S
        self._queue = queue
        self._shelf = shelf
        self._gate = gate
        self._pauses = pauses
        self._metrics = metrics
        self._rank = rank
        self._written = written
        self._clock = clock
        self.supervisor = make_supervisor(
            settings, on_report=self._report, on_death=self._died, on_change=self.wake
        )
        self._changed = asyncio.Event()
        self.hand: Hand | None = None
        self.last_success = self.last_error = ""

    async def run(self) -> None:
        """Keep a worker and give it one event after the other, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.supervisor.run())
            group.create_task(self._steps())

    def wake(self) -> None:
        """Something may have changed; look again."""
        self._changed.set()

    def disowned(self, event_ids: frozenset[str]) -> tuple[Waiting, ...]:
        """If one of these is in hand, it is not tried again; returns it."""
        if self.hand is None or self.hand.event_id not in event_ids:
            return ()
        self.hand.unwanted = True
        return (self.hand.waiting,)

    def is_unwanted(self, event: Event) -> bool:
        return self.hand is not None and self.hand.unwanted and self.hand.event_id == event.id

    @property
    def waits_for(self) -> str:
        """Why nothing is handed over although something waits."""
        now = self._clock()
        if shut := self._gate.why(now):
            return shut
        held = [self._pauses.reason(event.tops) for event in self._queue.events()]
        return held[0] if held and all(held) else ""

    # --- handing over ---------------------------------------------------------------------------------

    async def _steps(self) -> None:
        while True:
            self._changed.clear()
            wait_s = await self._step()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    async def _step(self) -> float | None:
        """Give the worker an event if it can have one; seconds until it is worth another look."""
        if self.hand is not None or not self.supervisor.ready:
            return None
        now = self._clock()
        waiting = self._queue.take(now, self._is_held)
        if waiting is None:
            return self._wait_s(now)
        event = waiting.event
        if not (waiting.given_up or self._needs_no_call(event) or self._gate.admits(event, now)):
            self._queue.put_back(now, 0.0)
            return 0.0  # what needs no call may still go
        self.hand = Hand(waiting, now)
        heads = () if waiting.given_up else await self._heads(event)
        if self._may_go(self.hand):
            self.hand.given = True
            told = None if self._shelf.is_orphan(event.id) else event
            self.supervisor.give(Task(event.id, told, heads, self._gate.attempts), self._limit_s)
        else:
            self._again(0.0)
        return None

    def _may_go(self, hand: Hand) -> bool:
        """Whether an event may still be given: the ranking took its time."""
        ended = hand.unwanted or hand.waiting.given_up
        return not ended and self.supervisor.ready and not self._is_paused(hand.waiting.event)

    def _wait_s(self, now: float) -> float | None:
        waits = (self._queue.wait_s(now, self._is_held), self._gate.wait_s(now) or None)
        return min((wait for wait in waits if wait is not None), default=None)

    def _is_held(self, event: Event) -> bool:
        shut = self._gate.wait_s(self._clock()) > 0 and not self._needs_no_call(event)
        return shut or self._is_paused(event)

    def _is_paused(self, event: Event) -> bool:
        return bool(self._pauses.reason(event.tops))

    def _needs_no_call(self, event: Event) -> bool:
        return self._shelf.is_decided(event.id)

    async def _heads(self, event: Event) -> tuple[Head, ...]:
        """What the classifier should know about; it can do without (B76)."""
        if self._needs_no_call(event):
            return ()
        try:
            async with asyncio.timeout(_RANK_S):
                return await self._rank(event)
        except (ForgedError, TimeoutError) as error:
            logger.debug("no heads event=%s error=%s", event.id, error)
        except Exception:
            logger.exception("no heads event=%s", event.id)
        return ()

    # --- what the worker says -------------------------------------------------------------------------

    def _report(self, report: Report) -> None:
        if isinstance(report, Ready):
            return  # `on_change` tells
        hand = self.hand
        if hand is None or not hand.given or hand.event_id != report.event_id:
            logger.warning("report about another event=%s", report.event_id)
            return
        match report:
            case Journalled():
                hand.decided()
                self._shelf.decided(report.event_id)
                self._answered(report)
            case Linked():  # so there is a journal, whoever wrote it
                hand.linked_one()
                self._shelf.decided(report.event_id)
                self._written(report.root, frozenset({report.path}))
            case Done():
                self._done(hand, report)
            case Failed():
                self._failed(hand, report)

    def _answered(self, report: Journalled | Done) -> None:
        """Of the two the first that comes says what was paid for and left out; the other says nothing."""
        self._gate.answered(report.usage)
        self._metrics.capture_invalid += report.tally.invalid
        self._metrics.capture_duplicates += report.tally.duplicates
        self._metrics.secrets_redacted += report.tally.secrets

    def _done(self, hand: Hand, report: Done) -> None:
        hand.given = False
        self._answered(report)
        self._metrics.captures_finished += 1
        self._metrics.captured += report.written
        self.last_success = utc_now()
        self.last_error = f"not written: {', '.join(report.failed)}" if report.failed else ""
        if self.has_files(hand.waiting):
            self._shelf.start(self._finish(hand.waiting))
        else:
            self._settled()

    def _failed(self, hand: Hand, report: Failed) -> None:
        self._metrics.capture_failures += 1
        self._gate.failed(hand.waiting.event, report)
        self._shelf.touched(report.event_id)
        if self.last_error != report.message:
            logger.warning(
                "capture failed event=%s reason=%s error=%s", report.event_id, report.reason, report.message
            )
        self.last_error = report.message
        self._again(hand.failed(report))

    def _died(self, reason: str) -> None:
        hand = self.hand
        if hand is None or not hand.given:
            return
        if not self._needs_no_call(hand.waiting.event):
            self._gate.lost(hand.waiting.event)
        self._shelf.touched(hand.event_id)
        hand.died(reason)
        logger.info("worker died event=%s kills=%d reason=%s", hand.event_id, hand.waiting.kills, reason)
        self._again(0.0)

    # --- ends of an event -----------------------------------------------------------------------------

    def has_files(self, waiting: Waiting) -> bool:
        return waiting.on_disk or self._shelf.may_hold(waiting.event.id)

    def _again(self, delay_s: float) -> None:
        """Let the event in hand wait again, unless this is its end."""
        assert self.hand is not None
        waiting = self.hand.waiting
        if self.hand.unwanted:
            self._shelf.start(self._finish(waiting))
        elif waiting.given_up:
            self._shelf.start(self._bury(waiting))
        else:
            self._put_back(delay_s)

    def _put_back(self, delay_s: float) -> None:
        self.hand = None
        self._queue.put_back(self._clock(), delay_s)
        self.wake()

    async def _finish(self, waiting: Waiting) -> None:
        """Nothing more is to be done for the event: its file goes, then its journal."""
        await self._shelf.remove(waiting.event.id)
        self._settled()

    async def _bury(self, waiting: Waiting) -> None:
        try:
            await self._shelf.bury(waiting.event, waiting.given_up)
        except StoreError as error:
            logger.warning("cannot set aside event=%s error=%s", waiting.event.id, error)
            assert self.hand is not None
            if self.hand.unwanted:
                await self._finish(waiting)
            else:
                self._put_back(_BURIAL_RETRY_S)
        else:
            logger.warning("event set aside event=%s reason=%s", waiting.event.id, waiting.given_up)
            self._settled()

    def _settled(self) -> None:
        self._queue.finish()
        self.hand = None
        self.wake()
