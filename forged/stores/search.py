"""One search over stores: one deadline, one list of memories, and a few words for each missing store.

`StoreSearch.search` takes stores and a `Question`; out come `Rows`. Stores that can be compared are one view
(the roots of a workspace) and are searched by `FileSource` as if they were one: words and vectors are weighed
over all of their rows together. Any other store is searched beside it, and what all of them found is one list
(`in_order`). Where all rows have a vector of one model, and nothing but that decided, the nearest comes
first. Else scores are in different units, and the places in the lists decide (reciprocal rank fusion: a row
counts 1 / (60 + place) for each list that has it). A store that is late or fails is named: it neither delays
an answer beyond the deadline nor fails it.

A second model has Chinese, Japanese and Korean: each language has one list, in which a memory stands once, so
that what is found by words and by vectors counts for its place among its own and not twice against the other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from operator import attrgetter
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from forged import fair_queue
from forged.entities import EntityGraph, ReachedMemory, graph_of, named_in, two_hops
from forged.errors import ForgedError
from forged.fair_queue import retrieved
from forged.map import Part, VectorMap, Waiting, room
from forged.models import Vectors
from forged.stores.file_search import FileSource
from forged.stores.store import SearchedStore, Store
from forged.stores.values import Limits, Question, Ranked, Rows, View, compared_by
from forged.text.cjk import is_cjk

logger = logging.getLogger(__name__)

FIRST_BUILD = "first build is running"
# A store that is there shows what it has within such a moment; nobody waits for its first build.
MOMENT_S = 0.05
_UNREAD = f"is not read yet: {FIRST_BUILD}"
_SAME, _KEY = attrgetter("same"), attrgetter("key")
_NO_LEGS = frozenset[str]()
_ENTITIES = "over entities"
# So many are looked at in a graph, and so many of them come.
_MOST_LED, _MOST_REACHED = 64, 10
# The usual constant: how little the first place is worth more than the tenth.
_K = 60
_Key = TypeVar("_Key", bound=Hashable)


class Source(Protocol):
    """A search of one view."""

    async def search(self, question: Question) -> Rows:
        """The best rows for a question. May raise anything and may be cancelled at the deadline."""
        ...


Second = Callable[[View, tuple[str, ...]], tuple[Source, str] | None]
"""A second model's source of a view, for who sees such roots, and its key; None where it knows nothing."""


class _Brought(msgspec.Struct, frozen=True):
    """The result of one store; `missing` is why that is not all of it."""

    lists: tuple[Rows, ...] = ()
    missing: str = ""
    legs: frozenset[str] = _NO_LEGS
    held: int = 0
    unread: bool = False


_Searches = dict[str, Coroutine[Any, Any, _Brought]]


