"""The tables of `state.db`, and how a row is written and read: every row carries a checksum of its own.

`create` makes the tables in a new file, `check` raises Damaged if a file is not whole. `put`, `remove` and
`rows` are all that the other modules of this package need of SQL for values that fit into memory.
"""

# ruff: noqa: S608 - the names in the statements are constants of this module

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from forged.errors import StoreError
from forged.state.database import Damaged, transaction

if TYPE_CHECKING:
    from sqlite3 import Connection

Value = str | int | bytes | None
Row = tuple[Value, ...]

VERSION = 8
# Columns, the key first. The order of the tables is part of the format: their first pages lie in it, so a
# later version adds its own at the end.
TABLES: dict[str, tuple[str, ...]] = {
    "meta": ("key", "value"),
    "events": ("id", "event"),
    "journal": ("id", "documents"),
    "dead": ("id", "kind", "reason", "died_at", "event", "documents"),
    "forgotten": ("digest", "at"),
    "pauses": ("top",),
    "spending": ("day_and_purpose", "calls", "failed", "prompt_tokens", "completion_tokens"),
    "roots": ("identity_and_top", "first_seen", "born_empty", "trusted_at", "mode", "branch"),
    "own_files": ("identity_and_id", "sha256", "origin", "insisted"),
    "approvals": ("identity_and_sha256", "at"),
    "outbound": ("day_host_and_purpose", "calls", "failed", "texts", "characters"),
    "requests": ("key", "digest", "memory_id", "existed", "at"),
    "intents": ("key", "intent"),
    "heard": ("session", "digests", "runs"),
    "parts": ("event_and_part", "at", "said"),
    "told": ("agent_session_and_tops", "heard"),
    "uses": ("id_and_root", "sessions"),
    "to_review": ("id", "document"),
    "judged": ("key", "judgement"),
    "agents": ("agent_and_day", "counts"),
    "injections": ("key", "injection"),
    "learned": ("session", "progress"),
    "details": ("root_and_id", "detail"),
    "accesses": ("root_and_id", "count", "last"),
    "outbox": ("position", "write"),
    "replicas": ("key", "replica"),
    "brought": ("identity_and_sha256", "at"),
    "excludes": ("identity_and_common", "choice", "has_line", "is_told"),
    "receipts": ("key", "digest", "reply", "is_given", "at"),
}
# The tables that a file of each version has.
_TABLES_BY_VERSION = {1: 7, 2: 11, 3: 15, 4: 19, 5: 22, 6: 26, 7: 28, VERSION: len(TABLES)}
OF_VERSION = {version: tuple(TABLES)[:count] for version, count in _TABLES_BY_VERSION.items()}
_CHECKSUM_BYTES = 8


def create(connection: Connection) -> None:
    """Make every table that is not there, in a new file or one of an older version; the caller commits."""
    for table, columns in TABLES.items():
        key, *others = columns
        listed = ", ".join([f"{key} TEXT PRIMARY KEY", *others, "checksum"])
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({listed}) WITHOUT ROWID")
    put(connection, "meta", "version", str(VERSION))


def is_new(connection: Connection) -> bool:
    """Whether there is nothing in the file, not even a table."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return not tables


def check(connection: Connection) -> None:
    """Read the whole file, and bring one of an older version up to this one.

    Raises Damaged, or StoreError if a newer forged has written it.
    """
    problems = [line for (line,) in connection.execute("PRAGMA quick_check(1)") if line != "ok"]
    if problems:
        raise Damaged(problems[0])
    version = value_of(connection, "version")
    if not version.isdecimal():
        raise Damaged("it does not say which version wrote it")
    if int(version) > VERSION:
        raise StoreError(f"a newer forged has written it (version {version})")
    if int(version) not in OF_VERSION:
        raise Damaged(f"it says that version {version} wrote it, which there never was")
    for table in OF_VERSION[int(version)]:
        for row in unchecked(connection, table):
            _checked(table, row)
    if int(version) < VERSION:
        with transaction(connection):
            create(connection)


def start(connection: Connection, *, expected: bool) -> None:
    """Make the tables if there are none, which is damage if some were `expected`, else check them.

    Raises as `check` does.
    """
    if is_new(connection):
        if expected:
            raise Damaged("it is empty or gone")
        with transaction(connection):
            create(connection)
    else:
        check(connection)


def put(connection: Connection, table: str, *values: Value) -> None:
    """Write a row in place of the one with the same key, if there is one."""
    marks = ", ".join("?" * (len(values) + 1))
    row = (*values, checksum(table, values))
    connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)


def remove_below(connection: Connection, table: str, prefix: str) -> None:
    """Take every row away whose key begins like this."""
    key = TABLES[table][0]
    connection.execute(f"DELETE FROM {table} WHERE substr({key}, 1, ?) = ?", (len(prefix), prefix))


def clear(connection: Connection, table: str) -> None:
    """Take every row away."""
    connection.execute(f"DELETE FROM {table}")


def remove(connection: Connection, table: str, key: str) -> bool:
    """Take a row away; whether it was there."""
    found = connection.execute(f"DELETE FROM {table} WHERE {TABLES[table][0]} = ?", (key,))
    return found.rowcount > 0


def rows(connection: Connection, table: str) -> Iterator[Row]:
    """Rows without their checksums, in the order of their keys. Raises Damaged at one that is not whole."""
    for row in unchecked(connection, table):
        yield _checked(table, row)


def unchecked(connection: Connection, table: str, order: str = "ASC") -> Iterator[Row]:
    """Rows with their checksums, whatever these say; `order` is ASC or DESC."""
    return connection.execute(f"SELECT * FROM {table} ORDER BY {TABLES[table][0]} {order}")


def row_of(connection: Connection, table: str, key: str) -> Row | None:
    """The row with this key, None if there is none. Raises Damaged."""
    row = connection.execute(f"SELECT * FROM {table} WHERE {TABLES[table][0]} = ?", (key,)).fetchone()
    return None if row is None else _checked(table, row)


def value_of(connection: Connection, key: str) -> str:
    """What `meta` holds under a key, or nothing."""
    row = row_of(connection, "meta", key)
    return str(row[1]) if row is not None else ""


def is_whole(table: str, row: Row) -> bool:
    """Whether a row, its checksum last, is as it was written."""
    *values, stored = row
    return stored == checksum(table, tuple(values))


def checksum(table: str, values: Row) -> bytes:
    said = msgspec.msgpack.encode((table, values))
    return hashlib.blake2b(said, digest_size=_CHECKSUM_BYTES).digest()


def _checked(table: str, row: Row) -> Row:
    if not is_whole(table, row):
        raise Damaged(f"a row of {table} is not what was written")
    return row[:-1]
