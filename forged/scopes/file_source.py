"""The file roots of a request: seen together at one moment, and searched as if they were one store.

`FileRoots` waits for the maps of some roots and returns them as one frozen `View`; `FileSource` searches such
a view. A memory is told from the others by its map and its id: links lead to memories of the same map only,
so nothing in a repository replaces, hides or relates what is the user's. Nothing here reads a file. A search
that is long runs in the thread that is given, so that other requests are answered meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from types import MappingProxyType

import msgspec

from forged import in_turn
from forged.files import Root
from forged.map import (
    Baseline,
    Candidate,
    Cosines,
    Found,
    Reading,
    VectorMap,
    admitted,
    hops,
    is_hopeless,
    search_maps,
    weigh,
)
from forged.maps import Indexer, RootIndex
from forged.memory import Memory
from forged.scopes.source import Question, Ranked, Rows
from forged.scopes.tiers import rated
from forged.scopes.together import Waiting, joined

# Multiply-adds that are searched on the event loop, some milliseconds; more goes to the thread.
_INLINE_WORK = 20_000_000
_NOTHING = float("-inf")

Key = tuple[int, str]
"""A memory of a view: the place of its map, and its id there."""


def _nobody(_: int) -> None:
    """Without a model nobody asks what its vectors are like."""


class View(msgspec.Struct, frozen=True, eq=False):
    """Maps that a request may use.

    `generation` orders what is visible. `waiting` is true while a root has nothing to search before a build
    that is to come; `problem` says why a root's map is missing or older than asked for, in one word or two.
    `baseline` is that of the model of the dense legs, None while it is not known, and `is_uncalibrated` tells
    that one is wanted. `key` names the model that answers now, whose vectors alone can be compared with those
    of a query; `used` is told of how many numbers these are. `unembedded` says why a map has no dense leg
    although its build is over, `held` why texts of a root may not leave for vectors.
    """

    maps: tuple[VectorMap, ...]
    generation: int = 0
    waiting: bool = False
    problem: str = ""
    baseline: Baseline | None = None
    held: str = ""
    unembedded: str = ""
    is_uncalibrated: bool = False
    key: str | None = None
    used: Callable[[int], None] = _nobody

    @property
    def legs(self) -> tuple[str, ...]:
        """Legs that can answer in at least one map."""
        lexical = any(m.has_words for m in self.maps)
        dense = any(m.dense for m in self.maps)
        return tuple(name for name, there in (("lexical", lexical), ("dense", dense)) if there)

    def __len__(self) -> int:
        return sum(len(m.memories) for m in self.maps)

    def find(self, memory_id: str, scope: str = "") -> tuple[tuple[VectorMap, Memory], ...]:
        """The memories of this id, of one scope or of all: each map may have one."""
        homes = (each for each in self.maps if scope in {"", each.scope})
        found = ((home, home.find(memory_id)) for home in homes)
        return tuple((home, memory) for home, memory in found if memory is not None)

    def heads_led_to(self, key: Key) -> Iterator[Key]:
        """Heads that a memory's `related` edges lead to in its own map; edges into nothing are left out."""
        place, memory_id = key
        home = self.maps[place]
        found = home.find(memory_id)
        for edge in found.related if found is not None else ():
            if home.find(edge.id) is not None:
                yield place, home.chains.head(edge.id)

    def chain(self, vector_map: VectorMap, memory_id: str) -> tuple[Memory, ...]:
        """The chain of a memory, oldest first."""
        found = map(vector_map.find, vector_map.chains.chain(memory_id))
        return tuple(memory for memory in found if memory is not None)


