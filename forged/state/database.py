"""One SQLite file, its tables, and the only thread that uses it.

`run` calls a function with the connection in that thread, in one transaction; calls run one at a time. Its
changes are on stable storage on return. With `durable=False` they survive the process, but maybe not a power
cut. StoreError says that nothing was changed, and why; Damaged says that the file has other content than was
written. The event loop never waits for a disk. A cancelled caller returns at once; a call that has begun is
finished.

Each table has a key, the time of the row (Unix seconds), a value as MessagePack and a checksum of the row.
`meta` holds texts. A `Table` reads and writes values of one type in the thread. `start` creates the tables of
a new file and raises Damaged if an old one is not whole.
"""

# ruff: noqa: S608 - the names in the statements are those of tables

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from forged.errors import StoreError
from forged.files import atomic
from forged_client.typed import resolved

if TYPE_CHECKING:
    from sqlite3 import Connection

from forged.state.holder import Holder, in_use_message

T = TypeVar("T")
V = TypeVar("V")
Columns = tuple[str | int | float | bytes | None, ...]

# Older files are set aside, newer ones are refused. The order of tables is part of the format, because it
# decides their first pages; so a new table is created after all others.
FORMAT = 11
_CHECKSUM_BYTES = 8
_BUSY_S, _WAL_PAGES, _WAL_KEPT_BYTES = 1.0, 64, 1 << 18
_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
# Errors on a file system without locks, where the daemon's own lock is used.
_NO_LOCKS = ("SQLITE_IOERR_LOCK", "SQLITE_IOERR_RDLOCK", "SQLITE_IOERR_CHECKRESERVEDLOCK", "SQLITE_NOLFS")
_AS_ERRNO = {"SQLITE_FULL": errno.ENOSPC, "SQLITE_IOERR": errno.EIO, "SQLITE_READONLY": errno.EROFS}


class Damaged(StoreError):  # noqa: N818 - reads as the state it names
    """Raised if the database file has other content than was written to it."""


class _DiskFullError(StoreError):
    """Raised if the disk is full; a transaction is then tried once more with an empty journal."""


class RegisteredTable(Protocol):
    """Interface of a `state.db` table: read at open, saved every 5 s; `is_copied`: copied daily."""

    name: str
    is_copied: bool

    def load(self, connection: Connection) -> Callable[[], object]: ...
    async def save(self) -> None: ...


class Change(Protocol):
    """Interface of a part of a transaction: `write` runs within it, `apply` after its commit."""

    name: str
    is_empty: bool

    def write(self, connection: Connection) -> object: ...
    def apply(self) -> object: ...


class FileOnlyChange:
    """Part of a transaction that runs `write` on the file and changes nothing in memory."""

    is_empty = False

    def __init__(self, name: str, write: Callable[[Connection], object]) -> None:
        self.name, self.write, self.apply = name, write, lambda: None