class StoreSearch:
    """One for the daemon. `second` is asked what a second model has of a view, if there is one."""

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

        That is waited for without a limit, and what its search raises is raised; the rest has until the
        question's deadline, or `until`. `tops` are the roots of whoever asks.
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
        lacking = {name: each for name, each in found.items() if each.missing and not _is_led(name)}
        told = tuple(f"{name} {each.missing}" for name, each in lacking.items())
        if question.limits is not None:
            return self._recalled(found, question, question.limits, told)
        by_store = [] if first is None else [both_models(first, _only(found.get("cjk")), question)]
        for store in stores:
            in_second = _only(found.get(_second_of(store)))
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
            searches |= {_second_of(each): self._in_second(each, question, tops) for each in here}
        searches |= {each.name: _nearest(each, question) for each in there}
        if recalls:
            searches[_ENTITIES] = self._over_entities(here, question)
            searches |= {f"{each.name} {_ENTITIES}": _reached(each, question) for each in there}
        return searches

    async def _in_store(self, store: Store, question: Question) -> _Brought:
        if question.limits is not None:
            return await self._nearest_in(store, question, question.limits)
        view = await store.view(question.generation, _soon(question))
        if not len(view):
            return _Brought(missing="is read for the first time" if view.waiting else "")
        return _Brought((await self._files(view, self._lexical_weight).search(question),))

    async def _nearest_in(self, store: Store, question: Question, limits: Limits) -> _Brought:
        """By distance alone where all that it holds has a vector of the model that answers; else by words."""
        view = await store.view(question.generation, question.deadline)
        if not len(view):
            return _Brought(missing=_UNREAD if view.waiting else view.problem, unread=view.waiting)
        vectors = question.vectors
        is_near = vectors is not None and self._has_all_vectors(view, vectors)
        source = self._files(view, 0.0 if is_near else self._lexical_weight)
        question = msgspec.structs.replace(question, top_k=limits.of.get(store.scope, 0))
        scripts = _scripts(view) if is_near else ()
        questions = [question]
        if len(scripts) > 1:
            admits = [_of_script(view, script, question.admits) for script in scripts]
            questions = [msgspec.structs.replace(question, admits=each) for each in admits]
        found = [_by_model(await source.search(each), view.key) for each in questions]
        legs = {"dense"} if vectors is not None and "dense" in view.legs else set[str]()
        legs |= set() if is_near else {"lexical"}
        return _Brought(tuple(found), view.problem, frozenset(legs), len(view))

    async def _in_second(self, store: Store, question: Question, tops: tuple[str, ...]) -> _Brought:
        """Search a store by the second model."""
        recalls = question.limits
        view = await store.view(question.generation, question.deadline if recalls else _soon(question))
        second = self._second(view, tops) if self._second is not None else None
        if second is None:
            return _Brought()
        if recalls is not None:
            question = msgspec.structs.replace(question, top_k=recalls.of.get(store.scope, 0))
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
        return _Brought((Rows(tuple(rows[:_MOST_REACHED])),))

    def _recalled(
        self, found: Mapping[str, _Brought], question: Question, limits: Limits, missing: tuple[str, ...]
    ) -> Rows:
        """One list of a recall, with no memory twice and as many of each scope as may come."""
        led = [rows.ranked for name, each in found.items() if _is_led(name) for rows in each.lists]
        places = [each for name, each in found.items() if not _is_led(name)]
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

    def _has_all_vectors(self, view: View, vectors: Vectors) -> bool:
        """Tell whether every memory can be compared with the query, by this model or by the second one."""
        parts = (part for home in view.maps for part in home.parts)
        routes, dimension = self._second is not None, vectors.shape[1]
        return all(_is_whole(part, view.key, dimension, routes=routes) for part in parts)


def _soon(question: Question) -> float:
    return min(time.monotonic() + MOMENT_S, question.deadline)


def _second_of(store: Store) -> str:
    return f"{store.name} (cjk)"


def _only(brought: _Brought | None) -> Rows | None:
    return brought.lists[0] if brought is not None and brought.lists else None


def _is_led(name: str) -> bool:
    return name.endswith(_ENTITIES)


async def _of_second(second: tuple[Source, str], question: Question) -> _Brought:
    source, key = second
    rows = await source.search(question)
    rows = _by_model(rows, key) if question.limits is not None else rows
    return _Brought((rows,), legs=frozenset({"dense"}))


async def _nearest(store: SearchedStore, question: Question) -> _Brought:
    if question.limits is not None and question.vectors is None:
        return _Brought(missing="was not asked: there is no vector of the query")
    return _Brought(tuple(await store.nearest(question)), legs=frozenset({"dense"}))


async def _reached(store: SearchedStore, question: Question) -> _Brought:
    return _Brought((Rows(tuple(await store.reached(question))),))


def _by_model(rows: Rows, key: str | None) -> Rows:
    """Rows that can be compared with others by their distance."""
    models = (compared_by(key, each.memory.content) for each in rows.ranked)
    ranked = zip(rows.ranked, models, strict=True)
    return Rows(tuple(msgspec.structs.replace(each, model=model) for each, model in ranked))


def _scripts(view: View) -> tuple[str, ...]:
    """The scripts of a view's memories: to a model texts in one lie far from those in another.

    So its distances are compared within a script alone, as are those of two models.
    """
    are = [part.traits.is_cjk for home in view.maps for part in home.parts]
    there = (("other", not all(each.all() for each in are)), ("cjk", any(each.any() for each in are)))
    return tuple(script for script, is_there in there if is_there)


def _of_script(
    view: View, script: str, admits: Callable[[str, str], bool] | None
) -> Callable[[str, str], bool]:
    """Return a filter for memories of one script that `admits` lets come."""
    homes = {home.root: home for home in view.maps}

    def may_come(root: str, memory_id: str) -> bool:
        memory = homes[root].find(memory_id)
        is_meant = memory is not None and is_cjk(memory.content) is (script == "cjk")
        return is_meant and (admits is None or admits(root, memory_id))

    return may_come


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

    The graph of a map is made when a query first needs it, beside the loop, and lives as long as its map.
    Only memories that nothing has replaced are in it. A query that names nothing leads nowhere.
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


# --- one list of many ------------------------------------------------------------------------------------


