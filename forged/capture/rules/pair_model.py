"""Model of statement pairs: estimates replacements from signs, words and vectors.

`make linear-models` trains it with `sign_features`, `word_buckets` and `vector_features`. Raises
msgspec.MsgspecError for an invalid file, and ValueError for vectors of another size than in training.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.capture.rules.slots import PairSigns, pair_signs
from forged.models import LAYERS
from forged.text.linear import CJK, SIZE, feature_weight
from forged_client.typed import resolved

FILE = os.path.join(os.path.dirname(__file__), "replacement.bin")
# Vectors of texts by the local model, float32 as bytes.
RowsOf = Mapping[str, bytes]
NO_ROWS: RowsOf = {}
Floats = NDArray[np.float32]
# Letters of a word's beginning that make a feature.
_BEGINNING = 4
_PIECES = re.compile(r"[^\W_]+|[?!:]")


@functools.cache
def pair_model() -> PairModel:
    """Return the shipped model of statement pairs, read once."""
    with open(FILE, "rb") as file:
        return PairModel(msgspec.msgpack.decode(file.read(), type=resolved(PairFile)).numbers)


class PairLine(msgspec.Struct, frozen=True):
    """Linear weights for text pairs: signs; vectors (int16) and words (int8), with their scales."""

    signs: tuple[float, ...]
    alike: tuple[float, ...] = ()
    places: bytes = b""
    places_step: float = 0.0
    pieces: bytes = b""
    pieces_step: float = 0.0


class PairNumbers(msgspec.Struct, frozen=True):
    """Weights and bars that decide if a newer text replaces an older one, and if both are `related`.

    `bar` is the least score of a replacement, `proposed` that of one proposed by a model, and `doubted` that
    of a possible one, which a person should see. `near` is the least score of related texts.
    """

    bar: float
    proposed: float
    doubted: float
    near: float
    replaces: PairLine
    related: PairLine


class PairFile(msgspec.Struct, frozen=True):
    """Contents of the shipped pair model: weights, a hash of its data, the name of the vectors' model."""

    data: str
    engine: str
    numbers: PairNumbers


class PairModel:
    """Scores pairs of a newer and an older text as replacements."""

    def __init__(self, numbers: PairNumbers) -> None:
        self.bar, self.proposed, self.doubted = numbers.bar, numbers.proposed, numbers.doubted
        self._near, self._replaces, self._related = (
            numbers.near,
            *map(_LoadedPairLine, (numbers.replaces, numbers.related)),
        )

    def scores(self, newer: str, older: Sequence[str], rows: RowsOf) -> list[float]:
        """Return the score in nats of a replacement for each older text; -inf if they are unrelated."""
        if not older:
            return []
        form = np.array([sign_features(newer, each) for each in older], np.float32)
        table = np.frombuffer(b"".join(rows[each] for each in (*older, newer)), np.float32)
        table = table.reshape(len(older) + 1, -1)
        dense = np.hstack([vector_features(np.broadcast_to(table[-1], table[:-1].shape), table[:-1]), form])
        pieces = [word_buckets(newer, each) for each in older]
        is_near = self._related.values(dense, form.shape[1], pieces) > self._near
        found: list[float] = np.where(
            is_near, self._replaces.values(dense, form.shape[1], pieces), -np.inf
        ).tolist()
        return found


class _LoadedPairLine:
    """Linear function of text pairs with its weights unpacked, ready to compute."""

    def __init__(self, line: PairLine) -> None:
        self._signs = np.array(line.signs, np.float32)
        places = np.frombuffer(line.places, np.int16) * np.float32(line.places_step)
        self._rows = np.concatenate([np.array(line.alike, np.float32), places])
        self._pieces = np.frombuffer(line.pieces, np.int8) * np.float32(line.pieces_step)

    def values(self, dense: Floats, signs: int, pieces: Sequence[Sequence[int]]) -> Floats:
        """Return the function's value for each pair; the last columns of `dense` are `signs`."""
        width = len(self._rows)
        if width > dense.shape[1] - signs:
            raise ValueError(f"{dense.shape[1] - signs} numbers of rows for a line of {width}")
        found: Floats = dense[:, :width] @ self._rows + dense[:, -signs:] @ self._signs
        return found + np.array([self._word_sum(each) for each in pieces], np.float32)

    def _word_sum(self, places: Sequence[int]) -> float:
        """Return the scaled sum of the weights of a pair's word features."""
        if not len(self._pieces) or not places:
            return 0.0
        return float(self._pieces[list(places)].sum()) * feature_weight(len(places))


def sign_features(newer: str, older: str) -> tuple[float, ...]:
    """Return the signs of a newer and an older text as features; the last one is always 1."""
    found = pair_signs(newer, older)
    return (*msgspec.structs.astuple(found), float(_is_of_both(found)), 1.0)


def _is_of_both(found: PairSigns) -> bool:
    """Return True if a sign shows that both texts are related."""
    return any((found.shared, found.given_up, found.value, found.number, found.version))


def word_buckets(newer: str, older: str) -> tuple[int, ...]:
    """Return the hashed table indexes of a pair's word features, each once, in order."""
    return tuple(sorted({crc32(piece.encode()) % SIZE for piece in _word_features(newer, older)}))


def vector_features(newer: Floats, older: Floats) -> Floats:
    """Return features of pairs of vectors (newer, older), one pair a row.

    First comes the similarity of each layer, then products and differences, then both vectors.
    """
    new, old = _by_layer(newer), _by_layer(older)
    alike = new * old
    parts = (alike, np.abs(new - old), new, old)
    found: Floats = np.hstack([alike.sum(2), *(part.reshape(len(newer), -1) for part in parts)])
    return found


def shared_feature_count(row: int) -> int:
    """Return how many vector features, the first ones, combine both vectors of width `row`."""
    return len(LAYERS) + 2 * row


def _by_layer(rows: Floats) -> Floats:
    """Split vectors into the layers of the local model, and normalise each."""
    layers = rows.reshape(len(rows), len(LAYERS), -1)
    found: Floats = layers / np.maximum(np.linalg.norm(layers, axis=2, keepdims=True), np.float32(1e-9))
    return found


def _word_features(newer: str, older: str) -> Iterator[str]:
    """Yield features of two texts: words of one or both, and word pairs and first word of the newer."""
    said = _tokens(newer)
    new, old = set(_words_and_beginnings(said)), set(_words_and_beginnings(_tokens(older)))
    yield from (f"n{word}" for word in new - old)
    yield from (f"o{word}" for word in old - new)
    yield from (f"b{word}" for word in new & old)
    yield from (f"g{one} {other}" for one, other in pairwise(said))
    yield from (f"^{word}" for word in said[:1])


def _tokens(text: str) -> list[str]:
    """Return the words and marks of a text in lower case, with digits as 0."""
    return _PIECES.findall(re.sub(r"\d", "0", text.lower()))


def _words_and_beginnings(said: list[str]) -> Iterator[str]:
    """Yield words and their beginnings; without blanks, characters and pairs of them."""
    for word in said:
        if CJK.search(word):
            yield from word
            yield from (one + other for one, other in pairwise(word))
        else:
            yield from (word, word[:_BEGINNING])
