"""Softmax regression over vectors, signs and hashed pieces, with numpy alone; the same every time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.capture.linear_model import form_features
from forged.text.linear import SIZE, Weights, feature_weight, hashed_features

Floats = NDArray[np.float32]
Places = NDArray[np.intp]
SignsOf = Callable[[str], tuple[float, ...]]
# Vectors of one model are all alike: what they differ by is brought to so much in each place.
_SPREAD = np.float32(0.2)
_RIDGE = np.float32(2e-4)
_STEPS, _REMEMBERED = 70, 10
_ENOUGH, _HALVINGS = 1e-4, 20


class Rows:
    """Texts as numbers; `form` gives the signs of one."""

    def __init__(self, texts: Sequence[str], vectors: Floats, form: SignsOf = form_features) -> None:
        places = [np.array(hashed_features(text), np.intp) for text in texts]
        self._set(places, np.array([form(text) for text in texts], np.float32), vectors)

    def _set(self, places: list[Places], form: Floats, vectors: Floats) -> None:
        self._places, self.form, self.vectors = places, form, vectors
        counts = np.array([len(each) for each in places])
        self._flat = np.concatenate(places)
        self._begins = np.r_[0, np.cumsum(counts)[:-1]]
        self._owners = np.repeat(np.arange(len(places)), counts)
        self._weights = np.array([[feature_weight(count)] for count in counts], np.float32)

    def take(self, which: NDArray[np.intp]) -> Rows:
        other = object.__new__(Rows)
        other._set([self._places[each] for each in which], self.form[which], self.vectors[which])
        return other

    def table(self, size: int) -> Table:
        return Table(self._flat % size, self._begins, self._owners, self._weights, size)


class Table:
    """Which pieces stand in which texts, places beyond `size` counted from the start again."""

    def __init__(self, flat: Places, begins: Places, owners: Places, weights: Floats, size: int) -> None:
        order = np.argsort(flat, kind="stable")
        self._flat, self._begins, self._weights, self._size = flat, begins, weights, size
        self._owners = owners[order]
        self._present, self._starts = np.unique(flat[order], return_index=True)

    def times(self, table: Floats) -> Floats:
        """What the pieces say of each text."""
        found: Floats = np.add.reduceat(table[self._flat], self._begins) * self._weights
        return found

    def back(self, each: Floats) -> Floats:
        """What the texts say of each piece."""
        found = np.zeros((self._size, each.shape[1]), np.float32)
        found[self._present] = np.add.reduceat((each * self._weights)[self._owners], self._starts)
        return found


class Fitted(msgspec.Struct, frozen=True):
    """One linear function: of the vector, of the signs, and of the pieces."""

    vector: Floats
    signs: Floats
    pieces: Floats

    def of(self, rows: Rows) -> Floats:
        found: Floats = rows.vectors @ self.vector + rows.form @ self.signs
        if len(self.pieces):
            found += rows.table(len(self.pieces)).times(self.pieces[:, None])[:, 0]
        return found

    def less(self, other: Fitted) -> Fitted:
        """Return how much more speaks for this than for the other."""
        return Fitted(self.vector - other.vector, self.signs - other.signs, self.pieces - other.pieces)

    def weights(self) -> Weights:
        vector, vector_step = small(self.vector, np.int16)
        table, step = small(self.pieces, np.int8) if len(self.pieces) else (b"", 0.0)
        return Weights(vector, vector_step, tuple(float(each) for each in self.signs), table, step)


def fit(rows: Rows, right: Floats, weights: Floats, *, size: int = SIZE) -> list[Fitted]:
    """Return a function for each column of `right`, which says what a row may be: one of them or several.

    `size` is that of their tables of pieces, 0 for none.
    """
    mean = rows.vectors.mean(0)
    scale = _SPREAD / (rows.vectors.std(0) + np.float32(1e-6))
    dense = np.hstack([(rows.vectors - mean) * scale, rows.form])
    shares = (weights / weights.sum())[:, None].astype(np.float32)
    width, kinds = dense.shape[1], right.shape[1]
    pieces_of = rows.table(size) if size else None

    def reported(numbers: Floats) -> tuple[float, Floats]:
        each = numbers.reshape(-1, kinds)
        leanings = dense @ each[:width] + (pieces_of.times(each[width:]) if pieces_of else 0)
        chances = _chances(leanings)
        possible = (chances * right).sum(1, keepdims=True) + np.float32(1e-12)
        wrong = shares * (chances - chances * right / possible)
        slope = np.vstack([dense.T @ wrong, *([pieces_of.back(wrong)] if pieces_of else [])])
        loss = float(_RIDGE) / 2 * float(numbers @ numbers) - float((shares * np.log(possible)).sum())
        return loss, (slope + _RIDGE * each).ravel()

    found = least(reported, np.zeros((width + size) * kinds, np.float32)).reshape(-1, kinds).T
    return [_plain(numbers, mean, scale, width) for numbers in found]


def least(reported: Callable[[Floats], tuple[float, Floats]], now: Floats) -> Floats:
    """Return where a smooth function is least, as far as some steps of L-BFGS come from `now`."""
    value, slope = reported(now)
    past: deque[tuple[Floats, Floats]] = deque(maxlen=_REMEMBERED)
    for _ in range(_STEPS):
        way = -_turned(slope, past)
        pace = 1.0 if past else 1.0 / float(np.linalg.norm(slope))
        for _ in range(_HALVINGS):
            there = now + np.float32(pace) * way
            lower, steep = reported(there)
            if lower <= value + _ENOUGH * pace * float(slope @ way):
                break
            pace /= 2
        else:
            break
        if float((there - now) @ (steep - slope)) > 0:
            past.append((there - now, steep - slope))
        now, value, slope = there, lower, steep
    return now


def _turned(slope: Floats, past: Sequence[tuple[Floats, Floats]]) -> Floats:
    """The slope by the curvature that the last steps tell."""
    turned, shares = slope.copy(), list[float]()
    for step, change in reversed(past):
        shares.append(float(step @ turned) / float(step @ change))
        turned -= shares[-1] * change
    if past:
        step, change = past[-1]
        turned *= (step @ change) / (change @ change)
    for (step, change), share in zip(past, reversed(shares), strict=True):
        turned += (share - (change @ turned) / (step @ change)) * step
    return turned


def _chances(leanings: Floats) -> Floats:
    raised = np.exp(leanings - leanings.max(1, keepdims=True))
    found: Floats = raised / raised.sum(1, keepdims=True)
    return found


def _plain(numbers: Floats, mean: Floats, scale: Floats, width: int) -> Fitted:
    """A function of vectors as they are; the last sign is always 1."""
    vector, form = numbers[: len(mean)] * scale, numbers[len(mean) : width].copy()
    form[-1] -= vector @ mean
    return Fitted(vector, form, numbers[width:])


def small(numbers: Floats, kind: type[np.int8 | np.int16]) -> tuple[bytes, float]:
    """Return numbers as whole ones of a kind, and the step that each stands for."""
    step = float(np.abs(numbers).max(initial=0.0)) / np.iinfo(kind).max or 1.0
    return np.round(numbers / step).astype(kind).tobytes(), step
