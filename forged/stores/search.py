"""Search of a retrieval: the maps of a view as one store, and other stores at the same time.

In: stores and a `Question`. Out: a `SearchResult` with the best heads, each chain once, gated where asked
for, then memories that links lead to, and the rejected ones. A long search runs in the given thread, so that
other requests are answered meanwhile. A store that is late or fails is named: it neither delays an answer
beyond the deadline nor fails it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import islice
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from forged import fair_queue
from forged.errors import ForgedError
from forged.fair_queue import ignore_failure
from forged.map import (
    CANDIDATES,
    Cosines,
    GateScore,
    MapSearch,
    Ranked,
    VectorMap,
    compare_batch,
    follow_links,
    gate_decisions,
    is_hopeless,
    label_confidence,
    may_follow,
    score_search,
    search_maps,
)
from forged.models import Vectors
from forged.stores.merging import merge_models, merge_stores
from forged.stores.store import LimitedStore, RemoteStore, Store, View
from forged.stores.values import GIVEN, Question, SearchResult

logger = logging.getLogger(__name__)

# Seconds that a store has to show its memories; its first build is not waited for.
MOMENT_S = 0.05
# Multiply-adds that run on the event loop, some milliseconds; more run in the thread.
_INLINE_WORK = 20_000_000
# Candidates for each memory that may be admitted: evidence orders them anew.
_POOL = 2
# So many cost no more than fewer. Memories in context seldom are the first of a large store.
_FREE = CANDIDATES // 2

Id = tuple[str, str]
"""Key of a memory: the top of its root and the id of its newest version."""

Place = tuple[int, int]
"""Number of a map, and a row of it."""


class Searcher(Protocol):
    """Protocol of a search for the memories of a question in one view."""

    async def search(self, question: Question) -> SearchResult:
        """Return the best memories for a question. May raise anything, may be cancelled at a deadline."""


Second = Callable[[View, tuple[str, ...]], tuple[Searcher, str] | None]
"""Returns a second model's searcher of a view under some roots, and its key; None without vectors."""

SecondQuestion = Callable[[Question, tuple[str, ...]], Awaitable[Question]]
"""Returns a question under some roots with vectors of the second model. May raise anything."""


class StoreResult(msgspec.Struct, frozen=True):
    """Result of one store's search: lists of memories, and `missing`, the reason if it is incomplete."""

    lists: tuple[SearchResult, ...] = ()
    missing: str = ""
    indexes: frozenset[str] = frozenset()  # that answered
    held: int = 0
    unread: bool = False


Searches = dict[str, Coroutine[Any, Any, StoreResult]]


