"""Vector maps of memories with given vectors, without files, builds or models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from forged.map.chains import link
from forged.map.dense import DenseLeg
from forged.map.lexical import LexicalLeg
from forged.map.vector_map import Part, Traits, VectorMap
from forged.memory import Memory
from forged.models import Vectors
from forged.text.terms import terms


def lexical_leg(memories: Sequence[Memory]) -> LexicalLeg:
    return LexicalLeg.build([terms(memory.content) for memory in memories])


def rows_of(leg: DenseLeg) -> Vectors:
    """All rows of a dense leg, (n, d), in the usual order."""
    return leg.some(np.arange(len(leg)))


def vector_map(
    memories: Sequence[Memory],
    vectors: Mapping[str, Sequence[float]] | None = None,
    *,
    lexical: bool = True,
    root: str = "/repo",
    scope: str = "repo",
) -> VectorMap:
    """Freeze a map; `vectors` are by memory id, and None means no dense leg."""
    ordered = tuple(sorted(memories, key=lambda m: m.id))
    dense = None
    if vectors:
        dimension = len(next(iter(vectors.values())))
        rows = [vectors.get(m.id, [0.0] * dimension) for m in ordered]
        dense = DenseLeg.build("key", np.array(rows, np.float32).reshape(len(ordered), dimension))
    return VectorMap(
        root=root,
        scope=scope,
        generation=1,
        memories=ordered,
        parts=(Part(ordered, lexical_leg(ordered) if lexical else None, dense, Traits.of(ordered)),),
        chains=link(ordered),
    )
