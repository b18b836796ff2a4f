"""Build a memory from the values of its front matter, key by key.

People may write a bare name in place of an entry. Any other form raises MemoryFormatError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

import msgspec

from forged.errors import MemoryFormatError
from forged.memory import (
    Entity,
    EntityRelation,
    Evidence,
    Memory,
    Piece,
    Related,
    Relationship,
    Trigger,
    default_category,
    evidence_named,
    one_form,
)

T = TypeVar("T")
Value: TypeAlias = "str | tuple[Value, ...] | dict[str, Value] | None"
"""Text of a scalar, list, group of keys, or None for a plain null."""


class Header(msgspec.Struct, frozen=True):
    """Parsed front matter: `values` of known keys, all `keys` in order, and the lines of unknown keys."""

    values: dict[str, Value]
    extra: str = ""
    keys: tuple[str, ...] = ()


_WHOLE = re.compile(r"0|[1-9][0-9]{0,8}")


def one_text(header: Mapping[str, Value], key: str, default: str) -> str:
    """Return the text of a key, `default` if it is missing. Raises MemoryFormatError for other forms."""
    value = header.get(key)
    if value is None:
        return default
    if not isinstance(value, str):
        raise MemoryFormatError(f"`{key}` must be one text, not a list or a group of keys")
    return value


def links(value: Value) -> tuple[Related, ...]:
    """Return the links in the value of `related`, except entries without an id. Raises MemoryFormatError."""
    if value is None:
        return ()
    if not isinstance(value, tuple):
        raise MemoryFormatError("`related` must be a list of entries with `id` and `relationship`")
    return tuple(_link(entry) for entry in value if _has_id(entry))


def lost_links(value: Value) -> int:
    """Return how many entries of `related` have no id."""
    return sum(not _has_id(entry) for entry in value) if isinstance(value, tuple) else 0


def _link(value: Value) -> Related:
    """Return the link in an entry of `related`, or in a bare id."""
    entry: dict[str, Value] = value if isinstance(value, dict) else {"id": value}
    return Related(
        one_form(one_text(entry, "id", "")), one_text(entry, "relationship", Relationship.RELATES_TO.value)
    )


def _has_id(entry: Value) -> bool:
    """Return True if an entry of `related` has an id, or is a bare one."""
    return isinstance(entry.get("id") if isinstance(entry, dict) else entry, str)


def cues(value: Value) -> tuple[str, ...]:
    """Return the cues in the value of `cues`: a list of lines, or one. Raises MemoryFormatError."""
    lines = tuple(entry for entry in _entries(value) if isinstance(entry, str))
    if len(lines) < len(_entries(value)):
        raise MemoryFormatError("`cues` must be a list of short lines")
    return lines


def evidence(value: Value) -> tuple[Evidence, ...]:
    """Return the evidence in the value of `evidence`; a bare path may end in its line numbers."""
    return tuple(map(_evidence_entry, _entries(value)))


def _evidence_entry(entry: Value) -> Evidence:
    """Return one piece of evidence, from an entry or a bare path. Raises MemoryFormatError."""
    if isinstance(entry, str):
        return evidence_named(entry)
    if not isinstance(entry, dict) or not one_text(entry, "path", ""):
        raise MemoryFormatError("`evidence` must be a list of paths, or of entries with `path`")
    return Evidence(*(one_text(entry, key, "") for key in Evidence.__struct_fields__))


def entities(value: Value) -> tuple[Entity, ...]:
    """Return the entities in the value of `entities`; an entry may be a bare name."""
    return tuple(map(_entity, _entries(value)))


def _entity(value: Value) -> Entity:
    """Return the entity of an entry, or of a bare name. Raises MemoryFormatError."""
    entry: dict[str, Value] = value if isinstance(value, dict) else {"name": value}
    if not isinstance(entry.get("name"), str) or not entry["name"]:
        raise MemoryFormatError("`entities` must be a list of names, or of entries with `name`")
    return Entity(*(one_text(entry, key, "") for key in Entity.__struct_fields__))


def relations(value: Value) -> tuple[EntityRelation, ...]:
    """Return the relations between entities in the value of `relations`. Raises MemoryFormatError."""
    return tuple(map(_relation, _entries(value)))


def _relation(entry: Value) -> EntityRelation:
    """Return the relation between two entities of an entry. Raises MemoryFormatError."""
    keys: dict[str, Value] = entry if isinstance(entry, dict) else {}
    source, relation, target = (one_text(keys, key, "") for key in ("source", "relation", "target"))
    if not (source and relation and target):
        raise MemoryFormatError(
            "`relations` must be a list of entries with `source`, `relation` and `target`"
        )
    return EntityRelation(source, relation, target, _weight(one_text(keys, "weight", "1")))


def _weight(text: str) -> float:
    """Return the text of a relation's weight as a finite number. Raises MemoryFormatError."""
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise MemoryFormatError(f"`weight` of a relation is {text[:40]!r}; write a number such as 0.5")
    return weight


