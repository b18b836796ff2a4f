"""One SQLite file and the one thread that uses it.

`run` calls a function with the connection in that thread, in one transaction, one call after the other. The
changes are on stable storage when it returns; with `durable=False` they outlive this process, but perhaps not
a power cut. StoreError says that nothing was changed, and why; Damaged that the file is not what was written.
The event loop never waits for a disk. A caller that is cancelled goes away; a call that began is finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from forged.errors import StoreError
from forged.files import atomic

if TYPE_CHECKING:
    from sqlite3 import Connection

from forged.state.holder import Holder, in_use

T = TypeVar("T")
_BUSY_S, _WAL_PAGES, _WAL_KEPT_BYTES = 1.0, 64, 1 << 18
_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
# Errors on a file system without locks, which the daemon's own lock replaces.
_NO_LOCKS = ("SQLITE_IOERR_LOCK", "SQLITE_IOERR_RDLOCK", "SQLITE_IOERR_CHECKRESERVEDLOCK", "SQLITE_NOLFS")
_AS_ERRNO = {"SQLITE_FULL": errno.ENOSPC, "SQLITE_IOERR": errno.EIO, "SQLITE_READONLY": errno.EROFS}


class Damaged(StoreError):  # noqa: N818 - reads as the state it names
    """The file holds something else than what was written to it."""


class _DiskFullError(StoreError):
    """The disk has no room."""


class Registered(Protocol):
    """A table of the file: what is read at open, and written every five seconds."""

    name: str
    is_copied: bool

    def load(self, connection: Connection) -> Callable[[], object]: ...
    async def save(self) -> None: ...


class Change(Protocol):
    """A part of a transaction: `write` in it, `apply` once it is in the file; both in the file's thread."""

    name: str
    is_empty: bool

    def write(self, connection: Connection) -> object: ...
    def apply(self) -> object: ...


class WriteOnly:
    """A change that is in the file alone."""

    is_empty = False

    def __init__(self, name: str, write: Callable[[Connection], object]) -> None:
        self.name, self.write, self.apply = name, write, lambda: None


class Database:
    """The file at `path`. `journal` is `wal`, or another word where the file system cannot do that."""

    def __init__(self, path: str, address: str = "") -> None:
        """Take absolute paths of the file and of the daemon's socket; nothing is touched before `open`."""
        self.path, self._holder = path, Holder(path, address)
        self.tables: list[Registered] = []
        self.journal, self._was_full = "", False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="state")
        self._connection: Connection | None = None
        self._closed_for = f"{path} is not open"

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    async def open(self, prepare: Callable[[str], Connection], then: Callable[[Connection], T]) -> T:
        """Keep the connection of `prepare`, unless one of both raises; return the result of `then`."""

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

        return await self._in_thread(opened)

    async def sign(self) -> None:
        """Tell other daemons who has the file open, where that was not possible before."""
        await self._in_thread(self._holder.sign)

    async def run(self, work: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Return the result of `work`, which may raise sqlite3's errors and StoreError."""
        return await self._in_thread(partial(self.change, work, durable=durable))

    async def commit(self, *changes: Change, durable: bool = True) -> None:
        """Write changes in one transaction, then apply them. Raises StoreError; nothing has changed then."""

        def committed() -> None:
            self.change(lambda connection: [each.write(connection) for each in changes], durable=durable)
            for change in changes:
                change.apply()

        if any(not change.is_empty for change in changes):
            await self._in_thread(committed)

    def submit(self, work: Callable[[], None]) -> None:
        """Have `work` done in the thread, where it may call `change`. Raises StoreError if that has ended."""
        try:
            self._thread.submit(work)
        except RuntimeError as error:
            raise StoreError(f"{self.path} is closed") from error

    def change(self, work: Callable[[Connection], T], *, durable: bool = True) -> T:
        """As `run`, for a caller in the thread."""

        def once() -> T:
            with explained(self.path), transaction(self._opened(), durable=durable) as connection:
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
            raise StoreError(f"{error}; start the daemon again, it takes over what can be read") from error

    async def erase_traces(self) -> None:
        """Write the file anew, without a byte of removed rows. Raises StoreError.

        `secure_delete` leaves copies of rows that moved to another page when their neighbours grew.
        """

        def erased() -> None:
            with explained(self.path):
                connection = self._opened()
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        await self._in_thread(erased)

    async def close(self) -> None:
        """Close the file, if it is open, which empties its journal; the thread ends."""

        def closed() -> None:
            self._holder.release()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        with contextlib.suppress(StoreError):
            await self._in_thread(closed)
        self._thread.shutdown(wait=False)

    def _shrink_journal(self) -> None:
        """Give back the room of the WAL: on a full disk there may be no other."""
        with contextlib.suppress(StoreError), explained(self.path):
            ((busy, *_),) = self._opened().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            self._was_full = bool(busy)

    def _opened(self) -> Connection:
        if self._connection is None:
            raise StoreError(self._closed_for)
        return self._connection

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            working = asyncio.get_running_loop().run_in_executor(self._thread, work)
        except RuntimeError as error:  # the thread has ended, or the system has none for it
            raise StoreError(f"{self.path} is closed: {error}") from error
        return await working


def connect(path: str) -> Connection:
    """Open a file of ours, 0600, locked as long as it is open, and make it if it is missing.

    Where the file system has no locks the journal is no WAL. Raises StoreError, Damaged.
    """
    import sqlite3  # noqa: PLC0415 - 12 ms, which the start of the daemon need not wait for

    with explained(path):
        _make_private(path)
        try:
            return _configured(sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname not in _NO_LOCKS:
                raise
        from urllib.parse import quote  # noqa: PLC0415 - for a file system without locks alone

        unlocked = sqlite3.connect(f"file:{quote(path)}?nolock=1", isolation_level=None, uri=True)
        return _configured(unlocked)


def _configured(connection: Connection) -> Connection:
    # The checksum of a row finds damaged text, which must not end the reading of the others.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    try:
        for pragma in (
            "locking_mode=EXCLUSIVE",
            "journal_mode=WAL",
            "synchronous=FULL",
            "secure_delete=ON",
            "temp_store=MEMORY",  # no text in a file of SQLite's own choice
            f"wal_autocheckpoint={_WAL_PAGES}",
            f"journal_size_limit={_WAL_KEPT_BYTES}",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("BEGIN EXCLUSIVE")  # now, and not at the first write
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: str) -> None:
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
    """All or nothing of what is done within."""
    connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        _overwrite(connection)
        raise


def _overwrite(connection: Connection) -> None:
    """Replace a commit in the WAL of which the sync failed: a later start would do it twice."""
    import sqlite3  # noqa: PLC0415

    with contextlib.suppress(sqlite3.Error):
        (number,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(f"PRAGMA user_version={1 - number}")


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn an error of SQLite or the system into a StoreError that a person can act on."""
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
            raise StoreError(in_use(path)) from error
        kind = _DiskFullError if number == errno.ENOSPC else StoreError
        raise kind(f"cannot use {path}: {why}") from error
