"""Keep one capture worker process alive, and follow its task.

The process is replaced at once when it dies, killed when stuck, and tried later and later if it cannot start.
`WorkerCall` gives it a `Classify` and returns `Classified`, `TaskFailed`, or the cause of its death;
meanwhile it answers the worker's questions, with nothing where it cannot. The worker asks before it sends an
event once more, which must not be if that was cut. A report about another task changes nothing.

Tasks go over a `multiprocessing.Queue`, reports come back over a one-way pipe, both as msgspec bytes. A
killed process leaves either locked or torn, so both go with it. All that can block happens in a thread. The
process is spawned: a forked one would keep the daemon's lock and socket. It ends with the daemon by watching
for that itself; PR_SET_PDEATHSIG would fire when the thread that started it ends.
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

logger = logging.getLogger(__name__)

T = TypeVar("T")
Target = Callable[["Queue[bytes]", Connection, bytes], None]

_DECODE = msgspec.msgpack.Decoder(Report).decode
# A worker that closed its pipe is about to end by itself, with an exit code that says more than SIGKILL.
_LAST_S = 1.0
# The event loop waits so long for the queue's thread, if ever.
_FEEDER_S = 0.1
_STOP_S = 1.0
# Deaths without any progress that are made good at once, and the pause before each further one: a worker
# that dies as soon as it is ready must not keep a core busy.
_FREE_DEATHS = 3
_STEADY_S = 0.5
# What a worker may take beyond its classifier's time limit, and while it waits for an answer of ours.
_GRACE_S = 60.0


class Patience(msgspec.Struct, frozen=True):
    """Seconds: until the first start unless one is wanted, until a start is shown or killed, of retries.

    The first start waits so that the daemon starts fast; `retry_s` doubles up to `longest_retry_s`.
    """

    first_start_s: float = 1.0
    slow_start_s: float = 4.0
    ready_s: float = 20.0
    retry_s: float = 0.25
    longest_retry_s: float = 60.0


class WorkerProcess:
    """Used once, from the event loop. `over` gets the cause of death, after the last report."""

    def __init__(
        self,
        target: Target,
        settings: bytes,
        started: Callable[[int], None],
        reported: Callable[[Report], None],
    ) -> None:
        """`started` is called in the loop with the process id, and `reported` with each report."""
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[str] = self._loop.create_future()
        self.pid = 0
        self.was_ready = False
        self._target = target
        self._settings = settings
        self._started, self._reported = started, reported
        self._thread = threading.Thread(target=self._run, name="capture-worker", daemon=True)
        # Guards what follows: a process that has been waited for must not be signalled any more, for its
        # number may be another's.
        self._lock = threading.Lock()
        self._queue: Queue[bytes] | None = None
        self._is_there = False
        self._killed_for = ""

    def begin(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no thread for us
            self.over.set_result(f"cannot be started: {error}")

    def give(self, task: Task) -> None:
        assert self._queue is not None
        try:
            self._queue.put_nowait(msgspec.msgpack.encode(task))
        except RuntimeError as error:  # the system has no thread for the queue
            self.kill(f"cannot be given a task: {error}")

    def kill(self, reason: str) -> None:
        """End the process and its group, at once or as soon as it has been started."""
        with self._lock:
            self._killed_for = self._killed_for or reason
            if self._is_there:
                _kill_group(self.pid)

    def close(self) -> None:
        """Give the queue's thread and pipe back. Here and not in our thread, lest `give` meets it closed.

        That thread is waited for, as it ends at once when no worker reads: as the last to let go of the
        queue's semaphores while the interpreter ends, it may be cut off when half of them are removed.
        """
        if self._queue is not None:
            self._queue.close()
            feeder = self._queue._thread  # type: ignore[attr-defined]
            if feeder is not None and feeder.ident is not None:  # else the system had no thread for it
                feeder.join(_FEEDER_S)
            self._queue = None

    def _forward(self, report: Report) -> None:
        """Pass a report on; of a worker that is being killed only what it got done."""
        if isinstance(report, Ready):
            self.was_ready = True
            if self._killed_for:
                return
        self._reported(report)

    def _run(self) -> None:
        cause = "cannot be started"
        try:
            process, results = self._launch()
            with results:
                self._listen(results)
            cause = self._wait_for(process)
        except (OSError, RuntimeError, MemoryError) as error:  # no thread, no process or no room for one
            cause = f"cannot be started: {error or type(error).__name__}"
        finally:
            self._in_loop(self.over.set_result, cause)

    def _in_loop(self, callback: Callable[[T], None], value: T) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for us
            self._loop.call_soon_threadsafe(callback, value)

    def _launch(self) -> tuple[SpawnProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        queue: Queue[bytes] = context.Queue(maxsize=1)
        queue.cancel_join_thread()  # what a dead worker has not read must not hold the daemon's end
        results, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=self._target,
            args=(queue, theirs, self._settings),
            name="forged-capture",
            daemon=True,
        )
        # The queue feeds its pipe in a thread of its own, which would wait for ever for a dead worker to read
        # on as long as we ourselves hold the reading end. Without it the thread gets EPIPE, and ends quietly
        # if told so. There is no public name for either; concurrent.futures does the same (both attributes
        # are in 3.11 to 3.14, a test looks).
        queue._ignore_epipe = True  # type: ignore[attr-defined]
        try:
            process.start()
        finally:
            theirs.close()  # else its end would not be the end of the file
            queue._reader.close()  # type: ignore[attr-defined]
        assert process.pid is not None
        with self._lock:
            self._queue, self.pid, self._is_there = queue, process.pid, True
        self._in_loop(self._started, process.pid)
        if self._killed_for:
            self.kill(self._killed_for)
        return process, results

    def _listen(self, results: Connection) -> None:
        """Pass reports on until the pipe ends, perhaps in the middle of one."""
        while True:
            try:
                data = results.recv_bytes()
            except (EOFError, OSError):
                return
            try:
                report = _DECODE(data)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:  # a newer version lies on disk
                self.kill(f"its report cannot be read: {error}")
                return
            self._in_loop(self._forward, report)

    def _wait_for(self, process: SpawnProcess) -> str:
        """Wait for the end of the process, and say what it died of."""
        if not wait([process.sentinel], _LAST_S):
            self.kill("it closed its pipe")
        wait([process.sentinel])
        with self._lock:
            _kill_group(self.pid)  # what it may have started
            process.join()
            self._is_there = False
        cause = self._killed_for or _exit_cause(process.exitcode or 0)
        process.close()
        return cause


def _kill_group(pid: int) -> None:
    """Kill a child that has not been waited for and all of its group; it may not have one of its own yet."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _exit_cause(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"signal {-exit_code}"


