"""Last common state of this machine and a team's server, memory by memory.

It tells a file that was removed here from one that is new there, and which side has changed a file. A forget
is marked here durably before the file goes. So neither a kill nor an unreachable server turns it into a file
that is merely missing. Holds ids, hashes and times, never text. Answers from memory.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from forged.errors import StoreError
from forged.files import Root
from forged.memory import Scope
from forged.state.database import Database, Table

if TYPE_CHECKING:
    from sqlite3 import Connection

MarkKind = Literal["chain", "version", "restored"]
_KEPT_DIFFERENCE_S = 0.1
Owner = tuple[str, str]
"""A scope and the id of its owner."""


DOCUMENTS: Owner = (Scope.ORG, "")
"""Owner of all documents, whose records have ids of documents."""


class SharedOwners(msgspec.Struct, frozen=True):
    """Owners of this machine's roots on a team's server: the user, and the user's or the team's agents."""

    user_id: str = ""
    team_agents: frozenset[str] = frozenset()

    @staticmethod
    def agent_of(owner: str) -> str:
        """Return the name of the agent that an owner of agent rows has on its machines."""
        return owner.rpartition("/")[2]

    @staticmethod
    def is_of_team(owner: Owner) -> bool:
        """Return True for the rows of an agent that the team has in common."""
        return owner[0] == Scope.AGENT and "/" not in owner[1]

    def of_agent(self, name: str) -> str:
        """Return the owner of an agent's rows: USER/AGENT, or AGENT for one of the team."""
        return name if name in self.team_agents else f"{self.user_id}/{name}"

    def of(self, root: Root) -> Owner:
        """Return the owner of a root's rows."""
        if root.scope is Scope.AGENT:
            return root.scope, self.of_agent(os.path.basename(root.top))
        return root.scope, self.user_id if root.scope is Scope.USER else ""


class RemovalMark(msgspec.Struct, frozen=True):
    """A decision to forget or restore a memory, `at` Unix microseconds; the later of two decisions holds.

    `version`: it was forgotten. `chain`: all versions that replaced it by then, too. `restored`: undone.
    """

    at: int
    kind: MarkKind

    @property
    def is_dead(self) -> bool:
        """Return True if the memory was forgotten."""
        return self.kind != "restored"

    @property
    def rank(self) -> tuple[int, int]:
        """Return the sort key of marks: the later holds; of one moment, the one that removes more."""
        return self.at, ("restored", "version", "chain").index(self.kind)


class Replica(msgspec.Struct, frozen=True, omit_defaults=True):
    """A memory on both sides: the hash of its file when they last agreed, "" if never; and its mark.

    If `is_common` is false, this file was here and the server may have another one. It was sent without an
    answer, or it was forgotten and restored elsewhere, which may bring back an older file.
    """

    sha256: str = ""
    mark: RemovalMark | None = None
    is_common: bool = True


NEVER_MET = Replica()


class OwnRemovalMarks:
    """Records removals and restores of memories that have met a team's server, for the other machines.

    It needs no server: what is marked now is sent when there is one again.
    """

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._owners, self._scopes = SharedOwners(), frozenset[str]()

    def share(self, owners: SharedOwners, scopes: Collection[str]) -> None:
        """Take the owners of this run, and the scopes that it shares with a server."""
        self._owners, self._scopes = owners, frozenset(scopes)

    async def gone(self, root: Root, ids: Collection[str], *, whole: bool) -> None:
        """Mark memories of a root as removed, `whole` with their chains, for each owner that shared them."""
        for owner, meant in self._meant(root, ids):
            # Later versions of an agent of the team may be another user's.
            await self._replicas.mark(
                owner, meant, "chain" if whole and not SharedOwners.is_of_team(owner) else "version"
            )

    async def back(self, root: Root, ids: Collection[str]) -> None:
        """Mark memories of a root as restored, for each owner that shared them."""
        for owner, meant in self._meant(root, ids):
            await self._replicas.mark(owner, meant, "restored")

    def _meant(self, root: Root, ids: Collection[str]) -> Iterator[tuple[Owner, list[str]]]:
        """Yield each owner of a root with those of its memories that met a server, or may do so."""
        if root.scope not in {Scope.USER, Scope.AGENT}:
            return
        now = self._owners.of(root) if root.scope in self._scopes else None
        for owner in dict.fromkeys([*([now] if now else []), *self._replicas.owners_of(root)]):
            known = self._replicas.of(owner)
            if meant := [each for each in ids if owner == now or each in known]:
                yield owner, meant


