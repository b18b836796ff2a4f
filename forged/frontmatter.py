"""Memory files as bytes: front matter and body, read tolerantly and written in one exact form.

This is the only module that knows YAML. People edit these files by hand, so reading takes what it can
(BOM, CRLF, `...`, missing keys, no front matter at all) and says in a sentence what it cannot. Every scalar
stays text and is converted field by field, because YAML 1.1 typing loses nanoseconds and turns `no` into
False; anchors, aliases and tags are refused while events stream in, so a bomb has nothing to unfold
(design.md D15). The exact form that forged and the Go program write is matched by one expression first,
several times faster; whatever it does not match goes to YAML, and a test proves that both read the same.

Writing gives the Go form byte for byte (behaviours.md section 4), so that either program can read a store
of the other. A general YAML dumper was rejected: none reproduces that indentation and quoting.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec
import yaml

from forged.errors import MemoryFormatError
from forged.memory import Memory, Related, Relationship, Scope, Trigger

MAX_FILE_BYTES = 256 * 1024
MAX_HEADER_BYTES = 64 * 1024
MAX_YAML_EVENTS = 4096
MAX_YAML_DEPTH = 8


class Reading(msgspec.Struct, frozen=True):
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
        scope: what its directory stands for; it wins over the scope in the file (bug 43).
        name: file name without `.md`; it is the id if the file states none.

    Missing keys get defaults, so that a person can write a memory by hand: version 1, trigger `explicit`,
    no session, no times, category `user-facts` in a user scope and `project-conventions` elsewhere. Without
    front matter the whole text is the body. Raises MemoryFormatError.
    """
    if len(data) > MAX_FILE_BYTES:
        raise MemoryFormatError(f"larger than {MAX_FILE_BYTES // 1024} KiB; split it into smaller memories")
    return _read_written_form(data, scope, name) or _read_any_form(data, scope, name)


def render(memory: Memory) -> bytes:
    """Return the file of a memory in the form of the Go program, its unknown keys last.

    Text that UTF-8 cannot hold (lone surrogates from a model's JSON) becomes `?`. An unknown time is left out.
    """
    lines = ["---", f"id: {_scalar(memory.id)}"]
    lines += [
        f"{key}: {_time_scalar(text)}"
        for key, text in (("created_at", memory.created_at), ("updated_at", memory.updated_at))
        if text
    ]
    lines += [f"version: {memory.version}", f"scope: {_scalar(memory.scope)}"]
    lines.append(f"category: {_scalar(memory.category)}")
    if memory.supersedes:
        lines.append(f"supersedes: {_scalar(memory.supersedes)}")
    if memory.related:
        lines.append("related:")
    for edge in memory.related:
        lines.append(f"    - id: {_scalar(edge.id)}")
        lines.append(f"      relationship: {_scalar(edge.relationship)}")
    lines += [f"session_id: {_scalar(memory.session_id)}", f"trigger: {_scalar(memory.trigger)}"]
    header = "\n".join(lines)
    return f"{header}\n{memory.extra}---\n{memory.content}".encode("utf-8", "replace")


# The written form. Narrow on purpose: what it accepts must mean the same to any YAML reader.

