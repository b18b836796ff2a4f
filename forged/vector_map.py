"""A root's memories, frozen together with what finds them, and the search over the maps a request sees.

Readers keep the map they got: a rebuild makes a new one and swaps it in by one assignment, so no search ever
waits or meets half a map. All maps of a request are searched as if they were one: both legs are scored over
all visible rows, standardised with the mean and deviation of all of them, and added (design.md D18).

Search is "each query's top k, union by id with the best score, sort by (-score, id), cap at k" (design.md
D10), done as one selection over each row's best score. They are the same: a row of the final k has its best
score under some query, and whatever precedes it under that query precedes it in the union too, so fewer than
k rows do, so it is in that query's top k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged import dense, lexical
from forged.dense import DenseLeg
from forged.graph import Chains
from forged.lexical import LexicalLeg, Terms
from forged.memory import Memory
from forged.providers import Vectors

# A cosine gate would lose a memory that says the very words; this much is added for a full lexical match.
LEXICAL_BONUS = 0.05
# Equal rows differ by the last bits, according to where they lie in a block.
_SAME = 1e-6
_FLAT = 1e-6


class VectorMap(msgspec.Struct, frozen=True, eq=False):
    """Everything one root can answer with.

    `memories` are sorted by id, which are unique; `row_of` gives an id's place among them, which is its row in
    both legs. A leg is None until it is built.
    """

    root: str
    scope: str
    generation: int
    memories: tuple[Memory, ...]
    row_of: dict[str, int]
    lexical: LexicalLeg | None
    dense: DenseLeg | None
    chains: Chains

    def __len__(self) -> int:
        return len(self.memories)


class Candidate(msgspec.Struct, frozen=True):
    """A row of one of the maps searched.

    `score` is what it was ranked by; `cosine` its best raw cosine, None without a vector; `lexical` its best
    BM25 as a share of what is attainable, None where no word matches; `query` the query that found it.
    """

    map_index: int
    row: int
    score: float
    cosine: float | None
    lexical: float | None
    query: int


class _Dense(msgspec.Struct, frozen=True, eq=False):
    """Raw cosines (queries, visible rows), which rows have no vector, and the legs that have (with columns)."""

    cosines: Vectors
    missing: NDArray[np.int64]
    legs: tuple[DenseLeg, ...]
    columns: NDArray[np.int64] | None


def lexical_leg(memories: Sequence[Memory], previous: VectorMap | None = None) -> LexicalLeg:
    """Lexical leg of memories sorted by id; unchanged ones are taken over from the previous map's."""
    if previous is None or previous.lexical is None:
        return LexicalLeg.build([lexical.terms(memory.content) for memory in memories])
    kept_old, kept_new, added = [], [], []
    for row, memory in enumerate(memories):
        old = previous.row_of.get(memory.id)
        if old is not None and previous.memories[old].content == memory.content:
            kept_old.append(old)
            kept_new.append(row)
        else:
            added.append(row)
    return previous.lexical.splice(
        kept_old=np.array(kept_old, np.int32),
        kept_new=np.array(kept_new, np.int32),
        added_new=np.array(added, np.int32),
        added=[lexical.terms(memories[row].content) for row in added],
        size=len(memories),
    )