class FileRoots:
    """Some roots, opened when they are first looked at: that starts their first build."""

    def __init__(self, indexer: Indexer, roots: Iterable[Root]) -> None:
        self._indexer = indexer
        self._roots = tuple(roots)
        self._indexes: tuple[RootIndex, ...] = ()

    def shown(self) -> tuple[int, ...]:
        """What stands for the maps that are there now: another value as soon as one of them is another."""
        return tuple(index.map.generation if index.map is not None else 0 for index in self._opened())

    def maps(self) -> tuple[VectorMap, ...]:
        """The maps that are there now."""
        return tuple(index.map for index in self._opened() if index.map is not None)

    def added(self) -> int:
        """The generation in which all memories are visible that this daemon added, 0 for none."""
        return max((index.generations.added for index in self._opened()), default=0)

    def _opened(self) -> tuple[RootIndex, ...]:
        self._indexes = self._indexes or tuple(map(self._indexer.open, self._roots))
        return self._indexes

    async def see(self, generation: int, deadline: float) -> View:
        """What is visible, after waiting until `deadline` for a build that tried to show `generation`.

        0 stands for the first build; what changed in an empty root is waited for as that is. Never raises for
        what is on disk: the view says what is missing.
        """
        indexes = self._opened()
        for index in indexes:
            while index.generations.tried < (goal := _goal(index, generation)):
                if not await index.until_tried(goal, deadline):
                    break
        identity = self._indexer.identity
        return View(
            maps=tuple(index.map for index in indexes if index.map is not None),
            generation=_shown_by_all(indexes),
            waiting=any(index.generations.tried < _goal(index, 0) for index in indexes),
            problem=_problem(indexes, generation),
            baseline=self._indexer.learner.baseline,
            held=next((index.progress.held for index in indexes if index.progress.held), ""),
            unembedded=_unembedded(indexes),
            is_uncalibrated=self._indexer.learner.is_wanting,
            key=identity.key if identity is not None else None,
            used=identity.used if identity is not None else _nobody,
        )


def _goal(index: RootIndex, generation: int) -> int:
    """The generation that a search has to wait for; of a root that shows nothing, whatever it changed to."""
    is_empty = index.map is not None and not index.map.memories
    return index.generations.wanted if is_empty else min(max(generation, 1), index.generations.wanted)


def _shown_by_all(indexes: Sequence[RootIndex]) -> int:
    """Greatest generation of which nothing is missing: a root that lags behind holds the others back."""
    all_of = [index.generations for index in indexes]
    lagging = [each.visible for each in all_of if each.visible < each.wanted]
    return min(lagging) if lagging else max((each.visible for each in all_of), default=0)


def _problem(indexes: Sequence[RootIndex], generation: int) -> str:
    """Why a root has no map although that was tried, or shows less than was asked for; else nothing."""
    for index in indexes:
        if index.map is None and index.generations.tried and index.progress.error:
            return index.progress.error
    for index in indexes:
        if index.progress.error and index.generations.visible < min(generation, index.generations.wanted):
            return f"stale: {index.progress.error}"
    return ""


def _unembedded(indexes: Sequence[RootIndex]) -> str:
    """What the last build failed of, of a root whose memories have no vectors; else nothing."""
    for index in indexes:
        if index.map is not None and index.map.memories and not index.map.dense and index.progress.error:
            return index.progress.error
    return ""


class FileSource:
    """A view as a source; `name` is "files"."""

    name = "files"

    def __init__(
        self, view: View, *, lexical_weight: float, thread: Executor, among: list[Waiting] | None = None
    ) -> None:
        """`lexical_weight` is the share of words in a score; `among` are the searches that wait."""
        self._view = view
        self._lexical_weight = lexical_weight
        self._thread = thread
        self._among = [] if among is None else among

    async def search(self, question: Question) -> Rows:
        """The heads that answer best, each once, with the best score of its chain; then what hops reach."""
        vectors = question.vectors
        if vectors is None:
            await in_turn.turn()
            return self._rows(question)
        if len(self._view) * vectors.size >= _INLINE_WORK:
            return await in_turn.in_thread(self._thread, partial(self._rows, question))
        with joined(self._among, self._view.maps, vectors, self._view.key) as waiting:
            await in_turn.turn()
            cosines = waiting.cosines()
        return self._rows(question, cosines)

    def _rows(self, question: Question, cosines: Cosines | None = None) -> Rows:
        found = self._found(question, cosines)
        if question.least_evidence == _NOTHING or not len(self._view):
            candidates, ranked = self._widened(found, question)
            if question.strong is not None:
                ranked = rated(found, self._view.baseline, candidates, ranked, question.strong)
            return Rows(ranked)
        reading = weigh(found, self._view.baseline)
        if is_hopeless(reading, question.least_evidence, goes_on=question.goes_on):
            return Rows(evidence=reading.evidence)
        candidates, ranked = self._widened(found, question)
        if not question.near_best:
            return Rows(ranked, evidence=reading.evidence)
        kept = self._kept(reading, candidates, question)
        keys = {each.key for each in kept}
        far = tuple(each.memory.id for each in ranked if each.key not in keys)
        return Rows(kept, far, reading.evidence)

    def _kept(
        self, reading: Reading, candidates: Sequence[Candidate], question: Question
    ) -> tuple[Ranked, ...]:
        """What may be injected, with why, and what its links lead to for a reason of its own."""
        least = question.least_evidence
        let_in = admitted(reading, candidates, least, goes_on=question.goes_on)

        def leads(source: Place, target: Place) -> bool:
            return reading.concerns(*target, least) or reading.is_strong(*source, least)

        near, came = [each.candidate for each in let_in], {each.candidate: each.came for each in let_in}
        top_k, depth = question.top_k, question.hop_depth
        kept = rank(self._view, near, top_k=top_k, hop_depth=depth, leads=leads, came=came)
        return _unheard(kept, question)

    def _found(self, question: Question, cosines: Cosines | None) -> Found:
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

    def _widened(self, found: Found, question: Question) -> tuple[list[Candidate], tuple[Ranked, ...]]:
        """Look further until `top_k` chains are found: versions of one memory may take all first places.

        What lies far below the best is left out later, or the look would go on to the last row for it.
        """
        superseded = sum(len(each.chains.head_of) for each in self._view.maps)
        wanted = question.top_k + min(superseded, 3 * question.top_k)
        k = wanted + min(len(question.heard), question.top_k)
        while True:
            best = found.best(k)
            candidates = self._first_of_chains(best, question)[:wanted]
            ranked = rank(self._view, candidates, top_k=question.top_k, hop_depth=question.hop_depth)
            if len(best) < k or sum(each.via == "search" for each in ranked) == question.top_k:
                return candidates, _unheard(ranked, question)
            k *= 4

    def _first_of_chains(self, candidates: Sequence[Candidate], question: Question) -> list[Candidate]:
        """The best candidate of each memory, whichever version it is; none of what the session has heard."""
        first: dict[tuple[str, str], Candidate] = {}
        for each in candidates:
            home = self._view.maps[each.map_index]
            first.setdefault((home.root, home.chains.head(home.at(each.row).id)), each)
        return [each for key, each in first.items() if key not in question.heard]


