"""Attributes of a memory (`Facts`) that are not in its file: changes and limits.

Metadata is a JSON object of at most 32 keys and 4 KiB.
"""

# ruff: noqa: PLC0414 - a name to be imported from here

from __future__ import annotations

import math
from typing import Any

import msgspec

from forged_client.contract.memories import TYPES
from forged_client.contract.memories import Facts as Facts

MOST_KEYS, MOST_BYTES = 32, 4096
_MOST_KEY_CHARACTERS, _DEEPEST = 128, 8

UNKNOWN = Facts()


class FactsPatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """Change of the attributes of a memory that a writer may set; None leaves one as it is."""

    memory_type: str | None = None
    importance: float | None = None
    metadata: dict[str, Any] | None = None
    agent_id: str | None = None
    user_id: str | None = None

    def apply(self, before: Facts) -> Facts:
        """Return attributes `before` with those changed that this patch sets."""
        given = msgspec.structs.asdict(self).items()
        return msgspec.structs.replace(before, **{name: each for name, each in given if each is not None})

    def problem(self, scope: str) -> str:
        """Return why a memory of a scope cannot get these attributes: type, importance or metadata; or ""."""
        types = TYPES.get(scope, ())
        if self.memory_type and self.memory_type not in types:
            if not types:
                return f"memories of scope {scope} have no type; only those of user and agent do"
            return f"unknown type {self.memory_type[:64]!r} in scope {scope}; use {', '.join(types)}"
        if self.importance is not None and not 0 <= self.importance <= 1:
            return f"importance {self.importance} is not between 0 and 1"
        return metadata_problem(self.metadata) if self.metadata else ""


UNCHANGED = FactsPatch()


def patch_of(facts: Facts) -> FactsPatch:
    """Return the patch that sets on another memory those attributes which are set in `facts`."""
    return FactsPatch(
        facts.memory_type or None,
        facts.importance,
        facts.metadata or None,
        facts.agent_id or None,
        facts.user_id or None,
    )


def carried_over(facts: Facts, scope: str) -> FactsPatch:
    """Return the patch that keeps attributes in a move to another scope; drops a type unknown there."""
    if facts.memory_type not in TYPES.get(scope, ()):
        facts = msgspec.structs.replace(facts, memory_type="")
    return patch_of(facts)


def metadata_problem(metadata: object) -> str:
    """Return why metadata, or a filter of the same form, is refused: form, keys, depth or size; or ""."""
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
    """Return True if all JSON readers read a value alike, and it has at most `deep` levels."""
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
    """Return True if UTF-8 and PostgreSQL can hold a text: no lone surrogate, no NUL."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value
