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
from forged.map.vector_map import Cues, Part, VectorMap
from forged.models import Vectors

# Share of what a message goes on from in its score; 0.4 to 0.6 are alike.
_CONTINUED = 0.5


class Cued(msgspec.Struct, frozen=True, eq=False):
    """Queries compared with the cues of a part: `raw` (queries, c); `columns` are the part's rows."""

    cues: Cues
    leg: DenseLeg
    columns: slice
    raw: Vectors


class Cosines(msgspec.Struct, frozen=True, eq=False):
    """Queries compared with all rows that have a vector: `raw` (queries, rows), 0 where `missing`.

    `places` are the parts, of all that the maps have, whose `legs` were compared; `columns` are their rows;
    `cued` is what was found of the cues of some of them.
    """

    raw: Vectors
    missing: NDArray[np.bool_]
    queries: Vectors
    places: tuple[int, ...]
    legs: tuple[DenseLeg, ...]
    columns: tuple[slice, ...]
    cued: tuple[Cued, ...] = ()

    @classmethod
    def of(cls, maps: Sequence[VectorMap], queries: Vectors, key: str | None) -> Cosines | None:
        """The one product of queries and rows, or None when no map has vectors to compare with."""
        parts = parts_of(maps)
        columns = columns_of(parts)
        usable = [
            (place, each.dense, own)
            for place, (each, own) in enumerate(zip(parts, columns, strict=True))
            if each.dense is not None
            and len(each)
            and each.dense.dimension == queries.shape[1]
            and key in {None, each.dense.key}
        ]
        if not usable:
            return None
        queries = np.ascontiguousarray(queries, np.float32)  # float64 would cast every block
        size = columns[-1].stop
        raw = np.empty((len(queries), size), np.float32)
        missing = np.ones(size, np.bool_)
        if len(usable) < len(parts):
            raw.fill(0)
        for _, leg, own in usable:
            cosines_into(raw[:, own], leg, queries)
            raw[:, own.start + leg.gone] = 0
            missing[own] = leg.missing
        places, legs, of_legs = zip(*usable, strict=True)
        cued = (_cued(parts[place].cues, dense, own, queries) for place, dense, own in usable)
        there = tuple(each for each in cued if each is not None)
        return cls(raw, missing, queries, places, legs, of_legs, there)

    def some(self, first: int, last: int) -> Cosines:
        """Those of some of the queries."""
        return msgspec.structs.replace(
            self,
            raw=self.raw[first:last],
            queries=self.queries[first:last],
            cued=tuple(msgspec.structs.replace(each, raw=each.raw[first:last]) for each in self.cued),
        )


def _cued(cues: Cues | None, beside: DenseLeg, columns: slice, queries: Vectors) -> Cued | None:
    """The cues of a part compared, if their vectors are of the model of the others."""
    leg = cues.dense if cues is not None else None
    if cues is None or leg is None or (leg.key, leg.dimension) != (beside.key, beside.dimension):
        return None
    raw = np.empty((len(queries), len(leg)), np.float32)
    cosines_into(raw, leg, queries)
    return Cued(cues, leg, columns, raw)


def compared(
    maps: Sequence[VectorMap], asked: Sequence[Vectors], key: str | None
) -> tuple[Cosines | None, ...]:
    """What each of those who ask finds; all of their vectors have one dimension. `key` is their embedder."""
    together = asked[0] if len(asked) == 1 else np.concatenate(asked)
    found = Cosines.of(maps, together, key)
    if found is None or len(asked) == 1:
        return (found,) * len(asked)
    ends = accumulate(map(len, asked), initial=0)
    return tuple(found.some(first, last) for first, last in pairwise(ends))


def parts_of(maps: Sequence[VectorMap]) -> tuple[Part, ...]:
    """The parts of all maps, which are searched as if they were one."""
    return tuple(part for each in maps for part in each.parts)


def columns_of(parts: Sequence[Part]) -> tuple[slice, ...]:
    """The rows of each part in one numbering of all of them."""
    return tuple(slice(*own) for own in pairwise(accumulate(map(len, parts), initial=0)))


def shares_of(count: int, message: int | None, continued: int | None) -> Vectors | None:
    """What each of the queries counts, (count,), where one is what the message goes on from; else None."""
    if continued is None or message is None:
        return None
    shares = np.zeros(count, np.float32)
    shares[[message, continued]] = 1 - _CONTINUED, _CONTINUED
    return shares
