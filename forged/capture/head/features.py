"""What a text is made of, for the head: words, pairs and pieces of words, and a few signs about its form.

One of the signs is a rule's answer: whether it asks by itself that something be remembered.

`pieces` are places in a table of `SIZE` numbers, by a hash that is the same everywhere; `signs` are numbers
between 0 and 2. Both are functions of the text alone, the training's and the worker's, and raise nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from zlib import crc32

from forged.capture.rules.requests import asks

SIZE = 1 << 14
SIGNS = 9

_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_PARTS = re.compile(r"[^\W_]+|[^\w\s]")
_WORDS = re.compile(r"[^\W_]+|[?!:]")
_LONG = 200
_ASKS = re.compile(r"[?？]\s*$")
_QUOTES = re.compile('["“«「`]')
_MARKED = re.compile(r"\W*[->#$|+]")


def pieces(text: str) -> tuple[int, ...]:
    """Return the places of all that stands in a text, each once, in order."""
    plain = re.sub(r"\s+", " ", re.sub(r"\d", "0", text.lower()))
    return tuple(sorted({crc32(piece.encode()) % SIZE for piece in _pieces(plain)}))


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


def _pieces(text: str) -> Iterator[str]:
    yield from (f"w{part}" for part in _PARTS.findall(text))
    words = _WORDS.findall(text)
    yield from (f"b{first} {second}" for first, second in pairwise(words))
    if words:
        yield from (f"^{words[0]}", f"^{' '.join(words[:2])}", f"${words[-1]}")
    is_cjk = _CJK.search(text) is not None
    if is_cjk:
        yield from (f"^{text[:2]}", f"${text[-2:]}", f"${text[-3:]}")
    padded = f" {text} "
    for size in (1, 2, 3) if is_cjk else (3, 4):
        yield from (padded[at : at + size] for at in range(len(padded) - size + 1))
