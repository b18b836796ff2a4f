"""What a request searches: maps, each the memories of one root frozen together with their indexes.

Readers keep the map they got: a rebuild makes a new one and swaps it in by one assignment, so no search ever
waits or meets half a map. A view is taken once per request, repo before user, and walked in memory.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map.baseline import Baseline
from forged.map.chains import Chains
from forged.map.dense import DenseLeg, are_cjk
from forged.map.lexical import Ints, LexicalLeg
from forged.memory import Memory, time_ns
from forged.text import dates
from forged.text.dates import Seconds

_ID = operator.attrgetter("id")


class Traits(msgspec.Struct, frozen=True, eq=False):
    """What a search asks about the memories of a map beside their words and vectors: three arrays (n,).

    `created` int64, seconds since the epoch, 0 if unknown; `occasion` int32, equal for those that were made
    on one occasion (`dates.occasions`); `is_cjk` bool, Chinese, Japanese or Korean.
    """

    created: Seconds
    occasion: Ints
    is_cjk: NDArray[np.bool_]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> Traits:
        """Look at all of `memories`."""
        created = np.fromiter((_seconds(memory.created_at) for memory in memories), np.int64, len(memories))
        return cls(created, dates.occasions(created), are_cjk(memory.content for memory in memories))

    def edited(self, memories: Sequence[Memory], kept_old: Ints, kept_new: Ints, fresh: Ints) -> Traits:
        """Traits of `memories`: rows `kept_new` were `kept_old` here, and rows `fresh` are looked at."""
        created, is_cjk = np.zeros(len(memories), np.int64), np.zeros(len(memories), np.bool_)
        created[kept_new], is_cjk[kept_new] = self.created[kept_old], self.is_cjk[kept_old]
        looked = Traits.of([memories[row] for row in fresh.tolist()])
        created[fresh], is_cjk[fresh] = looked.created, looked.is_cjk
        return Traits(created, dates.occasions(created), is_cjk)


def _seconds(created_at: str) -> int:
    return max(0, time_ns(created_at) // 1_000_000_000)


class VectorMap(msgspec.Struct, frozen=True, eq=False):
    """Everything one root can answer with.

    `memories` are sorted by id, and no id is twice among them; a memory's place among them is its row
    in both legs and in the traits. A leg is None until it is built.
    """

    root: str
    scope: str
    generation: int
    memories: tuple[Memory, ...]
    lexical: LexicalLeg | None
    dense: DenseLeg | None
    chains: Chains
    traits: Traits

    def __len__(self) -> int:
        return len(self.memories)

    def find(self, memory_id: str) -> Memory | None:
        """The memory of an id, by bisection: a dict of all of them would make an edit a fifth slower."""
        row = bisect_left(self.memories, memory_id, key=_ID)
        found = self.memories[row] if row < len(self.memories) else None
        return found if found is not None and found.id == memory_id else None


class View(msgspec.Struct, frozen=True, eq=False):
    """Maps that a request may use.

    `generation` orders what is visible. `waiting` is true while a root has no map yet; `problem` says why
    a root's map is missing or older than asked for, in one word or two. `baseline` is that of the model of
    the dense legs, None while it is not known.
    """

    maps: tuple[VectorMap, ...]
    generation: int = 0
    waiting: bool = False
    problem: str = ""
    baseline: Baseline | None = None

    @property
    def legs(self) -> tuple[str, ...]:
        """Legs that can answer in at least one map."""
        lexical = any(m.lexical is not None for m in self.maps)
        dense = any(m.dense is not None for m in self.maps)
        return tuple(name for name, there in (("lexical", lexical), ("dense", dense)) if there)

    def __len__(self) -> int:
        return sum(len(m.memories) for m in self.maps)

    def find(self, memory_id: str) -> tuple[VectorMap, Memory] | None:
        """The memory of this id, from the first map that has it."""
        for vector_map in self.maps:
            found = vector_map.find(memory_id)
            if found is not None:
                return vector_map, found
        return None

    def heads_led_to(self, memory_id: str) -> Iterator[str]:
        """Ids of the heads that a memory's `related` edges lead to; edges into nothing are left out."""
        found = self.find(memory_id)
        if found is None:
            return
        for edge in found[1].related:
            target = self.find(edge.id)
            if target is not None:
                yield target[0].chains.head(edge.id)

    def chain(self, vector_map: VectorMap, memory_id: str) -> tuple[Memory, ...]:
        """The chain of a memory, oldest first."""
        found = map(vector_map.find, vector_map.chains.chain(memory_id))
        return tuple(memory for memory in found if memory is not None)
