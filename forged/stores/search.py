"""One search over stores: one deadline, one list of memories, and a few words for each missing store.

In: stores and a `Question`; out: `Rows`. The roots of a workspace are one view, searched as one store; any
other store is searched at the same time, and `merging` makes one list of all. A store that is late or fails
is named: it neither delays an answer beyond the deadline nor fails it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from forged import fair_queue
from forged.entities import EntityGraph, ReachedMemory, graph_of, named_in, two_hops
from forged.errors import ForgedError
from forged.fair_queue import retrieved
from forged.map import Part, VectorMap, Waiting
from forged.stores.file_search import FileSource
from forged.stores.merging import MOST_REACHED, all_stores, best_led, both_models, recalled, searched
from forged.stores.store import SearchedStore, Store
from forged.stores.values import Limits, Question, Ranked, Rows, View, compared_by

logger = logging.getLogger(__name__)

FIRST_BUILD = "first build is running"
# A store shows its memories within such a moment; its first build is not waited for.
MOMENT_S = 0.05
_UNREAD = f"is not read yet: {FIRST_BUILD}"
_NO_LEGS = frozenset[str]()
_ENTITIES = "over entities"
_MOST_LED = 64  # looked at in a graph


class Source(Protocol):
    """A search of one view."""

    async def search(self, question: Question) -> Rows:
        """The best rows for a question. May raise anything and may be cancelled at the deadline."""


Second = Callable[[View, tuple[str, ...]], tuple[Source, str] | None]
"""A second model's source of a view under some roots, and its key; None where it knows nothing."""


class _Brought(msgspec.Struct, frozen=True):
    """The result of one store; `missing` is why that is not all of it."""

    lists: tuple[Rows, ...] = ()
    missing: str = ""
    legs: frozenset[str] = _NO_LEGS
    held: int = 0
    unread: bool = False


_Searches = dict[str, Coroutine[Any, Any, _Brought]]


