"""Memory files in the exact form that forged and the Go program write, read by one expression.

Many times faster than a reader of YAML. The expression is narrow on purpose: what it accepts means the same
to any YAML reader, and a test proves that. Of all else `read` says that it is not sure. Nothing is raised.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from forged.memory import Entity, Evidence, Memory, Piece, Related, Relation

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


def read(data: bytes, scope: str, most: int) -> tuple[Memory, str] | None:
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
    between = tuple(_relation(*each) for each in _each(_RELATIONS, relations))
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


def _relation(source: str, relation: str, target: str, weight: str) -> Relation:
    return Relation(source, _shared(relation), target, float(weight or 1))


def _edges(text: str) -> tuple[Related, ...]:
    return tuple(Related(id_, _shared(how)) for id_, how in _each(_EDGES, text))


# One text for all files that say the same: 300 bytes of a small memory, where there are thousands.
_shared = lru_cache(1024)(str)


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in {'"', "'"} else text
