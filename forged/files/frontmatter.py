"""Memory files as bytes: front matter and body, read tolerantly and written in one exact form.

People edit these files by hand, so reading takes what it can (BOM, CRLF, `...`, missing keys, no front
matter at all), and raises MemoryFormatError with a sentence about what it cannot. The exact form that forged
and the Go program write is matched by one expression first, many times faster; whatever it does not match
goes to `yaml_text`, and a test proves that both read the same.

Writing gives the Go program's form byte for byte, so that either program can use a store of the other; body
bytes and unknown keys survive.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from forged.errors import MemoryFormatError
from forged.files.doubts import doubts
from forged.files.scalars import scalar
from forged.memory import (
    MOST_CUE_CHARS,
    MOST_CUES,
    Evidence,
    Memory,
    Related,
    Relationship,
    Trigger,
    default_category,
    evidence_named,
)

if TYPE_CHECKING:
    from forged.files.yaml_text import Value

MAX_FILE_BYTES = 256 * 1024
MAX_HEADER_BYTES = 64 * 1024


class Reading(msgspec.Struct, frozen=True, gc=False):
    """A memory, and sentences about what in its file should be put right although it could be read."""

    memory: Memory
    notes: tuple[str, ...] = ()


def parse(data: bytes, scope: str, name: str) -> Memory:
    """Read one file's bytes; raises MemoryFormatError with the reason. See `read`."""
    return read(data, scope, name).memory


def read(data: bytes, scope: str, name: str) -> Reading:
    """Read one file's bytes, with notes on what disagrees.

    Args:
        data: the whole file.
        scope: what its directory stands for; it wins over the scope in the file.
        name: file name without `.md`; it is the id if the file states none.

    Missing keys get defaults, so that a person can write a memory by hand: version 1, trigger `explicit`,
    no session, no times, category `user-facts` in a user scope and `project-conventions` elsewhere. Without
    front matter the whole text is the body. Raises MemoryFormatError.
    """
    if len(data) > MAX_FILE_BYTES:
        raise MemoryFormatError(f"larger than {MAX_FILE_BYTES // 1024} KiB; split it into smaller memories")
    return _read_written_form(data, scope, name) or _doubted(_read_any_form(data, scope, name), data)


def render(memory: Memory) -> bytes:
    """Return the file of a memory in the form of the Go program, its unknown keys last.

    Text that UTF-8 cannot hold (lone surrogates from a model's JSON) becomes `?`. An unknown time is left
    out, as the Go program reads its absence but not an empty text.
    """
    lines = ["---", f"id: {scalar(memory.id)}"]
    lines += [
        f"{key}: {_time_scalar(text)}"
        for key, text in (("created_at", memory.created_at), ("updated_at", memory.updated_at))
        if text
    ]
    lines += [f"version: {memory.version}", f"scope: {scalar(memory.scope)}"]
    lines.append(f"category: {scalar(memory.category)}")
    if memory.supersedes:
        lines.append(f"supersedes: {scalar(memory.supersedes)}")
    if memory.related:
        lines.append("related:")
    for edge in memory.related:
        lines.append(f"    - id: {scalar(edge.id)}")
        lines.append(f"      relationship: {scalar(edge.relationship)}")
    lines += [f"session_id: {scalar(memory.session_id)}", f"trigger: {scalar(memory.trigger)}"]
    if memory.origin:
        lines.append(f"origin: {scalar(memory.origin)}")
    if memory.cues:
        lines += ["cues:", *(f"    - {scalar(cue)}" for cue in memory.cues)]
    if memory.evidence:
        lines.append("evidence:")
    for each in memory.evidence:
        lines.append(f"    - path: {scalar(each.path)}")
        if each.lines:
            lines.append(f"      lines: {scalar(each.lines)}")
        if each.hash:
            lines.append(f"      hash: {scalar(each.hash)}")
    header = "\n".join(lines)
    return f"{header}\n{memory.extra}---\n{memory.content}".encode("utf-8", "replace")


# The written form. Narrow on purpose: what it accepts must mean the same to any YAML reader.

