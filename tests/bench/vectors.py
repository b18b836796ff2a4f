"""Rows of vectors to search, queries for them, and what an exact search finds: the same in every process.

`noisy` grows real vectors to any number: the copies of one lie about it in all directions, as near to it as
real rows are to their neighbours. `clustered` makes any number of none; a graph finds its way among such rows
more easily than among real ones, so they measure times and sizes, and what is found only beside those.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
_BLOCK = 4096


def noisy(real: Vectors, count: int, seed: int = 4) -> Vectors:
    """The real rows, then copies of each in turn until there are `count`, moved off by noise."""
    source = np.random.default_rng(seed)
    away = neighbour_distance(real)
    rows = np.empty((count, real.shape[1]), dtype=np.float32)
    rows[: len(real)] = real[:count]
    for at in range(len(real), count, len(real)):
        some = real[: count - at]
        rows[at : at + len(some)] = moved(some, away, source)
    return rows


def moved(rows: Vectors, away: float, source: np.random.Generator) -> Vectors:
    """Unit rows at about the cosine distance `away` of these, each in a direction of its own."""
    noise = source.standard_normal(rows.shape, dtype=np.float32)
    noise -= (noise * rows).sum(axis=1, keepdims=True) * rows
    angle = np.arccos(1 - away)
    return _unit(rows * np.float32(np.cos(angle)) + _unit(noise) * np.float32(np.sin(angle)))


def neighbour_distance(rows: Vectors, sample: int = 500) -> float:
    """The median cosine distance from a row to the nearest other one."""
    best = [similar[similar < 1 - 1e-5].max() for similar in rows[:sample] @ rows.T]
    return float(1 - np.median(best))


def clustered(count: int, dimension: int, seed: int = 5) -> Vectors:
    """Unit rows about count/100 centres, as texts crowd about subjects; a third of a row is its own noise."""
    source = np.random.default_rng(seed)
    centres = _unit(source.standard_normal((max(1, count // 100), dimension), dtype=np.float32))
    rows = np.empty((count, dimension), dtype=np.float32)
    for at in range(0, count, _BLOCK):
        chosen = centres[source.integers(len(centres), size=min(_BLOCK, count - at))]
        rows[at : at + len(chosen)] = moved(chosen, 0.3, source)
    return rows


def nearest(rows: Vectors, queries: Vectors, most: int) -> NDArray[np.int64]:
    """The `most` nearest rows of every query, nearest first, by looking at all of them."""
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
    """The share of what an exact search finds that was found."""
    return sum(len(some & set(best.tolist())) for some, best in zip(found, right, strict=True)) / right.size


def _unit(rows: Vectors) -> Vectors:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
