"""Whom a person trusts, and what this daemon has written itself: what of a repository's memories counts.

A root is known by what git's directory (or the folder) is on its disk, never by what it says: nothing here
is derived from the bytes of a repository. `identity` is text without spaces that `forged.trust` makes.

What was not read yet, or may not be all because the file was damaged, is as if it were not there: nobody is
trusted until the state has been read, and after damage until a person has said what holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from forged.memory import utc_now
from forged.state import tables
from forged.state.database import Database
from forged.state.tables import Columns

if TYPE_CHECKING:
    from sqlite3 import Connection


_AT_ONCE = 1000


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

    `mode` is follow or pin; `branch` the full name of the branch that was checked out when it was trusted.
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


class Kept(msgspec.Struct, frozen=True):
    """All that a file holds."""

    roots: tuple[RootRecord, ...]
    own: tuple[tuple[str, OwnFile], ...]
    approved: tuple[tuple[str, str], ...]
    brought: tuple[tuple[str, str], ...] = ()


class Looked(msgspec.Struct, frozen=True):
    """Findings of a look at a root: hashes that count from now on, and hashes of files that git brought.

    `root` is what was on record of the root, or its first record.
    """

    root: RootRecord
    accepted: frozenset[str] = frozenset()
    brought: frozenset[str] = frozenset()


class TrustRecords:
    """The records, answered from memory; what changes them is durable on return, or raises StoreError.

    `doubt` says why nobody knows for sure what a person has said, or nothing.
    """

    def __init__(self, database: Database, doubt: Callable[[], str]) -> None:
        self._database = database
        self.doubt = doubt
        self._roots: dict[str, RootRecord] = {}
        self._own: dict[str, dict[str, OwnFile]] = {}
        self._hashes: dict[str, set[str]] = {}
        self._brought: dict[str, set[str]] = {}
        self.decisions = 0  # how often a person, or what was read, changed what counts

    def restore(self, kept: Kept) -> None:
        """Take over what a file holds, as it is opened."""
        self.decisions += 1
        for record in kept.roots:
            self._roots.setdefault(record.key, record)
        for identity, file in kept.own:
            self._own.setdefault(identity, {}).setdefault(file.id, file)
            self._hashes.setdefault(identity, set()).add(file.sha256)
        for identity, sha256 in kept.approved:
            self._hashes.setdefault(identity, set()).add(sha256)
        for identity, sha256 in kept.brought:
            self._brought.setdefault(identity, set()).add(sha256)

    # --- what is known --------------------------------------------------------------------------------

    def root(self, top: str, identity: str) -> RootRecord | None:
        """What is known of this very root at this path."""
        return None if self.doubt() else self._roots.get(f"{identity} {top}")

    def roots(self) -> tuple[RootRecord, ...]:
        return () if self.doubt() else tuple(self._roots.values())

    def own(self, identity: str) -> Mapping[str, OwnFile]:
        """What this daemon wrote into a root, by id. May be asked in any thread."""
        return {} if self.doubt() else self._own.get(identity, {})

    def hashes(self, identity: str) -> set[str] | frozenset[str]:
        """Of files in a root that this daemon wrote or a person accepted, or that came in a way they trust.

        It changes; may be asked in any thread.
        """
        return frozenset() if self.doubt() else self._hashes.get(identity, frozenset())

    def brought(self, identity: str) -> set[str] | frozenset[str]:
        """Hashes of files that git brought into a root, though it may have pruned them since.

        It changes; may be asked in any thread.
        """
        return frozenset() if self.doubt() else self._brought.get(identity, frozenset())

    # --- what changes it ------------------------------------------------------------------------------

    def note(self, found: Looked) -> bool:
        """Put what a look found out on record, durably on return, unless the root is another one by then.

        For threads: the caller waits for the disk. Raises StoreError, and not all of it is on record then.
        """
        return all(self._noted(part) for part in _parts(found))

    def _noted(self, found: Looked) -> bool:
        done: Future[bool] = Future()

        def serve() -> None:
            try:
                is_noted = self._database.change(partial(_note, found))
            except BaseException as error:
                done.set_exception(error)
                raise
            if is_noted:  # here, as what a person says is in force after its own transaction
                self._roots[found.root.key] = found.root
                self._hashes.setdefault(found.root.identity, set()).update(found.accepted)
                self._brought.setdefault(found.root.identity, set()).update(found.brought)
                self.decisions += 1
            done.set_result(is_noted)

        self._database.submit(serve)
        return done.result()

    async def put_root(self, record: RootRecord, accepted: Collection[str] = ()) -> None:
        """Put a root on record, and accept files of it with these hashes: both or neither."""
        await self._database.run(partial(_put_root, record, accepted))
        self._roots[record.key] = record
        self._hashes.setdefault(record.identity, set()).update(accepted)
        self.decisions += 1

    async def put_own(self, identity: str, files: Sequence[OwnFile]) -> None:
        await self._database.run(partial(put_own, identity, files))
        self.wrote((identity, file) for file in files)

    def wrote(self, files: Iterable[tuple[str, OwnFile]]) -> None:
        """Files are on record by now, each with the identity of its root. May be called in any thread."""
        for identity, file in files:
            self._own.setdefault(identity, {})[file.id] = file
            self._hashes.setdefault(identity, set()).add(file.sha256)

    async def disown(self, identities: Collection[str], memory_ids: Collection[str]) -> None:
        """Keep nothing of the files that this daemon wrote for these memories: neither row nor accepted hash.

        Raises StoreError.
        """
        gone = [
            (each, file)
            for each in identities
            for memory_id in memory_ids
            if (file := self._own.get(each, {}).get(memory_id)) is not None
        ]
        if gone:
            await self._database.run(partial(_disown, gone))
        for identity, file in gone:
            self._own[identity].pop(file.id, None)
            self._hashes[identity].discard(file.sha256)

    async def approve(self, identity: str, hashes: Collection[str]) -> None:
        """Accept files for good."""
        await self._database.run(partial(_approve, identity, hashes))
        self._hashes.setdefault(identity, set()).update(hashes)
        self.decisions += 1

    async def revoke(self, record: RootRecord) -> None:
        """Trust a root no longer; what this daemon wrote there stays known, and what git brought."""
        fresh = msgspec.structs.replace(record, trusted_at="", mode="", branch="")
        await self._database.run(partial(_revoke, fresh))
        self._roots[record.key] = fresh
        self._hashes[record.identity] = {file.sha256 for file in self._own.get(record.identity, {}).values()}
        self.decisions += 1


def all_kept(connection: Connection) -> Kept:
    """All rows. Raises Damaged."""
    return Kept(
        tuple(map(_root, tables.rows(connection, "roots"))),
        tuple(map(_own_file, tables.rows(connection, "own_files"))),
        tuple(_pair(key) for key, _ in tables.rows(connection, "approvals")),
        tuple(_pair(key) for key, _ in tables.rows(connection, "brought")),
    )


def _root(row: Columns) -> RootRecord:
    key, first_seen, born_empty, trusted_at, mode, branch = row
    identity, top = _pair(key)
    return RootRecord(
        top, identity, str(first_seen), bool(born_empty), str(trusted_at), str(mode), str(branch)
    )


def _own_file(row: Columns) -> tuple[str, OwnFile]:
    key, sha256, origin, insisted = row
    identity, memory_id = _pair(key)
    return identity, OwnFile(memory_id, str(sha256), str(origin), bool(insisted))


def _pair(key: object) -> tuple[str, str]:
    identity, _, rest = str(key).partition(" ")
    return identity, rest


def _put_root(record: RootRecord, accepted: Iterable[str], connection: Connection) -> None:
    of_it = (record.first_seen, int(record.born_empty), record.trusted_at, record.mode, record.branch)
    tables.put(connection, "roots", record.key, *of_it)
    _approve(record.identity, accepted, connection)


def put_own(identity: str, files: Iterable[OwnFile], connection: Connection) -> None:
    """Put on record that files are this daemon's, within a transaction; `wrote` tells of it afterwards."""
    for file in files:
        key = f"{identity} {file.id}"
        tables.put(connection, "own_files", key, file.sha256, file.origin, int(file.insisted))


