"""Parse memory files that people or other programs wrote: any front matter, or none.

Lines between two of `---` are front matter only if they have keys: plain words, one of them known. A
horizontal rule above a paragraph is text, like all that follows. Contradictions become notes. Raises
MemoryFormatError.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from forged.errors import MemoryFormatError, NoText
from forged.files.entries import Header, Value, memory_of, note_on_links, one_text, read_as
from forged.memory import MOST_CUE_CHARS, MOST_CUES, Memory

MAX_HEADER_BYTES = 64 * 1024
_END = re.compile(r"^(?:---|\.\.\.)[ \t\r]*$", re.MULTILINE)
_KEY = re.compile(r"^([A-Za-z_]+)[ \t]*:(?=\s|$)", re.MULTILINE)
# Keys that mark the first lines of a text as front matter, even without `---`.
_ENOUGH = 2
NO_FRONT_MATTER = "its text begins like front matter, but is not"
_PLACE = "keys must be between two lines `---`, the first of them at the start of the file"


class ParsedFile(msgspec.Struct, frozen=True, gc=False):
    """A memory as parsed from its file, and notes for a person on what to correct in that file."""

    memory: Memory
    notes: tuple[str, ...] = ()


# `document` holds the position of a piece.
_KEYS = {*Memory.__struct_fields__, "document"} - {"content", "extra", "redacted", "stale", "piece"}
# Keys that identify front matter: forged's, and those of Obsidian, basic-memory and Open Knowledge Format.
KNOWN_KEYS = _KEYS | {
    *("title", "tags", "tag", "aliases", "alias", "cssclasses", "cssclass", "publish", "permalink", "type"),
    *("created", "modified", "updated", "date", "description", "resource", "timestamp", "okf_version"),
}
_PLAIN_WORD = re.compile(r"[^\W\d][\w.-]*")
_OPENING = re.compile(r"(?:[ \t\r]*\n)*---[ \t\r]*(?:\n|\Z)")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t\r]*$\n?", re.MULTILINE)


TIME_LIKE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]| +)[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]*)?)?"
    r"(?: *(?:[Zz]|[+-][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)


def notes_on(memory: Memory, stated_scope: str) -> tuple[str, ...]:
    """Return notes on what to correct: a contradicting scope, invalid times, cues beyond the limits."""
    notes = []
    if stated_scope != memory.scope:
        notes.append(
            f"it says scope {stated_scope[:40]!r} but is in a {memory.scope} directory, which decides"
        )
    for key, text in (("created_at", memory.created_at), ("updated_at", memory.updated_at)):
        if text and not TIME_LIKE.fullmatch(text):
            notes.append(f"`{key}` is {text[:40]!r}, which is not a time; write it like 2026-01-31T12:00:00Z")
    if len(memory.cues) > MOST_CUES:
        notes.append(f"it has {len(memory.cues)} cues; only the first {MOST_CUES} are used")
    if any(len(cue) > MOST_CUE_CHARS for cue in memory.cues):
        notes.append(f"only the first {MOST_CUE_CHARS} characters of a cue are used")
    return tuple(notes)


def with_notes(reading: ParsedFile, data: bytes) -> ParsedFile:
    """Return a parsed file with notes added on keys in wrong case and on an unrecognized header."""
    has_header = len(reading.memory.content.encode()) < len(data.removeprefix(b"\xef\xbb\xbf"))
    found = _notes_on_keys(reading.memory, _KEYS, has_header=has_header)
    return ParsedFile(reading.memory, reading.notes + found) if found else reading


def read_any_form(data: bytes, scope: str, name: str) -> ParsedFile:
    """Parse a file with any front matter, or none; add notes on contradictions and unreadable keys."""
    text = _decode_text(data)
    opening = _OPENING.match(text)
    if opening is None:
        if text.startswith("---\r"):
            raise MemoryFormatError("its lines end in CR only; save it with LF line ends")
        return ParsedFile(memory_of(Header({}), text, scope, name, []))
    first = text.count("\n", 0, opening.end()) + 1
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        found = HeaderResult(None, reason=_unclosed_reason(text[opening.end() :]))
    else:
        found = parse_header(text[opening.end() : closing.start()].replace("\r\n", "\n"), _KEYS, first)
    if found.header is None or closing is None:
        why = (f"{NO_FRONT_MATTER}: {found.reason}",) if found.reason else ()
        return ParsedFile(memory_of(Header({}), text, scope, name, []), why)
    header, wrong = found.header, list[tuple[str, str]]()
    memory = memory_of(header, text[closing.end() :], scope, name, wrong)
    stated = read_as(lambda: one_text(header.values, "scope", scope), "scope", scope, wrong)
    odd = tuple(f"line {_line_of(text, key, first)}: {why}; until then it is left out" for key, why in wrong)
    notes = notes_on(memory, stated)
    return ParsedFile(memory, (*found.notes, *odd, *notes, *note_on_links(header.values.get("related"))))


def _decode_text(data: bytes) -> str:
    """Return the bytes of a file as text. Raises MemoryFormatError, and NoText if it is blank."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise MemoryFormatError(f"not a text file in UTF-8 (see line {line}); save it as UTF-8") from error
    if not text.strip():
        raise NoText("the file is empty")
    if "\0" in text:
        raise MemoryFormatError("not a text file: it contains NUL characters")
    return text


class HeaderResult(msgspec.Struct, frozen=True):
    """Result of parsing front matter: a header with notes, or none with the `reason` why it is text."""

    header: Header | None
    notes: tuple[str, ...] = ()
    reason: str = ""


