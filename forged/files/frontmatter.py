"""Memory files as bytes: front matter and body, read tolerantly and written in one exact form.

People edit these files by hand, so reading takes what it can (BOM, CRLF, `...`, missing keys, no front
matter at all, keys that are no YAML), and raises MemoryFormatError with a sentence about what it cannot. The
exact form that forged and the Go program write is matched by one expression first, many times faster;
whatever it does not match goes to `yaml_text`, and a test proves that both read the same.

Lines between two of `---` are front matter only where their keys are: plain words, one of them known. A rule
above a paragraph is a rule, and all of it text.

Writing gives the Go program's form byte for byte, so that either program can use a store of the other; body
bytes and unknown keys survive.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

import msgspec

from forged.errors import InConflict, MemoryFormatError, NoText
from forged.files import entries
from forged.files.entries import Header, Value, one_text, scalar
from forged.memory import MOST_CUE_CHARS, MOST_CUES, Memory, Trigger, default_category, one_form

T = TypeVar("T")

MAX_FILE_BYTES = 256 * 1024
MAX_HEADER_BYTES = 64 * 1024

IN_CONFLICT = (
    "it is in conflict: it holds both sides of a merge (`<<<<<<<`, `=======`, `>>>>>>>`); resolve it first"
)

_FENCE = re.compile(rb" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_SIDES = (re.compile(rb"<{7}(?: |$)"), re.compile(rb"={7}$"), re.compile(rb">{7}(?: |$)"))


_END = re.compile(r"^(?:---|\.\.\.)[ \t\r]*$", re.MULTILINE)
_KEY = re.compile(r"^([A-Za-z_]+)[ \t]*:(?=\s|$)", re.MULTILINE)
# Keys at the beginning of a text without front matter that are no accident.
_ENOUGH = 2
NO_FRONT_MATTER = "its text begins like front matter that is none"
_PLACE = "keys stand between two lines of `---` alone, the first of which begins the file"
_HEADER = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t\r]*\n)*---[ \t\r]*\n(.*?)^(?:---|\.\.\.)[ \t\r]*$\n?",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(rb"^(supersedes[ \t]*:[^\n]*\n)", re.MULTILINE)
_BEFORE = re.compile(rb"^category[ \t]*:[^\n]*\n()", re.MULTILINE)


class ParsedFile(msgspec.Struct, frozen=True, gc=False):
    """A memory, and sentences about what in its file should be put right although it could be read."""

    memory: Memory
    notes: tuple[str, ...] = ()


def parse(data: bytes, scope: str, name: str) -> Memory:
    """Read one file's bytes; raises MemoryFormatError with the reason. See `read`."""
    return read(data, scope, name).memory