class ServerClock:
    """Time by the clock of a team's server, by its offset from this machine's at the last connection.

    Machines whose clocks differ so agree which of two decisions is later, offline too.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        """Register the table in `database`; `clock` gives this machine's time in Unix seconds."""
        self._table = Table(database, "server_clock", float, load=self._load)
        self._clock = clock
        self._offset_s: float | None = None

    def _load(self, connection: Connection) -> Callable[[], object]:
        """Read the last offset; return a function that takes it over unless a newer one is known."""
        kept = self._table.read(connection, "offset")

        def restore() -> None:
            self._offset_s = kept if self._offset_s is None else self._offset_s

        return restore

    @property
    def offset_s(self) -> float:
        """Return the seconds by which the server's clock is ahead of this machine's, 0 if unknown."""
        return self._offset_s or 0.0

    @property
    def offset_us(self) -> int:
        """Return the offset in microseconds."""
        return round(self.offset_s * 1e6)

    def now(self) -> float:
        """Return the server's time in Unix seconds."""
        return self._clock() + self.offset_s

    async def set(self, offset_s: float) -> None:
        """Take a measured offset, and keep it if it differs from the last one by a tenth of a second."""
        kept, self._offset_s = self._offset_s, offset_s
        if kept is None or abs(kept - offset_s) > _KEPT_DIFFERENCE_S:
            change = self._table.change({"offset": offset_s})
            await self._table.database.commit(change, durable=False)


class Replicas:
    """Table of memories shared with a team's server, by owner: last common hashes, and marks of removals."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        """Register the table in `database`; `clock` gives Unix seconds."""
        self._table = Table(database, "replicas", Replica, load=self._load)
        self._clock = clock
        self._known: defaultdict[Owner, dict[str, Replica]] = defaultdict(dict)
        self.marked: Callable[[], object] = lambda: None  # called after each decision

    def _load(self, connection: Connection) -> Callable[[], object]:
        """Read all replicas; return a function that takes them over."""
        rows = list(self._table.read_all(connection))
        return lambda: self.restore((row.key, row.value) for row in rows)

    def restore(self, rows: Iterable[tuple[str, Replica]]) -> None:
        """Take over the replicas of the file at open; those in memory are newer."""
        for key, known in rows:
            scope, owner, memory_id = key.split("\n", 2)
            self._known[scope, owner].setdefault(memory_id, known)

    def owners_of(self, root: Root) -> Iterator[Owner]:
        """Yield the owners under which memories of a root have met a server, now or in an earlier run."""
        for scope, owner in tuple(self._known):
            is_named = root.scope is not Scope.AGENT or SharedOwners.agent_of(owner) == os.path.basename(
                root.top
            )
            if scope == root.scope and is_named:
                yield scope, owner

    @property
    def has_met(self) -> bool:
        """Return True if a memory or document of this machine has met a server."""
        return any(self._known.values())

    def agents(self) -> frozenset[str]:
        """Return the owners of agent rows that have met a server."""
        return frozenset(owner for scope, owner in self._known if scope == Scope.AGENT)

    def of(self, owner: Owner) -> Mapping[str, Replica]:
        """Return the replicas of the memories of one owner, by memory id."""
        return self._known.get(owner, {})

    async def record_common(self, owner: Owner, hashes: Mapping[str, str]) -> None:
        """Record that both sides have files with these hashes. A loss in a power cut is found out again."""
        await self._note(owner, hashes, is_common=True)

    async def record_sent(self, owner: Owner, hashes: Mapping[str, str]) -> None:
        """Record hashes of files about to be sent; the server may get them, or have other ones."""
        await self._note(owner, hashes, is_common=False)

    async def _note(self, owner: Owner, hashes: Mapping[str, str], *, is_common: bool) -> None:
        """Record hashes of files for an owner, which a power cut may undo; their marks stay."""
        before = self._known[owner]
        changed = {
            each: Replica(hash_, before.get(each, NEVER_MET).mark, is_common)
            for each, hash_ in hashes.items()
        }
        await self._put(owner, changed, durable=False)

    async def drop(self, owner: Owner, ids: Collection[str]) -> None:
        """Drop the records of memories that neither side has any more. Raises StoreError."""
        gone = [each for each in ids if self._known.get(owner, {}).pop(each, None) is not None]
        if gone:
            keys = ["\n".join((*owner, each)) for each in gone]
            await self._table.database.run(lambda connection: self._table.erase(connection, *keys))

    async def merge_marks(self, owner: Owner, marks: Mapping[str, RemovalMark]) -> None:
        """Merge removal marks of other machines, or derived ones; the later mark of each memory holds."""
        before = self._known[owner]
        newer = {each: mark for each, mark in marks.items() if is_newer(mark, before.get(each))}
        await self._put(owner, {each: _replica_with(before.get(each), mark) for each, mark in newer.items()})

    async def mark(self, owner: Owner, ids: Iterable[str], kind: MarkKind) -> None:
        """Record that memories are forgotten or restored now; it holds against all earlier decisions.

        Memories in that state already stay unchanged. Raises StoreError.
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
        """Apply replicas of an owner in memory at once and write them; undo it if that fails."""
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
        """Write replicas of an owner's memories in a transaction."""
        for memory_id, known in rows.items():
            self._table.write(connection, "\n".join((*owner, memory_id)), known)


def is_newer(mark: RemovalMark, known: Replica | None) -> bool:
    """Return True if a mark overrides the known one: none, older, or as old and removing less."""
    return known is None or known.mark is None or mark.rank > known.mark.rank


def _replica_with(known: Replica | None, mark: RemovalMark) -> Replica:
    """Return a replica with a new mark; a forgotten memory loses the hash of its common file."""
    return Replica("" if known is None or mark.is_dead else known.sha256, mark, is_common=False)
