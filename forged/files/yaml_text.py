"""Small YAML reader for front matter: values of known keys; all other lines verbatim.

The only module that uses PyYAML. Every scalar stays text, because YAML 1.1 types lose nanoseconds and turn
`no` into False; the caller converts each field. Anchors, aliases and tags are refused during parsing, and
depth and number of parts are limited, which prevents expansion attacks. Anything else raises
MemoryFormatError with the reason. `repair_header` builds a valid header if each line has its key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

import msgspec
import yaml

from forged.errors import MemoryFormatError
from forged.files.entries import Header, Value
from forged.files.frontmatter import scalar

MAX_EVENTS = 4096
MAX_DEPTH = 8

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_ODD_LINE_END = re.compile("[\r\x85\u2028\u2029]")


def load(text: str, known: Collection[str]) -> Header:
    """Parse YAML front matter with LF line ends into `known` keys; lines of other keys stay verbatim.

    Raises MemoryFormatError.
    """
    if _ODD_LINE_END.search(text):
        raise MemoryFormatError("the front matter has a line end other than LF or CRLF")
    try:
        return _HeaderReader(text, known).values()
    except yaml.MarkedYAMLError as error:
        line = f" near its line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise MemoryFormatError(f"the front matter is not YAML{line}: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise MemoryFormatError(f"the front matter is not YAML: {reason}") from error


class _HeaderReader:
    """Reads front matter in one walk over its YAML events, within limits of depth and number."""

    def __init__(self, text: str, known: Collection[str]) -> None:
        self._known = known
        self._lines = text.splitlines(keepends=True)
        self._events = yaml.parse(text, Loader=_LOADER)
        self._count = 0
        self._line = 0  # the last line with a part of a value

    def values(self) -> Header:
        """Read the whole header: values of known keys, all keys, and the lines of the unknown ones."""
        self._take()
        event = self._take()
        if isinstance(event, yaml.StreamEndEvent):
            return Header({}, self._unowned(set(), 0))
        start = self._take()
        plain = isinstance(event, yaml.DocumentStartEvent) and not event.explicit
        if not plain or not isinstance(start, yaml.MappingStartEvent):
            raise MemoryFormatError("the front matter is not a list of `key: value` lines")
        known: dict[str, Value] = {}
        owned: set[int] = set()
        keys: list[str] = []
        for key, first_line, value in self._pairs(0):
            keys.append(key)
            if key in self._known:
                known[key] = value
                owned.update(range(first_line, self._line + 1))
            elif start.flow_style:
                raise MemoryFormatError(
                    f"`{key[:40]}` is not a key of a memory; write it on a line of its own"
                )
        self._take()
        if not isinstance(self._take(), yaml.StreamEndEvent):
            raise MemoryFormatError("the front matter has more than one YAML document")
        extra = "" if start.flow_style else self._unowned(owned, _marks(start)[0].column)
        return Header(known, extra, tuple(keys))

    def _unowned(self, owned: set[int], indent: int) -> str:
        """Return the lines that belong to no known key, without the header's indent; "" if all are blank."""
        rest = [line for number, line in enumerate(self._lines) if number not in owned]
        text = "".join(line.removeprefix(" " * indent) for line in rest)
        return text if text.strip() else ""

    def _take(self) -> yaml.Event:
        """Return the next YAML event. Raises MemoryFormatError for an alias, anchor or tag, or too many."""
        event = next(self._events)
        self._count += 1
        if self._count > MAX_EVENTS:
            raise MemoryFormatError("the front matter has too many parts")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise MemoryFormatError(
                "the front matter uses a YAML anchor or alias; quote text that begins with & or *"
            )
        if getattr(event, "tag", None):
            raise MemoryFormatError("the front matter uses a YAML tag; quote text that begins with !")
        return event

    def _read_value(self, event: yaml.Event, depth: int) -> Value:
        """Return the value that begins with an event: text, tuple, dict or None; refuses deep nesting."""
        if depth > MAX_DEPTH:
            raise MemoryFormatError("the front matter is nested too deeply")
        if isinstance(event, yaml.ScalarEvent):
            self._line = max(self._line, _last_line(event))
            return None if not event.style and event.value in _NULLS else event.value
        if isinstance(event, yaml.MappingStartEvent):
            return {key: value for key, _, value in self._pairs(depth)}
        items: list[Value] = []
        while not isinstance(event := self._take(), yaml.SequenceEndEvent):
            items.append(self._read_value(event, depth + 1))
        self._note_last_line(event)
        return tuple(items)

    def _pairs(self, depth: int) -> Iterator[tuple[str, int, Value]]:
        """Yield each key of a YAML mapping with its line and value; refuses a repeated key."""
        keys: set[str] = set()
        while not isinstance(event := self._take(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise MemoryFormatError("the front matter has a key that is not text")
            if event.value in keys:
                raise MemoryFormatError(f"the key `{event.value[:40]}` is there twice")
            keys.add(event.value)
            yield event.value, _marks(event)[0].line, self._read_value(self._take(), depth + 1)
        self._note_last_line(event)

    def _note_last_line(self, event: yaml.Event) -> None:
        """Record the last line of a list or mapping, which belongs to its key."""
        # The end of a block collection is reported with the next token, lines later; that of a flow
        # collection at its bracket, and only brackets have a width.
        start, end = _marks(event)
        if end.index > start.index:
            self._line = max(self._line, end.line)


def _last_line(event: yaml.ScalarEvent) -> int:
    """Return the number of the last line with a part of a scalar."""
    start, end = _marks(event)
    return end.line - 1 if end.column == 0 and end.line > start.line else end.line


def _marks(event: yaml.Event) -> tuple[yaml.Mark | yaml._yaml.Mark, yaml.Mark | yaml._yaml.Mark]:
    """Return the positions in the text where a YAML event starts and ends."""
    assert event.start_mark is not None
    assert event.end_mark is not None
    return event.start_mark, event.end_mark


_ENTRY = re.compile(r"([^\W\d][\w.-]*)[ \t]*:(?:[ \t]+(.*)|)", re.DOTALL)
_BELOW = re.compile(r"[ \t#]|-(?:[ \t]|\Z)|[]}][ \t,]*\Z|[ \t\r]*\Z")
# A possible text without quotes: after a key, or an entry of a list.
_LINE = re.compile(r"([ \t]*)((?:- +)*(?:[^\W\d][\w.-]*[ \t]*:[ \t]+)?)(.*)", re.DOTALL)
_MOST_ENTRIES = 256


class RepairedHeader(msgspec.Struct, frozen=True):
    """Front matter made readable, and its `faults`: line numbers, from 1, each with a sentence."""

    text: str
    faults: tuple[tuple[int, str], ...]


def repair_header(text: str) -> RepairedHeader:
    """Return front matter that `load` can read; keys with invalid YAML become plain texts or comments.

    Raises MemoryFormatError for a line that belongs to no key, more than 256 keys, or none.
    """
    entries: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if found := _ENTRY.fullmatch(line):
            entries.append((number, found[1], [line]))
        elif not _BELOW.match(line) or not (entries or line.lstrip()[:1] in {"", "#"}):
            raise MemoryFormatError(f"line {number} of the front matter has no key")
        elif entries:
            entries[-1][2].append(line)
    if not 0 < len(entries) <= _MOST_ENTRIES:
        raise MemoryFormatError(f"the front matter has no keys, or more than {_MOST_ENTRIES}")
    kept: list[str] = []
    faults: list[tuple[int, str]] = []
    seen: set[str] = set()
    for number, key, lines in entries:
        fresh, why = _repaired_entry(key[:40], lines)
        if key in seen:
            fresh, why = _as_comments(lines), f"the key `{key[:40]}` is there twice; the first is used"
        seen.add(key)
        kept += fresh
        if why:
            faults.append((number, why))
    return RepairedHeader("".join(f"{line}\n" for line in kept), tuple(faults))


def _repaired_entry(key: str, lines: list[str]) -> tuple[list[str], str]:
    """Return the lines of one key as valid YAML, or as comments, and the fault found or ""."""
    if _is_entry(lines):
        return lines, ""
    first, below = lines[0], lines[1:]
    quoted = _in_quotes(first)
    ways = ([first, *map(_in_quotes, below)], [quoted, *below], [quoted, *_as_comments(below)])
    for fresh in filter(_is_entry, ways):
        return fresh, f"`{key}` is not YAML and was read as plain text; put it in quotes"
    return _as_comments(lines), f"`{key}` is not YAML and was left out; put it in quotes"


def _is_entry(lines: Iterable[str]) -> bool:
    """Return True if these lines are valid YAML with exactly one key."""
    try:
        return len(load("".join(f"{line}\n" for line in lines), ()).keys) == 1
    except MemoryFormatError:
        return False


def _in_quotes(line: str) -> str:
    """Return a line of YAML with its value in quotes; an indenting tab becomes four blanks."""
    found = _LINE.fullmatch(line)
    assert found is not None
    value = found[3].strip()
    return found[1].expandtabs(4) + found[2].expandtabs(1) + (scalar(value) if value else "")


def _as_comments(lines: Iterable[str]) -> list[str]:
    """Return lines as YAML comments, without blank ones."""
    return ["# " + _ODD_LINE_END.sub(" ", line) for line in lines if line.strip()]