class StoreSearch:
    """One for the daemon; `second` gives a second model's source of a view, if there is one."""

    def __init__(self, *, lexical_weight: float, thread: Executor, second: Second | None = None) -> None:
        self._lexical_weight = lexical_weight
        self._thread = thread
        self._second = second
        self._entities = OverEntities(thread)
        self._among: list[Waiting] = []

    async def search(
        self,
        stores: Sequence[Store],
        question: Question,
        *,
        own: View | None = None,
        tops: tuple[str, ...] = (),
        until: float | None = None,
    ) -> Rows:
        """Search stores, and `own`, the view that a request is about.

        `own` has no limit, and what its search raises is raised; the rest has until the question's deadline,
        or `until`. `tops` are the roots of whoever asks.
        """
        second = self._second(own, tops) if self._second is not None and own is not None else None
        searches: _Searches = {} if second is None else {"cjk": _of_second(second, question)}
        searches |= self._searches(stores, question, tops)
        whole = None if own is None else self._files(own, self._lexical_weight).search(question)
        first, found = await _until(
            question.deadline if until is None else until,
            searches,
            whole,
            says_why=question.limits is not None,
        )
        places = (each for each in found.items() if not each[0].endswith(_ENTITIES))
        told = tuple(f"{name} {each.missing}" for name, each in places if each.missing)
        if question.limits is not None:
            return self._recalled(found, question, question.limits, told)
        in_cjk = _only(found.get("cjk"))
        if first is not None and in_cjk is not None:
            first = both_models(first, in_cjk, question)
        by_store = [] if first is None else [first]
        for store in stores:
            in_second = _only(found.get(f"{store.name} (cjk)"))
            by_store += [both_models(rows, in_second, question) for rows in found[store.name].lists]
        if not by_store:
            return Rows(missing=told)
        rows = by_store[0] if first is not None and not stores else all_stores(by_store, question)
        return msgspec.structs.replace(rows, missing=told) if told else rows

    def _searches(self, stores: Sequence[Store], question: Question, tops: tuple[str, ...]) -> _Searches:
        """A search for each store and for what else is asked, by name; nearer ones come before servers."""
        here = [each for each in stores if not isinstance(each, SearchedStore)]
        there = [each for each in stores if isinstance(each, SearchedStore)]
        recalls = question.limits is not None
        searches: _Searches = {each.name: self._in_store(each, question) for each in here}
        if self._second is not None:
            searches |= {f"{each.name} (cjk)": self._in_second(each, question, tops) for each in here}
        searches |= {each.name: _nearest(each, question) for each in there}
        if recalls:
            searches[_ENTITIES] = self._over_entities(here, question)
            searches |= {f"{each.name} {_ENTITIES}": _nearest(each, question, led=True) for each in there}
        return searches

    async def _in_store(self, store: Store, question: Question) -> _Brought:
        if question.limits is not None:
            return await self._nearest_in(store, question, question.limits)
        view = await store.view(question.generation, min(time.monotonic() + MOMENT_S, question.deadline))
        if not len(view):
            return _Brought(missing="is read for the first time" if view.waiting else "")
        return _Brought((await self._files(view, self._lexical_weight).search(question),))

    async def _nearest_in(self, store: Store, question: Question, limits: Limits) -> _Brought:
        """By distance alone where all that it holds has a vector of the model that answers; else by words."""
        view = await store.view(question.generation, question.deadline)
        if not len(view):
            return _Brought(missing=_UNREAD if view.waiting else view.problem, unread=view.waiting)
        vectors = question.vectors
        parts, routes = (part for home in view.maps for part in home.parts), self._second is not None
        is_near = vectors is not None and all(
            _is_whole(part, view.key, vectors.shape[1], routes=routes) for part in parts
        )
        source = self._files(view, 0.0 if is_near else self._lexical_weight)
        question = msgspec.structs.replace(question, top_k=limits.of.get(store.scope, 0))
        scripts = view.scripts if is_near else ()
        questions = [question]
        if len(scripts) > 1:
            admits = [view.of_script(script, question.admits) for script in scripts]
            questions = [msgspec.structs.replace(question, admits=each) for each in admits]
        found = [_by_model(await source.search(each), view.key) for each in questions]
        legs = {"dense"} if vectors is not None and "dense" in view.legs else set[str]()
        legs |= set() if is_near else {"lexical"}
        return _Brought(tuple(found), view.problem, frozenset(legs), len(view))

    async def _in_second(self, store: Store, question: Question, tops: tuple[str, ...]) -> _Brought:
        """Search a store by the second model."""
        limits, until = question.limits, question.deadline
        until = until if limits else min(time.monotonic() + MOMENT_S, until)
        view = await store.view(question.generation, until)
        second = self._second(view, tops) if self._second is not None else None
        if second is None:
            return _Brought()
        if limits is not None:
            question = msgspec.structs.replace(question, top_k=limits.of.get(store.scope, 0))
        return await _of_second(second, question)

    async def _over_entities(self, stores: Sequence[Store], question: Question) -> _Brought:
        """Follow the query over what the memories of all stores speak of."""
        views = await asyncio.gather(*(each.view(question.generation, question.deadline) for each in stores))
        homes = [home for view in views for home in view.maps]
        rows, admits = list[Ranked](), question.admits
        for each in await self._entities.search(homes, question.message):
            home, memory_id = homes[each.place[0]], each.place[1]
            memory = home.find(memory_id)
            if memory is not None and (admits is None or admits(home.root, memory_id)):
                rows.append(Ranked(memory, each.strength, via="entity", root=home.root, path=each.path))
        return _Brought((Rows(tuple(rows[:MOST_REACHED])),))

    def _recalled(
        self, found: Mapping[str, _Brought], question: Question, limits: Limits, missing: tuple[str, ...]
    ) -> Rows:
        """One list of a recall, with no memory twice and as many of each scope as may come."""
        led = [rows.ranked for name, each in found.items() if name.endswith(_ENTITIES) for rows in each.lists]
        places = [each for name, each in found.items() if not name.endswith(_ENTITIES)]
        lists = [searched(rows) for each in places for rows in each.lists]
        ordered = recalled(lists, best_led(led), question.message)
        return Rows(
            tuple(limits.within(ordered)),
            missing=missing,
            legs=_NO_LEGS.union(*(each.legs for each in places)),
            held=sum(each.held for each in places),
            unread=any(each.unread for each in places),
        )

    def _files(self, view: View, lexical_weight: float) -> FileSource:
        return FileSource(view, lexical_weight=lexical_weight, thread=self._thread, among=self._among)


