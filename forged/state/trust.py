"""Tables of trust: trusted roots, files that this daemon wrote, and hashes that count.

A root is known by the `identity` that `forged.trust` derives from its directory, never by the bytes of a
repository. Until the state is read, and after damage until a person decides, no root is trusted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from forged.state.database import Database, FileOnlyChange, Row, Table
from forged.state.pauses import Pauses
from forged.state.rows import CachedRow, MemoryRows, Rows, key_of

if TYPE_CHECKING:
    from sqlite3 import Connection


_AT_ONCE = 1000
MOST_OWN = 1 << 17


class OwnFile(msgspec.Struct, frozen=True):
    """A memory file that this daemon wrote: SHA-256 of its bytes, in hex, and the source of its text.

    `insisted`: it seems to contain a secret, and a person allowed it.
    """

    id: str
    sha256: str
    origin: str = ""
    insisted: bool = False


class RootRecord(msgspec.Struct, frozen=True):
    """Trust record of one root at one path; `trusted_at` is "" unless a person trusts it.

    `mode` is follow or locked. `branch` is the full name of the branch that was checked out at that time.
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
    """Findings of a look at a root to record: hashes to accept from now on, hashes of files from git.

    `root` is the existing record of the root, or its first one.
    """

    root: RootRecord
    accepted: frozenset[str] = frozenset()
    from_git: frozenset[str] = frozenset()


class TrustRecords:
    """Records of trusted roots and of file hashes, in memory; changes are durable, or raise StoreError.

    While the pauses are in doubt, no root is trusted.
    """

    def __init__(self, database: Database, pauses: Pauses) -> None:
        self._database, self._pauses = database, pauses
        self._hashes: dict[str, set[str]] = {}
        self._from_git: dict[str, set[str]] = {}
        self._roots = Rows(database, "roots", RootRecord, durable=True, is_copied=True)
        self.own_files = OwnFiles(database, self._hashes)
        self._approvals = Table(database, "approvals", bool, is_copied=True, load=self._load)
        self._git_table = Table(database, "git_files", bool, is_copied=True)
        self.decisions = 0  # number of changes of the counting files

    def _load(self, connection: Connection) -> Callable[[], object]:
        """Read approvals and hashes of files from git; return a function that takes them over."""
        approved = [_split_key(row.key) for row in self._approvals.read_all(connection)]
        from_git = [_split_key(row.key) for row in self._git_table.read_all(connection)]

        def restore() -> None:
            self.decisions += 1
            for identity, sha256 in approved:
                self._hashes.setdefault(identity, set()).add(sha256)
            for identity, sha256 in from_git:
                self._from_git.setdefault(identity, set()).add(sha256)

        return restore

    @property
    def doubt(self) -> str:
        """Return why the decisions of the person are uncertain, so that no root is trusted; or ""."""
        return self._pauses.doubt

    def roots(self, top: str = "") -> tuple[RootRecord, ...]:
        """Return records of all roots, or of those at one path, now or earlier; none while in doubt."""
        if self._pauses.doubt:
            return ()
        return tuple([each for each in self._roots.values() if each.top == top or not top])

    def own(self, identity: str) -> Mapping[str, OwnFile]:
        """Return the records of files that this daemon wrote into a root, by id. Callable in any thread."""
        return {} if self._pauses.doubt else self.own_files.of_root(identity)

    def hashes(self, identity: str) -> set[str] | frozenset[str]:
        """Return the hashes of a root's files that may be used: own, accepted or admitted ones.

        The set is live; callable in any thread.
        """
        return frozenset() if self._pauses.doubt else self._hashes.get(identity, frozenset())

    def from_git(self, identity: str) -> set[str] | frozenset[str]:
        """Return hashes of files that git wrote into a root, even if git has pruned them since.

        The set is live; callable in any thread.
        """
        return frozenset() if self._pauses.doubt else self._from_git.get(identity, frozenset())

    def note(self, found: TrustFindings) -> bool:
        """Record the findings of a look durably; return False if the root's record was changed since.

        For threads: blocks for the disk. Raises StoreError; then not all of it is recorded.
        """
        return all(self._note_part(part) for part in _parts(found))

    def _note_part(self, found: TrustFindings) -> bool:
        """Write findings in the file's thread, then apply them in memory; return False if outdated."""
        done: Future[bool] = Future()

        def serve() -> None:
            try:
                is_noted = self._database.change(partial(self._note, found))
            except BaseException as error:
                done.set_exception(error)
                raise
            if is_noted:  # only now: a decision of a person is in force after its own transaction
                self._roots.hold({found.root.key: found.root})
                self._hashes.setdefault(found.root.identity, set()).update(found.accepted)
                self._from_git.setdefault(found.root.identity, set()).update(found.from_git)
                self.decisions += 1
            done.set_result(is_noted)

        self._database.submit(serve)
        return done.result()

    async def put_root(self, record: RootRecord, accepted: Collection[str] = ()) -> None:
        """Record a root's trust and accept files with these hashes, in one transaction. Raises StoreError."""
        approved = self._approvals.change({f"{record.identity} {each}": True for each in accepted})
        await self._database.commit(self._roots.change({record.key: record}), approved)
        self._hashes.setdefault(record.identity, set()).update(accepted)
        self.decisions += 1

    async def put_own(self, identity: str, files: Sequence[OwnFile]) -> None:
        """Record files that this daemon writes into a root, by id, durably. Raises StoreError."""
        await self.own_files.store({key_of(identity, each.id): each for each in files})

    async def disown(self, identities: Collection[str], memory_ids: Collection[str]) -> None:
        """Erase, for these memories of a root, records that this daemon wrote their files, and approvals.

        Raises StoreError.
        """
        gone = [
            (each, file) for each in identities for file in self.own_files.rows_of(each, memory_ids).values()
        ]
        disowned = self.own_files.change({key_of(each, file.id): None for each, file in gone})
        refused = self._approvals.change({f"{each} {file.sha256}": None for each, file in gone})
        if gone:
            await self._database.commit(disowned, refused)

    async def approve(self, identity: str, hashes: Collection[str]) -> None:
        """Accept files with these hashes in a root for good, durably. Raises StoreError."""
        await self._database.commit(self._approvals.change({f"{identity} {each}": True for each in hashes}))
        self._hashes.setdefault(identity, set()).update(hashes)
        self.decisions += 1

    async def revoke(self, record: RootRecord) -> None:
        """End the trust in a root and erase approvals of its files; records of own files stay."""
        fresh = msgspec.structs.replace(record, trusted_at="", mode="", branch="")
        begin = f"{record.identity} "
        refused = FileOnlyChange("approvals", lambda each: self._approvals.erase_prefix(each, begin))
        await self._database.commit(self._roots.change({record.key: fresh}), refused)
        own = self.own_files.of_root(record.identity)
        self._hashes[record.identity] = {file.sha256 for file in own.values()}
        self.decisions += 1

    def _note(self, found: TrustFindings, connection: Connection) -> bool:
        """Write findings in a transaction; return False if the root's record has changed."""
        identity, known = found.root.identity, self._roots.read(connection, found.root.key)
        if known is None:
            self._roots.write(connection, found.root.key, found.root, time.time())
        elif known != found.root:
            return False  # a person decided on it in the meantime
        for table, hashes in ((self._approvals, found.accepted), (self._git_table, found.from_git)):
            for sha256 in hashes:
                table.write(connection, f"{identity} {sha256}", True, time.time())
        return True