def piece(value: Value) -> Piece | None:
    """Return the position in a document from the value of `document`, or None. Raises MemoryFormatError."""
    if value is None:
        return None
    if not isinstance(value, dict) or not one_text(value, "id", ""):
        raise MemoryFormatError("`document` must be a group of `id`, `index`, `of` and `source`")
    number, of = (_whole_number(value, key, default) for key, default in (("index", "0"), ("of", "1")))
    return Piece(one_text(value, "id", ""), number, of, one_text(value, "source", ""))


def _whole_number(header: Mapping[str, Value], key: str, default: str) -> int:
    """Return the value of a key as a whole number. Raises MemoryFormatError."""
    text = one_text(header, key, default)
    if _WHOLE.fullmatch(text) is None:
        raise MemoryFormatError(f"`{key}` of a document is {text[:40]!r}; write a whole number")
    return int(text)


def _entries(value: Value) -> tuple[Value, ...]:
    """Return the entries of a list without nulls; a single value counts as one entry."""
    return tuple(entry for entry in (value if isinstance(value, tuple) else (value,)) if entry is not None)


_VERSION = re.compile(r"\+?0*([1-9][0-9]{0,8})(?:\.[0-9]*)?")


def memory_of(header: Header, body: str, scope: str, name: str, wrong: list[tuple[str, str]]) -> Memory:
    """Build a memory from front matter and body; an invalid value becomes its default and goes to `wrong`."""

    def text(key: str, default: str = "") -> str:
        return read_as(lambda: one_text(header.values, key, default), key, default, wrong)

    def read(key: str, default: T, convert: Callable[[Value], T]) -> T:
        return read_as(lambda: convert(header.values.get(key)), key, default, wrong)

    return Memory(
        id=one_form(text("id")) or name,
        content=body,
        created_at=text("created_at"),
        updated_at=text("updated_at"),
        version=read("version", 1, lambda _: _version(one_text(header.values, "version", "1"))),
        scope=scope,
        category=text("category", default_category(scope)),
        session_id=text("session_id"),
        trigger=text("trigger", Trigger.EXPLICIT.value),
        supersedes=one_form(text("supersedes")) or None,
        related=read("related", (), links),
        extra=header.extra,
        origin=text("origin"),
        cues=read("cues", (), cues),
        evidence=read("evidence", (), evidence),
        entities=read("entities", (), entities),
        relations=read("relations", (), relations),
        piece=read("document", None, piece),
    )


def read_as(value: Callable[[], T], key: str, default: T, wrong: list[tuple[str, str]]) -> T:
    """Return the converted value of a key; if it is invalid, the default with an entry in `wrong`."""
    try:
        return value()
    except MemoryFormatError as error:
        wrong.append((key, str(error)))
        return default


def _version(text: str) -> int:
    """Return the text of a version as a whole number from 1. Raises MemoryFormatError."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise MemoryFormatError(f"`version` is {text[:40]!r}; write a whole number from 1")
    return int(match[1])


def note_on_links(value: Value) -> tuple[str, ...]:
    """Return a note on entries of `related` without an id, which are left out; or ()."""
    lost = lost_links(value)
    if not lost:
        return ()
    one = "an entry of `related` has no `id` and is left out"
    return (one if lost == 1 else f"{lost} entries of `related` have no `id` and are left out",)
