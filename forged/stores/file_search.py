"""The search of one view: its maps are searched as if they were one store.

In: a `Question`; out: `Rows` of the best heads, each chain once, gated where asked for, with why each came,
then those that links lead to, and those that stayed out. A long search runs in the given thread, so that
other requests are answered meanwhile. Nothing is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

import msgspec

from forged import fair_queue
from forged.map import (
    CANDIDATES,
    UNGATED,
    Candidate,
    Cosines,
    Found,
    Reading,
    Verdict,
    Waiting,
    hops,
    is_hopeless,
    is_near,
    joined,
    leads,
    search_maps,
    verdicts,
    weigh,
)
from forged.stores.values import GIVEN, Key, Question, Ranked, Rows, Stayed, View

# Multiply-adds that are searched on the event loop, some milliseconds; more goes to the thread.
_INLINE_WORK = 20_000_000
# Candidates that are looked at for each one that may come: by evidence the order is another.
_POOL = 2
# So many cost no more than fewer. Memories in context seldom take the first places of a large store.
_FREE = CANDIDATES // 2

Id = tuple[str, str]
"""A memory by the top of its root and the id of its newest version."""

Place = tuple[int, int]
"""A row of a map, by the map's place."""

_UNGATED: Mapping[Candidate, str] = MappingProxyType({})


