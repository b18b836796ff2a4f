"""Kept answers of turns, and the pipelines that look for them.

A turn is its user message: what assistant and tools add asks for the same. So a good answer is kept for its
turn, and whoever asks while it is being found shares the one pipeline. Four pipelines that are late run on
for whoever asks again, no more: they hold connections that a new turn needs. A failure or a fallback is kept
for 5 s: a hiccup neither mutes a long turn nor turns into a storm of calls. Nothing is raised.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from forged.models import RetryBudget
from forged.retrieval.values import Answer

FAILURE_TTL_S = 5.0
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


class Course:
    """What a pipeline and those who wait for it know of each other.

    `waiting` is whoever it was begun for, None if nobody waits for it; `embeds` says that its queries have
    been given to the embedding model.

    It also knows when the hypotheses that a model has written so far have to do, because somebody's deadline
    is near: just before it, so that there is time left to embed them, and not after. Who is late anyway waits
    for all of them, for the sake of the next one who asks.
    """

    def __init__(self, waiting: RetryBudget | None = None) -> None:
        self.waiting = waiting
        self.embeds = False
        self._windows: list[tuple[float, float]] = []

    def join(self, near: float, deadline: float) -> None:
        """Somebody waits until `deadline`, which is near from the time `near` on."""
        self._windows.append((near, deadline))

    def is_near(self) -> bool:
        now = time.monotonic()
        return any(near <= now < deadline for near, deadline in self._windows)


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
