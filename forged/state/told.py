"""What each session of each agent has heard, and how many heard a memory because it was searched for.

A `HeardList` holds ids and versions and no text. Both are answered from memory and written now and then, as
spending is: with the last five seconds a session may lose what it knows, and then hears it once more. The
sessions that were not asked for longest go where there are too many, and so do memories that were counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from forged.state import tables
from forged.state.database import Damaged, Database
from forged.state.soft_rows import ChangedRows

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
    stands `beside` it; `outdated` says nothing more than that of one that was heard. `standing`: it came with
    the session. `stale`: what it stands on had changed. `turn` names the turn that brought it.
    """

    root: str
    id: str
    version: int
    digest: bytes
    mark: str = ""
    of: str = ""
    standing: bool = False
    stale: bool = False
    turn: str = ""


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
        self._changed = ChangedRows(database, "told", "what sessions have heard is")
        self._counted = ChangedRows(database, "uses", "what is used is")

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
        self._changed.add(_name(place))
        while len(self._lists) > SESSIONS:
            self.drop(next(iter(self._lists)))

    def places(self, session_id: str) -> tuple[Place, ...]:
        """The lists of a session, whichever agent's."""
        return tuple(place for place in self._lists if place.session_id == session_id)

    def drop(self, place: Place) -> None:
        if self._lists.pop(place, None) is not None:
            self._changed.add(_name(place))

    def counts(self, root: str) -> Iterator[Count]:
        """The ids of a root of which a session heard because they were searched for, and how many did."""
        end = f" {root}"
        return ((key.removesuffix(end), count) for key, count in self._counts.items() if key.endswith(end))

    def count(self, root: str, memory_id: str) -> int:
        """How many did."""
        return self._counts.get(f"{memory_id} {root}", 0)

    def used(self, root: str, memory_id: str) -> None:
        """One more session did."""
        key = f"{memory_id} {root}"
        self._counts[key] = self._counts.pop(key, 0) + 1
        self._counted.add(key)
        while len(self._counts) > COUNTED:
            self._counted.add(self._counts.popitem(last=False)[0])

    async def forget(self, root: str, memory_ids: Collection[str]) -> None:
        """Keep nothing of these memories of a root, in lists and counts; durably. Raises StoreError."""
        for place, heard in tuple(self._lists.items()):
            entries = tuple(_without(each, root, memory_ids) for each in heard.entries)
            left = tuple(each for each in entries if each is not None)
            if left != heard.entries:
                self._lists[place] = msgspec.structs.replace(heard, entries=left)
                self._changed.add(_name(place))
        for key in (f"{each} {root}" for each in memory_ids):
            if self._counts.pop(key, None) is not None:
                self._counted.add(key)
        await self._changed.write(self._row)
        await self._counted.write(self._count_row)

    async def save(self) -> None:
        """Write what has changed since the last time. Raises nothing; what fails is written later."""
        await self._changed.save(self._row)
        await self._counted.save(self._count_row)

    def _count_row(self, key: str) -> tables.Columns | None:
        return (key, self._counts[key]) if key in self._counts else None

    def _row(self, name: str) -> tables.Columns | None:
        heard = self._lists.get(_place.decode(name))
        return None if heard is None else (name, msgspec.msgpack.encode(heard))


def _without(each: Entry, root: str, memory_ids: Collection[str]) -> Entry | None:
    """An entry that names none of these memories of a root; None if it is about one."""
    if each.root != root:
        return each
    if each.id in memory_ids:
        return None
    return msgspec.structs.replace(each, mark="", of="") if each.of in memory_ids else each


def _name(place: Place) -> str:
    return msgspec.json.encode(place).decode()


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
