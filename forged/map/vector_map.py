"""What a request searches: maps, each the memories of one root frozen together with their indexes.

Readers keep the map they got: a rebuild makes a new one and swaps it in by one assignment, so no search ever
waits or meets half a map.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map.chains import Chains
from forged.map.dense import DenseLeg, are_cjk
from forged.map.lexical import Ints, LexicalLeg
from forged.memory import Memory, time_ns
from forged.text.dates import Seconds

_ID = operator.attrgetter("id")
# Memories farther apart were not made on one occasion; more than this many in a row are an import.
_GAP_S = 3600
_CROWD = 50


class Traits(msgspec.Struct, frozen=True, eq=False):
    """What a search asks about the memories of a map beside their words and vectors: three arrays (n,).

    `created` int64, seconds since the epoch, 0 if unknown; `occasion` int32, equal for those that were made
    on one occasion; `is_cjk` bool, Chinese, Japanese or Korean.
    """

    created: Seconds
    occasion: Ints
    is_cjk: NDArray[np.bool_]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> Traits:
        """Look at all of `memories`."""
        created = np.fromiter((_seconds(memory.created_at) for memory in memories), np.int64, len(memories))
        return cls(created, occasions(created), are_cjk(memory.content for memory in memories))

    def edited(self, memories: Sequence[Memory], kept_old: Ints, kept_new: Ints, fresh: Ints) -> Traits:
        """Traits of `memories`: rows `kept_new` were `kept_old` here, and rows `fresh` are looked at."""
        created, is_cjk = np.zeros(len(memories), np.int64), np.zeros(len(memories), np.bool_)
        created[kept_new], is_cjk[kept_new] = self.created[kept_old], self.is_cjk[kept_old]
        looked = Traits.of([memories[row] for row in fresh.tolist()])
        created[fresh], is_cjk[fresh] = looked.created, looked.is_cjk
        return Traits(created, occasions(created), is_cjk)


def _seconds(created_at: str) -> int:
    return max(0, time_ns(created_at) // 1_000_000_000)


def occasions(created: Seconds) -> Ints:
    """A number for each memory, shared by those that were made within an hour of one another, in a chain.

    Who writes several within the hour writes about one thing, so that one of them vouches for the others.
    Memories without a date, and those of a run of more than 50, stand alone.
    """
    order = np.argsort(created, kind="stable")
    begins = np.ones(len(created), np.bool_)
    begins[1:] = np.diff(created[order]) > _GAP_S
    number = np.cumsum(begins) - 1
    alone = (np.bincount(number, minlength=1)[number] > _CROWD) | (created[order] <= 0)
    found = np.empty(len(created), np.int32)
    found[order] = np.where(alone, len(created) + np.arange(len(created)), number)
    return found


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
        row = self.row_of(memory_id)
        return self.memories[row] if row is not None else None

    def row_of(self, memory_id: str) -> int | None:
        """The place of an id, if there is such a memory."""
        row = bisect_left(self.memories, memory_id, key=_ID)
        return row if row < len(self.memories) and self.memories[row].id == memory_id else None
