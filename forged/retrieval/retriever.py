"""From a turn to its injection, by a deadline: cache, hypotheses, vectors, both legs, chains, hops.

One place degrades. A `ProviderError` or a passed deadline ends here, as an answer that says what happened
(design.md D5-D9): explicit `hyde` answers with nothing, `auto` falls back to the direct strategy and then
to the lexical leg. A pipeline that is late runs on for a while, so that the next sub-turn finds it done.
Nothing here knows files, sockets or HTTP.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from forged import conversation
from forged.conversation import Utterance
from forged.counters import Metrics
from forged.errors import ProviderError
from forged.map import chains, relevance
from forged.map.relevance import Reading
from forged.map.search import Candidate, Found, search_maps
from forged.map.vector_map import View
from forged.models import ChatModel, Embedder, Vectors
from forged.retrieval import hyde, injection
from forged.retrieval.turn_cache import TurnCache, TurnKey
from forged.retrieval.values import Answer, Ask, Ranked
from forged.text.redaction import redact

logger = logging.getLogger(__name__)

LATE_S = 15.0
# The part of the budget that `auto` keeps for its fallback, and the most that it keeps.
_RESERVE, _RESERVE_S = 0.25, 0.5
# Of that part, before the deadline, from when on the hypotheses that stand have to do.
_SETTLING = 1.5
# Multiply-adds that are searched on the event loop, about 2 ms; more goes to the search thread.
_INLINE_WORK = 50_000_000
FIRST_BUILD = "first build is running"
NO_MEMORIES = "no memories yet"
BESIDE_THE_POINT = "nothing here is about this message"
WORDS_ONLY = "vectors are on their way; answered by words"

See = Callable[[float], Awaitable[View]]
_T = TypeVar("_T")


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the configuration that shapes a retrieval.

    `min_score` is the share of unrelated messages that the gate keeps out; 0 or less: there is no gate.
    """

    strategy: str
    hypothesis_count: int
    lexical_weight: float
    min_score: float


class _Hurry:
    """Whether the hypotheses that stand have to do, because somebody's deadline is near.

    Just before it, so that there is time left to embed them, and not after: who is late anyway waits for all
    of them, for the turn cache.
    """

    def __init__(self) -> None:
        self._windows: list[tuple[float, float]] = []

    def join(self, deadline: float) -> None:
        """Somebody waits until then."""
        self._windows.append((deadline - _SETTLING * _reserve(deadline), deadline))

    def __call__(self) -> bool:
        now = time.monotonic()
        return any(begins <= now < deadline for begins, deadline in self._windows)


class _Flight(msgspec.Struct, frozen=True):
    """The one pipeline of a turn, and when those who share it are in a hurry."""

    task: asyncio.Task[Answer]
    hurry: _Hurry