class FileSource:
    """A view as a source."""

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
            await fair_queue.turn()
            return self._rows(question)
        if len(self._view) * vectors.size >= _INLINE_WORK:
            return await fair_queue.in_thread(self._thread, partial(self._rows, question))
        with joined(self._among, self._view.maps, vectors, self._view.key) as waiting:
            await fair_queue.turn()
            cosines = waiting.cosines()
        return self._rows(question, cosines)

    def _rows(self, question: Question, cosines: Cosines | None = None) -> Rows:
        if question.least_evidence == float("-inf") or not len(self._view):
            return self._ungated(question, cosines)
        found, reading = self._weighed(question, cosines)
        is_lost = is_hopeless(reading, question.least_evidence, turn=question.turn)
        if is_lost and not question.explains:
            return Rows(evidence=reading.evidence)
        candidates = self._candidates(found, question, _POOL * question.top_k + len(question.beside))
        judged = self._judged(reading, candidates, question)
        kept = self._kept(reading, judged, question)
        given = self._given(found, question, _POOL * question.top_k)
        words = verdicts(reading, given, question.least_evidence, turn=question.turn, most=len(given))
        fit = self._as_given({each.candidate: each.evidence for each in words if not each.stayed})
        return Rows(kept, (*fit, *self._stayed(judged, kept, question)), reading.evidence)

    def _judged(
        self, reading: Reading, candidates: Mapping[Id, Candidate], question: Question
    ) -> dict[Id, Verdict]:
        """Judge each; one that comes anyhow takes no place of others."""
        anyhow = [key for key in candidates if key in question.beside]
        others = [key for key in candidates if key not in anyhow]
        judged = dict[Id, Verdict]()
        for keys, most in ((others, question.top_k), (anyhow, len(anyhow))):
            own = [candidates[key] for key in keys]
            found = verdicts(reading, own, question.least_evidence, turn=question.turn, most=most)
            judged |= zip(keys, found, strict=True)
        return {key: judged[key] for key in candidates}

    def _ungated(self, question: Question, cosines: Cosines | None) -> Rows:
        """The best, of which nothing is held back; with a word for each where that is asked for."""
        found = self._found(question, cosines)
        fit = self._as_given(dict.fromkeys(self._given(found, question, question.top_k), float("inf")))
        candidates = list(self._candidates(found, question, question.top_k).values())
        ranked = self._ranked(candidates, question)
        if question.strong is not None:
            ranked = self._rated(found, candidates, ranked, question.strong)
        return Rows(ranked, fit)

    def _weighed(self, question: Question, cosines: Cosines | None) -> tuple[Found, Reading]:
        """A message that is strong by itself speaks for itself; any other goes on from what was said."""
        if question.continued is not None:
            alone = self._found(_alone(question), None if cosines is None else cosines.some(0, 1))
            own = weigh(alone, self._view.baseline)
            if own.evidence >= question.least_evidence:
                return alone, own
        found = self._found(question, cosines)
        return found, weigh(found, self._view.baseline)

    def _kept(self, reading: Reading, judged: Mapping[Id, Verdict], question: Question) -> tuple[Ranked, ...]:
        """Return the memories that may be injected, with why, and those that links lead to for a reason."""
        let_in = {each.candidate: each.came for each in judged.values() if not each.stayed}
        reading.evidences(self._led_to(let_in))  # at once: one by one that takes as long as a search
        may_lead = partial(leads, reading, least=question.least_evidence)
        return self._ranked(list(let_in), question, leads=may_lead, came=let_in)

    def _led_to(self, candidates: Iterable[Candidate]) -> list[Place]:
        """The rows that links of these lead to."""
        maps = self._view.maps
        heads = ((each.map_index, self._key(each)[1]) for each in candidates)
        reached = dict.fromkeys(other for head in heads for other in self._view.heads_led_to(head))
        return [(place, row) for place, head in reached if (row := maps[place].row_of(head)) is not None]

    def _stayed(
        self, judged: Mapping[Id, Verdict], kept: Sequence[Ranked], question: Question
    ) -> tuple[Stayed, ...]:
        """Return those near the top that stayed out, with why, but for those that a link led to."""
        came, out = {each.key for each in kept}, list[Stayed]()
        for (root, memory_id), each in judged.items():
            memory = self._view.maps[each.candidate.map_index].find(memory_id)
            if each.stayed and memory is not None and (root, memory_id) not in came:
                out.append(Stayed(memory, root, each.stayed, each.evidence))
        return tuple(out[: question.top_k])

    def _given(self, found: Found, question: Question, places: int) -> list[Candidate]:
        """Those of the first `places` memories that the session has in context."""
        if not question.heard:
            return []
        best = found.best(places + len(question.heard))
        first = self._first_of_chains(best, msgspec.structs.replace(question, heard=frozenset()))
        return [each for key, each in islice(first.items(), places) if key in question.heard]

    def _as_given(self, fit: Mapping[Candidate, float]) -> tuple[Stayed, ...]:
        """Candidates with their evidence, as memories that stay out because they are in context."""
        heads = ((self._view.maps[each.map_index], *self._key(each)) for each in fit)
        return tuple(
            Stayed(memory, root, GIVEN, evidence)
            for (home, root, head), evidence in zip(heads, fit.values(), strict=True)
            if (memory := home.find(head)) is not None
        )

    def _ranked(self, candidates: Sequence[Candidate], question: Question, **how: Any) -> tuple[Ranked, ...]:
        """Answers, without those that a link leads to and that are in context or not wanted."""
        top_k = question.top_k + len(question.beside)
        ranked = rank(self._view, candidates, top_k=top_k, hop_depth=question.hop_depth, **how)
        return tuple(each for each in ranked if _may_come(question, each.key))

    def _rated(
        self, found: Found, candidates: Sequence[Candidate], ranked: tuple[Ranked, ...], strong: float
    ) -> tuple[Ranked, ...]:
        """Answers with the gate's word for each; none without a baseline, or of what a link led to."""
        reading = weigh(found, self._view.baseline)
        if reading.evidence == UNGATED:
            return ranked
        evidence = reading.evidences([(each.map_index, each.row) for each in candidates])
        pairs = reversed([*zip(map(self._key, candidates), evidence, strict=True)])
        words = {key: word(own, strong) for key, own in pairs}
        return tuple(msgspec.structs.replace(each, came=words.get(each.key, each.came)) for each in ranked)

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

    def _candidates(self, found: Found, question: Question, count: int) -> dict[Id, Candidate]:
        """The best of `count` chains: versions of one memory may take all first places."""
        superseded = sum(len(each.chains.head_of) for each in self._view.maps)
        few = count + min(superseded, 3 * count)
        most = few + len(question.heard)
        k = min(most, max(few, _FREE))
        while True:
            best = found.best(k)
            candidates = self._first_of_chains(best, question)
            if len(best) < k or len(candidates) >= count:
                return dict(islice(candidates.items(), count))
            # What a filter wants is rare or it is not: then all rows are looked through, once.
            more = 4 * k if question.admits is None else sum(each.starts[-1] for each in self._view.maps)
            k = most if k < most else max(k + 1, more)

    def _key(self, candidate: Candidate) -> Id:
        """Of the memory that a row is a version of."""
        home = self._view.maps[candidate.map_index]
        return home.root, home.chains.head(home.at(candidate.row).id)

    def _first_of_chains(self, candidates: Sequence[Candidate], question: Question) -> dict[Id, Candidate]:
        """The best candidate of each memory, whichever version it is; none that was heard or may not come."""
        first = dict[Id, Candidate]()
        for each in candidates:
            if _may_come(question, key := self._key(each)):
                first.setdefault(key, each)
        return first


def _may_come(question: Question, key: Id) -> bool:
    return key not in question.heard and (question.admits is None or question.admits(*key))


def _alone(question: Question) -> Question:
    """The message without what it goes on from."""
    vectors = None if question.vectors is None else question.vectors[:1]
    return msgspec.structs.replace(question, texts=question.texts[:1], vectors=vectors, continued=None)


def word(evidence: float, strong: float) -> str:
    """Evidence in a word for people."""
    if evidence >= strong:
        return "strong"
    return "near" if is_near(evidence, strong) else "weak"


def rank(
    view: View,
    candidates: Sequence[Candidate],
    *,
    top_k: int,
    hop_depth: int,
    leads: Callable[[Place, Place], bool] = lambda _source, _target: True,
    came: Mapping[Candidate, str] = _UNGATED,
) -> tuple[Ranked, ...]:
    """Candidates to answers: a chain's head once, with the best score of the chain; then what hops reach.

    `leads` says whether a hop may go from one head to another, and `came` why a candidate was let in.
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
