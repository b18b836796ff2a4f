"""The queue of events that wait for the worker: order, growth, and when an event is worth a call.

Turns of a session are added to its newest waiting turn, so that a model reads several at once. A full or
urgent event, or one with turns enough, is ripe; another ripens by `ripen` or a minute of silence. First come,
first served, each session in its own order, past ones last. An event that has to wait holds up its own
session only; one whose root is `elsewhere` only the same folder. The event in hand stays in the line, counts
everywhere, grows no more and is never dropped. An event that kills workers or fails by itself is given up.
No clock, disk or lock: callers bring the time. Raises nothing. `EventFlusher` stores what is in memory alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from forged.capture.slices import WINDOW_LIMIT
from forged.capture.values import TaskFailed
from forged.errors import StoreError
from forged.fair_queue import log_failure
from forged.files import Root
from forged.state import Change, Event, State

MOST_KILLS, MOST_FAILURES = 3, 5
# An event's own back-off after a failed call, doubling; storage that is full is looked at more often.
_RETRY_S, _RETRY_MOST_S, STORAGE_RETRY_S = 2.0, 60.0, 2.0
_NOT_ITS_FAULT = frozenset({"unreachable", "rate_limited", "auth", "limit", "storage"})
# Seconds without a word after which a session's turns wait for no others.
IDLE_S = 60.0
_FLUSH_AFTER_S = 0.5


class QueuedEvent(msgspec.Struct, eq=False):
    """An event in the line, and how the attempts at it went. Times are seconds of the caller's clock.

    `on_disk`: stored as it is now. `turns`: how many it consists of. `sealed`: takes in no further turn.
    `given_up`: why it is to be buried. `cut`: why the decision may be incomplete. `trouble`: why the last
    attempt failed. `is_cancelled`: all was forgotten, and it is not tried again. `is_leaving`: it goes
    off the disk, and a write would bring it back for good. `elsewhere`: why a root is not at its path.
    """

    event: Event
    on_disk: bool
    turns: int = 1
    ripe_at: float = 0.0
    sealed: bool = False
    not_before: float = 0.0
    failures: int = 0
    kills: int = 0
    given_up: str = ""
    is_cancelled: bool = False
    is_leaving: bool = False
    size: int = 0
    session: str = ""
    tops: tuple[str, ...] = ()
    taken_at: float = 0.0
    cut: str = ""
    trouble: str = ""
    elsewhere: str = ""

    def __post_init__(self) -> None:
        # Asked for at every addition or step, and each costs a walk through the event.
        self.size, self.tops = self.event.size, self.event.tops
        self.session = session_key(self.event.session_id, self.event.roots) or self.event.id

    @property
    def ready_at(self) -> float:
        """When it may be taken."""
        return max(self.not_before, self.ripe_at)

    def takes_in(self, later: QueuedEvent) -> bool:
        """Whether another turn of its session may be added to it."""
        mine, other = self.event, later.event
        if self.sealed or mine.kind != "turn" or other.kind != "turn" or not other.session_id or other.begun:
            return False
        is_same = (mine.identities, mine.headless) == (other.identities, other.headless)
        return is_same and mine.length + other.length <= WINDOW_LIMIT

    def grow(self, later: QueuedEvent) -> None:
        """Take in another turn."""
        mine, other = self.event, later.event
        self.event = msgspec.structs.replace(
            mine, window=(*mine.window, *other.window), said_at=(*mine.times, *other.times)
        )
        self.size += later.size
        self.turns += 1
        self.on_disk = False

    def rewrite(self, event: Event) -> None:
        """Put what is left of its event in the place of the event."""
        self.event, self.size = event, event.size

    def died(self, reason: str) -> None:
        """The worker died over it."""
        self.kills += 1
        if self.kills >= MOST_KILLS:
            self.given_up = f"the worker died {MOST_KILLS} times on it: {reason}"

    def failed(self, report: TaskFailed) -> float:
        """It was not finished; return the seconds that it has to wait."""
        self.trouble = report.message
        if report.reason == "storage":
            return STORAGE_RETRY_S
        self.failures += report.reason not in _NOT_ITS_FAULT
        if self.failures >= MOST_FAILURES:
            what = "attempts" if report.reason in ("gone", "unwritten") else "calls"
            self.given_up = f"{MOST_FAILURES} {what} failed, the last: {report.message}"
        # The endpoint may ask for less. If it asks for more, all wait for that, at the gate.
        return min(report.retry_after_s or _RETRY_S * 2.0**self.failures, _RETRY_MOST_S)


class CaptureQueue:
    """The line. One event is in hand at a time."""

    def __init__(self, *, batch_turns: int = 1) -> None:
        """An event of `batch_turns` turns is ripe."""
        self._batch_turns = batch_turns
        self._line: list[QueuedEvent] = []
        self.in_hand: QueuedEvent | None = None

    def __len__(self) -> int:
        return len(self._line)

    @property
    def turns(self) -> int:
        """Turn events."""
        return sum(waiting.event.kind == "turn" for waiting in self._line)

    @property
    def bytes(self) -> int:
        """Estimated size of all that a kill would take away."""
        return sum(waiting.size for waiting in self._line if not waiting.on_disk)

    @property
    def trouble(self) -> str:
        """Why the first of those that failed did, or nothing."""
        return next((waiting.trouble for waiting in self._line if waiting.trouble), "")

    def events(self) -> tuple[Event, ...]:
        """All events, the one in hand among them, in order."""
        return tuple(waiting.event for waiting in self._line)

    def waiting(self) -> tuple[QueuedEvent, ...]:
        """The whole line, the one in hand in it."""
        return tuple(self._line)

    def in_memory(self) -> tuple[QueuedEvent, ...]:
        """What a kill would take away, at least in part, and is still wanted, in order."""
        return tuple(w for w in self._line if not (w.on_disk or w.is_cancelled or w.is_leaving))

    def add(
        self, event: Event, *, on_disk: bool, now: float = 0.0, at_once: bool = True, sealed: bool = False
    ) -> bool:
        """Let an event wait, or one that waits grow by it; true if it grew.

        `at_once` says that it should not wait for further turns; a `sealed` one is left as it is.
        """
        fresh = QueuedEvent(event, on_disk, ripe_at=now + IDLE_S, sealed=sealed)
        last = next((w for w in reversed(self._line) if w.session == fresh.session), None)
        if grows := last is not None and not sealed and last.takes_in(fresh):
            last.grow(fresh)
        else:
            self.ripen(fresh.session)  # what is not the last of its session takes nothing in
            self._line.append(last := fresh)
        last.sealed = last.sealed or event.goes_on
        is_ripe = at_once or last.sealed or event.is_durable or last.turns >= self._batch_turns
        if last.ripe_at:
            last.ripe_at = 0.0 if is_ripe else now + IDLE_S
        return grows

    def ripen(self, session: str) -> None:
        """Let a session's turns wait for no others."""
        for waiting in self._line:
            if waiting.session == session:
                waiting.ripe_at = 0.0

    def take(self, now: float, held: Callable[[QueuedEvent], bool]) -> QueuedEvent | None:
        """Take the first that may be worked on in hand; None if there is none, or one is in hand already."""
        if self.in_hand is None:
            ready = (w for w in self._heads() if w.ready_at <= now and not (w.elsewhere or held(w)))
            self.in_hand = min(ready, key=lambda w: w.event.kind == "learned", default=None)
            if self.in_hand is not None:
                self.in_hand.taken_at, self.in_hand.sealed = now, True
            return self.in_hand
        return None

    def put_back(self, now: float, delay_s: float) -> None:
        """Let the event in hand wait again, at its place, for at least `delay_s` seconds."""
        waiting = self._released()
        waiting.not_before, waiting.is_leaving = now + delay_s, False

    def finish(self) -> QueuedEvent:
        """Let go of the event in hand for good."""
        waiting = self._released()
        self._leave(waiting)
        return waiting

    def wait_s(self, now: float, held: Callable[[QueuedEvent], bool]) -> float | None:
        """Seconds until `take` may give something; None if time alone will not bring that about."""
        if self.in_hand is not None:
            return None
        ready = (w for w in self._heads() if not (w.elsewhere or held(w)))
        return min((max(0.0, w.ready_at - now) for w in ready), default=None)

    def holds(self, session: str) -> bool:
        """Whether something of a session waits or is in hand, other than for a folder that is elsewhere."""
        return any(waiting.session == session and not waiting.elsewhere for waiting in self._line)

    def elsewhere(self) -> tuple[QueuedEvent, ...]:
        """Those that wait until their folder is at its path again, in order."""
        return tuple(waiting for waiting in self._line if waiting.elsewhere)

    def drop(self, waiting: QueuedEvent) -> None:
        """Remove one that is not wanted any more; one in hand is not tried again."""
        if waiting is self.in_hand:
            waiting.is_cancelled = True
        else:
            self._leave(waiting)

    def _heads(self) -> Iterable[QueuedEvent]:
        """Return the first of every session and folder, in order: the others of it wait for that one."""
        first: dict[tuple[str, tuple[str, ...]], QueuedEvent] = {}
        for waiting in self._line:
            first.setdefault((waiting.session, waiting.event.identities), waiting)
        return first.values()

    def _released(self) -> QueuedEvent:
        assert self.in_hand is not None, "nothing is in hand"
        waiting, self.in_hand = self.in_hand, None
        return waiting

    def _leave(self, gone: QueuedEvent) -> None:
        self._line = [waiting for waiting in self._line if waiting is not gone]