def _only(brought: _Brought | None) -> Rows | None:
    return brought.lists[0] if brought and brought.lists else None


async def _of_second(second: tuple[Source, str], question: Question) -> _Brought:
    source, key = second
    rows = await source.search(question)
    rows = _by_model(rows, key) if question.limits is not None else rows
    return _Brought((rows,), legs=frozenset({"dense"}))


async def _nearest(store: SearchedStore, question: Question, *, led: bool = False) -> _Brought:
    if led:
        return _Brought((Rows(tuple(await store.reached(question))),))
    if question.limits is not None and question.vectors is None:
        return _Brought(missing="was not asked: there is no vector of the query")
    return _Brought(tuple(await store.nearest(question)), legs=frozenset({"dense"}))


def _by_model(rows: Rows, key: str | None) -> Rows:
    """Rows that can be compared with others by their distance."""
    replace = msgspec.structs.replace
    return Rows(tuple(replace(each, model=compared_by(key, each.memory.content)) for each in rows.ranked))


def _is_whole(part: Part, key: str | None, dimension: int, *, routes: bool) -> bool:
    """Tell whether every row can be compared with the query; where `routes`, CJK rows are another model's."""
    lacks = np.ones(len(part), np.bool_)
    leg = part.dense
    if leg is not None and leg.dimension == dimension and key in {None, leg.key}:
        lacks = leg.missing.copy()
    if part.gone is not None:
        lacks &= ~part.gone
    if routes:
        lacks &= ~part.traits.is_cjk
    return not lacks.any()


async def _until(
    deadline: float, searches: _Searches, whole: Coroutine[Any, Any, Rows] | None, *, says_why: bool
) -> tuple[Rows | None, dict[str, _Brought]]:
    """Wait for `whole`, and until a deadline for each search: its result, or that it was late or failed."""
    tasks = {name: asyncio.ensure_future(search) for name, search in searches.items()}
    for task in tasks.values():
        task.add_done_callback(retrieved)
    try:
        first = await whole if whole is not None else None
        if tasks:
            await asyncio.wait(tasks.values(), timeout=max(deadline - time.monotonic(), 0))
    finally:
        for task in tasks.values():
            task.cancel()
    return first, {name: _brought(name, task, says_why=says_why) for name, task in tasks.items()}


def _brought(name: str, task: asyncio.Future[_Brought], *, says_why: bool) -> _Brought:
    if not task.done() or task.cancelled():
        logger.warning("store left out store=%s reason=late", name)
        return _Brought(missing="was late")
    error = task.exception()
    if error is None:
        return task.result()
    logger.warning("store left out store=%s reason=%s", name, type(error).__name__)
    return _Brought(missing=f"failed ({error})" if says_why and isinstance(error, ForgedError) else "failed")


class OverEntities:
    """Searches over what memories speak of; one for the daemon.

    A map's graph of its heads is made in a thread when a query first needs it, and lives as long as the map.
    """

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
        return two_hops(graphs, named, _MOST_LED) if named else ()

    def _graph(self, home: VectorMap) -> EntityGraph:
        graph = self._graphs.get(home)
        if graph is None:
            graph = graph_of(each for each in home.memories if home.chains.is_head(each.id))
            self._graphs[home] = graph
        return graph
