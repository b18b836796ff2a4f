"""The searches of a recall: the query's vector once, every scope beside the others, all by one deadline.

In goes a query and the places that may answer it, each with a limit of its own; out come lists for `combined`
and a few words for what could not take part as it should: that delays no other place, and is no error. A
place is asked by distance alone where all that it holds has a vector of the model that answers; where vectors
are missing, or the query has none in time, words decide in it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor

import msgspec
import numpy as np

from forged.errors import ForgedError, ProviderError
from forged.fair_queue import retrieved
from forged.map import Part
from forged.models import Purpose, RetryBudget, Vectors
from forged.retrieval.pipeline import FIRST_BUILD, reason_of
from forged.retrieval.queries import queried
from forged.retrieval.recall import Facts, Recollection, compared_by
from forged.retrieval.tuning import ModelsInUse
from forged.retrieval.values import See, near
from forged.scopes import CjkSource, CjkViews, FileSource, OverEntities, Question, Ranked, Rows, View
from forged.text.cjk import is_cjk

logger = logging.getLogger(__name__)

# A place that is there shows what it has within such a moment.
_MOMENT_S = 0.05
# What is reached over what memories speak of, of all places together.
_OVER, _OVER_THERE, _MOST_REACHED = "over entities", "shared over entities", 10
_UNREAD = f"is not read yet: {FIRST_BUILD}"

Remote = Callable[[Vectors], Awaitable[Sequence[Sequence[Recollection]]]]
"""Asks a server for what is nearest to a vector (d,), in all scopes that it holds."""

Over = Callable[[], Awaitable[Sequence[Recollection]]]
"""Asks a server for what the query leads to over what its memories speak of, the best first."""

Admits = Callable[[str, str], bool]
"""Whether a memory, by root and id, may be found."""


class Place(msgspec.Struct, frozen=True):
    """Where memories of one scope lie on this machine.

    `facts` knows, by root and id, what is beside the text of one, and `admits` whether it may be found.
    """

    name: str
    see: See
    limit: int
    facts: Callable[[str, str], Facts]
    admits: Admits | None = None


class Recollected(msgspec.Struct, frozen=True):
    """What was found, in lists; `degraded` says what is missing, `legs` what took part.

    `reached` is what the query leads to over what memories speak of. `is_waiting`: a place is being read for
    the first time. `held` is how many memories the places here hold.
    """

    lists: tuple[Sequence[Recollection], ...] = ()
    reached: tuple[Recollection, ...] = ()
    degraded: tuple[str, ...] = ()
    legs: tuple[str, ...] = ()
    embedding_ms: float = 0.0
    is_waiting: bool = False
    held: int = 0


class _Found(msgspec.Struct, frozen=True):
    """What one search brought; `problem` is why that is not all."""

    lists: Sequence[Sequence[Recollection]] = ()
    problem: str = ""
    legs: frozenset[str] = frozenset()
    held: int = 0


class Recaller:
    """Carries out recalls; one for the daemon."""

    def __init__(self, models: ModelsInUse, *, lexical_weight: float, thread: Executor) -> None:
        self._models = models
        self._lexical_weight = lexical_weight
        self._thread = thread
        self._over_entities = OverEntities(thread)

    async def recall(
        self,
        query: str,
        places: Sequence[Place],
        *,
        deadline: float,
        tops: tuple[str, ...],
        remote: Remote | None = None,
        over: Over | None = None,
    ) -> Recollected:
        """Search all places, and the server, until `deadline`. `tops` are the roots of whoever asks."""
        began = time.monotonic()
        try:
            vectors, lacks = await self._vectors(query, places, deadline, tops, remote), ""
        except (ProviderError, TimeoutError) as error:
            vectors, lacks = None, f"no vector of the query ({reason_of(error)}); answered by words"
        embedding_ms = (time.monotonic() - began) * 1000
        question = Question(
            texts=(query,), message=query, vectors=vectors, top_k=0, hop_depth=0, deadline=near(deadline)
        )
        searches = {place.name: self._search(place, question) for place in places}
        if self._models.cjk is not None:
            for place in places:
                searches[f"{place.name} (cjk)"] = self._in_cjk(self._models.cjk, place, question, tops)
        if remote is not None:
            searches["shared"] = _on_server(remote, vectors)
        searches[_OVER] = self._reached(query, places, question.deadline)
        if over is not None:
            searches[_OVER_THERE] = _over_there(over)
        found = await _all_until(deadline, searches)
        reached = [found.pop(name) for name in (_OVER, _OVER_THERE) if name in found]
        problems = (f"{name} {each.problem}" for name, each in found.items() if each.problem)
        lists = [rows for each in found.values() for rows in each.lists if rows]
        legs = frozenset[str]().union(*(each.legs for each in found.values()))
        return Recollected(
            lists=tuple(_in_script_of(query, lists)),
            reached=_best_of(rows for each in reached for rows in each.lists),
            degraded=tuple(filter(None, (lacks, *problems))),
            legs=tuple(sorted(legs, reverse=True)),
            embedding_ms=round(embedding_ms, 3),
            is_waiting=any(each.problem == _UNREAD for each in found.values()),
            held=sum(each.held for each in found.values()),
        )

    async def _vectors(
        self,
        query: str,
        places: Sequence[Place],
        deadline: float,
        tops: tuple[str, ...],
        remote: Remote | None,
    ) -> Vectors | None:
        """The query's vector (1, d), if there is anything to compare it with. Raises ProviderError."""
        embedder, health = self._models.embedder, self._models.embedding_health
        if embedder is None:
            return None
        moment = min(time.monotonic() + _MOMENT_S, deadline)
        views = await asyncio.gather(*(place.see(moment) for place in places))
        if remote is None and not any("dense" in view.legs or view.waiting for view in views):
            return None
        waiting = RetryBudget(deadline)
        health.admit(waiting)
        async with asyncio.timeout_at(near(deadline)):
            found = await queried(embedder, (query,), Purpose("query", tops, waiting), near(deadline))
        if found.vectors is not None:
            for view in views:
                view.used(found.vectors.shape[1])
        return found.vectors

    async def _reached(self, query: str, places: Sequence[Place], deadline: float) -> _Found:
        """What the query leads to over what the memories of all places speak of, as each place admits."""
        views = await asyncio.gather(*(place.see(deadline) for place in places))
        homes = [(place, view, home) for place, view in zip(places, views, strict=True) for home in view.maps]
        found = await self._over_entities.search([home for _, _, home in homes], query)
        rows = list[Recollection]()
        for each in found:
            (place, view, home), memory_id = homes[each.place[0]], each.place[1]
            memory = home.find(memory_id)
            if memory is None or not (place.admits is None or place.admits(home.root, memory_id)):
                continue
            ranked = Ranked(memory, each.strength, via="entity", root=home.root)
            facts = place.facts(home.root, memory_id)
            rows.append(Recollection(ranked, facts, view.key or "", path=each.path))
        return _Found((rows[:_MOST_REACHED],))

    async def _search(self, place: Place, question: Question) -> _Found:
        view = await place.see(question.deadline)
        if view.waiting and not len(view):
            return _Found(problem=_UNREAD)
        if not len(view):
            return _Found(problem=view.problem)
        is_near = question.vectors is not None and self._has_all_vectors(view, question.vectors)
        weight = 0.0 if is_near else self._lexical_weight
        source, found = FileSource(view, lexical_weight=weight, thread=self._thread), []
        scripts = _scripts(view)
        for script in scripts if is_near else ("",):
            admits = _of_script(view, script, place.admits) if is_near and len(scripts) > 1 else place.admits
            wanted = msgspec.structs.replace(question, top_k=place.limit, admits=admits)
            rows = await source.search(wanted)
            found.append(_recollections(place, rows, view.key))
        legs = {"dense"} if question.vectors is not None and "dense" in view.legs else set[str]()
        legs = legs if is_near else legs | {"lexical"}
        return _Found(found, view.problem, frozenset(legs), len(view))

    async def _in_cjk(
        self, views: CjkViews, place: Place, question: Question, tops: tuple[str, ...]
    ) -> _Found:
        """What a second model finds of a place."""
        view = await place.see(question.deadline)
        if views.beside(view) is None:
            return _Found()
        wanted = msgspec.structs.replace(question, top_k=place.limit, admits=place.admits)
        rows = await CjkSource(views, view, tops, self._thread).search(wanted)
        found = _recollections(place, rows, views.identity.key)
        return _Found((found,), legs=frozenset({"dense"}))

    def _has_all_vectors(self, view: View, vectors: Vectors) -> bool:
        """Whether every memory can be compared with the query, by this model or by the second one."""
        parts = (part for home in view.maps for part in home.parts)
        routes, dimension = self._models.cjk is not None, vectors.shape[1]
        return all(_is_whole(part, view.key, dimension, routes=routes) for part in parts)


