"""A second file with what must not be lost when `state.db` is damaged: forgotten, pauses, trust, spending.

It is written once a day, holds no text of any event, and is read only to fill a new `state.db`. `write`
raises StoreError; `read` raises nothing: a copy that is missing or damaged itself is as good as none.
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

import msgspec

from forged.files import atomic
from forged.state import tables
from forged.state.tables import Columns

if TYPE_CHECKING:
    from sqlite3 import Connection

logger = logging.getLogger(__name__)

TABLES = (
    "forgotten",
    "pauses",
    "spending",
    "roots",
    "own_files",
    "approvals",
    "outbound",
    "brought",
    "excludes",
)
_DIGEST_BYTES = 16
_DECODER = msgspec.msgpack.Decoder(dict[str, tuple[tuple[str | int, ...], ...]])


def contents(connection: Connection) -> bytes:
    """The copy of what a file holds now."""
    said = msgspec.msgpack.encode({table: tuple(tables.rows(connection, table)) for table in TABLES})
    return _digest(said) + said


def write(path: str, data: bytes) -> None:
    """Put a copy in the place of the one before. Blocks for an fsync. Raises StoreError."""
    with atomic.explained(f"cannot write {path}"):
        atomic.replace(path, data)


def read(path: str) -> dict[str, tuple[Columns, ...]]:
    """Rows by table."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        if data[:_DIGEST_BYTES] != _digest(data[_DIGEST_BYTES:]):
            logger.warning("copy of the state is damaged path=%s", path)
            return {}
        return dict(_DECODER.decode(data[_DIGEST_BYTES:]))
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        logger.warning("copy of the state not read path=%s error=%s", path, error)
        return {}


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
