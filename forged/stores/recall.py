"""Search of a recall: many stores with their own limits, and memories reached through entities.

A store is searched by distance alone if all its memories have a vector of the answering model, otherwise by
words too. A store that could not take part is named, with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from msgspec.structs import replace

from forged import fair_queue
from forged.attributes import Facts
from forged.entities import EntityGraph, ReachedMemory, graph_of, named_in, two_hops
from forged.map import MapPart, Ranked, VectorMap
from forged.stores.merging import MOST_REACHED, merge_reached, merge_recalled, without_linked
from forged.stores.search import Searches, StoreResult, StoreSearch, gather_results
from forged.stores.store import RemoteStore, Store, View
from forged.stores.values import FIRST_BUILD, Limits, Question, SearchResult
from forged.text.terms import is_cjk

_UNREAD = f"is not indexed yet: {FIRST_BUILD}"
_ENTITIES = "over entities"
_MOST_REACHED_IN_GRAPH = 64


class RecallSearch:
    """Searches several stores, and the entities of their memories, for a recall."""

    def __init__(self, search: StoreSearch, thread: Executor) -> None:
        self._search = search
        self._entities = EntitySearch(thread)

    async def search(
        self, stores: Sequence[Store], question: Question, *, until: float, tops: tuple[str, ...] = ()
    ) -> SearchResult:
        """Return the best memories of all stores as one list, none twice, within the limits of scopes.

        Stores that have not answered at `until` are left out. `tops` are the roots of the caller.
        """
        limits = question.limits
        assert limits is not None, "a recall has limits"
        _, found = await gather_results(until, self._searches(stores, question, limits, tops), says_why=True)
        led = [rows.ranked for name, each in found.items() if name.endswith(_ENTITIES) for rows in each.lists]
        places = {name: each for name, each in found.items() if not name.endswith(_ENTITIES)}
        lists = [without_linked(rows) for each in places.values() for rows in each.lists]
        ordered = merge_recalled(lists, merge_reached(led), question.message)
        return SearchResult(
            tuple(limits.within(ordered)),
            missing=tuple(f"{name} {each.missing}" for name, each in places.items() if each.missing),
            indexes=frozenset[str]().union(*(each.indexes for each in places.values())),
            held=sum(each.held for each in places.values()),
            unread=any(each.unread for each in places.values()),
        )

    def _searches(
        self, stores: Sequence[Store], question: Question, limits: Limits, tops: tuple[str, ...]
    ) -> Searches:
        """Return a search for each store, and over entities, by name; local ones before servers."""
        here = [each for each in stores if not isinstance(each, RemoteStore)]
        there = [each for each in stores if isinstance(each, RemoteStore)]
        searches: Searches = {each.name: self._search_store(each, question, limits) for each in here}
        if self._search.second is not None:
            searches |= {
                f"{each.name} (cjk)": self._search_second(each, question, limits, tops) for each in here
            }
        searches |= {each.name: _search_server(each, question) for each in there}
        if (second := self._search.second_question) is not None:
            searches |= {
                f"{each.name} (cjk)": _search_server_by_second(each, second(question, tops))
                for each in there
                if each.has_second
            }
        searches[_ENTITIES] = self._search_entities(here, question)
        return searches | {f"{each.name} {_ENTITIES}": _follow_entities(each, question) for each in there}

    async def _search_store(self, store: Store, question: Question, limits: Limits) -> StoreResult:
        """Search a store by distance alone if the answering model made all vectors; else by words too."""
        view = await store.view(question.generation, question.deadline)
        if not view.size:
            return StoreResult(missing=_UNREAD if view.waiting else view.problem, unread=view.waiting)
        vectors, routes = question.vectors, self._search.second is not None
        is_near = vectors is not None and all(
            _is_comparable(part, view.key, vectors.shape[1], routes=routes)
            for home in view.maps
            for part in home.parts
        )
        source = self._search.searcher_of(view, by_distance=is_near)
        question = replace(question, top_k=limits.of.get(store.scope, 0))
        scripts = _scripts(view) if is_near else ()
        questions = [question]
        if len(scripts) > 1:
            admits = [_script_filter(view, script, question.admits) for script in scripts]
            questions = [replace(question, admits=each) for each in admits]
        found = [_with_comparison_key(await source.search(each), view.key) for each in questions]
        indexes = {"dense"} if vectors is not None and "dense" in view.indexes else set[str]()
        indexes |= set() if is_near else {"lexical"}
        return StoreResult(tuple(found), view.problem, frozenset(indexes), view.size)

    async def _search_second(
        self, store: Store, question: Question, limits: Limits, tops: tuple[str, ...]
    ) -> StoreResult:
        """Search a store by the vectors of the second model (CJK), if it has any."""
        view = await store.view(question.generation, question.deadline)
        second = self._search.second(view, tops) if self._search.second is not None else None
        if second is None:
            return StoreResult()
        source, key = second
        rows = await source.search(replace(question, top_k=limits.of.get(store.scope, 0)))
        return StoreResult((_with_comparison_key(rows, key),), indexes=frozenset({"dense"}))

    async def _search_entities(self, stores: Sequence[Store], question: Question) -> StoreResult:
        """Return memories that share entities with the query, at most two steps away, in all local stores."""
        views = await asyncio.gather(*(each.view(question.generation, question.deadline) for each in stores))
        homes = [home for view in views for home in view.maps]
        rows, admits = list[Ranked](), question.admits
        for each in await self._entities.search(homes, question.message):
            home, memory_id = homes[each.place[0]], each.place[1]
            memory = home.find(memory_id)
            if memory is not None and (admits is None or admits(home.root, memory_id)):
                rows.append(Ranked(memory, each.strength, found_by="entity", root=home.root, path=each.path))
        return StoreResult((SearchResult(tuple(rows[:MOST_REACHED])),))


async def _search_server(store: RemoteStore, question: Question) -> StoreResult:
    """Search a server's store by the query's vectors; without them it is named as missing."""
    if question.vectors is None:
        return StoreResult(missing="was not searched: the query has no embedding")
    return StoreResult(tuple(await store.nearest(question)), indexes=frozenset({"dense"}))


async def _search_server_by_second(store: RemoteStore, question: Awaitable[Question]) -> StoreResult:
    """Search a server's store by the query's vectors of the second model (CJK)."""
    return StoreResult(tuple(await store.nearest_by_second(await question)), indexes=frozenset({"dense"}))


async def _follow_entities(store: RemoteStore, question: Question) -> StoreResult:
    """Return the memories of a server's store that the query's entities lead to."""
    return StoreResult((SearchResult(tuple(await store.reached(question))),))


def _with_comparison_key(rows: SearchResult, key: str | None) -> SearchResult:
    """Mark found memories with model and script, so that only comparable distances are compared."""
    return SearchResult(
        tuple(replace(each, model=comparison_key(key, each.memory.content)) for each in rows.ranked)
    )


def _is_comparable(part: MapPart, key: str | None, dimension: int, *, routes: bool) -> bool:
    """Return True if a map's part has all vectors of the model `key`; with `routes` CJK needs none."""
    lacks = np.ones(len(part.memories), np.bool_)
    index = part.dense
    if index is not None and index.dimension == dimension and key in {None, index.key}:
        lacks = index.missing.copy()
    if part.gone is not None:
        lacks &= ~part.gone
    if routes:
        lacks &= ~part.traits.is_cjk
    return not lacks.any()


