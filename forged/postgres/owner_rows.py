"""Read and change the rows of one owner on the server, for replication.

Every change holds the owner's lock until its commit, and only then draws its number in `changed`. So numbers
appear in order, and changes since a cursor are those with a higher number. One statement sees rows and marks
of one moment. Errors of psycopg become SharedError; a ProviderError says that nothing may leave.
"""

# ruff: noqa: S608 - what is put into the text are names from this package, never a value

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from forged.attributes import Facts
from forged.counters import EgressRecord
from forged.errors import MemoryFormatError
from forged.files import MAX_FILE_BYTES, parse
from forged.memory import Memory, Scope, time_ns
from forged.models import Purpose
from forged.postgres import egress, statements
from forged.postgres.connecting import Connection
from forged.postgres.merging import FileVersion
from forged.postgres.relating import EntityTables
from forged.postgres.replaying import BatchResult, send_isolated
from forged.postgres.replicating import CarriedFile, FileChange, PushResult, RemoteChanges
from forged.postgres.schema import table
from forged.postgres.shared import SharedServer
from forged.postgres.tables import TABLES
from forged.postgres.values import Stored
from forged.postgres.writing import announce, lock_rows
from forged.state import RemovalMark, SharedOwners

_ASK_S, _CHANGE_S = 10.0, 20.0
_KINDS = ("chain", "version", "restored")


