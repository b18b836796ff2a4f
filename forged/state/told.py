"""What each session of each agent has heard, and how many heard a memory because it was searched for.

A `HeardList` holds ids and versions and no text. Both are answered from memory and written now and then, as
spending is: with the last five seconds a session may lose what it knows, and then hears it once more. The
sessions that were not asked for longest go where there are too many, and so do memories that were counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from forged.state.database import Database
from forged.state.rows import MemoryRows, Rows, key_of

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


_place = msgspec.json.Decoder(Place)


class Told(Rows[HeardList]):
    """One for the daemon; `uses` counts the sessions by root and memory."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "told", HeardList, most=SESSIONS)
        self.uses = MemoryRows(database, "uses", int, most=COUNTED, merge=int.__add__)

    def of(self, place: Place) -> HeardList | None:
        return self.get(_name(place))

    def put(self, place: Place, heard: HeardList) -> None:
        """Let this be what the session has heard."""
        if len(heard.entries) > MOST_ENTRIES:
            heard = msgspec.structs.replace(heard, entries=heard.entries[-MOST_ENTRIES:])
        self.update({_name(place): heard})

    def places(self, session_id: str) -> tuple[Place, ...]:
        """The lists of a session, whichever agent's."""
        return tuple(place for place in map(_place.decode, self) if place.session_id == session_id)

    def drop(self, place: Place) -> None:
        self.update({_name(place): None})

    def used(self, root: str, memory_id: str) -> None:
        """One more session did."""
        self.uses.update({key_of(root, memory_id): (self.uses.of(root, memory_id) or 0) + 1})

    async def forget(self, root: str, memory_ids: Collection[str]) -> None:
        """Keep nothing of these memories of a root, in lists and counts; durably. Raises StoreError."""
        changed: dict[str, HeardList | None] = {}
        for name, heard in self.items():
            entries = tuple(_without(each, root, memory_ids) for each in heard.entries)
            left = tuple(each for each in entries if each is not None)
            if left != heard.entries:
                changed[name] = msgspec.structs.replace(heard, entries=left)
        lists = self.change(changed, renew=False)
        await self.database.commit(lists, self.uses.forgotten(root, memory_ids))

    async def moved(
        self, root: str, memory_ids: Collection[str], to_root: str, memory_id: str, version: int
    ) -> None:
        """Put what memories of a root became in the place of these in each list; durably.

        Raises StoreError.
        """
        changed: dict[str, HeardList | None] = {}
        for name, heard in self.items():
            entries = [
                msgspec.structs.replace(each, root=to_root, id=memory_id, version=version, mark="", of="")
                if each.root == root and each.id in memory_ids
                else _without(each, root, memory_ids) or each
                for each in heard.entries
            ]
            if tuple(entries) != heard.entries:
                newest = {(each.root, each.id): each for each in entries}
                changed[name] = msgspec.structs.replace(heard, entries=tuple(newest.values()))
        await self.store(changed, renew=False)

    def memories(self) -> Iterator[tuple[str, str]]:
        """Each memory of all lists, by root and id; some more than once."""
        return ((each.root, each.id) for heard in self.values() for each in heard.entries)


def _without(each: Entry, root: str, memory_ids: Collection[str]) -> Entry | None:
    """An entry that names none of these memories of a root; None if it is about one."""
    if each.root != root:
        return each
    if each.id in memory_ids:
        return None
    return msgspec.structs.replace(each, mark="", of="") if each.of in memory_ids else each


def _name(place: Place) -> str:
    return msgspec.json.encode(place).decode()