def _scripts(view: View) -> tuple[str, ...]:
    """Return the scripts of a view's memories: distances are compared within one script."""
    are = [part.traits.is_cjk for home in view.maps for part in home.parts]
    there = (("other", not all(each.all() for each in are)), ("cjk", any(each.any() for each in are)))
    return tuple(script for script, is_there in there if is_there)


def _script_filter(
    view: View, script: str, admits: Callable[[str, str], bool] | None
) -> Callable[[str, str], bool]:
    """Return a filter for memories of one script that `admits` accepts."""
    homes = {home.root: home for home in view.maps}

    def may_come(root: str, memory_id: str) -> bool:
        memory = homes[root].find(memory_id)
        is_meant = memory is not None and is_cjk(memory.content) is (script == "cjk")
        return is_meant and (admits is None or admits(root, memory_id))

    return may_come


class EntitySearch:
    """Finder of memories that a query's entities lead to, by an entity graph kept for each map.

    The entity graph of a map's heads is built in a thread at the first query that needs it, and lives as long
    as the map.
    """

    def __init__(self, thread: Executor) -> None:
        self._thread = thread
        self._graphs = WeakKeyDictionary[VectorMap, EntityGraph]()

    async def search(self, maps: Sequence[VectorMap], query: str) -> tuple[ReachedMemory, ...]:
        """Return the memories that the query's entities lead to, best first, with number of map and id."""
        if not any(home.memories for home in maps):
            return ()
        return await fair_queue.in_thread(self._thread, partial(self._search, tuple(maps), query))

    def _search(self, maps: Sequence[VectorMap], query: str) -> tuple[ReachedMemory, ...]:
        """Follow the query's entities through the graphs of the maps; runs in a thread."""
        graphs = [self._graph(home) for home in maps]
        named = named_in(graphs, query)
        return two_hops(graphs, named, _MOST_REACHED_IN_GRAPH) if named else ()

    def _graph(self, home: VectorMap) -> EntityGraph:
        """Return the entity graph of a map's heads; built at the first use, it lives as long as the map."""
        graph = self._graphs.get(home)
        if graph is None:
            graph = graph_of(each for each in home.memories if home.chains.is_head(each.id))
            self._graphs[home] = graph
        return graph


def matches_filters(facts: Facts, filters: Mapping[str, Any], least_importance: float) -> bool:
    """Return True if a memory's attributes have all these metadata values and enough importance."""
    if facts.importance < least_importance:
        return False
    known = facts.metadata
    return all(key in known and _is_same(known[key], value) for key, value in filters.items())


def _is_same(one: object, other: object) -> bool:
    """Return True for equal JSON values: 1 equals 1.0, and true does not equal 1, at any depth."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other


def comparison_key(key: str | None, content: str) -> str:
    """Return a key that is equal for texts with comparable distances: one model, and one script."""
    return f"{key} {'cjk' if is_cjk(content) else 'other'}"
