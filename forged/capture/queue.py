"""Queue of capture events for the worker: their order, their growth, and when they are due.

Turns of a session join its newest waiting event, so that a model reads several at once. A full or urgent
event, or one with enough turns, is due at once; others after `ripen` or a minute of silence. Events are
served in order, those of past sessions last. An event that must wait blocks only its own session; one with a
root that is `elsewhere` blocks only the same folder. The event in hand stays in the queue, no longer grows,
and is never dropped. An event that repeatedly kills workers or fails is given up. It uses no clock, disk or
lock; callers pass the time. Raises nothing. `EventFlusher` stores events that are only in memory.
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
# Back-off of an event after a failed call, doubling; after a full disk the retry is constant.
_RETRY_S, _RETRY_MOST_S, STORAGE_RETRY_S = 2.0, 60.0, 2.0
_NOT_ITS_FAULT = frozenset({"unreachable", "rate_limited", "auth", "limit", "storage"})
# Seconds of silence after which a session's turns are due.
IDLE_S = 60.0
_FLUSH_AFTER_S = 0.5


class QueuedEvent(msgspec.Struct, eq=False):
    """Queued event and the state of its attempts. Times are seconds of the caller's clock.

    `on_disk`: stored as it is now. `turns`: count of its turns. `sealed`: takes no further turn. `given_up`:
    reason to move it to the dead events. `cut`: why its decision may be incomplete. `trouble`: why the last
    attempt failed. `is_cancelled`: all of it was forgotten, so it is not retried. `is_leaving`: it is being
    deleted, and a write would restore it. `elsewhere`: why a root is not at its path.
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
        # Stored, because each needs a walk through the event and is read at every step.
        self.size, self.tops = self.event.size, self.event.tops
        self.session = session_key(self.event.session_id, self.event.roots) or self.event.id

    @property
    def ready_at(self) -> float:
        """Return the earliest time at which the worker may get this event."""
        return max(self.not_before, self.ripe_at)

    def takes_in(self, later: QueuedEvent) -> bool:
        """Return True if a later turn of the same session may join this event."""
        mine, other = self.event, later.event
        if self.sealed or mine.kind != "turn" or other.kind != "turn" or not other.session_id or other.begun:
            return False
        is_same = (mine.identities, mine.headless) == (other.identities, other.headless)
        return is_same and mine.length + other.length <= WINDOW_LIMIT

    def grow(self, later: QueuedEvent) -> None:
        """Append the messages of a later turn to this event."""
        mine, other = self.event, later.event
        self.event = msgspec.structs.replace(
            mine, window=(*mine.window, *other.window), said_at=(*mine.times, *other.times)
        )
        self.size += later.size
        self.turns += 1
        self.on_disk = False

    def rewrite(self, event: Event) -> None:
        """Replace the event by its rest after forgotten text was cut out."""
        self.event, self.size = event, event.size

    def record_death(self, reason: str) -> None:
        """Record that the worker died during this event; give it up after three deaths."""
        self.kills += 1
        if self.kills >= MOST_KILLS:
            self.given_up = f"the worker died {MOST_KILLS} times on it: {reason}"

    def record_failure(self, report: TaskFailed) -> float:
        """Record a failure, give up after five by the event's fault; return the seconds to wait."""
        self.trouble = report.message
        if report.reason == "storage":
            return STORAGE_RETRY_S
        self.failures += report.reason not in _NOT_ITS_FAULT
        if self.failures >= MOST_FAILURES:
            what = "attempts" if report.reason in ("gone", "unwritten") else "calls"
            self.given_up = f"{MOST_FAILURES} {what} failed, the last: {report.message}"
        # The endpoint may ask for a shorter wait. A longer one is applied to all events by the call limiter.
        return min(report.retry_after_s or _RETRY_S * 2.0**self.failures, _RETRY_MOST_S)


