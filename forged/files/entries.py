"""What front matter says, key by key: written line by line, and read as people or forged write it.

Links, cues, evidence, entities, relations, and the document that a memory is a piece of. People write a bare
name where an entry would do; what has neither form raises MemoryFormatError with a sentence. The exact form
that forged and the Go program write is read by one expression.

Scalars have the three styles of go-yaml v3's emitter, whose quoting no general dumper has. Beyond it `=` and
`<<` are quoted, because a YAML 1.1 reader gives them a meaning, and text with line ends is escaped instead of
becoming a `|` block.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import TypeAlias

import msgspec

from forged.errors import MemoryFormatError
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


# --- scalars -------------------------------------------------------------------------------------------

_ASCII_ESCAPED = re.compile("[^\x20-\x7e]")
_NEEDS_QUOTES = re.compile(r"[#,\[\]{}&*!|>'\"%@` ]|[-?:](?: |\Z)|---|\.\.\.|.*(?:: |:\Z| #| \Z)", re.DOTALL)
_WORD_WITH_TYPE = re.compile(
    r"|~|null|Null|NULL|true|True|TRUE|false|False|FALSE|=|<<|\.nan|\.NaN|\.NAN|[-+]?\.(?:inf|Inf|INF)"
    r"|[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF"
)
_READS_AS_NUMBER = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+"
    r"|[-+]?0(?:[xX][0-9a-fA-F]*|[oO][0-7]*|[bB][01]*)"
    r"|[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"  # base 60
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][0-9:.Zz+ -]*)?")
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")
_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v",
    "\f": "\\f", "\r": "\\r", "\x1b": "\\e", "\x85": "\\N", "\u2028": "\\L", "\u2029": "\\P",
}  # fmt: skip


@cache  # the wide class takes 6 ms to compile: not at the start of a daemon
def _escaped() -> re.Pattern[str]:
    return re.compile("[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")


def scalar(text: str) -> str:
    """Return a text as the value of a key. What UTF-8 cannot hold becomes `?`."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    escaped = _ASCII_ESCAPED if text.isascii() else _escaped()
    if escaped.search(text) or _reads_as_another_type(text):
        return '"' + re.sub(rf'["\\]|{escaped.pattern}', _escape, text) + '"'
    if _NEEDS_QUOTES.match(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _reads_as_another_type(text: str) -> bool:
    digits = text.replace("_", "")
    if _WORD_WITH_TYPE.fullmatch(text) or _READS_AS_NUMBER.fullmatch(digits) or _DATE.fullmatch(text):
        return True
    # go-yaml takes 1e5 for a number and 1e400 for text; session ids of hex digits can look like either.
    return _EXPONENT.fullmatch(digits) is not None and math.isfinite(float(digits))


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


# --- the exact form ------------------------------------------------------------------------------------

_Keys = dict[str, str]

_TEXT = (
    r"""(?:(?!(?i:null)\n)[A-Za-z0-9_][A-Za-z0-9_./+:-]*(?<!:)"""  # plain; no blank, no colon at the end
    r"""|"[ !#-\[\]-~]*"|'[ -&(-~]*')"""  # quoted ASCII with nothing to unescape
)
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
# A line of words: no colon, no hash sign, and one blank between two of them.
_WORD = r"\w[\w./+,?!'()%-]*"
_LINE = rf"""(?:(?!(?i:null)\n){_WORD}(?: {_WORD})*|"[ !#-\[\]-~]*"|'[ -&(-~]*')"""
_PLACE = rf"(?:/{_WORD}(?: {_WORD})*|{_TEXT}|{_LINE})"  # a path, or an address
_NUMBER = "(?:0|[1-9][0-9]{0,8})"
_WEIGHT = r"[0-9]{1,9}\.[0-9]{1,17}"


def _lines(needed: _Keys, optional: _Keys, *, indent: int, caught: bool) -> str:
    """The lines of a group of keys: what their values look like, and which may be absent."""
    line = " " * indent + ("{}: ({})\n" if caught else "{}: {}\n")
    return "".join(
        [line.format(*each) for each in needed.items()]
        + [f"(?:{line.format(*each)})?" for each in optional.items()]
    )


def _entry(needed: _Keys, optional: _Keys, *, caught: bool) -> str:
    """One entry of a list of such groups."""
    return _lines(needed, optional, indent=6, caught=caught).replace("      ", "    - ", 1)


_EDGE: tuple[_Keys, _Keys] = {"id": _TEXT, "relationship": _TEXT}, {}
_GROUND: tuple[_Keys, _Keys] = {"path": _LINE}, {"lines": _TEXT, "hash": _TEXT}
_PIECE: tuple[_Keys, _Keys] = {"id": _TEXT, "index": _NUMBER, "of": _NUMBER}, {"source": _PLACE}
_ENTITY: tuple[_Keys, _Keys] = {"name": _LINE}, {"type": _LINE, "description": _LINE}
_RELATION: tuple[_Keys, _Keys] = {"source": _LINE, "relation": _LINE, "target": _LINE}, {"weight": _WEIGHT}

_WRITTEN_FORM = re.compile(
    rf"---\nid: ({_TEXT})\ncreated_at: ({_TIME})\nupdated_at: ({_TIME})\nversion: ([1-9][0-9]{{0,8}})\n"
    rf"scope: ({_TEXT})\ncategory: ({_TEXT})\n(?:supersedes: ({_TEXT})\n)?"
    rf"(?:related:\n((?:{_entry(*_EDGE, caught=False)})+))?"
    rf"session_id: ({_TEXT})\ntrigger: ({_TEXT})\n(?:origin: ({_TEXT})\n)?"
    rf"(?:cues:\n((?:    - {_LINE}\n)+))?"
    rf"(?:evidence:\n((?:{_entry(*_GROUND, caught=False)})+))?"
    rf"(?:document:\n({_lines(*_PIECE, indent=4, caught=False)}))?"
    rf"(?:entities:\n((?:{_entry(*_ENTITY, caught=False)})+))?"
    rf"(?:relations:\n((?:{_entry(*_RELATION, caught=False)})+))?---\n"
)
_LISTS = 5  # the last groups of it, of several lines each
_CUES = re.compile(rf"    - ({_LINE})\n")
_EDGES, _GROUNDS, _ENTITIES, _RELATIONS = (
    re.compile(_entry(*keys, caught=True)) for keys in (_EDGE, _GROUND, _ENTITY, _RELATION)
)
_PIECES = re.compile(_lines(*_PIECE, indent=4, caught=True))


def read_written_form(data: bytes, scope: str, most: int) -> tuple[Memory, str] | None:
    """The memory of a file in this form, and the scope that it states; None means not sure.

    Front matter of more than `most` characters is none in this form.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    match = _WRITTEN_FORM.match(text)
    if match is None or match.end() > most:
        return None
    parts, lists = match.groups("")[:-_LISTS], match.groups("")[-_LISTS:]
    if '"' in match[0] or "'" in match[0]:
        parts = tuple(map(_unquoted, parts))
    id_, created_at, updated_at, version, stated, category, supersedes, edges, session_id, trigger, origin = (
        parts
    )
    if not id_:
        return None
    memory = Memory(
        id_, text[match.end() :], created_at, created_at if updated_at == created_at else updated_at,
        int(version), scope, _shared(category), _shared(session_id), _shared(trigger), supersedes or None,
        _edges(edges) if edges else (), "", origin,
    )  # fmt: skip
    whole = _with_lists(memory, *lists) if any(lists) else memory
    return None if whole is None else (whole, stated)


def _with_lists(memory: Memory, *lists: str) -> Memory | None:
    """The memory with what it says in several lines; None if an entry lacks what it must say."""
    cues, evidence, document, entities, relations = lists
    grounds = tuple(Evidence(*each) for each in _each(_GROUNDS, evidence))
    things = tuple(Entity(name, _shared(kind), told) for name, kind, told in _each(_ENTITIES, entities))
    between = tuple(_relation_of(*each) for each in _each(_RELATIONS, relations))
    piece = _piece(document) if document else None
    needed = [*(each.path for each in grounds), *(each.name for each in things)]
    needed += [text for each in between for text in (each.source, each.relation, each.target)]
    if not all(needed) or (piece is not None and not piece.document_id):
        return None
    return msgspec.structs.replace(
        memory, cues=tuple(map(_unquoted, _CUES.findall(cues))), evidence=grounds, piece=piece,
        entities=things, relations=between,
    )  # fmt: skip


def _each(pattern: re.Pattern[str], text: str) -> list[tuple[str, ...]]:
    return [tuple(map(_unquoted, each)) for each in pattern.findall(text)]


def _piece(text: str) -> Piece:
    ((document_id, index, of, source),) = _each(_PIECES, text)
    return Piece(_shared(document_id), int(index), int(of), _shared(source))


def _relation_of(source: str, relation: str, target: str, weight: str) -> Relation:
    return Relation(source, _shared(relation), target, float(weight or 1))


def _edges(text: str) -> tuple[Related, ...]:
    return tuple(Related(id_, _shared(how)) for id_, how in _each(_EDGES, text))


# One text for all files that say the same: 300 bytes of a small memory, where there are thousands.
_shared = lru_cache(1024)(str)


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in {'"', "'"} else text
