"""The dense half of a vector map: unit rows, exact cosines, and centring without a second matrix.

Every row is compared with every query; at the size of one person's memories that beats index structures on
build time, memory and exactness. The speed is in the shape: OpenBLAS has unpacked kernels for small products,
so the matrix is walked in blocks of up to 128 rows with one result row per query, about 3.5 times faster than
one big product (research, performance anchors 2b). Sentence models put all texts in one narrow cone, which
drowns the differences; subtracting the mean undoes it, and since (x - m)·(q - m) is x·q - x·m plus a constant
of the query, it needs only two numbers per row beside the raw products. The mean is that of all rows the
request sees; a mean per leg would move a small unrelated leg to the front (design.md D18).
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary, ref

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.providers import Vectors

# OpenBLAS leaves its small-matrix kernels above this many multiplications.
_SMALL_PRODUCT = 1_000_000
_BLOCK_ROWS = 128
# How much is brought into cache before it is multiplied; about a second-level cache.
_AHEAD_BYTES = 1 << 20
_LINE_FLOATS = 16
_STAYS_CACHED_BYTES = 4 << 20
# With fewer vectors than this their mean says more about them than about the model.
_CENTRED_FROM = 50
# Unit rows that came through float16 or text are off by this much.
_UNIT_TOLERANCE = 1e-3
# Squared distance that is nothing but rounding.
_SAME = 1e-6


class DenseLeg(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """Vectors of one map, made by one model.

    `key` is the embedder's; `rows` float32 (n, d), unit rows and zero rows for memories without a vector,
    C-contiguous and held once; `missing` bool (n,), the zero rows; `total` float64 (d,), the sum of all rows.
    """

    key: str
    rows: Vectors
    missing: NDArray[np.bool_]
    total: NDArray[np.float64]

    @classmethod
    def build(cls, key: str, rows: Vectors) -> DenseLeg:
        """Take over `rows` of shape (n, d). Rows that are not unit length are made so; zero stays zero.

        A row with a value that is not finite counts as missing (behaviours.md bug 3).
        """
        rows = np.ascontiguousarray(rows, np.float32)
        lengths = _lengths(rows)
        missing = ~np.isfinite(lengths) | (lengths == 0)
        if np.any(lengths[missing]) or np.any(np.abs(lengths[~missing] - 1) > _UNIT_TOLERANCE):
            rows = np.where(missing[:, None], np.float32(0), rows)
            rows /= np.where(missing, np.float32(1), lengths)[:, None]
        return cls(key, rows, missing, rows.sum(axis=0, dtype=np.float64))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def dimension(self) -> int:
        return int(self.rows.shape[1])

    @property
    def present(self) -> int:
        """Number of rows that hold a vector."""
        return len(self.rows) - int(np.count_nonzero(self.missing))


class Centre(msgspec.Struct, frozen=True, eq=False):
    """What centring needs beside the raw cosines, for some legs that are seen together.

    `mean` float32 (d,), of all their rows; for each leg `shifts`, float32 (n,), its rows' products with the
    mean, and `scales`, float32 (n,), one over its rows' distances to the mean, 0 for rows that have none.
    """

    mean: NDArray[np.float32]
    shifts: tuple[NDArray[np.float32], ...]
    scales: tuple[NDArray[np.float32], ...]

    def apply(self, leg: int, cosines: Vectors, queries: Vectors, out: Vectors) -> None:
        """Write the cosines between centred rows and centred queries, each query's times a constant.

        The constant, the query's distance to the mean, is left out because scores are standardised next.
        """
        np.subtract(cosines, self.shifts[leg], out=out)
        out += (self.mean @ self.mean - queries @ self.mean)[:, None]
        out *= self.scales[leg]


def cosines_into(out: Vectors, rows: Vectors, queries: Vectors) -> None:
    """Write `queries @ rows.T`, shape (q, n), into `out`; both sides are unit or zero rows."""
    if len(queries) == 1:
        np.matmul(rows, queries[0], out=out[0])
        return
    step = block_rows(len(queries), rows.shape[1])
    ahead = max(1, _AHEAD_BYTES * len(rows) // max(1, rows.nbytes * step)) * step
    for start in range(0, len(rows), ahead):
        stretch = rows[start : start + ahead]
        if rows.nbytes > _STAYS_CACHED_BYTES:
            _fetch(stretch)
        for first in range(start, start + len(stretch), step):
            np.matmul(queries, rows[first : first + step].T, out=out[:, first : first + step])


def _fetch(stretch: Vectors) -> None:
    """Bring a stretch of rows into the second-level cache by reading one number of each cache line.

    The product reads 128 rows at once, too many streams for the processor to foresee: from main memory it
    takes twice as long as this reading in order and the product from cache together.
    """
    lines = stretch.reshape(-1)[::_LINE_FLOATS]
    np.dot(lines, lines)


def block_rows(queries: int, dimension: int) -> int:
    """Rows per product, so that it stays small: at most 128, at least 16, a multiple of 16."""
    fitting = min(_BLOCK_ROWS, _SMALL_PRODUCT // max(1, queries * dimension))
    return max(16, fitting // 16 * 16)


def joint_centre(legs: Sequence[DenseLeg]) -> Centre | None:
    """Centre of legs of one dimension, or None while they hold fewer than 50 vectors.

    Costs as much as one query the first time; the answer is kept for as long as the first leg lives, because
    a map outlives many requests.
    """
    if sum(leg.present for leg in legs) < _CENTRED_FROM:
        return None
    known = _centres.get(legs[0])
    if known is not None and [other() for other in known[0]] == list(legs[1:]):
        return known[1]
    mean = _mean(legs)
    distances = [_distances(leg, mean) for leg in legs]
    fresh = Centre(mean, tuple(shift for shift, _ in distances), tuple(scale for _, scale in distances))
    _centres[legs[0]] = (tuple(map(ref, legs[1:])), fresh)
    return fresh


# Weak on both sides: a replaced map must not live on because somebody once searched it.
_centres: WeakKeyDictionary[DenseLeg, tuple[tuple[ref[DenseLeg], ...], Centre]] = WeakKeyDictionary()


def _mean(legs: Sequence[DenseLeg]) -> NDArray[np.float32]:
    total = np.sum([leg.total for leg in legs], axis=0)
    mean: NDArray[np.float32] = (total / sum(leg.present for leg in legs)).astype(np.float32)
    return mean


def _distances(leg: DenseLeg, mean: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Each row's product with the mean, and one over its distance to the mean."""
    shift = leg.rows @ mean
    squared = 1 - 2 * shift + mean @ mean
    scale = np.zeros_like(shift)
    np.divide(1, np.sqrt(squared, where=squared > _SAME, out=scale), out=scale, where=squared > _SAME)
    scale[leg.missing] = 0
    return shift, scale


def _lengths(rows: Vectors) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return lengths