def searched(rows: Rows) -> list[Ranked]:
    """Leave out what links led to."""
    return [each for each in rows.ranked if each.via == "search"]


def in_order(
    lists: Sequence[Sequence[Ranked]], same: Callable[[Ranked], _Key], *, by_rank: bool = False
) -> list[tuple[Ranked, float]]:
    """One list of many with what each is worth: by distance where all can be compared, else by rank.

    Nothing comes twice; of equals, and of two rows of one memory, the earlier list's comes.
    """
    rows: dict[_Key, Ranked] = {}
    for ranked in lists:
        for row in ranked:
            rows.setdefault(same(row), row)
    models = {row.model for row in rows.values()}
    if not by_rank and len(models) == 1 and "" not in models and all(map(_has_vector, rows.values())):
        worth = {key: row.cosine or 0.0 for key, row in rows.items()}
    else:
        worth = dict.fromkeys(rows, 0.0)
        for ranked in lists:
            for place, row in enumerate(ranked, 1):
                worth[same(row)] += 1 / (_K + place)
    return sorted(((row, worth[key]) for key, row in rows.items()), key=lambda each: -each[1])


def _has_vector(row: Ranked) -> bool:
    return row.cosine is not None


def both_models(own: Rows, second: Rows | None, question: Question) -> Rows:
    """Merge the results of two models, each in its own languages; of equals the query's language leads."""
    if second is None:
        return own
    found = searched(own)
    in_cjk = _fused([searched(second), [each for each in found if is_cjk(each.memory.content)]])
    others = [each for each in found if not is_cjk(each.memory.content)]
    lists = [in_cjk, others] if is_cjk(question.message) else [others, in_cjk]
    return _merged((own, second), lists, question.top_k + len(question.beside), question.top_k)


def all_stores(found: Sequence[Rows], question: Question) -> Rows:
    """Merge the results of all stores; where a gate holds, no more than one store alone might give."""
    most = question.top_k
    if question.least_evidence != float("-inf"):
        most = room(turn=question.turn, most=most, by_vectors=question.vectors is not None)
    most += sum(each.key in question.beside for rows in found for each in rows.ranked)  # these come anyhow
    return _merged(found, list(map(searched, found)), most, most)


def _merged(found: Sequence[Rows], lists: Sequence[Sequence[Ranked]], most: int, most_hops: int) -> Rows:
    best = _fused(lists)[:most]
    keys = {each.key for each in best}
    led = {each.key: each for rows in found for each in rows.ranked if each.via != "search"}
    beside = [each for key, each in led.items() if key not in keys]
    return Rows(
        ranked=(*best, *beside[:most_hops]),
        stayed=tuple(each for rows in found for each in rows.stayed),  # those that came leave the answer
        evidence=max((rows.evidence for rows in found if rows.ranked), default=found[0].evidence),
    )


def _fused(lists: Sequence[Sequence[Ranked]]) -> list[Ranked]:
    return [row for row, _ in in_order(lists, _KEY)]


def recalled(lists: Sequence[Sequence[Ranked]], led: Sequence[Ranked], query: str) -> list[Ranked]:
    """Lists of a recall as one, and what was `led` to, by rank; each scored by what it is worth.

    Lists in the script of the query stand before those in another: of equal places they come first.
    """
    asked = is_cjk(query)
    some = sorted(filter(None, lists), key=lambda rows: is_cjk(rows[0].memory.content) is not asked)
    seen, single = set[tuple[str, str]](), list[list[Ranked]]()
    for rows in some:
        single.append([each for each in rows if each.same not in seen])
        seen.update(each.same for each in single[-1])
    ordered = _scored(in_order(single, _SAME))
    if not led:
        return ordered
    there = {each.same: each for each in ordered}
    known = [msgspec.structs.replace(there.get(each.same, each), path=each.path) for each in led]
    return _scored(in_order([known, ordered], _SAME, by_rank=True))


def _scored(rows: Iterable[tuple[Ranked, float]]) -> list[Ranked]:
    return [msgspec.structs.replace(row, score=worth) for row, worth in rows]


def best_led(lists: Iterable[Sequence[Ranked]]) -> list[Ranked]:
    """Merge the memories that were reached here and on a server, each once."""
    best = dict[tuple[str, str], Ranked]()
    for each in (each for rows in lists for each in rows):
        if each.same not in best or each.score > best[each.same].score:
            best[each.same] = each
    return sorted(best.values(), key=lambda each: -each.score)[:_MOST_REACHED]
