"""Remove text that was not said: tool content, thoughts, insertions of a harness.

Agents write calls into the text itself, and harnesses their state, in forms of `harnesses.toml`. An element
ends where its name's openers and closers balance. CDATA is opaque. An element without an end runs to the end
of the text: a mistake may lose text, never reveal it. For other tags this applies only at the start of a
line. An extra closer removes the text after its element, one of a thought all text before it. Tags in code
are prose, unless an element that begins there ends outside. `Vec<Tool>` is a type, unless it is closed or
holds markup.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

import msgspec

from forged.text import harnesses
from forged.text.harnesses import Kind, Speaker

# In this order, because a name may be in several.
_NAMES: dict[Kind, re.Pattern[str]] = {
    kind: re.compile(harnesses.tags(kind)) for kind in ("thinking", "tools", "own", "pasted")
}
_NAME = harnesses.tags(*_NAMES)
# A CDATA section after a single backtick is a person's `<![CDATA[`.
_MARK = re.compile(
    rf"<(?=[/!\w])(?:/\s*(?P<closer>{_NAME})\s*>"
    rf"|(?P<opener>{_NAME})(?=[\s/>]|\Z)(?P<empty>[^<>]*/>)?"
    r"|(?P<cdata>!\[(?i:CDATA)\[(?!`[^`])))"
)
_CLOSER = re.compile(rf"</\s*({_NAME})\s*>")
_CODE = re.compile(
    r"^(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*(?P<fence>`{3,20}|~{3,20})[^`\n]*(?=\n)"
    r"|(?<![\w`])(?P<ticks>`{1,8})(?!`)",
    re.MULTILINE,
)


# Compiled when needed: there are 44 openings, which take 8 ms, and few texts have one.
@cache
def _fence_end_pattern(opening: str) -> re.Pattern[str]:
    """Return the pattern of the end of a code block with this opening."""
    return re.compile(rf"^[ \t>]*{opening[0]}{{{len(opening)},}}[ \t\r]*$", re.MULTILINE)


@cache
def _ticks_end_pattern(opening: str) -> re.Pattern[str]:
    """Return the pattern that ends inline code: the next run of as many backticks, or the line's end."""
    return re.compile(rf"(?<!`)`{{{len(opening)}}}(?!`)(?P<glued>\w)?|\n")


_BEGINNINGS = {
    span: (re.compile(span.begins or re.escape(span.mark)), re.compile(span.ends, re.MULTILINE))
    for span in harnesses.SPANS
}


class _MarkupTag(msgspec.Struct, gc=False):
    """Tag in a text: an opener, with the closer that balances it or None, or a closer."""

    name: str
    start: int
    end: int
    kind: Kind = "tools"
    opens: bool = False
    closer: _MarkupTag | None = None


def without_tool_text(text: str, speaker: Speaker = "user") -> str:
    """Return text without tool content, insertions and an assistant's thoughts, in linear time."""
    tags = _find_tags(text, speaker) if "<" in text else []
    if spans := [*_inserted_spans(text, speaker)]:
        tags = sorted((*spans, *tags), key=lambda tag: tag.start)  # a span may begin at a tag
    if not tags:
        return text
    edges = [0, *(edge for cut in _ranges_to_remove(text, tags) for edge in cut), len(text)]
    return "".join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))


def _find_tags(text: str, speaker: Speaker) -> list[_MarkupTag]:
    """Return the tags of known names in order, openers with their closers."""
    tags: list[_MarkupTag] = []
    waiting: defaultdict[str, list[_MarkupTag]] = defaultdict(list)
    closed, no_code = None, _before_any_code(text)
    opaque = depth = 0
    for mark in _MARK.finditer(text):
        if mark.start() < opaque:
            continue
        if mark.lastgroup == "cdata":
            if depth:
                end = text.find("]]>", mark.end())
                opaque = len(text) if end < 0 else end + 3
            continue
        if (tag := _tag_of(mark, speaker)) is None:
            continue
        tags.append(tag)
        if tag.opens and tag.closer is None:
            waiting[tag.name].append(tag)
            depth += 1
            if tag.start < no_code and not _is_mentioned(text, tag):
                closed = (
                    {_name_and_kind(name, speaker)[0] for name in _CLOSER.findall(text)}
                    if closed is None
                    else closed
                )
                if tag.name not in closed:
                    break  # it runs to the end of the text
        elif not tag.opens and waiting[tag.name]:
            waiting[tag.name].pop().closer = tag
            depth -= 1
    return tags


def _before_any_code(text: str) -> int:
    """Return the index of the first backtick or `~~~`, where code may begin, else the text's length."""
    return min((at for sign in ("`", "~~~") if (at := text.find(sign)) >= 0), default=len(text))


def _tag_of(mark: re.Match[str], speaker: Speaker) -> _MarkupTag | None:
    """Make a tag of a match, or return None if its name has no meaning in this speaker's text."""
    opens = mark.lastgroup != "closer"
    name, kind = _name_and_kind(mark["opener" if opens else "closer"], speaker)
    if kind is None:
        return None
    tag = _MarkupTag(name, mark.start(), mark.end(), kind, opens)
    if mark.lastgroup == "empty":
        tag.closer = tag
    return tag


