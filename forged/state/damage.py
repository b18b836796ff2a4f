"""A damaged `state.db` is set aside as it is, and its readable rows go into a new one.

What they do not say about forgotten texts, pauses and spending, the daily copy does. The new file remembers
that this has happened until a person acts: nobody knows for sure any more what was paused. It is made whole
under another name before the old one is moved, and a start finishes what a kill has interrupted.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import shutil
import time
from typing import TYPE_CHECKING

from forged.errors import StoreError
from forged.files import atomic
from forged.memory import utc_now
from forged.state import daily_copy, tables
from forged.state.database import Damaged, connect, explained, transaction
from forged.state.event_rows import dead_row
from forged.state.event_values import Event, is_event_id
from forged.state.tables import Columns

if TYPE_CHECKING:
    from sqlite3 import Connection

logger = logging.getLogger(__name__)

# Of a row in `meta`: what happened, and the name of the file that was set aside.
NOTE, ASIDE = "damage", "set_aside"

_PAGE = 4096
_SIZE_IN_PAGES = slice(28, 32)
_BESIDE = ("", "-wal", "-journal")


def open_whole(path: str, copy: str) -> Connection:
    """Open the file at `path`, or what takes its place if it is damaged, or gone though it has a `copy`.

    Raises StoreError if it cannot be used for another reason.
    """
    _finish(path)
    try:
        return _opened(path, copy)
    except Damaged as error:
        logger.error("state is damaged path=%s problem=%s", path, error)  # noqa: TRY400 - it is explained
        _make_fresh(path, copy, str(error))
        _swap(path)
        return connect(path)


def set_aside(path: str) -> list[str]:
    """Paths of all that was set aside of a file, and of what a kill has left half done."""
    parts = ("damaged-*", "fresh*", "salvage*")
    return [found for part in parts for found in glob.glob(f"{glob.escape(path)}.{part}")]


def _opened(path: str, copy: str) -> Connection:
    connection = connect(path)
    try:
        with explained(path):
            tables.start(connection, expected=os.path.exists(copy))
    except BaseException:
        connection.close()
        raise
    return connection


# --- the new file ---------------------------------------------------------------------------------------


def _make_fresh(path: str, copy: str, problem: str) -> None:
    aside = _unused(f"{path}.damaged-{time.strftime('%Y%m%d', time.gmtime())}")
    found, filling = _readable(path), daily_copy.read(copy)
    _remove(f"{path}.fresh")
    connection = connect(f"{path}.fresh")
    with contextlib.closing(connection), explained(path), transaction(connection):
        tables.create(connection)
        for table in daily_copy.TABLES:
            for row in filling.get(table, ()):
                tables.put(connection, table, *row)
        for table, rows in found.items():
            for row in rows:
                _take(connection, table, row, aside)
        note = (
            f"state.db was damaged ({problem}); what could be read was taken over, the damaged file is "
            f"{aside}; nothing is injected and captured, because a pause of yours may be lost; "
            "`forgectl resume --all` ends that"
        )
        tables.put(connection, "meta", NOTE, note)
        tables.put(connection, "meta", ASIDE, aside)


def _take(connection: Connection, table: str, row: Columns, aside: str) -> None:
    """Write a row as it was; of one that is not whole only what can be told from its key."""
    if tables.is_whole(table, row):
        if table != "meta":
            tables.put(connection, table, *row[:-1])
        return
    event_id = str(row[0])
    if table in ("events", "dead") and is_event_id(event_id):
        reason = f"unreadable since state.db was damaged; {aside} has its bytes"
        tables.put(connection, "dead", *dead_row(Event(id=event_id, received_at=""), reason, utc_now(), None))


def _unused(path: str) -> str:
    number, candidate = 1, path
    while os.path.lexists(candidate):
        number += 1
        candidate = f"{path}-{number}"
    return candidate


def _swap(path: str) -> None:
    fresh = f"{path}.fresh"
    with contextlib.closing(connect(fresh)) as connection:
        aside = tables.value_of(connection, ASIDE)
    with atomic.explained(f"cannot set {path} aside"):
        for suffix in reversed(_BESIDE):
            if os.path.lexists(path + suffix):
                os.rename(path + suffix, aside + suffix)
        os.rename(fresh, path)
        _sync(os.path.dirname(path))


def _finish(path: str) -> None:
    """Do the rest of a change that was killed in its middle."""
    _remove(f"{path}.salvage")
    fresh = f"{path}.fresh"
    if not os.path.exists(fresh):
        return
    with contextlib.closing(connect(fresh)) as connection:
        is_whole = not tables.is_new(connection)
    if is_whole:
        _swap(path)
    else:
        _remove(fresh)


# --- what can still be read -----------------------------------------------------------------------------


def _readable(path: str) -> dict[str, list[Columns]]:
    """Rows by table, with their checksums, of a copy of the damaged file, which itself stays as it is."""
    for mended in (False, True):
        scratch = f"{path}.salvage"
        _remove(scratch)
        try:
            _copy(path, scratch)
            if mended:
                _mend_first_page(scratch)
            with contextlib.closing(connect(scratch)) as connection, explained(scratch):
                named = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
                if named.issuperset(tables.OF_VERSION[1]):
                    return {table: _rows(connection, table) for table in tables.TABLES if table in named}
        except (OSError, StoreError) as error:
            logger.warning("damaged state not read path=%s error=%s", path, error)
        finally:
            _remove(scratch)
    return {}


def _rows(connection: Connection, table: str) -> list[Columns]:
    """Rows from the beginning and from the end, each as far as one gets."""
    import sqlite3  # noqa: PLC0415

    found: dict[object, Columns] = {}
    for order in ("ASC", "DESC"):
        with contextlib.suppress(sqlite3.Error):
            for row in tables.unchecked(connection, table, order):
                found[row[0]] = row
    return list(found.values())


def _copy(path: str, scratch: str) -> None:
    for suffix in _BESIDE:
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(path + suffix, scratch + suffix)


def _mend_first_page(scratch: str) -> None:
    """Give a file the first page that every file of these tables begins with: what they are and where."""
    pattern = f"{scratch}-empty"
    _remove(pattern)
    with contextlib.closing(connect(pattern)) as connection, transaction(connection):
        tables.create(connection)
    with open(pattern, "rb") as file:
        page = bytearray(file.read(_PAGE))
    _remove(pattern)
    page[_SIZE_IN_PAGES] = bytes(4)  # look at the file itself
    with open(scratch, "r+b") as file:
        file.write(page)


def _remove(path: str) -> None:
    for suffix in _BESIDE:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + suffix)


def _sync(directory: str) -> None:
    descriptor = os.open(directory, atomic.DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