_TEXT = (
    r"""(?:(?!(?i:null)\n)[A-Za-z0-9_][A-Za-z0-9_./+:-]*(?<!:)"""  # plain; no blank, no colon at the end
    r"""|"[ !#-\[\]-~]*"|'[ -&(-~]*')"""  # quoted ASCII with nothing to unescape
)
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
_EDGE = re.compile(rf"    - id: ({_TEXT})\n      relationship: ({_TEXT})\n")
# A line of words: no colon, no hash sign, and one blank between two of them.
_WORD = r"\w[\w./+,?!'()%-]*"
_LINE = rf"""(?:(?!(?i:null)\n){_WORD}(?: {_WORD})*|"[ !#-\[\]-~]*"|'[ -&(-~]*')"""
_CUE = re.compile(rf"    - ({_LINE})\n")
_GROUND = re.compile(rf"    - path: ({_LINE})\n(?:      lines: ({_TEXT})\n)?(?:      hash: ({_TEXT})\n)?")
_WRITTEN_FORM = re.compile(
    rf"---\nid: ({_TEXT})\ncreated_at: ({_TIME})\nupdated_at: ({_TIME})\nversion: ([1-9][0-9]{{0,8}})\n"
    rf"scope: ({_TEXT})\ncategory: ({_TEXT})\n(?:supersedes: ({_TEXT})\n)?"
    rf"(?:related:\n((?:    - id: {_TEXT}\n      relationship: {_TEXT}\n)+))?"
    rf"session_id: ({_TEXT})\ntrigger: ({_TEXT})\n(?:origin: ({_TEXT})\n)?"
    rf"(?:cues:\n((?:    - {_LINE}\n)+))?"
    rf"(?:evidence:\n((?:    - path: {_LINE}\n(?:      lines: {_TEXT}\n)?(?:      hash: {_TEXT}\n)?)+))?---\n"
)


