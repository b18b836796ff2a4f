"""One retrieval from its queries to its answer: hypotheses, vectors, search and fallbacks.

In: an `Ask` and its `Workplace`. Out: an `Answer`. A failing model or endpoint raises nothing: `hyde` answers
with nothing, `auto` falls back to the direct strategy and then to words, and the answer says so. A model that
its `Health` calls too slow or failing is skipped. Vectors are asked for once; after that words decide.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from forged import conversation
from forged.config import Config
from forged.counters import Metrics
from forged.errors import ProviderError
from forged.map import DenseIndex, evidence_threshold
from forged.models import (
    ChatModel,
    Embedder,
    Kind,
    Purpose,
    RetryBudget,
    Vectors,
    split_layers,
)
from forged.retrieval import hyde, reasons
from forged.retrieval.values import Answer, Ask
from forged.stores import (
    FIRST_BUILD,
    CjkSearcher,
    Question,
    RecallSearch,
    SecondModel,
    StoreSearch,
    View,
    Workplace,
)
from forged.text.chat import is_chat

logger = logging.getLogger(__name__)

LATE_S = 15.0
# Seconds that an empty root has to show changes before a model is asked.
MOMENT_S = 0.05
# Seconds of the direct strategy after hypotheses failed late.
_DIRECT_S = 0.5
# Limit without a baseline: the words of a small store fit any message.
_FEW = 2
# Share of the default gate, for confidence labels without a gate.
_USUAL_SHARE = 0.95
# Share of the time that `auto` keeps for its fallback, and its limit in seconds.
_RESERVE, _RESERVE_S = 0.25, 0.5
# Factor of that reserve: so long before the deadline, missing hypotheses and stores are given up.
_NEAR = 1.5


class QueryVectors(msgspec.Struct, frozen=True):
    """Unit vectors of query texts, and their hidden layers if the model returns them."""

    texts: tuple[str, ...] = ()
    vectors: Vectors | None = None
    layers: Vectors | None = None

    def is_chat(self, message: str) -> bool:
        """Return True if a message is small talk, by its layers if it is one of the texts."""
        if self.layers is None or message not in self.texts:
            return is_chat(message)
        return is_chat(message, self.layers[self.texts.index(message)].tolist())


_NO_VECTORS = QueryVectors()


class PipelineRun:
    """State of one run of the pipeline, shared by all requests that wait for it.

    `waiting` is the retry budget of the first request, None if no request waits. `embeds` is True once its
    queries were given to the embedding model. Just before a deadline the hypotheses written so far are used,
    so that there is time to embed them. After the deadline all hypotheses are waited for, for the next
    request.
    """

    task: asyncio.Task[Answer]

    def __init__(self, waiting: RetryBudget | None = None) -> None:
        self.waiting = waiting
        self.waiters = 0
        self.embeds = False
        self._windows = [] if waiting is None else [(cutoff_before(waiting.until), waiting.until)]

    def join(self, deadline: float) -> None:
        """Register another request of the turn, which waits for this run until `deadline`."""
        self._windows.append((cutoff_before(deadline), deadline))

    def is_past_cutoff(self) -> bool:
        """Return True if a waiting request is near its deadline, so that missing parts are given up."""
        now = time.monotonic()
        return any(cutoff_before <= now < deadline for cutoff_before, deadline in self._windows)


class Pipeline:
    """Runs retrievals: asks for hypotheses, embeds queries, searches stores, falls back. One a daemon."""

    def __init__(
        self,
        config: Config,
        embedder: Embedder | None,
        chat: ChatModel | None,
        cjk: SecondModel | None,
        metrics: Metrics,
    ) -> None:
        """Create the pipeline of a configuration; `cjk` embeds Chinese, Japanese and Korean memories."""
        settings, share = config.memory, config.min_score
        is_hyde = settings.retrieval_strategy == "hyde"
        self.embedder = embedder
        self._chat = chat
        self._cjk = cjk
        self._metrics = metrics
        self._hypotheses = settings.retrieval_hypothesis_count
        self.falls_back = settings.retrieval_strategy == "auto"
        # The message is one more query: hypotheses of a weak model alone lose recall. ADR-0047 has none.
        self._asks_message = not is_hyde or settings.retrieval_lexical_weight > 0
        self._judges = share > 0 and not is_hyde
        self._calibrates = self._judges and settings.retrieval_lexical_weight > 0
        self._least = evidence_threshold(share)
        self._strong = evidence_threshold(share if share > 0 else _USUAL_SHARE)
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="search")
        self.stores = StoreSearch(
            lexical_weight=settings.retrieval_lexical_weight,
            thread=self.thread,
            second=self._second_searcher if cjk is not None else None,
            second_question=cjk.with_vectors if cjk is not None else None,
        )
        self.recalls = RecallSearch(self.stores, self.thread)

    def close(self) -> None:
        self.thread.shutdown(wait=False, cancel_futures=True)

    def _second_searcher(self, view: View, tops: tuple[str, ...]) -> tuple[CjkSearcher, str] | None:
        """Return a searcher of a view by the second model, and that model's key; None without its vectors."""
        if self._cjk is None or self._cjk.second_view(view) is None:
            return None
        return CjkSearcher(self._cjk, view, tops, self.thread), self._cjk.identity.key

    def should_probe(self, deadline: float) -> bool:
        """Return True if a model that is skipped as failing may be tried again until `deadline`."""
        for model in (self._chat, self.embedder):
            outage = (
                model.health.outage(seconds_left(deadline)) if model is not None and model.health else None
            )
            if outage is not None and outage.wait_s <= 0:
                return True
        return False

    async def run(self, ask: Ask, place: Workplace, pipeline_run: PipelineRun) -> Answer:
        """Run one retrieval, up to 15 s past the deadline for a retry, and return its answer."""
        limit = ask.deadline + LATE_S
        try:
            async with asyncio.timeout_at(limit):
                moment = min(time.monotonic() + MOMENT_S, ask.deadline)
                view = await place.files.view(ask.min_generation, moment)
                if not place.others and _is_empty(view, ask.min_generation):
                    reason = reasons.no_memory_reason(view)
                    return Answer(status="empty", reason=reason, generation=view.generation)
                if self._judges and not ask.hypotheses and ask.is_idle:
                    return self._idle_answer(view, reasons.IDLE)
                self._check_embedder(view, pipeline_run)
                strategy, queries, partial = await self._queries(ask, place, limit, pipeline_run)
                if not queries:
                    reason = reasons.NO_MESSAGE if strategy == "direct" else "no_hypotheses"
                    return Answer(status="empty", reason=reason, strategy=strategy)
                view = await place.files.view(ask.min_generation, limit)
                learning = self._is_learning(view)
                found = (
                    _NO_VECTORS if learning else await self.embed(place, view, queries, limit, pipeline_run)
                )
                return await self.search(ask, place, view, queries, found, strategy=strategy, partial=partial)
        except (ProviderError, TimeoutError) as error:
            reason = reasons.reason_code(error)
            logger.debug("retrieval failed reason=%s", reason)
            fallback = await self.fall_back(ask, place, reason, pipeline_run) if self.falls_back else None
            return fallback or Answer(status="error", reason=f"provider: {reason}")

    def _check_embedder(self, view: View, pipeline_run: PipelineRun) -> None:
        """Raise ProviderError if the embedding model is skipped as failing, before hypotheses are written."""
        health = self.embedder.health if self.embedder is not None else None
        if health is not None and pipeline_run.waiting is not None and _dense_indexes(view):
            pipeline_run.embeds = True
            health.admit(pipeline_run.waiting)
            pipeline_run.embeds = False

    async def _queries(
        self, ask: Ask, place: Workplace, limit: float, pipeline_run: PipelineRun
    ) -> tuple[str, tuple[str, ...], str]:
        """Return strategy, query texts (hypotheses, message, context), and why hypotheses are missing."""
        message = _plain_queries(ask) if self._asks_message else ()
        if ask.hypotheses:
            return "caller", tuple(dict.fromkeys((*ask.hypotheses, *message))), ""
        if self._chat is None:
            return "direct", _with_context(ask, message), ""
        if self._chat.health is not None:
            self._chat.health.admit(pipeline_run.waiting)
        found = await hyde.hypotheses(
            self._chat,
            conversation.window(ask.window),
            Purpose("hyde", place.tops, pipeline_run.waiting),
            count=self._hypotheses,
            deadline=limit,
            is_late=pipeline_run.is_past_cutoff,
        )
        if not found.texts and self.falls_back:
            raise ProviderError("the chat model wrote no hypothesis", reason="no_hypotheses")
        return "hyde", (*found.texts, *message) if found.texts else (), found.partial

    async def fall_back(
        self, ask: Ask, place: Workplace, reason: str, pipeline_run: PipelineRun
    ) -> Answer | None:
        """Answer without the failed model: by message vectors if HyDE failed, else by words."""
        self._metrics.retrieve_fallbacks += 1
        if self._chat is None or ask.hypotheses or pipeline_run.embeds:
            return await self.by_words(ask, place, reason)
        deadline = max(ask.deadline, time.monotonic() + _DIRECT_S)
        queries, because = _with_context(ask, _plain_queries(ask)), f"hyde: {reason}"
        try:
            async with asyncio.timeout_at(deadline):
                view = await place.files.view(ask.min_generation, deadline)
                found = await self.embed(place, view, queries, deadline, pipeline_run)
            return await self.search(ask, place, view, queries, found, because=because)
        except (ProviderError, TimeoutError) as error:
            return await self.by_words(ask, place, reasons.reason_code(error))

    async def by_words(self, ask: Ask, place: Workplace, reason: str) -> Answer | None:
        """Search by words alone, which needs no model; None if there is no lexical index."""
        view = await place.files.view(ask.min_generation, ask.deadline)
        if "lexical" not in view.indexes:
            return None
        queries = _with_context(ask, _plain_queries(ask))
        return await self.search(ask, place, view, queries, because=f"provider: {reason}")

    async def embed(
        self, place: Workplace, view: View, queries: Sequence[str], limit: float, pipeline_run: PipelineRun
    ) -> QueryVectors:
        """Return the queries' vectors; none without a model or if no store can compare them."""
        if self.embedder is None or not (place.others or _dense_indexes(view)):
            return _NO_VECTORS
        pipeline_run.embeds = True
        purpose = Purpose("query", place.tops, pipeline_run.waiting)
        return await embed_queries(self.embedder, queries, purpose, limit, (view,))

    async def search(
        self,
        ask: Ask,
        place: Workplace,
        view: View,
        queries: tuple[str, ...],
        found: QueryVectors = _NO_VECTORS,
        *,
        strategy: str = "direct",
        because: str = "",
        partial: str = "",
        inject: bool = True,
    ) -> Answer:
        """Search all stores with embedded queries, and build the answer; with `inject` through the gate."""
        if inject and self._judges and not ask.hypotheses:
            if ask.is_idle:
                return self._idle_answer(view, reasons.IDLE, partial)
            if found.is_chat(ask.message) and not view.names_known(ask.message):
                return self._idle_answer(view, reasons.CHAT, partial)
        learning = inject and self._is_learning(view)
        vectors = None if learning else found.vectors
        question = Question(
            texts=queries,
            message=ask.message,
            vectors=vectors,
            top_k=min(ask.top_k, _FEW) if learning else ask.top_k,
            hop_depth=0 if learning else ask.hop_depth,
            deadline=cutoff_before(ask.deadline),
            least_evidence=self._least if inject else float("-inf"),
            continued=queries.index(ask.context) if ask.context in queries else None,
            turn=ask.turn,
            pinned=ask.pinned,
            explains=ask.explains,
            in_context=frozenset(ask.in_context),
            strong=self._strong if ask.rated else None,
            generation=ask.min_generation,
        )
        rows = await self.stores.search(place.others, question, own=view, tops=place.tops)
        missing = FIRST_BUILD if view.waiting else view.problem
        lacking = missing or self._dense_problem(view, vectors) or (reasons.UNCALIBRATED if learning else "")
        held_back = "" if rows.ranked else reasons.gate_reason(rows, question)
        # Words and the gate cover only the roots that are there; another root may hold the answer.
        if not rows.ranked and (missing or (lacking == reasons.OTHER_MODEL and not held_back)):
            return Answer(status="not_ready" if view.waiting else "error", reason=lacking, partial=partial)
        given = "" if rows.ranked else reasons.already_injected_reason(rows, ask)
        nothing = "" if rows.ranked or given else held_back or reasons.no_match_reason(view)
        return Answer(
            status="ok" if rows.ranked else "empty",
            reason="; ".join(filter(None, (given, because or lacking or nothing, *rows.missing))),
            ranked=rows.ranked,
            rejected=rows.rejected,
            strategy=strategy,
            indexes=tuple(index for index in view.indexes if index == "lexical" or vectors is not None),
            hypotheses=queries if strategy != "direct" else (),
            generation=view.generation,
            degraded=bool(because or lacking or rows.missing),
            partial=partial,
        )

    def _idle_answer(self, view: View, reason: str, partial: str = "") -> Answer:
        """Return the answer to a message without content or of small talk: nothing is searched."""
        return Answer(
            status="empty",
            reason=reason,
            strategy="direct",
            indexes=tuple(
                index for index in view.indexes if index == "lexical" or not self._is_learning(view)
            ),
            generation=view.generation,
            partial=partial,
        )

    def _is_learning(self, view: View) -> bool:
        """Return True if only words can be used, as the model's baseline is not computed yet."""
        return self._calibrates and view.is_uncalibrated and not self._is_all_cjk(view)

    def _dense_problem(self, view: View, vectors: Vectors | None) -> str:
        """Return the reason why the dense index could not take part, or ""."""
        if vectors is not None:
            # Another model answers under the name: some map cannot be compared with the queries.
            size, key, indexes = vectors.shape[1], view.key, _dense_indexes(view)
            compared = all(index.dimension == size and key in {None, index.key} for index in indexes)
            return "" if compared else reasons.OTHER_MODEL
        if self.embedder is None or not view.size or self._is_all_cjk(view) or _dense_indexes(view):
            return ""
        if view.held:
            return view.held
        failing = self.embedder.health.report() if self.embedder.health is not None else None
        why = view.unembedded or (failing.message if failing and failing.state == "failing" else "")
        return f"keyword results only: no embeddings ({why})" if why else reasons.WORDS_ONLY

    def _is_all_cjk(self, view: View) -> bool:
        """Return True if the second model embeds all memories of a view."""
        parts = (part for each in view.maps for part in each.parts)
        return self._cjk is not None and all(part.traits.is_cjk.all() for part in parts)


