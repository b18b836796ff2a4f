"""Find secrets in a text and remove them, also those broken over lines or strings.

Everything typed passes here before a model, the disk or a memory file gets it. It is best effort: the shapes
in the tables are the promise. External scanners need a network library or a 56 MB binary, and match prose. It
runs on the event loop. So a literal anchor is searched before any expression, and no expression reads the
same text once for each anchor.

`"ghp_..." + "..."` and a word over two lines have their shape only without the break. So the text around a
break is read again without it; most texts have none.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from forged.text.redaction.assignments import NAMES, kind_of_assignment
from forged.text.redaction.shapes import PHRASES, TOKENS, Shape
from forged.text.redaction.value_form import PLACEHOLDER

# Characters that may be scanned on an event loop (1 to 2 ms); more belongs in a thread.
INLINE_LENGTH = 16_000
# Characters. No vendor's token is shorter, and few words of prose are longer.
_LONG = 20
# A removed secret can reveal another one, found in the next round. The limit is for crafted texts.
_ROUNDS = 8

_PLAIN = tuple((shape, anchor) for shape in PHRASES if not shape.has_name for anchor in shape.anchors)
_NAMED_SHAPES = tuple((shape, anchor) for shape in PHRASES if shape.has_name for anchor in shape.anchors)
_VENDORS = tuple((shape, anchor) for shape in TOKENS for anchor in shape.anchors)
_BARE = tuple(shape for shape in TOKENS if not shape.anchors)


class Redacted(msgspec.Struct, frozen=True):
    """Text without its secrets, their number, and their shapes in plain words."""

    text: str
    count: int
    shapes: tuple[str, ...] = ()


class _SecretHit(msgspec.Struct, frozen=True, order=True):
    """Secret that was found in a text: start, end, shape, and `is_token` for a vendor's token."""

    start: int
    stop: int
    shape: str
    is_token: bool = False


def redact(text: str) -> Redacted:
    """Replace each secret's value in a text; return the text, their number, and the kinds found."""
    count, shapes = 0, dict[str, None]()
    for _ in range(_ROUNDS):
        hits = _all_hits(text)
        if not hits:
            break
        shapes.update(dict.fromkeys(hit.shape for hit in hits))
        spans = _merged(hits)
        kept, end = [], 0
        for start, stop in spans:
            kept.append(text[end:start])
            end = stop
        text = PLACEHOLDER.join([*kept, text[end:]])
        count += len(spans)
    return Redacted(text, count, tuple(shapes))


def shapes_in(text: str) -> tuple[str, ...]:
    """Return the shapes of the secrets in a text, in plain words."""
    return tuple(dict.fromkeys(hit.shape for hit in _all_hits(text)))


def _merged(hits: list[_SecretHit]) -> list[tuple[int, int]]:
    """Return the ranges of secrets in order; touching ones are merged."""
    merged: list[tuple[int, int]] = []
    for hit in hits:
        if merged and hit.start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(hit.stop, merged[-1][1]))
        else:
            merged.append((hit.start, hit.stop))
    return merged


def _all_hits(text: str) -> list[_SecretHit]:
    """Return all secrets of a text, also those broken over lines or strings, in order."""
    hits, cuts = list(_hits_within(text)), tuple(_breaks(text))
    # A word at the start of a line is read with the line before, and without it.
    readings = dict.fromkeys((cuts, tuple(cut for cut in cuts if not cut.is_before_word)))
    broken = [hit for each in readings if each for hit in _hits_across(_join_around(text, each), hits)]
    return sorted(hits + broken)


def _hits_across(whole: _JoinedText, found: list[_SecretHit]) -> Iterator[_SecretHit]:
    """Yield secrets that have their shape, or full length, only in the text without breaks."""
    complete = {hit.start for hit in found}
    for hit in _hits_within(whole.text):
        cuts = whole.crossed(hit.start, hit.stop)
        if not cuts or not all(cut.is_firm or (hit.is_token and not cut.stand_in) for cut in cuts):
            continue
        start = whole.start_in_original(hit.start)
        # A token at the end of its line, followed by an ordinary word.
        if cuts[-1].is_firm or not (start in complete and _is_word(whole.tail(hit.stop))):
            yield _SecretHit(start, whole.end_in_original(hit.stop), hit.shape)


