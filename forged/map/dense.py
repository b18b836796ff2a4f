"""Dense index of a vector map: unit rows, exact cosines, and centring without a second matrix.

Every row is compared with every query: for the memories of one person that is faster than an approximate
index. Rows are kept in transposed blocks of 64, two to three times faster than row-major blocks of 128 (`make
bench`). Sentence models put all texts in one narrow cone. Since (x - m)·(q - m) is x·q - x·m plus a constant
of the query, subtracting the mean needs two numbers per row. The mean is that of all rows that a request
sees: a mean per index would move a small unrelated index to the front. Chinese, Japanese and Korean (CJK)
texts have a mean of their own, so that a question finds its answer in another language (own set: recall@10 of
10 such 0.47 -> 0.87).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from weakref import WeakKeyDictionary, ref

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.models import Vectors

# Rows of a block: four vectors of 16 numbers. Measured at 384 and 1,536 dimensions: 32 and 96 are slower.
BLOCK = 64
# With fewer vectors their mean says more about them than about the model.
_CENTRED_FROM = 50
# The common mean counts as so many rows in the mean of a script; 3-30 are equal.
_DRAWN_BY = 10
# Squared distance that is only rounding.
_SAME = 1e-6
_NONE = np.empty(0, np.intp)


class DenseIndex(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Unit vectors of a map part's rows by one model, in blocks, with a mask of rows without one.

    `key` is the embedder's. `blocks` float32 (b, d, 64) holds row i as column i % 64 of block i // 64, of
    unit length, or zero without a vector. `missing` bool (n,) are the zero rows. `total` float64 (d,) is the
    sum of all rows. `gone` intp (g,) are missing rows that the blocks, shared with an older index, still
    hold.
    """

    key: str
    blocks: Vectors
    missing: NDArray[np.bool_]
    total: NDArray[np.float64]
    gone: NDArray[np.intp] = _NONE

    def __len__(self) -> int:
        return len(self.missing)

    @cached_property
    def dimension(self) -> int:
        return int(self.blocks.shape[1])

    def row(self, number: int) -> Vectors:
        """Return the vector of one row, (d,), as a view."""
        return self.blocks[number // BLOCK, :, number % BLOCK]

    def rows_at(self, numbers: NDArray[np.intp]) -> Vectors:
        """Return the vectors of the numbered rows, (c, d), as a copy."""
        rows: Vectors = self.blocks[numbers // BLOCK, :, numbers % BLOCK]
        return rows

    def without(self, gone: NDArray[np.bool_]) -> DenseIndex:
        """Return the index with these rows missing. All rows that are missing so far must be zero."""
        rows = np.flatnonzero(gone & ~self.missing)
        total = self.total - self.rows_at(rows).sum(axis=0, dtype=np.float64)
        return DenseIndex(self.key, self.blocks, self.missing | gone, total, rows)

    @cached_property
    def vector_count(self) -> int:
        """Number of rows with a vector."""
        return len(self) - int(np.count_nonzero(self.missing))


class Centre(msgspec.Struct, frozen=True, eq=False):
    """Means of all indexes that are searched together, and the factors that centre each row's cosine.

    `means` float32 (2, d) are those of other rows and of CJK rows; `mixed` is True if there are both. Each
    index has three arrays. `scripts` intp (n,) is the number of the mean that a row loses. `shifts` float32
    (2, n) are the products of its rows with the means. `scales` float32 (n,) are the inverse distances of its
    rows to their mean, 0 for rows without one.
    """

    means: NDArray[np.float32]
    mixed: bool
    scripts: tuple[NDArray[np.intp], ...]
    shifts: tuple[NDArray[np.float32], ...]
    scales: tuple[NDArray[np.float32], ...]

    def apply(
        self, index: int, cosines: Vectors, queries: Vectors, cjk: NDArray[np.bool_], out: Vectors
    ) -> None:
        """Write centred cosines of one index to `out`, each times its query's distance to the mean.

        `cjk` (q,) is True for CJK queries. Scores are standardised next, which drops the constant.
        """
        script = cjk.astype(np.intp) if self.mixed else np.zeros(len(queries), np.intp)
        np.subtract(cosines, self.shifts[index][script] if self.mixed else self.shifts[index][0], out=out)
        constant = (self.means @ self.means.T)[script] - queries @ self.means.T
        out += constant[:, self.scripts[index]] if self.mixed else constant[:, :1]
        out *= self.scales[index]

    def rows(self, index: int, of: DenseIndex, numbers: NDArray[np.intp]) -> Vectors:
        """Return centred unit rows (c, d) of some rows of an index; zero for missing rows."""
        rows = of.rows_at(numbers)
        rows -= self.means[self.scripts[index][numbers]] if self.mixed else self.means[0]
        rows *= self.scales[index][numbers, None]
        return rows


def write_cosines(out: Vectors, index: DenseIndex, queries: Vectors) -> None:
    """Write the cosines of `queries` (q, d) with all rows of `index`, shape (q, n), into `out`."""
    if len(queries) == 1:  # OpenBLAS is slower for one row than for two
        two = np.empty((2, out.shape[1]), np.float32)
        write_cosines(two, index, np.repeat(queries, 2, axis=0))
        out[0] = two[0]
        return
    whole, rest = divmod(len(index), BLOCK)
    end = len(index) - rest
    blocks = out[:, :end].reshape(len(queries), whole, BLOCK).transpose(1, 0, 2)  # a view: written once
    np.matmul(queries, index.blocks[:whole], out=blocks)
    if rest:
        out[:, end:] = (queries @ index.blocks[whole])[:, :rest]


def joint_centre(
    indexes: Sequence[DenseIndex],
    cjk: Sequence[NDArray[np.bool_]],
    extra: Sequence[tuple[DenseIndex, NDArray[np.bool_]]] = (),
) -> Centre | None:
    """Return the joint centre of indexes of one dimension, cached; None for fewer than 50 vectors.

    `cjk` is True for CJK rows of each index. The `extra` indexes, with their own flags, are centred after the
    others and do not count for the means. The first call costs as much as a query. The result is kept as long
    as the first index lives.
    """
    if sum(index.vector_count for index in indexes) < _CENTRED_FROM:
        return None
    known = _centres.get(indexes[0])
    others = [*indexes[1:], *(index for index, _ in extra)]
    if known is not None and [other() for other in known[0]] == others:
        return known[1]
    fresh = _compute_centre(indexes, cjk, extra)
    _centres[indexes[0]] = (tuple(map(ref, others)), fresh)
    return fresh


# Weak on both sides: a search must not keep a replaced map alive.
_centres: WeakKeyDictionary[DenseIndex, tuple[tuple[ref[DenseIndex], ...], Centre]] = WeakKeyDictionary()


def _compute_centre(
    indexes: Sequence[DenseIndex],
    cjk: Sequence[NDArray[np.bool_]],
    extra: Sequence[tuple[DenseIndex, NDArray[np.bool_]]],
) -> Centre:
    """Compute the means by script, and for each row the products and the distance that centre it."""
    present = sum(index.vector_count for index in indexes)
    total = np.sum([index.total for index in indexes], axis=0)
    found = [np.flatnonzero(own & ~index.missing) for index, own in zip(indexes, cjk, strict=True)]
    count, cjk_total = sum(map(len, found)), np.zeros_like(total)
    if 0 < count < present:
        for index, rows in zip(indexes, found, strict=True):
            cjk_total += index.rows_at(rows).sum(axis=0, dtype=np.float64)
    else:
        count = 0  # one script is one mean
    drawn = _DRAWN_BY / present * total
    means = np.stack(
        [
            (total - cjk_total + drawn) / (present - count + _DRAWN_BY),
            (cjk_total + drawn) / (count + _DRAWN_BY),
        ]
    ).astype(np.float32)
    everything = [*zip(indexes, cjk, strict=True), *extra]
    scripts = tuple(own.astype(np.intp) if count else np.zeros(len(own), np.intp) for _, own in everything)
    distances = [
        _mean_products(index, means, script) for (index, _), script in zip(everything, scripts, strict=True)
    ]
    shifts, scales = zip(*distances, strict=True)
    return Centre(means, count > 0, scripts, shifts, scales)


def _mean_products(
    index: DenseIndex, means: NDArray[np.float32], script: NDArray[np.intp]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return each row's products with the means, (2, n), and its inverse distance to its own mean, (n,)."""
    shifts = np.empty((len(means), len(index)), np.float32)
    write_cosines(shifts, index, means)
    own = np.take_along_axis(shifts, script[None], axis=0)[0]
    squared = 1 - 2 * own + (means * means).sum(axis=1)[script]
    scale = np.zeros_like(own)
    np.divide(1, np.sqrt(squared, where=squared > _SAME, out=scale), out=scale, where=squared > _SAME)
    scale[index.missing] = 0
    return shifts, scale