@lru_cache(1024)
def _name_and_kind(written: str, speaker: Speaker) -> tuple[str, Kind | None]:
    """Return a tag's normalised name and its kind, None for a name without meaning for this speaker."""
    kinds = (kind for kind, names in _NAMES.items() if names.fullmatch(written))
    kind = next((kind for kind in kinds if speaker == "assistant" or kind != "thinking"), None)
    return written.lower().removeprefix("antml:").replace("-", "_"), kind


def _inserted_spans(text: str, speaker: Speaker) -> Iterator[_MarkupTag]:
    """Yield inserted text without tags, as an opener and a closer around it."""
    for span, (begins, ends) in _BEGINNINGS.items():
        if span.mark not in text or span.of not in ("", speaker):
            continue
        if span.needs and not any(word in text for word in span.needs):
            continue
        at = text.find(span.mark)
        while at >= 0:
            line = text.rfind("\n", 0, at) + 1
            start = at - len(text[line:at].lstrip(" \t>"))
            behind = text.find("\n", at)
            if span.first and text[:start].strip():
                break
            if begins.match(text, start):
                last = ends.search(text, at + len(span.mark)) if span.ends else None
                behind = last.end() if last else len(text)
                # An opener in code with its end outside keeps that code prose.
                yield _MarkupTag("", start, start, opens=True, closer=_MarkupTag("", start, behind))
            at = text.find(span.mark, behind) if behind >= 0 else -1


def _ranges_to_remove(text: str, tags: Sequence[_MarkupTag]) -> list[tuple[int, int]]:
    """Return the ranges of a text to remove, in order."""
    cuts: list[tuple[int, int]] = []
    begins: dict[str, int] = {}  # start of the newest cut element by name
    code, no_code = _CodeAround(text, tags), _before_any_code(text)
    position = 0
    for place, tag in enumerate(tags):
        if tag.start < position:
            continue
        if tag.start > no_code and (code_end := code.end_around(place, position)):
            position = code_end
            continue
        position = tag.end
        if tag.opens and tag.closer is None and _is_mentioned(text, tag, cuts[-1][1] if cuts else 0):
            continue
        start = tag.start
        if tag.opens:
            position = len(text) if tag.closer is None else tag.closer.end
            begins[tag.name] = start
        else:
            start = begins.get(tag.name, 0 if tag.kind == "thinking" else start)
        while cuts and cuts[-1][0] >= start:
            cuts.pop()
        cuts.append((start, position))
    return cuts


def _is_mentioned(text: str, tag: _MarkupTag, cut_to: int = 0) -> bool:
    """Return True if an unclosed opener is only mentioned; `cut_to` is the end of the last cut."""
    if tag.kind != "tools":
        return bool(text[max(tag.start - 80, cut_to) : tag.start].rpartition("\n")[2].strip(" \t>"))
    if not tag.start or not text[tag.start - 1].isalnum():
        return False
    return not text[tag.end : tag.end + 80].lstrip("> \t\r\n").startswith("<")


class _CodeAround:
    """Finder of code spans and blocks around tags, which then stay; searches only move forward."""

    def __init__(self, text: str, tags: Sequence[_MarkupTag]) -> None:
        self._text = text
        self._find_tags = tags
        self._closings: dict[re.Pattern[str], re.Match[str] | None] = {}
        self._not_code: set[int] = set()

    def end_around(self, place: int, position: int) -> int:
        """Return the end of code that begins after `position` and holds tag number `place`, or 0."""
        start = self._find_tags[place].start
        while opening := _CODE.search(self._text, position, start):
            end = self._end_of_code(opening)
            if end > start and not self._is_left_open(place, end):
                return end
            position = end if 0 < end <= start else opening.end()
        return 0

    def _end_of_code(self, opening: re.Match[str]) -> int:
        """Return the end of the code span or block with this opening, 0 if it has none."""
        fence, ticks = opening["fence"], opening["ticks"]
        closing = self._next_match(
            _fence_end_pattern(fence) if fence else _ticks_end_pattern(ticks), opening.end()
        )
        return closing.end() if closing and (fence or closing[0] == ticks) else 0

    def _next_match(self, pattern: re.Pattern[str], position: int) -> re.Match[str] | None:
        """Return the first match of a pattern from `position` on; positions must not decrease."""
        if pattern in self._closings:
            known = self._closings[pattern]
            if known is None or known.start() >= position:
                return known
        found = self._closings[pattern] = pattern.search(self._text, position)
        return found

    def _is_left_open(self, place: int, end: int) -> bool:
        """Return True if an element that begins in the code up to `end` is closed outside of code."""
        while (
            end not in self._not_code and place < len(self._find_tags) and self._find_tags[place].start < end
        ):
            closer = self._find_tags[place].closer
            if closer is not None and closer.start >= end and not self._is_quoted(closer):
                self._not_code.add(end)
            place += 1
        return end in self._not_code

    def _is_quoted(self, tag: _MarkupTag) -> bool:
        """Return True for a tag directly between two backticks."""
        return self._text[tag.start - 1 : tag.start] == self._text[tag.end : tag.end + 1] == "`"
