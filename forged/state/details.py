"""What is known of a memory beside its file: its type, how much it matters, metadata, and who wrote it.

Details never stand in the file, so files stay what a person wrote. They are put in the transaction that puts
the write itself on record, before the file has a name: whoever finds a memory finds its details, and a kill
between leaves a row that nobody reads until the request comes again. A new version takes over the details of
the one that it replaces, but for what it says itself. Answered from memory, in any thread.

What a caller gives is checked by `problem_of`: metadata is a JSON object of at most 32 keys and 4 KiB.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from forged.memory import Scope
from forged.state import tables
from forged.state.database import Damaged, Database

if TYPE_CHECKING:
    from sqlite3 import Connection

MOST_KEYS, MOST_BYTES, _MOST_KEY_CHARACTERS, _DEEPEST = 32, 4096, 128, 8
TYPES: Mapping[str, tuple[str, ...]] = {
    Scope.USER: ("fact", "preference", "summary"),
    Scope.AGENT: ("learning", "state", "persona", "scratchpad"),
}
"""The types that memories of a scope may have; those of the others have none."""


class Detail(msgspec.Struct, frozen=True, omit_defaults=True):
    """The details of one memory. `agent_id` and `user_id` say who wrote it, as far as that was told."""

    memory_type: str = ""
    importance: float = 1.0
    metadata: dict[str, Any] = {}
    agent_id: str = ""
    user_id: str = ""


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """What somebody says of a memory; the rest is as it was in the version before, or the default."""

    memory_type: str = ""
    importance: float | None = None
    metadata: dict[str, Any] = {}
    agent_id: str = ""
    user_id: str = ""

    def over(self, before: Detail) -> Detail:
        """The details that follow."""
        return Detail(
            self.memory_type or before.memory_type,
            before.importance if self.importance is None else self.importance,
            self.metadata or before.metadata,
            self.agent_id or before.agent_id,
            self.user_id or before.user_id,
        )


UNSAID, _DEFAULT = Said(), Detail()


class Detailing(msgspec.Struct, frozen=True):
    """What is said of a memory that is about to be written into a root, where it replaces `base`."""

    root: str
    id: str
    base: str = ""
    said: Said = UNSAID


class Details:
    """One for the daemon. All roots together, by the root's path and the memory's id."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, Detail] = {}

    def restore(self, rows: Iterable[tuple[str, Detail]]) -> None:
        """Take over what a file holds, as it is opened; what was written by then is newer."""
        self._known = dict(rows) | self._known

    def get(self, root: str, memory_id: str) -> Detail:
        """Those of a memory; the defaults where nobody said anything."""
        return self._known.get(key_of(root, memory_id), _DEFAULT)

    def wrote(self, details: Iterable[tuple[str, Detail]]) -> None:
        """These rows are in the file by now."""
        self._known.update(details)

    async def put(self, root: str, details: Mapping[str, Detail]) -> None:
        """Let these be the details of memories of a root, durably. Raises StoreError."""
        rows = [(key_of(root, each), detail) for each, detail in details.items() if detail != _DEFAULT]
        if rows:
            await self._database.run(partial(_put_all, rows))
            self.wrote(rows)

    async def forget(self, root: str, memory_ids: Collection[str]) -> None:
        """Keep nothing of these memories of a root; durably. Raises StoreError."""
        keys = [key for each in memory_ids if (key := key_of(root, each)) in self._known]
        if keys:
            await self._database.run(
                lambda connection: [tables.remove(connection, "details", key) for key in keys]
            )
        for key in keys:
            self._known.pop(key, None)


def key_of(root: str, memory_id: str) -> str:
    """The key of a memory in the tables that have rows of memories. No path of a root ends in a newline."""
    return f"{root}\n{memory_id}"


def put_detail(write: Detailing, connection: Connection) -> tuple[str, Detail] | None:
    """Put the details of a write within its transaction; the row, if there is anything to say."""
    before = _of(write.root, write.base, connection) if write.base else _DEFAULT
    detail = write.said.over(before)
    if detail == _DEFAULT:
        return None
    key = key_of(write.root, write.id)
    _put(key, detail, connection)
    return key, detail


def all_details(connection: Connection) -> tuple[tuple[str, Detail], ...]:
    """All rows. Raises Damaged."""
    return tuple((str(key), _decoded(said)) for key, said in tables.rows(connection, "details"))


def _of(root: str, memory_id: str, connection: Connection) -> Detail:
    row = tables.row_of(connection, "details", key_of(root, memory_id))
    return _DEFAULT if row is None else _decoded(row[1])


def _put_all(rows: Iterable[tuple[str, Detail]], connection: Connection) -> None:
    for key, detail in rows:
        _put(key, detail, connection)


def _put(key: str, detail: Detail, connection: Connection) -> None:
    tables.put(connection, "details", key, msgspec.msgpack.encode(detail))


def _decoded(row: tables.Value) -> Detail:
    try:
        return msgspec.msgpack.decode(row if isinstance(row, bytes) else b"", type=Detail)
    except msgspec.DecodeError as error:
        raise Damaged(f"the details of a memory cannot be read: {error}") from error


# --- what may be said ----------------------------------------------------------------------------------


def problem_of(said: Said, scope: str) -> str:
    """What is wrong with what somebody says of a memory of a scope, as a sentence, or nothing."""
    types = TYPES.get(scope, ())
    if said.memory_type and said.memory_type not in types:
        if not types:
            return f"memories of scope {scope} have no type; those of user and agent have"
        return f"unknown type {said.memory_type[:64]!r} in scope {scope}; use {', '.join(types)}"
    if said.importance is not None and not 0 <= said.importance <= 1:
        return f"importance {said.importance} is not between 0 and 1"
    return metadata_problem(said.metadata)


def metadata_problem(metadata: object) -> str:
    """What is wrong with metadata, or with a filter, which has its form."""
    if not isinstance(metadata, dict):
        return "metadata is not a JSON object"
    if len(metadata) > MOST_KEYS:
        return f"metadata has {len(metadata)} keys; {MOST_KEYS} are the most"
    if any(not isinstance(key, str) or not 0 < len(key) <= _MOST_KEY_CHARACTERS for key in metadata):
        return f"a key of metadata is not a text of 1 to {_MOST_KEY_CHARACTERS} characters"
    if not _is_json(metadata, _DEEPEST):
        return f"metadata is not JSON of at most {_DEEPEST} levels"
    size = len(msgspec.json.encode(metadata))
    return f"metadata takes {size} bytes; {MOST_BYTES} are the most" if size > MOST_BYTES else ""


def _is_json(value: object, deep: int) -> bool:
    """Whether every other reader of JSON sees the same."""
    match value:
        case None | bool():
            return True
        case int():
            return -(1 << 63) <= value < 1 << 63
        case float():
            return math.isfinite(value)
        case str():
            return _is_text(value)
        case list():
            return deep > 0 and all(_is_json(each, deep - 1) for each in value)
        case dict():
            return deep > 0 and all(_is_json(each, deep - 1) for pair in value.items() for each in pair)
    return False


def _is_text(value: str) -> bool:
    """Whether it can be written in UTF-8, without the one character that PostgreSQL has no place for."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value
