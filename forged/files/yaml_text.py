"""The little YAML that front matter needs: the values of a header's known keys, and all else of it verbatim.

The only module that knows PyYAML. Every scalar stays text, because YAML 1.1 typing loses nanoseconds and
turns `no` into False; the caller converts field by field. Anchors, aliases and tags are refused while events
stream in, and depth and number of parts are bounded, so a bomb has nothing to unfold. Whatever is no such
header raises MemoryFormatError with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

import yaml

from forged.errors import MemoryFormatError

MAX_EVENTS = 4096
MAX_DEPTH = 8

Value: TypeAlias = "str | tuple[Value, ...] | dict[str, Value] | None"
"""A scalar's text, a list, a group of keys, or None for a plain null."""

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def load(text: str, known: Collection[str]) -> tuple[dict[str, Value], str]:
    """Return the values of the known keys, and verbatim every line that belongs to none of them.

    `text` holds LF as its only line end. Raises MemoryFormatError.
    """
    try:
        return _Header(text, known).values()
    except yaml.MarkedYAMLError as error:
        line = f" near its line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise MemoryFormatError(f"the front matter is not YAML{line}: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise MemoryFormatError(f"the front matter is not YAML: {reason}") from error


class _Header:
    """One walk over the YAML events of a header."""

    def __init__(self, text: str, known: Collection[str]) -> None:
        self._known = known
        self._lines = text.splitlines(keepends=True)
        self._events = yaml.parse(text, Loader=_LOADER)
        self._count = 0
        self._line = 0  # the last line that held a part of a value

    def values(self) -> tuple[dict[str, Value], str]:
        self._take()
        event = self._take()
        if isinstance(event, yaml.StreamEndEvent):
            return {}, self._unowned(set(), 0)
        start = self._take()
        plain = isinstance(event, yaml.DocumentStartEvent) and not event.explicit
        if not plain or not isinstance(start, yaml.MappingStartEvent):
            raise MemoryFormatError("the front matter is not a list of `key: value` lines")
        known: dict[str, Value] = {}
        owned: set[int] = set()
        for key, first_line, value in self._pairs(0):
            if key in self._known:
                known[key] = value
                owned.update(range(first_line, self._line + 1))
            elif start.flow_style:
                raise MemoryFormatError(f"`{key[:40]}` is no key of a memory; write it on a line of its own")
        self._take()
        if not isinstance(self._take(), yaml.StreamEndEvent):
            raise MemoryFormatError("the front matter holds more than one YAML document")
        return known, "" if start.flow_style else self._unowned(owned, _marks(start)[0].column)

    def _unowned(self, owned: set[int], indent: int) -> str:
        rest = [line for number, line in enumerate(self._lines) if number not in owned]
        text = "".join(line.removeprefix(" " * indent) for line in rest)
        return text if text.strip() else ""

    def _take(self) -> yaml.Event:
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

    def _value(self, event: yaml.Event, depth: int) -> Value:
        if depth > MAX_DEPTH:
            raise MemoryFormatError("the front matter is nested too deeply")
        if isinstance(event, yaml.ScalarEvent):
            self._line = max(self._line, _last_line(event))
            return None if not event.style and event.value in _NULLS else event.value
        if isinstance(event, yaml.MappingStartEvent):
            return {key: value for key, _, value in self._pairs(depth)}
        items: list[Value] = []
        while not isinstance(event := self._take(), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        self._close(event)
        return tuple(items)

    def _pairs(self, depth: int) -> Iterator[tuple[str, int, Value]]:
        """Yield key, its line and its value; a key that comes twice is refused."""
        keys: set[str] = set()
        while not isinstance(event := self._take(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise MemoryFormatError("the front matter has a key that is not text")
            if event.value in keys:
                raise MemoryFormatError(f"the key `{event.value[:40]}` is there twice")
            keys.add(event.value)
            yield event.value, _marks(event)[0].line, self._value(self._take(), depth + 1)
        self._close(event)

    def _close(self, event: yaml.Event) -> None:
        # The end of a block collection is only noticed at the next token, lines later; that of a flow
        # collection is its bracket, and only brackets have a width.
        start, end = _marks(event)
        if end.index > start.index:
            self._line = max(self._line, end.line)


def _last_line(event: yaml.ScalarEvent) -> int:
    start, end = _marks(event)
    return end.line - 1 if end.column == 0 and end.line > start.line else end.line


def _marks(event: yaml.Event) -> tuple[yaml.Mark | yaml._yaml.Mark, yaml.Mark | yaml._yaml.Mark]:
    """Where an event starts and ends."""
    assert event.start_mark is not None
    assert event.end_mark is not None
    return event.start_mark, event.end_mark