class StoreSearch:
    """Searches the stores of a retrieval at the same time, and merges the results; one for the daemon."""

    def __init__(
        self,
        *,
        lexical_weight: float,
        thread: Executor,
        second: Second | None = None,
        second_question: SecondQuestion | None = None,
    ) -> None:
        self.second_question = second_question
        self._lexical_weight = lexical_weight
        self._thread = thread
        self.second = second
        self._batch: list[BatchedSearch] = []

    async def search(
        self,
        stores: Sequence[Store],
        question: Question,
        *,
        own: View | None = None,
        tops: tuple[str, ...] = (),
    ) -> SearchResult:
        """Search stores, and `own`, the view of the request's workspace; return one merged result.

        `own` has no deadline, and an error of its search is raised. The other stores have until the
        question's deadline. `tops` are the roots of the caller.
        """
        second = self.second(own, tops) if self.second is not None and own is not None else None
        searches: Searches = {} if second is None else {"cjk": _search_by_second(second, question)}
        searches |= self._searches(stores, question, tops) if stores else {}
        whole = None if own is None else self.searcher_of(own).search(question)
        first, found = await gather_results(question.deadline, searches, whole)
        missing = tuple(f"{name} {each.missing}" for name, each in found.items() if each.missing)
        in_cjk = _first_list(found.get("cjk"))
        if first is not None and in_cjk is not None:
            first = merge_models(first, in_cjk, question)
        by_store = [] if first is None else [first]
        for store in stores:
            in_second = _first_list(found.get(f"{store.name} (cjk)"))
            own_question = _question_for(store, question)
            by_store += [merge_models(rows, in_second, own_question) for rows in found[store.name].lists]
        if not by_store:
            return SearchResult(missing=missing)
        rows = by_store[0] if first is not None and not stores else merge_stores(by_store, question)
        return replace(rows, missing=missing) if missing else rows

    def _searches(self, stores: Sequence[Store], question: Question, tops: tuple[str, ...]) -> Searches:
        """Return a search for each store, and by the second model, by name; local stores come first."""
        here = [each for each in stores if not isinstance(each, RemoteStore)]
        there = [each for each in stores if isinstance(each, RemoteStore)]
        searches: Searches = {each.name: self._search_store(each, question) for each in here}
        if self.second is not None:
            searches |= {f"{each.name} (cjk)": self._search_second(each, question, tops) for each in here}
        return searches | {each.name: _search_server(each, question) for each in there}

    async def _search_store(self, store: Store, question: Question) -> StoreResult:
        """Search a store by words and vectors; report a first build not done within 50 ms."""
        question = _question_for(store, question)
        if isinstance(store, LimitedStore):
            view = await store.view_for(question)
        else:
            view = await store.view(question.generation, _view_deadline(question))
        if not view.size:
            return StoreResult(missing="is being read for the first time" if view.waiting else "")
        return StoreResult((await self.searcher_of(view).search(question),))

    async def _search_second(self, store: Store, question: Question, tops: tuple[str, ...]) -> StoreResult:
        """Search a store by the vectors of the second model (CJK), if it has any."""
        view = await store.view(question.generation, _view_deadline(question))
        second = self.second(view, tops) if self.second is not None else None
        if second is None:
            return StoreResult()
        return await _search_by_second(second, _question_for(store, question))

    def searcher_of(self, view: View, *, by_distance: bool = False) -> ViewSearcher:
        """Return the searcher of a view, by words and vectors or by distance alone."""
        weight = 0.0 if by_distance else self._lexical_weight
        return ViewSearcher(view, lexical_weight=weight, thread=self._thread, batch=self._batch)


def _question_for(store: Store, question: Question) -> Question:
    """Return the question to one store, for as many memories as it may add."""
    if not isinstance(store, LimitedStore):
        return question
    return replace(question, top_k=min(question.top_k, store.most), pinned=frozenset())


def _view_deadline(question: Question) -> float:
    """Return the time until which to wait for a view: in 50 ms, or the question's deadline."""
    return min(time.monotonic() + MOMENT_S, question.deadline)


def _first_list(brought: StoreResult | None) -> SearchResult | None:
    """Return the first list that a store's search found, None if there is none."""
    return brought.lists[0] if brought and brought.lists else None


async def _search_by_second(second: tuple[Searcher, str], question: Question) -> StoreResult:
    return StoreResult((await second[0].search(question),))


async def _search_server(store: RemoteStore, question: Question) -> StoreResult:
    return StoreResult(tuple(await store.nearest(question)))


async def gather_results(
    deadline: float,
    searches: Searches,
    whole: Coroutine[Any, Any, SearchResult] | None = None,
    *,
    says_why: bool = False,
) -> tuple[SearchResult | None, dict[str, StoreResult]]:
    """Await `whole`, and other searches until a deadline; late and failed ones give the reason."""
    tasks = {name: asyncio.ensure_future(search) for name, search in searches.items()}
    for task in tasks.values():
        task.add_done_callback(ignore_failure)
    try:
        first = await whole if whole is not None else None
        if tasks:
            await asyncio.wait(tasks.values(), timeout=max(deadline - time.monotonic(), 0))
    finally:
        for task in tasks.values():
            task.cancel()
    return first, {name: _result_of(name, task, says_why=says_why) for name, task in tasks.items()}


