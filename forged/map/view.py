"""What one request may see: the maps of its roots, repo before user, as they were at one moment.

A view is taken once and walked in memory; a rebuild that ends meanwhile does not change it (B27, B59).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from forged.map.baseline import Background
from forged.map.vector_map import VectorMap
from forged.memory import Memory


class View(msgspec.Struct, frozen=True, eq=False):
    """Maps that a request may use.

    `generation` orders what is visible. `waiting` is true while a root has no map yet; `problem` says why
    a root's map is missing or older than asked for, in one word or two. `background` is that of the model of
    the dense legs, None while it is not known.
    """

    maps: tuple[VectorMap, ...]
    generation: int = 0
    waiting: bool = False
    problem: str = ""
    background: Background | None = None

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
        """Ids of the heads that a memory's `related` edges lead to; edges into nothing are left out (B66)."""
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
