"""Vector map: the memories of one root, frozen together with their indexes.

A rebuild swaps a new map in by one assignment, so no search waits or sees half a map. A map has one part, or
a large one and a small one of later edits. An edit copies nothing large, and marks rows of the large part as
gone.
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
from forged.map.dense import DenseIndex
from forged.map.lexical import Ints
from forged.map.parts import MapPart
from forged.memory import Memory, time_ns
from forged.text.dates import Seconds

_ID, _CREATED = operator.attrgetter("id"), operator.attrgetter("created_at")
# Memories farther apart were not made on one occasion; more than this many in a row are an import.
_GAP_S = 3600
_CROWD = 50
_LOOKED_AT = 256
_NONE = np.empty(0, np.int64)


class HeadList(msgspec.Struct, frozen=True, eq=False):
    """Memories that no other memory replaces, newest first, with each id's place and text length.

    `sizes` int64 (n,) are the characters of their texts.
    """

    memories: tuple[Memory, ...]
    places: dict[str, int]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> HeadList:
        """Build the list from memories that no other replaces, given newest first."""
        sizes = np.fromiter((len(each.content) for each in memories), np.int64, len(memories))
        return cls(tuple(memories), {each.id: place for place, each in enumerate(memories)}, sizes)

    def fitting(self, room: Callable[[], int]) -> Iterator[Memory]:
        """Yield memories of at most `room()` characters, called again for every 256 memories."""
        for begin in range(0, len(self.sizes), _LOOKED_AT):
            for place in np.flatnonzero(self.sizes[begin : begin + _LOOKED_AT] <= room()).tolist():
                yield self.memories[begin + place]


class VectorMap(msgspec.Struct, frozen=True, eq=False, dict=True, weakref=True):
    """Frozen snapshot of a root's searchable memories, with dense and lexical indexes, version chains.

    `memories` are all that are visible, sorted by unique id. A row is a place in the parts, one after the
    other. Each of `memories` has one row; all other rows are gone.
    """

    root: str
    scope: str
    generation: int
    memories: tuple[Memory, ...]
    parts: tuple[MapPart, ...]
    chains: Chains

    def __len__(self) -> int:
        return len(self.memories)

    @cached_property
    def has_words(self) -> bool:
        """True if the map has a lexical index."""
        return any(part.lexical is not None for part in self.parts)

    @cached_property
    def dense(self) -> tuple[DenseIndex, ...]:
        """Dense index by the map's own model of each part that has one."""
        return tuple(part.dense for part in self.parts if part.dense is not None)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First row of each part, and the number of all rows."""
        return tuple(accumulate((len(part.memories) for part in self.parts), initial=0))

    def find(self, memory_id: str) -> Memory | None:
        """Return the memory of an id, else None, by bisection: a dict would make an edit a fifth slower."""
        row = self.row_of(memory_id)
        return self.at(row) if row is not None else None

    def head(self, memory_id: str) -> Memory | None:
        """Return the head of an id's chain, the memory itself without a chain, None for an unknown id."""
        return self.find(self.chains.head_of.get(memory_id, memory_id))

    def heads_of(self, rows: Iterable[int]) -> list[Memory]:
        """Return the head of the chain of each row; no row may be gone."""
        starts, head_of = self.starts, self.chains.head_of
        places = [(bisect_right(starts, row) - 1, row) for row in rows]
        found = [self.parts[place].memories[row - starts[place]] for place, row in places]
        return [self.find(head_of[each.id]) or each if each.id in head_of else each for each in found]

    def linked_heads(self, memory_id: str) -> list[Memory]:
        """Return the heads that a memory's `related` links lead to; links to nothing are left out."""
        memory = self.find(memory_id)
        edges = memory.related if memory is not None else ()
        return [head for each in edges if self.find(each.id) and (head := self.head(each.id)) is not None]

    def chain(self, memory_id: str) -> tuple[Memory, ...]:
        """Return the memories of an id's version chain, oldest first, without missing ones."""
        return tuple(memory for memory in map(self.find, self.chains.chain(memory_id)) if memory is not None)

    def versions(self, head: str) -> tuple[tuple[Memory, ...], tuple[Memory, ...]]:
        """Return the older versions of a chain's head and its concurrent heads, both newest first."""
        concurrent = self.chains.concurrent_with(head)
        others = [each for each in reversed(self.chain(head)) if each.id != head]
        older = tuple(each for each in others if each.id not in concurrent)
        return older, tuple(each for each in others if each.id in concurrent)

    def with_heads(self, ids: Iterable[str]) -> dict[str, tuple[Memory | None, Memory | None]]:
        """Return for each id its memory and the head of its chain, None for missing ones."""
        return {each: (self.find(each), self.head(each)) for each in ids}

    def row_of(self, memory_id: str) -> int | None:
        """Return the row of an id, None if there is no such memory. Found rows are cached."""
        known = self._rows.get(memory_id)
        if known is not None:
            return known
        for start, part in zip(self.starts, self.parts, strict=False):
            row = bisect_left(part.memories, memory_id, key=_ID)
            there = row < len(part.memories) and part.memories[row].id == memory_id
            if there and (part.gone is None or not part.gone[row]):
                self._rows[memory_id] = start + row
                return start + row
        return None

    @cached_property
    def _rows(self) -> dict[str, int]:
        """Cache of found rows by id: a session looks up its injected set in each turn."""
        return {}

    def at(self, row: int) -> Memory:
        """Return the memory of a row, which must not be gone."""
        place = bisect_right(self.starts, row) - 1
        return self.parts[place].memories[row - self.starts[place]]

    def numbered(self) -> Iterator[tuple[int, Memory]]:
        """Yield the row number of each memory with the memory, by part and then by id."""
        for start, part in zip(self.starts, self.parts, strict=False):
            for row, memory in part.numbered():
                yield start + row, memory

    @cached_property
    def heads(self) -> Mapping[str, HeadList]:
        """Memories that no other memory replaces, by category; sorted at the first use."""
        chains, found = self.chains, dict[str, list[Memory]]()
        replaced = {each for each in chains.head_of if not chains.is_head(each)}
        for memory in sorted(self.memories, key=_CREATED, reverse=True):
            if memory.id not in replaced:
                found.setdefault(memory.category, []).append(memory)
        return {category: HeadList.of(memories) for category, memories in found.items()}

    @cached_property
    def created(self) -> Seconds:
        """Creation time of the memory of each row, 0 if unknown."""
        return np.concatenate([_NONE, *(part.traits.created for part in self.parts)])

    @cached_property
    def occasions(self) -> Ints:
        """Occasion number of each row, computed at the first use: an edit may change any of them."""
        return occasions(np.concatenate([_NONE, *map(_creation_times, self.parts)]))


def occasions(created: Seconds) -> Ints:
    """Return an occasion number for each memory: one for a run with gaps of at most an hour.

    Such memories are mostly about one subject. Memories without a date, and those of a run of more than 50,
    have a number of their own.
    """
    order = np.argsort(created, kind="stable")
    begins = np.ones(len(created), np.bool_)
    begins[1:] = np.diff(created[order]) > _GAP_S
    number = np.cumsum(begins) - 1
    alone = (np.bincount(number, minlength=1)[number] > _CROWD) | (created[order] <= 0)
    found = np.empty(len(created), np.int32)
    found[order] = np.where(alone, len(created) + np.arange(len(created)), number)
    return found


def _creation_times(part: MapPart) -> Seconds:
    """Return the creation time of each row of a part, 0 for rows that are gone."""
    return part.traits.created if part.gone is None else np.where(part.gone, 0, part.traits.created)


def newest_page(
    rows: Sequence[tuple[VectorMap, Sequence[int]]], start: int, count: int
) -> list[tuple[VectorMap, Memory]]:
    """Return up to `count` memories of the rows, newest first from place `start`, with their maps.

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