def _parts(found: Looked) -> Iterator[Looked]:
    """The same in parts that hold no other write up for long."""
    accepted, brought = sorted(found.accepted), sorted(found.brought)
    for start in range(0, max(len(accepted), len(brought), 1), _AT_ONCE):
        end = start + _AT_ONCE
        yield Looked(found.root, frozenset(accepted[start:end]), frozenset(brought[start:end]))


def _note(found: Looked, connection: Connection) -> bool:
    row = tables.row_of(connection, "roots", found.root.key)
    if row is None:
        _put_root(found.root, (), connection)
    elif _root(row) != found.root:
        return False  # a person has decided on it meanwhile
    _approve(found.root.identity, found.accepted, connection)
    now = utc_now()
    for sha256 in found.brought:
        tables.put(connection, "brought", f"{found.root.identity} {sha256}", now)
    return True


def _approve(identity: str, hashes: Iterable[str], connection: Connection) -> None:
    now = utc_now()
    for sha256 in hashes:
        tables.put(connection, "approvals", f"{identity} {sha256}", now)


def _disown(gone: Iterable[tuple[str, OwnFile]], connection: Connection) -> None:
    for identity, file in gone:
        tables.remove(connection, "own_files", f"{identity} {file.id}")
        tables.remove(connection, "approvals", f"{identity} {file.sha256}")


def _revoke(record: RootRecord, connection: Connection) -> None:
    _put_root(record, (), connection)
    tables.remove_below(connection, "approvals", f"{record.identity} ")
