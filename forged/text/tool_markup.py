"""Cuts tool markup out of text that is otherwise prose: calls, results, and what a harness puts between tags.

Structured messages keep tool content in parts of its own, which nobody reads here. Some agents write it into
the text itself, as `<tool>...</tool>` (the Forge agent) or in a dozen other spellings; what stands there is a
file's content or a command's output, nothing that was said. A pattern from opener to closer is not enough,
for arguments hold closers and openers, and people write about tags. So:

- An element ends where its name's openers and closers balance; CDATA inside it is opaque. One that never ends
  reaches to the end of the text: a slip may lose text, never give it away.
- A closer too many takes with it all that follows the element it seems to belong to.
- Tags in code spans and closed code blocks are prose, unless an element that begins there ends outside.
- `Vec<Tool>` is a type, unless it turns out to be closed or to hold markup.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import msgspec

_NAME = (
    r"(?:antml:[\w.:-]+|tool(?:[_-](?:call|use|result|response|output)s?)?"
    r"|function[_-](?:call|result|response|output)s?|invoke|system-reminder)"
)
# A CDATA section that begins with one backtick is a person's `<![CDATA[`.
_MARK = re.compile(
    rf"<(?:/\s*(?P<closer>{_NAME})\s*>"
    rf"|(?P<opener>{_NAME})(?=[\s/>]|\Z)(?P<empty>[^<>]*/>)?"
    r"|(?P<cdata>!\[CDATA\[(?!`[^`])))",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"^(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*(?P<fence>`{3,20}|~{3,20})[^`\n]*(?=\n)"
    r"|(?<![\w`])(?P<ticks>`{1,8})(?!`)",
    re.MULTILINE,
)
# What ends code that begins so. Of backticks the next run of the same length decides, or the line's end.
_CLOSING = {
    mark * length: re.compile(rf"^[ \t>]*{mark}{{{length},}}[ \t\r]*$", re.MULTILINE)
    for mark in "`~"
    for length in range(3, 21)
}
_CLOSING_TICKS = {"`" * n: re.compile(rf"(?<!`)`{{{n}}}(?!`)(?P<glued>\w)?|\n") for n in range(1, 9)}


class _Tag(msgspec.Struct):
    """An opener, with the closer it balances with (None: none does), or a closer."""

    name: str
    start: int
    end: int
    opens: bool = False
    closer: _Tag | None = None


def without_tool_text(text: str) -> str:
    """Return `text` without tool markup and all that it encloses; the time taken is linear in its length."""
    if "<" not in text or not (tags := _tags(text)):
        return text
    kept, position = [], 0
    for start, end in _cuts(text, tags):
        kept.append(text[position:start])
        position = end
    return "".join([*kept, text[position:]])


def _tags(text: str) -> list[_Tag]:
    tags: list[_Tag] = []
    waiting: defaultdict[str, list[_Tag]] = defaultdict(list)
    position = depth = 0
    while mark := _MARK.search(text, position):
        position = mark.end()
        if mark["cdata"]:
            position = _end_of_cdata(text, position) if depth else position
            continue
        tag = _tag(mark)
        tags.append(tag)
        if tag.opens and tag.closer is None:
            waiting[tag.name].append(tag)
            depth += 1
        elif not tag.opens and waiting[tag.name]:
            waiting[tag.name].pop().closer = tag
            depth -= 1
    return tags


def _tag(mark: re.Match[str]) -> _Tag:
    name = (mark["opener"] or mark["closer"]).lower().removeprefix("antml:")
    tag = _Tag(name, mark.start(), mark.end(), opens=bool(mark["opener"]))
    if mark["empty"]:
        tag.closer = tag
    return tag


def _end_of_cdata(text: str, start: int) -> int:
    end = text.find("]]>", start)
    return len(text) if end < 0 else end + 3


def _cuts(text: str, tags: Sequence[_Tag]) -> list[tuple[int, int]]:
    """Ranges to leave out, in order."""
    cuts: list[tuple[int, int]] = []
    begins: dict[str, int] = {}  # where the newest cut element of each name starts
    code = _Code(text, tags)
    position = 0
    for place, tag in enumerate(tags):
        if tag.start < position:
            continue
        if code_end := code.end_around(place, position):
            position = code_end
            continue
        position = tag.end
        if tag.opens and tag.closer is None and _is_type(text, tag):
            continue
        start = tag.start
        if tag.opens:
            position = len(text) if tag.closer is None else tag.closer.end
            begins[tag.name] = start
        else:
            start = begins.get(tag.name, start)
        while cuts and cuts[-1][0] >= start:
            cuts.pop()
        cuts.append((start, position))
    return cuts


def _is_type(text: str, tag: _Tag) -> bool:
    """Whether it is `List<Tool>`: glued to a word, and no markup follows."""
    if not tag.start or not text[tag.start - 1].isalnum():
        return False
    return not text[tag.end : tag.end + 80].lstrip("> \t\r\n").startswith("<")


class _Code:
    """Code spans and blocks around tags. What was searched once is kept: positions only ever grow."""

    def __init__(self, text: str, tags: Sequence[_Tag]) -> None:
        self._text = text
        self._tags = tags
        self._closings: dict[re.Pattern[str], re.Match[str] | None] = {}
        self._not_code: set[int] = set()

    def end_around(self, place: int, position: int) -> int:
        """Where the code ends that begins after `position` and holds tag number `place`; 0: there is none."""
        start = self._tags[place].start
        while opening := _CODE.search(self._text, position, start):
            end = self._end(opening)
            if end > start and not self._is_left_open(place, end):
                return end
            position = end if 0 < end <= start else opening.end()
        return 0

    def _end(self, opening: re.Match[str]) -> int:
        """Where the code ends that begins with `opening`; 0 if nothing ends it: then it is none."""
        if opening["fence"]:
            closing = self._next(_CLOSING[opening["fence"]], opening.end())
            return closing.end() if closing else 0
        closing = self._next(_CLOSING_TICKS[opening["ticks"]], opening.end())
        return closing.end() if closing and closing[0] == opening["ticks"] else 0

    def _next(self, pattern: re.Pattern[str], position: int) -> re.Match[str] | None:
        if pattern in self._closings:
            known = self._closings[pattern]
            if known is None or known.start() >= position:
                return known
        found = self._closings[pattern] = pattern.search(self._text, position)
        return found

    def _is_left_open(self, place: int, end: int) -> bool:
        """Whether an element that begins in the code up to `end` has its closer behind, and not as code."""
        while end not in self._not_code and place < len(self._tags) and self._tags[place].start < end:
            closer = self._tags[place].closer
            if closer is not None and closer.start >= end and not self._is_quoted(closer):
                self._not_code.add(end)
            place += 1
        return end in self._not_code

    def _is_quoted(self, tag: _Tag) -> bool:
        return self._text[tag.start - 1 : tag.start] == self._text[tag.end : tag.end + 1] == "`"
