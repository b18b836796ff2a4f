"""The tables of `state.db`, and how a row is written and read: every row carries a checksum of its own.

`create` makes the tables in a new file, `check` raises Damaged if a file is not whole. `put`, `remove` and
`rows` are all that the other modules of this package need of SQL for values that fit into memory.
"""

# ruff: noqa: S608 - the names in the statements are constants of this module

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import msgspec

from forged.errors import StoreError
from forged.state.database import Damaged, Database, transaction

if TYPE_CHECKING:
    from sqlite3 import Connection

V = TypeVar("V")
Value = str | int | float | bytes | None
Columns = tuple[Value, ...]

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
    "accesses": ("key", "at", "data"),
    "outbox": ("position", "write"),
    "replicas": ("key", "replica"),
    "brought": ("identity_and_sha256", "at"),
    "excludes": ("identity_and_common", "choice", "has_line", "is_told"),
    "receipts": ("key", "digest", "reply", "is_given", "at"),
    "absences": ("key", "at", "data"),
}
# The tables that a file of each version has.
_TABLES_BY_VERSION = {1: 7, 2: 11, 3: 15, 4: 19, 5: 22, 6: 26, 7: 28, VERSION: len(TABLES)}
OF_VERSION = {version: tuple(TABLES)[:count] for version, count in _TABLES_BY_VERSION.items()}
_CHECKSUM_BYTES = 8


class Row(NamedTuple, Generic[V]):
    """One row as it was read: when it was put, in Unix seconds, and the bytes of its value."""

    key: str
    at: float
    value: V
    size: int


class Table(Generic[V]):
    """A table of values of one kind, as the thread of the database writes and reads it.

    It is made with the file once it is known to the `database`. With `is_copied` the daily copy holds it.
    """

    def __init__(self, database: Database, name: str, kind: type[V], *, is_copied: bool = False) -> None:
        self.database, self.name, self.is_copied = database, name, is_copied
        self._decode = msgspec.msgpack.Decoder(kind).decode
        database.tables.append(self)

    def load(self, connection: Connection) -> Callable[[], object]:  # noqa: ARG002 - for tables in memory
        """Read at open what memory is to have; the event loop calls what is returned. Raises Damaged."""
        return lambda: None

    async def save(self) -> None:
        """Write what waits in memory. Raises nothing."""

    def write(self, connection: Connection, key: str, value: V, at: float = 0.0) -> None:
        """Put a row in place of the one with its key."""
        put(connection, self.name, key, at, self.encode(value))

    def erase(self, connection: Connection, *keys: str) -> int:
        """Take rows away; return how many there were."""
        return sum(remove(connection, self.name, key) for key in keys)

    def read(self, connection: Connection, key: str) -> V | None:
        """Return a value. Raises Damaged."""
        row = row_of(connection, self.name, key)
        return None if row is None else self._row(row).value

    def read_all(self, connection: Connection) -> Iterator[Row[V]]:
        """All rows in the order of their keys. Raises Damaged."""
        return map(self._row, rows(connection, self.name))

    def encode(self, value: V) -> bytes:
        """Return the bytes of a value. Raises StoreError for what could not be read back."""
        try:
            return msgspec.msgpack.encode(value)
        except UnicodeEncodeError as error:
            raise StoreError("it holds text that is not Unicode") from error

    def _row(self, columns: Columns) -> Row[V]:
        try:
            key, at, data = columns
            assert isinstance(at, float)
            assert isinstance(data, bytes)
            return Row(str(key), at, self._decode(data), len(data))
        except (AssertionError, ValueError, msgspec.DecodeError) as error:
            raise Damaged(f"a row of {self.name} cannot be read: {error}") from error


def create_table(connection: Connection, name: str, columns: Sequence[str] = ("key", "at", "data")) -> None:
    """Make a table if it is not there; the caller commits."""
    key, *others = columns
    listed = ", ".join([f"{key} TEXT PRIMARY KEY", *others, "checksum"])
    connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({listed}) WITHOUT ROWID")


def create(connection: Connection) -> None:
    """Make every table that is not there, in a new file or one of an older version; the caller commits."""
    for table, columns in TABLES.items():
        create_table(connection, table, columns)
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
    key = _key_of(table)
    connection.execute(f"DELETE FROM {table} WHERE substr({key}, 1, ?) = ?", (len(prefix), prefix))


def clear(connection: Connection, table: str) -> None:
    """Take every row away."""
    connection.execute(f"DELETE FROM {table}")


def remove(connection: Connection, table: str, key: str) -> bool:
    """Take a row away; whether it was there."""
    found = connection.execute(f"DELETE FROM {table} WHERE {_key_of(table)} = ?", (key,))
    return found.rowcount > 0


def rows(connection: Connection, table: str) -> Iterator[Columns]:
    """Rows without their checksums, in the order of their keys. Raises Damaged at one that is not whole."""
    for row in unchecked(connection, table):
        yield _checked(table, row)


def unchecked(connection: Connection, table: str, order: str = "ASC") -> Iterator[Columns]:
    """Rows with their checksums, whatever these say; `order` is ASC or DESC."""
    return connection.execute(f"SELECT * FROM {table} ORDER BY {_key_of(table)} {order}")


def row_of(connection: Connection, table: str, key: str) -> Columns | None:
    """The row with this key, None if there is none. Raises Damaged."""
    row = connection.execute(f"SELECT * FROM {table} WHERE {_key_of(table)} = ?", (key,)).fetchone()
    return None if row is None else _checked(table, row)


def value_of(connection: Connection, key: str) -> str:
    """What `meta` holds under a key, or nothing."""
    row = row_of(connection, "meta", key)
    return str(row[1]) if row is not None else ""


def _key_of(table: str) -> str:
    return TABLES.get(table, ("key",))[0]


def is_whole(table: str, row: Columns) -> bool:
    """Whether a row, its checksum last, is as it was written."""
    *values, stored = row
    return stored == checksum(table, tuple(values))


def checksum(table: str, values: Columns) -> bytes:
    said = msgspec.msgpack.encode((table, values))
    return hashlib.blake2b(said, digest_size=_CHECKSUM_BYTES).digest()


def _checked(table: str, row: Columns) -> Columns:
    if not is_whole(table, row):
        raise Damaged(f"a row of {table} is not what was written")
    return row[:-1]