class Database:
    """The SQLite file at `path`, used by one thread in transactions; `journal` is `wal` if possible."""

    def __init__(self, path: str, address: str = "") -> None:
        """Take absolute paths of the file and of the daemon's socket; nothing is touched before `open`."""
        self.path, self._holder = path, Holder(path, address)
        self.tables: list[RegisteredTable] = []
        self.journal, self._was_full = "", False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="state")
        self._connection: Connection | None = None
        self._closed_for = f"{path} is not open"

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    async def open(self, prepare: Callable[[str], Connection], then: Callable[[Connection], T]) -> T:
        """Open the file by `prepare`, record this daemon as holder; return the result of `then`."""

        def opened() -> T:
            self._connection = None
            try:
                connection = prepare(self.path)
            except StoreError as error:
                self._closed_for = str(error)
                raise
            try:
                (self.journal,) = connection.execute("PRAGMA journal_mode").fetchone()
                result = then(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
            self._holder.sign()
            return result

        return await self._run_in_thread(opened)

    async def sign(self) -> None:
        """Record for other daemons, once, that this one has the file open."""
        await self._run_in_thread(self._holder.sign)

    async def run(self, work: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Run `work` in one transaction, return its result; it may raise sqlite3's errors and StoreError."""
        return await self._run_in_thread(partial(self.change, work, durable=durable))

    async def commit(self, *changes: Change, durable: bool = True) -> None:
        """Write changes in one transaction, then apply them. Raises StoreError; then nothing has changed."""

        def committed() -> None:
            self.change(lambda connection: [each.write(connection) for each in changes], durable=durable)
            for change in changes:
                change.apply()

        if any(not change.is_empty for change in changes):
            await self._run_in_thread(committed)

    def submit(self, work: Callable[[], None]) -> None:
        """Schedule `work` in the file's thread; it may call `change`. StoreError if closed."""
        try:
            self._thread.submit(work)
        except RuntimeError as error:
            raise StoreError(f"{self.path} is closed") from error

    def change(self, work: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Run `work` in one transaction, for a caller in the file's thread; return its result."""

        def once() -> T:
            with explained(self.path), transaction(self._require_open(), durable=durable) as connection:
                return work(connection)

        if self._was_full:
            self._shrink_journal()
        try:
            return once()
        except _DiskFullError:
            self._was_full = True
            self._shrink_journal()
            return once()
        except Damaged as error:
            raise StoreError(f"{error}; start the daemon again; it keeps what can be read") from error

    async def erase_traces(self) -> None:
        """Rewrite the file and empty its journal, so that no byte of removed rows stays. Raises StoreError.

        `secure_delete` leaves copies of rows that moved to another page when neighbours grew.
        """

        def erased() -> None:
            with explained(self.path):
                connection = self._require_open()
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        await self._run_in_thread(erased)

    async def close(self) -> None:
        """Close the file if it is open, which empties its journal, and end the thread."""

        def closed() -> None:
            self._holder.release()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        with contextlib.suppress(StoreError):
            await self._run_in_thread(closed)
        self._thread.shutdown(wait=False)

    def _shrink_journal(self) -> None:
        """Empty the WAL to free its disk space, which may be all that is left on a full disk."""
        with contextlib.suppress(StoreError), explained(self.path):
            ((busy, *_),) = self._require_open().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._was_full = bool(busy)

    def _require_open(self) -> Connection:
        """Return the connection. Raises StoreError if the file is not open."""
        if self._connection is None:
            raise StoreError(self._closed_for)
        return self._connection

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        try:
            working = asyncio.get_running_loop().run_in_executor(self._thread, work)
        except RuntimeError as error:  # the thread has ended or cannot be started
            raise StoreError(f"{self.path} is closed: {error}") from error
        return await working


def connect(path: str) -> Connection:
    """Open a SQLite file of forged, mode 0600, locked while it is open; create it if it is missing.

    On a file system without locks, the journal is not a WAL. Raises StoreError, Damaged.
    """
    import sqlite3  # noqa: PLC0415 - 12 ms, not needed at the start

    with explained(path):
        _create_private(path)
        try:
            return _configure(sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname not in _NO_LOCKS:
                raise
        from urllib.parse import quote  # noqa: PLC0415 - only for a file system without locks

        unlocked = sqlite3.connect(f"file:{quote(path)}?nolock=1", isolation_level=None, uri=True)
        return _configure(unlocked)


def _configure(connection: Connection) -> Connection:
    """Set the pragmas of a new connection (WAL, syncs, secure deletes) and lock its file; return it."""
    # Checksums find damaged text; text that is not UTF-8 must not stop the reading of other rows.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    try:
        for pragma in (
            "locking_mode=EXCLUSIVE",
            "journal_mode=WAL",
            "synchronous=FULL",
            "secure_delete=ON",
            "temp_store=MEMORY",  # no temporary file of SQLite with texts
            f"wal_autocheckpoint={_WAL_PAGES}",
            f"journal_size_limit={_WAL_KEPT_BYTES}",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("BEGIN EXCLUSIVE")  # create it now, not at the first write
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _create_private(path: str) -> None:
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    descriptor = os.open(path, _FILE, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise StoreError(f"{path} is not a regular file of this user; move it away")
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def transaction(connection: Connection, *, durable: bool = True) -> Iterator[Connection]:
    """Run the block in one transaction, rolled back if it raises; `durable`: wait for the disk."""
    connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        _overwrite_commit(connection)
        raise


def _overwrite_commit(connection: Connection) -> None:
    """Overwrite in the WAL a commit whose sync failed, because a later start would apply it."""
    import sqlite3  # noqa: PLC0415

    with contextlib.suppress(sqlite3.Error):
        (number,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(f"PRAGMA user_version={1 - number}")


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn SQLite and system errors of the block into a StoreError with the reason, or Damaged."""
    import sqlite3  # noqa: PLC0415

    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot use {path}: {atomic.why(error)}") from error
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(_DAMAGED):
            raise Damaged(f"{path} is damaged: {error}") from error
        number = next((code for start, code in _AS_ERRNO.items() if name.startswith(start)), None)
        why = str(error) if number is None else atomic.why(OSError(number, os.strerror(number)))
        if name.startswith("SQLITE_BUSY"):
            raise StoreError(in_use_message(path)) from error
        kind = _DiskFullError if number == errno.ENOSPC else StoreError
        raise kind(f"cannot use {path}: {why}") from error


class Outdated(StoreError):  # noqa: N818 - names what the file is
    """Raised if an older forged, with another format, has written the database file."""

    def __init__(self, number: int) -> None:
        super().__init__(f"an older forged has written it (format {number})")
        self.number = number


class Row(NamedTuple, Generic[V]):
    """One row as read: key, time (Unix seconds), value, and the size of the value in bytes."""

    key: str
    at: float
    value: V
    size: int


class Table(Generic[V]):
    """Table of `state.db` with values of one type; read and written in the thread of the database.

    It is created with the file once the `database` knows it. With `is_copied` it is in the daily copy. `load`
    reads rows at open and returns a function for the event loop.
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
        self._decode = msgspec.msgpack.Decoder(resolved(kind)).decode
        self._load = load
        database.tables.append(self)

    def load(self, connection: Connection) -> Callable[[], object]:
        """Read the rows to keep in memory; return a function that takes them over. Raises Damaged."""
        return self._load(connection) if self._load is not None else lambda: None

    async def save(self) -> None:
        """Do nothing: rows are written by each change. Tables with rows in memory write them here."""

    def write(self, connection: Connection, key: str, value: V, at: float = 0.0) -> None:
        """Insert or replace a row of the file, with its time and checksum."""
        put(connection, self.name, key, at, self.encode(value))

    def change(self, values: Mapping[str, V | None], *, at: float | None = None) -> Change:
        """Return a change that writes rows to the file, or deletes those that are None."""
        since = time.time() if at is None else at

        def write(connection: Connection) -> None:
            for key, value in values.items():
                if value is None:
                    self.erase(connection, key)
                else:
                    self.write(connection, key, value, since)

        return FileOnlyChange(self.name, write)

    def erase(self, connection: Connection, *keys: str) -> int:
        """Delete the rows of these keys from the file; return how many existed."""
        return sum(remove(connection, self.name, key) for key in keys)

    def erase_prefix(self, connection: Connection, prefix: str) -> None:
        """Delete all rows with this prefix of the key."""
        connection.execute(f"DELETE FROM {self.name} WHERE substr(key, 1, ?) = ?", (len(prefix), prefix))

    def erase_until(self, connection: Connection, at: float) -> None:
        """Delete all rows written until that time."""
        connection.execute(f"DELETE FROM {self.name} WHERE at <= ?", (at,))

    def read(self, connection: Connection, key: str) -> V | None:
        """Return the value of a key in the file, or None. Raises Damaged."""
        row = connection.execute(f"SELECT * FROM {self.name} WHERE key = ?", (key,)).fetchone()
        return None if row is None else self._decode_row(_without_checksum(self.name, row)).value

    def read_all(self, connection: Connection) -> Iterator[Row[V]]:
        """Yield all rows in the order of their keys. Raises Damaged."""
        return map(self._decode_row, rows(connection, self.name))

    def count_rows(self, connection: Connection) -> int:
        """Return the number of rows in the file."""
        (count,) = connection.execute(f"SELECT count(*) FROM {self.name}").fetchone()
        return int(count)

    def sizes(self, connection: Connection) -> dict[str, int]:
        """Return the size of each value in bytes by key, in the order of the keys."""
        return dict(connection.execute(f"SELECT key, length(data) FROM {self.name} ORDER BY key"))

    def encode(self, value: V) -> bytes:
        """Return a value as MessagePack. Raises StoreError for text that could not be read back."""
        try:
            return msgspec.msgpack.encode(value)
        except UnicodeEncodeError as error:
            raise StoreError("it contains text that is not Unicode") from error

    def _decode_row(self, columns: Columns) -> Row[V]:
        try:
            key, at, data = columns
            assert isinstance(at, float)
            assert isinstance(data, bytes)
            return Row(str(key), at, self._decode(data), len(data))
        except (AssertionError, ValueError, msgspec.DecodeError) as error:
            raise Damaged(f"a row of {self.name} cannot be read: {error}") from error


def create(connection: Connection, names: Iterable[str]) -> None:
    """Create all missing tables of a file and record the format; the caller commits."""
    _create_table(connection, "meta", "value")
    for name in names:
        _create_table(connection, name, "at, data")
    put(connection, "meta", "version", str(FORMAT))


def is_new(connection: Connection) -> bool:
    """Return True if the file has no tables."""
    return not table_names(connection)


def table_names(connection: Connection) -> frozenset[str]:
    """Return the names of the tables in a file."""
    return frozenset(name for (name,) in connection.execute("SELECT name FROM sqlite_master"))


def start(connection: Connection, names: Iterable[str], *, expected: bool) -> None:
    """Check the tables of a file, then create missing ones; none at all is damage if `expected`.

    Raises Damaged, Outdated, or StoreError for a file of a newer forged.
    """
    if not is_new(connection):
        _check_tables(connection, names)
    elif expected:
        raise Damaged("it is empty or gone")
    if not table_names(connection).issuperset(names):
        with transaction(connection):
            create(connection, names)


def _check_tables(connection: Connection, names: Iterable[str]) -> None:
    """Check format, structure and all checksums of a file. Raises Damaged, Outdated, StoreError."""
    number = format_of(connection)
    if number > FORMAT:
        raise StoreError(f"a newer forged has written it (format {number})")
    if number < FORMAT:
        raise Outdated(number)
    problems = [line for (line,) in connection.execute("PRAGMA quick_check(1)") if line != "ok"]
    if problems:
        raise Damaged(problems[0])
    there = table_names(connection)
    for name in ("meta", *names):
        for row in unchecked(connection, name) if name in there else ():
            _without_checksum(name, row)


def format_of(connection: Connection) -> int:
    """Return the format number that a state file states. Raises Damaged if it states none."""
    number = meta_value(connection, "version")
    if not number.isdecimal():
        raise Damaged("it does not say which format it has")
    return int(number)


def _create_table(connection: Connection, name: str, columns: str) -> None:
    columns = f"key TEXT PRIMARY KEY, {columns}, checksum"
    connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) WITHOUT ROWID")


def put(connection: Connection, table: str, *values: str | float | bytes | None) -> None:
    """Insert or replace a row of a table, with its checksum."""
    marks = ", ".join("?" * (len(values) + 1))
    row = (*values, checksum(table, values))
    connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row)


def remove(connection: Connection, table: str, key: str) -> bool:
    """Delete a row of a table; return True if it existed."""
    return connection.execute(f"DELETE FROM {table} WHERE key = ?", (key,)).rowcount > 0


def rows(connection: Connection, table: str) -> Iterator[Columns]:
    """Yield all rows of a table in the order of keys, checked, without checksums. Raises Damaged."""
    for row in unchecked(connection, table):
        yield _without_checksum(table, row)


def unchecked(connection: Connection, table: str, order: str = "ASC") -> Iterator[Columns]:
    """Yield all rows by key with their checksums, but verify none; `order` is ASC or DESC."""
    return connection.execute(f"SELECT * FROM {table} ORDER BY key {order}")


def meta_value(connection: Connection, key: str) -> str:
    """Return a text of `meta` by its key, or "". Raises Damaged."""
    row = connection.execute("SELECT * FROM meta WHERE key = ?", (key,)).fetchone()
    return "" if row is None else str(_without_checksum("meta", row)[1])


def is_whole(table: str, row: Columns) -> bool:
    """Return True if a row matches its checksum, which is its last column."""
    *values, stored = row
    return stored == checksum(table, tuple(values))


def checksum(table: str, values: Columns) -> bytes:
    data = msgspec.msgpack.encode((table, values))
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).digest()


def _without_checksum(table: str, row: Columns) -> Columns:
    """Return a row without its checksum, after a check of it. Raises Damaged."""
    if not is_whole(table, row):
        raise Damaged(f"a row of {table} is not what was written")
    return row[:-1]