class Retriever:
    """Answers asks over views; shared by all connections of the daemon."""

    def __init__(
        self, *, embedder: Embedder | None, chat: ChatModel | None, tuning: Tuning, metrics: Metrics
    ) -> None:
        self._embedder = embedder
        self._chat = chat
        self._tuning = tuning
        self._metrics = metrics
        self.cache = TurnCache(time.monotonic)
        self._flights: dict[tuple[TurnKey, int], _Flight] = {}
        self._search_thread = ThreadPoolExecutor(1, thread_name_prefix="search")

    async def retrieve(self, ask: Ask, roots: tuple[str, ...], see: See) -> tuple[Answer, bool]:
        """Answer by `ask.deadline`; the flag tells whether it came from the turn cache.

        `see` yields the view of `roots`, waiting for a first build no longer than the deadline it is given.
        Never raises for a provider or a deadline.
        """
        if not ask.hypotheses and not ask.window:
            return Answer(status="empty", reason="empty_window"), False
        if not ask.turn_id:
            return await self._alone(ask, see), False
        key = (ask.session_id, roots, ask.turn_id, ask.digest())
        cached = self.cache.get(key, ask.min_generation)
        if cached is not None:
            return cached, True
        flight = self._flights.get((key, ask.min_generation)) or self._launch(key, ask, see)
        flight.hurry.join(ask.deadline)
        return await self._by_deadline(flight.task, ask, see), False

    async def _alone(self, ask: Ask, see: See) -> Answer:
        """A turn without a name is answered once and never kept (bug 12), so nobody waits for it late."""
        hurry = _Hurry()
        hurry.join(ask.deadline)
        task = asyncio.create_task(self._pipeline(ask, see, hurry))
        try:
            return await self._by_deadline(task, ask, see)
        finally:
            task.cancel()

    def _launch(self, key: TurnKey, ask: Ask, see: See) -> _Flight:
        """Start the one pipeline of a turn; whoever asks for the same turn meanwhile shares it (bug 13)."""
        hurry = _Hurry()
        flight = _Flight(asyncio.create_task(self._pipeline(ask, see, hurry)), hurry)
        self._flights[key, ask.min_generation] = flight
        purges = self.cache.purges

        def landed(task: asyncio.Task[Answer]) -> None:
            self._flights.pop((key, ask.min_generation), None)
            if task.cancelled() or task.exception() is not None or self.cache.purges != purges:
                return
            if task.result().status != "not_ready":
                self.cache.put(key, task.result())

        flight.task.add_done_callback(landed)
        return flight

    async def _by_deadline(self, flight: asyncio.Task[Answer], ask: Ask, see: See) -> Answer:
        """The flight's answer, or at the deadline the best that can be had without it."""
        if not self._falls_back:
            await asyncio.wait({flight}, timeout=_left(ask.deadline))
            return flight.result() if flight.done() else await self._late(see)
        await asyncio.wait({flight}, timeout=_left(ask.deadline) - _reserve(ask.deadline))
        if flight.done():
            return flight.result()
        spare = asyncio.create_task(self._fallback(ask, see, "timeout"))
        await asyncio.wait({flight, spare}, timeout=_left(ask.deadline))
        if flight.done():
            spare.cancel()
            return flight.result()
        answer = spare.result() if spare.done() else await self._lexical(ask, see, "timeout")
        spare.cancel()
        return answer if answer is not None else await self._late(see)

    @property
    def _falls_back(self) -> bool:
        return self._tuning.strategy == "auto"

    async def _late(self, see: See) -> Answer:
        view = await see(0.0)
        if view.waiting:
            return Answer(status="not_ready", reason=FIRST_BUILD)
        return Answer(status="timeout", reason="retrieval_timeout_s is over", generation=view.generation)

    async def _pipeline(self, ask: Ask, see: See, hurry: _Hurry) -> Answer:
        """Queries, their vectors, the search: until 15 s past the deadline, for the turn cache."""
        limit = ask.deadline + LATE_S
        try:
            async with asyncio.timeout_at(limit):
                view = await see(0.0)
                if _holds_nothing(view, ask.min_generation):
                    return Answer(status="empty", reason=NO_MEMORIES, generation=view.generation)
                strategy, queries = await self._queries(ask, limit, hurry)
                if not queries:
                    return Answer(status="empty", reason="no_hypotheses", strategy=strategy)
                view = await see(limit)
                vectors = await self._embed(view, queries, limit)
                return await self._search(ask, view, queries, vectors, strategy=strategy)
        except (ProviderError, TimeoutError) as error:
            reason = error.reason if isinstance(error, ProviderError) else "timeout"
            logger.debug("retrieval failed reason=%s", reason)
            spare = await self._fallback(ask, see, reason) if self._falls_back else None
            return spare or Answer(status="error", reason=f"provider: {reason}")

    async def _queries(
        self, ask: Ask, limit: float, hurried: Callable[[], bool]
    ) -> tuple[str, tuple[str, ...]]:
        """The strategy's name and its query texts."""
        # The message is one more query: hypotheses of a weak model alone lose recall (feasibility 1.2).
        message = ask.plain_queries
        if ask.hypotheses:
            return "caller", tuple(dict.fromkeys((*ask.hypotheses, *message)))
        if self._chat is None:
            return "direct", message
        window = [self._public(utterance) for utterance in conversation.window(ask.window)]
        found = await hyde.hypotheses(
            self._chat, window, count=self._tuning.hypothesis_count, deadline=limit, hurried=hurried
        )
        if not found and self._falls_back:
            raise ProviderError("the model wrote no hypothesis", reason="no_hypotheses")
        return "hyde", (*found, *message) if found else ()

    async def _embed(self, view: View, queries: Sequence[str], limit: float) -> Vectors | None:
        """Vectors of the queries, or None where no map has any to compare them with (yet)."""
        if self._embedder is None or "dense" not in view.legs:
            return None
        return await self._embedder.embed([self._redacted(text) for text in queries], "query", deadline=limit)

    def _public(self, utterance: Utterance) -> Utterance:
        return Utterance(utterance.role, self._redacted(utterance.text))

    def _redacted(self, text: str) -> str:
        """A text as it may leave for a model; the legs that stay here search for it as it is."""
        clean = redact(text)
        self._metrics.secrets_redacted += clean.count
        return clean.text

    async def _fallback(self, ask: Ask, see: See, reason: str) -> Answer | None:
        """`auto` without what failed: the direct strategy if HyDE was in the way, else the lexical leg."""
        self._metrics.retrieve_fallbacks += 1
        if self._chat is not None and not ask.hypotheses:
            deadline = max(ask.deadline, time.monotonic() + _RESERVE_S)
            try:
                async with asyncio.timeout_at(deadline):
                    view = await see(deadline)
                    vectors = await self._embed(view, ask.plain_queries, deadline)
                return await self._search(
                    ask, view, ask.plain_queries, vectors, strategy="direct", reason=f"hyde: {reason}"
                )
            except (ProviderError, TimeoutError):
                pass  # the lexical leg needs nobody
        return await self._lexical(ask, see, reason)

    async def _lexical(self, ask: Ask, see: See, reason: str) -> Answer | None:
        """The lexical leg's answer, if there is such a leg."""
        view = await see(ask.deadline)
        if "lexical" not in view.legs:
            return None
        return await self._search(
            ask, view, ask.plain_queries, None, strategy="direct", reason=f"provider: {reason}"
        )

    async def _search(
        self,
        ask: Ask,
        view: View,
        queries: Sequence[str],
        vectors: Vectors | None,
        *,
        strategy: str,
        reason: str = "",
        gated: bool = True,
    ) -> Answer:
        """Weigh, rank, walk and render. `reason` is set when this is a fallback.

        What a fallback found, or a view that lacks a root, is not kept for the turn.
        """
        missing = FIRST_BUILD if view.waiting else view.problem
        lacking = missing or self._oddity(view, vectors)
        found = await self._found(view, ask.message, queries, vectors)
        reading, held_back = None, ""
        if gated and self._tuning.min_score > 0 and len(view):
            reading = await self._beside(view, vectors, lambda: relevance.weigh(found, view.baseline))
            held_back = self._held_back(reading)
        ranked, far = ((), ()) if held_back else await self._ranked(ask, view, found, vectors, reading)
        # Words and the gate speak for the roots that are there; the answer may lie in the one that is not.
        if not ranked and (missing or (lacking not in {"", WORDS_ONLY} and not held_back)):
            return Answer(status="not_ready" if view.waiting else "error", reason=lacking)
        block = injection.render(
            [injection.Entry(r.memory, r.older, r.via) for r in ranked], ask.budget_tokens
        )
        return Answer(
            status="ok" if block.text else "empty",
            reason=reason or lacking or held_back or _why_empty(view, ranked, block),
            ranked=ranked,
            far=far,
            text=block.text,
            digest=block.digest,
            included=block.included,
            omitted=block.omitted,
            strategy=strategy,
            legs=tuple(leg for leg in view.legs if leg == "lexical" or vectors is not None),
            hypotheses=tuple(queries) if strategy != "direct" else (),
            generation=view.generation,
            degraded=bool(reason or lacking),
        )

    def _oddity(self, view: View, vectors: Vectors | None) -> str:
        """Why the dense leg could not take part as it should, or nothing."""
        if vectors is not None:
            return _odd_sized(view, vectors)
        return WORDS_ONLY if self._embedder is not None and len(view) and "dense" not in view.legs else ""

    def _held_back(self, reading: Reading) -> str:
        """Why the gate lets nothing through, or nothing."""
        needed = relevance.threshold(self._tuning.min_score)
        if reading.evidence >= needed:
            return ""
        evidence = f"evidence {reading.evidence:.2f}, needed {needed:.2f}"
        return f"{BESIDE_THE_POINT} ({evidence}: memory.retrieval_min_score)"

    async def _ranked(
        self, ask: Ask, view: View, found: Found, vectors: Vectors | None, reading: Reading | None
    ) -> tuple[tuple[Ranked, ...], tuple[str, ...]]:
        """Look further until top_k chains are found: versions of one memory may take all first places.

        What lies far below the best is left out at the end, or the look would go on to the last row for it;
        its ids come second. Without a `reading` nothing is left out.
        """
        k = _with_room(ask.top_k, view)
        while True:
            candidates = await self._beside(view, vectors, functools.partial(found.best, k))
            ranked = rank(view, candidates, top_k=ask.top_k, hop_depth=ask.hop_depth)
            if len(candidates) < k or sum(r.via == "search" for r in ranked) == ask.top_k:
                break
            k *= 4
        if reading is None:
            return ranked, ()
        kept = rank(view, reading.near_best(candidates), top_k=ask.top_k, hop_depth=ask.hop_depth)
        ids = {each.memory.id for each in kept}
        return kept, tuple(each.memory.id for each in ranked if each.memory.id not in ids)

    async def _found(
        self, view: View, message: str, queries: Sequence[str], vectors: Vectors | None
    ) -> Found:
        compare = functools.partial(
            search_maps,
            view.maps,
            texts=queries,
            vectors=vectors,
            lexical_weight=self._tuning.lexical_weight,
            message=queries.index(message) if message in queries else None,
            key=self._embedder.key if self._embedder is not None else None,
        )
        return await self._beside(view, vectors, compare)

    async def _beside(self, view: View, vectors: Vectors | None, work: Callable[[], _T]) -> _T:
        """Do it on the loop when it is short, else in the search thread, so that pings go on."""
        if len(view) * (vectors.size if vectors is not None else 0) < _INLINE_WORK:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._search_thread, work)

    async def search(self, ask: Ask, view: View, *, gated: bool = False) -> Answer:
        """Ranked memories for the message of `ask`, without hypotheses and cache.

        Who asks for a list gets one: the gate stands only before an injection, or where it is asked for.
        """
        queries = (ask.message,)
        try:
            async with asyncio.timeout_at(ask.deadline):
                vectors = await self._embed(view, queries, ask.deadline)
            return await self._search(ask, view, queries, vectors, strategy="direct", gated=gated)
        except (ProviderError, TimeoutError) as error:
            reason = error.reason if isinstance(error, ProviderError) else "timeout"
            if self._falls_back and "lexical" in view.legs:
                return await self._search(
                    ask, view, queries, None, strategy="direct", reason=f"provider: {reason}", gated=gated
                )
            if view.waiting:
                return Answer(status="not_ready", reason=FIRST_BUILD, generation=view.generation)
            status = "timeout" if reason == "timeout" else "error"
            return Answer(status=status, reason=f"provider: {reason}", generation=view.generation)

    def close(self) -> None:
        """Stop what runs late."""
        for flight in self._flights.values():
            flight.task.cancel()
        self._search_thread.shutdown(wait=False, cancel_futures=True)


