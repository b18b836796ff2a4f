"""From a turn to its injection, by one deadline, for all that ask at once.

In goes an `Ask` and the sources that may be searched, out comes an `Answer`; nothing is raised for a model,
an endpoint or a source that fails (`pipeline` says what is answered then). Whoever asks for the same turn
shares its one pipeline, and gets the next best at the deadline. A pipeline that is late runs on for a while,
so that whoever asks again finds it done; it ends when the last agent that waits for it hangs up. Nothing
here knows files, sockets or HTTP, nor how much of an answer has room in a prompt.

Of a model that is skipped somebody has to find out whether it is back: a turn's own pipeline does, beside the
turn, which was answered without it, one at a time and as often as the model's `Health` allows.
"""

from __future__ import annotations

import asyncio

from forged.counters import Metrics
from forged.errors import ProviderError
from forged.fair_queue import retrieved
from forged.models import RetryBudget
from forged.retrieval.pipeline import Pipeline, Queried, held_by, reason_of
from forged.retrieval.turns import Course, Flight, Flights, KeptAnswer
from forged.retrieval.values import Answer, Ask, ModelsInUse, Sources, Tuning, left, near, reserve
from forged.stores import FIRST_BUILD


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
            flight.course.join(near(ask.deadline), ask.deadline)
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
        course.join(near(ask.deadline), ask.deadline)
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
