"""Logistic regression over vectors, signs and hashed pieces, with numpy alone; the same every time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.capture.head.features import SIZE, pieces, signs
from forged.capture.head.head import Output, weight

Floats = NDArray[np.float64]
# Unit vectors of one model are all alike: their differences are brought to the size of the signs.
_SCALE = 6.0
_RIDGE = 3e-4
_STEPS = 100


class Rows:
    """Texts as numbers."""

    def __init__(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        places = [np.array(pieces(text), np.int64) for text in texts]
        self._set(places, np.array([signs(text) for text in texts]), vectors)

    def _set(self, places: list[NDArray[np.int64]], form: Floats, vectors: NDArray[np.float32]) -> None:
        self._places, self._form, self._vectors = places, form, vectors
        self._counts = np.array([len(each) for each in places])
        self._flat = np.concatenate(places)
        self._begins = np.r_[0, np.cumsum(self._counts)[:-1]]
        self._weights = np.array([weight(count) for count in self._counts])

    def take(self, which: NDArray[np.intp]) -> Rows:
        other = object.__new__(Rows)
        other._set([self._places[each] for each in which], self._form[which], self._vectors[which])
        return other

    def dense(self, mean: NDArray[np.float32]) -> Floats:
        return np.hstack([(self._vectors - mean) * _SCALE, self._form])

    def mean(self) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._vectors.mean(0)
        return found

    def times(self, table: Floats) -> Floats:
        return np.add.reduceat(table[self._flat], self._begins) * self._weights

    def back(self, each: Floats) -> Floats:
        return np.bincount(self._flat, np.repeat(each * self._weights, self._counts), SIZE)


class Fitted(msgspec.Struct, frozen=True):
    """One linear function: of the vector, of the signs, and of the pieces."""

    vector: Floats
    signs: Floats
    pieces: Floats

    def of(self, rows: Rows) -> Floats:
        return rows._vectors @ self.vector + rows._form @ self.signs + rows.times(self.pieces)

    def output(self, *, with_pieces: bool = True) -> Output:
        vector, vector_step = _small(self.vector, np.int16)
        table, step = _small(self.pieces, np.int8) if with_pieces else (b"", 0.0)
        return Output(vector, vector_step, tuple(float(each) for each in self.signs), table, step)


def fit(rows: Rows, right: Floats, weights: Floats, *, with_pieces: bool = True) -> Fitted:
    """Return what tells the rows that are `right` from the others, by a fixed number of steps."""
    mean = rows.mean()
    dense, weights = rows.dense(mean), weights / weights.sum()
    width = dense.shape[1]
    now = np.zeros(width + SIZE)
    ahead, pace, step = now.copy(), 1.0, 1 / _steepest(rows, dense, weights, with_pieces=with_pieces)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-_times(rows, dense, ahead)))
        slope = _back(rows, dense, weights * (chance - right), with_pieces=with_pieces)
        then, faster = ahead - step * (slope + _RIDGE * ahead), (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        ahead, now, pace = then + (pace - 1) / faster * (then - now), then, faster
    vector = now[: len(mean)] * _SCALE
    form = now[len(mean) : width].copy()
    form[-1] -= vector @ mean
    return Fitted(vector, form, now[width:])


def _times(rows: Rows, dense: Floats, numbers: Floats) -> Floats:
    width = dense.shape[1]
    return dense @ numbers[:width] + rows.times(numbers[width:])


def _back(rows: Rows, dense: Floats, each: Floats, *, with_pieces: bool) -> Floats:
    return np.concatenate([dense.T @ each, rows.back(each) if with_pieces else np.zeros(SIZE)])


def _steepest(rows: Rows, dense: Floats, weights: Floats, *, with_pieces: bool) -> float:
    """Return a bound of the curvature, by power iteration."""
    numbers, length = np.random.default_rng(0).normal(size=dense.shape[1] + SIZE), 0.0
    for _ in range(8):
        numbers = _back(rows, dense, weights * _times(rows, dense, numbers), with_pieces=with_pieces)
        length = float(np.linalg.norm(numbers))
        numbers /= length
    return 0.25 * length * 1.1 + _RIDGE


def _small(numbers: Floats, kind: type[np.int8 | np.int16]) -> tuple[bytes, float]:
    step = float(np.abs(numbers).max()) / np.iinfo(kind).max or 1.0
    return np.round(numbers / step).astype(kind).tobytes(), step
