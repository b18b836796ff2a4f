"""What is kept of turns, in memory only: answers, pipelines under way, and what each session last got.

A turn is its user message: what assistant and tools add asks for the same. So a good answer stays for its
turn, and whoever asks while it is being found shares the one pipeline. What is kept is what was found; how
much of it has room in a prompt is the affair of each reply. Four
pipelines that are late run on for whoever asks again, no more: they hold connections that a new turn needs. A
failure or a fallback stays for 5 s: a hiccup neither mutes a long turn nor turns into a storm of calls. An
answer that is older than the generation asked for is a miss. One daemon serves many agents, so the key of a
turn holds the session, the roots, the turn's name and a digest of what is asked.

The last answer of a session explains itself (`why`) and tells capture what is no news. Everything is bounded.
`purge` drops all answers and leaves the record of what sessions got; `forget` takes what is gone out of both.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection

import msgspec
from msgspec.structs import replace

from forged.memory import Memory
from forged.models import RetryBudget
from forged.retrieval.values import Answer
from forged.scopes import Ranked

ANSWERS = 512
SESSIONS = 256
FAILURE_TTL_S = 5.0
LATE_AT_ONCE = 4

TurnKey = tuple[str, tuple[str, ...], str, bytes]
"""Session, tops of the roots, the turn's name or nothing, and what tells its request from any other."""


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


class Injected(msgspec.Struct, frozen=True):
    """The last answer of a session, of which the first `included` memories had room.

    `roots` are the tops that it may see, `at` is seconds since 1970, `contents` are the texts that the
    session has in context. `cleared` counts memories that the session got and that were taken away since.
    """

    session_id: str
    turn_id: str
    roots: tuple[str, ...]
    at: float
    answer: Answer
    included: int
    contents: tuple[str, ...] = ()
    cleared: int = 0

    def without(self, root: str, ids: Collection[str]) -> Injected:
        """The same without these memories of a root; their texts are in context until the next answer."""
        answer, shown = self.answer, self.answer.ranked[: self.included]
        gone = sum(_is_of(root, ids, each.root, each.memory) for each in shown)
        ranked = (each for each in answer.ranked if not _is_of(root, ids, each.root, each.memory))
        stayed = (each for each in answer.stayed if not _is_of(root, ids, each.root, each.memory))
        left = replace(answer, ranked=tuple(_alone(each, root, ids) for each in ranked), stayed=tuple(stayed))
        return replace(self, answer=left, included=self.included - gone, cleared=self.cleared + gone)


