"""One retrieval from its queries to its answer: hypotheses, vectors, search and fallbacks; and one recall.

In: an `Ask` and its `Sources`; out: an `Answer`. Nothing is raised for a model or endpoint that fails: `hyde`
answers with nothing, `auto` falls back to the direct strategy and then to words, and the answer says so. A
model that its `Health` says is not worth the wait is skipped. Vectors are asked for once; then words decide.
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
from forged.models import (
    Embedder,
    Kind,
    Purpose,
    RetryBudget,
    Vectors,
    first_layers,
    gives_layers,
    query_vectors,
)
from forged.retrieval import hyde
from forged.retrieval.values import Answer, Ask, Course, ModelsInUse, Sources, Tuning, near
from forged.stores import (
    FIRST_BUILD,
    GIVEN,
    CjkSource,
    Limits,
    Question,
    RecallSearch,
    Rows,
    SearchedStore,
    Store,
    StoreSearch,
    View,
)
from forged.text.chat import is_chat

logger = logging.getLogger(__name__)

LATE_S = 15.0
# A root that is found empty shows its changes within such a moment, before a model is asked.
_MOMENT_S = 0.05
# What the direct strategy may take in place of hypotheses that came to nothing late.
_DIRECT_S = 0.5
NO_MEMORIES = "no memories yet"
NO_MESSAGE = "there is no message to find memories for"
IDLE = "the message says nothing that there could be evidence for (memory.retrieval_min_score)"
CHAT = "the message is taken for chat, which no memory helps with (memory.retrieval_min_score)"
BESIDE_THE_POINT = "nothing here is about this message"
WORDS_ONLY = "vectors are on their way; answered by words"
OTHER_MODEL = "the embedding model has become another one; answered by words"
UNCALIBRATED = "the gate does not know the embedding model yet; a few memories at most, by words"
_TURNS_TOLD = 3
# Memories while there is no baseline: the words of a small store fit any message.
_FEW = 2
# The default gate, where answers are rated and there is none.
_USUAL_SHARE = 0.95


class Pipeline:
    """Carries out asks; one for the daemon."""

    def __init__(self, *, models: ModelsInUse, tuning: Tuning, metrics: Metrics) -> None:
        self._models = models
        self._embedder = models.embedder
        self._chat = models.chat
        self._tuning = tuning
        self._metrics = metrics
        self.falls_back = tuning.strategy == "auto"
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="search")
        self._stores = StoreSearch(
            lexical_weight=tuning.lexical_weight,
            thread=self._thread,
            second=self._second if models.cjk is not None else None,
        )
        self._recall = RecallSearch(self._stores, self._thread)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _second(self, view: View, tops: tuple[str, ...]) -> tuple[CjkSource, str] | None:
        """The second model's search of a view, and its key; None if it has no vectors there."""
        cjk = self._models.cjk
        if cjk is None or cjk.beside(view) is None:
            return None
        return CjkSource(cjk, view, tops, self._thread), cjk.identity.key

    def should_look(self, within_s: float) -> bool:
        """Return True if a skipped model may be tried now, while a request has so many seconds."""
        models = ((self._chat, self._models.hyde_health), (self._embedder, self._models.embedding_health))
        troubles = [health.trouble(within_s) for model, health in models if model is not None]
        return any(trouble is not None and trouble.wait_s <= 0 for trouble in troubles)

    async def run(self, ask: Ask, sources: Sources, course: Course) -> Answer:
        """Queries, their vectors, the search: until 15 s past the deadline, for who asks again."""
        limit = ask.deadline + LATE_S
        try:
            async with asyncio.timeout_at(limit):
                view = await sources.see(min(time.monotonic() + _MOMENT_S, ask.deadline))
                if not sources.others and _holds_nothing(view, ask.min_generation):
                    return Answer(status="empty", reason=_none_usable(view), generation=view.generation)
                if self._judges(ask) and ask.is_idle:
                    return self._idle(view, IDLE)
                self._spare_hypotheses(view, course)
                strategy, queries, partial = await self._queries(ask, sources, limit, course)
                if not queries:
                    reason = NO_MESSAGE if strategy == "direct" else "no_hypotheses"
                    return Answer(status="empty", reason=reason, strategy=strategy)
                view = await sources.see(limit)
                learning = self._is_learning(view)
                found = Queried() if learning else await self.embed(sources, view, queries, limit, course)
                answer = await self.search(ask, sources, view, queries, found, strategy=strategy)
                return msgspec.structs.replace(answer, partial=partial)
        except (ProviderError, TimeoutError) as error:
            reason = reason_of(error)
            logger.debug("retrieval failed reason=%s", reason)
            fallback = await self.next_best(ask, sources, reason, course) if self.falls_back else None
            return fallback or Answer(status="error", reason=f"provider: {reason}")

    def _spare_hypotheses(self, view: View, course: Course) -> None:
        """Ask nobody for hypotheses that could not be embedded. Raises ProviderError."""
        if course.waiting is not None and self._embedder is not None and "dense" in view.legs:
            course.embeds = True
            self._models.embedding_health.admit(course.waiting)
            course.embeds = False

    async def _queries(
        self, ask: Ask, sources: Sources, limit: float, course: Course
    ) -> tuple[str, tuple[str, ...], str]:
        """The strategy's name, its query texts, and why there are fewer of a model's than it could write."""
        # The message is one more query: hypotheses of a weak model alone lose recall. ADR-0047 has none.
        asks_message = self._tuning.strategy != "hyde" or self._tuning.lexical_weight > 0
        message = _plain_queries(ask) if asks_message else ()
        if ask.hypotheses:
            return "caller", tuple(dict.fromkeys((*ask.hypotheses, *message))), ""
        if self._chat is None:
            return "direct", _with_before(ask, message), ""
        self._models.hyde_health.admit(course.waiting)
        found = await hyde.hypotheses(
            self._chat,
            conversation.window(ask.window),
            Purpose("hyde", sources.tops, course.waiting),
            count=self._tuning.hypothesis_count,
            deadline=limit,
            is_late=course.is_near,
        )
        if not found.texts and self.falls_back:
            raise ProviderError("the model wrote no hypothesis", reason="no_hypotheses")
        return "hyde", (*found.texts, *message) if found.texts else (), found.partial

    async def next_best(self, ask: Ask, sources: Sources, reason: str, course: Course) -> Answer | None:
        """`auto` without what failed: the direct strategy if HyDE was in the way, else words alone."""
        self._metrics.retrieve_fallbacks += 1
        if self._chat is None or ask.hypotheses or course.embeds:
            return await self.by_words(ask, sources, reason)
        deadline = max(ask.deadline, time.monotonic() + _DIRECT_S)
        queries, because = _with_before(ask, _plain_queries(ask)), f"hyde: {reason}"
        try:
            async with asyncio.timeout_at(deadline):
                view = await sources.see(deadline)
                found = await self.embed(sources, view, queries, deadline, course)
            return await self.search(ask, sources, view, queries, found, because=because)
        except (ProviderError, TimeoutError) as error:
            return await self.by_words(ask, sources, reason_of(error))

    async def by_words(self, ask: Ask, sources: Sources, reason: str) -> Answer | None:
        """The answer of the lexical leg, which needs nobody; None if there is no such leg."""
        view = await sources.see(ask.deadline)
        if "lexical" not in view.legs:
            return None
        queries = _with_before(ask, _plain_queries(ask))
        return await self.search(ask, sources, view, queries, Queried(), because=f"provider: {reason}")

    async def embed(
        self, sources: Sources, view: View, queries: Sequence[str], limit: float, course: Course
    ) -> Queried:
        """The queries' vectors, or none where no map has any to compare them with (yet)."""
        if self._embedder is None or not ("dense" in view.legs or sources.others):
            return Queried()
        course.embeds = True
        self._models.embedding_health.admit(course.waiting)
        purpose = Purpose("query", sources.tops, course.waiting)
        found = await queried(self._embedder, queries, purpose, limit)
        if found.vectors is not None:
            view.used(found.vectors.shape[1])
        return found

    async def search(
        self,
        ask: Ask,
        sources: Sources,
        view: View,
        queries: tuple[str, ...],
        found: Queried,
        *,
        strategy: str = "direct",
        because: str = "",
        inject: bool = True,
    ) -> Answer:
        """Search all sources; with `inject` gated. `because` says why this is a fallback."""
        if inject and (silent := self._silent(ask, found)):
            return self._idle(view, silent)
        gates = self._tuning.min_score > 0
        gated = inject and gates
        learning = inject and self._is_learning(view)
        vectors = None if learning else found.vectors
        question = Question(
            texts=queries,
            message=ask.message,
            vectors=vectors,
            top_k=min(ask.top_k, _FEW) if learning else ask.top_k,
            hop_depth=0 if learning else ask.hop_depth,
            deadline=near(ask.deadline),
            least_evidence=threshold(self._tuning.min_score) if gated else float("-inf"),
            continued=queries.index(ask.before) if ask.before in queries else None,
            turn=ask.turn,
            beside=ask.beside,
            explains=ask.explains,
            heard=frozenset(ask.heard),
            strong=threshold(self._tuning.min_score if gates else _USUAL_SHARE) if ask.rated else None,
            generation=ask.min_generation,
        )
        rows = await self._stores.search(sources.others, question, own=view, tops=sources.tops)
        missing = FIRST_BUILD if view.waiting else view.problem
        lacking = missing or self._dense_problem(view, vectors) or (UNCALIBRATED if learning else "")
        held_back = self._held_back(rows, question)
        # Words and the gate speak for the roots that are there; the answer may lie in the one that is not.
        if not rows.ranked and (missing or (lacking == OTHER_MODEL and not held_back)):
            return Answer(status="not_ready" if view.waiting else "error", reason=lacking)
        given = "" if rows.ranked else _given(rows, ask)
        nothing = "" if rows.ranked or given else held_back or _nothing_found(view)
        return Answer(
            status="ok" if rows.ranked else "empty",
            reason="; ".join(filter(None, (given, because or lacking or nothing, *rows.missing))),
            ranked=rows.ranked,
            stayed=rows.stayed,
            strategy=strategy,
            legs=tuple(leg for leg in view.legs if leg == "lexical" or question.vectors is not None),
            hypotheses=queries if strategy != "direct" else (),
            generation=view.generation,
            degraded=bool(because or lacking or rows.missing),
        )

    async def recall(
        self,
        query: str,
        stores: Sequence[Store],
        limits: Limits,
        *,
        admits: Callable[[str, str], bool],
        deadline: float,
        tops: tuple[str, ...],
    ) -> tuple[Rows, float]:
        """Search the stores of a recall until `deadline`; also the milliseconds that the query's vector took.

        A store that could not take part as it should is named, which is no error. Distance alone decides
        where all its memories have a vector of the model that answers; else words do. `tops` are the asker's
        roots, and `admits` says by root and id what may be found.
        """
        began = time.monotonic()
        vectors, key, lacks = None, None, ""
        try:
            vectors, key = await self._vector_of(query, stores, deadline, tops)
        except (ProviderError, TimeoutError) as error:
            lacks = f"no vector of the query ({reason_of(error)}); answered by words"
        embedding_ms = round((time.monotonic() - began) * 1000, 3)
        question = Question(
            texts=(query,),
            message=query,
            vectors=vectors,
            top_k=0,
            hop_depth=0,
            deadline=near(deadline),
            admits=admits,
            key=key,
            limits=limits,
        )
        rows = await self._recall.search(stores, question, tops=tops, until=deadline)
        missing = tuple(filter(None, (lacks, *rows.missing)))
        return msgspec.structs.replace(rows, missing=missing), embedding_ms

    async def _vector_of(
        self, query: str, stores: Sequence[Store], deadline: float, tops: tuple[str, ...]
    ) -> tuple[Vectors | None, str | None]:
        """The query's vector (1, d) if there is anything to compare it with, and its model's key.

        Raises ProviderError.
        """
        if self._embedder is None:
            return None, None
        moment = min(time.monotonic() + _MOMENT_S, deadline)
        views = await asyncio.gather(*(each.view(0, moment) for each in stores))
        is_wanted = any("dense" in view.legs or view.waiting for view in views)
        if not is_wanted and not any(isinstance(each, SearchedStore) for each in stores):
            return None, None
        waiting = RetryBudget(deadline)
        self._models.embedding_health.admit(waiting)
        async with asyncio.timeout_at(near(deadline)):
            found = await queried(self._embedder, (query,), Purpose("query", tops, waiting), near(deadline))
        if found.vectors is not None:
            for view in views:
                view.used(found.vectors.shape[1])
        return found.vectors, next((view.key for view in views if view.key is not None), None)

    def _judges(self, ask: Ask) -> bool:
        """Whether a gate is wanted that judges the message."""
        return self._tuning.min_score > 0 and self._tuning.strategy != "hyde" and not ask.hypotheses

    def _silent(self, ask: Ask, found: Queried) -> str:
        """Return the reason why no search is made, or nothing."""
        if not self._judges(ask):
            return ""
        return IDLE if ask.is_idle else CHAT if found.is_chat(ask.message) else ""

    def _idle(self, view: View, reason: str) -> Answer:
        """The answer to a message that says nothing."""
        legs = tuple(leg for leg in view.legs if leg == "lexical" or not self._is_learning(view))
        generation = view.generation
        return Answer(status="empty", reason=reason, strategy="direct", legs=legs, generation=generation)

    def _is_learning(self, view: View) -> bool:
        """Return True if only words can judge a message, as there is no baseline yet."""
        tuning = self._tuning
        gated = tuning.min_score > 0 and tuning.lexical_weight > 0 and tuning.strategy != "hyde"
        return gated and view.is_uncalibrated and not self._is_all_cjk(view)

    def _dense_problem(self, view: View, vectors: Vectors | None) -> str:
        """Why the dense leg could not take part as it should, or nothing."""
        if vectors is None:
            is_wanted = self._embedder is not None and view.size and not self._is_all_cjk(view)
            lacks = is_wanted and "dense" not in view.legs
            return self._no_vectors(view) if lacks else ""
        # A model was replaced behind its name: some map cannot be compared with the queries.
        legs = [leg for each in view.maps for leg in each.dense]
        compared = all(leg.dimension == vectors.shape[1] and view.key in {None, leg.key} for leg in legs)
        return "" if compared else OTHER_MODEL

    def _is_all_cjk(self, view: View) -> bool:
        """Whether nothing in the view is the first model's."""
        parts = (part for each in view.maps for part in each.parts)
        return self._models.cjk is not None and all(part.traits.is_cjk.all() for part in parts)

    def _no_vectors(self, view: View) -> str:
        """Whether vectors are on their way, or what is in their way."""
        if view.held:
            return view.held
        failing = self._models.embedding_health.condition()
        why = view.unembedded or (failing.message if failing.state == "failing" else "")
        return f"no vectors ({why}); answered by words" if why else WORDS_ONLY

    def _held_back(self, rows: Rows, question: Question) -> str:
        """Why the gate lets nothing through, or nothing."""
        stayed = any(each.stayed != GIVEN for each in rows.stayed)
        if rows.ranked or (rows.evidence >= question.least_evidence and not stayed):
            return ""
        return f"{BESIDE_THE_POINT} (too little evidence for any memory: memory.retrieval_min_score)"


