"""Linear functions of a text, in nats: of its vector, of features of its form, and of its words.

Words, pairs and parts of words are indexes into a table of weights, by a hash that is the same everywhere.
Pure Python, for processes without numpy, and the same for training and use.
"""

from __future__ import annotations

import functools
import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter, mul
from zlib import crc32

import msgspec

SIZE = 1 << 14
CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")

_PARTS = re.compile(r"[^\W_]+|[^\w\s]")
_WORDS = re.compile(r"[^\W_]+|[?!:]")
# Scale so that a text of many words counts like one of few.
_WEIGHT = 4.0


class Weights(msgspec.Struct, frozen=True):
    """Weights of a linear function as shipped: integers for vector and words, each with a step."""

    row: bytes
    row_step: float
    signs: tuple[float, ...]
    pieces: bytes = b""
    pieces_step: float = 0.0


class LinearFunction:
    """Linear function of a text's vector, words and form, with decoded weights."""

    def __init__(self, weights: Weights) -> None:
        self._row = [number * weights.row_step for number in array("h", weights.row)]
        self._signs = weights.signs
        self._pieces = array("b", weights.pieces)
        self._step = weights.pieces_step

    def value(self, row: Sequence[float], places: Sequence[int], form: Sequence[float]) -> float:
        """Return the value, in nats, for a text's vector, the indexes of its words, and its form.

        Raises ValueError for a vector of another size than in training.
        """
        if len(row) != len(self._row):
            raise ValueError(f"a row of {len(row)} numbers for one of {len(self._row)}")
        found: float = sum(map(mul, self._row, row)) + sum(map(mul, self._signs, form))
        if self._pieces and places:
            weights = _taking(tuple(places), len(self._pieces))(self._pieces)
            found += sum(weights) * self._step * feature_weight(len(places))
        return found


@functools.lru_cache(maxsize=8)  # many functions score one text
def _taking(places: tuple[int, ...], size: int) -> Callable[[Sequence[int]], Sequence[int]]:
    """Return the function that takes the weights of a text's words from a table of a size."""
    first, *others = (place % size for place in places)
    return itemgetter(first, *others) if others else itemgetter(slice(first, first + 1))


def log_sum(scores: Iterable[float]) -> float:
    """Return the logarithm of the sum of the scores' exponentials, without overflow."""
    scores = tuple(scores)
    most = max(scores)
    return most + math.log(sum(math.exp(each - most) for each in scores))


def hashed_features(text: str) -> tuple[int, ...]:
    """Return the table indexes of a text's words, pairs and parts of words, each once, in order."""
    plain = re.sub(r"\s+", " ", re.sub(r"\d", "0", text.lower()))
    return tuple(sorted({crc32(piece.encode()) % SIZE for piece in _pieces(plain)}))


def feature_weight(count: int) -> float:
    """Return the weight of each of `count` indexes, so that long and short texts count alike."""
    return _WEIGHT / math.sqrt(count)


def _pieces(text: str) -> Iterator[str]:
    """Yield a text's features as strings: words, pairs, parts of words, and its first and last words."""
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