class CaptureQueue:
    """Orders capture events, joins turns of a session, and hands out one due event at a time."""

    def __init__(self, *, batch_turns: int = 1) -> None:
        """An event with `batch_turns` turns is due at once."""
        self._batch_turns = batch_turns
        self._line: list[QueuedEvent] = []
        self.in_hand: QueuedEvent | None = None

    def __len__(self) -> int:
        return len(self._line)

    @property
    def turns(self) -> int:
        """Return the count of queued events of kind `turn`, each with one turn or several."""
        return sum(waiting.event.kind == "turn" for waiting in self._line)

    @property
    def bytes(self) -> int:
        """Return the estimated size of all events that are only in memory, which a kill would lose."""
        return sum(waiting.size for waiting in self._line if not waiting.on_disk)

    @property
    def trouble(self) -> str:
        """Return the error of the first queued event whose last attempt failed, or ""."""
        return next((waiting.trouble for waiting in self._line if waiting.trouble), "")

    def events(self) -> tuple[Event, ...]:
        """Return the events in the queue in order, including the one in hand."""
        return tuple(waiting.event for waiting in self._line)

    def waiting(self) -> tuple[QueuedEvent, ...]:
        """Return the entries of the queue, with the state of their attempts, in order."""
        return tuple(self._line)

    def in_memory(self) -> tuple[QueuedEvent, ...]:
        """Return the events that are not fully on disk and not cancelled, in order."""
        return tuple(w for w in self._line if not (w.on_disk or w.is_cancelled or w.is_leaving))

    def add(
        self, event: Event, *, on_disk: bool, now: float = 0.0, at_once: bool = True, sealed: bool = False
    ) -> bool:
        """Add an event, or join it to a waiting one; return True if it joined.

        `at_once`: it does not wait for further turns. `sealed`: no turn joins it.
        """
        fresh = QueuedEvent(event, on_disk, ripe_at=now + IDLE_S, sealed=sealed)
        last = next((w for w in reversed(self._line) if w.session == fresh.session), None)
        if grows := last is not None and not sealed and last.takes_in(fresh):
            last.grow(fresh)
        else:
            self.ripen(fresh.session)  # only the last event of a session takes further turns
            self._line.append(last := fresh)
        last.sealed = last.sealed or event.goes_on
        is_ripe = at_once or last.sealed or event.is_durable or last.turns >= self._batch_turns
        if last.ripe_at:
            last.ripe_at = 0.0 if is_ripe else now + IDLE_S
        return grows

    def ripen(self, session: str) -> None:
        """Make the waiting turns of a session due now."""
        for waiting in self._line:
            if waiting.session == session:
                waiting.ripe_at = 0.0

    def take(self, now: float, held: Callable[[QueuedEvent], bool]) -> QueuedEvent | None:
        """Take the first due event not held, past sessions last; None if there is none or one in hand."""
        if self.in_hand is None:
            ready = (w for w in self._first_events() if w.ready_at <= now and not (w.elsewhere or held(w)))
            self.in_hand = min(ready, key=lambda w: w.event.kind == "learned", default=None)
            if self.in_hand is not None:
                self.in_hand.taken_at, self.in_hand.sealed = now, True
            return self.in_hand
        return None

    def put_back(self, now: float, delay_s: float) -> None:
        """Release the event in hand; at its place in the queue it waits at least `delay_s` seconds."""
        waiting = self._release()
        waiting.not_before, waiting.is_leaving = now + delay_s, False

    def finish(self) -> QueuedEvent:
        """Remove the event in hand from the queue, and return it."""
        waiting = self._release()
        self._remove(waiting)
        return waiting

    def wait_s(self, now: float, held: Callable[[QueuedEvent], bool]) -> float | None:
        """Return the seconds until `take` may return an event; None if time alone does not help."""
        if self.in_hand is not None:
            return None
        ready = (w for w in self._first_events() if not (w.elsewhere or held(w)))
        return min((max(0.0, w.ready_at - now) for w in ready), default=None)

    def holds(self, session: str) -> bool:
        """Return True if an event of a session is queued, except those that wait for their folder."""
        return any(waiting.session == session and not waiting.elsewhere for waiting in self._line)

    def elsewhere(self) -> tuple[QueuedEvent, ...]:
        """Return the events that wait for their folder, in order."""
        return tuple(waiting for waiting in self._line if waiting.elsewhere)

    def drop(self, waiting: QueuedEvent) -> None:
        """Remove an unwanted event; one in hand is cancelled and ends after its attempt."""
        if waiting is self.in_hand:
            waiting.is_cancelled = True
        else:
            self._remove(waiting)

    def _first_events(self) -> Iterable[QueuedEvent]:
        """Return the first event of each session in each of its folders, in order."""
        first: dict[tuple[str, tuple[str, ...]], QueuedEvent] = {}
        for waiting in self._line:
            first.setdefault((waiting.session, waiting.event.identities), waiting)
        return first.values()

    def _release(self) -> QueuedEvent:
        """Take the event out of hand and return it; it stays in the queue."""
        assert self.in_hand is not None, "nothing is in hand"
        waiting, self.in_hand = self.in_hand, None
        return waiting

    def _remove(self, gone: QueuedEvent) -> None:
        """Remove an event from the queue."""
        self._line = [waiting for waiting in self._line if waiting is not gone]


def session_key(session_id: str, roots: Sequence[Root]) -> str:
    """Return the key of a session in its roots: id and roots joined; "" without an id.

    Roots are part of it because a pause stops one repository.
    """
    return "\0".join([session_id, *(f"{root.scope}:{root.top}" for root in roots)]) if session_id else ""


class EventFlusher:
    """Writes unsaved events and cursors to disk in one transaction within a second. One for the daemon.

    A message counts as taken only with its event. Failed writes are retried.
    """

    def __init__(self, state: State, queue: CaptureQueue) -> None:
        self._state = state
        self._queue = queue
        self._task: asyncio.Task[None] | None = None
        self._also: tuple[Change, ...] = ()

    @property
    def is_due(self) -> bool:
        """Return True if events, capture cursors or scheduled changes are not on disk."""
        return bool(self._also or not self._state.capture_cursors.is_saved or self._queue.in_memory())

    def schedule(self, *also: Change) -> None:
        """Schedule a write of all unsaved events, cursors and `also` in one transaction within a second."""
        self._also += also
        if self._task is None:
            self._task = asyncio.create_task(self._flush_all(), name="event flusher")
            self._task.add_done_callback(log_failure)

    def stop(self) -> None:
        """Stop the scheduled writing; `flush` still works."""
        if self._task is not None:
            self._task.cancel()

    async def _flush_all(self) -> None:
        """Write all that is unsaved every half second until everything is on disk, despite errors."""
        try:
            while self.is_due:
                await asyncio.sleep(_FLUSH_AFTER_S)
                with contextlib.suppress(StoreError):  # `status` reports it
                    await self.flush(())
        finally:
            self._task = None

    async def flush(self, events: Sequence[Event], *also: Change) -> None:
        """Store `events`, `also` and all that is unsaved in one transaction. Raises StoreError."""
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
