"""Answers retrieval requests by their deadlines, with one pipeline run for all requests of a turn.

In: an `Ask` and its `Workplace`. Out: an `Answer` (`pipeline` describes the fallbacks). Nothing is raised. A
turn is its user message: later text of assistant and tools asks for the same. A late run goes on, so that a
second request finds it done; it ends when the last waiting agent hangs up. A skipped model is tried again
next to a turn, one at a time and as often as its `Health` allows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from forged.config import Config
from forged.counters import Metrics
from forged.errors import ProviderError
from forged.fair_queue import ignore_failure
from forged.models import ChatModel, Embedder, RetryBudget
from forged.retrieval.pipeline import Pipeline, PipelineRun, reserved_s, seconds_left
from forged.retrieval.reasons import egress_reason, late_answer, reason_code
from forged.retrieval.recall import recall
from forged.retrieval.values import Answer, Ask
from forged.stores import FIRST_BUILD, SecondModel, Workplace

# Seconds that a failure or fallback is cached: long enough against a storm of calls, short for a long turn.
FAILURE_TTL_S = 5.0
# Limit on late runs: they hold connections that a new turn needs.
LATE_AT_ONCE = 4


class CachedAnswer:
    """Cache of the answer to one turn, owned by the turn and filled by the retriever."""

    __slots__ = ("_answer", "_clock", "_expires")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answer: Answer | None = None
        self._expires = 0.0

    def get(self, min_generation: int) -> Answer | None:
        """Return the turn's cached answer if it is still valid and new enough, else None."""
        if self._answer is not None and self._clock() >= self._expires:
            self._answer = None
        answer = self._answer
        return None if answer is None or answer.generation < min_generation else answer

    def put(self, answer: Answer) -> None:
        """Cache the turn's answer: for good, or for 5 s if it is a failure or a fallback.

        A failure never replaces a good answer, which still serves requests for no newer generation.
        """
        lasting = _is_lasting(answer)
        if not lasting and self._answer is not None and self._expires == float("inf"):
            return
        self._answer = answer
        self._expires = float("inf") if lasting else self._clock() + FAILURE_TTL_S

    def drop(self) -> None:
        """Forget the cached answer of the turn."""
        self._answer = None


class PipelineRuns:
    """Pipeline runs under way by turn and generation; caches answers, cancels surplus late runs."""

    def __init__(self) -> None:
        self._by_turn: dict[tuple[CachedAnswer, int], PipelineRun] = {}
        self._running: set[asyncio.Task[Answer]] = set()
        self._late: list[PipelineRun] = []
        self._fillers: dict[asyncio.Task[Answer], CachedAnswer] = {}

    def under_way(self, kept: CachedAnswer, min_generation: int) -> PipelineRun | None:
        """Return the run that answers this turn and generation now, None if there is none."""
        return self._by_turn.get((kept, min_generation))

    def begin(self, kept: CachedAnswer, min_generation: int, pipeline_run: PipelineRun) -> None:
        """Register a run for all requests of a turn; cache its answer if ready and not purged."""
        self._by_turn[kept, min_generation] = pipeline_run
        self._running.add(pipeline_run.task)

        def landed(task: asyncio.Task[Answer]) -> None:
            self._running.discard(task)
            if self._by_turn.get((kept, min_generation)) is not pipeline_run:
                return  # purged meanwhile: it may hold removed memories
            del self._by_turn[kept, min_generation]
            if not task.cancelled() and task.exception() is None and task.result().status != "not_ready":
                kept.put(task.result())

        pipeline_run.task.add_done_callback(landed)

    def fill(self, kept: CachedAnswer, task: asyncio.Task[Answer]) -> None:
        """Register a background run for a turn; cache its answer unless that is a failure or fallback."""
        self._running.add(task)
        self._fillers[task] = kept

        def landed(task: asyncio.Task[Answer]) -> None:
            self._running.discard(task)
            wanted = self._fillers.pop(task, None) is not None
            if wanted and not task.cancelled() and task.exception() is None and _is_lasting(task.result()):
                kept.put(task.result())

        task.add_done_callback(landed)

    def run_late(self, pipeline_run: PipelineRun) -> None:
        """Let a run that no request waits for go on; cancel older ones beyond the newest few."""
        late = [one for one in self._late if not (one.task.done() or one.waiters or one is pipeline_run)]
        self._late = [*late, pipeline_run]
        for one in self._late[:-LATE_AT_ONCE]:
            self.abandon(one)

    def abandon(self, pipeline_run: PipelineRun) -> None:
        """Cancel a run that no request waits for; a new request of its turn begins another."""
        self._by_turn = {key: each for key, each in self._by_turn.items() if each is not pipeline_run}
        pipeline_run.task.cancel()

    def purge(self) -> None:
        """Let no request join runs under way, and cache no answer of them; waiting requests get theirs."""
        self._by_turn.clear()
        self._fillers.clear()

    def close(self) -> None:
        """Cancel all pipeline runs."""
        for task in self._running:
            task.cancel()


def _is_lasting(answer: Answer) -> bool:
    return answer.status in {"ok", "empty"} and not answer.degraded