class Supervisor:
    """One for the daemon; lives in its event loop. `problem` is why no worker can run."""

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        on_report: Callable[[Report], None],
        on_death: Callable[[str], None],
        target: Target = worker.main,
        patience: Patience = Patience(),  # noqa: B008 - frozen
    ) -> None:
        """Callbacks run in the loop; `on_death` gets the cause, after the last report of that worker."""
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
        self.pid = self.restarts = 0  # no worker has the number 0
        self.problem = ""

    def want(self) -> None:
        """Something will be given soon: do not put the first start off."""
        self._wanted.set()

    def give(self, task: Task, limit_s: float) -> None:
        """Hand a task or an answer to a `ready` worker, which is killed after `limit_s` without report."""
        assert self.ready, "no worker to give a task to"
        assert self._current is not None
        self._current.give(task)
        self._limit_s = limit_s
        self._set_deadline(limit_s)

    async def run(self) -> None:
        """Keep a worker until cancelled; its whole process group is killed then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience.first_start_s):
                await self._wanted.wait()
        while True:
            was_ready, cause = await self._run_worker()
            pause_s = self._after(cause, was_ready=was_ready)
            self._on_death(cause)
            await asyncio.sleep(pause_s)
            self.restarts += 1

    async def _run_worker(self) -> tuple[bool, str]:
        """One worker process from start to end: whether it was ever ready, and why it ended."""
        self._current = one = WorkerProcess(self._target, self._settings, self._started, self._reported)
        self._set_deadline(self._patience.ready_s, self._patience.slow_start_s)
        try:
            one.begin()
            await asyncio.wait({one.over})
        finally:
            # If cancelled, the process still runs. Its event is safe on disk or in the queue.
            self.ready = False
            self._set_deadline()
            one.kill("the daemon stops")
            try:
                await asyncio.wait({one.over}, timeout=_STOP_S)
            finally:
                one.close()
                self._current, self.pid = None, 0
        return one.was_ready, one.over.result()

    def _after(self, cause: str, *, was_ready: bool) -> float:
        self._deaths_without_report += 1
        if was_ready:
            logger.warning("worker died cause=%s", cause)
            return 0.0 if self._deaths_without_report <= _FREE_DEATHS else _STEADY_S
        pause_s = self._patience.retry_s * 2.0 ** min(self._failed_starts, 20)
        self._failed_starts += 1
        self._report_problem(f"the capture worker cannot run: {cause}")
        return min(pause_s, self._patience.longest_retry_s)

    def _started(self, pid: int) -> None:
        self.pid = pid if self._current is not None else 0

    def _reported(self, report: Report) -> None:
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
        """The next report is due in `limit_s` seconds, or none is."""
        for timer in self._timers:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers = []
        if limit_s is not None:
            self._timers.append(loop.call_later(limit_s, self._overdue, limit_s))
        if slow_s is not None:
            self._timers.append(loop.call_later(slow_s, self._slow, slow_s))

    def _overdue(self, limit_s: float) -> None:
        self.ready = False
        if self._current is not None:
            self._current.kill(f"no report for {limit_s:g} s")

    def _slow(self, slow_s: float) -> None:
        self._report_problem(f"the capture worker is not ready after {slow_s:g} s")

    def _report_problem(self, problem: str) -> None:
        if problem and problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem


HeadsOf = Callable[[Event, Sequence[str]], Awaitable[tuple[KnownMemory, ...]]]
MakeSupervisor = Callable[..., Supervisor]
LastReport = Classified | TaskFailed | str
"""The last report about a task, or what the worker died of."""


class WorkerCall:
    """One for the daemon; `current` says whether an event is still as it was given."""

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
        self._event: Event | None = None  # that the worker has
        self._answer: asyncio.Future[LastReport] | None = None  # to it
        self.supervisor = make_supervisor(settings, on_report=self._reported, on_death=self._died)

    async def ask(self, task: Classify) -> LastReport:
        """What the worker makes of a task."""
        self._event, self._answer = task.event, asyncio.get_running_loop().create_future()
        try:
            self.supervisor.give(task, self._limit_s)
            return await self._answer
        finally:
            self._event = self._answer = None

    def cancel(self) -> None:
        """Wait no longer for the worker; an answer that came already stays."""
        if self._answer is not None:
            self._answer.cancel()

    def _reported(self, report: Report) -> None:
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

    def _died(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reason)

    async def _send_heads(self, event: Event, names: Sequence[str]) -> None:
        heads: tuple[KnownMemory, ...] = ()
        try:
            heads = await self._heads(event, names)
        except Exception:
            logger.exception("no heads event=%s", event.id)
        self._reply(HeadsAnswer(event.id, heads))

    async def _send_vectors(self, event: Event, texts: Sequence[str]) -> None:
        self._reply(VectorsAnswer(event.id, await self._vectors(texts) if self._vectors else ()))

    def _reply(self, answer: HeadsAnswer | VectorsAnswer | RetryAnswer) -> None:
        if self._answer is not None and self.supervisor.ready:
            self.supervisor.give(answer, self._limit_s)