def _result_of(name: str, task: asyncio.Future[StoreResult], *, says_why: bool) -> StoreResult:
    """Return the result of a search; if it is late or failed, an empty one with the reason."""
    if not task.done() or task.cancelled():
        logger.warning("store left out store=%s reason=late", name)
        return StoreResult(missing="was late")
    error = task.exception()
    if error is None:
        return task.result()
    logger.warning("store left out store=%s reason=%s", name, type(error).__name__)
    return StoreResult(
        missing=f"failed ({error})" if says_why and isinstance(error, ForgedError) else "failed"
    )


# --- one view ------------------------------------------------------------------------------------------


class ViewSearcher:
    """Searches the maps of a view as one store, by words and vectors, gated if asked. Raises nothing."""

    def __init__(
        self, view: View, *, lexical_weight: float, thread: Executor, batch: list[BatchedSearch] | None = None
    ) -> None:
        """Create a searcher; `lexical_weight` is the words' share of a score, `batch` waiting searches."""
        self._view = view
        self._lexical_weight = lexical_weight
        self._thread = thread
        self._batch = [] if batch is None else batch

    async def search(self, question: Question) -> SearchResult:
        """Return the best heads of the view, gated if asked, then memories that they link to."""
        vectors = question.vectors
        if vectors is None:
            await fair_queue.turn()
            return self._search_view(question)
        if self._view.size * vectors.size >= _INLINE_WORK:
            return await fair_queue.in_thread(self._thread, partial(self._search_view, question))
        with in_batch(self._batch, self._view.maps, vectors, self._view.key) as waiting:
            await fair_queue.turn()
            cosines = waiting.cosines()
        return self._search_view(question, cosines)

    def _search_view(self, question: Question, cosines: Cosines | None = None) -> SearchResult:
        """Search the view's maps, and admit or reject memories by the gate if the question has one."""
        if question.least_evidence == float("-inf") or not self._view.size:
            return self._search_ungated(question, cosines)
        found, gate_score = self._search_and_score(question, cosines)
        least, turn, most = question.least_evidence, question.turn, _POOL * question.top_k
        if not question.explains and is_hopeless(gate_score, least, turn=turn):
            return SearchResult(evidence=gate_score.evidence)
        candidates = self._candidates(found, question, most + len(question.pinned))
        judged = self._decide(gate_score, candidates, question)
        kept = self._with_linked(gate_score, [each for each in judged if not each.rejected], question)
        came = {(each.root, each.memory.id) for each in kept}
        out = (each for each in judged if each.rejected and (each.root, each.memory.id) not in came)
        fit = self._already_injected(found, question, most)
        if fit:
            words = gate_decisions(gate_score, fit, least, turn=turn, most=len(fit))
            fit = [replace(each, admitted_as="", rejected=GIVEN) for each in words if not each.rejected]
        return SearchResult(kept, (*fit, *islice(out, question.top_k)), gate_score.evidence)

    def _decide(
        self, gate_score: GateScore, candidates: Mapping[Id, Ranked], question: Question
    ) -> Sequence[Ranked]:
        """Let the gate admit or reject each candidate; pinned ones take no place of others."""
        least, turn = question.least_evidence, question.turn
        anyhow = [key for key in candidates if key in question.pinned]
        others = [each for key, each in candidates.items() if key not in anyhow]
        judged = gate_decisions(gate_score, others, least, turn=turn, most=question.top_k)
        if not anyhow:
            return judged
        pinned = [candidates[key] for key in anyhow]
        found = dict(
            zip(anyhow, gate_decisions(gate_score, pinned, least, turn=turn, most=len(pinned)), strict=True)
        )
        rest = iter(judged)
        return [found[key] if key in found else next(rest) for key in candidates]

    def _search_ungated(self, question: Question, cosines: Cosines | None) -> SearchResult:
        """Return the best memories without a gate, each with a confidence label if the question asks."""
        found = self._search_maps(question, cosines)
        given = [
            replace(each, rejected=GIVEN) for each in self._already_injected(found, question, question.top_k)
        ]
        candidates = list(self._candidates(found, question, question.top_k).values())
        if question.strong is not None:
            candidates = label_confidence(
                score_search(found, self._view.baseline), candidates, question.strong
            )
        return SearchResult(self._to_answers(candidates, question), tuple(given))

    def _search_and_score(self, question: Question, cosines: Cosines | None) -> tuple[MapSearch, GateScore]:
        """Search the message alone or, if its evidence is weak, with its context; score it for the gate."""
        if question.continued is not None:
            vectors = None if question.vectors is None else question.vectors[:1]
            by_itself = replace(question, texts=question.texts[:1], vectors=vectors, continued=None)
            alone = self._search_maps(by_itself, None if cosines is None else cosines.of_queries(0, 1))
            own = score_search(alone, self._view.baseline)
            if own.evidence >= question.least_evidence:
                return alone, own
        found = self._search_maps(question, cosines)
        return found, score_search(found, self._view.baseline)

    def _with_linked(
        self, gate_score: GateScore, let_in: Sequence[Ranked], question: Question
    ) -> tuple[Ranked, ...]:
        """Return the admitted memories, and those they link to with enough evidence."""
        maps, reached = self._view.maps, dict[Place, None]()
        for each in let_in:
            heads = maps[each.map_index].linked_heads(each.memory.id) if each.memory.related else ()
            rows = (maps[each.map_index].row_of(head.id) for head in heads)
            reached |= {(each.map_index, row): None for row in rows if row is not None}
        if reached:  # at once: one by one takes as long as a search
            gate_score.evidences(list(reached))
        leads_on = partial(may_follow, gate_score, least=question.least_evidence)
        return self._to_answers(let_in, question, may_follow=leads_on)

    def _already_injected(self, found: MapSearch, question: Question, places: int) -> list[Ranked]:
        """Return those of the best `places` memories that the session has in context already."""
        if not question.in_context:
            return []
        best = found.best(places + len(question.in_context))
        first = _first_of_chains(best, question, lets_in_context=True)
        return [each for key, each in islice(first.items(), places) if key in question.in_context]

    def _to_answers(self, candidates: Sequence[Ranked], question: Question, **how: Any) -> tuple[Ranked, ...]:
        """Return candidates as heads with linked memories, without those in context or not wanted."""
        top_k = question.top_k + len(question.pinned)
        ranked = rank_heads(self._view.maps, candidates, top_k=top_k, hop_depth=question.hop_depth, **how)
        return tuple(_first_of_chains(ranked, question).values())

    def _search_maps(self, question: Question, cosines: Cosines | None) -> MapSearch:
        texts, message = question.texts, question.message
        return search_maps(
            self._view.maps,
            texts=texts,
            vectors=question.vectors,
            lexical_weight=self._lexical_weight,
            message=texts.index(message) if message in texts else None,
            key=self._view.key,
            cosines=cosines,
            continued=question.continued,
        )

    def _candidates(self, found: MapSearch, question: Question, count: int) -> dict[Id, Ranked]:
        """Return the best row of each wanted memory in a search, up to `count`, by root and id."""
        superseded = sum(len(each.chains.head_of) for each in self._view.maps)
        few = count + min(superseded, 3 * count)
        most = few + len(question.in_context)
        k = min(most, max(few, _FREE))
        while True:
            best = found.best(k)
            candidates = _first_of_chains(best, question)
            if len(best) < k or len(candidates) >= count:
                return dict(islice(candidates.items(), count))
            # With a filter all rows are read, once: the wanted ones may be rare.
            more = 4 * k if question.admits is None else sum(each.starts[-1] for each in self._view.maps)
            k = most if k < most else max(k + 1, more)