def _read_written_form(data: bytes, scope: str, name: str) -> Reading | None:
    """Fast path; None means not sure."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    match = _WRITTEN_FORM.match(text)
    if match is None or match.end() > MAX_HEADER_BYTES:
        return None
    parts = match.groups("")
    header, cues, evidence = match[0], *parts[-2:]
    if '"' in header or "'" in header:
        parts = tuple(map(_unquoted, parts))
    id_, created_at, updated_at, version, stated, category, supersedes, edges, session_id, trigger, origin = (
        parts[:-2]
    )
    if not id_:
        return None
    if updated_at == created_at:
        updated_at = created_at
    memory = Memory(
        id_, text[match.end() :], created_at, updated_at, int(version), scope, _shared(category),
        _shared(session_id), _shared(trigger), supersedes or None, _edges(edges) if edges else (), "", origin,
    )  # fmt: skip
    if cues or evidence:
        grounds = tuple(Evidence(*map(_unquoted, each)) for each in _GROUND.findall(evidence))
        if not all(each.path for each in grounds):
            return None
        lines = tuple(map(_unquoted, _CUE.findall(cues)))
        memory = msgspec.structs.replace(memory, cues=lines, evidence=grounds)
    plain = id_ == name and stated == scope and not cues
    return Reading(memory) if plain else Reading(memory, _notes(memory, stated, name))


# One text for all files that say the same: 300 bytes of a small memory, where there are thousands.
_shared = lru_cache(1024)(str)


def _edges(text: str) -> tuple[Related, ...]:
    return tuple(Related(_unquoted(id_), _shared(_unquoted(how))) for id_, how in _EDGE.findall(text))


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in {'"', "'"} else text


# Any other form.

_KEYS = frozenset(Memory.__struct_fields__) - {"content", "extra", "redacted", "stale"}
_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t\r]*\n)*---[ \t\r]*(?:\n|\Z)")
_CLOSING = re.compile(rb"^(?:---|\.\.\.)[ \t\r]*$\n?", re.MULTILINE)
_ODD_LINE_END = re.compile("[\r\x85\u2028\u2029]")
_VERSION = re.compile(r"\+?0*([1-9][0-9]{0,8})(?:\.[0-9]*)?")
_TIME_LIKE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]| +)[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]*)?)?"
    r"(?: *(?:[Zz]|[+-][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)


def _doubted(reading: Reading, data: bytes) -> Reading:
    found = doubts(reading.memory, _KEYS, has_header=_OPENING.match(data) is not None)
    return Reading(reading.memory, reading.notes + found) if found else reading


def _read_any_form(data: bytes, scope: str, name: str) -> Reading:
    opening = _OPENING.match(data)
    if opening is None:
        return Reading(_from_values({}, "", _whole_text(data), scope, name))
    closing = _CLOSING.search(data, opening.end())
    if closing is None:
        raise MemoryFormatError("the front matter has no closing `---` line")
    # 10 ms of a daemon's start: most stores hold files in the written form alone.
    from forged.files.yaml_text import load  # noqa: PLC0415

    header, extra = load(_header_text(data[opening.end() : closing.start()]), _KEYS)
    body = data[closing.end() :].decode("utf-8", "replace")
    memory = _from_values(header, extra, body, scope, name)
    notes = _notes(memory, _text(header, "scope", scope), name)
    return Reading(memory, notes + _of_edges(header.get("related")))


def _whole_text(data: bytes) -> str:
    if data.startswith(b"---\r"):
        raise MemoryFormatError("its lines end in CR alone; save it with LF line ends")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MemoryFormatError("not a text file in UTF-8") from error
    if not text.strip():
        raise MemoryFormatError("the file is empty")
    if "\0" in text:
        raise MemoryFormatError("not a text file: it holds NUL characters")
    return text


def _header_text(header: bytes) -> str:
    if len(header) > MAX_HEADER_BYTES:
        raise MemoryFormatError(f"the front matter is larger than {MAX_HEADER_BYTES // 1024} KiB")
    try:
        text = header.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise MemoryFormatError("the front matter is not UTF-8 text") from error
    if _ODD_LINE_END.search(text):
        raise MemoryFormatError("the front matter holds a line end other than LF or CRLF")
    return text


def _from_values(header: dict[str, Value], extra: str, body: str, scope: str, name: str) -> Memory:
    return Memory(
        id=_text(header, "id", name) or name,
        content=body,
        created_at=_text(header, "created_at", ""),
        updated_at=_text(header, "updated_at", ""),
        version=_version(_text(header, "version", "1")),
        scope=scope,
        category=_text(header, "category", default_category(scope)),
        session_id=_text(header, "session_id", ""),
        trigger=_text(header, "trigger", Trigger.EXPLICIT.value),
        supersedes=_text(header, "supersedes", "") or None,
        related=_related(header.get("related")),
        extra=extra,
        origin=_text(header, "origin", ""),
        cues=_cues(header.get("cues")),
        evidence=_evidence(header.get("evidence")),
    )


def _text(header: dict[str, Value], key: str, default: str) -> str:
    value = header.get(key)
    if value is None:
        return default
    if not isinstance(value, str):
        raise MemoryFormatError(f"`{key}` must be one text, not a list or a group of keys")
    return value


def _version(text: str) -> int:
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise MemoryFormatError(f"`version` is {text[:40]!r}; write a whole number from 1")
    return int(match[1])


def _related(value: Value) -> tuple[Related, ...]:
    if value is None:
        return ()
    if not isinstance(value, tuple):
        raise MemoryFormatError("`related` must be a list of entries with `id` and `relationship`")
    return tuple(_edge(entry) for entry in value if _has_id(entry))


def _edge(value: Value) -> Related:
    """One entry; a bare id, as people write it, relates to that memory."""
    entry: dict[str, Value] = value if isinstance(value, dict) else {"id": value}
    return Related(_text(entry, "id", ""), _text(entry, "relationship", Relationship.RELATES_TO.value))


def _cues(value: Value) -> tuple[str, ...]:
    """Lines, or one that stands alone, as people write it."""
    entries = value if isinstance(value, tuple) else (value,)
    cues = tuple(entry for entry in entries if isinstance(entry, str))
    if len(cues) < sum(entry is not None for entry in entries):
        raise MemoryFormatError("`cues` must be a list of short lines")
    return cues


def _evidence(value: Value) -> tuple[Evidence, ...]:
    """Files that a memory stands on; a path alone, as people write it, may have its lines behind it."""
    entries = value if isinstance(value, tuple) else (value,)
    return tuple(_ground(entry) for entry in entries if entry is not None)


def _ground(entry: Value) -> Evidence:
    if isinstance(entry, str):
        return evidence_named(entry)
    if not isinstance(entry, dict) or not _text(entry, "path", ""):
        raise MemoryFormatError("`evidence` must be a list of paths, or of entries with `path`")
    return Evidence(*(_text(entry, key, "") for key in Evidence.__struct_fields__))


def _has_id(entry: Value) -> bool:
    return isinstance(entry.get("id") if isinstance(entry, dict) else entry, str)


def _of_edges(value: Value) -> tuple[str, ...]:
    """A note on entries that lead nowhere and are left out."""
    lost = sum(not _has_id(entry) for entry in value) if isinstance(value, tuple) else 0
    if not lost:
        return ()
    one = "an entry of `related` has no `id` and is left out"
    return (one if lost == 1 else f"{lost} entries of `related` have no `id` and are left out",)


def _notes(memory: Memory, stated_scope: str, name: str) -> tuple[str, ...]:
    notes = []
    if memory.id != name:
        notes.append(f"its id is {memory.id[:80]!r}, which is not the file's name; the id is used")
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


def _time_scalar(text: str) -> str:
    return text if _TIME_LIKE.fullmatch(text) else scalar(text)
