"""Capture cursors of sessions, parts of captures, and captures that are done.

A capture cursor changes in memory first. The transaction that stores the messages as events also writes it,
so it is never more durable than they are. Progress with a past session is stored with its events, too, and
its mark covers everything that its reader saw. Messages beyond a limit are classified again.

A part is on disk before it is acknowledged, so a sender continues after a kill. When all parts are there, the
transaction that stores their events removes them, and keeps the id for a day. So a repeated capture is
recognised, also by another daemon. Abandoned parts are removed after a day.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

import msgspec

from forged.conversation import Utterance
from forged.state.cutting import CutCount
from forged.state.database import Change, Database
from forged.state.rows import CachedRow, Rows
from forged.text.forgetting import Words, without_sentences

DIGEST_BYTES = 8
# Limits for live sessions, and for past ones.
MOST_MESSAGES, MOST_CURSORS, MOST_BYTES = 1 << 15, 20_000, 32 << 20
MOST_SESSIONS, MOST_LEARNED_BYTES = 20_000, 16 << 20
KEPT_S = 24 * 3600

# Count of messages and the Unix time when they were first sent; 0 if unknown.
Run = tuple[int, float]


def digests(said: Iterable[Utterance], key: str) -> bytes:
    """Return the joined digests of messages under a key, by which they are recognised without text.

    Blanks around a message do not count, because sources differ there.
    """
    salt = hashlib.blake2b(key.encode(), digest_size=32).digest()
    texts = (f"{each.role}\n{each.text.strip()}".encode("utf-8", "surrogatepass") for each in said)
    return b"".join(hashlib.blake2b(text, digest_size=DIGEST_BYTES, key=salt).digest() for text in texts)


class CaptureCursor(msgspec.Struct, frozen=True):
    """Digests of a session's judged messages, in order, and the times at which they were sent."""

    digests: bytes = b""
    runs: tuple[Run, ...] = ()

    @property
    def times(self) -> tuple[float, ...]:
        """Return the time when each message was first sent."""
        return tuple(at for count, at in self.runs for _ in range(count))

    @property
    def newest(self) -> float:
        """Return the time of the newest message, 0 without messages."""
        return max((at for _, at in self.runs), default=0.0)

    def grown(self, digests: bytes, at: float) -> CaptureCursor:
        """Return the cursor with added messages of one time, the oldest over the limit dropped."""
        if not digests:
            return self
        runs = [*self.runs, (len(digests) // DIGEST_BYTES, at)]
        too_many = (len(self.digests) + len(digests)) // DIGEST_BYTES - MOST_MESSAGES
        while too_many > 0:
            count, first = runs.pop(0)
            if count > too_many:
                runs.insert(0, (count - too_many, first))
            too_many -= count
        return CaptureCursor((self.digests + digests)[-MOST_MESSAGES * DIGEST_BYTES :], tuple(runs))

    def grown_by(self, window: bytes, places: Sequence[int | None], times: Sequence[float]) -> CaptureCursor:
        """Return a cursor extended by the new messages of a window, each at its time."""
        new, cursor = [at for at, place in enumerate(places) if place is None], self
        for time_, some in groupby(new, key=times.__getitem__):
            cursor = cursor.grown(b"".join(_digest_at(window, each) for each in some), time_)
        return cursor

    def places(self, window: bytes) -> tuple[int | None, ...]:
        """Return for each message of a window its index in the cursor, None for one that is new.

        It finds windows that grow, lose their beginning, come late or come again, and windows of agents that
        share a session.
        """
        known, count = self.digests, len(window) // DIGEST_BYTES
        at = known.rfind(window)
        while at > 0 and at % DIGEST_BYTES:
            at = known.rfind(window, 0, at + len(window) - 1)
        if at >= 0:
            return tuple(range(at // DIGEST_BYTES, at // DIGEST_BYTES + count))
        if overlap := _overlap_length(known, window):
            end = len(known) // DIGEST_BYTES
            return (*range(end - overlap, end), *[None] * (count - overlap))
        return _places_by_digest(known, window)


def _overlap_length(known: bytes, window: bytes) -> int:
    """Return how many messages at the start of a window are the last ones of a cursor."""
    first = window[:DIGEST_BYTES]
    for size in range(min(len(known), len(window)), 0, -DIGEST_BYTES):
        start = len(known) - size
        if known.startswith(first, start) and known[start:] == window[:size]:
            return size // DIGEST_BYTES
    return 0


def _places_by_digest(known: bytes, window: bytes) -> tuple[int | None, ...]:
    """Return each message's index in the cursor, or None; match from the end, no index twice."""
    there = defaultdict[bytes, list[int]](list)
    for place, digest in enumerate(_split(known)):
        there[digest].append(place)
    newest_first = [there[digest].pop() if there[digest] else None for digest in reversed(_split(window))]
    return tuple(reversed(newest_first))


def new_digests(window: bytes, places: Sequence[int | None]) -> bytes:
    """Return the digests of those messages of a window that have no place in a cursor."""
    return b"".join(_digest_at(window, at) for at, place in enumerate(places) if place is None)


def _split(row: bytes) -> list[bytes]:
    """Return the single digests of joined ones."""
    return [_digest_at(row, place) for place in range(len(row) // DIGEST_BYTES)]


def _digest_at(row: bytes, place: int) -> bytes:
    """Return the digest at an index of joined digests."""
    return row[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]


NOTHING = CaptureCursor()


class CaptureCursors(Rows[CaptureCursor]):
    """Table of capture cursors by session, written only in the transaction that stores their events."""

    def __init__(self, database: Database) -> None:
        super().__init__(
            database,
            "capture_cursors",
            CaptureCursor,
            most=MOST_CURSORS,
            most_bytes=MOST_BYTES,
            weigh=lambda cursor: len(cursor.digests),
        )

    def of(self, session: str) -> CaptureCursor:
        """Return the capture cursor of a session, an empty one if it is unknown."""
        kept = self._kept.get(session)
        return NOTHING if kept is None else kept.value

    def last_said_at(self, turn: Sequence[Utterance]) -> float:
        """Return when any session last had this prompt and reply (Unix seconds), 0 for never. Slow."""
        newest = 0.0
        for key, known in self.items():
            places = known.places(digests(turn, key))
            if places[0] is not None and None not in places:
                newest = max(newest, known.times[places[0]])
        return newest

    async def save(self) -> None:
        """Do nothing: cursors are only written in the transaction that stores their events."""


class LearnedSession(msgspec.Struct, frozen=True, kw_only=True):
    """Past session that capture learned from: progress `mark`, cursor of the learned messages."""

    agent: str
    session_id: str
    mark: str = ""
    cursor: CaptureCursor = NOTHING


class LearnedSessions(Rows[LearnedSession]):
    """Table of past sessions from which capture has learned, by the key of their live captures."""

    def __init__(self, database: Database) -> None:
        super().__init__(
            database,
            "learned",
            LearnedSession,
            durable=True,
            most=MOST_SESSIONS,
            most_bytes=MOST_LEARNED_BYTES,
            weigh=lambda session: len(session.cursor.digests),
        )

    def joined_cursor(self, session: str, live: CaptureCursor) -> CaptureCursor:
        """Return a cursor of all messages of a session: learned ones, then those of its live cursor."""
        kept = self._kept.get(session)
        learned = NOTHING if kept is None else kept.value.cursor
        return CaptureCursor(learned.digests + live.digests, (*learned.runs, *live.runs))

    def marks(self, agent: str) -> dict[str, str]:
        """Return the progress mark of each past session of an agent, by session id."""
        return {each.session_id: each.mark for each in self.values() if each.agent == agent}


class CapturePart(msgspec.Struct, frozen=True):
    """Part of a long capture: cleaned messages (None if removed), and the digests of all its messages.

    `begun`: the first message continues an earlier one. `goes_on`: the last one is continued.
    """

    window: tuple[Utterance | None, ...]
    digests: bytes
    begun: bool = False
    goes_on: bool = False

    @property
    def size(self) -> int:
        """Return the estimated bytes of the part in memory and on disk."""
        said = (len(each.text.encode()) + 64 for each in self.window if each is not None)
        return 512 + sum(said) + len(self.digests)


class _CapturePartRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Row of `CaptureParts`: a part of a capture, or the number of slices of a finished capture."""

    part: CapturePart | None = None
    slices: int = 0


class CaptureParts(Rows[_CapturePartRow]):
    """Table of parts of unfinished captures by id and number, and of finished captures by id.

    `bytes` is the size of all parts. `clock` returns Unix seconds.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(
            database,
            "parts",
            _CapturePartRow,
            durable=True,
            keep_s=KEPT_S,
            weigh=lambda slot: slot.part.size if slot.part is not None else 0,
            clock=clock,
        )

    def _replace_all(self, rows: Mapping[str, CachedRow[_CapturePartRow]]) -> None:
        """Replace all rows, and rebuild the index of stored parts by capture."""
        self._numbers: dict[str, set[int]] = {}  # numbers of the stored parts
        super()._replace_all(rows)

    def _apply(self, rows: Mapping[str, CachedRow[_CapturePartRow] | None], *, renew: bool = True) -> None:
        """Apply changes of rows, and update the index of stored parts by capture."""
        super()._apply(rows, renew=renew)
        for key, kept in rows.items():
            event_id, _, number = key.partition("/")
            there = self._numbers.get(event_id, set())
            if number:
                (there.discard if kept is None else there.add)(int(number))
            if there:
                self._numbers[event_id] = there
            else:
                self._numbers.pop(event_id, None)

    def finished_slices(self, event_id: str) -> int | None:
        """Return the number of slices of a finished capture; None if it is unfinished or unknown."""
        kept = self._kept.get(event_id)
        return None if kept is None else kept.value.slices

    def of(self, event_id: str) -> dict[int, CapturePart]:
        """Return the parts of a capture that are stored so far, by number."""
        numbers = sorted(self._numbers.get(event_id, ()))
        slots = ((number, self.get(f"{event_id}/{number}")) for number in numbers)
        return {number: slot.part for number, slot in slots if slot is not None and slot.part is not None}

    async def put(self, event_id: str, number: int, part: CapturePart) -> None:
        """Store a part of a capture durably; it may be stored already. Raises StoreError."""
        await self.store({f"{event_id}/{number}": _CapturePartRow(part)}, renew=False)

    async def cut(self, unwanted: Sequence[Words]) -> CutCount:
        """Remove sentences with a forgotten text from all parts; return the counts. Raises StoreError."""
        done, left = CutCount(), dict[str, _CapturePartRow]()
        for key, slot in self.items():
            if slot.part is not None and (found := _cut_part(slot.part, unwanted))[1]:
                done += CutCount(found[1], 1)
                left[key] = _CapturePartRow(found[0])
        await self.store(left, renew=False)
        return done

    def completion_change(self, event_id: str, slices: int, *, at_once: bool = False) -> Change:
        """Return a change that finishes a capture and drops its parts; `at_once`: in memory now."""
        parts = (f"{event_id}/{number}" for number in self._numbers.get(event_id, ()))
        rows: dict[str, _CapturePartRow | None] = dict.fromkeys(parts)
        rows[event_id] = _CapturePartRow(slices=slices)
        change = self.change(rows)
        if at_once:
            change.apply()
        return change


def _cut_part(part: CapturePart, unwanted: Sequence[Words]) -> tuple[CapturePart, int]:
    """Return a part without sentences of forgotten texts, emptied messages as None; and a count."""
    window: list[Utterance | None] = []
    sentences = 0
    for each in part.window:
        text, count = ("", 0) if each is None else without_sentences(each.text, unwanted)
        window.append(Utterance(each.role, text) if each is not None and text.strip() else None)
        sentences += count
    return msgspec.structs.replace(part, window=tuple(window)), sentences
