"""Injected text: quote text inside an injection, and remove injections from text that comes back.

Every line that is `quoted` has a mark in front; `one_line` and `label` are for the injection's own lines. All
drop invisible and direction-changing characters. Of `<`, in any spelling, they make a bracket. So foreign
text cannot imitate a part of the injection.

No memory is learned from a memory. `InjectedText` removes blocks between the markers of an injection, also
escaped by a harness or cut at the end. It also removes paragraphs that are a memory injected into this
session, ignoring white space and quotation marks. In an assistant's text a long memory is found inside a
paragraph as well. A memory in a person's own words stays; the classifier compares it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection
from functools import lru_cache

TAG = "forged-memories"
MARK = ">"

# --- quoting --------------------------------------------------------------------------------------------

_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# Controls, zero-width and bidirectional marks, and characters that encode ASCII invisibly. Joiners (U+200C,
# U+200D) stay: Persian and emoji need them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]+"
)
_UNPLAIN = re.compile(r"[^\w .:@/+-]+")
_OPENS = re.compile(rf"(<|&(?:amp;)*(?:lt|#0*60|#x0*3c);?|(?<!\\)\\+u003c)[/\\]*{TAG.replace('-', '[-_]?')}")
# Letters of other scripts, brackets and dashes that look alike.
_BRACKETS = "‹〈《⟨⟪˂ᐸ❮❰≺≪«"
_ALIKE = str.maketrans(
    f"оοеѕіιԁɡցгмϻƒ{_BRACKETS}∕⁄╱⧸‐‑‒–—−﹣⁃ー", f"ooesiidggrmmf{'<' * len(_BRACKETS)}////---------"
)
# Characters of which a tag needs one.
_MAY_OPEN = re.compile(rf"[<＜﹤≮⊀\u2329︽︿{_BRACKETS}&＆﹠\\＼﹨]")
# Invisible characters: marks on letters, joiners, controls.
_BARE = {"Mn", "Me", "Cf", "Cc"}


def quoted(text: str) -> str:
    """Return all lines of `text`, each after the mark, unable to imitate a part of an injection."""
    plain = text.rstrip()
    if plain and plain.isascii() and plain.isprintable() and not _MAY_OPEN.search(plain):
        return f"{MARK} {plain}"  # one line of visible characters
    lines = (_visible(line).rstrip() for line in _BREAK.split(_without_tags(text.rstrip())))
    return "\n".join(f"{MARK} {line}" if line else MARK for line in lines)


def one_line(text: str, limit: int) -> str:
    """Return up to `limit` characters of `text` in one line, unable to open an injection's tag."""
    line = _visible(_BREAK.sub(" ", text))
    return _without_tags(line if len(line) <= limit else line[: limit - 1] + "…")


def label(text: str, limit: int) -> str:
    """Return `text` in one line of at most `limit` characters, with `_` for special characters."""
    return _UNPLAIN.sub("_", one_line(text, limit))


def _visible(line: str) -> str:
    """Return a line without invisible characters, which could hide its beginning."""
    return line if line.isascii() and line.isprintable() else _UNSEEN.sub("", line)


def _without_tags(text: str) -> str:
    """Return text with a bracket in place of each `<` that could open an injection's tag."""
    if not _MAY_OPEN.search(text) or (text.isascii() and "forged" not in text.lower()):
        return text
    folded = [(letter, place) for place, each in enumerate(text) for letter in _look_alike(each)]
    kept, start = [], 0
    for found in _OPENS.finditer("".join(letter for letter, _ in folded)):
        first, last = folded[found.start(1)][1], folded[found.end(1) - 1][1]
        kept += [text[start:first], "("]
        start = last + 1
    return "".join([*kept, text[start:]])


@lru_cache(4096)
def _look_alike(letter: str) -> str:
    """Return the letter that a character looks like; "" for a space or an invisible one."""
    plain = unicodedata.normalize("NFKD", letter).casefold().translate(_ALIKE)
    return "".join(each for each in plain if not (each.isspace() or unicodedata.category(each) in _BARE))


# --- cutting --------------------------------------------------------------------------------------------