def _scripts(view: View) -> tuple[str, ...]:
    """The scripts of a view's memories: to a model texts in one lie far from those in another.

    So its distances are compared within a script alone, as are those of two models.
    """
    are = [part.traits.is_cjk for home in view.maps for part in home.parts]
    there = (("other", not all(each.all() for each in are)), ("cjk", any(each.any() for each in are)))
    return tuple(script for script, is_there in there if is_there)


def _of_script(view: View, script: str, admits: Admits | None) -> Admits:
    """Whether a memory may be found, and is of this script."""
    homes = {home.root: home for home in view.maps}

    def may_come(root: str, memory_id: str) -> bool:
        memory = homes[root].find(memory_id)
        is_meant = memory is not None and is_cjk(memory.content) is (script == "cjk")
        return is_meant and (admits is None or admits(root, memory_id))

    return may_come


def _in_script_of(query: str, lists: Iterable[Sequence[Recollection]]) -> list[Sequence[Recollection]]:
    """Lists in the script of the query before those in another: of equal places they come first."""
    asked = is_cjk(query)
    return sorted(lists, key=lambda rows: is_cjk(rows[0].ranked.memory.content) is not asked)


def _recollections(place: Place, rows: Rows, key: str | None) -> tuple[Recollection, ...]:
    return tuple(
        Recollection(each, place.facts(each.root, each.memory.id), compared_by(key, each.memory.content))
        for each in rows.ranked
        if each.via == "search"
    )


