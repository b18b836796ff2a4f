"""The queue of events that wait for the worker: order, replacement by a newer turn, eviction when it is full.

`add` puts an event in and returns what left for it; `take` gives out the first one, which `put_back` or
`finish` then ends; `drop` removes what is not wanted any more. Nothing is raised.

A turn's event carries the whole window since the last summary, so of two that begin at the same message only
the newer is worth a model call. It takes the older one's place in the line, for a session that never pauses
would otherwise be sent to the end for ever. Another window, after a summary, contains other text: both wait.

Sessions are served first come, first served, and each in its own order. An event that has to wait (a
back-off, a paused repository) holds up its own session only. The event that is taken stays in the line, where
`put_back` leaves it; it counts everywhere, and is never replaced, evicted or dropped.

An event that makes trouble is given up in the end. A killed worker counts against the event that it had. A
failure counts only if it says something about this event, and not about the endpoint or the disk, which would
have met any other.

No clock, no disk, no lock: the caller brings the time and acts on what is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from forged.capture.values import Failed
from forged.state import Event

MOST_KILLS, MOST_FAILURES = 3, 5
# An event's own back-off after a failed call, doubling; storage that is full is looked at more often.
_RETRY_S, _RETRY_MOST_S, STORAGE_RETRY_S = 2.0, 60.0, 2.0
_NOT_ITS_FAULT = frozenset({"unreachable", "rate_limited", "auth", "limit", "storage"})

# A compaction or an end of session tells of the same window as a turn would; what a user asked to remember
# is about something of its own.
_COVERS_TURNS = frozenset({"turn", "session_end", "compaction"})


class Waiting(msgspec.Struct, eq=False):
    """An event in the line, and how the attempts at it went. Times are seconds of the caller's clock.

    `given_up` is why it is to be buried, or nothing; it waits then only because that did not work. `cut` is
    why what was decided about it may be less than there was, `trouble` why the last attempt failed.
    `is_cancelled` is set when all of it was forgotten: what is under way may end, but is not tried again.
    """

    event: Event
    on_disk: bool
    not_before: float = 0.0
    failures: int = 0
    kills: int = 0
    given_up: str = ""
    is_cancelled: bool = False
    size: int = 0
    session: str = ""
    taken_at: float = 0.0
    cut: str = ""
    trouble: str = ""

    def __post_init__(self) -> None:
        # Both are asked for at every addition and cost a walk through the event.
        self.size = self.event.size
        self.session = _session(self.event)

    @property
    def is_turn_in_memory(self) -> bool:
        return self.event.kind == "turn" and not self.on_disk

    def begin(self, now: float) -> None:
        """An attempt begins."""
        self.taken_at = now

    def rewrite(self, event: Event) -> None:
        """Put what is left of its event in the place of the event."""
        self.event, self.size = event, event.size

    def died(self, reason: str) -> None:
        """The worker died over it."""
        self.kills += 1
        if self.kills >= MOST_KILLS:
            self.given_up = f"the worker died {MOST_KILLS} times over it: {reason}"

    def cut_short(self, kept: int) -> None:
        """What was decided is in place and less than there was; a person may have it asked about again."""
        self.given_up = f"{self.cut}; memories of it that were kept: {kept}"

    def failed(self, report: Failed) -> float:
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


class Change(msgspec.Struct, frozen=True):
    """Who left the line for a newcomer: replaced by it, or for want of room, which may be the newcomer."""

    coalesced: tuple[Waiting, ...] = ()
    evicted: tuple[Waiting, ...] = ()


class CaptureQueue:
    """The line. One event is in hand at a time."""

    def __init__(self, *, coalesce: bool = True, max_sessions: int = 64, max_bytes: int = 64 << 20) -> None:
        """Take caps for what only memory holds: sessions with turns, and bytes of events of any kind."""
        self._coalesce = coalesce
        self._max_sessions = max_sessions
        self._max_bytes = max_bytes
        self._line: list[Waiting] = []
        self.in_hand: Waiting | None = None

    def __len__(self) -> int:
        return len(self._line)

    @property
    def turns(self) -> int:
        """Turn events that only memory holds."""
        return sum(waiting.is_turn_in_memory for waiting in self._line)

    @property
    def sessions(self) -> int:
        """Sessions that have such turns."""
        return len({waiting.session for waiting in self._line if waiting.is_turn_in_memory})

    @property
    def bytes(self) -> int:
        """Estimated size of all events that only memory holds."""
        return sum(waiting.size for waiting in self._line if not waiting.on_disk)

    @property
    def trouble(self) -> str:
        """Why the first of those that failed did, or nothing."""
        return next((waiting.trouble for waiting in self._line if waiting.trouble), "")

    def events(self) -> tuple[Event, ...]:
        """All events, the one in hand among them, in order."""
        return tuple(waiting.event for waiting in self._line)

    def waiting(self) -> tuple[Waiting, ...]:
        """The whole line, the one in hand in it."""
        return tuple(self._line)

    def in_memory(self) -> tuple[Event, ...]:
        """Events that a kill would take away and that are still wanted, in order."""
        return tuple(w.event for w in self._line if not (w.on_disk or w.is_cancelled))

    # --- in -------------------------------------------------------------------------------------------

    def add(self, event: Event, *, on_disk: bool) -> Change:
        """Let an event wait. Only turns make room for others; an event that finds none is evicted itself."""
        new = Waiting(event, on_disk)
        if not on_disk and new.size > self._max_bytes:
            return Change(evicted=(new,))
        replaced = [waiting for waiting in self._line if self._is_replaced(waiting, new)]
        place = self._place(new, replaced)
        for waiting in replaced:
            new.not_before = max(new.not_before, waiting.not_before)
            if not event.is_durable:
                # The window holds what killed the worker; a session that goes on could kill it for ever.
                new.kills = max(new.kills, waiting.kills)
        self._line.insert(place, new)
        self._leave(replaced)
        return Change(tuple(replaced), self._evict_for(new))

    def _is_replaced(self, old: Waiting, new: Waiting) -> bool:
        return (
            self._coalesce
            and old is not self.in_hand
            and old.event.kind == "turn"
            and old.session == new.session
            and old.event.window_id == new.event.window_id != ""
            and new.event.kind in _COVERS_TURNS
            and old.event.id < new.event.id  # a revived event is no news
        )

    def _place(self, new: Waiting, replaced: list[Waiting]) -> int:
        """Index of the first that is replaced, unless its session has others behind it: they come first."""
        end = len(self._line)
        if not replaced:
            return end
        place = self._line.index(replaced[0])
        behind = (waiting for waiting in self._line[place:] if waiting not in replaced)
        return end if any(waiting.session == new.session for waiting in behind) else place

    def _evict_for(self, new: Waiting) -> tuple[Waiting, ...]:
        if new.on_disk:
            return ()
        evicted: list[Waiting] = []
        while new.is_turn_in_memory and self.sessions > self._max_sessions:
            if not (gone := self._oldest_session(new)):
                break
            evicted += self._leave(gone)
        while self.bytes > self._max_bytes:
            evicted += self._leave([self._oldest_turn(new) or new])
        return tuple(evicted)

    def _oldest_session(self, new: Waiting) -> list[Waiting]:
        """Turns of the session that has the oldest one; sessions that could not be got rid of left out."""
        kept = {new.session}
        if self.in_hand is not None and self.in_hand.is_turn_in_memory:
            kept.add(self.in_hand.session)
        turns = [w for w in self._line if w.is_turn_in_memory and w.session not in kept]
        oldest = min(turns, key=_age, default=None)
        return [] if oldest is None else [w for w in turns if w.session == oldest.session]

    def _oldest_turn(self, new: Waiting) -> Waiting | None:
        """Turn that goes first for its size: the oldest of another session, or else an older one of ours."""
        turns = [w for w in self._line if w.is_turn_in_memory and w is not new and w is not self.in_hand]
        others = [w for w in turns if w.session != new.session]
        return min(others or turns, key=_age, default=None)

    # --- out ------------------------------------------------------------------------------------------

    def take(self, now: float, held: Callable[[Event], bool]) -> Waiting | None:
        """Take the first that may be worked on in hand; None if there is none, or one is in hand already."""
        if self.in_hand is None:
            ready = (w for w in self._heads() if w.not_before <= now and not held(w.event))
            self.in_hand = next(ready, None)
            if self.in_hand is not None:
                self.in_hand.begin(now)
            return self.in_hand
        return None

    def put_back(self, now: float, delay_s: float) -> None:
        """Let the event in hand wait again, at its place, for at least `delay_s` seconds."""
        waiting = self._released()
        waiting.not_before = now + delay_s

    def finish(self) -> Waiting:
        """Let go of the event in hand for good."""
        waiting = self._released()
        self._leave([waiting])
        return waiting

    def wait_s(self, now: float, held: Callable[[Event], bool]) -> float | None:
        """Seconds until `take` may give something; None if time alone will not bring that about."""
        if self.in_hand is not None:
            return None
        return min((max(0.0, w.not_before - now) for w in self._heads() if not held(w.event)), default=None)

    def drop(self, waiting: Waiting) -> None:
        """Remove one that is not wanted any more; one in hand is not tried again."""
        if waiting is self.in_hand:
            waiting.is_cancelled = True
        else:
            self._leave([waiting])

    def _heads(self) -> Iterable[Waiting]:
        """Return the first of every session, in order: the others of it wait for that one."""
        first: dict[str, Waiting] = {}
        for waiting in self._line:
            first.setdefault(waiting.session, waiting)
        return first.values()

    def _released(self) -> Waiting:
        assert self.in_hand is not None, "nothing is in hand"
        waiting, self.in_hand = self.in_hand, None
        return waiting

    def _leave(self, gone: list[Waiting]) -> list[Waiting]:
        leaving = set(map(id, gone))
        self._line = [waiting for waiting in self._line if id(waiting) not in leaving]
        return gone


def _age(waiting: Waiting) -> str:
    return waiting.event.id  # ids are in the order of acceptance


def _session(event: Event) -> str:
    """Key of a session: what waits in a paused repository must not hold up its session in another one.

    An event of no session and no root, as a journal without its event is, stands for itself.
    """
    roots = [f"{root.scope}:{root.top}" for root in event.roots]
    return "\0".join([event.session_id, *roots]) if event.session_id or roots else event.id
