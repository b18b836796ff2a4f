"""From a turn to its injection, by one deadline: hypotheses, vectors, search, text.

In goes an `Ask` and the sources that may be searched, out comes an `Answer`; nothing is raised for a model,
an endpoint or a source that fails. This is the one place that degrades: explicit `hyde` answers with nothing,
`auto` falls back to the direct strategy and then to words alone, and the answer says what happened. A
pipeline that is late runs on for a while, so that whoever asks again finds it done. Nothing here knows files,
sockets or HTTP, and only what is to be injected is rendered.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from forged import conversation
from forged.counters import Metrics
from forged.errors import ProviderError
from forged.map import threshold
from forged.models import ChatModel, Embedder, Purpose, Vectors
from forged.retrieval import hyde, injection
from forged.retrieval.rank import search_all
from forged.retrieval.turns import Flight, HypothesisDeadline, Turns, turn_key
from forged.retrieval.values import Answer, Ask, Sources
from forged.scopes import FileSource, Question, View

logger = logging.getLogger(__name__)

LATE_S = 15.0
# The part of the budget that `auto` keeps for its fallback, and the most that it keeps.
_RESERVE, _RESERVE_S = 0.25, 0.5
# A root that is found empty shows what changed in it within such a moment, and no model is asked for nothing.
_MOMENT_S = 0.05
# Of that part, before the deadline, from when on the hypotheses and sources that are there have to do.
_NEAR = 1.5
FIRST_BUILD = "first build is running"
NO_MEMORIES = "no memories yet"
BESIDE_THE_POINT = "nothing here is about this message"
WORDS_ONLY = "vectors are on their way; answered by words"
OTHER_DIMENSION = "vectors of another dimension; forgectl rebuild --full embeds anew"


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the configuration that shapes a retrieval.

    `min_score` is the share of unrelated messages that the gate keeps out; 0 or less: there is no gate.
    """

    strategy: str
    hypothesis_count: int
    lexical_weight: float
    min_score: float


