"""Keep one capture worker process alive, and run its tasks.

A dead process is replaced at once, a stuck one is killed, and one that cannot start is retried with growing
pauses. `WorkerCall` gives it a `Classify` and returns `Classified`, `TaskFailed`, or the cause of its death.
Meanwhile it answers the worker's questions, with nothing if it cannot. The worker asks before it sends an
event a second time, as the event may have been cut. Reports about other tasks are ignored.

Tasks go over a `multiprocessing.Queue`, reports return over a one-way pipe, both as msgspec bytes. A killed
process leaves either locked or torn, so both are replaced with it. Blocking calls run in a thread. The
process is spawned, as a forked one would keep the daemon's lock and socket. It watches the daemon itself and
ends with it; PR_SET_PDEATHSIG would fire when the thread that started it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from typing import TypeVar

import msgspec

from forged.capture import worker
from forged.capture.values import (
    AskHeads,
    AskRetry,
    AskVectors,
    CallSent,
    Classified,
    Classify,
    HeadsAnswer,
    KnownMemory,
    Ready,
    Report,
    RetryAnswer,
    Task,
    TaskFailed,
    VectorsAnswer,
    WorkerSettings,
)
from forged.capture.vectors import VectorsOf
from forged.counters import EgressRecord
from forged.state import Event
from forged_client.typed import resolved

logger = logging.getLogger(__name__)

T = TypeVar("T")
Target = Callable[["Queue[bytes]", Connection, bytes], None]

_DECODE = msgspec.msgpack.Decoder(resolved(Report)).decode
# Seconds for a worker that closed its pipe to exit by itself, as its exit code says more than SIGKILL.
_LAST_S = 1.0
# Most seconds that the event loop waits for the queue's thread.
_FEEDER_S = 0.1
_STOP_S = 1.0
# Deaths without progress that are repaired at once, and the pause before each further restart: a worker that
# dies when ready must not keep a core busy.
_FREE_DEATHS = 3
_STEADY_S = 0.5
# Seconds that a worker may take beyond its classifier's limit and while it waits for an answer.
_GRACE_S = 60.0


class Patience(msgspec.Struct, frozen=True):
    """Time limits and pauses for the starts of the worker process, in seconds.

    The first start waits for `first_start_s` unless a worker is wanted, so that the daemon starts fast. A
    start is reported after `slow_start_s` and killed after `ready_s`. `retry_s` doubles up to
    `longest_retry_s`.
    """

    first_start_s: float = 1.0
    slow_start_s: float = 4.0
    ready_s: float = 20.0
    retry_s: float = 0.25
    longest_retry_s: float = 60.0


class WorkerProcess:
    """Starts, feeds and kills one worker process, and passes reports on; `over` gets the cause of death."""

    def __init__(
        self,
        target: Target,
        settings: bytes,
        started: Callable[[int], None],
        reported: Callable[[Report], None],
    ) -> None:
        """The loop calls `started` with the process id, and `reported` with each report."""
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[str] = self._loop.create_future()
        self.pid = 0
        self.was_ready = False
        self._target = target
        self._settings = settings
        self._started, self._reported = started, reported
        self._thread = threading.Thread(target=self._run, name="capture-worker", daemon=True)
        # Guards the fields below: a reaped process must not be signalled, as its id may be reused.
        self._lock = threading.Lock()
        self._queue: Queue[bytes] | None = None
        self._is_there = False
        self._killed_for = ""

    def begin(self) -> None:
        """Start the process in a thread of its own; on failure, `over` gets the cause."""
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no thread left
            self.over.set_result(f"cannot be started: {error}")

    def give(self, task: Task) -> None:
        """Put a task into the worker's queue."""
        assert self._queue is not None
        try:
            self._queue.put_nowait(msgspec.msgpack.encode(task))
        except RuntimeError as error:  # the queue needs a thread and the system has none
            self.kill(f"cannot be given a task: {error}")

    def kill(self, reason: str) -> None:
        """Kill the process and its group, now or as soon as it has started."""
        with self._lock:
            self._killed_for = self._killed_for or reason
            if self._is_there:
                _kill_group(self.pid)

    def close(self) -> None:
        """Close the task queue; call it in the loop's thread, as `give` must not find it closed.

        It waits for the queue's thread, which ends at once if no worker reads. Otherwise the exiting
        interpreter may stop that thread halfway through removing the queue's semaphores.
        """
        if self._queue is not None:
            self._queue.close()
            feeder = self._queue._thread  # type: ignore[attr-defined]
            if feeder is not None and feeder.ident is not None:  # without a thread, nothing was fed
                feeder.join(_FEEDER_S)
            self._queue = None

    def _forward(self, report: Report) -> None:
        """Pass a report on, except a Ready from a worker that is being killed."""
        if isinstance(report, Ready):
            self.was_ready = True
            if self._killed_for:
                return
        self._reported(report)

    def _run(self) -> None:
        """Start the process, pass its reports on and wait for its end. Runs in a thread."""
        cause = "cannot be started"
        try:
            process, results = self._launch()
            with results:
                self._listen(results)
            cause = self._wait_for(process)
        except (OSError, RuntimeError, MemoryError) as error:  # no thread, process or memory left
            cause = f"cannot be started: {error or type(error).__name__}"
        finally:
            self._call_in_loop(self.over.set_result, cause)

    def _call_in_loop(self, callback: Callable[[T], None], value: T) -> None:
        """Call a function with a value in the event loop, from the thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback, value)

    def _launch(self) -> tuple[SpawnProcess, Connection]:
        """Spawn the process and return it with the pipe of its reports."""
        context = multiprocessing.get_context("spawn")
        queue: Queue[bytes] = context.Queue(maxsize=1)
        queue.cancel_join_thread()  # unread tasks of a dead worker must not block the exit
        results, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=self._target,
            args=(queue, theirs, self._settings),
            name="forged-capture",
            daemon=True,
        )
        # The queue feeds its pipe in a thread, which would wait forever for a dead worker as long as this
        # process holds the reading end. Without it the thread gets EPIPE, and ends quietly if `_ignore_epipe`
        # is set. Neither attribute has a public name; concurrent.futures does the same (both exist in 3.11 to
        # 3.14, a test checks).
        queue._ignore_epipe = True  # type: ignore[attr-defined]
        try:
            process.start()
        finally:
            theirs.close()  # otherwise the pipe would have no end of file
            queue._reader.close()  # type: ignore[attr-defined]
        assert process.pid is not None
        with self._lock:
            self._queue, self.pid, self._is_there = queue, process.pid, True
        self._call_in_loop(self._started, process.pid)
        if self._killed_for:
            self.kill(self._killed_for)
        return process, results

    def _listen(self, results: Connection) -> None:
        """Pass the process's reports to the loop until the pipe ends; kill it for an unreadable one."""
        while True:
            try:
                data = results.recv_bytes()
            except (EOFError, OSError):
                return
            try:
                report = _DECODE(data)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a newer version is installed on disk
                self.kill(f"its report cannot be read: {error}")
                return
            self._call_in_loop(self._forward, report)

    def _wait_for(self, process: SpawnProcess) -> str:
        """Wait for the end of the process, kill its group, and return the cause of its death."""
        if not wait([process.sentinel], _LAST_S):
            self.kill("it closed its pipe")
        wait([process.sentinel])
        with self._lock:
            _kill_group(self.pid)  # also its child processes
            process.join()
            self._is_there = False
        cause = self._killed_for or _exit_cause(process.exitcode or 0)
        process.close()
        return cause