def parse_header(text: str, wanted: Collection[str], first: int) -> HeaderResult:
    """Parse the lines between two of `---` as front matter, repaired if need be, or say why they are text.

    Raises MemoryFormatError for more than 64 KiB.
    """
    if len(text.encode()) > MAX_HEADER_BYTES:
        if not _begins_with_known_key(text):
            return HeaderResult(None)
        raise MemoryFormatError(f"the front matter is larger than {MAX_HEADER_BYTES // 1024} KiB")
    # Costs 10 ms at the start of a daemon; most stores hold only files in the written form.
    from forged.files.yaml_text import load, repair_header  # noqa: PLC0415

    notes: tuple[str, ...] = ()
    try:
        header = load(text, wanted)
    except MemoryFormatError as error:
        try:
            mend = repair_header(text)
            header = load(mend.text, wanted)
        except MemoryFormatError:
            looks_so = _begins_with_known_key(text) or text.lstrip().startswith("{")
            return HeaderResult(
                None, reason=_missing_key_reason(text, first) or str(error) if looks_so else ""
            )
        notes = tuple(f"line {first - 1 + number}: {why}" for number, why in mend.faults)
    if not header.keys:
        # Comments of YAML are headings of markdown.
        return HeaderResult(None if text.strip() else header)
    odd = next((key for key in header.keys if not _PLAIN_WORD.fullmatch(key)), None)
    is_known = any(key in KNOWN_KEYS for key in header.keys)
    if (is_known and odd is None) or sum(key in _KEYS for key in header.keys) >= _ENOUGH:
        return HeaderResult(header, notes)
    return HeaderResult(
        None, reason=f"`{odd[:40]}` is not a key" if is_known and odd else "it has no known key"
    )


def _missing_key_reason(text: str, first: int) -> str:
    """Return a sentence that names the first line without a key, for a broken header; "" if all have one."""
    numbers = (number for number, line in enumerate(text.split("\n")) if not _KEY_LINE.match(line))
    return next((f"line {first + number} has no key" for number in numbers), "")


def _unclosed_reason(text: str) -> str:
    """Return why an unclosed header is text, "" for a mere rule; raise if all lines have keys."""
    *lines, last = text.split("\n")
    begun = not any(map(str.strip, lines)) and any(key.startswith(last) for key in KNOWN_KEYS)
    if not (begun or _begins_with_known_key(text)):
        return ""
    if all(map(_KEY_LINE.match, lines)):
        raise MemoryFormatError("the front matter has no closing `---` line")
    return "it has no closing `---` line"


# a key, a nested line, or a blank line
_KEY_LINE = re.compile(r"(?:([^\W\d][\w.-]*)[ \t]*:(?:[ \t\r]|$)|[ \t\r#-]|$)")


def _begins_with_known_key(text: str) -> bool:
    """Return True if the first line of a text, blanks and comments apart, has a known key."""
    first = next((line for line in text.split("\n") if line.strip(" \t\r") and line[0] != "#"), "")
    found = _KEY_LINE.match(first)
    return found is not None and found[1] in KNOWN_KEYS


def _line_of(text: str, key: str, first: int) -> int:
    """Return the number of the line with a key, from line `first` on; `first` if no line has it."""
    lines = enumerate(text.split("\n"), 1)
    pattern = re.compile(rf"[ \t{{]*[\"']?{key}[\"']?[ \t]*:")
    return next((number for number, line in lines if number >= first and pattern.match(line)), first)


def _notes_on_keys(memory: Memory, keys: Collection[str], *, has_header: bool) -> tuple[str, ...]:
    """Return notes on keys of a memory in wrong case, and on keys outside of its front matter."""
    notes = [
        f"`{key}` is not a key of a memory; write `{key.lower()}`"
        for key in _KEY.findall(memory.extra)
        if key not in keys and key.lower() in keys
    ]
    if _begins_like_a_header(memory.content, keys, has_header=has_header):
        notes.append(f"{NO_FRONT_MATTER}; {_PLACE}")
    return tuple(notes)


def _begins_like_a_header(text: str, keys: Collection[str], *, has_header: bool) -> bool:
    """Return True if the text above the first line of `---` has keys of a memory, as a header would."""
    fence = _END.search(text)
    if fence is None:
        return False
    found = _KEY.findall(text, 0, fence.start())
    if not has_header and text.startswith("---"):
        return bool(found)
    return sum(key.lower() in keys for key in found) >= (1 if has_header else _ENOUGH)


class FrontMatter(msgspec.Struct, frozen=True):
    """Front matter of a text: `values` of wanted keys, names of all `others`, and the text below.

    `lines` is the number of lines above that text.
    """

    values: dict[str, Value]
    body: str
    lines: int = 0
    others: tuple[str, ...] = ()


def front_matter(text: str, keys: Collection[str]) -> FrontMatter:
    """Split any text into the values of these keys of its front matter, other keys, and the body.

    Raises MemoryFormatError for more than 64 KiB of it.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return FrontMatter({}, text)
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() in {"---", "..."}), 0)
    header = parse_header("".join(f"{line}\n" for line in lines[1:end]), keys, 2).header if end else None
    if header is None:
        return FrontMatter({}, text)
    others = tuple(key for key in header.keys if key not in keys)
    return FrontMatter(header.values, "\n".join(lines[end + 1 :]), end + 1, others)
