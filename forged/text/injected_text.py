r"""Cuts out of a text what forged itself has injected, so that no memory is learnt from a memory.

Agents show injections to the model, log them, quote them; without this every injection would come back as
something that was said. Two things are cut: blocks between the markers of an injection (whose form is fixed
in `retrieval/injection.py`), also inside JSON (`\u003cforged-memories ...`), and paragraphs that are, but for
white space and marks of a quotation, a memory that was injected into this session. What somebody wrote in his
own words is left: that is the classifier's to compare with the memories that exist.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection

from forged.text.quoted import MARK, TAG, quoted, unquoted

_MARKER = re.compile(
    rf"(?:<|\\u003c)(?P<closes>\\*/)?{TAG}\s+(?P<digest>[0-9a-f]{{16}})\s*(?:>|\\u003e)", re.IGNORECASE
)
_GAP = re.compile(rf"\n[\s{MARK}]*\n")

_Paragraphs = tuple[str, ...]


class InjectedText:
    """What was injected into one session, ready to be found in many texts."""

    def __init__(self, injected: Collection[str]) -> None:
        """Take the contents of the memories that were injected."""
        self._by_first: defaultdict[str, set[_Paragraphs]] = defaultdict(set)
        for content in (text for each in injected for text in (each, quoted(each))):
            if flat := tuple(filter(None, map(_flat, _GAP.split(content.strip())))):
                self._by_first[flat[0]].add(flat)

    def cut(self, text: str) -> tuple[str, int]:
        """Return `text` without our own injections, and how many blocks and memories were cut out of it."""
        text, blocks = _without_blocks(text)
        text, memories = self._without_memories(text)
        return text, blocks + memories

    def _without_memories(self, text: str) -> tuple[str, int]:
        if not self._by_first:
            return text, 0
        bounds = _paragraphs(text)
        flat = tuple(_flat(text[start:end]) for start, end in bounds)
        kept: list[str] = []
        position = place = count = 0
        while place < len(flat):
            if length := self._length_at(flat, place):
                kept.append(text[position : bounds[place][0]])
                position = bounds[place + length - 1][1]
                count += 1
            place += length or 1
        return ("".join([*kept, text[position:]]), count) if count else (text, 0)

    def _length_at(self, flat: _Paragraphs, place: int) -> int:
        """How many paragraphs from `place` on are one memory; 0: none is known that begins so."""
        known = self._by_first.get(flat[place], ())
        return max((len(each) for each in known if flat[place : place + len(each)] == each), default=0)


def _without_blocks(text: str) -> tuple[str, int]:
    """A block whose closer is missing reaches to the end, as a private span does."""
    kept: list[str] = []
    start = count = 0
    inside = ""
    for marker in _MARKER.finditer(text) if TAG in text.lower() else ():
        digest = marker["digest"].lower()
        if inside and not (marker["closes"] and digest == inside):
            continue
        if not inside:
            kept.append(text[start : marker.start()])
        start = marker.end()
        inside = "" if marker["closes"] else digest
        count += bool(inside)
    if not inside:
        kept.append(text[start:])
    return "".join(kept), count


def _paragraphs(text: str) -> list[tuple[int, int]]:
    starts, ends = [0], []
    for gap in _GAP.finditer(text):
        ends.append(gap.start())
        starts.append(gap.end())
    return list(zip(starts, [*ends, len(text)], strict=True))


def _flat(text: str) -> str:
    return " ".join(unquoted(text).split())
