"""Capture's side of the daemon with a scripted worker: what it is given, and what it is made to say.

`captured` runs a whole `Pipeline` over real files. Its worker is no process: a test says what it reports and
when it dies. Time is the loop's, and a test may put it forward, so that nobody waits for a back-off.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from pathlib import Path
from sqlite3 import Connection
from types import MappingProxyType

from forged.capture.service import CaptureState, Pipeline
from forged.capture.values import (
    Classify,
    Decided,
    Done,
    Failed,
    KnownMemory,
    Link,
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
from forged.files import Root
from forged.memory import Memory
from forged.models.budget import Governor
from forged.state import Document, Event, OwnFile, State, tables
from forged.state.database import connect, transaction
from forged.state.event_values import encoded
from forged.trust import Withheld
from tests.state.flaky import FlakyDatabase
from tests.support.clock import turns, until
from tests.support.worker import roots_in

ONE_CALL = Usage(1, 100, 10)
NOTHING: Mapping[str, tuple[Document, ...]] = MappingProxyType({})


class ScriptedSupervisor:
    """Stands where the supervisor does. `given` are all tasks, `limits` their limits."""

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        on_report: Callable[[Report], None],
        on_death: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self._on_report, self._on_death = on_report, on_death
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


async def nothing_known(_: Event) -> tuple[KnownMemory, ...]:
    return ()


class StandInTrust:
    """Says that these files are withheld; `owned` are ids of what was put on record, in order."""

    def __init__(self) -> None:
        self.owned: list[str] = []
        self.withholds: tuple[Withheld, ...] = ()
        self.fails = ""

    async def withheld(self, roots: Iterable[Root]) -> tuple[Withheld, ...]:
        return self.withholds

    async def own(self, root: Root, files: Iterable[OwnFile]) -> None:
        if self.fails:
            raise StoreError(self.fails)
        self.owned += [file.id for file in files]


class Capture:
    """A pipeline at work and all around it."""

    def __init__(
        self, top: Path, *, model: bool = False, rank=nothing_known, limits=(0, 0), **options
    ) -> None:
        self.top = top
        self.repo, self.user = roots_in(top)
        self.governor = Governor(daily_token_limit=limits[0], calls_per_minute=limits[1])
        self.daemon_state = State(str(top / "state"), self.governor)
        self.disk = self.daemon_state._database
        self.disk.__class__ = FlakyDatabase
        self.events, self.pauses = self.daemon_state.events, self.daemon_state.pauses
        self.metrics = Metrics()
        self.written: list[tuple[str, frozenset[str]]] = []
        self.trust = StandInTrust()
        self.pipeline = Pipeline(
            settings=WorkerSettings(classifier="m" if model else "", timeout_s=7.0),
            state=self.daemon_state,
            governor=self.governor,
            metrics=self.metrics,
            rank=rank,
            written=lambda top, files: self.written.append((top, files)),
            clock=asyncio.get_running_loop().time,
            **{"supervisor": self._supervisor, "trust": self.trust, **options},
        )
        self._is_closed = False
        self._continued: list[Task] = []
        self.keeping: asyncio.Task[None] | None = None
        self.task: asyncio.Task[None] | None = None

    def _supervisor(self, settings, **callbacks) -> ScriptedSupervisor:
        self.worker = ScriptedSupervisor(settings, **callbacks)
        return self.worker

    def begin(self) -> None:
        """As the daemon does, and nothing has happened yet."""
        self.keeping = asyncio.create_task(self.daemon_state.run())
        self.task = asyncio.create_task(self.pipeline.run())

    async def start(self) -> None:
        self.begin()
        await self.daemon_state.opened()
        await turns(3)

    async def stop(self) -> None:
        """As the daemon does on SIGTERM."""
        for task in (self.task, self.keeping):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if not self._is_closed:
            await self.pipeline.close()
            self._is_closed = True
            await self.daemon_state.close()

    def leave(self, *events: Event, decided: Mapping[str, tuple[Document, ...]] = NOTHING) -> None:
        """What an earlier daemon left; to be called before this one begins."""
        with contextlib.closing(connect(self.disk.path)) as connection:
            tables.start(connection, expected=False)
            with transaction(connection):
                for event in events:
                    tables.put(connection, "events", event.id, encoded(event))
                for event_id, documents in decided.items():
                    tables.put(connection, "journal", event_id, encoded(documents))

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
        """The first task of each attempt."""
        return [task for task in self.worker.given if not any(task is other for other in self._continued)]

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

    async def decides(self, event: Event, *documents: Document, **fields) -> Link:
        """The worker says what an event comes to; the task to put that in place, once it has it."""
        given = len(self.worker.given)
        self.worker.says(Decided(event.id, documents or (self.document(),), **fields))
        await until(lambda: len(self.worker.given) > given)
        task = self.worker.given[-1]
        assert isinstance(task, Link)
        self._continued.append(task)
        return task

    def links(self, event: Event, memory_id: str = "mem_1") -> None:
        self.worker.says(Linked(event.id, self.repo.top, f"{self.repo.top}/{memory_id}.md"))

    async def fails(self, event: Event, reason: str = "server", **fields) -> None:
        """The worker says so, and what follows from that has happened."""
        self.worker.says(Failed(event.id, reason, f"it is {reason}", **fields))
        await turns()

    def done(self, event: Event, *, written: int = 0, **fields) -> None:
        """The worker is done: it has found nothing to keep, or has put all of it in place."""
        if self.worker.given and isinstance(self.worker.given[-1], Classify):
            self.worker.says(Decided(event.id, **fields))
        else:
            self.worker.says(Done(event.id, written, **fields))

    async def finished(self, event: Event) -> None:
        """Handed over, done, and out of the line."""
        await self.hands_over(event)
        self.done(event)
        await until(lambda: self.in_hand != event.id)

    # --- what there is ---

    @property
    def state(self) -> CaptureState:
        return self.pipeline.state()

    def rows(self, *names: str) -> list[str]:
        """What is on disk: `<id>.events` and `<id>.journal`, or in other tables."""

        def read(connection: Connection) -> list[str]:
            return [
                f"{event_id}.{table}"
                for table in names or ("events", "journal")
                for (event_id,) in connection.execute(f"SELECT id FROM {table}")
            ]

        if self._is_closed:
            with contextlib.closing(connect(self.disk.path)) as connection:
                return sorted(read(connection))
        return sorted(self.disk._thread.submit(lambda: read(self.disk._opened())).result())

    async def idle(self) -> CaptureState:
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