class OwnerRows:
    """Rows of one owner and scope on the server, for replication with the root at `top`."""

    def __init__(self, shared: SharedServer, scope: Scope, owner: str, top: str) -> None:
        self._shared = shared
        self._scope = scope
        self._owner = owner
        self._purpose = Purpose("shared", (top,))
        self._sql = _OwnerStatements(scope)

    @property
    def offset_us(self) -> int:
        """Return the microseconds by which the server's clock is ahead of this machine's."""
        return self._shared.state.server_clock.offset_us

    @property
    def _is_of_user(self) -> bool:
        """Return True for rows that no other user may write, if row level security is active."""
        user_id = self._shared.settings.user_id
        return self._scope is Scope.USER or self._owner.startswith(f"{user_id}/")

    async def access(self) -> str:
        """Return a digest of the rights and models that refused writes depend on."""
        return await self._shared.access()

    async def changes_since(self, since: int) -> RemoteChanges:
        """Return file versions and removal marks changed since a cursor (0: all), with the next cursor."""
        values = {"since": since or -1, "owner": self._owner, "scope": str(self._scope)}
        versions, marks, cursor = {}, {}, since
        await self._shared.egress.check(self._purpose, ())
        async with self._shared.connection(time.monotonic() + _ASK_S) as connection:
            found = await (await connection.execute(self._sql.changes, values)).fetchall()
        for kind, memory_id, sha256, at, supersedes, author, changed in found:
            cursor = max(cursor, changed)
            if kind == "row":
                versions[memory_id] = FileVersion(sha256, at, supersedes, author)
            else:  # an unknown kind of a newer forged counts as forgotten
                marks[memory_id] = RemovalMark(at, kind if kind in _KINDS else "version")
        return RemoteChanges(versions, marks, cursor)

    async def fetch(self, ids: Sequence[str]) -> Mapping[str, CarriedFile]:
        """Return the files of rows by id, with attributes; missing and oversized ones are left out."""
        values = {"owner": self._owner, "ids": list(ids), "most": MAX_FILE_BYTES}
        async with self._shared.connection(time.monotonic() + _CHANGE_S) as connection:
            found = await (await connection.execute(self._sql.fetch, values)).fetchall()
        return {
            memory_id: CarriedFile(
                bytes(data),
                Facts(memory_type, round(importance, 6), metadata, SharedOwners.agent_of(agent_id)),
                is_own=secured and self._is_of_user,
                offset_us=_offset_us(bytes(data), self._scope, memory_id, updated_us),
            )
            for memory_id, data, memory_type, importance, metadata, agent_id, updated_us, secured in found
        }

    async def push(self, changes: Mapping[str, FileChange]) -> PushResult:
        """Write files whose row has the expected hash, refuse any with secrets; return ids and failures."""
        rows = [self._row_of_change(each, change) for each, change in changes.items()]
        clean = await egress.redacted_rows(
            rows, self._shared.egress, self._shared.settings.models, self._shared.now()
        )
        leaves = [row for row in clean if row.file is not None]
        kept = {row.id: "looks secret" for row in clean if row.file is None}
        await self._shared.egress.check(self._purpose, egress.egress_texts(leaves))
        expected, written = {each: change.expected for each, change in changes.items()}, set[str]()

        async def write(rows: Sequence[Stored]) -> None:
            written.update(await self._write_expected(rows, expected))

        result = await send_isolated(leaves, write, self._shared.answers) if leaves else BatchResult()
        if written:
            self._shared.filling.want(len(written))
        failed = {row.id: error for row, error in result.failed}
        return PushResult(frozenset(written), kept, failed, result.error)

    async def _write_expected(self, rows: Sequence[Stored], expected: Mapping[str, str]) -> frozenset[str]:
        """Write rows whose server state is as expected, in one transaction; return their ids."""
        texts = egress.egress_texts(rows)
        record = EgressRecord(
            self._shared.host, "shared", calls=1, texts=len(texts), characters=sum(map(len, texts))
        )
        values = {"owner": self._owner, "scope": str(self._scope), "ids": [row.id for row in rows]}
        async with (
            self._shared.connection(time.monotonic() + _CHANGE_S) as connection,
            connection.transaction(),
        ):
            await self._lock_owner(connection)
            there = {
                memory_id: (sha256, is_dead)
                for memory_id, sha256, is_dead in await (
                    await connection.execute(self._sql.states, values)
                ).fetchall()
            }
            fits = [row for row in rows if there.get(row.id, ("", False)) == (expected[row.id], False)]
            self._shared.egress.record(record)
            if fits:
                given = [TABLES[self._scope].values(row) for row in fits]
                await connection.cursor().executemany(self._sql.put, given)
                await self._settle_and_notify(connection, [row.id for row in fits])
        return frozenset(row.id for row in fits)

    async def mark(self, marks: Mapping[str, RemovalMark]) -> PushResult:
        """Store removal marks later than the server's, delete forgotten rows; return failures."""
        result = await send_isolated(list(marks.items()), self._mark, self._shared.answers)
        return PushResult(failed={each: error for (each, _), error in result.failed}, error=result.error)

    async def _mark(self, marks: Sequence[tuple[str, RemovalMark]]) -> None:
        """Store removal marks later than the server's, delete rows, notify, in one transaction."""
        values = {"owner": self._owner, "scope": str(self._scope), "ids": [each for each, _ in marks]}
        async with (
            self._shared.connection(time.monotonic() + _CHANGE_S) as connection,
            connection.transaction(),
        ):
            await self._lock_owner(connection)
            found = await (await connection.execute(self._sql.marks, values)).fetchall()
            there = {each: RemovalMark(at, kind if kind in _KINDS else "version") for each, kind, at in found}
            later = {each: mark for each, mark in marks if each not in there or mark.rank > there[each].rank}
            if not later:
                return
            rows = [values | {"id": each, "kind": mark.kind, "at": mark.at} for each, mark in later.items()]
            await connection.cursor().executemany(self._sql.mark, rows)
            dead = values | {"ids": [each for each, mark in later.items() if mark.is_dead]}
            await connection.execute(statements.remove(self._scope), dead)
            await connection.execute(self._sql.touch, values | {"ids": list(later)})
            await self._settle_and_notify(connection, list(later))

    async def _lock_owner(self, connection: Connection) -> None:
        """Let other writers of the owner's rows wait until the commit."""
        await lock_rows(connection, (self._scope, self._owner))

    async def _settle_and_notify(self, connection: Connection, ids: Sequence[str]) -> None:
        """Update heads and entities of the owner's rows, and notify listeners of the change."""
        cursor = await connection.execute(statements.settle_heads(self._scope), {"owner": self._owner})
        turned = [str(found[0]) for found in await cursor.fetchall()]
        await EntityTables(connection, self._scope, self._owner).renew([*ids, *turned])
        await announce(connection, (self._scope, self._owner), self._shared.daemon)

    def _row_of_change(self, memory_id: str, change: FileChange) -> Stored:
        """Return the row that stores a changed file."""
        data, facts = change.carried.data, change.carried.facts
        if self._scope is Scope.AGENT:
            facts = msgspec.structs.replace(facts, user_id=self._shared.settings.user_id)
        memory = parse(data, self._scope, memory_id)
        return Stored(
            scope=self._scope,
            owner=self._owner,
            id=memory_id,
            content=memory.content,
            facts=facts,
            category=memory.category,
            created_at=_timestamp(change.version.created),
            updated_at=_timestamp(_updated_us(memory) + self.offset_us),
            version=memory.version,
            supersedes=memory.supersedes or "",
            file=data,
            file_sha256=change.version.sha256,
        )


