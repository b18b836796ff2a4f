"""Captures that come in numbered parts, until all parts are there, and which captures are done.

A part is on disk before it is answered, so a sender goes on after a kill where it was. When all parts are
there, they are taken out in the transaction that stores the events they come to, and the id is kept for a
day: what is sent again is known then, also to another daemon. What its sender gave up goes after a day.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from forged.conversation import Utterance
from forged.errors import StoreError
from forged.state import tables
from forged.state.cutting import Cut
from forged.state.database import Damaged, Database
from forged.text.forgetting import Words, without_sentences

if TYPE_CHECKING:
    from sqlite3 import Connection

KEPT_S = 24 * 3600


class Part(msgspec.Struct, frozen=True):
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


_PART = msgspec.msgpack.Decoder(Part)
# A capture's id with the number of a part, or alone; when; the part, or of how many slices it consists.
Row = tuple[str, int, Part | int]


class Parts:
    """One for the daemon; lives in its event loop."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives Unix seconds."""
        self._database = database
        self._clock = clock
        self._parts: dict[str, dict[int, Part]] = {}
        self._begun_at: dict[str, int] = {}  # oldest first
        self._done: dict[str, tuple[int, int]] = {}  # when, and in how many slices; oldest first
        self.bytes = 0

    def restore(self, rows: Iterable[Row]) -> None:
        """Take over what a file holds, as it is opened."""
        for key, at, said in sorted(rows, key=lambda row: row[1]):
            event_id, _, number = key.partition("/")
            if isinstance(said, int):
                self._done[event_id] = at, said
            else:
                self._keep(event_id, int(number), said, at)

    def done(self, event_id: str) -> int | None:
        """In how many slices a capture is judged, None if it is not known to be there whole."""
        found = self._done.get(event_id)
        return None if found is None else found[1]

    def of(self, event_id: str) -> dict[int, Part]:
        """The parts of a capture that are there, by their numbers."""
        return dict(self._parts.get(event_id, {}))

    async def put(self, event_id: str, number: int, part: Part) -> None:
        """Keep a part, which may be there already. Raises StoreError."""
        now = int(self._clock())
        try:
            data = msgspec.msgpack.encode(part)
        except UnicodeEncodeError as error:
            raise StoreError("it holds text that is not Unicode") from error
        gone = self._too_old(now - KEPT_S)
        await self._database.run(partial(_put, f"{event_id}/{number}", now, data, gone))
        self._keep(event_id, number, part, now)

    def _keep(self, event_id: str, number: int, part: Part, at: int) -> None:
        self._begun_at.setdefault(event_id, at)
        others = self._parts.setdefault(event_id, {})
        self.bytes += part.size - (others[number].size if number in others else 0)
        others[number] = part

    async def cut(self, unwanted: Sequence[Words]) -> Cut:
        """Take sentences that hold an unwanted text out of all parts; what was done. Raises StoreError."""
        done = Cut()
        for event_id, parts in list(self._parts.items()):
            for number, part in list(parts.items()):
                left, sentences = _without(part, unwanted)
                if sentences:
                    done += Cut(sentences, 1)
                    self._keep(event_id, number, left, self._begun_at[event_id])
                    row = (f"{event_id}/{number}", self._begun_at[event_id], msgspec.msgpack.encode(left))
                    await self._database.run(partial(_put, *row, ()))
        return done

    def _too_old(self, before: int) -> tuple[str, ...]:
        """Forget what is older, and return its keys."""
        given_up = [event_id for event_id, at in self._begun_at.items() if at < before]
        gone = [f"{event_id}/{number}" for event_id in given_up for number in self._parts[event_id]]
        for event_id in given_up:
            self.forget(event_id)
        done = [event_id for event_id, (at, _) in self._done.items() if at < before]
        for event_id in done:
            del self._done[event_id]
        return (*gone, *done)

    def forget(self, event_id: str) -> None:
        """Keep no part of a capture in memory."""
        self._begun_at.pop(event_id, None)
        self.bytes -= sum(part.size for part in self._parts.pop(event_id, {}).values())

    def finishing(self, event_id: str, slices: int) -> Callable[[Connection], None]:
        """What takes a capture's parts out and notes that it is done; `finished` says that it was."""
        now = int(self._clock())
        gone = (*(f"{event_id}/{number}" for number in self.of(event_id)), *self._too_old(now - KEPT_S))
        return partial(_finish, event_id, now, slices, gone)

    def finished(self, event_id: str, slices: int) -> None:
        """A capture is done, and in memory no part of it is kept."""
        self.forget(event_id)
        self._done[event_id] = int(self._clock()), slices


def _without(part: Part, unwanted: Sequence[Words]) -> tuple[Part, int]:
    """A part without some sentences, and how many these were; its messages keep their places."""
    window: list[Utterance | None] = []
    sentences = 0
    for each in part.window:
        text, count = ("", 0) if each is None else without_sentences(each.text, unwanted)
        window.append(Utterance(each.role, text) if each is not None and text.strip() else None)
        sentences += count
    return msgspec.structs.replace(part, window=tuple(window)), sentences


def all_parts(connection: Connection) -> tuple[Row, ...]:
    """All rows. Raises Damaged."""
    return tuple(map(_row, tables.rows(connection, "parts")))


def _row(row: tables.Columns) -> Row:
    key, at, said = row
    try:
        assert isinstance(at, int)
        return (
            str(key),
            at,
            said if isinstance(said, int) else _PART.decode(said if isinstance(said, bytes) else b""),
        )
    except (AssertionError, msgspec.DecodeError) as error:
        raise Damaged(f"a part of a capture cannot be read: {error}") from error


def _put(key: str, at: int, data: bytes, gone: Iterable[str], connection: Connection) -> None:
    _remove(gone, connection)
    tables.put(connection, "parts", key, at, data)


def _finish(event_id: str, at: int, slices: int, gone: Iterable[str], connection: Connection) -> None:
    _remove(gone, connection)
    tables.put(connection, "parts", event_id, at, slices)


def _remove(keys: Iterable[str], connection: Connection) -> None:
    for key in keys:
        tables.remove(connection, "parts", key)