def read(data: bytes, scope: str, name: str) -> ParsedFile:
    """Read one file's bytes, with notes on what disagrees.

    Args:
        data: the whole file.
        scope: what its directory stands for; it wins over the scope in the file.
        name: file name without `.md`; it is the id if the file states none. Ids are NFC, whatever it is in.

    Missing keys get defaults, so that a person can write a memory by hand: version 1, trigger `explicit`,
    no session, no times, category `user-facts` in a user scope and `project-conventions` elsewhere. Without
    front matter the whole text is the body. A key that cannot be read counts as a plain text or as missing,
    with a note. Raises MemoryFormatError, InConflict for a text with the markers of a merge, wherever in the
    file they are.
    """
    if len(data) > MAX_FILE_BYTES:
        raise MemoryFormatError(f"larger than {MAX_FILE_BYTES // 1024} KiB; split it into smaller memories")
    if is_in_conflict(data):
        raise InConflict(IN_CONFLICT)
    name = one_form(name)
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

    What no text file can hold (lone surrogates and NUL from a model's JSON) becomes `?`. An unknown time is
    left out, as the Go program reads its absence but not an empty text.
    """
    lines = ["---", f"id: {scalar(one_form(memory.id))}"]
    lines += [
        f"{key}: {_time_scalar(text)}"
        for key, text in (("created_at", memory.created_at), ("updated_at", memory.updated_at))
        if text
    ]
    lines += [f"version: {memory.version}", f"scope: {scalar(memory.scope)}"]
    lines.append(f"category: {scalar(memory.category)}")
    if memory.supersedes:
        lines.append(f"supersedes: {scalar(one_form(memory.supersedes))}")
    lines += entries.of_links(memory.related)
    lines += [f"session_id: {scalar(memory.session_id)}", f"trigger: {scalar(memory.trigger)}"]
    if memory.origin:
        lines.append(f"origin: {scalar(memory.origin)}")
    lines += entries.of_lists(memory)
    header = "\n".join(lines)
    content = memory.content.replace("\0", "?")
    return f"{header}\n{memory.extra}---\n{content}".encode("utf-8", "replace")


def _read_written_form(data: bytes, scope: str, name: str) -> ParsedFile | None:
    """Fast path; None means not sure."""
    found = None if b"\0" in data else entries.read_written_form(data, scope, MAX_HEADER_BYTES)
    if found is None:
        return None
    memory, stated = found
    plain = memory.id == name and stated == scope and not memory.cues
    return ParsedFile(memory) if plain else ParsedFile(memory, _notes(memory, stated))


# Any other form.

# `document` says which piece a memory is.
_KEYS = frozenset(Memory.__struct_fields__) - {"content", "extra", "redacted", "stale", "piece"}
_KEYS |= {"document"}
# Keys by which front matter is known: ours, and those of Obsidian, basic-memory and Open Knowledge Format.
KNOWN_KEYS = _KEYS | {
    *("title", "tags", "tag", "aliases", "alias", "cssclasses", "cssclass", "publish", "permalink", "type"),
    *("created", "modified", "updated", "date", "description", "resource", "timestamp", "okf_version"),
}
_PLAIN_WORD = re.compile(r"[^\W\d][\w.-]*")
_OPENING = re.compile(r"(?:[ \t\r]*\n)*---[ \t\r]*(?:\n|\Z)")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t\r]*$\n?", re.MULTILINE)
_VERSION = re.compile(r"\+?0*([1-9][0-9]{0,8})(?:\.[0-9]*)?")
_TIME_LIKE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]| +)[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]*)?)?"
    r"(?: *(?:[Zz]|[+-][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)


def _doubted(reading: ParsedFile, data: bytes) -> ParsedFile:
    has_header = len(reading.memory.content.encode()) < len(data.removeprefix(b"\xef\xbb\xbf"))
    found = _doubts(reading.memory, _KEYS, has_header=has_header)
    return ParsedFile(reading.memory, reading.notes + found) if found else reading


def _read_any_form(data: bytes, scope: str, name: str) -> ParsedFile:
    text = _text(data)
    opening = _OPENING.match(text)
    if opening is None:
        if text.startswith("---\r"):
            raise MemoryFormatError("its lines end in CR alone; save it with LF line ends")
        return ParsedFile(_from_values(Header({}), text, scope, name, []))
    first = text.count("\n", 0, opening.end()) + 1
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        found = Front(None, reason=_of_unclosed(text[opening.end() :]))
    else:
        found = front(text[opening.end() : closing.start()].replace("\r\n", "\n"), _KEYS, first)
    if found.header is None or closing is None:
        told = [f"{NO_FRONT_MATTER}: {found.reason}"] if found.reason else []
        return ParsedFile(_from_values(Header({}), text, scope, name, []), tuple(told))
    header, wrong = found.header, list[tuple[str, str]]()
    memory = _from_values(header, text[closing.end() :], scope, name, wrong)
    stated = _read_as(lambda: one_text(header.values, "scope", scope), "scope", scope, wrong)
    odd = tuple(f"line {_line_of(text, key, first)}: {why}; until then it is left out" for key, why in wrong)
    notes = _notes(memory, stated)
    return ParsedFile(memory, (*found.notes, *odd, *notes, *_of_edges(header.values.get("related"))))


def _text(data: bytes) -> str:
    """The whole file as text: one rule for front matter and what is below it. Raises MemoryFormatError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MemoryFormatError(f"not a text file in UTF-8 (see line {line}); save it as UTF-8") from error
    if not text.strip():
        raise NoText("the file is empty")
    if "\0" in text:
        raise MemoryFormatError("not a text file: it holds NUL characters")
    return text


class Front(msgspec.Struct, frozen=True):
    """Front matter with notes on its lines; without a header the `reason` why it is text, if it is odd."""

    header: Header | None
    notes: tuple[str, ...] = ()
    reason: str = ""


def front(text: str, wanted: Collection[str], first: int) -> Front:
    """Read the lines between two of `---`, of which the first is line `first` of its file.

    `wanted` are the keys whose values are read; others stay verbatim. Raises MemoryFormatError for more than
    64 KiB.
    """
    if len(text.encode()) > MAX_HEADER_BYTES:
        if not _begins_with_known_key(text):
            return Front(None)
        raise MemoryFormatError(f"the front matter is larger than {MAX_HEADER_BYTES // 1024} KiB")
    # 10 ms of a daemon's start: most stores hold files in the written form alone.
    from forged.files.yaml_text import load, mended  # noqa: PLC0415

    notes: tuple[str, ...] = ()
    try:
        header = load(text, wanted)
    except MemoryFormatError as error:
        try:
            mend = mended(text)
            header = load(mend.text, wanted)
        except MemoryFormatError:
            looks_so = _begins_with_known_key(text) or text.lstrip().startswith("{")
            return Front(None, reason=_without_key(text, first) or str(error) if looks_so else "")
        notes = tuple(f"line {first - 1 + number}: {why}" for number, why in mend.faults)
    if not header.keys:
        # Remarks in YAML are headings in markdown.
        return Front(None if text.strip() else header)
    odd = next((key for key in header.keys if not _PLAIN_WORD.fullmatch(key)), None)
    is_known = any(key in KNOWN_KEYS for key in header.keys)
    if (is_known and odd is None) or sum(key in _KEYS for key in header.keys) >= _ENOUGH:
        return Front(header, notes)
    return Front(None, reason=f"`{odd[:40]}` is no key" if is_known and odd else "none of its keys is known")


def _without_key(text: str, first: int) -> str:
    numbers = (number for number, line in enumerate(text.split("\n")) if not _KEY_LINE.match(line))
    return next((f"line {first + number} has no key" for number in numbers), "")


def _of_unclosed(text: str) -> str:
    """Return why an unclosed header is text. Raises MemoryFormatError where keys are all that there is.

    The last line may be half of one, and half of a key: so a file looks that is being written.
    """
    *lines, last = text.split("\n")
    begun = not any(map(str.strip, lines)) and any(key.startswith(last) for key in KNOWN_KEYS)
    if not (begun or _begins_with_known_key(text)):
        return ""
    if all(map(_KEY_LINE.match, lines)):
        raise MemoryFormatError("the front matter has no closing `---` line")
    return "it has no closing `---` line"


# A key, what is below one, or nothing.
_KEY_LINE = re.compile(r"(?:([^\W\d][\w.-]*)[ \t]*:(?:[ \t\r]|$)|[ \t\r#-]|$)")


def _begins_with_known_key(text: str) -> bool:
    first = next((line for line in text.split("\n") if line.strip(" \t\r") and line[0] != "#"), "")
    found = _KEY_LINE.match(first)
    return found is not None and found[1] in KNOWN_KEYS


def _line_of(text: str, key: str, first: int) -> int:
    """The number of the line with a key of the front matter that begins in line `first`."""
    lines = enumerate(text.split("\n"), 1)
    pattern = re.compile(rf"[ \t{{]*[\"']?{key}[\"']?[ \t]*:")
    return next((number for number, line in lines if number >= first and pattern.match(line)), first)


def _from_values(header: Header, body: str, scope: str, name: str, wrong: list[tuple[str, str]]) -> Memory:
    """The memory; a value that is none of its key's counts as missing, and `wrong` gets key and reason."""

    def text(key: str, default: str = "") -> str:
        return _read_as(lambda: one_text(header.values, key, default), key, default, wrong)

    def read(key: str, default: T, convert: Callable[[Value], T]) -> T:
        return _read_as(lambda: convert(header.values.get(key)), key, default, wrong)

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
        related=read("related", (), entries.links),
        extra=header.extra,
        origin=text("origin"),
        cues=read("cues", (), entries.cues),
        evidence=read("evidence", (), entries.evidence),
        entities=read("entities", (), entries.entities),
        relations=read("relations", (), entries.relations),
        piece=read("document", None, entries.piece),
    )


