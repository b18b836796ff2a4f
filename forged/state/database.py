"""One SQLite file and the one thread that uses it.

`open` makes or opens the file and calls a function with the connection. `run` does the same with what a
caller wants to change or read: in that thread, in one transaction, one call after the other. What was changed
is on stable storage when `run` returns; with `durable=False` it outlives this process, but perhaps not a
power cut. StoreError says that nothing was changed, and why; Damaged that the file is not what was written.

The event loop never waits for a disk here. A caller that is cancelled goes away; what has begun is finished.

Which daemon has `state.db` open: a file beside it, locked as long as that daemon has it open.
The holder writes its pid, its socket and the place it runs in, and keeps a lock on the file. A daemon that
finds `state.db` in use reads it for the sentence that a person is told. The lock says whether the record is
of a living daemon, so what a killed one left misleads nobody. Who may use `state.db` SQLite's lock decides.
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
import fcntl
import json
import shlex

SUFFIX = ".holder"
"""Suffix of the file's name, behind the name of the file that it describes."""

_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST = 8192


class Holder:
    """The record of this daemon; for the thread of the database."""

    def __init__(self, path: str, address: str) -> None:
        """Take the paths of the file and of this daemon's socket, or none; nothing is touched yet."""
        self._path = path + SUFFIX
        self._address = address
        self._descriptor = -1

    def sign(self) -> None:
        """Write the record, once; where it cannot be written others are told less, which is all."""
        if self._descriptor >= 0:
            return
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
            try:
                self._write(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            self._descriptor = descriptor

    def release(self) -> None:
        """End the lock. The file goes first, while nobody else can hold it."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, descriptor: int) -> None:
        if not _is_ours(descriptor):
            raise OSError(f"{self._path} is not a file of ours")
        os.fchmod(descriptor, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        record = {"pid": os.getpid(), "socket": self._address, "place": _place(), "host": os.uname().nodename}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(record).encode(), 0)


def in_use(path: str) -> str:
    """Say which daemon has the file at `path` open, as far as it has told, and what helps."""
    record = _record(path + SUFFIX)
    if record is None:
        return (
            f"another program has {path} open, a daemon of yours at another address or a backup: end it; "
            "this daemon tries again every 5 s"
        )
    pid, address = record["pid"], record["socket"]
    named = ", ".join((f"pid {pid}", *([f"socket {address}"] if address else [])))
    told = f"another daemon of yours ({named}) has {path} open"
    if record["place"] != _place():
        return (
            f"{told}; it runs in another container or machine ({record['host']}): end it there with "
            "`forgectl stop`, or give this one a state of its own as `forgectl docs containers` says"
        )
    if not address:
        return told
    ended = f"`FORGED_SOCKET={shlex.quote(address)} forgectl stop`"
    return f"{told}; set FORGED_SOCKET to that socket here, or end it: {ended}"


def _record(path: str) -> dict[str, str] | None:
    """Read the record of a living holder; None where it wrote nothing, or ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError:
        return None
    try:
        if not _is_ours(descriptor) or _is_free(descriptor):
            return None
        found = json.loads(os.pread(descriptor, _LONGEST, 0))
        record = {name: str(found[name]) for name in ("pid", "socket", "place", "host")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    finally:
        os.close(descriptor)
    return record if all(map(str.isprintable, record.values())) else None


def _is_free(descriptor: int) -> bool:
    """Whether nobody holds the lock: then the daemon that wrote this has ended."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_ours(descriptor: int) -> bool:
    found = os.fstat(descriptor)
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1


def _place() -> str:
    """Where a pid and a path mean the same: this boot of this machine, in these namespaces."""
    told = [os.uname().nodename] if not os.path.exists("/proc/self/ns") else []
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        told.append(file.read().strip())
    for kind in ("pid", "mnt"):
        with contextlib.suppress(OSError):
            told.append(os.readlink(f"/proc/self/ns/{kind}"))
    return " ".join(told)


__all__ = ["Change", "Damaged", "Database", "Registered", "WriteOnly", "connect", "explained", "transaction"]

T = TypeVar("T")

_BUSY_S = 1.0
_WAL_PAGES, _WAL_KEPT_BYTES = 64, 1 << 18
_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
# What SQLite says on a file system without locks. The daemon has a lock of its own, so it can do without.
_NO_LOCKS = ("SQLITE_IOERR_LOCK", "SQLITE_IOERR_RDLOCK", "SQLITE_IOERR_CHECKRESERVEDLOCK", "SQLITE_NOLFS")
_AS_ERRNO = {"SQLITE_FULL": errno.ENOSPC, "SQLITE_IOERR": errno.EIO, "SQLITE_READONLY": errno.EROFS}


class Damaged(StoreError):  # noqa: N818 - reads as the state it names
    """The file holds something else than what was written to it."""


class Registered(Protocol):
    """A table of the file: what is read at open, and written every five seconds."""

    name: str
    is_copied: bool

    def load(self, connection: Connection) -> Callable[[], object]: ...

    async def save(self) -> None: ...


class Change(Protocol):
    """A part of a transaction: `write` in it, `apply` once it is in the file; both in the file's thread.

    `name` is the table's.
    """

    name: str
    is_empty: bool

    def write(self, connection: Connection) -> object: ...

    def apply(self) -> object: ...


class WriteOnly:
    """A change that is in the file alone."""

    is_empty = False

    def __init__(self, name: str, write: Callable[[Connection], object]) -> None:
        self.name, self.write = name, write

    def apply(self) -> None:
        """Leave memory as it is."""


class Database:
    """The file at `path`. `journal` is `wal`, or another word where the file system cannot do that."""

    def __init__(self, path: str, address: str = "") -> None:
        """Take absolute paths of the file and of the daemon's socket; nothing is touched before `open`."""
        self.path = path
        self.tables: list[Registered] = []
        self._holder = Holder(path, address)
        self.journal = ""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="state")
        self._connection: Connection | None = None
        self._closed_for = f"{path} is not open"
        self._was_full = False

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    async def open(self, prepare: Callable[[str], Connection], then: Callable[[Connection], T]) -> T:
        """Keep the connection that `prepare` makes of the path; return what `then` makes of it.

        Raises what these raise, and keeps nothing then; it may be called again.
        """

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
        """Return what `work` returns, which must raise nothing but sqlite3's errors and StoreError."""
        return await self._in_thread(partial(self.change, work, durable=durable))

    async def commit(self, *changes: Change, durable: bool = True) -> None:
        """Write changes in one transaction, then apply them. Raises StoreError; nothing has changed then."""
        if any(not change.is_empty for change in changes):
            await self._in_thread(partial(self.commit_here, *changes, durable=durable))

    def commit_here(self, *changes: Change, durable: bool = True) -> None:
        """As `commit`, for who is in the thread already."""

        def write(connection: Connection) -> None:
            for change in changes:
                change.write(connection)

        self.change(write, durable=durable)
        for change in changes:
            change.apply()

    def submit(self, work: Callable[[], None]) -> None:
        """Have `work` done in the thread, where it may call `change`. Raises StoreError if that has ended."""
        try:
            self._thread.submit(work)
        except RuntimeError as error:
            raise StoreError(f"{self.path} is closed") from error

    def change(self, work: Callable[[Connection], T], *, durable: bool = True) -> T:
        """As `run`, for who is in the thread already."""

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
        """Leave no byte in the file and its journal of what was removed from them. Raises StoreError.

        `secure_delete` is not enough: a row that was moved to another page when its neighbours grew leaves a
        copy behind that no later removal finds, so the file is written anew.
        """

        def erased() -> None:
            with explained(self.path):
                connection = self._opened()
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

        await self._in_thread(erased)

    async def close(self) -> None:
        """Close the file, if it is open, which also empties its journal; the thread ends."""

        def closed() -> None:
            self._holder.release()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        with contextlib.suppress(StoreError):
            await self._in_thread(closed)
        self._thread.shutdown(wait=False)

    def _shrink_journal(self) -> None:
        """Give back the room that the WAL takes: on a disk that was full there may be no other."""
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


class _DiskFullError(StoreError):
    """The disk has no room."""


def connect(path: str) -> Connection:
    """Open a file of ours, 0600, and make it if it is missing. Raises StoreError, Damaged.

    It is locked as long as it is open: nobody else writes to it, and SQLite needs no shared memory. Where the
    file system has no locks a rollback journal takes the place of the WAL.
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
    # Damaged text is for the checksum of its row to find, and must not end the reading of the others.
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
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
    """See to it that no later start finds a commit in the WAL of which the sync failed.

    It was not acknowledged, and would be done twice. The smallest write there is takes its place.
    """
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
