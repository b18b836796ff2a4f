"""What is known of a memory beside its file: its type, how much it matters, metadata, and who wrote it.

Details never stand in the file, so files stay what a person wrote. They are put in the transaction that puts
the write itself on record, before the file has a name: whoever finds a memory finds its details, and a kill
between leaves a row that nobody reads until the request comes again. A new version takes over the details of
the one that it replaces, but for what it says itself. Answered from memory, in any thread. There is room for
131,072 memories and 64 MiB.

What a caller gives is checked by `problem_of`: metadata is a JSON object of at most 32 keys and 4 KiB.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from forged.memory import TYPES
from forged.state.database import Change, Database
from forged.state.rows import MemoryRows, key_of

if TYPE_CHECKING:
    from sqlite3 import Connection

# Of memories in all; the details that were put longest ago go first.
MOST, MOST_IN_ALL = 1 << 17, 64 << 20
MOST_KEYS, MOST_BYTES, _MOST_KEY_CHARACTERS, _DEEPEST = 32, 4096, 128, 8


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


class Details(MemoryRows[Detail]):
    """One for the daemon. All roots together, by the root's path and the memory's id."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "details", Detail, durable=True, most=MOST, most_bytes=MOST_IN_ALL)

    def of(self, root: str, memory_id: str) -> Detail:
        """Those of a memory; the defaults where nobody said anything."""
        return self.get(key_of(root, memory_id), _DEFAULT)

    async def put(self, root: str, details: Mapping[str, Detail]) -> None:
        """Let these be the details of memories of a root, durably. Raises StoreError."""
        said = {each: detail for each, detail in details.items() if detail != _DEFAULT}
        await self.database.commit(self.returned(root, said))

    def following(self, writes: Iterable[Detailing], connection: Connection) -> Change:
        """Return the details of writes that share a transaction: one may replace another one of them."""
        fresh: dict[str, Detail | None] = {}
        for write in writes:
            base = key_of(write.root, write.base)
            before = (fresh.get(base) or self.read(connection, base)) if write.base else None
            detail = write.said.over(before or _DEFAULT)
            if detail != _DEFAULT:
                fresh[key_of(write.root, write.id)] = detail
        return self.change(fresh)


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
