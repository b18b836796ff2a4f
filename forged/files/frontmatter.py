"""Memory files as bytes: parse front matter and body tolerantly, write one exact form.

People edit these files, so reading accepts BOM, CRLF, missing keys, no front matter, and keys that are not
YAML. It raises MemoryFormatError for the rest. The written form equals that of the Go program byte for byte.
One regular expression reads it, many times faster; everything else goes to `hand_written`. A test proves that
both read the same. Body bytes and unknown keys survive.

Scalars have the three styles of go-yaml v3's emitter, whose quoting no general dumper has. In addition, `=`
and `<<` are quoted, because a YAML 1.1 reader interprets them. Text with line ends is escaped instead of
becoming a `|` block.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache

import msgspec

from forged.errors import InConflict, MemoryFormatError
from forged.files.hand_written import (
    MAX_HEADER_BYTES,
    TIME_LIKE,
    ParsedFile,
    notes_on,
    read_any_form,
    with_notes,
)
from forged.memory import Entity, EntityRelation, Evidence, Memory, Piece, Related, one_form

MAX_FILE_BYTES = 256 * 1024
IN_CONFLICT = (
    "unresolved merge conflict: it contains both sides (`<<<<<<<`, `=======`, `>>>>>>>`); resolve it first"
)
_FENCE = re.compile(rb" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_SIDES = (re.compile(rb"<{7}(?: |$)"), re.compile(rb"={7}$"), re.compile(rb">{7}(?: |$)"))
_HEADER = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t\r]*\n)*---[ \t\r]*\n(.*?)^(?:---|\.\.\.)[ \t\r]*$\n?",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(rb"^(supersedes[ \t]*:[^\n]*\n)", re.MULTILINE)
_BEFORE = re.compile(rb"^category[ \t]*:[^\n]*\n()", re.MULTILINE)


def parse(data: bytes, scope: str, name: str) -> Memory:
    """Parse the bytes of a file into a memory; raises MemoryFormatError with the reason. See `read`."""
    return read(data, scope, name).memory


def read(data: bytes, scope: str, name: str) -> ParsedFile:
    """Parse the bytes of a file into a memory, with notes on what to correct in the file.

    `scope` is that of its directory and wins over the file's. `name` is the file name without `.md`, and the
    id if the file states none. Ids are NFC. Missing keys get defaults, so that a person can write a memory by
    hand; without front matter the whole text is the body. An unreadable key counts as plain text or as
    missing, with a note. Raises MemoryFormatError, and InConflict for a text with the markers of a merge.
    """
    if len(data) > MAX_FILE_BYTES:
        raise MemoryFormatError(f"larger than {MAX_FILE_BYTES // 1024} KiB; split it into smaller memories")
    if is_in_conflict(data):
        raise InConflict(IN_CONFLICT)
    name = one_form(name)
    return _read_written_form(data, scope, name) or with_notes(read_any_form(data, scope, name), data)


def is_in_conflict(data: bytes) -> bool:
    """Return True if a text has a merge conflict's markers in order, the first outside code fences.

    A conflict begins outside closed code fences; either side may open a fence.
    """
    if b"<<<<<<<" not in data or b">>>>>>>" not in data:
        return False
    lines = [line.rstrip(b" \t\r") for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    fenced, at = _fenced_lines(lines), 0
    for number, line in enumerate(lines):
        if at == 0 and number in fenced:
            continue
        if _SIDES[at].match(line):
            at += 1
            if at == len(_SIDES):
                return True
    return False


def _fenced_lines(lines: Sequence[bytes]) -> set[int]:
    """Return the numbers of the lines within closed code fences, in one pass from each end."""
    fences = [(number, found) for number, line in enumerate(lines) if (found := _FENCE.fullmatch(line))]
    longest = {b"`": 0, b"~": 0}  # possible closing fences after a line
    reach: list[int] = []
    for _, found in reversed(fences):
        kind = found[1][:1]
        reach.append(longest[kind])
        if not found[2].strip():
            longest[kind] = max(longest[kind], len(found[1]))
    inside: set[int] = set()
    opened: tuple[int, bytes] | None = None
    for (number, found), most in zip(fences, reversed(reach), strict=True):
        mark = found[1]
        if opened is None:
            opened = (number, mark) if most >= len(mark) else None
        elif mark.startswith(opened[1]) and not found[2].strip():
            inside.update(range(opened[0], number + 1))
            opened = None
    return inside


def render(memory: Memory) -> bytes:
    """Return the bytes of a memory's file in the form of the Go program, its unknown keys last.

    Lone surrogates and NUL become `?`. An unknown time is left out: the Go program cannot read an empty one.
    """
    header, content = "\n".join(_header_lines(memory)), memory.content.replace("\0", "?")
    return f"---\n{header}\n{memory.extra}---\n{content}".encode("utf-8", "replace")


def _header_lines(memory: Memory) -> Iterator[str]:
    yield f"id: {scalar(one_form(memory.id))}"
    for key, text in (("created_at", memory.created_at), ("updated_at", memory.updated_at)):
        if text:
            yield f"{key}: {text if TIME_LIKE.fullmatch(text) else scalar(text)}"
    yield from (f"version: {memory.version}", f"scope: {scalar(memory.scope)}")
    yield f"category: {scalar(memory.category)}"
    if memory.supersedes:
        yield f"supersedes: {scalar(one_form(memory.supersedes))}"
    edges = ({"id": scalar(one_form(e.id)), "relationship": scalar(e.relationship)} for e in memory.related)
    yield from _list_lines("related", edges)
    yield from (f"session_id: {scalar(memory.session_id)}", f"trigger: {scalar(memory.trigger)}")
    if memory.origin:
        yield f"origin: {scalar(memory.origin)}"
    if memory.cues:
        yield from ("cues:", *(f"    - {scalar(cue)}" for cue in memory.cues))
    yield from _list_lines("evidence", (_texts("path", each) for each in memory.evidence))
    if (piece := memory.piece) is not None:
        yield from ("document:", f"    id: {scalar(piece.document_id)}")
        yield from (f"    index: {piece.index}", f"    of: {piece.of}")
        if piece.source:
            yield f"    source: {scalar(piece.source)}"
    yield from _list_lines("entities", (_texts("name", each) for each in memory.entities))
    yield from _list_lines("relations", map(_relation_keys, memory.relations))


def _list_lines(key: str, entries: Iterable[Mapping[str, str]]) -> Iterator[str]:
    for number, entry in enumerate(entries):
        if not number:
            yield f"{key}:"
        for place, (name, value) in enumerate(entry.items()):
            yield f"{'      ' if place else '    - '}{name}: {value}"


def _texts(needed: str, entry: Evidence | Entity) -> dict[str, str]:
    """Return the texts of an entry as YAML scalars, without empty ones, except for the required key."""
    texts = ((name, getattr(entry, name)) for name in entry.__struct_fields__)
    return {name: scalar(text) for name, text in texts if text or name == needed}


def _relation_keys(relation: EntityRelation) -> dict[str, str]:
    names = {key: scalar(getattr(relation, key)) for key in ("source", "relation", "target")}
    if relation.weight == 1 or not math.isfinite(relation.weight):
        return names
    return names | {"weight": repr(relation.weight)}


_ASCII_ESCAPED = re.compile("[^\x20-\x7e]")
_NEEDS_QUOTES = re.compile(r"[#,\[\]{}&*!|>'\"%@` ]|[-?:](?: |\Z)|---|\.\.\.|.*(?:: |:\Z| #| \Z)", re.DOTALL)
_WORD_WITH_TYPE = re.compile(
    r"|~|null|Null|NULL|true|True|TRUE|false|False|FALSE|=|<<|\.nan|\.NaN|\.NAN|[-+]?\.(?:inf|Inf|INF)"
    r"|[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF"
)
_READS_AS_NUMBER = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+"
    r"|[-+]?0(?:[xX][0-9a-fA-F]*|[oO][0-7]*|[bB][01]*)"
    r"|[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"  # base 60 numbers
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][0-9:.Zz+ -]*)?")
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")
_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v",
    "\f": "\\f", "\r": "\\r", "\x1b": "\\e", "\x85": "\\N", "\u2028": "\\L", "\u2029": "\\P",
}  # fmt: skip


@cache  # this class takes 6 ms to compile, so it is compiled on use
def _escaped_pattern() -> re.Pattern[str]:
    return re.compile("[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")


def scalar(text: str) -> str:
    """Return a text as a YAML scalar, quoted where needed. Characters that UTF-8 cannot hold become `?`."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    escaped = _ASCII_ESCAPED if text.isascii() else _escaped_pattern()
    if escaped.search(text) or _reads_as_another_type(text):
        return '"' + re.sub(rf'["\\]|{escaped.pattern}', _escape_char, text) + '"'
    if _NEEDS_QUOTES.match(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _reads_as_another_type(text: str) -> bool:
    digits = text.replace("_", "")
    if _WORD_WITH_TYPE.fullmatch(text) or _READS_AS_NUMBER.fullmatch(digits) or _DATE.fullmatch(text):
        return True
    # go-yaml reads 1e5 as a number and 1e400 as text; session ids of hex digits can look like either.
    return _EXPONENT.fullmatch(digits) is not None and math.isfinite(float(digits))


def _escape_char(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if code <= 0xFF:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


_Keys = dict[str, str]
_TEXT = (
    r"""(?:(?!(?i:null)\n)[A-Za-z0-9_][A-Za-z0-9_./+:-]*(?<!:)"""  # plain: no blank, no colon at the end
    r"""|"[ !#-\[\]-~]*"|'[ -&(-~]*')"""  # quoted ASCII without escapes
)
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
# A line of words: no colon, no hash sign, single blanks
_WORD = r"\w[\w./+,?!'()%-]*"
_LINE = rf"""(?:(?!(?i:null)\n){_WORD}(?: {_WORD})*|"[ !#-\[\]-~]*"|'[ -&(-~]*')"""
_PLACE = rf"(?:/{_WORD}(?: {_WORD})*|{_TEXT}|{_LINE})"  # a path, or an address
_NUMBER = "(?:0|[1-9][0-9]{0,8})"
_WEIGHT = r"[0-9]{1,9}\.[0-9]{1,17}"


def _lines(needed: _Keys, optional: _Keys, *, indent: int, caught: bool) -> str:
    """Return a regular expression for the lines of an entry's keys; `caught` adds groups for the values."""
    line = " " * indent + ("{}: ({})\n" if caught else "{}: {}\n")
    return "".join(
        [line.format(*each) for each in needed.items()]
        + [f"(?:{line.format(*each)})?" for each in optional.items()]
    )


def _entry(needed: _Keys, optional: _Keys, *, caught: bool) -> str:
    """Return a regular expression for an entry of a list; `caught` adds groups for the values."""
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
_LISTS = 5  # the last groups, of several lines each
_CUES = re.compile(rf"    - ({_LINE})\n")
_EDGES, _GROUNDS, _ENTITIES, _RELATIONS = (
    re.compile(_entry(*keys, caught=True)) for keys in (_EDGE, _GROUND, _ENTITY, _RELATION)
)
_PIECES = re.compile(_lines(*_PIECE, indent=4, caught=True))


def _read_written_form(data: bytes, scope: str, name: str) -> ParsedFile | None:
    """Parse a file in the form that forged writes, by one regex; None if it may have another."""
    try:
        text = "" if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None
    match = _WRITTEN_FORM.match(text)
    if match is None or match.end() > MAX_HEADER_BYTES:
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
        int(version), scope, _interned(category), _interned(session_id),
        _interned(trigger), supersedes or None,
        _parse_links(edges) if edges else (), "", origin,
    )  # fmt: skip
    whole = _with_lists(memory, *lists) if any(lists) else memory
    if whole is None:
        return None
    is_plain = whole.id == name and stated == scope and not whole.cues
    return ParsedFile(whole) if is_plain else ParsedFile(whole, notes_on(whole, stated))


def _with_lists(memory: Memory, *lists: str) -> Memory | None:
    """Return a memory with the parsed lists and document; None if a required text is empty."""
    cues, evidence, document, entities, relations = lists
    grounds = tuple(Evidence(*each) for each in _groups(_GROUNDS, evidence))
    things = tuple(
        Entity(name, _interned(kind), description) for name, kind, description in _groups(_ENTITIES, entities)
    )
    between = tuple(_relation_of(*each) for each in _groups(_RELATIONS, relations))
    piece = _parse_piece(document) if document else None
    needed = [*(each.path for each in grounds), *(each.name for each in things)]
    needed += [text for each in between for text in (each.source, each.relation, each.target)]
    if not all(needed) or (piece is not None and not piece.document_id):
        return None
    return msgspec.structs.replace(
        memory, cues=tuple(map(_unquoted, _CUES.findall(cues))), evidence=grounds, piece=piece,
        entities=things, relations=between,
    )  # fmt: skip


def _groups(pattern: re.Pattern[str], text: str) -> list[tuple[str, ...]]:
    """Return the groups of each match, without quotes."""
    return [tuple(map(_unquoted, each)) for each in pattern.findall(text)]


def _parse_piece(text: str) -> Piece:
    ((document_id, index, of, source),) = _groups(_PIECES, text)
    return Piece(_interned(document_id), int(index), int(of), _interned(source))


def _relation_of(source: str, relation: str, target: str, weight: str) -> EntityRelation:
    return EntityRelation(source, _interned(relation), target, float(weight or 1))


def _parse_links(text: str) -> tuple[Related, ...]:
    return tuple(Related(id_, _interned(how)) for id_, how in _groups(_EDGES, text))


# One string for equal texts of all files, which saves 300 bytes for each small memory.
_interned = lru_cache(1024)(str)


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in {'"', "'"} else text


def relinked(data: bytes, scope: str, name: str, older: str | None) -> bytes:
    """Return the bytes of a memory file with `older` as its predecessor, or with none; all else stays.

    `scope` and `name` are those of `parse`.
    """
    wanted = msgspec.structs.replace(parse(data, scope, name), supersedes=older)
    header = _HEADER.match(data)
    if header is None:
        raise MemoryFormatError("it has no front matter")
    head = render(msgspec.structs.replace(wanted, content=""))
    for fresh in (_with_line(data, header, older), head + data[header.end() :]):
        with contextlib.suppress(MemoryFormatError):
            if parse(fresh, scope, name) == wanted:
                return fresh
    raise MemoryFormatError("its front matter cannot be rewritten")


def _with_line(data: bytes, header: re.Match[bytes], older: str | None) -> bytes:
    """Return a file with its line of `supersedes` replaced, removed, or inserted at its place."""
    end = b"\r\n" if header[1].endswith(b"\r\n") else b"\n"
    line = b"" if older is None else b"supersedes: " + scalar(older).encode() + end
    there = _LINK.search(header[1]) or _BEFORE.search(header[1])
    first, last = there.span(1) if there else (len(header[1]),) * 2
    return data[: header.start(1) + first] + line + data[header.start(1) + last :]
