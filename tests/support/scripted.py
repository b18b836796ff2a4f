"""Capture's side of the daemon with a scripted worker: what it is given, and what it is made to say.

`captured` runs a whole `Pipeline` over real files. Its worker is no process: a test says what it reports and
when it dies. Time is the loop's, and a test may put it forward, so that nobody waits for a back-off.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import TypeVar

from forged.capture.service import Pipeline, State
from forged.capture.spool import Buried, Spool
from forged.capture.values import (
    Document,
    Done,
    Event,
    Failed,
    Head,
    Journalled,
    Linked,
    Ready,
    Report,
    Task,
    Usage,
    WorkerSettings,
)
from forged.conversation import Utterance
from forged.counters import Metrics
from forged.errors import StoreError
from forged.files.roots import Root
from forged.memory import Memory
from forged.models.budget import Governor
from forged.state.pauses import Pauses
from tests.support.loops import PATIENCE_S, turns, until
from tests.support.tasks import roots_in

T = TypeVar("T")
ONE_CALL = Usage(1, 100, 10)


class _Loop(asyncio.SelectorEventLoop):
    shift = 0.0

    def time(self) -> float:
        return super().time() + self.shift


def played(work: Coroutine[None, None, T]) -> T:
    """Run one async test in a loop whose time can be put forward; it is cancelled when it hangs."""

    async def limited() -> T:
        task = asyncio.current_task()
        assert task is not None
        # Of the real clock, whatever the test does with the loop's.
        watchdog = threading.Timer(
            2 * PATIENCE_S, asyncio.get_running_loop().call_soon_threadsafe, [task.cancel]
        )
        watchdog.start()
        try:
            return await work
        finally:
            watchdog.cancel()

    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(limited())


async def later(seconds: float) -> None:
    """Put the loop's time forward, and let happen what was due."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _Loop)
    loop.shift += seconds
    await turns()


class ScriptedSupervisor:
    """Stands where the supervisor does. `given` are all tasks, `limits` their limits."""

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        on_report: Callable[[Report], None],
        on_death: Callable[[str], None],
        on_change: Callable[[], None],
    ) -> None:
        self.settings = settings
        self._on_report, self._on_death, self._on_change = on_report, on_death, on_change
        self.ready = False
        self.pid = self.restarts = 0
        self.problem = ""
        self.wanted = self.stopped = False
        self.given: list[Task] = []
        self.limits: list[float] = []

    def want(self) -> None:
        self.wanted = True

    def give(self, task: Task, limit_s: float) -> None:
        assert self.ready, "no worker to give a task to"
        self.given.append(task)
        self.limits.append(limit_s)

    async def run(self) -> None:
        self.start()
        try:
            await asyncio.Event().wait()
        finally:
            self.ready, self.stopped = False, True

    # --- what a test makes of it ---

    def start(self) -> None:
        self.ready, self.pid = True, 71
        self._on_change()
        self._on_report(Ready(71))

    def is_gone(self) -> None:
        """The worker is dead, and nothing is said about it yet."""
        self.ready, self.pid = False, 0

    def dies(self, reason: str = "signal SIGKILL") -> None:
        """Die of it, and be there again at once."""
        self.is_gone()
        self._on_death(reason)
        self.restarts += 1
        self.start()

    def says(self, report: Report) -> None:
        self._on_report(report)


class Flaky(Spool):
    """A spool on a disk that fails where a test says so, by the name of the operation."""

    failing: frozenset[str] = frozenset()
    asked: tuple[str, ...] = ()

    def put(self, event: Event) -> None:
        self._fail("put")
        super().put(event)

    def remove(self, event_id: str) -> None:
        self._fail("remove")
        super().remove(event_id)

    def bury(self, event: Event, reason: str) -> None:
        self._fail("bury")
        super().bury(event, reason)

    def dead(self) -> tuple[Buried, ...]:
        self._fail("dead")
        return super().dead()

    def dead_count(self) -> int:
        self._fail("dead_count")
        return super().dead_count()

    def _fail(self, name: str) -> None:
        self.asked += (name,)
        if name in self.failing:
            raise StoreError(f"cannot {name}: the disk is on fire")


async def no_heads(_: Event) -> tuple[Head, ...]:
    return ()


