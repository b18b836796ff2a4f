"""Queries compared with all rows by their vectors: one product, also for several who search the same maps.

A product reads every row once, however many queries there are: eight searches that wait together take less
than half of what each of them takes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map.dense import DenseLeg, cosines_into
from forged.map.vector_map import VectorMap
from forged.models import Vectors


class Cosines(msgspec.Struct, frozen=True, eq=False):
    """Queries compared with all rows that have a vector: `raw` (queries, rows), 0 where `missing`.

    `places` are the maps whose `legs` were compared; `columns` are the rows of each of them.
    """

    raw: Vectors
    missing: NDArray[np.bool_]
    queries: Vectors
    places: tuple[int, ...]
    legs: tuple[DenseLeg, ...]
    columns: tuple[slice, ...]

    @classmethod
    def of(cls, maps: Sequence[VectorMap], queries: Vectors, key: str | None) -> Cosines | None:
        """The one product of queries and rows, or None when no map has vectors to compare with."""
        columns = columns_of(maps)
        usable = [
            (place, each.dense, own)
            for place, (each, own) in enumerate(zip(maps, columns, strict=True))
            if each.dense is not None
            and len(each.memories)
            and each.dense.dimension == queries.shape[1]
            and key in {None, each.dense.key}
        ]
        if not usable:
            return None
        queries = np.ascontiguousarray(queries, np.float32)  # float64 would cast every block
        size = columns[-1].stop
        raw = np.empty((len(queries), size), np.float32)
        missing = np.ones(size, np.bool_)
        if len(usable) < len(maps):
            raw.fill(0)
        for _, leg, own in usable:
            cosines_into(raw[:, own], leg, queries)
            missing[own] = leg.missing
        places, legs, of_legs = zip(*usable, strict=True)
        return cls(raw, missing, queries, places, legs, of_legs)


def compared(
    maps: Sequence[VectorMap], asked: Sequence[Vectors], key: str | None
) -> tuple[Cosines | None, ...]:
    """What each of those who ask finds; all of their vectors have one dimension. `key` is their embedder."""
    together = asked[0] if len(asked) == 1 else np.concatenate(asked)
    found = Cosines.of(maps, together, key)
    if found is None or len(asked) == 1:
        return (found,) * len(asked)
    ends = accumulate(map(len, asked), initial=0)
    return tuple(
        msgspec.structs.replace(found, raw=found.raw[first:last], queries=found.queries[first:last])
        for first, last in pairwise(ends)
    )


def columns_of(maps: Sequence[VectorMap]) -> tuple[slice, ...]:
    """The rows of each map in one numbering of all of them."""
    return tuple(
        slice(*own) for own in pairwise(accumulate((len(each.memories) for each in maps), initial=0))
    )
