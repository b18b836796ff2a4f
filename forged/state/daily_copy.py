"""Daily copy of the tables that must survive damage of `state.db`: forgotten, pauses, trust, spending.

It contains no text of any event and is read only to fill a new `state.db`. `write` raises StoreError. `read`
raises nothing: a missing or damaged copy counts as none.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from forged.files import atomic
from forged.state import database
from forged_client.typed import resolved

if TYPE_CHECKING:
    from sqlite3 import Connection

logger = logging.getLogger(__name__)

_DIGEST_BYTES = 16
Rows = tuple[tuple[str, float, bytes], ...]


class _DailyCopy(msgspec.Struct, frozen=True):
    """Decoded daily copy: rows by table, without checksums, in a format of `state.db`."""

    format: int
    tables: dict[str, Rows]


_DECODER = msgspec.msgpack.Decoder(resolved(_DailyCopy))


def contents(names: Iterable[str], connection: Connection) -> bytes:
    """Return the bytes of a daily copy: a digest and the current rows of these tables."""
    held = {name: tuple(database.rows(connection, name)) for name in names}
    data = msgspec.msgpack.encode({"format": database.FORMAT, "tables": held})
    return _digest(data) + data


def write(path: str, data: bytes) -> None:
    """Replace the daily copy at `path`. Blocks for an fsync. Raises StoreError."""
    with atomic.explained(f"cannot write {path}"):
        atomic.replace(path, data)


def read(path: str) -> dict[str, Rows]:
    """Return the rows of a daily copy by table; none if it is missing, damaged or of another format."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        if data[:_DIGEST_BYTES] != _digest(data[_DIGEST_BYTES:]):
            logger.warning("copy of the state is damaged path=%s", path)
            return {}
        copy = _DECODER.decode(data[_DIGEST_BYTES:])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        logger.warning("copy of the state not read path=%s error=%s", path, error)
        return {}
    return copy.tables if copy.format == database.FORMAT else {}


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
