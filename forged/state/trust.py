"""Whom a person trusts, and what this daemon has written itself: what of a repository's memories counts.

A root is known by the `identity` that `forged.trust` makes of its directory, never by the bytes of a
repository. Until the state was read, and after damage until a person has decided, nobody is trusted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from forged.state.database import Database, Row, Table, WriteOnly
from forged.state.pauses import Pauses
from forged.state.rows import CachedRow, MemoryRows, Rows, key_of

if TYPE_CHECKING:
    from sqlite3 import Connection


_AT_ONCE = 1000
MOST_OWN = 1 << 17


class OwnFile(msgspec.Struct, frozen=True):
    """A memory file that this daemon wrote: the SHA-256 of its bytes, in hex, and where its text came from.

    `insisted`: it holds what looks like a secret, and a person wanted it so.
    """

    id: str
    sha256: str
    origin: str = ""
    insisted: bool = False


class RootRecord(msgspec.Struct, frozen=True):
    """What is known of one root at one path. `trusted_at` is empty unless it is trusted.

    `mode` is follow or locked; `branch` the full name of the branch that was checked out when it was trusted.
    """

    top: str
    identity: str
    first_seen: str
    born_empty: bool
    trusted_at: str = ""
    mode: str = ""
    branch: str = ""

    @property
    def key(self) -> str:
        return f"{self.identity} {self.top}"


class TrustFindings(msgspec.Struct, frozen=True):
    """Findings of a look at a root: hashes that count from now on, and hashes of files that git brought.

    `root` is what was on record of the root, or its first record.
    """

    root: RootRecord
    accepted: frozenset[str] = frozenset()
    brought: frozenset[str] = frozenset()


class TrustRecords:
    """The records, answered from memory; what changes them is durable on return, or raises StoreError.

    While the pauses are in doubt nobody is trusted.
    """

    def __init__(self, database: Database, pauses: Pauses) -> None:
        self._database, self._pauses = database, pauses
        self._hashes: dict[str, set[str]] = {}
        self._brought: dict[str, set[str]] = {}
        self._roots = Rows(database, "roots", RootRecord, durable=True, is_copied=True)
        self.own_files = OwnFiles(database, self._hashes)
        self._approvals = Table(database, "approvals", bool, is_copied=True, load=self._load)
        self._git_brought = Table(database, "brought", bool, is_copied=True)
        self.decisions = 0  # how often a person, or what was read, changed what counts

    def _load(self, connection: Connection) -> Callable[[], object]:
        approved = [_pair(row.key) for row in self._approvals.read_all(connection)]
        brought = [_pair(row.key) for row in self._git_brought.read_all(connection)]

        def restore() -> None:
            self.decisions += 1
            for identity, sha256 in approved:
                self._hashes.setdefault(identity, set()).add(sha256)
            for identity, sha256 in brought:
                self._brought.setdefault(identity, set()).add(sha256)

        return restore

    @property
    def doubt(self) -> str:
        """Why nobody knows for sure what a person has said, or nothing."""
        return self._pauses.doubt

    def roots(self, top: str = "") -> tuple[RootRecord, ...]:
        """Every root on record, or those that are or were at one path."""
        if self._pauses.doubt:
            return ()
        return tuple([each for each in self._roots.values() if each.top == top or not top])

    def own(self, identity: str) -> Mapping[str, OwnFile]:
        """What this daemon wrote into a root, by id. May be asked in any thread."""
        return {} if self._pauses.doubt else self.own_files.of_root(identity)

    def hashes(self, identity: str) -> set[str] | frozenset[str]:
        """Of files in a root that this daemon wrote or a person accepted, or that came in a way they trust.

        It changes; may be asked in any thread.
        """
        return frozenset() if self._pauses.doubt else self._hashes.get(identity, frozenset())

    def brought(self, identity: str) -> set[str] | frozenset[str]:
        """Hashes of files that git brought into a root, though it may have pruned them since.

        It changes; may be asked in any thread.
        """
        return frozenset() if self._pauses.doubt else self._brought.get(identity, frozenset())

    def note(self, found: TrustFindings) -> bool:
        """Put what a look found out on record, durably on return, unless the root is another one by then.

        For threads: the caller waits for the disk. Raises StoreError, and not all of it is on record then.
        """
        return all(self._noted(part) for part in _parts(found))

    def _noted(self, found: TrustFindings) -> bool:
        done: Future[bool] = Future()

        def serve() -> None:
            try:
                is_noted = self._database.change(partial(self._note, found))
            except BaseException as error:
                done.set_exception(error)
                raise
            if is_noted:  # here, as what a person says is in force after its own transaction
                self._roots.hold({found.root.key: found.root})
                self._hashes.setdefault(found.root.identity, set()).update(found.accepted)
                self._brought.setdefault(found.root.identity, set()).update(found.brought)
                self.decisions += 1
            done.set_result(is_noted)

        self._database.submit(serve)
        return done.result()

    async def put_root(self, record: RootRecord, accepted: Collection[str] = ()) -> None:
        """Put a root on record, and accept files of it with these hashes: both or neither."""
        approved = self._approvals.change({f"{record.identity} {each}": True for each in accepted})
        await self._database.commit(self._roots.change({record.key: record}), approved)
        self._hashes.setdefault(record.identity, set()).update(accepted)
        self.decisions += 1

    async def put_own(self, identity: str, files: Sequence[OwnFile]) -> None:
        await self.own_files.store({key_of(identity, each.id): each for each in files})

    async def disown(self, identities: Collection[str], memory_ids: Collection[str]) -> None:
        """Keep nothing of the files that this daemon wrote for these memories: neither row nor accepted hash.

        Raises StoreError.
        """
        gone = [
            (each, file) for each in identities for file in self.own_files.trashed(each, memory_ids).values()
        ]
        disowned = self.own_files.change({key_of(each, file.id): None for each, file in gone})
        refused = self._approvals.change({f"{each} {file.sha256}": None for each, file in gone})
        if gone:
            await self._database.commit(disowned, refused)

    async def approve(self, identity: str, hashes: Collection[str]) -> None:
        """Accept files for good."""
        await self._database.commit(self._approvals.change({f"{identity} {each}": True for each in hashes}))
        self._hashes.setdefault(identity, set()).update(hashes)
        self.decisions += 1

    async def revoke(self, record: RootRecord) -> None:
        """Trust a root no longer; what this daemon wrote there stays known, and what git brought."""
        fresh = msgspec.structs.replace(record, trusted_at="", mode="", branch="")
        begin = f"{record.identity} "
        refused = WriteOnly("approvals", lambda connection: self._approvals.erase_below(connection, begin))
        await self._database.commit(self._roots.change({record.key: fresh}), refused)
        own = self.own_files.of_root(record.identity)
        self._hashes[record.identity] = {file.sha256 for file in own.values()}
        self.decisions += 1

    def _note(self, found: TrustFindings, connection: Connection) -> bool:
        identity, known = found.root.identity, self._roots.read(connection, found.root.key)
        if known is None:
            self._roots.write(connection, found.root.key, found.root, time.time())
        elif known != found.root:
            return False  # a person has decided on it meanwhile
        for table, hashes in ((self._approvals, found.accepted), (self._git_brought, found.brought)):
            for sha256 in hashes:
                table.write(connection, f"{identity} {sha256}", True, time.time())
        return True


class OwnFiles(MemoryRows[OwnFile]):
    """Files that this daemon wrote, by the root's identity and the id; their `hashes` are accepted.

    There is room for 131,072; the oldest go first, and are then like files of others.
    """

    def __init__(self, database: Database, hashes: dict[str, set[str]]) -> None:
        self._hashes = hashes
        super().__init__(database, "own_files", OwnFile, durable=True, most=MOST_OWN, is_copied=True)

    def _apply(self, rows: Mapping[str, CachedRow[OwnFile] | None], *, renew: bool = True) -> None:
        for key, kept in rows.items():
            hashes = self._hashes.setdefault(key.rpartition("\n")[0], set())
            if kept is not None:
                hashes.add(kept.value.sha256)
            elif key in self:
                hashes.discard(self[key].sha256)
        super()._apply(rows, renew=renew)


def _parts(found: TrustFindings) -> Iterator[TrustFindings]:
    """The same in parts that hold no other write up for long."""
    accepted, brought = sorted(found.accepted), sorted(found.brought)
    for start in range(0, max(len(accepted), len(brought), 1), _AT_ONCE):
        end = start + _AT_ONCE
        yield TrustFindings(found.root, frozenset(accepted[start:end]), frozenset(brought[start:end]))


def _pair(key: str) -> tuple[str, str]:
    identity, _, rest = key.partition(" ")
    return identity, rest


class Exclude(msgspec.Struct, frozen=True):
    """One repository. `choice` is exclude, commit, or nothing where the configuration decides.

    `has_line`: forged's line is in its `info/exclude`. `is_told`: a person was told of it.
    """

    common: str
    identity: str
    choice: str = ""
    has_line: bool = False
    is_told: bool = False

    @property
    def key(self) -> str:
        return f"{self.identity} {self.common}"


class Excludes(Rows[Exclude]):
    """One for the daemon. May be asked in any thread. `is_read`: the file was opened."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "excludes", Exclude, durable=True, is_copied=True)
        self.is_read = False

    def restore(self, found: Iterable[Row[Exclude]]) -> None:
        """Take over what a file holds, as it is opened."""
        super().restore(found)
        self.is_read = True

    def of(self, common: str, identity: str) -> Exclude:
        """Return the record of this very repository, or an empty one."""
        fresh = Exclude(common, identity)
        return self.get(fresh.key, fresh)

    async def put(self, record: Exclude) -> None:
        """Write a record down, durably; one that says nothing is removed. Raises StoreError."""
        await self.store({record.key: record if record.choice or record.has_line else None})
