"""Baseline of the gate: the similarity of everyday messages to any memory, for one embedding model.

Sentence models put all texts into narrow cones: a cosine of 0.8 is nothing for one and a perfect match for
another. So fixed messages are embedded once per model, as queries and as passages. Both means are subtracted.
The two directions in which the messages spread most are dropped: with multilingual-e5-small these are the
writing system (r 0.94) and code against chat (r 0.70). A `Calibration` holds the values that a dense index
needs for this, computed once. The calibration of an edited index (`carry_calibration`, `thin_calibration`)
costs as much as the edit changed.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map.dense import DenseIndex, write_cosines
from forged.models import Vectors

# Own set, area under the curve of unrelated against related: 0.86, 0.91, 0.91 for 0, 1, 2; 3-6 equal 2.
_AXES = 2
# Below this dimension two axes would be a large part of a vector; no language model has so few.
LEAST_DIMENSION = 64
_SAME = 1e-6


class Baseline(msgspec.Struct, frozen=True, eq=False):
    """Everyday messages' vectors by the model `key`, with means and main axes: the gate's zero point.

    `query_mean` and `passage_mean` (d,) are their means as queries and passages. `dropped_axes` (2, d) are
    unit directions. `messages` (b, d) are the messages as queries, without mean and axes, of unit length.
    """

    key: str
    query_mean: NDArray[np.float32]
    passage_mean: NDArray[np.float32]
    dropped_axes: NDArray[np.float32]
    messages: Vectors

    @classmethod
    def of(cls, key: str, queries: Vectors, passages: Vectors) -> Baseline:
        """Compute the baseline of everyday messages from their unit rows (b, d) as queries and passages."""
        query_mean, passage_mean = queries.mean(axis=0), passages.mean(axis=0)
        spread = np.vstack([queries - query_mean, passages - passage_mean])
        values, directions = np.linalg.eigh(spread @ spread.T)  # (2b, 2b): a tenth of the work of an SVD
        lengths = np.sqrt(np.maximum(values[::-1][:_AXES, None], _SAME))
        axes = (directions[:, ::-1][:, :_AXES].T @ spread / lengths).astype(np.float32)
        rest = queries - query_mean
        rest -= rest @ axes.T @ axes
        messages: Vectors = rest / np.maximum(np.linalg.norm(rest, axis=1), _SAME)[:, None]
        return cls(key, query_mean, passage_mean, axes, messages)

    def fits(self, index: DenseIndex) -> bool:
        """Return True if an index holds vectors of the baseline's model and dimension."""
        return self.key == index.key and self.messages.shape[1] == index.dimension

    @property
    def directions(self) -> Vectors:
        """Vectors (axes + 2, d) to multiply an index's rows with: the dropped axes and both means."""
        return np.vstack([self.dropped_axes, self.query_mean, self.passage_mean])

    def scales(self, products: Vectors) -> NDArray[np.float32]:
        """Return each row's inverse length without mean and axes, by its products; 0 if none."""
        along = products[:-2] - (self.dropped_axes @ self.passage_mean)[:, None]
        square = 1 - 2 * products[-1] + self.passage_mean @ self.passage_mean
        square -= np.einsum("ij,ij->j", along, along)
        scales: NDArray[np.float32] = np.where(square > _SAME, 1 / np.sqrt(np.maximum(square, _SAME)), 0)
        return scales.astype(np.float32)

    def message_cosines(
        self, products: Vectors, scales: NDArray[np.float32], some: NDArray[np.intp] | None = None
    ) -> Vectors:
        """Turn products of messages with unit rows into cosines without mean and axes of the rows."""
        messages = self.messages if some is None else self.messages[some]
        cosines: Vectors = (products - (messages @ self.passage_mean)[:, None]) * scales
        return cosines


