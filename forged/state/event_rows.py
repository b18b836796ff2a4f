"""Rows of capture events as they are read back, and the rows of those that were given up.

Each function is done in the thread of the database, within a transaction. `events` waits, `journal` says what
an event comes to, `dead` holds what was given up. What is read is checked: Damaged says that a row is not
what was written.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from forged.state import tables
from forged.state.cutting import Cut, cut
from forged.state.database import Damaged
from forged.state.event_values import DeadEvent, Document, Event, encoded
from forged.state.tables import Columns
from forged.text.forgetting import Words

if TYPE_CHECKING:
    from sqlite3 import Connection

logger = logging.getLogger(__name__)

_Documents = tuple[Document, ...]

_EVENT = msgspec.msgpack.Decoder(Event)
_DOCUMENTS = msgspec.msgpack.Decoder(_Documents)


class Stored(msgspec.Struct, frozen=True):
    """What a file holds: events that wait, in order, with their bytes; documents by event; how many dead."""

    events: tuple[tuple[Event, int], ...] = ()
    documents: tuple[tuple[str, _Documents], ...] = ()
    dead: int = 0


def stored(connection: Connection) -> Stored:
    """All that waits. Raises Damaged."""
    return Stored(
        tuple((_event(row[1]), len(_blob(row[1]))) for row in tables.rows(connection, "events")),
        tuple((str(row[0]), _documents(row[1]) or ()) for row in tables.rows(connection, "journal")),
        _count_dead(connection),
    )


def dead_row(event: Event, reason: str, died_at: str, documents: _Documents | None) -> Columns:
    """The row of an event that was given up."""
    decided = None if documents is None else encoded(documents)
    return (event.id, event.kind, reason, died_at, encoded(event), decided)


def put_dead(connection: Connection, row: Columns, most_bytes: int) -> int:
    """Add a row to the dead, which are kept to `most_bytes` if turns can pay for it; how many there are."""
    tables.put(connection, "dead", *row)
    _trim(connection, most_bytes)
    return _count_dead(connection)


def _trim(connection: Connection, most_bytes: int) -> None:
    query = "SELECT id, kind, length(event) + ifnull(length(documents), 0) FROM dead ORDER BY id"
    sizes = connection.execute(query).fetchall()
    over = sum(size for _, _, size in sizes) - most_bytes
    for event_id, kind, size in sizes:
        if over > 0 and kind == "turn":
            tables.remove(connection, "dead", event_id)
            over -= size
            logger.warning("dead turn erased, there are too many event=%s bytes=%d", event_id, size)


def _count_dead(connection: Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM dead").fetchone()
    return int(count)


def dead(connection: Connection) -> tuple[DeadEvent, ...]:
    return tuple(_dead_event(row) for row in tables.rows(connection, "dead"))


def revive(event_id: str, connection: Connection) -> tuple[Event, int, _Documents | None] | None:
    row = tables.row_of(connection, "dead", event_id)
    found = None if row is None else _dead_event(row)
    if found is None or not found.event.window:
        return None
    data = encoded(found.event)
    tables.put(connection, "events", event_id, data)
    if found.documents is not None:
        tables.put(connection, "journal", event_id, encoded(found.documents))
    tables.remove(connection, "dead", event_id)
    return found.event, len(data), found.documents


def drop(event_ids: Sequence[str], connection: Connection) -> int:
    return sum(tables.remove(connection, "dead", event_id) for event_id in event_ids)


def cut_dead(unwanted: Sequence[Words], connection: Connection) -> tuple[Cut, int]:
    """Take sentences out of all dead events; what was done, and how many of them are gone with it."""
    done, gone = Cut(), 0
    for item in dead(connection):
        left = cut(item.event, item.documents, unwanted)
        done += left.cut
        if left.sentences and left.is_empty:
            gone += drop([item.event.id], connection)
        elif left.sentences:
            row = dead_row(left.event, item.reason, item.died_at, left.documents)
            tables.put(connection, "dead", *row)
    return done, gone


# --- values ---------------------------------------------------------------------------------------------


def _event(data: object) -> Event:
    try:
        return _EVENT.decode(_blob(data))
    except msgspec.DecodeError as error:
        raise Damaged(f"an event cannot be read: {error}") from error


def _documents(data: object) -> _Documents | None:
    try:
        return None if data is None else _DOCUMENTS.decode(_blob(data))
    except msgspec.DecodeError as error:
        raise Damaged(f"documents cannot be read: {error}") from error


def _dead_event(row: Columns) -> DeadEvent:
    _, _, reason, died_at, event, documents = row
    size = len(_blob(event)) + len(_blob(documents or b""))
    return DeadEvent(_event(event), str(reason), str(died_at), size, _documents(documents))


def _blob(data: object) -> bytes:
    assert isinstance(data, bytes)
    return data