class Retriever:
    """Answers asks; shared by all connections of the daemon. `turns` is what it keeps of them."""

    def __init__(
        self, *, embedder: Embedder | None, chat: ChatModel | None, tuning: Tuning, metrics: Metrics
    ) -> None:
        self.turns = Turns()
        self._embedder = embedder
        self._chat = chat
        self._tuning = tuning
        self._metrics = metrics
        self._falls_back = tuning.strategy == "auto"
        self._search_thread = ThreadPoolExecutor(1, thread_name_prefix="search")

    async def retrieve(self, ask: Ask, sources: Sources) -> tuple[Answer, bool]:
        """Answer by `ask.deadline`; the flag tells whether it is what the turn was answered before."""
        if not ask.hypotheses and not ask.window:
            return Answer(status="empty", reason="empty_window"), False
        if not ask.turn_id:
            return await self._alone(ask, sources), False
        key = turn_key(ask, sources.tops)
        known = self.turns.get(key, ask.min_generation)
        if known is not None:
            return known, True
        flight = self.turns.under_way(key, ask.min_generation)
        if flight is None:
            flight = self._launch(ask, sources)
            self.turns.begin(key, ask.min_generation, flight)
        else:
            flight.deadline.join(_near(ask.deadline), ask.deadline)
        return await self._by_deadline(flight.task, ask, sources), False

    async def search(self, ask: Ask, sources: Sources, *, inject: bool = False) -> Answer:
        """A list for the message of `ask` as it is, without a gate; with `inject` what would be injected.

        Neither asks for hypotheses or is kept for a turn.
        """
        view, queries = await sources.see(ask.deadline), (ask.message,)
        try:
            async with asyncio.timeout_at(ask.deadline):
                vectors = await self._embed(sources, view, queries, ask.deadline)
            return await self._search(ask, sources, view, queries, vectors, inject=inject)
        except (ProviderError, TimeoutError) as error:
            reason, held = _reason(error), _held(error)
        because = held or f"provider: {reason}"
        if (self._falls_back or held) and "lexical" in view.legs:
            return await self._search(ask, sources, view, queries, None, because=because, inject=inject)
        if view.waiting:
            return Answer(status="not_ready", reason=FIRST_BUILD, generation=view.generation)
        status = "timeout" if reason == "timeout" else "error"
        return Answer(status=status, reason=because, generation=view.generation)

    def close(self) -> None:
        """Stop what runs late."""
        self.turns.close()
        self._search_thread.shutdown(wait=False, cancel_futures=True)

    async def _alone(self, ask: Ask, sources: Sources) -> Answer:
        """A turn without a name is answered once and never kept, so nobody waits for it late."""
        flight = self._launch(ask, sources)
        try:
            return await self._by_deadline(flight.task, ask, sources)
        finally:
            flight.task.cancel()

    def _launch(self, ask: Ask, sources: Sources) -> Flight:
        deadline = HypothesisDeadline()
        deadline.join(_near(ask.deadline), ask.deadline)
        return Flight(asyncio.create_task(self._pipeline(ask, sources, deadline)), deadline)

    async def _by_deadline(self, flight: asyncio.Task[Answer], ask: Ask, sources: Sources) -> Answer:
        """The flight's answer, or at the deadline the best that can be had without it."""
        if not self._falls_back:
            await asyncio.wait({flight}, timeout=_left(ask.deadline))
            return flight.result() if flight.done() else await _late(sources)
        await asyncio.wait({flight}, timeout=_left(ask.deadline) - _reserve(ask.deadline))
        if flight.done():
            return flight.result()
        fallback = asyncio.create_task(self._fallback(ask, sources, "timeout"))
        await asyncio.wait({flight, fallback}, timeout=_left(ask.deadline))
        if flight.done():
            fallback.cancel()
            return flight.result()
        answer = fallback.result() if fallback.done() else await self._by_words(ask, sources, "timeout")
        fallback.cancel()
        return answer if answer is not None else await _late(sources)

    async def _pipeline(self, ask: Ask, sources: Sources, deadline: HypothesisDeadline) -> Answer:
        """Queries, their vectors, the search: until 15 s past the deadline, for who asks again."""
        limit = ask.deadline + LATE_S
        try:
            async with asyncio.timeout_at(limit):
                view = await sources.see(min(time.monotonic() + _MOMENT_S, ask.deadline))
                if not sources.others and _holds_nothing(view, ask.min_generation):
                    return Answer(status="empty", reason=NO_MEMORIES, generation=view.generation)
                strategy, queries, partial = await self._queries(ask, sources, limit, deadline.is_near)
                if not queries:
                    return Answer(status="empty", reason="no_hypotheses", strategy=strategy)
                view = await sources.see(limit)
                vectors = await self._embed(sources, view, queries, limit)
                answer = await self._search(ask, sources, view, queries, vectors, strategy=strategy)
                return msgspec.structs.replace(answer, partial=partial)
        except (ProviderError, TimeoutError) as error:
            reason = _reason(error)
            logger.debug("retrieval failed reason=%s", reason)
            fallback = await self._fallback(ask, sources, reason) if self._falls_back else None
            return fallback or Answer(status="error", reason=f"provider: {reason}")

    async def _queries(
        self, ask: Ask, sources: Sources, limit: float, is_late: Callable[[], bool]
    ) -> tuple[str, tuple[str, ...], str]:
        """The strategy's name, its query texts, and why there are fewer of a model's than it could write."""
        # The message is one more query: hypotheses of a weak model alone lose recall.
        message = _plain_queries(ask)
        if ask.hypotheses:
            return "caller", tuple(dict.fromkeys((*ask.hypotheses, *message))), ""
        if self._chat is None:
            return "direct", message, ""
        found = await hyde.hypotheses(
            self._chat,
            conversation.window(ask.window),
            Purpose("hyde", sources.tops),
            count=self._tuning.hypothesis_count,
            deadline=limit,
            is_late=is_late,
        )
        if not found.texts and self._falls_back:
            raise ProviderError("the model wrote no hypothesis", reason="no_hypotheses")
        return "hyde", (*found.texts, *message) if found.texts else (), found.partial

    async def _fallback(self, ask: Ask, sources: Sources, reason: str) -> Answer | None:
        """`auto` without what failed: the direct strategy if HyDE was in the way, else words alone."""
        self._metrics.retrieve_fallbacks += 1
        if self._chat is None or ask.hypotheses:
            return await self._by_words(ask, sources, reason)
        deadline = max(ask.deadline, time.monotonic() + _RESERVE_S)
        queries, because = _plain_queries(ask), f"hyde: {reason}"
        try:
            async with asyncio.timeout_at(deadline):
                view = await sources.see(deadline)
                vectors = await self._embed(sources, view, queries, deadline)
            return await self._search(ask, sources, view, queries, vectors, because=because)
        except (ProviderError, TimeoutError):
            return await self._by_words(ask, sources, reason)

    async def _by_words(self, ask: Ask, sources: Sources, reason: str) -> Answer | None:
        """The answer of the lexical leg, which needs nobody; None if there is no such leg."""
        view = await sources.see(ask.deadline)
        if "lexical" not in view.legs:
            return None
        return await self._search(
            ask, sources, view, _plain_queries(ask), None, because=f"provider: {reason}"
        )

    async def _embed(
        self, sources: Sources, view: View, queries: Sequence[str], limit: float
    ) -> Vectors | None:
        """Vectors of the queries, or None where no map has any to compare them with (yet)."""
        if self._embedder is None or "dense" not in view.legs:
            return None
        purpose = Purpose("query", sources.tops)
        return await self._embedder.embed(list(queries), "query", purpose=purpose, deadline=limit)

    async def _search(
        self,
        ask: Ask,
        sources: Sources,
        view: View,
        queries: tuple[str, ...],
        vectors: Vectors | None,
        *,
        strategy: str = "direct",
        because: str = "",
        inject: bool = True,
    ) -> Answer:
        """Search all sources; with `inject` gated and rendered. `because` says why this is a fallback.

        What a fallback found, or lacks a root or a source, is not kept for the turn.
        """
        gated = inject and self._tuning.min_score > 0
        question = Question(
            texts=queries,
            message=ask.message,
            vectors=vectors,
            top_k=ask.top_k,
            hop_depth=ask.hop_depth,
            deadline=_near(ask.deadline),
            least_evidence=threshold(self._tuning.min_score) if gated else float("-inf"),
            near_best=gated,
        )
        files, late = self._files(view), tuple[str, ...]()
        if sources.others:
            rows, late = await search_all(files, sources.others, question)
        else:
            rows = await files.search(question)
        missing = FIRST_BUILD if view.waiting else view.problem
        lacking = missing or self._dense_problem(view, vectors)
        held_back = self._held_back(rows.evidence, question.least_evidence)
        # Words and the gate speak for the roots that are there; the answer may lie in the one that is not.
        if not rows.ranked and (missing or (lacking not in {"", WORDS_ONLY, view.held} and not held_back)):
            return Answer(status="not_ready" if view.waiting else "error", reason=lacking)
        nothing = "" if rows.ranked else held_back or ("no memory matches" if len(view) else NO_MEMORIES)
        answer = Answer(
            status="ok" if rows.ranked else "empty",
            reason="; ".join(filter(None, (because or lacking or nothing, *late))),
            ranked=rows.ranked,
            far=rows.far,
            strategy=strategy,
            legs=tuple(leg for leg in view.legs if leg == "lexical" or vectors is not None),
            hypotheses=queries if strategy != "direct" else (),
            generation=view.generation,
            degraded=bool(because or lacking or late),
        )
        return _rendered(answer, ask.budget_tokens) if inject else answer

    def _files(self, view: View) -> FileSource:
        key = self._embedder.key if self._embedder is not None else None
        return FileSource(
            view, lexical_weight=self._tuning.lexical_weight, key=key, thread=self._search_thread
        )

    def _dense_problem(self, view: View, vectors: Vectors | None) -> str:
        """Why the dense leg could not take part as it should, or nothing."""
        if vectors is None:
            lacks = self._embedder is not None and len(view) and "dense" not in view.legs
            return (view.held or WORDS_ONLY) if lacks else ""
        # A model was replaced behind its name: some map cannot be compared with the queries.
        sizes = {each.dense.dimension for each in view.maps if each.dense is not None}
        return "" if sizes <= {vectors.shape[1]} else OTHER_DIMENSION

    def _held_back(self, evidence: float, needed: float) -> str:
        """Why the gate lets nothing through, or nothing."""
        if evidence >= needed:
            return ""
        return (
            f"{BESIDE_THE_POINT} (evidence {evidence:.2f}, needed {needed:.2f}: memory.retrieval_min_score)"
        )