class Calibration(msgspec.Struct, frozen=True, eq=False):
    """Products, scales and best cosines of a dense index's rows against a baseline, computed once.

    `products` float32 (2 + axes, n) are the products of each row with the dropped axes and the query mean,
    and ones. `scales` float32 (n,) are the inverse of each row's length without mean and axes, 0 if nothing
    remains. `best` float32 (b,) is the greatest cosine that each everyday message reaches. `holders` intp
    (b,) are the rows with that cosine.
    """

    baseline: Baseline
    products: Vectors
    scales: NDArray[np.float32]
    best: NDArray[np.float32]
    holders: NDArray[np.intp]

    @classmethod
    def of(cls, index: DenseIndex, baseline: Baseline) -> Calibration:
        """Compute the calibration of an index with at least one vector: 15 ms for 10,000 rows."""
        directions = baseline.directions
        products = np.empty((len(directions), len(index)), np.float32)
        write_cosines(products, index, directions)
        scales, products[-1] = baseline.scales(products), 1
        scales[index.missing] = 0
        cosines = np.empty((len(baseline.messages), len(index)), np.float32)
        write_cosines(cosines, index, baseline.messages)
        cosines = baseline.message_cosines(cosines, scales)
        cosines[:, index.missing] = -np.inf
        return cls(baseline, products, scales, cosines.max(axis=1), cosines.argmax(axis=1))

    def after_removal(self, index: DenseIndex) -> Calibration:
        """Return the calibration after rows went missing; messages that lost their best row get another."""
        lost = np.flatnonzero(index.missing[self.holders])
        if not len(lost):
            return self
        cosines = np.empty((len(lost), len(index)), np.float32)
        write_cosines(cosines, index, self.baseline.messages[lost])
        cosines = self.baseline.message_cosines(cosines, self.scales, lost)
        cosines[:, index.missing] = -np.inf
        best, holders = self.best.copy(), self.holders.copy()
        best[lost], holders[lost] = cosines.max(axis=1), cosines.argmax(axis=1)
        return Calibration(self.baseline, self.products, self.scales, best, holders)

    def after_edit(self, places: NDArray[np.int64], index: DenseIndex) -> Calibration:
        """Return an edited index's calibration, updated or new; row i was `places[i]`, -1 if new.

        The cost is that of the new rows, unless a row is gone that was the best of a message.
        """
        fresh = np.flatnonzero((places < 0) & ~index.missing)
        kept = np.flatnonzero(places >= 0)
        now_at = np.full(len(self.scales), -1)
        now_at[places[kept]] = kept
        holders = now_at[self.holders]
        if (holders < 0).any() or len(fresh) > len(index) // 2:
            return Calibration.of(index, self.baseline)
        products = np.zeros((len(self.products), len(index)), np.float32)
        products[-1] = 1
        scales, best = np.zeros(len(index), np.float32), self.best
        products[:, kept], scales[kept] = self.products[:, places[kept]], self.scales[places[kept]]
        if len(fresh):
            rows = index.rows_at(fresh)
            of_fresh = self.baseline.directions @ rows.T
            products[:-1, fresh], scales[fresh] = of_fresh[:-1], self.baseline.scales(of_fresh)
            cosines = self.baseline.message_cosines(self.baseline.messages @ rows.T, scales[fresh])
            higher = cosines.max(axis=1) > best
            holders = np.where(higher, fresh[cosines.argmax(axis=1)], holders)
            best = np.maximum(best, cosines.max(axis=1))
        return Calibration(self.baseline, products, scales, best, holders)


kept_calibrations: WeakKeyDictionary[DenseIndex, Calibration] = WeakKeyDictionary()
"""The calibration of each index that has one; weak, so that it goes with its index."""


def calibration_of(index: DenseIndex, baseline: Baseline) -> Calibration:
    """Return the calibration of an index with at least one vector, computed once and then cached."""
    known = _cached_calibration(index, baseline)
    if known is None:
        known = kept_calibrations[index] = Calibration.of(index, baseline)
    return known


def carry_calibration(
    before: DenseIndex | None, places: NDArray[np.int64], index: DenseIndex, baseline: Baseline
) -> None:
    """Cache an edited index's calibration, from `before`'s or new; skip an index of another model.

    Row i of the index was row `places[i]` of `before`, or is new at -1.
    """
    _calibrate(before, index, baseline, lambda known: known.after_edit(places, index))


def thin_calibration(before: DenseIndex | None, index: DenseIndex, baseline: Baseline) -> None:
    """Cache the calibration of `index`: `before` with more rows missing; skip another model's."""
    _calibrate(before, index, baseline, lambda known: known.after_removal(index))


def _calibrate(
    before: DenseIndex | None,
    index: DenseIndex,
    baseline: Baseline,
    derive: Callable[[Calibration], Calibration],
) -> None:
    """Cache an index's calibration, from `before`'s or new; skip an index of another model."""
    if not index.vector_count or not baseline.fits(index):
        return
    known = None if before is None else _cached_calibration(before, baseline)
    if known is None:
        calibration_of(index, baseline)
    else:
        kept_calibrations[index] = derive(known)


def _cached_calibration(index: DenseIndex, baseline: Baseline) -> Calibration | None:
    """Return the cached calibration of an index against this baseline, if there is one."""
    known = kept_calibrations.get(index)
    return known if known is not None and known.baseline is baseline else None
