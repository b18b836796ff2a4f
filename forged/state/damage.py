"""Set aside a `state.db` that is damaged or has an older format, and create a new one.

The new file gets the readable rows of a damaged file, and missing tables from the daily copy. An older format
is not read. The new file records the event until a person acts, because pauses may be lost. It is complete
under another name before the old file is moved. A start finishes a change that a kill interrupted.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import shutil
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from forged.errors import StoreError
from forged.files import atomic
from forged.memory import utc_now
from forged.state import daily_copy, database
from forged.state.database import Columns, Damaged, Registered, connect, explained, transaction
from forged.state.event_values import DeadLetter, Event, is_event_id

if TYPE_CHECKING:
    from sqlite3 import Connection

logger = logging.getLogger(__name__)

# Keys in `meta`: the event, and the name of the file that was set aside.
NOTE, ASIDE = "damage", "set_aside"

_OF_FORMAT = ".format-"
_PAGE = 4096
_SIZE_IN_PAGES = slice(28, 32)
_SUFFIXES = ("", "-wal", "-journal")


def open_or_repair(path: str, copy: str, known: Sequence[Registered]) -> Connection:
    """Open the file at `path`, or its replacement if it is damaged, or missing although a `copy` exists.

    `known` are its tables. Raises StoreError if it cannot be used for another reason.
    """
    state = _StateFile(path, copy, known)
    state.finish()
    try:
        return state.opened()
    except database.Outdated as error:
        logger.warning("state is set aside path=%s problem=%s", path, error)
        state.set_aside(error)
    except Damaged as error:
        logger.error("state is damaged path=%s problem=%s", path, error)  # noqa: TRY400 - explained
        state.repair(error)
    return connect(path)


def set_aside(path: str) -> list[str]:
    """Return the paths of all files that were set aside, and of leftovers of interrupted changes."""
    parts = ("damaged-*", "format-*", "fresh*", "salvage*")
    return [found for part in parts for found in glob.glob(f"{glob.escape(path)}.{part}")]


class _StateFile:
    """The state file, its daily copy and its tables, while they are opened."""

    def __init__(self, path: str, copy: str, known: Sequence[Registered]) -> None:
        self._path, self._copy, self._known = path, copy, known
        self._names = [table.name for table in known]

    def opened(self) -> Connection:
        connection = connect(self._path)
        try:
            with explained(self._path):
                database.start(connection, self._names, expected=os.path.exists(self._copy))
        except BaseException:
            connection.close()
            raise
        return connection

    def set_aside(self, problem: database.Outdated) -> None:
        """Replace a file of an older format by an empty one, with a note for the person."""
        aside = self._aside(f"format-{problem.number}")
        with contextlib.closing(connect(self._path)) as connection, explained(self._path):
            held = _counted(connection)
        note = (
            f"state.db is of an older forged (format {problem.number}) and is not read; it is {aside} now, "
            f"with {held}; nothing is injected, captured or trusted, because a pause of yours "
            "may be lost; `forgectl resume --all` ends that; any `forgectl forget` deletes that file"
        )
        self._make_fresh({}, {}, aside, note)
        self._swap()

    def repair(self, problem: Damaged) -> None:
        """Replace a damaged file by one with the readable rows."""
        aside = self._aside("damaged")
        note = (
            f"state.db was damaged ({problem}); what could be read was kept, the damaged file is "
            f"{aside}; nothing is injected or captured, because a pause of yours may be lost; "
            "`forgectl resume --all` ends that"
        )
        self._make_fresh(daily_copy.read(self._copy), self._readable(), aside, note)
        self._swap()

    def _make_fresh(
        self, filling: dict[str, daily_copy.Rows], found: dict[str, list[Columns]], aside: str, note: str
    ) -> None:
        """Create the new file with its rows under a temporary name."""
        fresh, copied = f"{self._path}.fresh", [table.name for table in self._known if table.is_copied]
        _remove(fresh)
        connection = connect(fresh)
        with contextlib.closing(connection), explained(self._path), transaction(connection):
            database.create(connection, self._names)
            for name in copied:
                for filled in filling.get(name, ()):
                    database.put(connection, name, *filled)
            for name, rows in found.items():
                for row in rows:
                    _restore_row(connection, name, row, aside)
            database.put(connection, "meta", NOTE, note)
            database.put(connection, "meta", ASIDE, aside)

    def _aside(self, why: str) -> str:
        """Return a free name for the file to set aside."""
        number, first = 1, f"{self._path}.{why}-{time.strftime('%Y%m%d', time.gmtime())}"
        candidate = first
        while os.path.lexists(candidate):
            number += 1
            candidate = f"{first}-{number}"
        return candidate

    def _swap(self) -> None:
        """Move the old file aside and the new one to its place."""
        fresh = f"{self._path}.fresh"
        with contextlib.closing(connect(fresh)) as connection:
            aside = database.value_of(connection, ASIDE)
        with atomic.explained(f"cannot set {self._path} aside"):
            for suffix in reversed(_SUFFIXES):
                if os.path.lexists(self._path + suffix):
                    os.rename(self._path + suffix, aside + suffix)
            if _OF_FORMAT in aside and os.path.lexists(self._copy):
                os.rename(self._copy, f"{aside}-copy")
            os.rename(fresh, self._path)
            _sync(os.path.dirname(self._path))

    def finish(self) -> None:
        """Complete a change that was interrupted by a kill."""
        _remove(f"{self._path}.salvage")
        fresh = f"{self._path}.fresh"
        if not os.path.exists(fresh):
            return
        with contextlib.closing(connect(fresh)) as connection:
            is_whole = not database.is_new(connection)
        if is_whole:
            self._swap()
        else:
            _remove(fresh)

    def _readable(self) -> dict[str, list[Columns]]:
        """Return the rows by table, with checksums, from a copy of the damaged file."""
        for mended in (False, True):
            scratch = f"{self._path}.salvage"
            _remove(scratch)
            try:
                _copy(self._path, scratch)
                if mended:
                    self._repair_first_page(scratch)
                with contextlib.closing(connect(scratch)) as connection, explained(scratch):
                    there = database.names_in(connection)
                    if "meta" in there and "events" in there:
                        return {name: _rows(connection, name) for name in self._names if name in there}
            except (OSError, StoreError) as error:
                logger.warning("damaged state not read path=%s error=%s", self._path, error)
            finally:
                _remove(scratch)
        return {}

    def _repair_first_page(self, scratch: str) -> None:
        """Write the standard first page into a file: the schema and the locations of the tables."""
        pattern = f"{scratch}-empty"
        _remove(pattern)
        with contextlib.closing(connect(pattern)) as connection, transaction(connection):
            database.create(connection, self._names)
        with open(pattern, "rb") as file:
            page = bytearray(file.read(_PAGE))
        _remove(pattern)
        page[_SIZE_IN_PAGES] = bytes(4)  # read the file without the schema
        with open(scratch, "r+b") as file:
            file.write(page)


def _counted(connection: Connection) -> str:
    """Return how many rows each table has, for the log."""
    counts = []
    for name in sorted(database.names_in(connection) - {"meta"}):
        (count,) = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()  # noqa: S608
        if count:
            counts.append(f"{count} of {name}")
    return f"rows in it: {', '.join(counts)}" if counts else "nothing in it"


def _restore_row(connection: Connection, table: str, row: Columns, aside: str) -> None:
    """Write a row as it was; of a damaged row only the information of its key."""
    if database.is_whole(table, row):
        database.put(connection, table, *row[:-1])
        return
    event_id = str(row[0])
    if table in ("events", "dead") and is_event_id(event_id):
        reason = f"unreadable since state.db was damaged; {aside} has its bytes"
        lost = DeadLetter(Event(id=event_id, received_at=""), reason, utc_now())
        database.put(connection, "dead", event_id, 0.0, msgspec.msgpack.encode(lost))


def _rows(connection: Connection, table: str) -> list[Columns]:
    import sqlite3  # noqa: PLC0415

    found: dict[object, Columns] = {}
    for order in ("ASC", "DESC"):
        with contextlib.suppress(sqlite3.Error):
            for row in database.unchecked(connection, table, order):
                found[row[0]] = row
    return list(found.values())


def _copy(path: str, scratch: str) -> None:
    for suffix in _SUFFIXES:
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(path + suffix, scratch + suffix)


def _remove(path: str) -> None:
    for suffix in _SUFFIXES:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + suffix)


def _sync(directory: str) -> None:
    descriptor = os.open(directory, atomic.DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