class _OwnerStatements(msgspec.Struct, frozen=True):
    """SQL texts to read and change one owner's rows and removal marks in a scope's table."""

    scope: Scope

    @property
    def changes(self) -> str:
        """Return the query of an owner's file versions and removal marks changed since a cursor."""
        own = TABLES[self.scope].owner
        author = "CASE WHEN strpos(agent_id, '/') = 0 THEN user_id END" if self.scope is Scope.AGENT else "''"
        return f"""
            SELECT 'row', id, file_sha256, {_MICROSECONDS.format("created_at")}, coalesce(supersedes, ''),
                coalesce({author}, ''), changed
            FROM {table(self.scope)} WHERE {own} = %(owner)s AND changed > %(since)s AND file IS NOT NULL
            UNION ALL
            SELECT kind, id, '', {_MICROSECONDS.format("at")}, '', '', changed
            FROM forged.tombstones
            WHERE owner = %(owner)s AND scope = %(scope)s AND changed > %(since)s"""

    @property
    def fetch(self) -> str:
        """Return the query of an owner's files and attributes by id, up to a size."""
        own = TABLES[self.scope].owner
        return f"""
            SELECT id, file, memory_type, importance_score, metadata, agent_id,
                {_MICROSECONDS.format("updated_at")}, row_security_active('{table(self.scope)}')
            FROM {table(self.scope)}
            WHERE {own} = %(owner)s AND id = ANY(%(ids)s) AND octet_length(file) <= %(most)s"""

    @property
    def states(self) -> str:
        """Return the query of the file hashes of an owner's rows by id, and of which ids are removed."""
        own = TABLES[self.scope].owner
        return f"""
            SELECT id, file_sha256, false FROM {table(self.scope)}
            WHERE {own} = %(owner)s AND id = ANY(%(ids)s)
            UNION ALL
            SELECT id, '', true FROM forged.tombstones
            WHERE owner = %(owner)s AND scope = %(scope)s AND id = ANY(%(ids)s) AND kind <> 'restored'"""

    @property
    def put(self) -> str:
        """Return the statement that writes a row without checks, as the caller has made them."""
        return statements.put_one(self.scope, is_checked=True)

    @property
    def marks(self) -> str:
        """Return the query of an owner's removal marks by memory id."""
        return f"""
            SELECT id, kind, {_MICROSECONDS.format("at")} FROM forged.tombstones
            WHERE owner = %(owner)s AND scope = %(scope)s AND id = ANY(%(ids)s)"""

    @property
    def mark(self) -> str:
        """Return the statement that stores a removal mark in place of an older one."""
        return """
            INSERT INTO forged.tombstones (scope, owner, id, kind, changed, at)
            VALUES (%(scope)s, %(owner)s, %(id)s, %(kind)s, nextval('forged.changes'),
                timestamptz 'epoch' + %(at)s * interval '1 microsecond')
            ON CONFLICT (owner, scope, id)
            DO UPDATE SET kind = EXCLUDED.kind, changed = EXCLUDED.changed, at = EXCLUDED.at"""

    @property
    def touch(self) -> str:
        """Return the statement that numbers rows as changed, so that other daemons fetch them again."""
        own = TABLES[self.scope].owner
        return f"""
            UPDATE {table(self.scope)} SET changed = nextval('forged.changes')
            WHERE {own} = %(owner)s AND id = ANY(%(ids)s)"""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS = "(extract(epoch FROM {}) * 1000000)::bigint"


def _timestamp(microseconds: int) -> datetime:
    """Return Unix microseconds as a datetime; 1970 if they are negative."""
    return _EPOCH + timedelta(microseconds=max(0, microseconds))


def _updated_us(memory: Memory) -> int:
    """Return the time of a memory's last change in Unix microseconds."""
    return time_ns(memory.updated_at or memory.created_at) // 1000


def _offset_us(data: bytes, scope: Scope, memory_id: str, updated_us: int) -> int:
    """Return the difference of a row's time of change and that of its file, 0 for an invalid file."""
    try:
        return updated_us - _updated_us(parse(data, scope, memory_id))
    except MemoryFormatError:
        return 0
