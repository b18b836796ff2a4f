"""A text as places in a table of numbers, for linear functions of text: words, pairs and pieces of words.

By a hash that is the same everywhere. Functions of the text alone, for training and use; they raise nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from zlib import crc32

SIZE = 1 << 14
CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")

_PARTS = re.compile(r"[^\W_]+|[^\w\s]")
_WORDS = re.compile(r"[^\W_]+|[?!:]")
# A text of many pieces says as much as one of few.
_WEIGHT = 4.0


def pieces(text: str) -> tuple[int, ...]:
    """Return the places of all that stands in a text, each once, in order."""
    plain = re.sub(r"\s+", " ", re.sub(r"\d", "0", text.lower()))
    return tuple(sorted({crc32(piece.encode()) % SIZE for piece in _pieces(plain)}))


def weight(count: int) -> float:
    """Return what each of so many pieces counts."""
    return _WEIGHT / math.sqrt(count)


def _pieces(text: str) -> Iterator[str]:
    yield from (f"w{part}" for part in _PARTS.findall(text))
    words = _WORDS.findall(text)
    yield from (f"b{first} {second}" for first, second in pairwise(words))
    if words:
        yield from (f"^{words[0]}", f"^{' '.join(words[:2])}", f"${words[-1]}")
    is_cjk = CJK.search(text) is not None
    if is_cjk:
        yield from (f"^{text[:2]}", f"${text[-2:]}", f"${text[-3:]}")
    padded = f" {text} "
    for size in (1, 2, 3) if is_cjk else (3, 4):
        yield from (padded[at : at + size] for at in range(len(padded) - size + 1))
