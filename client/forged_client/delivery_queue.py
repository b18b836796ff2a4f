"""Queue of the events that an observer has not delivered, and verdicts on the replies to them.

No I/O, no thread and no lock. An event has its id from the start and stays until a reply accepts it or
refuses it for good. Sending it again is harmless; giving up loses the text. A pending turn is replaced by a
later turn that begins with all of its text. The messages of a compaction or of a session's end are about to
disappear from the conversation. So these events are sent in order, before the turns, and are never replaced.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Mapping
from typing import Literal

from forged_client.errors import (
    AddressError,
    ClientError,
    DaemonUnavailable,
    MalformedFrame,
    ProtocolMismatch,
    RequestFailed,
)
from forged_client.message_snapshot import MessageSnapshot
from forged_client.protocol import Capture, Captured

MAX_LASTING = 16
MAX_WINDOWS = 16

# So many doubtful replies about one event are taken for bad luck.
_MOST_ODD = 5

_TURN, _END = "turn", "session_end"

# `settled`: accepted, or refused for good. `again`: not now. `odd`: not now, and perhaps never.
Verdict = Literal["settled", "again", "odd"]

_PASSING_REASONS = ("the daemon is stopping", "queue_full", "spool_full", "storage_error")
_PASSING_CODES = frozenset({"busy", "storage_error"})
_ODD_CODES = frozenset({"internal", "conflict"})
_ANSWERS = frozenset({"ok", "empty", "disabled"})


def verdict_on_reply(reply: Captured, *, is_whole: bool) -> Verdict:
    """Return the verdict on a reply: settled (done), again (resend), odd (resend 4 times)."""
    if reply.outcome == "rejected" and reply.reason.startswith(_PASSING_REASONS):
        return "again"
    if reply.status not in _ANSWERS or (is_whole and reply.outcome == "accepted"):
        return "odd"
    return "settled"


def verdict_on_part(part: Capture, reply: Captured) -> Verdict:
    """Return the verdict on a part's reply; odd if it is the last, not of a turn, and others are missing."""
    return verdict_on_reply(
        reply, is_whole=part.kind != _TURN and part.parts > 1 and part.part == part.parts - 1
    )


def verdict_on_error(error: ClientError) -> Verdict:
    """Return the verdict on a failed call: settled (drop), again (resend), odd (resend 4 times)."""
    if isinstance(error, RequestFailed):
        if error.code in _PASSING_CODES:
            return "again"
        return "odd" if error.code in _ODD_CODES else "settled"
    if isinstance(error, (DaemonUnavailable, AddressError, ProtocolMismatch)):
        return "again"
    return "odd" if isinstance(error, MalformedFrame) else "settled"


class PendingEvent:
    """A turn, compaction or session's end that is not delivered yet, with its count of doubtful replies."""

    __slots__ = ("id", "kind", "odd", "snapshot")

    def __init__(self, event_id: str, kind: str, snapshot: MessageSnapshot) -> None:
        self.id = event_id
        self.kind = kind
        self.snapshot = snapshot
        self.odd = 0  # doubtful replies, which may be due to the event

    def request(self, workspace: str, session_id: str, agent: str) -> Capture:
        """Return the event's `Capture` request, without messages yet; each attempt has the same event id."""
        return Capture(
            workspace=workspace, session_id=session_id, kind=self.kind, event_id=self.id, agent=agent
        )

    def covers(self, other: PendingEvent) -> bool:
        """Return True if this turn or session's end begins with all text of another turn, so replaces it."""
        return (
            self.kind in (_TURN, _END) and other.kind == _TURN and self.snapshot.begins_with(other.snapshot)
        )


class DeliveryQueue:
    """Queue of the undelivered events of one session, in the process that made it; counts outcomes."""

    def __init__(self) -> None:
        self.last_reply: Captured | None = None
        self._pid = os.getpid()
        self._turns: list[PendingEvent] = []  # oldest first
        self._lasting: deque[PendingEvent] = deque()
        self._in_hand: PendingEvent | None = None
        self._counts: Counter[str] = Counter()
        # Ids are counted on from here: asking the system for each would release the interpreter.
        self._stem, self._made = os.urandom(12).hex(), 0

    @property
    def is_of_parent(self) -> bool:
        """Return True in a process forked after the queue was made; the parent sends the pending events."""
        return self._pid != os.getpid()

    @property
    def has_next(self) -> bool:
        """Return True if an event is pending, not counting one in hand."""
        return bool(self._turns or self._lasting)

    @property
    def waiting(self) -> int:
        return len(self._turns) + len(self._lasting) + (self._in_hand is not None)

    def counts(self) -> Mapping[str, int]:
        """Return counts: of replies by outcome, and of events replaced, dropped, given up and waiting."""
        waiting = self.waiting
        return {**self._counts, **({"waiting": waiting} if waiting else {})}

    def add(self, kind: str, snapshot: MessageSnapshot) -> None:
        """Queue an event, replacing turns it covers; if full, drop the oldest turn, or it if not a turn."""
        self._made += 1
        event = PendingEvent(f"{self._stem}-{self._made}", kind, snapshot)
        if kind == _TURN:
            self._remove_covered(event)
            self._turns.append(event)
            self._drop_oldest_turns()
        elif len(self._lasting) < MAX_LASTING:
            self._remove_covered(event)
            self._lasting.append(event)
        else:
            self._counts["dropped"] += 1

    def take(self) -> PendingEvent | None:
        """Return the next pending event, turns last, or None; it is in hand until answered or put back."""
        if self._lasting:
            self._in_hand = self._lasting.popleft()
        elif self._turns:
            self._in_hand = self._turns.pop(0)
        return self._in_hand

    def record_reply(self, event: PendingEvent, reply: Captured, verdict: Verdict, repaired: int) -> bool:
        """Count a reply; return True if the event is finished or given up, else make it pending again."""
        self.last_reply = reply
        self._counts[reply.outcome if reply.status == "ok" else reply.status] += 1
        event.odd += verdict == "odd"
        if verdict != "settled" and event.odd < _MOST_ODD:
            self.put_back()
            return False
        self._in_hand = None
        given_up = int(verdict != "settled")
        self._add_to_counts(given_up=given_up, unread=reply.unread, repaired=repaired)
        return True

    def put_back(self) -> None:
        """Make the event in hand pending again, unless a pending one with all its text replaces it."""
        event, self._in_hand = self._in_hand, None
        if event is None:
            return
        if event.kind != _TURN:
            self._lasting.appendleft(event)
        elif any(other.covers(event) for other in (*self._turns, *self._lasting)):
            self._counts["replaced"] += 1
        else:
            self._turns.insert(0, event)
            self._drop_oldest_turns()

    def _remove_covered(self, event: PendingEvent) -> None:
        """Remove the pending turns whose text this event contains, and count them as replaced."""
        left = [waiting for waiting in self._turns if not event.covers(waiting)]
        self._add_to_counts(replaced=len(self._turns) - len(left))
        self._turns = left

    def _drop_oldest_turns(self) -> None:
        """Drop the oldest turns above the limit, and count them as dropped."""
        while len(self._turns) > MAX_WINDOWS:
            del self._turns[0]
            self._counts["dropped"] += 1

    def _add_to_counts(self, **numbers: int) -> None:
        for name, number in numbers.items():
            if number:
                self._counts[name] += number