class Turns:
    """The newest 512 answers by turn, and the last answer of each of the newest 256 sessions."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, size: int = ANSWERS) -> None:
        self._clock = clock
        self._size = size
        self._answers: OrderedDict[TurnKey, tuple[Answer, float]] = OrderedDict()
        self._flights: dict[tuple[TurnKey, int], Flight] = {}
        self._running: set[asyncio.Task[Answer]] = set()
        self._late: list[Flight] = []
        self._beside: dict[asyncio.Task[Answer], TurnKey] = {}
        self._last: OrderedDict[str, Injected] = OrderedDict()

    def get(self, key: TurnKey, min_generation: int) -> Answer | None:
        """The answer of a turn if it is still good and new enough."""
        answer, expires = self._answers.get(key, (None, 0.0))
        if answer is None or answer.generation < min_generation:
            return None
        if self._clock() >= expires:
            del self._answers[key]
            return None
        self._answers.move_to_end(key)
        return answer

    def put(self, key: TurnKey, answer: Answer) -> None:
        """Keep an answer: for good, or for a short while if it is a failure or a fallback.

        Those never replace a good one, which still serves whoever asks for no newer generation.
        """
        lasting = _is_lasting(answer)
        if not lasting and self._answers.get(key, (answer, 0.0))[1] == float("inf"):
            return
        self._answers[key] = (answer, float("inf") if lasting else self._clock() + FAILURE_TTL_S)
        self._answers.move_to_end(key)
        while len(self._answers) > self._size:
            self._answers.popitem(last=False)

    def drop(self, key: TurnKey) -> None:
        """Answer this turn anew."""
        self._answers.pop(key, None)

    def under_way(self, key: TurnKey, min_generation: int) -> Flight | None:
        """The pipeline that answers this turn just now."""
        return self._flights.get((key, min_generation))

    def begin(self, key: TurnKey, min_generation: int, flight: Flight) -> None:
        """Share a pipeline with whoever asks for the same turn until it ends, and keep its answer then."""
        self._flights[key, min_generation] = flight
        self._running.add(flight.task)

        def landed(task: asyncio.Task[Answer]) -> None:
            self._running.discard(task)
            if self._flights.get((key, min_generation)) is not flight:
                return  # purged meanwhile: it may have seen what is gone
            del self._flights[key, min_generation]
            if not task.cancelled() and task.exception() is None and task.result().status != "not_ready":
                self.put(key, task.result())

        flight.task.add_done_callback(landed)

    def fill(self, key: TurnKey, task: asyncio.Task[Answer]) -> None:
        """Keep what this finds for the turn, if it is better than a stopgap; nobody waits for it."""
        self._running.add(task)
        self._beside[task] = key

        def landed(task: asyncio.Task[Answer]) -> None:
            self._running.discard(task)
            wanted = self._beside.pop(task, None) is not None
            if wanted and not task.cancelled() and task.exception() is None and _is_lasting(task.result()):
                self.put(key, task.result())

        task.add_done_callback(landed)

    def left(self, flight: Flight) -> None:
        """The last who waited for a flight has an answer without it: the newest few of such fly on."""
        kept = [one for one in self._late if not (one.task.done() or one.waiters or one is flight)]
        self._late = [*kept, flight]
        for one in self._late[:-LATE_AT_ONCE]:
            self.abandon(one)

    def abandon(self, flight: Flight) -> None:
        """End a flight that nobody waits for; whoever asks now begins another."""
        self._flights = {key: each for key, each in self._flights.items() if each is not flight}
        flight.task.cancel()

    def note(
        self,
        session_id: str,
        turn_id: str,
        roots: tuple[str, ...],
        answer: Answer,
        included: int,
        *,
        contents: tuple[str, ...] = (),
    ) -> None:
        """Remember what a session was answered; `contents` is what it has in context besides."""
        shown = tuple(ranked.memory.content for ranked in answer.ranked[:included])
        texts = tuple(dict.fromkeys((*contents, *shown)))
        self._last[session_id] = Injected(session_id, turn_id, roots, time.time(), answer, included, texts)
        self._last.move_to_end(session_id)
        while len(self._last) > SESSIONS:
            self._last.popitem(last=False)

    def last(self, session_id: str, roots: tuple[str, ...]) -> Injected | None:
        """The session's last answer; with no session named, the newest one of the same roots."""
        if session_id:
            found = self._last.get(session_id)
            return found if found is not None and found.roots == roots else None
        return next((item for item in reversed(self._last.values()) if item.roots == roots), None)

    def injected(self, session_id: str, roots: tuple[str, ...]) -> tuple[str, ...]:
        """Texts of memories that the session was given: what it repeats is no news."""
        found = self._last.get(session_id) if session_id else None
        if found is None or found.roots != roots:
            return ()
        return found.contents

    def purge(self) -> None:
        """Drop all answers. Who waits for a pipeline still gets its answer, but nobody joins or keeps it.

        What each session got last stays on record.
        """
        self._answers.clear()
        self._flights.clear()
        self._beside.clear()

    def forget(self, root: str, ids: Collection[str]) -> None:
        """Drop all answers, and these memories of a root from the record of each session."""
        self.purge()
        for session, got in self._last.items():
            self._last[session] = got.without(root, ids)

    def close(self) -> None:
        """End what runs late."""
        for task in self._running:
            task.cancel()


def _is_of(root: str, ids: Collection[str], home: str, memory: Memory) -> bool:
    return home == root and memory.id in ids


def _alone(ranked: Ranked, root: str, ids: Collection[str]) -> Ranked:
    """A memory without those of its older versions and rivals that are gone."""
    if ranked.root != root:
        return ranked
    older = tuple(each for each in ranked.older if each.id not in ids)
    rivals = tuple(each for each in ranked.rivals if each.id not in ids)
    return replace(ranked, older=older, rivals=rivals)


def _is_lasting(answer: Answer) -> bool:
    return answer.status in {"ok", "empty"} and not answer.degraded