def _unheard(ranked: Sequence[Ranked], question: Question) -> tuple[Ranked, ...]:
    return tuple(each for each in ranked if each.key not in question.heard)


Place = tuple[int, int]
"""A row of a map, by the map's place."""


NOTHING_DECIDED: Mapping[Candidate, str] = MappingProxyType({})
"""Why candidates came of a search without a gate."""


def _always(_source: Place, _target: Place) -> bool:
    return True


def rank(
    view: View,
    candidates: Sequence[Candidate],
    *,
    top_k: int,
    hop_depth: int,
    leads: Callable[[Place, Place], bool] = _always,
    came: Mapping[Candidate, str] = NOTHING_DECIDED,
) -> tuple[Ranked, ...]:
    """Candidates to answers: a chain's head once, with the best score of the chain; then what hops reach.

    `leads` says whether a hop may go from one head to another, and `came` why a candidate was let in.
    Superseded memories never show but as older versions of their head.
    """
    best: dict[Key, Ranked] = {}
    for candidate in candidates:
        home = view.maps[candidate.map_index]
        memory = home.at(candidate.row)
        head = home.chains.head_of.get(memory.id)
        key = (candidate.map_index, head or memory.id)
        if key in best:
            continue
        why = came.get(candidate, "")
        found = Ranked(memory, candidate.score, candidate.cosine, candidate.lexical, root=home.root, came=why)
        best[key] = found if head is None else _as_head(view, key, found)
        if len(best) == top_k:
            break
    if not any(each.memory.related for each in best.values()):
        return tuple(best.values())

    def led_to(key: Key) -> Iterator[Key]:
        source = view.maps[key[0]].row_of(key[1])
        for place, head in view.heads_led_to(key):
            row = view.maps[place].row_of(head)
            if source is not None and row is not None and leads((key[0], source), (place, row)):
                yield place, head

    reached = hops(tuple(best), led_to, depth=hop_depth, limit=top_k)
    return (*best.values(), *(_as_head(view, each, via="hop") for each in reached))


def _as_head(view: View, key: Key, found: Ranked | None = None, via: str = "search") -> Ranked:
    """The head of a chain with its older versions, in the place of the version that was found."""
    place, head = key
    home = view.maps[place]
    memory = home.find(head)
    assert memory is not None, "chains and edges name memories of their own map"
    beside = home.chains.beside(head)
    others = [each for each in reversed(view.chain(home, head)) if each.id != head]
    older = tuple(each for each in others if each.id not in beside)
    rivals = tuple(each for each in others if each.id in beside)
    found = found or Ranked(memory, 0.0, via=via, root=home.root, came=via)
    return msgspec.structs.replace(found, memory=memory, older=older, rivals=rivals)
