"""Capture's side of the daemon with a scripted worker and committer.

`captured` runs a whole `CaptureService` over a real state. Its worker is no process: a test says what it
reports and when it dies. Its committer writes nothing: a test says what an event comes to, and how putting
that in place ends. Time is the loop's, and a test may put it forward, so that nobody waits for a back-off.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from sqlite3 import Connection
from types import MappingProxyType

import msgspec

from forged.capture.committer import CommitResult
from forged.capture.intake import Outcome, SubmittedEvents
from forged.capture.service import CaptureService
from forged.capture.values import (
    Classified,
    Classify,
    KnownMemory,
    Ready,
    Report,
    Tally,
    Task,
    TaskFailed,
    Usage,
    WorkerSettings,
)
from forged.conversation import Utterance
from forged.counters import Metrics
from forged.memory import Memory
from forged.models.budget import Governor
from forged.state import DecidedMemory, Event, State, database
from forged.state.database import connect, transaction
from forged.state.event_values import encoded
from forged_client.protocol import CaptureReport
from tests.state.flaky import FlakyDatabase
from tests.support.clock import PATIENCE_S, turns, until
from tests.support.reading import bytes_of
from tests.support.worker import roots_in

ONE_CALL = Usage(1, 100, 10)
NOTHING: Mapping[str, tuple[DecidedMemory, ...]] = MappingProxyType({})


class ScriptedSupervisor:
    """Stands where the supervisor does. `given` are all tasks, `limits` their limits."""

    def __init__(
        self,
        settings: WorkerSettings,
        handed: list[Task | Putting],
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
        self._handed = handed
        self.given: list[Task] = []
        self.limits: list[float] = []

    def want(self) -> None:
        self.wanted = True

    def give(self, task: Task, limit_s: float) -> None:
        assert self.ready, "no worker to give a task to"
        self.given.append(task)
        if isinstance(task, Classify):
            self._handed.append(task)
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


def _event_id(task: Task | Putting) -> str:
    return task.event.id if isinstance(task, Classify) else task.event_id


class Putting(msgspec.Struct, frozen=True):
    """Documents of an event that are to be put in place."""

    event_id: str
    documents: tuple[DecidedMemory, ...]


class StandInCommitter:
    """Says what an event comes to as it was told before, and puts nothing anywhere.

    `begins` is told of documents that are to be put in place; how that ends is for a test to say.
    """

    def __init__(self, begins: Callable[[tuple[DecidedMemory, ...]], None]) -> None:
        self._begins = begins
        self.comes_to: tuple[DecidedMemory, ...] = ()
        self.tally = Tally()
        self.heads_of: tuple[KnownMemory, ...] = ()
        self.asked: list[tuple[str, ...]] = []
        self.putting: asyncio.Future[CommitResult] | None = None

    async def heads(self, event: Event, names: Sequence[str]) -> tuple[KnownMemory, ...]:
        self.asked.append(tuple(names))
        return self.heads_of

    async def decide(self, event: Event, classified: Classified) -> tuple[tuple[DecidedMemory, ...], Tally]:
        return self.comes_to, self.tally

    async def put(self, documents: tuple[DecidedMemory, ...], tops: Sequence[str]) -> CommitResult:
        self._begins(documents)
        self.putting = asyncio.get_running_loop().create_future()
        try:
            return await self.putting
        finally:
            self.putting = None


async def accept(pipeline: CaptureService, event: Event) -> Outcome:
    """Have an event taken as it is."""
    return await pipeline._accept(event.kind, SubmittedEvents((event,) if event.window else ()), event.tops)


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
        self.handed: list[Task | Putting] = []
        self.committer = StandInCommitter(self._put_begins)
        self.pipeline = CaptureService(
            settings=WorkerSettings(classifier="m" if model else "", timeout_s=7.0),
            state=self.daemon_state,
            governor=self.governor,
            metrics=self.metrics,
            rank=rank,
            clock=asyncio.get_running_loop().time,
            **{"supervisor": self._supervisor, "committer": self.committer, **options},
        )
        self._is_closed = False
        self._decided: object = None  # the attempt in which documents follow
        self.keeping: asyncio.Task[None] | None = None
        self.task: asyncio.Task[None] | None = None

    def _supervisor(self, settings, **callbacks) -> ScriptedSupervisor:
        self.worker = ScriptedSupervisor(settings, self.handed, **callbacks)
        return self.worker

    def _put_begins(self, documents: tuple[DecidedMemory, ...]) -> None:
        waiting = self.pipeline._queue.in_hand
        assert waiting is not None
        self.put_last = Putting(waiting.event.id, documents)
        if self._decided != (waiting.event.id, waiting.taken_at):
            self.handed.append(self.put_last)

    def begin(self) -> None:
        """As the daemon does, and nothing has happened yet."""
        self.keeping = asyncio.create_task(self.daemon_state.run())
        self.task = asyncio.create_task(self.pipeline.run())

    @contextlib.contextmanager
    def held_disk(self) -> Iterator[None]:
        """The thread that opens the state and writes to it does nothing meanwhile."""
        go = threading.Event()
        self.disk._thread.submit(go.wait, PATIENCE_S)
        try:
            yield
        finally:
            go.set()

    async def start(self) -> None:
        self.begin()
        await self.daemon_state.wait_until_open()
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

    def leave(self, *events: Event, decided: Mapping[str, tuple[DecidedMemory, ...]] = NOTHING) -> None:
        """What an earlier daemon left; to be called before this one begins."""
        with contextlib.closing(connect(self.disk.path)) as connection:
            database.start(connection, [table.name for table in self.disk.tables], expected=False)
            with transaction(connection):
                for event in events:
                    database.put(connection, "events", event.id, 0.0, encoded(event))
                for event_id, documents in decided.items():
                    database.put(connection, "journal", event_id, 0.0, encoded(documents))

    # --- events ---

    def event(self, text: str = "hello", *, session: str = "s", **fields) -> Event:
        given = {"roots": (self.repo, self.user)} | fields
        window = (Utterance("user", text),) if text else ()
        return Event(session_id=session, window=window, **given)

    def durable(self, text: str = "hello", **fields) -> Event:
        return self.event(text, kind="compaction", **fields)

    def document(self, content: str = "Builds go through bazel.", memory_id: str = "mem_1") -> DecidedMemory:
        now = "2026-05-01T10:00:00Z"
        found = Memory(memory_id, content, now, now, 1, self.repo.scope, "patterns", "s", "cadence")
        return DecidedMemory(self.repo, found)

    async def accepted(self, *events: Event) -> list[str]:
        """Words with which events are taken, in order."""
        return [(await accept(self.pipeline, event)).word for event in events]

    # --- the worker ---

    @property
    def given(self) -> list[Task | Putting]:
        """What each attempt began with."""
        return self.handed

    async def hands_over(self, event: Event | str, times: int = 1) -> Task | Putting:
        """What is to be done about an event, once that has begun for the so-manieth time."""
        event_id = event if isinstance(event, str) else event.id

        def tasks() -> list[Task | Putting]:
            return [task for task in self.given if _event_id(task) == event_id]

        await until(lambda: len(tasks()) == times and self.given[-1] is tasks()[-1] and self.in_hand)
        return tasks()[-1]

    @property
    def in_hand(self) -> str:
        """SubmittedEvents from the line; the worker may not have it yet."""
        return self.state.in_hand

    async def asked(self) -> Event:
        """The event in hand, once the worker has it: what it says before that is about nothing."""
        return await until(lambda: self.pipeline._dispatcher._call._event)

    def says(self, event: Event, *documents: DecidedMemory, tally: Tally = Tally(), **fields) -> None:  # noqa: B008
        """The worker says what it makes of an event, and it comes to these documents."""
        self.committer.comes_to, self.committer.tally = documents, tally
        waiting = self.pipeline._queue.in_hand
        self._decided = (event.id, waiting.taken_at) if waiting is not None else None
        self.worker.says(Classified(**fields, event_id=event.id))

    async def decides(self, event: Event, *documents: DecidedMemory, **fields) -> Putting:
        """The same, and what is to be put in place once that has begun."""
        self.says(event, *(documents or (self.document(),)), **fields)
        await until(lambda: self.committer.putting is not None)
        return self.put_last

    async def fails(self, event: Event, reason: str = "server", **fields) -> None:
        """What is under way fails, and what follows from that has happened."""
        if self.committer.putting is not None and event.id == self.in_hand:
            self.committer.putting.set_result(CommitResult(reason=reason, trouble=f"it is {reason}"))
        else:
            self.worker.says(TaskFailed(event.id, reason, f"it is {reason}", **fields))
        await turns()

    def done(self, event: Event, *, written: int = 0, **fields) -> None:
        """There is nothing to keep, or all of it is in place."""
        if self.committer.putting is not None and event.id == self.in_hand:
            self.committer.putting.set_result(CommitResult(written))
        else:
            self.says(event, **fields)

    async def finished(self, event: Event) -> None:
        """Handed over, done, and out of the line."""
        await self.hands_over(event)
        self.done(event)
        await until(lambda: self.in_hand != event.id)

    # --- what there is ---

    @property
    def state(self) -> CaptureReport:
        return self.pipeline.report()

    def rows(self, *names: str) -> list[str]:
        """What is on disk: `<id>.events` and `<id>.journal`, or in other tables."""

        def read(connection: Connection) -> list[str]:
            return [
                f"{event_id}.{table}"
                for table in names or ("events", "journal")
                for (event_id,) in connection.execute(f"SELECT key FROM {table}")
            ]

        if self._is_closed:
            with contextlib.closing(connect(self.disk.path)) as connection:
                return sorted(read(connection))
        return sorted(self.disk._thread.submit(lambda: read(self.disk._require_open())).result())

    async def bytes_on_disk(self) -> bytes:
        """All of the state directory, once what was removed has been erased."""
        await self.daemon_state.erase_traces()
        return b"".join(bytes_of(self.top.glob("state/*")).values())

    async def idle(self) -> CaptureReport:
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