async def embed_queries(
    embedder: Embedder,
    texts: Sequence[str],
    purpose: Purpose,
    deadline: float,
    views: Sequence[View] = (),
) -> QueryVectors:
    """Embed texts as queries, to compare them with views; return their vectors. Raises ProviderError.

    One pass of the local model gives the layers, which detect small talk, and the vector.
    """
    if embedder.health is not None:
        embedder.health.admit(purpose.waiting)
    kind: Kind = "layers" if embedder.gives_layers else "query"
    rows = await embedder.embed(list(texts), kind, purpose=purpose, deadline=deadline)
    layers, vectors = split_layers(rows) if kind == "layers" else (None, rows)
    if embedder.replaceable:
        for view in views:
            view.used(vectors.shape[1])
    return QueryVectors(tuple(texts), vectors, layers)


def _dense_indexes(view: View) -> list[DenseIndex]:
    return [part.dense for each in view.maps for part in each.parts if part.dense is not None]


def _plain_queries(ask: Ask) -> tuple[str, ...]:
    """Return the queries of the direct strategy: the message, else the caller's own hypotheses."""
    return (ask.message,) if ask.message.strip() else ask.hypotheses


def _with_context(ask: Ask, queries: tuple[str, ...]) -> tuple[str, ...]:
    """Return the queries and, as one more, the text that the message continues."""
    return tuple(dict.fromkeys((*queries, ask.context))) if ask.context and queries else queries


def _is_empty(view: View, min_generation: int) -> bool:
    """Return True if every root of a view is known to have no memories: then no model is asked."""
    return not (view.size or view.waiting or view.problem) and view.generation >= min_generation


def cutoff_before(deadline: float) -> float:
    """Return the time before a deadline at which missing hypotheses and stores are given up."""
    return deadline - _NEAR * reserved_s(deadline)


def reserved_s(deadline: float) -> float:
    """Return the seconds before a deadline that are kept for a fallback."""
    return min(_RESERVE * seconds_left(deadline), _RESERVE_S)


def seconds_left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.0)