def _hits_within(text: str) -> Iterator[_SecretHit]:
    """Yield the secrets within a text as it is."""
    # İ is the only letter with a longer lower case, which would shift all indexes.
    folded = text.replace("İ", "i").lower()
    for shape, anchor in _PLAIN:
        if anchor in folded:
            yield from _hits_at(shape, anchor, text, folded)
    if [name for name in NAMES if name in folded]:
        for shape, anchor in _NAMED_SHAPES:
            if anchor in folded:
                yield from _hits_at(shape, anchor, text, folded)
    long_words = " ".join([word for word in text.split() if len(word) >= _LONG])
    for shape, anchor in _VENDORS if long_words else ():
        if anchor in long_words:
            yield from _hits_at(shape, anchor, text, text, is_token=True)
    for shape in _BARE if long_words else ():
        if shape.regex.search(long_words):
            spans = filter(None, map(shape.secret, shape.regex.finditer(text)))
            yield from (_SecretHit(*span, shape.name, is_token=True) for span in spans)


def _hits_at(
    shape: Shape, anchor: str, text: str, haystack: str, *, is_token: bool = False
) -> Iterator[_SecretHit]:
    """Yield the secrets of one shape where its anchor occurs in `haystack`: the text, or it in lower case."""
    at = haystack.find(anchor)
    while at >= 0:
        end = at + 1
        found = shape.regex.match(text, at)
        span = shape.secret(found) if found else None
        if found and span and PLACEHOLDER not in text[span[0] : span[1]]:
            yield _SecretHit(*span, shape.name or kind_of_assignment(found), is_token)
            end = max(end, span[1])
        at = haystack.find(anchor, end)


# --- breaks ---------------------------------------------------------------------------------------------

_OPERATOR = r"(?:\+|\.\.?|&|\|\||<>|\^)?"
# A closing quote, an operator that joins strings, an opening quote.
_STRINGS = re.compile(
    rf"""["'`][ \t]*+{_OPERATOR}[ \t]*+(?>(?:(?:\\{{1,2}}|_)?\r?\n[ \t]*+)*){_OPERATOR}[ \t]*+"""
    r"""(?:[fbruFBRUL]{1,2}(?=["'\\]))?\\{0,3}["'`]"""
)
# Quotes that are not apostrophes.
_SINGLE = ("' ", "'+", "'.", "'\n", "'\\")
# A line end near a character that no plain word has: only there a value may continue.
_INDENT = r"[ \t]*+(?:(?:[>|#*]|//)[ \t>]++)?"
_AHEAD = r"(?=[a-z+/=-]{0,3}[0-9A-Z_])"


def _line_end_pattern(end: str) -> re.Pattern[str]:
    """Return a pattern of line ends, plain or escaped as `end` is, that a value may continue over."""
    behind = "|".join(rf"(?<=[0-9A-Z_]{'.' * gap}{end})" for gap in range(5))
    return re.compile(
        rf"{end}(?<=[\w+/=\\\t\r -]{end})(?:(?:{behind}){_INDENT}(?=[\w+/=-])|{_INDENT}{_AHEAD})"
    )


_LINES = _line_end_pattern(r"\n")
_ESCAPED_LINES = _line_end_pattern(r"\\n")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_ODD = re.compile(r"[A-Za-z]\d|\d[A-Za-z]|[a-z][A-Z]")
# Characters: least length of two pieces together, longest piece, and text read around a break.
_LEAST, _PIECE, _REACH = 16, 120, 160
_INSIDE = frozenset("-_+/=.")


class _TextCut(msgspec.Struct, frozen=True):
    """Range that is left out and its replacement: "" for a break, a line end for distant text.

    `is_firm`: both sides surely are one value. `is_before_word`: a line begins with plain prose.
    """

    start: int
    stop: int
    is_firm: bool = False
    is_before_word: bool = False
    stand_in: str = ""