def _plain_queries(ask: Ask) -> tuple[str, ...]:
    """What is looked for without a model's help: the message, else the caller's own hypotheses."""
    return (ask.message,) if ask.message.strip() else ask.hypotheses


def _with_before(ask: Ask, queries: tuple[str, ...]) -> tuple[str, ...]:
    """The message and, as one more query, what it goes on from."""
    return tuple(dict.fromkeys((*queries, ask.before))) if ask.before and queries else queries


def _holds_nothing(view: View, min_generation: int) -> bool:
    """Whether every root is known to be empty: then neither a model nor an endpoint is asked."""
    return not (view.size or view.waiting or view.problem) and view.generation >= min_generation


def _nothing_found(view: View) -> str:
    """Return the reason for an empty answer where the gate held nothing back."""
    if not view.size:
        return _none_usable(view)
    return "; ".join(filter(None, ("no memory matches", view.left_out())))


def _none_usable(view: View) -> str:
    """Return the reason for an empty index: no memories, or all of them left out."""
    left_out = view.left_out()
    return f"no memory can be used here: {left_out}" if left_out else NO_MEMORIES


def _given(rows: Rows, ask: Ask) -> str:
    """Name the turns that brought the fitting memories which are in context already, or nothing."""
    fit = dict.fromkeys((each.root, each.memory.id) for each in rows.stayed if each.stayed == GIVEN)
    if not fit:
        return ""
    turns = list(dict.fromkeys(filter(None, (ask.heard.get(key) for key in fit))))
    when = f"{'turn' if len(turns) == 1 else 'turns'} {', '.join(turns[:_TURNS_TOLD])}"
    when += " and others" if len(turns) > _TURNS_TOLD else ""
    what = "1 memory that fits was" if len(fit) == 1 else f"{len(fit):,} memories that fit were"
    return f"{what} given in {when if turns else 'this session'}"


