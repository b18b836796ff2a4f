"""Memory files as bytes: front matter and body, read tolerantly and written in one exact form.

People edit these files by hand, so reading takes what it can (BOM, CRLF, missing keys, no front matter, keys
that are no YAML), and raises MemoryFormatError for the rest. The written form is matched first, many times
faster; all else goes to `hand_written`, and a test proves that both read the same. Writing gives the Go
program's form byte for byte; body bytes and unknown keys survive.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from forged.errors import InConflict, MemoryFormatError
from forged.files.hand_written import MAX_HEADER_BYTES, ParsedFile, doubted, read_any_form
from forged.files.written_form import notes_on, read_written_form, scalar, time_scalar
from forged.memory import Entity, Evidence, Memory, Related, Relation, one_form

MAX_FILE_BYTES = 256 * 1024
IN_CONFLICT = (
    "it is in conflict: it holds both sides of a merge (`<<<<<<<`, `=======`, `>>>>>>>`); resolve it first"
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
    """Read one file's bytes; raises MemoryFormatError with the reason. See `read`."""
    return read(data, scope, name).memory


def read(data: bytes, scope: str, name: str) -> ParsedFile:
    """Read one file's bytes, with notes on what disagrees.

    `scope` is that of its directory, and wins over the file's; `name` is the file name without `.md`, the id
    if the file states none. Ids are NFC. Missing keys get defaults, so that a person can write a memory by
    hand; without front matter the whole text is the body. A key that cannot be read counts as a plain text or
    as missing, with a note. Raises MemoryFormatError, InConflict for a text with the markers of a merge.
    """
    if len(data) > MAX_FILE_BYTES:
        raise MemoryFormatError(f"larger than {MAX_FILE_BYTES // 1024} KiB; split it into smaller memories")
    if is_in_conflict(data):
        raise InConflict(IN_CONFLICT)
    name = one_form(name)
    return _read_written_form(data, scope, name) or doubted(read_any_form(data, scope, name), data)


def is_in_conflict(data: bytes) -> bool:
    """Whether a text holds, in this order and at line starts, the three markers of a merge.

    A conflict begins outside code fences that are closed; either side may open a fence.
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

    Lone surrogates and NUL become `?`. An unknown time is left out: the Go program cannot read an empty one.
    """
    lines = ["---", f"id: {scalar(one_form(memory.id))}"]
    lines += [
        f"{key}: {time_scalar(text)}"
        for key, text in (("created_at", memory.created_at), ("updated_at", memory.updated_at))
        if text
    ]
    lines += [f"version: {memory.version}", f"scope: {scalar(memory.scope)}"]
    lines.append(f"category: {scalar(memory.category)}")
    if memory.supersedes:
        lines.append(f"supersedes: {scalar(one_form(memory.supersedes))}")
    lines += _of_links(memory.related)
    lines += [f"session_id: {scalar(memory.session_id)}", f"trigger: {scalar(memory.trigger)}"]
    if memory.origin:
        lines.append(f"origin: {scalar(memory.origin)}")
    lines += _of_lists(memory)
    header = "\n".join(lines)
    content = memory.content.replace("\0", "?")
    return f"{header}\n{memory.extra}---\n{content}".encode("utf-8", "replace")


def _of_links(related: Iterable[Related]) -> Iterator[str]:
    return _list(
        "related", ({"id": scalar(one_form(e.id)), "relationship": scalar(e.relationship)} for e in related)
    )


def _of_lists(memory: Memory) -> Iterator[str]:
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


def _read_written_form(data: bytes, scope: str, name: str) -> ParsedFile | None:
    """Fast path; None means not sure."""
    found = None if b"\0" in data else read_written_form(data, scope, MAX_HEADER_BYTES)
    if found is None:
        return None
    memory, stated = found
    plain = memory.id == name and stated == scope and not memory.cues
    return ParsedFile(memory) if plain else ParsedFile(memory, notes_on(memory, stated))


def relinked(data: bytes, scope: str, name: str, older: str | None) -> bytes:
    """The bytes of a file that supersedes `older` now, or nothing; `scope` and `name` as for `parse`."""
    wanted = msgspec.structs.replace(parse(data, scope, name), supersedes=older)
    header = _HEADER.match(data)
    if header is None:
        raise MemoryFormatError("it has no front matter")
    head = render(msgspec.structs.replace(wanted, content=""))
    for fresh in (_with_line(data, header, older), head + data[header.end() :]):
        with contextlib.suppress(MemoryFormatError):
            if parse(fresh, scope, name) == wanted:
                return fresh
    raise MemoryFormatError("its front matter cannot be written anew")


def _with_line(data: bytes, header: re.Match[bytes], older: str | None) -> bytes:
    """With another line of `supersedes`, or without one, or with a new one where the written form has it."""
    end = b"\r\n" if header[1].endswith(b"\r\n") else b"\n"
    line = b"" if older is None else b"supersedes: " + scalar(older).encode() + end
    there = _LINK.search(header[1]) or _BEFORE.search(header[1])
    first, last = there.span(1) if there else (len(header[1]),) * 2
    return data[: header.start(1) + first] + line + data[header.start(1) + last :]