def _kill_group(pid: int) -> None:
    """Kill a child, which must not have been reaped, and its process group if it has one yet."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _exit_cause(exit_code: int) -> str:
    """Return the cause of death that an exit code shows."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"signal {-exit_code}"


class Supervisor:
    """Keeps one worker process alive: starts, restarts and kills it, and passes its reports on.

    `problem` explains why no worker can run.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        on_report: Callable[[Report], None],
        on_death: Callable[[str], None],
        target: Target = worker.main,
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        """The loop calls `on_report` with each report, then `on_death` with the cause."""
        self._settings = msgspec.msgpack.encode(settings)
        self._on_report = on_report
        self._on_death = on_death
        self._target = target
        self._patience = patience
        self._wanted = asyncio.Event()
        self._current: WorkerProcess | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._limit_s = 0.0
        self._failed_starts = self._deaths_without_report = 0
        self.ready = False
        self.pid = self.restarts = 0  # 0: no worker
        self.problem = ""

    def want(self) -> None:
        """Start the first worker now, not after the delay at daemon start, as a task will come soon."""
        self._wanted.set()

    def give(self, task: Task, limit_s: float) -> None:
        """Give a task or an answer to a `ready` worker; kill it after `limit_s` without a report."""
        assert self.ready, "no worker to give a task to"
        assert self._current is not None
        self._current.give(task)
        self._limit_s = limit_s
        self._set_deadline(limit_s)

    async def run(self) -> None:
        """Keep one worker alive until cancelled; then kill its process group."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience.first_start_s):
                await self._wanted.wait()
        while True:
            was_ready, cause = await self._run_worker()
            pause_s = self._record_end(cause, was_ready=was_ready)
            self._on_death(cause)
            await asyncio.sleep(pause_s)
            self.restarts += 1

    async def _run_worker(self) -> tuple[bool, str]:
        """Run one worker to its end; return True if it was ever ready, and the cause of its end."""
        self._current = one = WorkerProcess(self._target, self._settings, self._set_pid, self._handle_report)
        self._set_deadline(self._patience.ready_s, self._patience.slow_start_s)
        try:
            one.begin()
            await asyncio.wait({one.over})
        finally:
            # If cancelled, the process still runs. Its event is on disk or in the queue.
            self.ready = False
            self._set_deadline()
            one.kill("the daemon stops")
            try:
                await asyncio.wait({one.over}, timeout=_STOP_S)
            finally:
                one.close()
                self._current, self.pid = None, 0
        return one.was_ready, one.over.result()

    def _record_end(self, cause: str, *, was_ready: bool) -> float:
        """Record the end of a worker; return the seconds until the next one starts."""
        self._deaths_without_report += 1
        if was_ready:
            logger.warning("worker died cause=%s", cause)
            return 0.0 if self._deaths_without_report <= _FREE_DEATHS else _STEADY_S
        pause_s = self._patience.retry_s * 2.0 ** min(self._failed_starts, 20)
        self._failed_starts += 1
        self._report_problem(f"the capture worker cannot run: {cause}")
        return min(pause_s, self._patience.longest_retry_s)

    def _set_pid(self, pid: int) -> None:
        """Store the process id of the current worker."""
        self.pid = pid if self._current is not None else 0

    def _handle_report(self, report: Report) -> None:
        """Update the deadline and the state by a report, and pass it on."""
        match report:
            case Ready():
                self._set_deadline()
                self._failed_starts = 0
                self.ready = not report.problem
                self._report_problem(report.problem)
                logger.info("worker ready pid=%d restarts=%d", report.pid, self.restarts)
            case Classified() | TaskFailed():
                self._set_deadline()
                self._deaths_without_report = 0
            case _:
                self._set_deadline(self._limit_s)
                self._deaths_without_report = 0
        self._on_report(report)

    def _set_deadline(self, limit_s: float | None = None, slow_s: float | None = None) -> None:
        """Reset timers: kill a silent worker after `limit_s`, report slow starts after `slow_s`."""
        for timer in self._timers:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers = []
        if limit_s is not None:
            self._timers.append(loop.call_later(limit_s, self._kill_overdue, limit_s))
        if slow_s is not None:
            self._timers.append(loop.call_later(slow_s, self._report_slow_start, slow_s))

    def _kill_overdue(self, limit_s: float) -> None:
        """Kill the worker, because it did not report in time."""
        self.ready = False
        if self._current is not None:
            self._current.kill(f"no report for {limit_s:g} s")

    def _report_slow_start(self, slow_s: float) -> None:
        """Report that the worker is not ready in time, without killing it."""
        self._report_problem(f"the capture worker is not ready after {slow_s:g} s")

    def _report_problem(self, problem: str) -> None:
        """Set the reason why no worker can run ("" for none), and log a new one."""
        if problem and problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem


HeadsOf = Callable[[Event, Sequence[str]], Awaitable[tuple[KnownMemory, ...]]]
MakeSupervisor = Callable[..., Supervisor]
LastReport = Classified | TaskFailed | str
"""Last report about a task, or the cause of the worker's death."""


class WorkerCall:
    """Gives the worker one task at a time, answers its questions, and returns its last report.

    `is_current` returns True for an event that is unchanged since it was given.
    """

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        heads: HeadsOf,
        vectors: VectorsOf | None,
        is_current: Callable[[Event], bool],
        on_call_sent: Callable[[EgressRecord], None],
        make_supervisor: MakeSupervisor,
        start: Callable[[Coroutine[None, None, None]], None],
        on_ready: Callable[[], None],
    ) -> None:
        self._limit_s = settings.timeout_s + _GRACE_S
        self._heads = heads
        self._vectors = vectors
        self._is_current = is_current
        self._on_call_sent = on_call_sent
        self._start = start
        self._on_ready = on_ready
        self._event: Event | None = None  # of the current task
        self._answer: asyncio.Future[LastReport] | None = None  # to the current task
        self.supervisor = make_supervisor(settings, on_report=self._handle_report, on_death=self._fail_task)

    async def ask(self, task: Classify) -> LastReport:
        """Give the worker a task, and return its last report or the cause of its death."""
        self._event, self._answer = task.event, asyncio.get_running_loop().create_future()
        try:
            self.supervisor.give(task, self._limit_s)
            return await self._answer
        finally:
            self._event = self._answer = None

    def cancel(self) -> None:
        """Stop waiting for the worker's answer; one that has arrived is kept."""
        if self._answer is not None:
            self._answer.cancel()

    def _handle_report(self, report: Report) -> None:
        """Handle a worker's report: that it is ready, a sent call, a question, or the task's result."""
        if isinstance(report, Ready):
            self._on_ready()
            return
        if isinstance(report, CallSent):
            self._on_call_sent(report.record)
            return
        event, answer = self._event, self._answer
        if event is None or answer is None or answer.done() or event.id != report.event_id:
            logger.warning("report about another event=%s", report.event_id)
        elif isinstance(report, AskHeads):
            self._start(self._send_heads(event, report.names))
        elif isinstance(report, AskRetry):
            self._reply(RetryAnswer(event.id, self._is_current(event)))
        elif isinstance(report, AskVectors):
            self._start(self._send_vectors(event, report.texts))
        else:
            answer.set_result(report)

    def _fail_task(self, reason: str) -> None:
        """Finish the task in hand with the cause of the worker's death."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reason)

    async def _send_heads(self, event: Event, names: Sequence[str]) -> None:
        """Send the current memories with one of `names` in the first line; none if that fails."""
        heads: tuple[KnownMemory, ...] = ()
        try:
            heads = await self._heads(event, names)
        except Exception:
            logger.exception("no heads event=%s", event.id)
        self._reply(HeadsAnswer(event.id, heads))

    async def _send_vectors(self, event: Event, texts: Sequence[str]) -> None:
        """Send the vectors of texts to the worker, or none."""
        self._reply(VectorsAnswer(event.id, await self._vectors(texts) if self._vectors else ()))

    def _reply(self, answer: HeadsAnswer | VectorsAnswer | RetryAnswer) -> None:
        """Send an answer to the worker, if it still waits for one."""
        if self._answer is not None and self.supervisor.ready:
            self.supervisor.give(answer, self._limit_s)
