"""Words that are broken in two: over two lines, or over two strings that code puts together.

`"ghp_..." + "..."` has its shape only without the break, so the surroundings are read once more without it.
Most texts have no such break and no second view.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import msgspec

_OPERATOR = r"(?:\+|\.\.?|&|\|\||<>|\^)?"
# A closing quote, what joins two strings in some language, an opening quote.
_STRINGS = re.compile(
    rf"""["'`][ \t]*+{_OPERATOR}[ \t]*+(?>(?:(?:\\{{1,2}}|_)?\r?\n[ \t]*+)*){_OPERATOR}[ \t]*+"""
    r"""(?:[fbruFBRUL]{1,2}(?=["'\\]))?\\{0,3}["'`]"""
)
# An apostrophe is no quote.
_SINGLE = ("' ", "'+", "'.", "'\n", "'\\")
# A line's end near something that no plain word has: only there one value may go on.
_INDENT = r"[ \t]*+(?:(?:[>|#*]|//)[ \t>]++)?"
_AHEAD = r"(?=[a-z+/=-]{0,3}[0-9A-Z_])"


def _line_ends(end: str) -> re.Pattern[str]:
    behind = "|".join(rf"(?<=[0-9A-Z_]{'.' * gap}{end})" for gap in range(5))
    return re.compile(
        rf"{end}(?<=[\w+/=\\\t\r -]{end})(?:(?:{behind}){_INDENT}(?=[\w+/=-])|{_INDENT}{_AHEAD})"
    )


_LINES = _line_ends(r"\n")
_ESCAPED_LINES = _line_ends(r"\\n")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_ODD = re.compile(r"[A-Za-z]\d|\d[A-Za-z]|[a-z][A-Z]")
# Characters: two pieces shorter than that are no secret together; no piece is longer; what around a break is
# read again.
_LEAST, _PIECE, _REACH = 16, 120, 160
_INSIDE = frozenset("-_+/=.")


class RedactedSpan(msgspec.Struct, frozen=True):
    """A stretch that is left out, and what stands for it: nothing for a break, a line end for a far stretch.

    `is_firm`: what is on both sides surely is one value. `is_before_word`: a line begins with plain prose.
    """

    start: int
    stop: int
    is_firm: bool = False
    is_before_word: bool = False
    stand_in: str = ""


class Joined(msgspec.Struct, frozen=True):
    """What is around the breaks of a text, without them. `places` are those of the cuts in `text`."""

    text: str
    cuts: tuple[RedactedSpan, ...]
    places: tuple[int, ...]

    def crossed(self, start: int, stop: int) -> tuple[RedactedSpan, ...]:
        """The cuts strictly within a stretch of the joined text."""
        return self.cuts[bisect_right(self.places, start) : bisect_left(self.places, stop)]

    def tail(self, stop: int) -> str:
        """What stands between the last break before a place and that place."""
        return self.text[self.places[bisect_left(self.places, stop) - 1] : stop]

    def before(self, place: int) -> int:
        """Where in the broken text a place of the joined one is; at a break, the end of the first piece."""
        return self._origin(place, bisect_left(self.places, place) - 1)

    def behind(self, place: int) -> int:
        """The same; at a break, the beginning of the second piece."""
        return self._origin(place, bisect_right(self.places, place) - 1)

    def _origin(self, place: int, last: int) -> int:
        if last < 0:
            return place
        cut = self.cuts[last]
        return place - self.places[last] - len(cut.stand_in) + cut.stop


def views(text: str) -> Iterator[Joined]:
    """Return the text around breaks without them, with a word that begins a line in both readings."""
    cuts = tuple(_cuts(text))
    if cuts:
        yield _without(text, cuts)
    fewer = tuple(cut for cut in cuts if not cut.is_before_word)
    if fewer and len(fewer) < len(cuts):
        yield _without(text, fewer)


def is_word(piece: str) -> bool:
    return _WORD.fullmatch(piece) is not None


def _without(text: str, breaks: Sequence[RedactedSpan]) -> Joined:
    cuts = tuple(_with_far_stretches(breaks, len(text)))
    pieces, places, size, end = [], [], 0, 0
    for cut in cuts:
        pieces += [text[end : cut.start], cut.stand_in]
        places.append(size + cut.start - end)
        size = places[-1] + len(cut.stand_in)
        end = cut.stop
    return Joined("".join([*pieces, text[end:]]), cuts, tuple(places))


def _with_far_stretches(breaks: Sequence[RedactedSpan], size: int) -> Iterator[RedactedSpan]:
    end = 0
    for cut in breaks:
        far = cut.start - _REACH
        if far > end + (_REACH if end else 0):
            yield RedactedSpan(end + _REACH if end else 0, far, stand_in="\n")
        yield cut
        end = cut.stop
    if end + _REACH < size:
        yield RedactedSpan(end + _REACH, size, stand_in="\n")


def _cuts(text: str) -> Iterator[RedactedSpan]:
    found = list(_between_strings(text)) if _has_strings(text) else []
    found += _between_lines(text, _LINES)
    if "\\n" in text:
        found += _between_lines(text, _ESCAPED_LINES)
    end = 0
    for cut in sorted(found, key=lambda cut: cut.start):
        if cut.start > end:  # a line may end where a string does
            yield cut
            end = cut.stop


def _between_strings(text: str) -> Iterator[RedactedSpan]:
    for found in _STRINGS.finditer(text):
        start, stop = found.span()
        while start and text[start - 1] == "\\":
            start -= 1
        if start and _is_inside(text[start - 1]) and _is_inside(text[stop : stop + 1]):
            yield RedactedSpan(start, stop, is_firm=True)


def _has_strings(text: str) -> bool:
    """It may have two strings side by side."""
    if '"' in text or "`" in text:
        return True
    return "'" in text and bool([quote for quote in _SINGLE if quote in text])


def _between_lines(text: str, ends: re.Pattern[str]) -> Iterator[RedactedSpan]:
    for found in ends.finditer(text):
        start, stop = found.span()
        line = text[max(0, start - _PIECE) : start]
        left = line.rstrip(" \t\\" if text[start] == "\n" else " \t").removesuffix("\\r").rstrip("\r\\")
        if not left or not _is_inside(left[-1]):
            continue
        before, after = left.rsplit(None, 1)[-1], text[stop : stop + _PIECE].split(None, 1)[0]
        if len(before) + len(after) >= _LEAST and _is_odd(before, after):
            rest = text[stop + len(after) : stop + len(after) + 1]
            is_firm = rest in ("", "\n", "\r") and len(_ODD.findall(after)) > 1 < len(_ODD.findall(before))
            yield RedactedSpan(start - len(line) + len(left), stop, is_firm, is_word(after))


def _is_odd(before: str, after: str) -> bool:
    """One of them is no word, or they are capitals alone, as in some keys."""
    return bool(_ODD.search(before) or _ODD.search(after) or (before + after).isupper())


def _is_inside(character: str) -> bool:
    return character.isalnum() or character in _INSIDE if character else False
