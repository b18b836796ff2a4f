"""Vectors to search, queries, and the results of an exact search: the same in every process.

`noisy` grows real vectors to any number: the copies of each lie around it in all directions, as near to it
as real rows are to their neighbours. `mixed` puts new ones between real ones that are near. `clustered` makes
any number without real ones. Graphs search such rows more easily than real ones, so they measure times and
sizes, and recall only in comparison.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
_BLOCK = 4096
_NEAR = 12


def noisy(real: Vectors, count: int, seed: int = 4) -> Vectors:
    """Return the real rows, then noisy copies of each in turn until there are `count`."""
    source = np.random.default_rng(seed)
    away = neighbour_distance(real)
    rows = np.empty((count, real.shape[1]), dtype=np.float32)
    rows[: len(real)] = real[:count]
    for at in range(len(real), count, len(real)):
        some = real[: count - at]
        rows[at : at + len(some)] = moved(some, away, source)
    return rows


def mixed(real: Vectors, count: int, seed: int = 4) -> Vectors:
    """Return the real rows, then rows between each and its twelve nearest, until there are `count`.

    A new row differs from a real one as the real ones near it differ from one another. So any number of rows
    has as few directions as real ones, where `noisy` surrounds a row with copies that are all as near.
    """
    source = np.random.default_rng(seed)
    near = np.concatenate([_others_near(real, at, some) for at, some in blocks(real)])
    rows = np.empty((count, real.shape[1]), dtype=np.float32)
    rows[: len(real)] = real[:count]
    for at in range(len(real), count, len(real)):
        some = real[: count - at]
        shares = source.standard_normal((len(some), _NEAR), dtype=np.float32) / np.float32(np.sqrt(_NEAR))
        apart = np.einsum("nk,nkd->nd", shares, real[near[: len(some)]] - some[:, None])
        rows[at : at + len(some)] = _unit(some + apart)
    return rows


def _others_near(real: Vectors, at: int, some: Vectors) -> NDArray[np.int64]:
    """Return the numbers of the rows nearest to each of `some`, which begin at `at`, without itself."""
    similar = some @ real.T
    similar[np.arange(len(some)), np.arange(at, at + len(some))] = -1
    return np.argpartition(-similar, _NEAR, axis=1)[:, :_NEAR]


def moved(rows: Vectors, away: float, source: np.random.Generator) -> Vectors:
    """Return unit rows at about the cosine distance `away` of these, each in a direction of its own."""
    noise = source.standard_normal(rows.shape, dtype=np.float32)
    noise -= (noise * rows).sum(axis=1, keepdims=True) * rows
    angle = np.arccos(1 - away)
    return _unit(rows * np.float32(np.cos(angle)) + _unit(noise) * np.float32(np.sin(angle)))


def neighbour_distance(rows: Vectors, sample: int = 500) -> float:
    """Return the median cosine distance from a row to the nearest other one."""
    best = [similar[similar < 1 - 1e-5].max() for similar in rows[:sample] @ rows.T]
    return float(1 - np.median(best))


def clustered(count: int, dimension: int, seed: int = 5) -> Vectors:
    """Return unit rows about count/100 centres, like texts about subjects, with a third of noise."""
    source = np.random.default_rng(seed)
    centres = _unit(source.standard_normal((max(1, count // 100), dimension), dtype=np.float32))
    rows = np.empty((count, dimension), dtype=np.float32)
    for at in range(0, count, _BLOCK):
        chosen = centres[source.integers(len(centres), size=min(_BLOCK, count - at))]
        rows[at : at + len(chosen)] = moved(chosen, 0.3, source)
    return rows


def nearest(rows: Vectors, queries: Vectors, most: int) -> NDArray[np.int64]:
    """Return the `most` nearest rows of every query, nearest first, by an exact search."""
    found = np.empty((len(queries), most), dtype=np.int64)
    for number, query in enumerate(queries):
        similar = rows @ query
        some = np.argpartition(-similar, most)[:most]
        found[number] = some[np.argsort(-similar[some])]
    return found


def blocks(rows: Vectors, size: int = _BLOCK) -> Iterator[tuple[int, Vectors]]:
    for at in range(0, len(rows), size):
        yield at, rows[at : at + size]


def recall(found: list[set[int]], right: NDArray[np.int64]) -> float:
    """Return the found share of an exact search's results."""
    return sum(len(some & set(best.tolist())) for some, best in zip(found, right, strict=True)) / right.size


def _unit(rows: Vectors) -> Vectors:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