def _is_whole(part: Part, key: str | None, dimension: int, *, routes: bool) -> bool:
    """Whether every row can be compared with the query; where `routes`, CJK rows are another model's."""
    lacks = np.ones(len(part), np.bool_)
    leg = part.dense
    if leg is not None and leg.dimension == dimension and key in {None, leg.key}:
        lacks = leg.missing.copy()
    if part.gone is not None:
        lacks &= ~part.gone
    if routes:
        lacks &= ~part.traits.is_cjk
    return not lacks.any()


async def _on_server(remote: Remote, vectors: Vectors | None) -> _Found:
    if vectors is None:
        return _Found(problem="was not asked: there is no vector of the query")
    return _Found(await remote(vectors[0]), legs=frozenset({"dense"}))


async def _over_there(over: Over) -> _Found:
    return _Found((await over(),))


def _best_of(lists: Iterable[Sequence[Recollection]]) -> tuple[Recollection, ...]:
    """What was reached here and on a server, each once, as one list."""
    best = dict[tuple[str, str], Recollection]()
    for each in (each for rows in lists for each in rows):
        if each.same not in best or each.ranked.score > best[each.same].ranked.score:
            best[each.same] = each
    return tuple(sorted(best.values(), key=lambda each: -each.ranked.score)[:_MOST_REACHED])


async def _all_until(deadline: float, searches: Mapping[str, Awaitable[_Found]]) -> dict[str, _Found]:
    """What each search brought, or that it was late or failed; nobody is waited for beyond the deadline."""
    tasks = {name: asyncio.ensure_future(search) for name, search in searches.items()}
    for task in tasks.values():
        task.add_done_callback(retrieved)
    try:
        if tasks:
            await asyncio.wait(tasks.values(), timeout=max(deadline - time.monotonic(), 0))
    finally:
        for task in tasks.values():
            task.cancel()
    return {name: _brought(name, task) for name, task in tasks.items()}


def _brought(name: str, task: asyncio.Future[_Found]) -> _Found:
    if not task.done() or task.cancelled():
        logger.warning("scope left out scope=%s reason=late", name)
        return _Found(problem="was late")
    error = task.exception()
    if error is None:
        return task.result()
    logger.warning("scope left out scope=%s reason=%s", name, type(error).__name__)
    return _Found(problem=f"failed ({error})" if isinstance(error, ForgedError) else "failed")
