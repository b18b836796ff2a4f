"""Build dense indexes from vectors, or from an older index by an edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from forged.map.dense import BLOCK, DenseIndex
from forged.models import Vectors

# New rows that are packed at once: all rows of a large store would be a second matrix.
_PACKED_AT_ONCE = 64 * BLOCK
# Unit rows that came through float16 or text are off by this much.
_UNIT_TOLERANCE = 1e-3


def build_dense(key: str, rows: Vectors) -> DenseIndex:
    """Pack `rows` of shape (n, d) into an index. Rows are scaled to unit length; zero stays zero.

    A row with a value that is not finite counts as missing.
    """
    rows, missing = _unit_rows(np.asarray(rows, np.float32))
    return DenseIndex(key, _pack_blocks(rows), missing, rows.sum(axis=0, dtype=np.float64))


def edit_dense(index: DenseIndex, places: NDArray[np.int64], fresh: Mapping[int, Vectors]) -> DenseIndex:
    """Return a dense index after rows moved, came or went, equal to one built from scratch.

    Its row i is row `places[i]` of the older index; at -1 it is `fresh[i]`, or zero.
    """
    blocks = _move_rows(index.blocks, places)
    kept = places >= 0
    missing = np.ones(len(places), np.bool_)
    missing[kept] = index.missing[places[kept]]
    # Of two memories with one text both rows are the same row of the index.
    times = np.bincount(places[kept], minlength=len(index)) - 1
    other = np.flatnonzero(times)
    total = index.total + np.einsum("i,ij->j", times[other], index.rows_at(other), dtype=np.float64)
    where = np.array(sorted(fresh), np.int64)
    for few in np.split(where, range(_PACKED_AT_ONCE, len(where), _PACKED_AT_ONCE)):
        vectors, missing[few] = _unit_rows(_stack_rows([fresh[row] for row in few.tolist()], index.dimension))
        blocks[few // BLOCK, :, few % BLOCK] = vectors
        total += vectors.sum(axis=0, dtype=np.float64)
    return DenseIndex(index.key, blocks, missing, total)


def _unit_rows(rows: Vectors) -> tuple[Vectors, NDArray[np.bool_]]:
    """Return rows of unit length, zero without a usable vector, and the mask of the missing ones."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    missing = ~np.isfinite(lengths) | (lengths == 0)
    if np.any(lengths[missing]) or np.any(np.abs(lengths[~missing] - 1) > _UNIT_TOLERANCE):
        rows = np.where(missing[:, None], np.float32(0), rows)
        rows /= np.where(missing, np.float32(1), lengths)[:, None]
    return rows, missing


def _stack_rows(vectors: Sequence[Vectors], dimension: int) -> Vectors:
    """Return vectors as rows of one float32 matrix, also for none."""
    return np.array(vectors, np.float32).reshape(len(vectors), dimension)


def _pack_blocks(rows: Vectors) -> Vectors:
    """Return rows (n, d) as transposed blocks of 64 rows, the last one filled with zeros."""
    count = -(-len(rows) // BLOCK)
    blocks = np.zeros((count, rows.shape[1], BLOCK), np.float32)
    whole = len(rows) // BLOCK
    blocks[:whole] = rows[: whole * BLOCK].reshape(whole, BLOCK, rows.shape[1]).transpose(0, 2, 1)
    if whole < count:
        blocks[whole, :, : len(rows) - whole * BLOCK] = rows[whole * BLOCK :].T
    return blocks


def _move_rows(blocks: Vectors, places: NDArray[np.int64]) -> Vectors:
    """Return blocks with row `places[i]` of the given ones as row i, zero at -1; copies whole runs."""
    moved = np.zeros((-(-len(places) // BLOCK), *blocks.shape[1:]), np.float32)
    ends = (np.diff(places) != 1) | (places[1:] % BLOCK == 0)
    ends[BLOCK - 1 :: BLOCK] = True
    starts = np.append(0, np.flatnonzero(ends) + 1)[: len(places)]
    lengths = np.diff(starts, append=len(places))
    known = places[starts] >= 0
    runs = zip(starts[known].tolist(), places[starts[known]].tolist(), lengths[known].tolist(), strict=True)
    for start, before, length in runs:
        (block, lane), (old, at) = divmod(start, BLOCK), divmod(before, BLOCK)
        moved[block, :, lane : lane + length] = blocks[old, :, at : at + length]
    return moved