class Retriever:
    """Answers retrieval requests by their deadlines, one run for each turn; one for the daemon.

    `recall` searches the stores of a recall, by the same models.
    """

    def __init__(
        self,
        config: Config,
        *,
        embedder: Embedder | None = None,
        chat: ChatModel | None = None,
        cjk: SecondModel | None = None,
        metrics: Metrics,
    ) -> None:
        """Create the retriever of a configuration; `cjk` embeds Chinese, Japanese and Korean memories."""
        self.runs = PipelineRuns()
        self._pipeline = Pipeline(config, embedder, chat, cjk, metrics)
        self._probing: asyncio.Task[Answer] | None = None
        self.recall = partial(recall, self._pipeline)

    async def retrieve(
        self, ask: Ask, place: Workplace, kept: CachedAnswer | None = None
    ) -> tuple[Answer, bool]:
        """Return the answer for a turn by `ask.deadline`, and True if `kept` had it already.

        Without `kept` there is no second request for this turn.
        """
        if not ask.hypotheses and not ask.window:
            return Answer(status="empty", reason="empty_window"), False
        if kept is None:
            return await self._answer_alone(ask, place), False
        known = kept.get(ask.min_generation)
        if known is not None:
            return known, True
        pipeline_run = self.runs.under_way(kept, ask.min_generation)
        if pipeline_run is None:
            self._probe(ask, place, kept)
            pipeline_run = self._launch(ask, place)
            self.runs.begin(kept, ask.min_generation, pipeline_run)
        else:
            pipeline_run.join(ask.deadline)
        return await self._await_shared(pipeline_run, ask, place), False

    async def search(self, ask: Ask, place: Workplace, *, inject: bool = False) -> Answer:
        """Search for the message and hypotheses of `ask`; `inject` lets the gate reject memories.

        It neither asks for hypotheses nor caches its answer for a turn.
        """
        pipeline_run, queries = PipelineRun(RetryBudget(ask.deadline)), ask.own_queries
        view = await place.files.view(ask.min_generation, ask.deadline)
        search = partial(self._pipeline.search, ask, place, view, queries, inject=inject)
        self._probe(ask, place)
        try:
            async with asyncio.timeout_at(ask.deadline):
                found = await self._pipeline.embed(place, view, queries, ask.deadline, pipeline_run)
            return await search(found)
        except (ProviderError, TimeoutError) as error:
            reason, held = reason_code(error), egress_reason(error)
        because = held or f"provider: {reason}"
        if (self._pipeline.falls_back or held) and "lexical" in view.indexes:
            return await search(because=because)
        if view.waiting:
            return Answer(status="not_ready", reason=FIRST_BUILD, generation=view.generation)
        status = "timeout" if reason == "timeout" else "error"
        return Answer(status=status, reason=because, generation=view.generation)

    def close(self) -> None:
        """Cancel all pipeline runs, and end the search thread."""
        self.runs.close()
        if self._probing is not None:
            self._probing.cancel()
        self._pipeline.close()

    async def _answer_alone(self, ask: Ask, place: Workplace) -> Answer:
        """Answer a request that is never repeated; its run ends with it."""
        self._probe(ask, place)
        pipeline_run = self._launch(ask, place)
        try:
            return await self._await_answer(pipeline_run, ask, place)
        finally:
            pipeline_run.task.cancel()

    async def _await_shared(self, pipeline_run: PipelineRun, ask: Ask, place: Workplace) -> Answer:
        """Return the answer of a shared run; it ends when the last waiting request hangs up."""
        pipeline_run.waiters += 1
        try:
            answer = await self._await_answer(pipeline_run, ask, place)
        except asyncio.CancelledError:
            if pipeline_run.waiters == 1:
                self.runs.abandon(pipeline_run)
            raise
        finally:
            pipeline_run.waiters -= 1
        if not (pipeline_run.task.done() or pipeline_run.waiters):
            self.runs.run_late(pipeline_run)
        return answer

    def _launch(self, ask: Ask, place: Workplace) -> PipelineRun:
        """Start a pipeline run for a request, in a task."""
        pipeline_run = PipelineRun(RetryBudget(ask.deadline))
        pipeline_run.task = asyncio.create_task(self._pipeline.run(ask, place, pipeline_run))
        pipeline_run.task.add_done_callback(ignore_failure)
        return pipeline_run

    def _probe(self, ask: Ask, place: Workplace, kept: CachedAnswer | None = None) -> None:
        """Start a background run that tries a failing model again, if it is due."""
        under_way = self._probing is not None and not self._probing.done()
        if under_way or not self._pipeline.should_probe(ask.deadline):
            return
        self._probing = asyncio.create_task(self._pipeline.run(ask, place, PipelineRun()))
        self._probing.add_done_callback(ignore_failure)
        if kept is not None:
            self.runs.fill(kept, self._probing)

    async def _await_answer(self, pipeline_run: PipelineRun, ask: Ask, place: Workplace) -> Answer:
        """Return a run's answer, or by the deadline that of the best fallback, or a timeout."""
        task, answer = pipeline_run.task, None
        kept_s = reserved_s(ask.deadline) if self._pipeline.falls_back else 0.0
        await asyncio.wait({task}, timeout=seconds_left(ask.deadline) - kept_s)
        if task.done():
            return task.result()
        if self._pipeline.falls_back:
            fallback = asyncio.create_task(self._pipeline.fall_back(ask, place, "timeout", pipeline_run))
            fallback.add_done_callback(ignore_failure)
            try:
                await asyncio.wait({task, fallback}, timeout=seconds_left(ask.deadline))
                if task.done():
                    return task.result()
                by_words = self._pipeline.by_words
                answer = fallback.result() if fallback.done() else await by_words(ask, place, "timeout")
            finally:
                fallback.cancel()
        return answer or late_answer(await place.files.view(ask.min_generation, 0.0))