def _rendered(answer: Answer, budget_tokens: int) -> Answer:
    """With the text of what fits into the budget."""
    block = injection.render(answer.ranked, budget_tokens)
    return msgspec.structs.replace(
        answer,
        status="ok" if block.text else "empty",
        reason=answer.reason or ("nothing fits the token budget" if block.omitted and not block.text else ""),
        text=block.text,
        digest=block.digest,
        included=block.included,
        omitted=block.omitted,
    )


async def _late(sources: Sources) -> Answer:
    view = await sources.see(0.0)
    if view.waiting:
        return Answer(status="not_ready", reason=FIRST_BUILD)
    return Answer(status="timeout", reason="retrieval_timeout_s is over", generation=view.generation)


def _plain_queries(ask: Ask) -> tuple[str, ...]:
    """What is looked for without a model's help: the message, else the caller's own hypotheses."""
    return (ask.message,) if ask.message.strip() else ask.hypotheses


def _holds_nothing(view: View, min_generation: int) -> bool:
    """Whether every root is known to be empty: then neither a model nor an endpoint is asked."""
    return not (len(view) or view.waiting or view.problem) and view.generation >= min_generation


def _reason(error: ProviderError | TimeoutError) -> str:
    return error.reason if isinstance(error, ProviderError) else "timeout"


def _held(error: ProviderError | TimeoutError) -> str:
    """Why no text may leave, if that is what stands in the way: somebody's wish, and no failure."""
    return str(error) if _reason(error) == "paused" else ""


def _near(deadline: float) -> float:
    """From when on a deadline is near: what is not there then is done without."""
    return deadline - _NEAR * _reserve(deadline)


def _reserve(deadline: float) -> float:
    return min(_RESERVE * _left(deadline), _RESERVE_S)


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.0)