def session_key(session_id: str, roots: Sequence[Root]) -> str:
    """Return the key of a session by its roots, as a pause holds up one repository; nothing without both."""
    return "\0".join([session_id, *(f"{root.scope}:{root.top}" for root in roots)])


class EventFlusher:
    """Flushes queued events and capture cursors in one transaction, within a second. One for the daemon.

    So nothing counts as taken whose event could be lost. What cannot be written is tried again.
    """

    def __init__(self, state: State, queue: CaptureQueue) -> None:
        self._state = state
        self._queue = queue
        self._task: asyncio.Task[None] | None = None
        self._also: tuple[Change, ...] = ()

    @property
    def is_due(self) -> bool:
        """Whether something is not on disk."""
        return bool(self._also or not self._state.capture_cursors.is_saved or self._queue.in_memory())

    def schedule(self, *also: Change) -> None:
        """Have everything written, and this done in the same transaction."""
        self._also += also
        if self._task is None:
            self._task = asyncio.create_task(self._flush_all(), name="event flusher")
            self._task.add_done_callback(log_failure)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _flush_all(self) -> None:
        try:
            while self.is_due:
                await asyncio.sleep(_FLUSH_AFTER_S)
                with contextlib.suppress(StoreError):  # status shows it
                    await self.flush(())
        finally:
            self._task = None

    async def flush(self, events: Sequence[Event], *also: Change) -> None:
        """Store these events and all that is not stored. Raises StoreError."""
        waiting = self._queue.in_memory()
        stored = [each.event for each in waiting]
        due, self._also = self._also, ()
        try:
            await self._state.events.put_all(
                [*stored, *events], self._state.capture_cursors.pending(), *due, *also
            )
        except StoreError:
            self._also = (*due, *self._also)
            raise
        for each, event in zip(waiting, stored, strict=True):
            each.on_disk = each.event is event
