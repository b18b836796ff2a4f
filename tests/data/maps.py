"""Vectors, and vector maps of memories that have them, without files, builds or models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from forged.map.chains import build_chains
from forged.map.dense import DenseIndex
from forged.map.lexical import LexicalIndex
from forged.map.packing import build_dense
from forged.map.parts import Cues, MapPart, Traits, are_cjk
from forged.map.postings import build_lexical
from forged.map.vector_map import VectorMap
from forged.memory import Memory
from forged.models import Vectors
from forged.text.terms import terms


def lexical_index(memories: Sequence[Memory]) -> LexicalIndex:
    return build_lexical([terms(memory.content) for memory in memories])


def unit(rows: Sequence[Sequence[float]] | Vectors) -> Vectors:
    """Rows of length one."""
    given = np.asarray(rows, np.float32)
    return np.asarray(given / np.linalg.norm(given, axis=-1, keepdims=True), np.float32)


def unit_rows(n: int, d: int, seed: int = 0) -> Vectors:
    """So many rows of no direction in particular."""
    return unit(np.random.default_rng(seed).standard_normal((n, d)))


def cone(seed: int, count: int = 32, dimension: int = 64, *, towards: int = 0) -> Vectors:
    """Unit rows in the narrow cone of a sentence model: a large common part and a small own one."""
    common = np.zeros(dimension)
    common[towards] = 3.0
    return unit(common + np.random.default_rng(seed).standard_normal((count, dimension)) / 3)


def rows_of(dense: DenseIndex) -> Vectors:
    """All rows of a dense dense, (n, d), in the usual order."""
    return dense.rows_at(np.arange(len(dense)))


def vector_map(
    memories: Sequence[Memory],
    vectors: Mapping[str, Sequence[float]] | None = None,
    *,
    lexical: bool = True,
    root: str = "/repo",
    scope: str = "repo",
    cues: Sequence[Sequence[str]] = (),
) -> VectorMap:
    """Freeze a map; `vectors` are by memory id, and None means no dense dense.

    `cues` are those of each memory in the order of ids, indexed by words alone.
    """
    ordered = tuple(sorted(memories, key=lambda m: m.id))
    dense = None
    if vectors:
        dimension = len(next(iter(vectors.values())))
        rows = [vectors.get(m.id, [0.0] * dimension) for m in ordered]
        dense = build_dense("key", np.array(rows, np.float32).reshape(len(ordered), dimension))
    return VectorMap(
        root=root,
        scope=scope,
        generation=1,
        memories=ordered,
        parts=(
            MapPart(
                ordered,
                lexical_index(ordered) if lexical else None,
                dense,
                Traits.of(ordered),
                cues=_cues_of(cues),
            ),
        ),
        chains=build_chains(ordered),
    )


def _cues_of(cues: Sequence[Sequence[str]]) -> Cues | None:
    """Index the cues of memories by words; None without any."""
    owners = [row for row, own in enumerate(cues) if own]
    if not owners:
        return None
    begins = np.cumsum([0, *(len(cues[row]) for row in owners)])[:-1]
    texts = [each for own in cues for each in own]
    return Cues(np.array(owners), begins, are_cjk(texts), build_lexical([terms(text) for text in texts]))
