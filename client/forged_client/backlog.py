"""Hold what an observer was given and has not delivered yet, and judge the answers to it.

No I/O, no thread and no lock. An event has its id from the start and stays until a reply says that it was
taken or never will be: sending again is harmless, giving up loses the text. A waiting turn is replaced by one
that begins with all that it says. Compactions and the session's end are about to disappear from the
conversation: they queue in order, before the turns, and are never replaced.
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
from forged_client.protocol import Capture, Captured
from forged_client.said import MessageSnapshot

MAX_LASTING = 16
MAX_WINDOWS = 16

# Of answers that may be about the event itself, so many are taken for bad luck.
_MOST_ODD = 5

_TURN, _END = "turn", "session_end"

# `settled`: taken, or refused for good. `again`: not now. `odd`: not now, and perhaps never.
Verdict = Literal["settled", "again", "odd"]

_PASSING_REASONS = ("the daemon is stopping", "queue_full", "spool_full", "storage_error")
_PASSING_CODES = frozenset({"busy", "storage_error"})
_ODD_CODES = frozenset({"internal", "conflict"})
_ANSWERS = frozenset({"ok", "empty", "disabled"})


def of_reply(reply: Captured, *, is_whole: bool) -> Verdict:
    """The verdict on what the daemon said; `is_whole`: it has to have all parts now, and to say so."""
    if reply.outcome == "rejected" and reply.reason.startswith(_PASSING_REASONS):
        return "again"
    if reply.status not in _ANSWERS or (is_whole and reply.outcome == "accepted"):
        return "odd"
    return "settled"


def of_part(part: Capture, reply: Captured) -> Verdict:
    """The verdict on the reply to a part: the last of a compaction or end is answered for all of them."""
    return of_reply(reply, is_whole=part.kind != _TURN and part.parts > 1 and part.part == part.parts - 1)


def of_error(error: ClientError) -> Verdict:
    """The verdict on a call that failed."""
    if isinstance(error, RequestFailed):
        if error.code in _PASSING_CODES:
            return "again"
        return "odd" if error.code in _ODD_CODES else "settled"
    if isinstance(error, (DaemonUnavailable, AddressError, ProtocolMismatch)):
        return "again"
    return "odd" if isinstance(error, MalformedFrame) else "settled"


class BacklogItem:
    """What an agent has handed over, and how the attempts at it went."""

    __slots__ = ("id", "kind", "odd", "said")

    def __init__(self, event_id: str, kind: str, said: MessageSnapshot) -> None:
        self.id = event_id
        self.kind = kind
        self.said = said
        self.odd = 0  # answers that may be its own fault

    def request(self, workspace: str, session_id: str, agent: str) -> Capture:
        """Each attempt at it has the same id."""
        return Capture(
            workspace=workspace, session_id=session_id, kind=self.kind, event_id=self.id, agent=agent
        )

    def covers(self, other: BacklogItem) -> bool:
        return self.kind in (_TURN, _END) and other.kind == _TURN and self.said.begins_with(other.said)


class Backlog:
    """The events of one session, of the process that made it; `last_reply` is the newest one."""

    def __init__(self) -> None:
        self.last_reply: Captured | None = None
        self._pid = os.getpid()
        self._turns: list[BacklogItem] = []  # oldest first
        self._lasting: deque[BacklogItem] = deque()
        self._in_hand: BacklogItem | None = None
        self._counts: Counter[str] = Counter()
        # Ids are counted on from here: to ask the system for each would let go of the interpreter.
        self._stem, self._made = os.urandom(12).hex(), 0

    @property
    def is_of_parent(self) -> bool:
        """Whether this process was forked since: the parent sends what waits."""
        return self._pid != os.getpid()

    @property
    def has_next(self) -> bool:
        return bool(self._turns or self._lasting)

    @property
    def waiting(self) -> int:
        return len(self._turns) + len(self._lasting) + (self._in_hand is not None)

    def counts(self) -> Mapping[str, int]:
        waiting = self.waiting
        return {**self._counts, **({"waiting": waiting} if waiting else {})}

    def add(self, kind: str, said: MessageSnapshot) -> None:
        self._made += 1
        event = BacklogItem(f"{self._stem}-{self._made}", kind, said)
        if kind == _TURN:
            self._replace(event)
            self._turns.append(event)
            self._drop_oldest_windows()
        elif len(self._lasting) < MAX_LASTING:
            self._replace(event)
            self._lasting.append(event)
        else:
            self._counts["dropped"] += 1

    def take(self) -> BacklogItem | None:
        """The next event, turns last; it is in hand until it is answered or put back."""
        if self._lasting:
            self._in_hand = self._lasting.popleft()
        elif self._turns:
            self._in_hand = self._turns.pop(0)
        return self._in_hand

    def answered(self, event: BacklogItem, reply: Captured, verdict: Verdict, repaired: int) -> bool:
        """Count the reply to the event in hand; whether it is settled, else it waits again."""
        self.last_reply = reply
        self._counts[reply.outcome if reply.status == "ok" else reply.status] += 1
        event.odd += verdict == "odd"
        if verdict != "settled" and event.odd < _MOST_ODD:
            self.put_back()
            return False
        self._in_hand = None
        given_up = int(verdict != "settled")
        self._count(given_up=given_up, unread=reply.unread, repaired=repaired)
        return True

    def put_back(self) -> None:
        """The event in hand, if there is one, waits again."""
        event, self._in_hand = self._in_hand, None
        if event is None:
            return
        if event.kind != _TURN:
            self._lasting.appendleft(event)
        elif any(other.covers(event) for other in (*self._turns, *self._lasting)):
            self._counts["replaced"] += 1
        else:
            self._turns.insert(0, event)
            self._drop_oldest_windows()

    def _replace(self, event: BacklogItem) -> None:
        left = [waiting for waiting in self._turns if not event.covers(waiting)]
        self._count(replaced=len(self._turns) - len(left))
        self._turns = left

    def _drop_oldest_windows(self) -> None:
        while len(self._turns) > MAX_WINDOWS:
            del self._turns[0]
            self._counts["dropped"] += 1

    def _count(self, **numbers: int) -> None:
        for name, number in numbers.items():
            if number:
                self._counts[name] += number