# Queries of one product: more would delay the next ping and save little.
_MOST_TOGETHER = 16


class BatchedSearch:
    """Vectors of a search that waits for its turn; the first in turn compares all on the same maps.

    A search that is cancelled leaves the batch.
    """

    def __init__(
        self, batch: list[BatchedSearch], maps: tuple[VectorMap, ...], vectors: Vectors, key: str | None
    ) -> None:
        self.vectors = vectors
        self.found: tuple[Cosines | None] | None = None
        self._batch = batch
        self._alike = maps, key, vectors.shape[1]

    def cosines(self) -> Cosines | None:
        """Return the cosines; the first call computes them for all waiting searches of the same maps."""
        if self.found is None:
            group = self._waiting_alike()
            maps, key, _ = self._alike
            results = compare_batch(maps, [each.vectors for each in group], key)
            for each, result in zip(group, results, strict=True):
                each.found = (result,)
        assert self.found is not None, "its own is in the group"
        return self.found[0]

    def _waiting_alike(self) -> list[BatchedSearch]:
        """Return this search and others that wait on the same maps, at most 16 queries."""
        group, queries = [self], len(self.vectors)
        for other in self._batch:
            waits = other is not self and other.found is None and self._alike == other._alike
            if waits and queries + len(other.vectors) <= _MOST_TOGETHER:
                group.append(other)
                queries += len(other.vectors)
        return group


