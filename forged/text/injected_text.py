"""Cut out of a text what forged itself has injected, so that no memory is learnt from a memory.

Cut are blocks between the markers of an injection, also as harnesses escape them and with an end cut off, and
paragraphs that are a memory injected into this session, but for white space and quotation marks. In an
assistant's text a memory of some length is found within a paragraph as well. What somebody wrote in own words
is left: that is the classifier's to compare.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from functools import lru_cache

from forged.text import harnesses
from forged.text.quoted import MARK, TAG, quoted, unquoted

_ESCAPED = {
    "json": (r"\\u003c", r"\\u003e"),
    "html": (r"&(?:amp;){0,4}(?:lt|#60|#x3c);", r"&(?:amp;){0,4}(?:gt|#62|#x3e);"),
}
_FORMS = sorted({form for row in harnesses.ROWS for form in row.escapes})
_LESS, _GREATER = ("|".join([sign, *(_ESCAPED[form][at] for form in _FORMS)]) for at, sign in enumerate("<>"))
_MARKER = re.compile(
    rf"(?:{_LESS})(?P<closes>\\*/)?{TAG}\s+(?P<digest>[0-9a-f]{{16}}|[0-9a-f]{{8}})\s*(?:{_GREATER})",
    re.IGNORECASE,
)
_GAP = re.compile(rf"\n[\s{MARK}]*\n")

# A memory that is shorter may well be said again for its own sake.
_INLINE_WORDS, _INLINE_BYTES = 4, 20
# Characters of a text that are looked through for memories within a paragraph: more than any window holds.
_INLINE_WINDOW = 128_000

# A memory that is longer is cut up each time; the shorter ones that are kept have 8 MB at most.
_OFTEN_LENGTH = 2_000

_Paragraphs = tuple[str, ...]


class InjectedText:
    """What was injected into one session, ready to be found in many texts."""

    def __init__(self, injected: Collection[str]) -> None:
        self._by_first: defaultdict[str, set[_Paragraphs]] = defaultdict(set)
        sentences = set[str]()
        for content in injected:
            paragraphs, sentence = _pieces(content) if len(content) <= _OFTEN_LENGTH else _cut_up(content)
            for flat in paragraphs:
                self._by_first[flat[0]].add(flat)
            sentences.add(sentence)
        self._inline = sorted(filter(None, sentences), key=len, reverse=True)

    def cut(self, text: str, *, inline: bool = False) -> tuple[str, int]:
        """Return `text` without own injections, and their count; `inline`: also within a paragraph."""
        text, blocks = without_blocks(text)
        text, memories = self._without_memories(text)
        text, sentences = self._without_sentences(text) if inline and self._inline else (text, 0)
        return text, blocks + memories + sentences

    def _without_sentences(self, text: str) -> tuple[str, int]:
        before, text = text[:-_INLINE_WINDOW], text[-_INLINE_WINDOW:]
        flat, count = " ".join(text.split()).lower(), 0
        for sentence in self._inline:
            if sentence in flat:
                words = r"\s+".join(map(re.escape, sentence.split()))
                text, found = re.subn(rf"(?<![a-z0-9_]){words}(?![a-z0-9_])", "", text, flags=re.IGNORECASE)
                count += found
        return before + text, count

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


def without_blocks(text: str) -> tuple[str, int]:
    """Return `text` without our blocks, and their count; one without closer or opener reaches to that end."""
    kept: list[str] = []
    start = count = 0
    inside = ""
    for marker in _MARKER.finditer(text) if TAG in text.lower() else ():
        digest = marker["digest"].lower()
        if inside and not (marker["closes"] and digest == inside):
            continue
        if not inside and not marker["closes"]:
            kept.append(text[start : marker.start()])
        count += not inside
        start = marker.end()
        inside = "" if marker["closes"] else digest
    if not inside:
        kept.append(text[start:])
    return "".join(kept), count


def _cut_up(content: str) -> tuple[tuple[_Paragraphs, ...], str]:
    """A memory as it may stand in a text: its paragraphs, also quoted, and, if it is long, within one."""
    forms = (content, quoted(content))
    flats = (tuple(filter(None, map(_flat, _GAP.split(form.strip())))) for form in forms)
    sentence = _flat(content).rstrip(".!。！").lower()
    return tuple(filter(None, dict.fromkeys(flats))), sentence if _is_long(sentence) else ""


# A session is asked about each turn, with all that it has heard.
_pieces = lru_cache(1024)(_cut_up)


def _paragraphs(text: str) -> list[tuple[int, int]]:
    starts, ends = [0], []
    for gap in _GAP.finditer(text):
        ends.append(gap.start())
        starts.append(gap.end())
    return list(zip(starts, [*ends, len(text)], strict=True))


def _flat(text: str) -> str:
    return " ".join(unquoted(text).split())


def _is_long(sentence: str) -> bool:
    """What has no blanks between its words is measured by its length alone."""
    spaced = not sentence.isascii() or len(sentence.split()) >= _INLINE_WORDS
    return spaced and len(sentence.encode()) >= _INLINE_BYTES
