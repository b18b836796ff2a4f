"""A newer and an older statement as numbers: what a judge of whether one takes the other's place looks at.

In go the two texts, out come signs (`slots`), and the places of their words in a table: those that both have,
those of one alone, and how the newer one goes. In go the local model's rows of many pairs, out comes how each
layer of one differs from the other's. The training and the daemon share them; nothing is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.capture.rules.slots import Signs, signs
from forged.models import LAYERS
from forged.text.pieces import CJK, SIZE

Floats = NDArray[np.float32]

_BEGINNING = 4
_WORDS = re.compile(r"[^\W_]+|[?!:]")


def signs_of(newer: str, older: str) -> tuple[float, ...]:
    """Return all signs of a pair, then whether any is of both texts; the last is always 1."""
    found = signs(newer, older)
    return (*msgspec.structs.astuple(found), float(_is_of_both(found)), 1.0)


def _is_of_both(found: Signs) -> bool:
    return any((found.shared, found.given_up, found.value, found.number, found.version))


def places_of(newer: str, older: str) -> tuple[int, ...]:
    """Return the places of what stands in a pair, each once, in order."""
    return tuple(sorted({crc32(piece.encode()) % SIZE for piece in _pieces(newer, older)}))


def rows_of(newer: Floats, older: Floats) -> Floats:
    """Return the numbers of pairs of rows, one pair a row: how alike each layer is, and then all places.

    First what both say together, what they differ by, and then each by itself.
    """
    new, old = _by_layer(newer), _by_layer(older)
    alike = new * old
    parts = (alike, np.abs(new - old), new, old)
    found: Floats = np.hstack([alike.sum(2), *(part.reshape(len(newer), -1) for part in parts)])
    return found


def together(row: int) -> int:
    """Return how many of these, the first, are of both rows of so many numbers."""
    return len(LAYERS) + 2 * row


def _by_layer(rows: Floats) -> Floats:
    """The rows by layer, each of unit length."""
    layers = rows.reshape(len(rows), len(LAYERS), -1)
    found: Floats = layers / np.maximum(np.linalg.norm(layers, axis=2, keepdims=True), np.float32(1e-9))
    return found


def _pieces(newer: str, older: str) -> Iterator[str]:
    said = _said(newer)
    new, old = set(_words(said)), set(_words(_said(older)))
    yield from (f"n{word}" for word in new - old)
    yield from (f"o{word}" for word in old - new)
    yield from (f"b{word}" for word in new & old)
    yield from (f"g{one} {other}" for one, other in pairwise(said))
    yield from (f"^{word}" for word in said[:1])


def _said(text: str) -> list[str]:
    return _WORDS.findall(re.sub(r"\d", "0", text.lower()))


def _words(said: list[str]) -> Iterator[str]:
    """Words and how they begin; where no blanks stand, characters and pairs of them."""
    for word in said:
        if CJK.search(word):
            yield from word
            yield from (one + other for one, other in pairwise(word))
        else:
            yield from (word, word[:_BEGINNING])
