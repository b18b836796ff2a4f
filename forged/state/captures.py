"""Which messages were judged, by session; captures that come in numbered parts; and which captures are done.

A capture cursor is in memory first, and in the file with the transaction that stores the messages as events:
it is never more durable than they are. What is judged of a past session is stored with its events, too; its
mark is its reader's word for all that it said. A message beyond a bound is judged once more.

A part is on disk before it is answered, so a sender goes on after a kill where it was. When all parts are
there, they are taken out in the transaction that stores the events they come to, and the id is kept for a
day: what is sent again is known then, also to another daemon. What its sender gave up goes after a day.
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
# Of live sessions, and of past ones.
MOST_MESSAGES, MOST_CURSORS, MOST_BYTES = 1 << 15, 20_000, 32 << 20
MOST_SESSIONS, MOST_LEARNED_BYTES = 20_000, 16 << 20
KEPT_S = 24 * 3600

# How many messages were first said at a time, in Unix seconds; 0: nobody knows when.
Run = tuple[int, float]


def digests(said: Iterable[Utterance], key: str) -> bytes:
    """Join the digests of messages, under a key; blanks around them do not count, as sources differ there."""
    salt = hashlib.blake2b(key.encode(), digest_size=32).digest()
    texts = (f"{each.role}\n{each.text.strip()}".encode("utf-8", "surrogatepass") for each in said)
    return b"".join(hashlib.blake2b(text, digest_size=DIGEST_BYTES, key=salt).digest() for text in texts)


class CaptureCursor(msgspec.Struct, frozen=True):
    """Digests of the judged messages of a session, in order, and runs of messages judged together."""

    digests: bytes = b""
    runs: tuple[Run, ...] = ()

    @property
    def times(self) -> tuple[float, ...]:
        """When each message was first said."""
        return tuple(at for count, at in self.runs for _ in range(count))

    @property
    def newest(self) -> float:
        return max((at for _, at in self.runs), default=0.0)

    def grown(self, digests: bytes, at: float) -> CaptureCursor:
        """With messages that were said now; of too many the newest are left."""
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
        """With the new messages of a window, each said at its time."""
        new, cursor = [at for at, place in enumerate(places) if place is None], self
        for time_, some in groupby(new, key=times.__getitem__):
            cursor = cursor.grown(b"".join(_at(window, each) for each in some), time_)
        return cursor

    def places(self, window: bytes) -> tuple[int | None, ...]:
        """Return the place of each message of a window, None for a new one.

        Windows grow, lose their beginning, come late or again, and agents may share a session.
        """
        known, count = self.digests, len(window) // DIGEST_BYTES
        at = known.rfind(window)
        while at > 0 and at % DIGEST_BYTES:
            at = known.rfind(window, 0, at + len(window) - 1)
        if at >= 0:
            return tuple(range(at // DIGEST_BYTES, at // DIGEST_BYTES + count))
        if overlap := _overlap(known, window):
            end = len(known) // DIGEST_BYTES
            return (*range(end - overlap, end), *[None] * (count - overlap))
        return _by_counts(known, window)


def _overlap(known: bytes, window: bytes) -> int:
    """With how many of its messages the window begins where the known sequence ends: the most."""
    first = window[:DIGEST_BYTES]
    for size in range(min(len(known), len(window)), 0, -DIGEST_BYTES):
        start = len(known) - size
        if known.startswith(first, start) and known[start:] == window[:size]:
            return size // DIGEST_BYTES
    return 0


def _by_counts(known: bytes, window: bytes) -> tuple[int | None, ...]:
    there = defaultdict[bytes, list[int]](list)
    for place, digest in enumerate(_each(known)):
        there[digest].append(place)
    newest_first = [there[digest].pop() if there[digest] else None for digest in reversed(_each(window))]
    return tuple(reversed(newest_first))


def new_of(window: bytes, places: Sequence[int | None]) -> bytes:
    """Return the digests of a window's new messages."""
    return b"".join(_at(window, at) for at, place in enumerate(places) if place is None)


