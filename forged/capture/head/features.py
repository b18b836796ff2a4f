"""A few signs about the form of a text, for the head; what it is made of is `forged.text.pieces`.

One of the signs is a rule's answer: whether it asks by itself that something be remembered. `signs` are
numbers between 0 and 2, a function of the text alone, the training's and the worker's, and raise nothing.
"""

from __future__ import annotations

import re

from forged.capture.rules.requests import asks

SIGNS = 9

_LONG = 200
_ASKS = re.compile(r"[?？]\s*$")
_QUOTES = re.compile('["“«「`]')
_MARKED = re.compile(r"\W*[->#$|+]")


def signs(text: str) -> tuple[float, ...]:
    """Return what the form of a text says; the last is always 1."""
    return (
        bool(_ASKS.search(text)),
        "?" in text or "？" in text,
        min(len(text), _LONG) / (_LONG / 2),
        text[:1].isupper(),
        bool(_QUOTES.search(text)),
        "\n" in text,
        bool(_MARKED.match(text)),
        asks(text),
        1.0,
    )