@contextlib.contextmanager
def in_batch(
    batch: list[BatchedSearch], maps: tuple[VectorMap, ...], vectors: Vectors, key: str | None
) -> Iterator[BatchedSearch]:
    """Add a search's vectors to the batch of waiting searches, until the end of a `with` block."""
    waiting = BatchedSearch(batch, maps, vectors, key)
    batch.append(waiting)
    try:
        yield waiting
    finally:
        batch.remove(waiting)


def _first_of_chains(
    found: Iterable[Ranked], question: Question, *, lets_in_context: bool = False
) -> dict[Id, Ranked]:
    """Return the best row of each memory, without filtered ones and, by default, those in context."""
    first: dict[Id, Ranked] = {}
    in_context, admits = frozenset[Id]() if lets_in_context else question.in_context, question.admits
    for each in found:
        key = each.root, each.memory.id
        if key not in first and key not in in_context and (admits is None or admits(*key)):
            first[key] = each
    return first


def rank_heads(
    maps: Sequence[VectorMap],
    candidates: Iterable[Ranked],
    *,
    top_k: int,
    hop_depth: int,
    may_follow: Callable[[Place, Place], bool] = lambda _source, _target: True,
) -> tuple[Ranked, ...]:
    """Turn candidates into answers: each chain's head once with its best score, then linked memories.

    `may_follow` returns True if a link from one head to another may be followed.
    """
    best: dict[tuple[int, str], Ranked] = {}
    for each in candidates:
        key = each.map_index, each.memory.id
        if key not in best:
            best[key] = _with_versions(maps, each)
        if len(best) == top_k:
            break
    if not any(each.memory.related for each in best.values()):
        return tuple(best.values())

    def linked_heads(key: tuple[int, str]) -> Iterator[tuple[int, str]]:
        place, memory_id = key
        home = maps[place]
        source = home.row_of(memory_id)
        for head in home.linked_heads(memory_id):
            row = home.row_of(head.id)
            if source is not None and row is not None and may_follow((place, source), (place, row)):
                yield place, head.id

    reached = follow_links(tuple(best), linked_heads, depth=hop_depth, limit=top_k)
    found = ((place, maps[place].find(memory_id)) for place, memory_id in reached)
    led = (
        Ranked(memory, 0.0, found_by="link", root=maps[place].root, admitted_as="link", map_index=place)
        for place, memory in found
        if memory is not None
    )
    return (*best.values(), *(_with_versions(maps, each) for each in led))


def _with_versions(maps: Sequence[VectorMap], head: Ranked) -> Ranked:
    """Return the head of a chain with its older versions and its concurrent heads."""
    home = maps[head.map_index]
    if head.memory.id not in home.chains.head_of:
        return head
    older, concurrent_heads = home.versions(head.memory.id)
    return replace(head, older=older, concurrent_heads=concurrent_heads)
