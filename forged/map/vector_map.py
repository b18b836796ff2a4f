"""What a request searches: maps, each the memories of one root frozen together with their indexes.

A rebuild swaps a new map in by one assignment, so no search waits or sees half a map. A map has one part, or
a large one and a small one of later edits: an edit copies nothing large, and marks rows of the large as gone.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map.chains import Chains
from forged.map.dense import DenseLeg, are_cjk
from forged.map.lexical import LexicalLeg
from forged.map.postings import Ints
from forged.memory import Memory, time_ns
from forged.text.dates import Seconds

_ID, _CREATED = operator.attrgetter("id"), operator.attrgetter("created_at")
# Memories farther apart were not made on one occasion; more than this many in a row are an import.
_GAP_S = 3600
_CROWD = 50
_LOOKED_AT = 256
_NONE = np.empty(0, np.int64)


class Traits(msgspec.Struct, frozen=True, eq=False):
    """What a search asks about the memories of a part beside their words and vectors: two arrays (n,).

    `created` int64, seconds since the epoch, 0 if unknown; `is_cjk` bool, Chinese, Japanese or Korean.
    """

    created: Seconds
    is_cjk: NDArray[np.bool_]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> Traits:
        """Look at all of `memories`."""
        created = np.fromiter((_seconds(memory.created_at) for memory in memories), np.int64, len(memories))
        return cls(created, are_cjk(memory.content for memory in memories))

    def edited(self, memories: Sequence[Memory], kept_old: Ints, kept_new: Ints, fresh: Ints) -> Traits:
        """Traits of `memories`: rows `kept_new` were `kept_old` here, and rows `fresh` are looked at."""
        created, is_cjk = np.zeros(len(memories), np.int64), np.zeros(len(memories), np.bool_)
        created[kept_new], is_cjk[kept_new] = self.created[kept_old], self.is_cjk[kept_old]
        looked = Traits.of([memories[row] for row in fresh.tolist()])
        created[fresh], is_cjk[fresh] = looked.created, looked.is_cjk
        return Traits(created, is_cjk)


def _seconds(created_at: str) -> int:
    return max(0, time_ns(created_at) // 1_000_000_000)


def occasions(created: Seconds) -> Ints:
    """A number for each memory, shared in a chain by those made within an hour of one another.

    They are mostly about one thing. Memories without a date, and those of a run of more than 50, are alone.
    """
    order = np.argsort(created, kind="stable")
    begins = np.ones(len(created), np.bool_)
    begins[1:] = np.diff(created[order]) > _GAP_S
    number = np.cumsum(begins) - 1
    alone = (np.bincount(number, minlength=1)[number] > _CROWD) | (created[order] <= 0)
    found = np.empty(len(created), np.int32)
    found[order] = np.where(alone, len(created) + np.arange(len(created)), number)
    return found


class Cues(msgspec.Struct, frozen=True, eq=False):
    """The cues of a part's memories, one row each; they rank their memory and are counted nowhere.

    `owners` intp (m,), ascending, are the rows of the memories that have any, `begins` intp (m,) their first.
    """

    owners: NDArray[np.intp]
    begins: NDArray[np.intp]
    is_cjk: NDArray[np.bool_]
    lexical: LexicalLeg | None
    dense: DenseLeg | None = None

    def without(self, gone: NDArray[np.bool_]) -> Cues:
        """The same rows, of which those of memories that are gone count no more."""
        lost = np.repeat(gone[self.owners], np.diff(self.begins, append=len(self.is_cjk)))
        return msgspec.structs.replace(
            self,
            lexical=self.lexical.without(lost) if self.lexical is not None else None,
            dense=self.dense.without(lost) if self.dense is not None else None,
        )

    def lift(
        self, values: NDArray[np.float32], ours: NDArray[np.float32], fixed: NDArray[np.bool_] | None = None
    ) -> None:
        """Raise `values` (queries, rows) to the best of each row's cues in `ours` (queries, c).

        Rows that are `fixed` stay as they are.
        """
        free = slice(None) if fixed is None else np.flatnonzero(~fixed[self.owners])
        best = np.maximum.reduceat(ours, self.begins, axis=1)[:, free]
        owners = self.owners[free]
        values[:, owners] = np.maximum(values[:, owners], best)


class Part(msgspec.Struct, frozen=True, eq=False):
    """Memories whose rows were laid out together.

    `memories` are sorted by id, and no id is twice among them; a memory's place among them is its row in both
    legs and in the traits. A leg is None until it is built. `gone` bool (n,) are rows that an edit replaced
    or removed since: the legs find nothing of them and count them nowhere. None stands for no such row, as it
    does for no `cues`. `second` are vectors by another model than the map's own.
    """

    memories: tuple[Memory, ...]
    lexical: LexicalLeg | None
    dense: DenseLeg | None
    traits: Traits
    gone: NDArray[np.bool_] | None = None
    cues: Cues | None = None
    second: DenseLeg | None = None

    def __len__(self) -> int:
        """Count the rows, also those that are gone."""
        return len(self.memories)

    def without(self, gone: NDArray[np.bool_]) -> Part:
        """The same rows, of which these are gone, and no others; nothing large is copied."""
        return Part(
            self.memories,
            self.lexical.without(gone) if self.lexical is not None else None,
            self.dense.without(gone) if self.dense is not None else None,
            self.traits,
            gone,
            self.cues.without(gone) if self.cues is not None else None,
            self.second.without(gone) if self.second is not None else None,
        )

    def leg(self, key: str | None) -> DenseLeg | None:
        """The vectors by the model of a key, the map's own or the second; None stands for the map's own."""
        legs = (self.dense,) if key is None else (self.dense, self.second)
        return next((each for each in legs if each is not None and key in {None, each.key}), None)

    def row_of(self, memory_id: str) -> int | None:
        """The row of an id, if it is here and not gone."""
        row = bisect_left(self.memories, memory_id, key=_ID)
        there = row < len(self.memories) and self.memories[row].id == memory_id
        return row if there and (self.gone is None or not self.gone[row]) else None

    def numbered(self) -> Iterator[tuple[int, Memory]]:
        """The rows that are not gone, with their memories."""
        rows = enumerate(self.memories)
        return rows if self.gone is None else ((row, each) for row, each in rows if not self.gone[row])


class Heads(msgspec.Struct, frozen=True, eq=False):
    """Memories that nothing replaces, the newest first, and the place of each id among them.

    `sizes` int64 (n,) are the characters of their texts.
    """

    memories: tuple[Memory, ...]
    places: dict[str, int]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> Heads:
        sizes = np.fromiter((len(each.content) for each in memories), np.int64, len(memories))
        return cls(tuple(memories), {each.id: place for place, each in enumerate(memories)}, sizes)

    def fitting(self, room: Callable[[], int]) -> Iterator[Memory]:
        """Those whose text was within what there is room for, some hundred looked at at a time."""
        for begin in range(0, len(self.sizes), _LOOKED_AT):
            for place in np.flatnonzero(self.sizes[begin : begin + _LOOKED_AT] <= room()).tolist():
                yield self.memories[begin + place]


class VectorMap(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Everything one root can answer with.

    `memories` are all that are visible, sorted by unique id. A row is a place in the parts, one after the
    other; each of `memories` has one row, and any other row is gone.
    """

    root: str
    scope: str
    generation: int
    memories: tuple[Memory, ...]
    parts: tuple[Part, ...]
    chains: Chains

    def __len__(self) -> int:
        return len(self.memories)

    @property
    def has_words(self) -> bool:
        """Whether it can be searched by words."""
        return any(part.lexical is not None for part in self.parts)

    @property
    def dense(self) -> tuple[DenseLeg, ...]:
        """Its dense legs, none before there are vectors."""
        return tuple(part.dense for part in self.parts if part.dense is not None)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first row of each part, and behind them the number of rows."""
        return tuple(accumulate(map(len, self.parts), initial=0))

    def find(self, memory_id: str) -> Memory | None:
        """The memory of an id, by bisection: a dict of all of them would make an edit a fifth slower."""
        row = self.row_of(memory_id)
        return self.at(row) if row is not None else None

    def versions(self, ids: Iterable[str]) -> dict[str, tuple[Memory | None, Memory | None]]:
        """Return the memory of each id and the head of its chain, of a fork the greatest, if there."""
        head_of, found = self.chains.head_of, dict[str, tuple[Memory | None, Memory | None]]()
        for each in ids:
            memory, head = self.find(each), head_of.get(each, each)
            found[each] = memory, memory if head == each else self.find(head)
        return found

    def row_of(self, memory_id: str) -> int | None:
        """The row of an id, if there is such a memory; one that was found is not looked for again."""
        known = self._rows.get(memory_id)
        if known is not None:
            return known
        for start, part in zip(self.starts, self.parts, strict=False):
            row = part.row_of(memory_id)
            if row is not None:
                self._rows[memory_id] = start + row
                return start + row
        return None

    @cached_property
    def _rows(self) -> dict[str, int]:
        """The rows that were found: a session looks for all that it has heard, turn by turn."""
        return {}

    def at(self, row: int) -> Memory:
        """The memory of a row that is not gone."""
        place = bisect_right(self.starts, row) - 1
        return self.parts[place].memories[row - self.starts[place]]

    def numbered(self) -> Iterator[tuple[int, Memory]]:
        """The rows with their memories, by part and then by id."""
        for start, part in zip(self.starts, self.parts, strict=False):
            for row, memory in part.numbered():
                yield start + row, memory

    @cached_property
    def heads(self) -> Mapping[str, Heads]:
        """The memories that nothing replaces, by category; sorted when somebody asks for them first."""
        chains, found = self.chains, dict[str, list[Memory]]()
        replaced = {each for each in chains.head_of if not chains.is_head(each)}
        for memory in sorted(self.memories, key=_CREATED, reverse=True):
            if memory.id not in replaced:
                found.setdefault(memory.category, []).append(memory)
        return {category: Heads.of(memories) for category, memories in found.items()}

    @cached_property
    def created(self) -> Seconds:
        """When the memory of each row was made, 0 if that is unknown."""
        return np.concatenate([_NONE, *(part.traits.created for part in self.parts)])

    @cached_property
    def occasions(self) -> Ints:
        """The occasion of each row, looked for when it is asked for first: an edit may move any of them."""
        return occasions(np.concatenate([_NONE, *map(_visibly_created, self.parts)]))


def _visibly_created(part: Part) -> Seconds:
    return part.traits.created if part.gone is None else np.where(part.gone, 0, part.traits.created)


def newest(
    rows: Sequence[tuple[VectorMap, Sequence[int]]], start: int, count: int
) -> list[tuple[VectorMap, Memory]]:
    """Places `start` to `start + count` of the rows by (newest, id).

    Only rows in the page or at its edges are parsed to the nanosecond, which takes 30 ms for 10,000.
    """
    seconds = np.concatenate([_NONE, *(home.created[np.array(own, np.intp)] for home, own in rows)])
    order = np.argsort(-seconds, kind="stable")
    falling = -seconds[order]
    last = min(start + count, len(order)) - 1
    if not 0 <= start <= last:
        return []
    low = int(np.searchsorted(falling, falling[start]))
    high = int(np.searchsorted(falling, falling[last], side="right"))
    held = [(home, row) for home, own in rows for row in own]
    near = [(home, home.at(row)) for home, row in map(held.__getitem__, order[low:high].tolist())]
    near.sort(key=lambda item: (-time_ns(item[1].created_at), item[1].id))
    return near[start - low : last + 1 - low]
