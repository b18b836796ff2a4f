"""The tables of `state.db`: how a row is written and read, with a checksum of its own.

Every table has a key, when its row was put (Unix seconds) and a value as MessagePack; `meta` has texts. A
`Table` writes and reads values of one kind in the thread of the database. `start` makes the tables of a new
file and raises Damaged if an old one is not whole.
"""

# ruff: noqa: S608 - the names in the statements are those of tables

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import msgspec

from forged.errors import StoreError
from forged.state.database import Change, Damaged, Database, WriteOnly, transaction

if TYPE_CHECKING:
    from sqlite3 import Connection

V = TypeVar("V")
Columns = tuple[str | int | float | bytes | None, ...]

# Older files are set aside, newer ones are refused. The order of the tables is part of it: their first pages
# lie in it, so a table that is new is made behind the others.
FORMAT = 10
_CHECKSUM_BYTES = 8


class Outdated(StoreError):  # noqa: N818 - names what the file is
    """The file is whole and of an older format."""

    def __init__(self, number: int) -> None:
        super().__init__(f"an older forged has written it (format {number})")
        self.number = number


class Row(NamedTuple, Generic[V]):
    """One row as it was read: when it was put, in Unix seconds, and the bytes of its value."""

    key: str
    at: float
    value: V
    size: int


class Table(Generic[V]):
    """A table of values of one kind, as the thread of the database writes and reads it.

    It is made with the file once it is known to the `database`. With `is_copied` the daily copy holds it.
    `load` reads at open what memory is to have, and returns what the event loop calls then.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        kind: type[V],
        *,
        is_copied: bool = False,
        load: Callable[[Connection], Callable[[], object]] | None = None,
    ) -> None:
        self.database, self.name, self.is_copied = database, name, is_copied
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._load = load
        database.tables.append(self)

    def load(self, connection: Connection) -> Callable[[], object]:
        """Read what memory is to have. Raises Damaged."""
        return self._load(connection) if self._load is not None else lambda: None

    async def save(self) -> None:
        """Write what waits in memory. Raises nothing."""

    def write(self, connection: Connection, key: str, value: V, at: float = 0.0) -> None:
        """Put a row in place of the one with its key."""
        put(connection, self.name, key, at, self.encode(value))

    def change(self, values: Mapping[str, V | None], *, at: float | None = None) -> Change:
        """Return what puts rows, or drops those that are None, as a part of a transaction."""
        since = time.time() if at is None else at

        def write(connection: Connection) -> None:
            for key, value in values.items():
                if value is None:
                    self.erase(connection, key)
                else:
                    self.write(connection, key, value, since)

        return WriteOnly(self.name, write)

    def erase(self, connection: Connection, *keys: str) -> int:
        """Take rows away; return how many there were."""
        return sum(remove(connection, self.name, key) for key in keys)

    def erase_below(self, connection: Connection, prefix: str) -> None:
        """Take every row away whose key begins like this."""
        connection.execute(f"DELETE FROM {self.name} WHERE substr(key, 1, ?) = ?", (len(prefix), prefix))

    def erase_until(self, connection: Connection, at: float) -> None:
        """Take away every row that was put by then."""
        connection.execute(f"DELETE FROM {self.name} WHERE at <= ?", (at,))

    def read(self, connection: Connection, key: str) -> V | None:
        """Return a value. Raises Damaged."""
        row = connection.execute(f"SELECT * FROM {self.name} WHERE key = ?", (key,)).fetchone()
        return None if row is None else self._row(_checked(self.name, row)).value

    def read_all(self, connection: Connection) -> Iterator[Row[V]]:
        """All rows in the order of their keys. Raises Damaged."""
        return map(self._row, rows(connection, self.name))

    def rows_in(self, connection: Connection) -> int:
        """Return how many rows there are."""
        (count,) = connection.execute(f"SELECT count(*) FROM {self.name}").fetchone()
        return int(count)

    def sizes(self, connection: Connection) -> dict[str, int]:
        """Return the bytes of each value, in the order of the keys."""
        return dict(connection.execute(f"SELECT key, length(data) FROM {self.name} ORDER BY key"))

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


def create(connection: Connection, names: Iterable[str]) -> None:
    """Make every table that is not there; the caller commits."""
    _create(connection, "meta", "value")
    for name in names:
        _create(connection, name, "at, data")
    put(connection, "meta", "version", str(FORMAT))


def is_new(connection: Connection) -> bool:
    """Whether there is nothing in the file, not even a table."""
    return not names_in(connection)


def names_in(connection: Connection) -> frozenset[str]:
    """The tables that are in a file."""
    return frozenset(name for (name,) in connection.execute("SELECT name FROM sqlite_master"))


def start(connection: Connection, names: Iterable[str], *, expected: bool) -> None:
    """Make the tables if there are none, which is damage if some were `expected`, else check them.

    Raises Damaged, Outdated, or StoreError if a newer forged has written the file.
    """
    if not is_new(connection):
        _check(connection, names)
    elif expected:
        raise Damaged("it is empty or gone")
    if not names_in(connection).issuperset(names):
        with transaction(connection):
            create(connection, names)


def _check(connection: Connection, names: Iterable[str]) -> None:
    number = format_of(connection)
    if number > FORMAT:
        raise StoreError(f"a newer forged has written it (format {number})")
    if number < FORMAT:
        raise Outdated(number)
    problems = [line for (line,) in connection.execute("PRAGMA quick_check(1)") if line != "ok"]
    if problems:
        raise Damaged(problems[0])
    there = names_in(connection)
    for name in ("meta", *names):
        for row in unchecked(connection, name) if name in there else ():
            _checked(name, row)


def format_of(connection: Connection) -> int:
    """The number of a file's format. Raises Damaged."""
    number = value_of(connection, "version")
    if not number.isdecimal():
        raise Damaged("it does not say which format it has")
    return int(number)


def _create(connection: Connection, name: str, columns: str) -> None:
    columns = f"key TEXT PRIMARY KEY, {columns}, checksum"
    connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) WITHOUT ROWID")


def put(connection: Connection, table: str, *values: str | float | bytes | None) -> None:
    """Write a row in place of the one with the same key, if there is one."""
    marks = ", ".join("?" * (len(values) + 1))
    row = (*values, checksum(table, values))
    connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)


def remove(connection: Connection, table: str, key: str) -> bool:
    """Take a row away; whether it was there."""
    return connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,)).rowcount > 0


def rows(connection: Connection, table: str) -> Iterator[Columns]:
    """Rows without their checksums, in the order of their keys. Raises Damaged at one that is not whole."""
    for row in unchecked(connection, table):
        yield _checked(table, row)


def unchecked(connection: Connection, table: str, order: str = "ASC") -> Iterator[Columns]:
    """Rows with their checksums, whatever these say; `order` is ASC or DESC."""
    return connection.execute(f"SELECT * FROM {table} ORDER BY key {order}")


def value_of(connection: Connection, key: str) -> str:
    """Return the text of `meta` under a key, or nothing. Raises Damaged."""
    row = connection.execute("SELECT * FROM meta WHERE key = ?", (key,)).fetchone()
    return "" if row is None else str(_checked("meta", row)[1])


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