class _JoinedText(msgspec.Struct, frozen=True):
    """Text around breaks, joined without them; `places` are the indexes of the cuts in `text`."""

    text: str
    cuts: tuple[_TextCut, ...]
    places: tuple[int, ...]

    def crossed(self, start: int, stop: int) -> tuple[_TextCut, ...]:
        """Return the cuts inside a range of the joined text."""
        return self.cuts[bisect_right(self.places, start) : bisect_left(self.places, stop)]

    def tail(self, stop: int) -> str:
        """Return the part of the joined text between the last break before an index and the index."""
        return self.text[self.places[bisect_left(self.places, stop) - 1] : stop]

    def end_in_original(self, place: int) -> int:
        """Return the original index of a secret's end; at a break, the end of the first piece."""
        return self._origin(place, bisect_left(self.places, place) - 1)

    def start_in_original(self, place: int) -> int:
        """Return the original index of a secret's start; at a break, the start of the second piece."""
        return self._origin(place, bisect_right(self.places, place) - 1)

    def _origin(self, place: int, last: int) -> int:
        """Return the index in the original text of a place in the joined text, after cut number `last`."""
        if last < 0:
            return place
        cut = self.cuts[last]
        return place - self.places[last] - len(cut.stand_in) + cut.stop


def _is_word(piece: str) -> bool:
    """Return True if a piece is a lower-case, capitalised or upper-case word, or a number."""
    return _WORD.fullmatch(piece) is not None


def _join_around(text: str, breaks: Sequence[_TextCut]) -> _JoinedText:
    """Return the text around breaks, joined without them."""
    cuts = tuple(_with_far_stretches(breaks, len(text)))
    pieces, places, size, end = [], [], 0, 0
    for cut in cuts:
        pieces += [text[end : cut.start], cut.stand_in]
        places.append(size + cut.start - end)
        size = places[-1] + len(cut.stand_in)
        end = cut.stop
    return _JoinedText("".join([*pieces, text[end:]]), cuts, tuple(places))


def _with_far_stretches(breaks: Sequence[_TextCut], size: int) -> Iterator[_TextCut]:
    """Yield the breaks, and cuts for the text that is far from any of them."""
    end = 0
    for cut in breaks:
        far = cut.start - _REACH
        if far > end + (_REACH if end else 0):
            yield _TextCut(end + _REACH if end else 0, far, stand_in="\n")
        yield cut
        end = cut.stop
    if end + _REACH < size:
        yield _TextCut(end + _REACH, size, stand_in="\n")


def _breaks(text: str) -> Iterator[_TextCut]:
    """Yield the line ends and joints of strings that a secret value may cross, in order."""
    has_strings = (
        '"' in text or "`" in text or ("'" in text and [quote for quote in _SINGLE if quote in text])
    )
    found = list(_between_strings(text)) if has_strings else []
    found += _between_lines(text, _LINES)
    if "\\n" in text:
        found += _between_lines(text, _ESCAPED_LINES)
    end = 0
    for cut in sorted(found, key=lambda cut: cut.start):
        if cut.start > end:  # a line may end together with a string
            yield cut
            end = cut.stop


def _between_strings(text: str) -> Iterator[_TextCut]:
    """Yield the joints of adjoining string literals that a secret value may cross."""
    for found in _STRINGS.finditer(text):
        start, stop = found.span()
        while start and text[start - 1] == "\\":
            start -= 1
        if start and _may_be_in_a_value(text[start - 1]) and _may_be_in_a_value(text[stop : stop + 1]):
            yield _TextCut(start, stop, is_firm=True)


def _between_lines(text: str, ends: re.Pattern[str]) -> Iterator[_TextCut]:
    """Yield the line ends, plain or escaped, that a secret value may cross."""
    for found in ends.finditer(text):
        start, stop = found.span()
        line = text[max(0, start - _PIECE) : start]
        left = line.rstrip(" \t\\" if text[start] == "\n" else " \t").removesuffix("\\r").rstrip("\r\\")
        if not left or not _may_be_in_a_value(left[-1]):
            continue
        before, after = left.rsplit(None, 1)[-1], text[stop : stop + _PIECE].split(None, 1)[0]
        if len(before) + len(after) >= _LEAST and _is_like_a_key(before, after):
            rest = text[stop + len(after) : stop + len(after) + 1]
            is_firm = rest in ("", "\n", "\r") and len(_ODD.findall(after)) > 1 < len(_ODD.findall(before))
            yield _TextCut(start - len(line) + len(left), stop, is_firm, _is_word(after))


def _is_like_a_key(before: str, after: str) -> bool:
    """Return True if a piece at a line end has digits or capitals inside, or both are capitals."""
    return bool(_ODD.search(before) or _ODD.search(after) or (before + after).isupper())


def _may_be_in_a_value(character: str) -> bool:
    """Return True for a character that a secret value may contain."""
    return character.isalnum() or character in _INSIDE if character else False