class OwnFiles(MemoryRows[OwnFile]):
    """Table of files that this daemon wrote, by root identity and memory id; their `hashes` are approved.

    There is room for 131,072 files; the oldest are removed first and then count as files of others.
    """

    def __init__(self, database: Database, hashes: dict[str, set[str]]) -> None:
        self._hashes = hashes
        super().__init__(database, "own_files", OwnFile, durable=True, most=MOST_OWN, is_copied=True)

    def _apply(self, rows: Mapping[str, CachedRow[OwnFile] | None], *, renew: bool = True) -> None:
        """Apply changes of rows; approve hashes of added files, and no longer those of removed ones."""
        for key, kept in rows.items():
            hashes = self._hashes.setdefault(key.rpartition("\n")[0], set())
            if kept is not None:
                hashes.add(kept.value.sha256)
            elif key in self:
                hashes.discard(self[key].sha256)
        super()._apply(rows, renew=renew)


def _parts(found: TrustFindings) -> Iterator[TrustFindings]:
    """Yield findings in parts of at most 1,000 hashes, so that no write blocks others for long."""
    accepted, from_git = sorted(found.accepted), sorted(found.from_git)
    for start in range(0, max(len(accepted), len(from_git), 1), _AT_ONCE):
        end = start + _AT_ONCE
        yield TrustFindings(found.root, frozenset(accepted[start:end]), frozenset(from_git[start:end]))


def _split_key(key: str) -> tuple[str, str]:
    identity, _, rest = key.partition(" ")
    return identity, rest


class Exclude(msgspec.Struct, frozen=True):
    """Record of whether git ignores forged's files in a repository; `choice` exclude, commit or "".

    A `choice` of "" is the default. `has_line`: `info/exclude` has forged's line. `is_reported`: to a person.
    """

    common: str
    identity: str
    choice: str = ""
    has_line: bool = False
    is_reported: bool = False

    @property
    def key(self) -> str:
        return f"{self.identity} {self.common}"


class Excludes(Rows[Exclude]):
    """Table of git exclusions by repository, readable in any thread; `is_read`: the file was opened."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "excludes", Exclude, durable=True, is_copied=True)
        self.is_read = False

    def restore(self, found: Iterable[Row[Exclude]]) -> None:
        """Take over the records of git exclusions from the file at open, and set `is_read`."""
        super().restore(found)
        self.is_read = True

    def of(self, common: str, identity: str) -> Exclude:
        """Return the record of exactly this repository, or one without a choice and a line."""
        fresh = Exclude(common, identity)
        return self.get(fresh.key, fresh)

    async def put(self, record: Exclude) -> None:
        """Store a record durably; delete one without choice and line. Raises StoreError."""
        await self.store({record.key: record if record.choice or record.has_line else None})
