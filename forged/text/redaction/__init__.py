"""Replace passwords, keys and tokens in a text by `[redacted]`, or say which there are.

Everything typed passes here before a model, the disk or a memory file has it. Best effort: the shapes in the
tables are what is promised. Scanners from outside bring a network library or a binary of 56 MB, and fire on
prose. It runs on the event loop, so a literal anchor is looked for before any expression, and no expression
goes over the same text once for each anchor in it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from forged.text.redaction.assignments import NAMES, kind
from forged.text.redaction.joints import Joined, is_word, views
from forged.text.redaction.looks import PLACEHOLDER
from forged.text.redaction.phrases import PHRASES, TOKENS, Shape

__all__ = ["INLINE_LENGTH", "PLACEHOLDER", "redact", "shapes_in"]

# Characters that may be looked through on an event loop, 1 to 2 ms; more belongs in a thread.
INLINE_LENGTH = 16_000

# Characters. No vendor's token is shorter, and few words of prose are longer.
_LONG = 20
# A secret that is gone can bare another one beside it, which the next round takes. Two rounds are rare; the
# bound keeps a text that was built for it from holding up the event loop.
_ROUNDS = 8

_PLAIN = tuple((shape, anchor) for shape in PHRASES if not shape.is_told for anchor in shape.anchors)
_TOLD = tuple((shape, anchor) for shape in PHRASES if shape.is_told for anchor in shape.anchors)
_VENDORS = tuple((shape, anchor) for shape in TOKENS for anchor in shape.anchors)
_BARE = tuple(shape for shape in TOKENS if not shape.anchors)


class Redacted(msgspec.Struct, frozen=True):
    """A text without its secrets, how many there were, and of which shapes, in the words of a person."""

    text: str
    count: int
    shapes: tuple[str, ...] = ()


class _Hit(msgspec.Struct, frozen=True, order=True):
    start: int
    stop: int
    shape: str
    is_token: bool = False


def redact(text: str) -> Redacted:
    """Return `text` with each secret's value replaced; redacting again changes nothing."""
    count, shapes = 0, dict[str, None]()
    for _ in range(_ROUNDS):
        hits = _hits(text)
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
    """The shapes of the secrets in a text, in the words of a person; none if there is no secret."""
    return tuple(dict.fromkeys(hit.shape for hit in _hits(text)))


def _merged(hits: list[_Hit]) -> list[tuple[int, int]]:
    """The stretches in order; those that touch are one."""
    merged: list[tuple[int, int]] = []
    for hit in hits:
        if merged and hit.start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(hit.stop, merged[-1][1]))
        else:
            merged.append((hit.start, hit.stop))
    return merged


def _hits(text: str) -> list[_Hit]:
    hits = list(_found(text))
    broken = [hit for whole in views(text) for hit in _across(whole, hits)]
    return sorted(hits + broken)


def _across(whole: Joined, found: list[_Hit]) -> Iterator[_Hit]:
    """What is a secret only, or a longer one, without a break in it."""
    complete = {hit.start for hit in found}
    for hit in _found(whole.text):
        cuts = whole.crossed(hit.start, hit.stop)
        if not cuts or not all(cut.is_firm or (hit.is_token and not cut.stand_in) for cut in cuts):
            continue
        start = whole.behind(hit.start)
        # A token at the end of its line, and the word that the next one begins with.
        if cuts[-1].is_firm or not (start in complete and is_word(whole.tail(hit.stop))):
            yield _Hit(start, whole.before(hit.stop), hit.shape)


def _found(text: str) -> Iterator[_Hit]:
    # İ is the only letter whose lower case is longer than itself, which would shift all that follows.
    folded = text.replace("İ", "i").lower()
    for shape, anchor in _PLAIN:
        if anchor in folded:
            yield from _matches(shape, anchor, text, folded)
    if [name for name in NAMES if name in folded]:
        for shape, anchor in _TOLD:
            if anchor in folded:
                yield from _matches(shape, anchor, text, folded)
    long_words = " ".join([word for word in text.split() if len(word) >= _LONG])
    for shape, anchor in _VENDORS if long_words else ():
        if anchor in long_words:
            yield from _matches(shape, anchor, text, text, is_token=True)
    for shape in _BARE if long_words else ():
        if shape.regex.search(long_words):
            yield from _searched(shape, text)


def _searched(shape: Shape, text: str) -> Iterator[_Hit]:
    for found in shape.regex.finditer(text):
        span = shape.secret(found)
        if span:
            yield _Hit(*span, shape.name, is_token=True)


def _matches(
    shape: Shape, anchor: str, text: str, haystack: str, *, is_token: bool = False
) -> Iterator[_Hit]:
    at = haystack.find(anchor)
    while at >= 0:
        end = at + 1
        found = shape.regex.match(text, at)
        span = shape.secret(found) if found else None
        if found and span and PLACEHOLDER not in text[span[0] : span[1]]:
            yield _Hit(*span, shape.name or kind(found), is_token)
            end = max(end, span[1])
        at = haystack.find(anchor, end)
