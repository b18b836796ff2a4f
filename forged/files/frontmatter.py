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
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from forged.errors import InConflict, MemoryFormatError
from forged.files import entries, written_form
from forged.files.doubts import doubts
from forged.files.entries import one_text
from forged.files.scalars import scalar
from forged.memory import MOST_CUE_CHARS, MOST_CUES, Memory, Trigger, default_category

if TYPE_CHECKING:
    from forged.files.yaml_text import Value

MAX_FILE_BYTES = 256 * 1024
MAX_HEADER_BYTES = 64 * 1024

IN_CONFLICT = (
    "it is in conflict: it holds both sides of a merge (`<<<<<<<`, `=======`, `>>>>>>>`); resolve it first"
)

_FENCE = re.compile(rb" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_SIDES = (re.compile(rb"<{7}(?: |$)"), re.compile(rb"={7}$"), re.compile(rb">{7}(?: |$)"))


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
    front matter the whole text is the body. Raises MemoryFormatError, InConflict for a text with the markers
    of a merge, wherever in the file they are.
    """
    if len(data) > MAX_FILE_BYTES:
        raise MemoryFormatError(f"larger than {MAX_FILE_BYTES // 1024} KiB; split it into smaller memories")
    if is_in_conflict(data):
        raise InConflict(IN_CONFLICT)
    return _read_written_form(data, scope, name) or _doubted(_read_any_form(data, scope, name), data)


def is_in_conflict(data: bytes) -> bool:
    """Whether a text holds, in this order and at line starts, the three markers of a merge.

    A conflict begins outside code fences; a fence that nothing closes is none. What follows the first marker
    counts wherever it is, as either side may open a fence.
    """
    if b"<<<<<<<" not in data or b">>>>>>>" not in data:
        return False
    lines = [line.rstrip(b" \t\r") for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    fenced, at = _fenced(lines), 0
    for number, line in enumerate(lines):
        if at == 0 and number in fenced:
            continue
        if _SIDES[at].match(line):
            at += 1
            if at == len(_SIDES):
                return True
    return False


def _fenced(lines: Sequence[bytes]) -> set[int]:
    """Numbers of the lines within code fences, in one pass from each end."""
    fences = [(number, found) for number, line in enumerate(lines) if (found := _FENCE.fullmatch(line))]
    longest = {b"`": 0, b"~": 0}  # of the fences behind that could close one
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
    lines += entries.of_links(memory.related)
    lines += [f"session_id: {scalar(memory.session_id)}", f"trigger: {scalar(memory.trigger)}"]
    if memory.origin:
        lines.append(f"origin: {scalar(memory.origin)}")
    lines += entries.of_lists(memory)
    header = "\n".join(lines)
    return f"{header}\n{memory.extra}---\n{memory.content}".encode("utf-8", "replace")


def _read_written_form(data: bytes, scope: str, name: str) -> Reading | None:
    """Fast path; None means not sure."""
    found = written_form.read(data, scope, MAX_HEADER_BYTES)
    if found is None:
        return None
    memory, stated = found
    plain = memory.id == name and stated == scope and not memory.cues
    return Reading(memory) if plain else Reading(memory, _notes(memory, stated, name))


# Any other form.

# `document` says which piece a memory is.
_KEYS = frozenset(Memory.__struct_fields__) - {"content", "extra", "redacted", "stale", "piece"}
_KEYS |= {"document"}
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
    notes = _notes(memory, one_text(header, "scope", scope), name)
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
        id=one_text(header, "id", name) or name,
        content=body,
        created_at=one_text(header, "created_at", ""),
        updated_at=one_text(header, "updated_at", ""),
        version=_version(one_text(header, "version", "1")),
        scope=scope,
        category=one_text(header, "category", default_category(scope)),
        session_id=one_text(header, "session_id", ""),
        trigger=one_text(header, "trigger", Trigger.EXPLICIT.value),
        supersedes=one_text(header, "supersedes", "") or None,
        related=entries.links(header.get("related")),
        extra=extra,
        origin=one_text(header, "origin", ""),
        cues=entries.cues(header.get("cues")),
        evidence=entries.evidence(header.get("evidence")),
        entities=entries.entities(header.get("entities")),
        relations=entries.relations(header.get("relations")),
        piece=entries.piece(header.get("document")),
    )


def _version(text: str) -> int:
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise MemoryFormatError(f"`version` is {text[:40]!r}; write a whole number from 1")
    return int(match[1])


def _of_edges(value: Value) -> tuple[str, ...]:
    """A note on entries that lead nowhere and are left out."""
    lost = entries.lost_links(value)
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
