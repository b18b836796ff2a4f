"""Replace passwords, keys and tokens in a text by `[redacted]`.

Everything that is typed passes here before it reaches a model, the disk or a memory file: a secret's value
goes, and the sentence around it stays. Two kinds of rules: the shapes that vendors give their tokens
(`shapes`), and a value that is given to a telling name (`assignments`), judged by how it looks (`looks`).
Best effort: the shapes in the tables are what is promised. A scanner from outside was rejected: those that
are kept up bring a network library or a binary of 56 MB, and fire on prose.

It runs on the daemon's event loop, so a literal anchor is looked for before any expression is tried, and no
expression goes over the same stretch of text once for each anchor in it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from forged.text.redaction.looks import PLACEHOLDER
from forged.text.redaction.shapes import PHRASES, TOKENS, Shape, Span

__all__ = ["PLACEHOLDER", "Redacted", "redact"]

# Characters. No vendor's token is shorter, and few words of prose are longer.
_LONG = 20
# A secret that is gone can bare another one beside it, which the next round takes. Two rounds are rare; the
# bound keeps a text that was built for it from holding up the event loop.
_ROUNDS = 8


class Redacted(msgspec.Struct, frozen=True):
    """A text without its secrets, and how many there were."""

    text: str
    count: int


def redact(text: str) -> Redacted:
    """Return `text` with the value of each secret replaced; without any, `text` itself comes back.

    Redacting again changes nothing. Raises nothing.
    """
    count = 0
    for _ in range(_ROUNDS):
        spans = _merged(_found(text))
        if not spans:
            break
        kept, end = [], 0
        for start, stop in spans:
            kept.append(text[end:start])
            end = stop
        text = PLACEHOLDER.join([*kept, text[end:]])
        count += len(spans)
    return Redacted(text, count)


def _merged(spans: Iterator[Span]) -> list[Span]:
    """The spans in order; those that touch are one."""
    merged: list[Span] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def _found(text: str) -> Iterator[Span]:
    long_words = " ".join([word for word in text.split() if len(word) >= _LONG])
    for shape in TOKENS:
        for anchor in shape.anchors:
            if anchor in long_words:
                yield from _matches(shape, anchor, text, text)
    # İ is the only letter whose lower case is longer than itself, which would shift all that follows.
    folded = text.replace("İ", "i").lower()
    for shape in PHRASES:
        for anchor in shape.anchors:
            yield from _matches(shape, anchor, text, folded)


def _matches(shape: Shape, anchor: str, text: str, haystack: str) -> Iterator[Span]:
    at = haystack.find(anchor)
    while at >= 0:
        end = at + 1
        found = shape.regex.match(text, at)
        span = shape.secret(found) if found else None
        if span and PLACEHOLDER not in text[span[0] : span[1]]:
            yield span
            end = max(end, span[1])
        at = haystack.find(anchor, end)