_TEXT = (
    r"""(?:(?!(?i:null)\n)[A-Za-z0-9_][A-Za-z0-9_./+:-]*(?<!:)"""  # plain; no colon before a blank or line end
    r"""|"[ !#-\[\]-~]*"|'[ -&(-~]*')"""  # quoted ASCII with nothing to unescape
)
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
_EDGE = re.compile(rf"    - id: ({_TEXT})\n      relationship: ({_TEXT})\n")
_WRITTEN_FORM = re.compile(
    rf"---\nid: ({_TEXT})\ncreated_at: ({_TIME})\nupdated_at: ({_TIME})\nversion: ([1-9][0-9]{{0,8}})\n"
    rf"scope: ({_TEXT})\ncategory: ({_TEXT})\n(?:supersedes: ({_TEXT})\n)?"
    rf"(?:related:\n((?:    - id: {_TEXT}\n      relationship: {_TEXT}\n)+))?"
    rf"session_id: ({_TEXT})\ntrigger: ({_TEXT})\n---\n"
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
    header = match[0]
    if '"' in header or "'" in header:
        parts = tuple(map(_unquoted, parts))
    id_, created_at, updated_at, version, stated, category, supersedes, edges, session_id, trigger = parts
    if not id_:
        return None
    memory = Memory(
        id_, text[match.end() :], created_at, updated_at, int(version), scope, category, session_id, trigger,
        supersedes or None, _edges(edges) if edges else (),
    )  # fmt: skip
    return (
        Reading(memory) if id_ == name and stated == scope else Reading(memory, _notes(memory, stated, name))
    )


def _edges(text: str) -> tuple[Related, ...]:
    return tuple(Related(_unquoted(id_), _unquoted(how)) for id_, how in _EDGE.findall(text))


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in {'"', "'"} else text


# Any other form.

_Value: TypeAlias = "str | None | tuple[_Value, ...] | dict[str, _Value]"

_KEYS = frozenset(Memory.__struct_fields__) - {"content", "extra"}
_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t\r]*\n)*---[ \t\r]*(?:\n|\Z)")
_CLOSING = re.compile(rb"^(?:---|\.\.\.)[ \t\r]*$\n?", re.MULTILINE)
_ODD_LINE_END = re.compile("[\r\x85\u2028\u2029]")
_VERSION = re.compile(r"\+?0*([1-9][0-9]{0,8})(?:\.[0-9]*)?")
_TIME_LIKE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:(?:[Tt]| +)[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]*)?)?(?: *(?:[Zz]|[+-][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def _read_any_form(data: bytes, scope: str, name: str) -> Reading:
    opening = _OPENING.match(data)
    if opening is None:
        return Reading(_from_values({}, "", _whole_text(data), scope, name))
    closing = _CLOSING.search(data, opening.end())
    if closing is None:
        raise MemoryFormatError("the front matter has no closing `---` line")
    header, extra = _header_values(_header_text(data[opening.end() : closing.start()]))
    body = data[closing.end() :].decode("utf-8", "replace")
    memory = _from_values(header, extra, body, scope, name)
    return Reading(memory, _notes(memory, _text(header, "scope", scope), name))


def _whole_text(data: bytes) -> str:
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


def _header_values(text: str) -> tuple[dict[str, _Value], str]:
    """Return the values of the known keys, and verbatim every line that belongs to none of them."""
    try:
        return _Header(text).values()
    except yaml.MarkedYAMLError as error:
        line = f" near its line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise MemoryFormatError(f"the front matter is not YAML{line}: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise MemoryFormatError(f"the front matter is not YAML: {reason}") from error


class _Header:
    """One walk over the YAML events of a header."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._events = yaml.parse(text, Loader=_LOADER)
        self._count = 0
        self._line = 0  # the last line that held a part of a value

    def values(self) -> tuple[dict[str, _Value], str]:
        self._take()
        event = self._take()
        if isinstance(event, yaml.StreamEndEvent):
            return {}, self._unowned(set(), 0)
        start = self._take()
        if event.explicit or not isinstance(start, yaml.MappingStartEvent):
            raise MemoryFormatError("the front matter is not a list of `key: value` lines")
        known: dict[str, _Value] = {}
        owned: set[int] = set()
        for key, first_line, value in self._pairs(0):
            if key in _KEYS:
                known[key] = value
                owned.update(range(first_line, self._line + 1))
            elif start.flow_style:
                raise MemoryFormatError(f"`{key[:40]}` is no key of a memory; write it on a line of its own")
        self._take()
        if not isinstance(self._take(), yaml.StreamEndEvent):
            raise MemoryFormatError("the front matter holds more than one YAML document")
        return known, "" if start.flow_style else self._unowned(owned, start.start_mark.column)

    def _unowned(self, owned: set[int], indent: int) -> str:
        rest = [line for number, line in enumerate(self._lines) if number not in owned]
        text = "".join(line.removeprefix(" " * indent) for line in rest)
        return text if text.strip() else ""

    def _take(self) -> yaml.Event:
        event = next(self._events)
        self._count += 1
        if self._count > MAX_YAML_EVENTS:
            raise MemoryFormatError("the front matter has too many parts")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise MemoryFormatError(
                "the front matter uses a YAML anchor or alias; quote text that begins with & or *"
            )
        if getattr(event, "tag", None):
            raise MemoryFormatError("the front matter uses a YAML tag; quote text that begins with !")
        return event

    def _value(self, event: yaml.Event, depth: int) -> _Value:
        if depth > MAX_YAML_DEPTH:
            raise MemoryFormatError("the front matter is nested too deeply")
        if isinstance(event, yaml.ScalarEvent):
            self._line = max(self._line, _last_line(event))
            return None if not event.style and event.value in _NULLS else event.value
        if isinstance(event, yaml.MappingStartEvent):
            return {key: value for key, _, value in self._pairs(depth)}
        items: list[_Value] = []
        while not isinstance(event := self._take(), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        self._close(event)
        return tuple(items)

    def _pairs(self, depth: int) -> Iterator[tuple[str, int, _Value]]:
        """Yield key, its line and its value; a key that comes twice is refused."""
        keys: set[str] = set()
        while not isinstance(event := self._take(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise MemoryFormatError("the front matter has a key that is not text")
            if event.value in keys:
                raise MemoryFormatError(f"the key `{event.value[:40]}` is there twice")
            keys.add(event.value)
            yield event.value, event.start_mark.line, self._value(self._take(), depth + 1)
        self._close(event)

    def _close(self, event: yaml.Event) -> None:
        # The end of a block collection is only noticed at the next token, lines later; that of a flow
        # collection is its bracket, and only brackets have a width.
        if event.end_mark.index > event.start_mark.index:
            self._line = max(self._line, event.end_mark.line)


def _last_line(event: yaml.ScalarEvent) -> int:
    end: int = event.end_mark.line
    return end - 1 if event.end_mark.column == 0 and end > event.start_mark.line else end


def _from_values(header: dict[str, _Value], extra: str, body: str, scope: str, name: str) -> Memory:
    category = "user-facts" if scope == Scope.USER else "project-conventions"
    return Memory(
        id=_text(header, "id", name) or name,
        content=body,
        created_at=_text(header, "created_at", ""),
        updated_at=_text(header, "updated_at", ""),
        version=_version(_text(header, "version", "1")),
        scope=scope,
        category=_text(header, "category", category),
        session_id=_text(header, "session_id", ""),
        trigger=_text(header, "trigger", Trigger.EXPLICIT.value),
        supersedes=_text(header, "supersedes", "") or None,
        related=_related(header.get("related")),
        extra=extra,
    )


def _text(header: dict[str, _Value], key: str, default: str) -> str:
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


def _related(value: _Value) -> tuple[Related, ...]:
    if value is None:
        return ()
    if not isinstance(value, tuple):
        raise MemoryFormatError("`related` must be a list of entries with `id` and `relationship`")
    return tuple(map(_edge, value))


def _edge(value: _Value) -> Related:
    """One entry; a bare id, as people write it, relates to that memory."""
    entry = {"id": value} if isinstance(value, str) else value
    if not isinstance(entry, dict) or entry.get("id") is None:
        raise MemoryFormatError("an entry of `related` has no `id`")
    return Related(_text(entry, "id", ""), _text(entry, "relationship", Relationship.RELATES_TO.value))


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
    return tuple(notes)


# Writing. The three classes follow go-yaml v3's emitter; `=` and `<<` are quoted beyond it, because a YAML 1.1
# reader gives them a meaning.

_NEEDS_ESCAPES = re.compile("[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_NEEDS_QUOTES = re.compile(r"[#,\[\]{}&*!|>'\"%@` ]|[-?:](?: |\Z)|---|\.\.\.|.*(?:: |:\Z| #| \Z)", re.DOTALL)
_WORD_WITH_TYPE = re.compile(
    r"|~|null|Null|NULL|true|True|TRUE|false|False|FALSE|=|<<|\.nan|\.NaN|\.NAN|[-+]?\.(?:inf|Inf|INF)"
    r"|[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF"
)
_NUMBER = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+"
    r"|[-+]?0(?:[xX][0-9a-fA-F]*|[oO][0-7]*|[bB][01]*)"
    r"|[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"  # base 60
)
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")
_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v",
    "\f": "\\f", "\r": "\\r", "\x1b": "\\e", "\x85": "\\N", "\u2028": "\\L", "\u2029": "\\P",
}  # fmt: skip


def _time_scalar(text: str) -> str:
    return text if _TIME_LIKE.fullmatch(text) else _scalar(text)


def _scalar(text: str) -> str:
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    if _NEEDS_ESCAPES.search(text) or _reads_as_another_type(text):
        return '"' + re.sub(rf'["\\]|{_NEEDS_ESCAPES.pattern}', _escape, text) + '"'
    if _NEEDS_QUOTES.match(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _reads_as_another_type(text: str) -> bool:
    digits = text.replace("_", "")
    if _WORD_WITH_TYPE.fullmatch(text) or _NUMBER.fullmatch(digits) or _TIME_LIKE.fullmatch(text):
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
