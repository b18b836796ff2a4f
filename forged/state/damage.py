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
from forged.state.database import Columns, Damaged, RegisteredTable, connect, explained, transaction
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


def open_or_repair(path: str, copy: str, known: Sequence[RegisteredTable]) -> Connection:
    """Open `state.db`; if damaged, lost or of an older format, replace it by a new file first.

    `known` are its tables. Raises StoreError if it cannot be used for another reason.
    """
    state = _StateFile(path, copy, known)
    state.finish_interrupted()
    try:
        return state.open()
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
    """`state.db` on disk: opened, set aside if outdated, rebuilt from readable rows if damaged."""

    def __init__(self, path: str, copy: str, known: Sequence[RegisteredTable]) -> None:
        self._path, self._copy, self._known = path, copy, known
        self._names = [table.name for table in known]

    def open(self) -> Connection:
        """Open and check `state.db`; create its tables if it is new. Raises Damaged, Outdated."""
        connection = connect(self._path)
        try:
            with explained(self._path):
                database.start(connection, self._names, expected=os.path.exists(self._copy))
        except BaseException:
            connection.close()
            raise
        return connection

    def set_aside(self, problem: database.Outdated) -> None:
        """Move a file of an older format aside and put an empty one with a note in its place."""
        aside = self._free_name(f"format-{problem.number}")
        with contextlib.closing(connect(self._path)) as connection, explained(self._path):
            held = _row_counts(connection)
        note = (
            f"state.db is of an older forged (format {problem.number}) and is not read; it is {aside} now, "
            f"with {held}; nothing is injected, captured or trusted, because a pause of yours "
            "may be lost; `forgectl resume --all` ends that; any `forgectl forget` deletes that file"
        )
        self._make_fresh({}, {}, aside, note)
        self._swap_in()

    def repair(self, problem: Damaged) -> None:
        """Set a damaged file aside for a new one of daily copy, readable rows and a note."""
        aside = self._free_name("damaged")
        note = (
            f"state.db was damaged ({problem}); what could be read was kept, the damaged file is "
            f"{aside}; nothing is injected or captured, because a pause of yours may be lost; "
            "`forgectl resume --all` ends that"
        )
        self._make_fresh(daily_copy.read(self._copy), self._readable_rows(), aside, note)
        self._swap_in()

    def _make_fresh(
        self, filling: dict[str, daily_copy.Rows], found: dict[str, list[Columns]], aside: str, note: str
    ) -> None:
        """Create the new file under a temporary name, from the daily copy, the readable rows and the note."""
        fresh, copied = f"{self._path}.fresh", [table.name for table in self._known if table.is_copied]
        _remove_file(fresh)
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

    def _free_name(self, why: str) -> str:
        """Return a free name for the file to be set aside, from the reason and the day."""
        number, first = 1, f"{self._path}.{why}-{time.strftime('%Y%m%d', time.gmtime())}"
        candidate = first
        while os.path.lexists(candidate):
            number += 1
            candidate = f"{first}-{number}"
        return candidate

    def _swap_in(self) -> None:
        """Rename the old file to its name set aside, and the new one to its place; sync the directory."""
        fresh = f"{self._path}.fresh"
        with contextlib.closing(connect(fresh)) as connection:
            aside = database.meta_value(connection, ASIDE)
        with atomic.explained(f"cannot set {self._path} aside"):
            for suffix in reversed(_SUFFIXES):
                if os.path.lexists(self._path + suffix):
                    os.rename(self._path + suffix, aside + suffix)
            if _OF_FORMAT in aside and os.path.lexists(self._copy):
                os.rename(self._copy, f"{aside}-copy")
            os.rename(fresh, self._path)
            _sync_directory(os.path.dirname(self._path))

    def finish_interrupted(self) -> None:
        """Complete a replacement of the file that a kill interrupted, or remove its unfinished parts."""
        _remove_file(f"{self._path}.salvage")
        fresh = f"{self._path}.fresh"
        if not os.path.exists(fresh):
            return
        with contextlib.closing(connect(fresh)) as connection:
            is_whole = not database.is_new(connection)
        if is_whole:
            self._swap_in()
        else:
            _remove_file(fresh)

    def _readable_rows(self) -> dict[str, list[Columns]]:
        """Return the rows that can be read from a copy of the damaged file, by table, with checksums."""
        for mended in (False, True):
            scratch = f"{self._path}.salvage"
            _remove_file(scratch)
            try:
                _copy_file(self._path, scratch)
                if mended:
                    self._repair_first_page(scratch)
                with contextlib.closing(connect(scratch)) as connection, explained(scratch):
                    there = database.table_names(connection)
                    if "meta" in there and "events" in there:
                        return {name: _salvage(connection, name) for name in self._names if name in there}
            except (OSError, StoreError) as error:
                logger.warning("damaged state not read path=%s error=%s", self._path, error)
            finally:
                _remove_file(scratch)
        return {}

    def _repair_first_page(self, scratch: str) -> None:
        """Replace the first page of a copy, with schema and locations of tables, by that of a new file."""
        pattern = f"{scratch}-empty"
        _remove_file(pattern)
        with contextlib.closing(connect(pattern)) as connection, transaction(connection):
            database.create(connection, self._names)
        with open(pattern, "rb") as file:
            page = bytearray(file.read(_PAGE))
        _remove_file(pattern)
        page[_SIZE_IN_PAGES] = bytes(4)  # read the file without the schema
        with open(scratch, "r+b") as file:
            file.write(page)


def _row_counts(connection: Connection) -> str:
    """Return the number of rows of each table, as words for the note to a person."""
    counts = []
    for name in sorted(database.table_names(connection) - {"meta"}):
        (count,) = connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()  # noqa: S608
        if count:
            counts.append(f"{count} of {name}")
    return f"rows in it: {', '.join(counts)}" if counts else "nothing in it"


def _restore_row(connection: Connection, table: str, row: Columns, aside: str) -> None:
    """Write a readable row to the new file if it is whole; a damaged event becomes a dead one by its id."""
    if database.is_whole(table, row):
        database.put(connection, table, *row[:-1])
        return
    event_id = str(row[0])
    if table in ("events", "dead") and is_event_id(event_id):
        reason = f"unreadable since state.db was damaged; {aside} has its bytes"
        lost = DeadLetter(Event(id=event_id, received_at=""), reason, utc_now())
        database.put(connection, "dead", event_id, 0.0, msgspec.msgpack.encode(lost))


def _salvage(connection: Connection, table: str) -> list[Columns]:
    """Return the rows of a damaged table that can be read from its first key or its last."""
    import sqlite3  # noqa: PLC0415

    found: dict[object, Columns] = {}
    for order in ("ASC", "DESC"):
        with contextlib.suppress(sqlite3.Error):
            for row in database.unchecked(connection, table, order):
                found[row[0]] = row
    return list(found.values())


def _copy_file(path: str, scratch: str) -> None:
    """Copy a database file with its journals, so that the damaged original stays untouched."""
    for suffix in _SUFFIXES:
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(path + suffix, scratch + suffix)


def _remove_file(path: str) -> None:
    """Remove a database file with its journals, if they exist."""
    for suffix in _SUFFIXES:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + suffix)


def _sync_directory(directory: str) -> None:
    """Sync a directory, so that renames in it survive a power cut."""
    descriptor = os.open(directory, atomic.DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
