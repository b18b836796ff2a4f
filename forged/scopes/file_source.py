"""A view of the file roots of a request as a source: they are searched as if they were one store.

Out come the heads that answer best, gated where that is asked for, each with why it came, and what stayed
out. A search that is long runs in the thread that is given, so that other requests are answered meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

import msgspec

from forged import in_turn
from forged.map import (
    Candidate,
    Cosines,
    Found,
    Reading,
    Verdict,
    is_hopeless,
    leads,
    search_maps,
    verdicts,
    weigh,
)
from forged.scopes.heads import rank
from forged.scopes.source import Question, Ranked, Rows, Stayed
from forged.scopes.tiers import rated
from forged.scopes.together import Waiting, joined
from forged.scopes.view import View

# Multiply-adds that are searched on the event loop, some milliseconds; more goes to the thread.
_INLINE_WORK = 20_000_000
_NOTHING = float("-inf")
# Candidates that are looked at for each one that may come: by evidence the order is another.
_POOL = 2


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
        if not question.near_best or not len(self._view):
            return Rows(self._ungated(question, cosines))
        found, reading = self._weighed(question, cosines)
        least, turn, top_k = question.least_evidence, question.turn, question.top_k
        if is_hopeless(reading, least, turn=turn) and not question.explains:
            return Rows(evidence=reading.evidence)
        candidates = self._candidates(found, question, _POOL * top_k + len(question.beside))
        # What comes anyhow takes no place of others, and is found all the same if enough speaks for it.
        anyhow = [each for each in candidates if self._key(each) in question.beside]
        others = [each for each in candidates if each not in anyhow]
        judged = verdicts(reading, others, least, turn=turn, most=top_k)
        judged += verdicts(reading, anyhow, least, turn=turn, most=len(anyhow))
        judged.sort(key=lambda each: candidates.index(each.candidate))
        kept = self._kept(reading, judged, question)
        return Rows(kept, self._stayed(judged, kept, question), reading.evidence)

    def _ungated(self, question: Question, cosines: Cosines | None) -> tuple[Ranked, ...]:
        """The best, of which nothing is held back; with a word for each where that is asked for."""
        found = self._found(question, cosines)
        candidates = self._candidates(found, question, question.top_k)
        ranked = _unheard(self._ranked(candidates, question), question)
        if question.strong is None:
            return ranked
        return rated(found, self._view.baseline, candidates, ranked, question.strong)

    def _weighed(self, question: Question, cosines: Cosines | None) -> tuple[Found, Reading]:
        """A message that is strong by itself speaks for itself; any other goes on from what was said."""
        found = self._found(question, cosines)
        if question.continued is not None:
            alone = self._found(_alone(question), None if cosines is None else cosines.some(0, 1))
            own = weigh(alone, self._view.baseline)
            if own.evidence >= question.least_evidence:
                return alone, own
        return found, weigh(found, self._view.baseline)

    def _kept(self, reading: Reading, judged: Sequence[Verdict], question: Question) -> tuple[Ranked, ...]:
        """What may be injected, with why, and what its links lead to for a reason of its own."""
        let_in = {each.candidate: each.came for each in judged if not each.stayed}
        may_lead = partial(leads, reading, least=question.least_evidence)
        return _unheard(self._ranked(list(let_in), question, leads=may_lead, came=let_in), question)

    def _stayed(
        self, judged: Sequence[Verdict], kept: Sequence[Ranked], question: Question
    ) -> tuple[Stayed, ...]:
        """What was near the top and stayed out, with why; a link may have led to it all the same."""
        came = {each.key for each in kept}
        out = []
        for each in judged:
            home = self._view.maps[each.candidate.map_index]
            memory = home.find(home.chains.head(home.at(each.candidate.row).id))
            if each.stayed and memory is not None and (home.root, memory.id) not in came:
                out.append(Stayed(memory, home.root, each.stayed, each.evidence))
        return tuple(out[: question.top_k])

    def _ranked(self, candidates: Sequence[Candidate], question: Question, **how: Any) -> tuple[Ranked, ...]:
        top_k = question.top_k + len(question.beside)
        return rank(self._view, candidates, top_k=top_k, hop_depth=question.hop_depth, **how)

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

    def _candidates(self, found: Found, question: Question, count: int) -> list[Candidate]:
        """The best of `count` chains: versions of one memory may take all first places."""
        superseded = sum(len(each.chains.head_of) for each in self._view.maps)
        k = count + len(question.heard) + min(superseded, 3 * count)
        while True:
            best = found.best(k)
            candidates = self._first_of_chains(best, question)
            if len(best) < k or len(candidates) >= count:
                return candidates[:count]
            k *= 4

    def _key(self, candidate: Candidate) -> tuple[str, str]:
        """Of the memory that a row is a version of."""
        home = self._view.maps[candidate.map_index]
        return home.root, home.chains.head(home.at(candidate.row).id)

    def _first_of_chains(self, candidates: Sequence[Candidate], question: Question) -> list[Candidate]:
        """The best candidate of each memory, whichever version it is; none of what the session has heard."""
        first: dict[tuple[str, str], Candidate] = {}
        for each in candidates:
            first.setdefault(self._key(each), each)
        return [each for key, each in first.items() if key not in question.heard]


def _unheard(ranked: Sequence[Ranked], question: Question) -> tuple[Ranked, ...]:
    return tuple(each for each in ranked if each.key not in question.heard)


def _alone(question: Question) -> Question:
    """The message without what it goes on from."""
    vectors = None if question.vectors is None else question.vectors[:1]
    return msgspec.structs.replace(question, texts=question.texts[:1], vectors=vectors, continued=None)
