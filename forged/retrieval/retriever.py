"""Answers asks by their deadlines, one pipeline for all that ask for the same turn.

In: an `Ask` and its `Sources`; out: an `Answer` (`pipeline` says which when a model or source fails). Nothing
is raised. A turn is its user message: what assistant and tools add asks for the same. A late pipeline runs
on, so that a second ask finds it done; it ends when the last agent that waits for it hangs up. A model that
is skipped is tried again beside a turn, one at a time and as often as its `Health` allows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from forged.counters import Metrics
from forged.errors import ProviderError
from forged.fair_queue import retrieved
from forged.models import RetryBudget
from forged.retrieval.pipeline import Pipeline, Queried, held_by, reason_of
from forged.retrieval.values import Answer, Ask, Course, ModelsInUse, Sources, Tuning, left, reserve
from forged.stores import FIRST_BUILD

# A failure or a fallback is kept for so long: a hiccup neither mutes a long turn nor causes a storm of calls.
FAILURE_TTL_S = 5.0
# Late pipelines that run on: they hold connections that a new turn needs.
LATE_AT_ONCE = 4


class KeptAnswer:
    """The answer of one turn, or none. Its turn owns it; who looks for the answer puts it here."""

    __slots__ = ("_answer", "_clock", "_expires")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answer: Answer | None = None
        self._expires = 0.0

    def get(self, min_generation: int) -> Answer | None:
        """Return the answer if it is still good and new enough."""
        if self._answer is not None and self._clock() >= self._expires:
            self._answer = None
        answer = self._answer
        return None if answer is None or answer.generation < min_generation else answer

    def put(self, answer: Answer) -> None:
        """Keep an answer: for good, or for a short while if it is a failure or a fallback.

        Those never replace a good one, which still serves whoever asks for no newer generation.
        """
        lasting = _is_lasting(answer)
        if not lasting and self._answer is not None and self._expires == float("inf"):
            return
        self._answer = answer
        self._expires = float("inf") if lasting else self._clock() + FAILURE_TTL_S

    def drop(self) -> None:
        """Answer this turn anew."""
        self._answer = None


class Flight(msgspec.Struct, eq=False):
    """The one pipeline of a turn, and how many wait for it just now."""

    task: asyncio.Task[Answer]
    course: Course
    waiters: int = 0


class Flights:
    """The pipelines under way, by the turn whose answer they look for."""

    def __init__(self) -> None:
        self._flights: dict[tuple[KeptAnswer, int], Flight] = {}
        self._running: set[asyncio.Task[Answer]] = set()
        self._late: list[Flight] = []
        self._beside: dict[asyncio.Task[Answer], KeptAnswer] = {}

    def under_way(self, kept: KeptAnswer, min_generation: int) -> Flight | None:
        """Return the pipeline that answers this turn just now."""
        return self._flights.get((kept, min_generation))

    def begin(self, kept: KeptAnswer, min_generation: int, flight: Flight) -> None:
        """Share a pipeline with whoever asks for the same turn until it ends, and keep its answer then."""
        self._flights[kept, min_generation] = flight
        self._running.add(flight.task)

        def landed(task: asyncio.Task[Answer]) -> None:
            self._running.discard(task)
            if self._flights.get((kept, min_generation)) is not flight:
                return  # purged meanwhile: it may have seen what is gone
            del self._flights[kept, min_generation]
            if not task.cancelled() and task.exception() is None and task.result().status != "not_ready":
                kept.put(task.result())

        flight.task.add_done_callback(landed)

    def fill(self, kept: KeptAnswer, task: asyncio.Task[Answer]) -> None:
        """Keep what this finds for the turn, if it is better than a stopgap; nobody waits for it."""
        self._running.add(task)
        self._beside[task] = kept

        def landed(task: asyncio.Task[Answer]) -> None:
            self._running.discard(task)
            wanted = self._beside.pop(task, None) is not None
            if wanted and not task.cancelled() and task.exception() is None and _is_lasting(task.result()):
                kept.put(task.result())

        task.add_done_callback(landed)

    def left(self, flight: Flight) -> None:
        """The last who waited for a flight has an answer without it: the newest few of such fly on."""
        late = [one for one in self._late if not (one.task.done() or one.waiters or one is flight)]
        self._late = [*late, flight]
        for one in self._late[:-LATE_AT_ONCE]:
            self.abandon(one)

    def abandon(self, flight: Flight) -> None:
        """End a flight that nobody waits for; whoever asks now begins another."""
        self._flights = {key: each for key, each in self._flights.items() if each is not flight}
        flight.task.cancel()

    def purge(self) -> None:
        """Let nobody join a pipeline or keep its answer; who waits for one still gets it."""
        self._flights.clear()
        self._beside.clear()

    def close(self) -> None:
        """End what runs late."""
        for task in self._running:
            task.cancel()


def _is_lasting(answer: Answer) -> bool:
    return answer.status in {"ok", "empty"} and not answer.degraded


class Retriever:
    """Answers asks; shared by all connections of the daemon. `flights` are its pipelines under way.

    `recall` searches the stores of a recall, by the same models.
    """

    def __init__(self, *, models: ModelsInUse, tuning: Tuning, metrics: Metrics) -> None:
        self.flights = Flights()
        self._pipeline = Pipeline(models=models, tuning=tuning, metrics=metrics)
        self._falls_back = self._pipeline.falls_back
        self._looking: asyncio.Task[Answer] | None = None
        self.recall = self._pipeline.recall

    async def retrieve(
        self, ask: Ask, sources: Sources, kept: KeptAnswer | None = None
    ) -> tuple[Answer, bool]:
        """Answer by `ask.deadline`; the flag says that `kept` had the answer.

        Without `kept` nobody asks for this turn again.
        """
        if not ask.hypotheses and not ask.window:
            return Answer(status="empty", reason="empty_window"), False
        if kept is None:
            return await self._alone(ask, sources), False
        known = kept.get(ask.min_generation)
        if known is not None:
            return known, True
        flight = self.flights.under_way(kept, ask.min_generation)
        if flight is None:
            self._look(ask, sources, kept)
            flight = self._launch(ask, sources)
            self.flights.begin(kept, ask.min_generation, flight)
        else:
            flight.course.join(ask.deadline)
        return await self._shared(flight, ask, sources), False

    async def search(self, ask: Ask, sources: Sources, *, inject: bool = False) -> Answer:
        """A list for the message and hypotheses of `ask`, with no gate; with `inject` what would be injected.

        Neither asks for hypotheses or is kept for a turn.
        """
        pipeline, course = self._pipeline, Course(RetryBudget(ask.deadline))
        view, queries = await sources.see(ask.deadline), ask.own_queries
        self._look(ask, sources)
        try:
            async with asyncio.timeout_at(ask.deadline):
                found = await pipeline.embed(sources, view, queries, ask.deadline, course)
            return await pipeline.search(ask, sources, view, queries, found, inject=inject)
        except (ProviderError, TimeoutError) as error:
            reason, held = reason_of(error), held_by(error)
        because = held or f"provider: {reason}"
        if (self._falls_back or held) and "lexical" in view.legs:
            return await pipeline.search(
                ask, sources, view, queries, Queried(), because=because, inject=inject
            )
        if view.waiting:
            return Answer(status="not_ready", reason=FIRST_BUILD, generation=view.generation)
        status = "timeout" if reason == "timeout" else "error"
        return Answer(status=status, reason=because, generation=view.generation)

    def close(self) -> None:
        """Stop what runs late."""
        self.flights.close()
        if self._looking is not None:
            self._looking.cancel()
        self._pipeline.close()

    async def _alone(self, ask: Ask, sources: Sources) -> Answer:
        """A turn that nobody asks for again is answered once and never kept, so nobody waits for it late."""
        self._look(ask, sources)
        flight = self._launch(ask, sources)
        try:
            return await self._by_deadline(flight, ask, sources)
        finally:
            flight.task.cancel()

    async def _shared(self, flight: Flight, ask: Ask, sources: Sources) -> Answer:
        """The answer of a flight that others may wait for, too; it ends with the last of them to hang up."""
        flight.waiters += 1
        try:
            answer = await self._by_deadline(flight, ask, sources)
        except asyncio.CancelledError:
            if flight.waiters == 1:
                self.flights.abandon(flight)
            raise
        finally:
            flight.waiters -= 1
        if not (flight.task.done() or flight.waiters):
            self.flights.left(flight)
        return answer

    def _launch(self, ask: Ask, sources: Sources) -> Flight:
        course = Course(RetryBudget(ask.deadline))
        course.join(ask.deadline)
        task = asyncio.create_task(self._pipeline.run(ask, sources, course))
        task.add_done_callback(retrieved)
        return Flight(task, course)

    def _look(self, ask: Ask, sources: Sources, kept: KeptAnswer | None = None) -> None:
        """Have a look beside the turn whether a model that is skipped is back, if it is time for one."""
        under_way = self._looking is not None and not self._looking.done()
        if under_way or not self._pipeline.should_look(left(ask.deadline)):
            return
        self._looking = asyncio.create_task(self._pipeline.run(ask, sources, Course()))
        self._looking.add_done_callback(retrieved)
        if kept is not None:
            self.flights.fill(kept, self._looking)

    async def _by_deadline(self, flight: Flight, ask: Ask, sources: Sources) -> Answer:
        """The flight's answer, or at the deadline the best that can be had without it."""
        task = flight.task
        if not self._falls_back:
            await asyncio.wait({task}, timeout=left(ask.deadline))
            return task.result() if task.done() else await _late(sources)
        await asyncio.wait({task}, timeout=left(ask.deadline) - reserve(ask.deadline))
        if task.done():
            return task.result()
        fallback = asyncio.create_task(self._pipeline.next_best(ask, sources, "timeout", flight.course))
        fallback.add_done_callback(retrieved)
        try:
            await asyncio.wait({task, fallback}, timeout=left(ask.deadline))
            if task.done():
                return task.result()
            by_words = self._pipeline.by_words
            answer = fallback.result() if fallback.done() else await by_words(ask, sources, "timeout")
        finally:
            fallback.cancel()
        return answer if answer is not None else await _late(sources)


async def _late(sources: Sources) -> Answer:
    view = await sources.see(0.0)
    if view.waiting:
        return Answer(status="not_ready", reason=FIRST_BUILD)
    return Answer(status="timeout", reason="retrieval_timeout_s is over", generation=view.generation)
