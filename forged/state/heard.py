"""How far each session has been heard: the digests of its messages in their order, and when they were heard.

What is known of a session is a Watermark, in memory; `changed` are those that the file does not have yet, and
`writing` puts them there within a transaction that also stores the messages themselves: what counts as heard
is never less durable than what was said. Bounded: of a session the newest messages are known, and of all
sessions those that were heard last; what is known no more is heard once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from forged.state import tables
from forged.state.database import Damaged

if TYPE_CHECKING:
    from sqlite3 import Connection

DIGEST_BYTES = 8
MOST_MESSAGES, MOST_SESSIONS, MOST_BYTES = 1 << 15, 1024, 8 << 20

# How many messages were first heard at a time, in Unix seconds; 0: nobody knows when.
Run = tuple[int, float]
_RUNS = msgspec.msgpack.Decoder(tuple[Run, ...])


class Watermark(msgspec.Struct, frozen=True):
    """The digests of what a session has said, one after the other, and runs of messages heard together."""

    digests: bytes = b""
    runs: tuple[Run, ...] = ()

    @property
    def times(self) -> tuple[float, ...]:
        """When each message was first heard."""
        return tuple(at for count, at in self.runs for _ in range(count))

    @property
    def heard_last(self) -> float:
        return max((at for _, at in self.runs), default=0.0)

    def grown(self, digests: bytes, at: float) -> Watermark:
        """With messages that were heard now; of too many the newest are left."""
        if not digests:
            return self
        runs = [*self.runs, (len(digests) // DIGEST_BYTES, at)]
        too_many = (len(self.digests) + len(digests)) // DIGEST_BYTES - MOST_MESSAGES
        while too_many > 0:
            count, first = runs.pop(0)
            if count > too_many:
                runs.insert(0, (count - too_many, first))
            too_many -= count
        return Watermark((self.digests + digests)[-MOST_MESSAGES * DIGEST_BYTES :], tuple(runs))


NOTHING = Watermark()


class Heard:
    """One for the daemon; lives in its event loop."""

    def __init__(self) -> None:
        self._known: dict[str, Watermark] = {}  # in the order in which sessions were heard last
        self._bytes = 0
        self.changed = frozenset[str]()

    def restore(self, known: Iterable[tuple[str, Watermark]]) -> None:
        """Take over what a file holds, as it is opened."""
        for session, watermark in sorted(known, key=lambda each: each[1].heard_last):
            self._set(session, watermark)

    def of(self, session: str) -> Watermark:
        return self._known.get(session, NOTHING)

    def all(self) -> tuple[tuple[str, Watermark], ...]:
        """All sessions that are known."""
        return tuple(self._known.items())

    def set(self, session: str, watermark: Watermark) -> None:
        """Let this be known; sessions that were not heard for longest go where there are too many."""
        self._set(session, watermark)
        self.changed |= {session}
        while len(self._known) > MOST_SESSIONS or self._bytes > MOST_BYTES:
            oldest = next(iter(self._known))
            self._bytes -= len(self._known.pop(oldest).digests)
            self.changed |= {oldest}

    def _set(self, session: str, watermark: Watermark) -> None:
        self._bytes += len(watermark.digests) - len(self.of(session).digests)
        self._known.pop(session, None)
        self._known[session] = watermark

    def writing(self) -> Callable[[Connection], None]:
        """What writes all changes; they count as written, so who cannot write them says `unwritten`."""
        rows = {session: self._known.get(session) for session in self.changed}
        self.changed = frozenset()

        def write(connection: Connection) -> None:
            for session, mark in rows.items():
                if mark is None:
                    tables.remove(connection, "heard", session)
                else:
                    tables.put(connection, "heard", session, mark.digests, msgspec.msgpack.encode(mark.runs))

        return write

    def unwritten(self, sessions: frozenset[str]) -> None:
        """These are to be written after all."""
        self.changed |= sessions


def all_heard(connection: Connection) -> tuple[tuple[str, Watermark], ...]:
    """All rows. Raises Damaged."""
    return tuple(map(_heard, tables.rows(connection, "heard")))


def _heard(row: tables.Columns) -> tuple[str, Watermark]:
    session, digests, runs = row
    try:
        assert isinstance(digests, bytes)
        assert isinstance(runs, bytes)
        return str(session), Watermark(digests, _RUNS.decode(runs))
    except (AssertionError, msgspec.DecodeError) as error:
        raise Damaged(f"what a session has said cannot be read: {error}") from error