# Plain, in HTML and in JSON: spellings of harnesses that write a hook's injection.
_LESS = r"<|&(?:amp;){0,4}(?:lt|#60|#x3c);|\\u003c"
_GREATER = r">|&(?:amp;){0,4}(?:gt|#62|#x3e);|\\u003e"
_MARKER = re.compile(
    rf"(?:{_LESS})(?P<closes>\\*/)?{TAG}\s+(?P<digest>[0-9a-f]{{16}}|[0-9a-f]{{8}})\s*(?:{_GREATER})",
    re.IGNORECASE,
)
_MARKS = re.compile(rf"^[ \t]*{MARK}[{MARK} \t]*", re.MULTILINE)
_GAP = re.compile(rf"\n[\s{MARK}]*\n")
# A shorter memory may be said again for its own sake.
_INLINE_WORDS, _INLINE_BYTES = 4, 20
# Characters of a text that are searched inside paragraphs: more than any window has.
_INLINE_WINDOW = 128_000
# Longest memory that is cached; the cache has at most 8 MB.
_OFTEN_LENGTH = 2_000

_Paragraphs = tuple[str, ...]


class InjectedText:
    """Memories injected into one session, prepared to find and remove them in many texts."""

    def __init__(self, injected: Collection[str]) -> None:
        self._by_first: defaultdict[str, set[_Paragraphs]] = defaultdict(set)
        sentences = set[str]()
        for content in injected:
            cut_up = _forms_to_find if len(content) <= _OFTEN_LENGTH else _forms_to_find.__wrapped__
            paragraphs, sentence = cut_up(content)
            for flat in paragraphs:
                self._by_first[flat[0]].add(flat)
            sentences.add(sentence)
        self._inline = sorted(filter(None, sentences), key=len, reverse=True)

    def cut(self, text: str, *, inline: bool = False) -> tuple[str, int]:
        """Cut injected blocks and memories; return text and count. `inline`: in paragraphs, too."""
        text, blocks = without_blocks(text)
        text, memories = self._without_memories(text)
        text, sentences = self._without_sentences(text) if inline and self._inline else (text, 0)
        return text, blocks + memories + sentences

    def _without_sentences(self, text: str) -> tuple[str, int]:
        """Return text without long injected memories inside paragraphs near its end, and their count."""
        before, text = text[:-_INLINE_WINDOW], text[-_INLINE_WINDOW:]
        flat, count = " ".join(text.split()).lower(), 0
        for sentence in self._inline:
            if sentence in flat:
                words = r"\s+".join(map(re.escape, sentence.split()))
                text, found = re.subn(rf"(?<![a-z0-9_]){words}(?![a-z0-9_])", "", text, flags=re.IGNORECASE)
                count += found
        return before + text, count

    def _without_memories(self, text: str) -> tuple[str, int]:
        """Return text without runs of paragraphs that are an injected memory, and their count."""
        if not self._by_first:
            return text, 0
        gaps = [gap.span() for gap in _GAP.finditer(text)]
        bounds = list(
            zip([0, *(end for _, end in gaps)], [*(start for start, _ in gaps), len(text)], strict=True)
        )
        flat = tuple(_flat(text[start:end]) for start, end in bounds)
        kept: list[str] = []
        position = place = count = 0
        while place < len(flat):
            if length := self._memory_length_at(flat, place):
                kept.append(text[position : bounds[place][0]])
                position = bounds[place + length - 1][1]
                count += 1
            place += length or 1
        return ("".join([*kept, text[position:]]), count) if count else (text, 0)

    def _memory_length_at(self, flat: _Paragraphs, place: int) -> int:
        """Return how many paragraphs from number `place` on are one injected memory, or 0."""
        known = self._by_first.get(flat[place], ())
        return max((len(each) for each in known if flat[place : place + len(each)] == each), default=0)


def without_blocks(text: str) -> tuple[str, int]:
    """Return `text` without injected blocks, and their count; an unpaired marker cuts to the end."""
    if TAG not in text.lower():
        return text, 0
    kept: list[str] = []
    start, count, inside = 0, 0, ""
    for marker in _MARKER.finditer(text):
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


@lru_cache(1024)  # each turn searches all memories of its session
def _forms_to_find(content: str) -> tuple[tuple[_Paragraphs, ...], str]:
    """Return a memory's paragraphs, plain and quoted, and, if it is long, its text inside a paragraph."""
    forms = (content, quoted(content))
    flats = (tuple(filter(None, map(_flat, _GAP.split(form.strip())))) for form in forms)
    sentence = _flat(content).rstrip(".!。！").lower()
    # A text without blanks is measured by its length alone.
    is_spaced = not sentence.isascii() or len(sentence.split()) >= _INLINE_WORDS
    is_long = is_spaced and len(sentence.encode()) >= _INLINE_BYTES
    return tuple(filter(None, dict.fromkeys(flats))), sentence if is_long else ""


def _flat(text: str) -> str:
    """Return a text in one line with single blanks, without marks of quotation, to compare it."""
    return " ".join((_MARKS.sub("", text) if MARK in text else text).split())
