"""What each session of each agent has heard, and how many heard a memory because it was searched for.

A `HeardList` holds ids and versions and no text. Both are answered from memory and written now and then, as
spending is: with the last five seconds a session may lose what it knows, and then hears it once more. The
sessions that were not asked for longest go where there are too many, and so do memories that were counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from forged.state import tables
from forged.state.database import Damaged, Database
from forged.state.soft_rows import SoftRows

if TYPE_CHECKING:
    from sqlite3 import Connection

SESSIONS, MOST_ENTRIES, COUNTED = 256, 512, 8192


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Whose list it is: an agent's session, as it sees these roots."""

    agent: str
    session_id: str
    tops: tuple[str, ...]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One memory that was heard, as it was: its root, id, version, and what tells its text from another.

    `mark` says why it stands beside others, `of` is the id that the mark is about: it `replaces` that one, or
    stands `beside` it. `standing`: it came with the session. `stale`: what it stands on had changed.
    """

    root: str
    id: str
    version: int
    digest: bytes
    mark: str = ""
    of: str = ""
    standing: bool = False
    stale: bool = False


class HeardList(msgspec.Struct, frozen=True):
    """What one session has heard since its context began, in that order.

    `token` marks its blocks. `began` is Unix seconds, `summary` where its newest summary ended, `window` how
    many bytes were said since then as the list began, `turns` how many there were. `stood`: the memories that
    come with a session have come. `compacts`: its harness tells when it compacts.
    """

    token: str
    began: float
    summary: int = 0
    window: int = 0
    turns: int = 0
    stood: bool = False
    compacts: bool = False
    entries: tuple[Entry, ...] = ()


Row = tuple[Place, HeardList]
Count = tuple[str, int]
_place, _list = msgspec.json.Decoder(Place), msgspec.msgpack.Decoder(HeardList)


class Told:
    """One for the daemon; lives in its event loop."""

    def __init__(self, database: Database) -> None:
        self._lists: OrderedDict[Place, HeardList] = OrderedDict()
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._rows = SoftRows(database, "told", "what sessions have heard is")
        self._count_rows = SoftRows(database, "uses", "what is used is")

    def restore(self, lists: Iterable[Row], counts: Iterable[Count]) -> None:
        """Take over what a file holds, as it is opened; what was heard by then is newer."""
        for place, known in sorted(lists, key=lambda each: each[1].began):
            self._lists.setdefault(place, known)
        for memory, count in counts:
            self._counts.setdefault(memory, count)

    def of(self, place: Place) -> HeardList | None:
        return self._lists.get(place)

    def put(self, place: Place, heard: HeardList) -> None:
        """Let this be what the session has heard."""
        if len(heard.entries) > MOST_ENTRIES:
            heard = msgspec.structs.replace(heard, entries=heard.entries[-MOST_ENTRIES:])
        self._lists[place] = heard
        self._lists.move_to_end(place)
        while len(self._lists) > SESSIONS:
            self._lists.popitem(last=False)

    def places(self, session_id: str) -> tuple[Place, ...]:
        """The lists of a session, whichever agent's."""
        return tuple(place for place in self._lists if place.session_id == session_id)

    def drop(self, place: Place) -> None:
        self._lists.pop(place, None)

    def uses(self, root: str, memory_id: str) -> int:
        """How many sessions heard this memory because it was searched for."""
        return self._counts.get(f"{memory_id} {root}", 0)

    def used(self, root: str, memory_id: str) -> None:
        """One more session did."""
        key = f"{memory_id} {root}"
        self._counts[key] = self._counts.pop(key, 0) + 1
        while len(self._counts) > COUNTED:
            self._counts.popitem(last=False)

    async def save(self) -> None:
        """Write what has changed since the last time. Raises nothing; what fails is written later."""
        rows = (
            (msgspec.json.encode(place).decode(), msgspec.msgpack.encode(heard))
            for place, heard in self._lists.items()
        )
        await self._rows.save(tuple(rows))
        await self._count_rows.save(tuple(self._counts.items()))


def all_told(connection: Connection) -> tuple[Row, ...]:
    """All lists. Raises Damaged."""
    try:
        return tuple(
            (_place.decode(str(key)), _list.decode(heard if isinstance(heard, bytes) else b""))
            for key, heard in tables.rows(connection, "told")
        )
    except msgspec.DecodeError as error:
        raise Damaged(f"what a session has heard cannot be read: {error}") from error


def all_uses(connection: Connection) -> tuple[Count, ...]:
    """All counts. Raises Damaged."""
    rows = tables.rows(connection, "uses")
    return tuple((str(key), count if isinstance(count, int) else 0) for key, count in rows)