def held_by(error: ProviderError | TimeoutError) -> str:
    """Why no text may leave, if that is what stands in the way: somebody's wish, and no failure."""
    return str(error) if reason_of(error) == "held" else ""


def reason_of(error: ProviderError | TimeoutError) -> str:
    return error.reason if isinstance(error, ProviderError) else "timeout"


# --- queries as a model sees them ------------------------------------------------------------------------


class Queried(msgspec.Struct, frozen=True):
    """Unit vectors of some texts, and of each the layers before it where the model gives them out."""

    texts: tuple[str, ...] = ()
    vectors: Vectors | None = None
    before: Vectors | None = None

    def is_chat(self, message: str) -> bool:
        """Whether a message is chat, by its layers if it is one of the texts."""
        if self.before is None or message not in self.texts:
            return is_chat(message)
        return is_chat(message, self.before[self.texts.index(message)].tolist())


async def queried(embedder: Embedder, texts: Sequence[str], purpose: Purpose, deadline: float) -> Queried:
    """Ask for the vectors of texts as queries. Raises what the embedder raises.

    One pass of the local model gives the layers, which say whether a message is chat, and the vector.
    """
    kind: Kind = "layers" if gives_layers(embedder.key, embedder.engine) else "query"
    rows = await embedder.embed(list(texts), kind, purpose=purpose, deadline=deadline)
    if kind == "query":
        return Queried(tuple(texts), rows)
    return Queried(tuple(texts), query_vectors(rows), first_layers(rows))