def _read_as(value: Callable[[], T], key: str, default: T, wrong: list[tuple[str, str]]) -> T:
    try:
        return value()
    except MemoryFormatError as error:
        wrong.append((key, str(error)))
        return default


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


def _notes(memory: Memory, stated_scope: str) -> tuple[str, ...]:
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


def _time_scalar(text: str) -> str:
    return text if _TIME_LIKE.fullmatch(text) else scalar(text)


def _doubts(memory: Memory, keys: Collection[str], *, has_header: bool) -> tuple[str, ...]:
    """Return sentences on what a person may have meant otherwise; `keys` are those of a memory."""
    notes = [
        f"`{key}` is no key of a memory; write `{key.lower()}`"
        for key in _KEY.findall(memory.extra)
        if key not in keys and key.lower() in keys
    ]
    if _begins_like_a_header(memory.content, keys, has_header=has_header):
        notes.append(f"{NO_FRONT_MATTER}; {_PLACE}")
    return tuple(notes)


def _begins_like_a_header(text: str, keys: Collection[str], *, has_header: bool) -> bool:
    """Whether keys of a memory stand before a line that would end front matter."""
    fence = _END.search(text)
    if fence is None:
        return False
    found = _KEY.findall(text, 0, fence.start())
    if not has_header and text.startswith("---"):
        return bool(found)
    return sum(key.lower() in keys for key in found) >= (1 if has_header else _ENOUGH)


# --- front matter of other programs, and another predecessor --------------------------------------------


class FrontMatter(msgspec.Struct, frozen=True):
    """The `values` of the keys that were asked for, the names of all `others`, and the text below.

    `lines` is how many lines stand above that text.
    """

    values: dict[str, Value]
    body: str
    lines: int = 0
    others: tuple[str, ...] = ()


def front_matter(text: str, keys: Collection[str]) -> FrontMatter:
    """Read it as that of a memory file; without any there are no values.

    Raises MemoryFormatError for more than 64 KiB of it.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return FrontMatter({}, text)
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() in {"---", "..."}), 0)
    header = front("".join(f"{line}\n" for line in lines[1:end]), keys, 2).header if end else None
    if header is None:
        return FrontMatter({}, text)
    others = tuple(key for key in header.keys if key not in keys)
    return FrontMatter(header.values, "\n".join(lines[end + 1 :]), end + 1, others)


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