class Capture:
    """A pipeline at work and all around it."""

    def __init__(self, top: Path, *, model: bool = False, rank=no_heads, limits=(0, 0), **options) -> None:
        self.top = top
        self.repo, self.user = roots_in(top)
        state = top / "state"
        self.spool = Flaky(str(state / "spool"), str(state / "dead"))
        self.governor = Governor(
            str(state / "cost.json"), daily_token_limit=limits[0], calls_per_minute=limits[1]
        )
        self.pauses = Pauses(str(state / "paused.json"))
        self.metrics = Metrics()
        self.written: list[tuple[Root, frozenset[str]]] = []
        self.pipeline = Pipeline(
            settings=WorkerSettings(
                str(state / "spool"),
                str(state / "dead"),
                str(state / "forgotten"),
                classifier="m" if model else "builtin:rules",
                timeout_s=7.0,
            ),
            spool=self.spool,
            governor=self.governor,
            pauses=self.pauses,
            metrics=self.metrics,
            rank=rank,
            written=lambda root, files: self.written.append((root, files)),
            clock=asyncio.get_running_loop().time,
            **{"supervisor": self._supervisor, **options},
        )
        self.task: asyncio.Task[None] | None = None

    def _supervisor(self, settings, **callbacks) -> ScriptedSupervisor:
        self.worker = ScriptedSupervisor(settings, **callbacks)
        return self.worker

    async def start(self) -> None:
        self.task = asyncio.create_task(self.pipeline.run())
        await turns(3)

    async def stop(self) -> None:
        """As the daemon does on SIGTERM."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        await self.pipeline.close()

    # --- events ---

    def event(self, text: str = "hello", *, session: str = "s", **fields) -> Event:
        given = {"window_id": "w", "roots": (self.repo, self.user)} | fields
        window = (Utterance("user", text),) if text else ()
        return Event(session_id=session, window=window, **given)

    def durable(self, text: str = "hello", **fields) -> Event:
        return self.event(text, kind="compaction", **fields)

    def document(self, content: str = "Builds go through bazel.", memory_id: str = "mem_1") -> Document:
        now = "2026-05-01T10:00:00Z"
        found = Memory(memory_id, content, now, now, 1, self.repo.scope, "patterns", "s", "cadence")
        return Document(self.repo, found)

    async def accepted(self, *events: Event) -> list[str]:
        """Words with which events are taken, in order."""
        return [(await self.pipeline.accept(event)).word for event in events]

    # --- the worker ---

    @property
    def given(self) -> list[Task]:
        return self.worker.given

    async def hands_over(self, event: Event | str, times: int = 1) -> Task:
        """The task for an event, once the worker has it, for the so-manieth time."""
        event_id = event if isinstance(event, str) else event.id

        def tasks() -> list[Task]:
            return [task for task in self.given if task.event_id == event_id]

        await until(lambda: len(tasks()) == times and self.given[-1] is tasks()[-1] and self.in_hand)
        return tasks()[-1]

    @property
    def in_hand(self) -> str:
        return self.state.in_hand

    def journals(self, event: Event, *documents: Document, **fields) -> None:
        """The worker writes down what an event comes to, and says so."""
        self.spool.journal(event.id, documents or (self.document(),))
        self.worker.says(Journalled(event.id, **fields))

    def links(self, event: Event, memory_id: str = "mem_1") -> None:
        self.worker.says(Linked(event.id, self.repo, memory_id, f"{self.repo.top}/{memory_id}.md"))

    def fails(self, event: Event, reason: str = "server", **fields) -> None:
        self.worker.says(Failed(event.id, reason, f"it is {reason}", **fields))

    def done(self, event: Event, **fields) -> None:
        self.worker.says(Done(event.id, **fields))

    async def finished(self, event: Event) -> None:
        """Handed over, done, and out of the line."""
        await self.hands_over(event)
        self.done(event)
        await until(lambda: self.in_hand != event.id)

    # --- what there is ---

    @property
    def state(self) -> State:
        return self.pipeline.state()

    def files(self, directory: str = "spool") -> list[str]:
        return sorted(path.name for path in (self.top / "state" / directory).glob("*"))

    async def idle(self) -> State:
        await until(lambda: self.state.state == "idle")
        return self.state


@contextlib.asynccontextmanager
async def captured(top: Path, *, started: bool = True, **options) -> AsyncIterator[Capture]:
    """A pipeline at work, which is stopped at the end."""
    one = Capture(top, **options)
    try:
        if started:
            await one.start()
            await until(lambda: one.worker.ready or one.task.done())
        yield one
    finally:
        await one.stop()
