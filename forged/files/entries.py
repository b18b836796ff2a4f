"""What front matter says in lists and groups of keys: written line by line, and read as people write it.

Links, cues, evidence, entities, relations, and the document that a memory is a piece of. People write a bare
name where an entry would do; what has neither form raises MemoryFormatError with a sentence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from forged.errors import MemoryFormatError
from forged.files.scalars import scalar
from forged.memory import (
    Entity,
    Evidence,
    Memory,
    Piece,
    Related,
    Relation,
    Relationship,
    evidence_named,
    one_form,
)

Value: TypeAlias = "str | tuple[Value, ...] | dict[str, Value] | None"
"""A scalar's text, a list, a group of keys, or None for a plain null."""


class Header(msgspec.Struct, frozen=True):
    """The `values` of the known keys of a header, all its `keys` in order, and the lines of the others."""

    values: dict[str, Value]
    extra: str = ""
    keys: tuple[str, ...] = ()


_WHOLE = re.compile(r"0|[1-9][0-9]{0,8}")


def of_links(related: Iterable[Related]) -> Iterator[str]:
    """The lines of links to other memories."""
    return _list(
        "related", ({"id": scalar(one_form(e.id)), "relationship": scalar(e.relationship)} for e in related)
    )


def of_lists(memory: Memory) -> Iterator[str]:
    """The lines of all that stands behind the keys of one value."""
    if memory.cues:
        yield from ("cues:", *(f"    - {scalar(cue)}" for cue in memory.cues))
    yield from _list("evidence", (_texts("path", each) for each in memory.evidence))
    if (piece := memory.piece) is not None:
        yield from ("document:", f"    id: {scalar(piece.document_id)}")
        yield from (f"    index: {piece.index}", f"    of: {piece.of}")
        if piece.source:
            yield f"    source: {scalar(piece.source)}"
    yield from _list("entities", (_texts("name", each) for each in memory.entities))
    yield from _list("relations", map(_relation_keys, memory.relations))


def _list(key: str, entries: Iterable[Mapping[str, str]]) -> Iterator[str]:
    for number, entry in enumerate(entries):
        if not number:
            yield f"{key}:"
        for place, (name, value) in enumerate(entry.items()):
            yield f"{'      ' if place else '    - '}{name}: {value}"


def _texts(needed: str, entry: Evidence | Entity) -> dict[str, str]:
    """The texts of an entry; those that are empty are left out, but for the one that names it."""
    texts = ((name, getattr(entry, name)) for name in entry.__struct_fields__)
    return {name: scalar(text) for name, text in texts if text or name == needed}


def _relation_keys(relation: Relation) -> dict[str, str]:
    names = {key: scalar(getattr(relation, key)) for key in ("source", "relation", "target")}
    if relation.weight == 1 or not math.isfinite(relation.weight):
        return names
    return names | {"weight": repr(relation.weight)}


# Reading.


def one_text(header: Mapping[str, Value], key: str, default: str) -> str:
    """One text; raises MemoryFormatError for anything else."""
    value = header.get(key)
    if value is None:
        return default
    if not isinstance(value, str):
        raise MemoryFormatError(f"`{key}` must be one text, not a list or a group of keys")
    return value


def links(value: Value) -> tuple[Related, ...]:
    """Links; entries without an id lead nowhere and are left out."""
    if value is None:
        return ()
    if not isinstance(value, tuple):
        raise MemoryFormatError("`related` must be a list of entries with `id` and `relationship`")
    return tuple(_link(entry) for entry in value if _has_id(entry))


def lost_links(value: Value) -> int:
    """How many entries were left out."""
    return sum(not _has_id(entry) for entry in value) if isinstance(value, tuple) else 0


def _link(value: Value) -> Related:
    """One entry; a bare id, as people write it, relates to that memory."""
    entry: dict[str, Value] = value if isinstance(value, dict) else {"id": value}
    return Related(
        one_form(one_text(entry, "id", "")), one_text(entry, "relationship", Relationship.RELATES_TO.value)
    )


def _has_id(entry: Value) -> bool:
    return isinstance(entry.get("id") if isinstance(entry, dict) else entry, str)


def cues(value: Value) -> tuple[str, ...]:
    """Lines, or one that stands alone, as people write it."""
    lines = tuple(entry for entry in _entries(value) if isinstance(entry, str))
    if len(lines) < len(_entries(value)):
        raise MemoryFormatError("`cues` must be a list of short lines")
    return lines


def evidence(value: Value) -> tuple[Evidence, ...]:
    """Files that a memory stands on; a path alone, as people write it, may have its lines behind it."""
    return tuple(map(_ground, _entries(value)))


def _ground(entry: Value) -> Evidence:
    if isinstance(entry, str):
        return evidence_named(entry)
    if not isinstance(entry, dict) or not one_text(entry, "path", ""):
        raise MemoryFormatError("`evidence` must be a list of paths, or of entries with `path`")
    return Evidence(*(one_text(entry, key, "") for key in Evidence.__struct_fields__))


def entities(value: Value) -> tuple[Entity, ...]:
    """What a memory speaks of; people write its name alone."""
    return tuple(map(_entity, _entries(value)))


def _entity(value: Value) -> Entity:
    entry: dict[str, Value] = value if isinstance(value, dict) else {"name": value}
    if not isinstance(entry.get("name"), str) or not entry["name"]:
        raise MemoryFormatError("`entities` must be a list of names, or of entries with `name`")
    return Entity(*(one_text(entry, key, "") for key in Entity.__struct_fields__))


def relations(value: Value) -> tuple[Relation, ...]:
    """How what a memory speaks of is related."""
    return tuple(map(_relation, _entries(value)))


def _relation(entry: Value) -> Relation:
    keys: dict[str, Value] = entry if isinstance(entry, dict) else {}
    source, relation, target = (one_text(keys, key, "") for key in ("source", "relation", "target"))
    if not (source and relation and target):
        raise MemoryFormatError(
            "`relations` must be a list of entries with `source`, `relation` and `target`"
        )
    return Relation(source, relation, target, _weight(one_text(keys, "weight", "1")))


def _weight(told: str) -> float:
    try:
        weight = float(told)
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise MemoryFormatError(f"`weight` of a relation is {told[:40]!r}; write a number such as 0.5")
    return weight


def piece(value: Value) -> Piece | None:
    """Which part of a document a memory is."""
    if value is None:
        return None
    if not isinstance(value, dict) or not one_text(value, "id", ""):
        raise MemoryFormatError("`document` must be a group of `id`, `index`, `of` and `source`")
    number, of = (_number(value, key, default) for key, default in (("index", "0"), ("of", "1")))
    return Piece(one_text(value, "id", ""), number, of, one_text(value, "source", ""))


def _number(header: Mapping[str, Value], key: str, default: str) -> int:
    told = one_text(header, key, default)
    if _WHOLE.fullmatch(told) is None:
        raise MemoryFormatError(f"`{key}` of a document is {told[:40]!r}; write a whole number")
    return int(told)


def _entries(value: Value) -> tuple[Value, ...]:
    """Those of a list, or the one that stands alone; empty ones are none."""
    return tuple(entry for entry in (value if isinstance(value, tuple) else (value,)) if entry is not None)
