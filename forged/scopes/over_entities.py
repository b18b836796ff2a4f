"""Memories that a query leads to over what they speak of, in all maps that it may see together.

The graph of a map is made when a query first needs it, beside the loop, and lives as long as its map. Only
memories that nothing has replaced are in it. A query that names nothing leads nowhere, which costs a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from weakref import WeakKeyDictionary

from forged import fair_queue
from forged.entities import EntityGraph, ReachedMemory, graph_of, named_in, two_hops
from forged.map import VectorMap

MOST_REACHED = 64


class OverEntities:
    """One for the daemon."""

    def __init__(self, thread: Executor) -> None:
        self._thread = thread
        self._graphs = WeakKeyDictionary[VectorMap, EntityGraph]()

    async def search(self, maps: Sequence[VectorMap], query: str) -> tuple[ReachedMemory, ...]:
        """The best first; `place` of each is the map's among `maps`, and the memory's id."""
        if not any(map(len, maps)):
            return ()
        return await fair_queue.in_thread(self._thread, partial(self._search, tuple(maps), query))

    def _search(self, maps: Sequence[VectorMap], query: str) -> tuple[ReachedMemory, ...]:
        graphs = [self._graph(home) for home in maps]
        named = named_in(graphs, query)
        return two_hops(graphs, named, MOST_REACHED) if named else ()

    def _graph(self, home: VectorMap) -> EntityGraph:
        graph = self._graphs.get(home)
        if graph is None:
            graph = graph_of(each for each in home.memories if home.chains.is_head(each.id))
            self._graphs[home] = graph
        return graph