def rank(view: View, candidates: Sequence[Candidate], *, top_k: int, hop_depth: int) -> tuple[Ranked, ...]:
    """Candidates to answers: a chain's head once, with the best score of the chain; then what hops reach.

    Superseded memories never show but as older versions of their head (design.md D10, D11).
    """
    best: dict[str, Ranked] = {}
    for candidate in candidates:
        home = view.maps[candidate.map_index]
        head = home.chains.head(home.memories[candidate.row].id)
        if head not in best:
            best[head] = _ranked(view, head, candidate)
            if len(best) == top_k:
                break
    reached = chains.hops(tuple(best), view.heads_led_to, depth=hop_depth, limit=top_k)
    return (*best.values(), *(_ranked(view, memory_id) for memory_id in reached))


def _ranked(view: View, head: str, candidate: Candidate | None = None) -> Ranked:
    found = view.find(head)
    assert found is not None, "chains and edges name memories of the view"
    home, memory = found
    older = tuple(reversed([m for m in view.chain(home, head) if m.id != head]))
    if candidate is None:
        return Ranked(memory, 0.0, via="hop", older=older)
    return Ranked(memory, candidate.score, candidate.cosine, candidate.lexical, older=older)


def _with_room(top_k: int, view: View) -> int:
    """Candidates to take so that chains that collapse to their head still leave top_k."""
    superseded = sum(len(m.chains.head_of) for m in view.maps)
    return top_k + min(superseded, 3 * top_k)


def _odd_sized(view: View, vectors: Vectors) -> str:
    """Say that some map cannot be compared with the queries: the model was replaced behind its name."""
    sizes = {m.dense.dimension for m in view.maps if m.dense is not None}
    if sizes <= {vectors.shape[1]}:
        return ""
    return "vectors of another dimension; forgectl rebuild --full embeds anew"


def _why_empty(view: View, ranked: Sequence[Ranked], block: injection.Injection) -> str:
    if block.text:
        return ""
    if ranked:
        return "nothing fits the token budget"
    return "no memory matches" if len(view) else NO_MEMORIES


def _holds_nothing(view: View, min_generation: int) -> bool:
    """Whether every root is known to be empty: then neither a model nor an endpoint is asked."""
    return not (len(view) or view.waiting or view.problem) and view.generation >= min_generation


def _reserve(deadline: float) -> float:
    return min(_RESERVE * _left(deadline), _RESERVE_S)


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.0)
