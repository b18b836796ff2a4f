"""What this machine had in common with a team's server when they met last, memory by memory.

Without it nobody could tell a file that was removed here by hand from one that is new there, or which of two
sides has changed a file since. What somebody forgot here is marked before the file goes, durably: a kill
between, or a server that is away, must not turn it into a file that is merely not here. Ids, hashes and times
only, never text. Answered from memory.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from forged.errors import StoreError
from forged.state.database import Database, Table

if TYPE_CHECKING:
    from sqlite3 import Connection

MarkKind = Literal["chain", "version", "restored"]
Owner = tuple[str, str]
"""A scope, and whose memories of it are meant."""


class RemovalMark(msgspec.Struct, frozen=True):
    """What somebody decided about a memory: `at` is Unix microseconds; of two decisions the later one holds.

    `version`: it was forgotten; `chain`: so was all that replaced it by then; `restored`: neither any more.
    """

    at: int
    kind: MarkKind

    @property
    def is_dead(self) -> bool:
        return self.kind != "restored"

    @property
    def rank(self) -> tuple[int, int]:
        """Of two marks the greater holds; of one moment, the one that takes more away."""
        return self.at, ("restored", "version", "chain").index(self.kind)


class Replica(msgspec.Struct, frozen=True, omit_defaults=True):
    """One memory: the hash of its file when both sides had the same, "" if they never had; and its mark.

    Where `is_common` is false this file was here, and the server may have had another one: it was sent and no
    answer came, or it was forgotten and restored elsewhere, which may bring back an older file.
    """

    sha256: str = ""
    mark: RemovalMark | None = None
    is_common: bool = True


NEVER_MET = Replica()


class Replicas:
    """One for the daemon."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives Unix seconds."""
        self._table = Table(database, "replicas", Replica, load=self._load)
        self._clock = clock
        self._known: defaultdict[Owner, dict[str, Replica]] = defaultdict(dict)
        self.marked: Callable[[], object] = lambda: None  # called when somebody has decided something

    def _load(self, connection: Connection) -> Callable[[], object]:
        rows = list(self._table.read_all(connection))
        return lambda: self.restore((row.key, row.value) for row in rows)

    def restore(self, rows: Iterable[tuple[str, Replica]]) -> None:
        """Take over what a file holds, as it is opened."""
        for key, known in rows:
            scope, owner, memory_id = key.split("\n", 2)
            self._known[scope, owner].setdefault(memory_id, known)

    def of(self, owner: Owner) -> Mapping[str, Replica]:
        """All that is known of one owner's memories, by id."""
        return self._known[owner]

    async def met(self, owner: Owner, hashes: Mapping[str, str]) -> None:
        """Both sides have files with these hashes now. What a power cut loses of that is found out again."""
        await self._note(owner, hashes, is_common=True)

    async def sent(self, owner: Owner, hashes: Mapping[str, str]) -> None:
        """The server will get files with these hashes now, where it has none."""
        await self._note(owner, hashes, is_common=False)

    async def _note(self, owner: Owner, hashes: Mapping[str, str], *, is_common: bool) -> None:
        before = self._known[owner]
        changed = {
            each: Replica(hash_, before.get(each, NEVER_MET).mark, is_common)
            for each, hash_ in hashes.items()
        }
        await self._put(owner, changed, durable=False)

    async def learn(self, owner: Owner, marks: Mapping[str, RemovalMark]) -> None:
        """Marks that others made, or that follow from others; the later one of each memory holds."""
        before = self._known[owner]
        newer = {each: mark for each, mark in marks.items() if is_newer(mark, before.get(each))}
        await self._put(owner, {each: _marked(before.get(each), mark) for each, mark in newer.items()})

    async def mark(self, owner: Owner, ids: Iterable[str], kind: MarkKind) -> None:
        """Somebody decides this now about these memories: it holds against all that was decided before.

        What is so already stays as it is. Raises StoreError.
        """
        before, now = self._known[owner], int(self._clock() * 1e6)
        changed = {}
        for each in ids:
            mark = before.get(each, NEVER_MET).mark
            if (mark is not None and mark.is_dead) == (kind != "restored"):
                continue
            at = now if mark is None else max(now, mark.at + 1)
            changed[each] = Replica("", RemovalMark(at, kind))
        await self._put(owner, changed)
        self.marked()

    async def _put(self, owner: Owner, changed: Mapping[str, Replica], *, durable: bool = True) -> None:
        """In force at once, so that nobody decides by what was before; taken back if it cannot be written."""
        known = self._known[owner]
        rows = {each: row for each, row in changed.items() if known.get(each) != row}
        before = {each: known.get(each, NEVER_MET) for each in rows}
        known.update(rows)
        try:
            if rows:
                await self._table.database.run(partial(self._write, owner, rows), durable=durable)
        except StoreError:
            known.update({each: before[each] for each in rows if known[each] == rows[each]})
            raise

    def _write(self, owner: Owner, rows: Mapping[str, Replica], connection: Connection) -> None:
        for memory_id, known in rows.items():
            self._table.write(connection, "\n".join((*owner, memory_id)), known)


def is_newer(mark: RemovalMark, known: Replica | None) -> bool:
    """Whether a mark holds against what is known."""
    return known is None or known.mark is None or mark.rank > known.mark.rank


def _marked(known: Replica | None, mark: RemovalMark) -> Replica:
    """What is forgotten is new to whoever gets it back."""
    return Replica("" if known is None or mark.is_dead else known.sha256, mark, is_common=False)
