"""The exact form of a memory file that forged and the Go program write: written, and read by one expression.

Scalars have the three styles of go-yaml v3's emitter, whose quoting no general dumper has. Beyond it `=` and
`<<` are quoted, because a YAML 1.1 reader gives them a meaning, and text with line ends is escaped instead of
becoming a `|` block.
"""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache

import msgspec

from forged.memory import MOST_CUE_CHARS, MOST_CUES, Entity, Evidence, Memory, Piece, Related, Relation

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
    line = " " * indent + ("{}: ({})\n" if caught else "{}: {}\n")
    return "".join(
        [line.format(*each) for each in needed.items()]
        + [f"(?:{line.format(*each)})?" for each in optional.items()]
    )


def _entry(needed: _Keys, optional: _Keys, *, caught: bool) -> str:
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


_TIME_LIKE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]| +)[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]*)?)?"
    r"(?: *(?:[Zz]|[+-][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)


def notes_on(memory: Memory, stated_scope: str) -> tuple[str, ...]:
    notes = []
    if stated_scope != memory.scope:
        notes.append(
            f"it says scope {stated_scope[:40]!r} but lies in a {memory.scope} directory, which decides"
        )
    for key, text in (("created_at", memory.created_at), ("updated_at", memory.updated_at)):
        if text and not _TIME_LIKE.fullmatch(text):
            notes.append(f"`{key}` is {text[:40]!r}, which is no time; write it like 2026-01-31T12:00:00Z")
    if len(memory.cues) > MOST_CUES:
        notes.append(f"it has {len(memory.cues)} cues, of which the first {MOST_CUES} count")
    if any(len(cue) > MOST_CUE_CHARS for cue in memory.cues):
        notes.append(f"of a cue the first {MOST_CUE_CHARS} characters count")
    return tuple(notes)


def time_scalar(text: str) -> str:
    return text if _TIME_LIKE.fullmatch(text) else scalar(text)