def _each(row: bytes) -> list[bytes]:
    return [_at(row, place) for place in range(len(row) // DIGEST_BYTES)]


def _at(row: bytes, place: int) -> bytes:
    return row[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]


NOTHING = CaptureCursor()


class CaptureCursors(Rows[CaptureCursor]):
    """One for the daemon; `pending` is what the transaction that stores events has to write."""

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
        kept = self._kept.get(session)
        return NOTHING if kept is None else kept.value

    def said_last(self, turn: Sequence[Utterance]) -> float:
        """Return when any session last said this prompt and reply (Unix seconds), 0 for never. Slow."""
        newest = 0.0
        for key, known in self.items():
            places = known.places(digests(turn, key))
            if places[0] is not None and None not in places:
                newest = max(newest, known.times[places[0]])
        return newest

    async def save(self) -> None:
        """Write nothing: the file has it with the events or not at all."""


class LearnedSession(msgspec.Struct, frozen=True, kw_only=True):
    """Digests of the judged messages of a past session, in order, and the time of the last judgement."""

    agent: str
    session_id: str
    mark: str = ""
    digests: bytes = b""
    at: float = 0.0


class LearnedSessions(Rows[LearnedSession]):
    """One for the daemon. The key of a session is that of its live captures."""

    def __init__(self, database: Database) -> None:
        super().__init__(
            database,
            "learned",
            LearnedSession,
            durable=True,
            most=MOST_SESSIONS,
            most_bytes=MOST_LEARNED_BYTES,
            weigh=lambda session: len(session.digests),
        )

    def before(self, session: str, live: CaptureCursor) -> CaptureCursor:
        """Return the cursor of all that is known of a session: what was learned, and its live captures."""
        kept = self._kept.get(session)
        if kept is None:
            return live
        runs = ((len(kept.value.digests) // DIGEST_BYTES, kept.value.at), *live.runs)
        return CaptureCursor(kept.value.digests + live.digests, runs)

    def marks(self, agent: str) -> dict[str, str]:
        """The marks of an agent's sessions, by their ids."""
        return {each.session_id: each.mark for each in self.values() if each.agent == agent}


class CapturePart(msgspec.Struct, frozen=True):
    """Messages as they may be kept, None for one of which nothing may be, and the digests of all of them.

    The first is the rest of a message if the part is `begun`, the last only the beginning if it `goes_on`.
    """

    window: tuple[Utterance | None, ...]
    digests: bytes
    begun: bool = False
    goes_on: bool = False

    @property
    def size(self) -> int:
        """Estimated bytes in memory and on disk."""
        said = (len(each.text.encode()) + 64 for each in self.window if each is not None)
        return 512 + sum(said) + len(self.digests)


class _Slot(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row: a part of a capture, or of how many slices a capture that is done consists."""

    part: CapturePart | None = None
    slices: int = 0


class CaptureParts(Rows[_Slot]):
    """One for the daemon, by a capture's id and the number of a part, or a capture's id alone.

    `bytes` is what all parts take. `clock` gives Unix seconds.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(
            database,
            "parts",
            _Slot,
            durable=True,
            keep_s=KEPT_S,
            weigh=lambda slot: slot.part.size if slot.part is not None else 0,
            clock=clock,
        )

    def _replace(self, rows: Mapping[str, CachedRow[_Slot]]) -> None:
        self._numbers: dict[str, set[int]] = {}  # of the parts that are there
        super()._replace(rows)

    def _apply(self, rows: Mapping[str, CachedRow[_Slot] | None], *, renew: bool = True) -> None:
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

    def done(self, event_id: str) -> int | None:
        """In how many slices a capture is judged, None if it is not known to be there whole."""
        kept = self._kept.get(event_id)
        return None if kept is None else kept.value.slices

    def of(self, event_id: str) -> dict[int, CapturePart]:
        """The parts of a capture that are there, by their numbers."""
        numbers = sorted(self._numbers.get(event_id, ()))
        slots = ((number, self.get(f"{event_id}/{number}")) for number in numbers)
        return {number: slot.part for number, slot in slots if slot is not None and slot.part is not None}

    async def put(self, event_id: str, number: int, part: CapturePart) -> None:
        """Keep a part, which may be there already. Raises StoreError."""
        await self.store({f"{event_id}/{number}": _Slot(part)}, renew=False)

    async def cut(self, unwanted: Sequence[Words]) -> CutCount:
        """Take sentences that hold an unwanted text out of all parts; what was done. Raises StoreError."""
        done, left = CutCount(), dict[str, _Slot]()
        for key, slot in self.items():
            if slot.part is not None and (found := _without(slot.part, unwanted))[1]:
                done += CutCount(found[1], 1)
                left[key] = _Slot(found[0])
        await self.store(left, renew=False)
        return done

    def finishing(self, event_id: str, slices: int, *, at_once: bool = False) -> Change:
        """Return what takes a capture's parts out and notes that it is done; `at_once` in memory, too."""
        parts = (f"{event_id}/{number}" for number in self._numbers.get(event_id, ()))
        rows: dict[str, _Slot | None] = dict.fromkeys(parts)
        rows[event_id] = _Slot(slices=slices)
        change = self.change(rows)
        if at_once:
            change.apply()
        return change


def _without(part: CapturePart, unwanted: Sequence[Words]) -> tuple[CapturePart, int]:
    """A part without some sentences, and how many these were; its messages keep their places."""
    window: list[Utterance | None] = []
    sentences = 0
    for each in part.window:
        text, count = ("", 0) if each is None else without_sentences(each.text, unwanted)
        window.append(Utterance(each.role, text) if each is not None and text.strip() else None)
        sentences += count
    return msgspec.structs.replace(part, window=tuple(window)), sentences
