"""Keeps one capture worker process alive: replaced when it dies, killed when stuck, ended with the daemon.

`run` keeps it until cancelled, `give` hands it a task; what it says and when it dies is told by callbacks. A
worker that has run before is replaced at once, because its event waits. One that cannot even start says so in
status and is tried again later and later: retrieval goes on meanwhile, and so does the acceptance of events.
Nothing here blocks the event loop; `worker_process` says how.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

import msgspec

from forged.capture.values import Decided, Failed, Ready, Report, Task, WorkerSettings
from forged.capture.worker_process import Target, WorkerProcess, work

logger = logging.getLogger(__name__)

_STOP_S = 1.0
# Deaths without any progress that are made good at once, and the pause before each further one: a worker
# that dies as soon as it is ready must not keep a core busy.
_FREE_DEATHS = 3
_STEADY_S = 0.5


class Patience(msgspec.Struct, frozen=True):
    """Seconds; a test has less of it.

    The first start waits `first_start_s` unless a worker is wanted sooner, so that the daemon starts fast. A
    worker that is not ready after `slow_start_s` is a problem to show, after `ready_s` it is killed. One that
    cannot run is tried again after `retry_s`, doubling up to `longest_retry_s`.
    """

    first_start_s: float = 1.0
    slow_start_s: float = 4.0
    ready_s: float = 20.0
    retry_s: float = 0.25
    longest_retry_s: float = 60.0


class Supervisor:
    """One for the daemon; lives in its event loop.

    `ready` says whether a task may be given, `problem` why no worker can run, or nothing. `restarts` counts
    the starts after the first.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        on_report: Callable[[Report], None],
        on_death: Callable[[str], None],
        target: Target = work,
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
        self._failed_starts = self._fruitless = 0
        self.ready = False
        self.restarts = 0
        self.problem = ""

    @property
    def pid(self) -> int:
        """The worker's process id, 0 without one."""
        return self._current.pid if self._current is not None else 0

    def want(self) -> None:
        """Something will be given soon: do not put the first start off."""
        self._wanted.set()

    def give(self, task: Task, limit_s: float) -> None:
        """Hand a task to a worker that is `ready` and has none, or the answer that it waits for.

        A worker that reports nothing for `limit_s` seconds, because it is stopped or hangs on a dead disk,
        is killed.
        """
        assert self.ready, "no worker to give a task to"
        assert self._current is not None
        self._current.give(task)
        self._limit_s = limit_s
        self._expect(limit_s)

    async def run(self) -> None:
        """Keep a worker until cancelled; its whole process group is killed then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience.first_start_s):
                await self._wanted.wait()
        while True:
            was_ready, cause = await self._one_life()
            pause_s = self._after(cause, was_ready=was_ready)
            self._on_death(cause)
            await asyncio.sleep(pause_s)
            self.restarts += 1

    async def _one_life(self) -> tuple[bool, str]:
        """One worker process from start to end: whether it was ever ready, and why it ended."""
        self._current = one = WorkerProcess(self._target, self._settings, self._heard)
        self._expect(self._patience.ready_s, self._patience.slow_start_s)
        try:
            one.begin()
            await asyncio.wait({one.over})
        finally:
            # If cancelled, the process still runs. Its event is safe on disk or in the queue.
            self.ready = False
            self._expect()
            one.kill("the daemon stops")
            try:
                await asyncio.wait({one.over}, timeout=_STOP_S)
            finally:
                one.close()
                self._current = None
        return one.was_ready, one.over.result()

    def _after(self, cause: str, *, was_ready: bool) -> float:
        """Take note of a death; seconds until the next start."""
        self._fruitless += 1
        if was_ready:
            logger.warning("worker died cause=%s", cause)
            return 0.0 if self._fruitless <= _FREE_DEATHS else _STEADY_S
        pause_s = self._patience.retry_s * 2.0 ** min(self._failed_starts, 20)
        self._failed_starts += 1
        self._show(f"the capture worker cannot run: {cause}")
        return min(pause_s, self._patience.longest_retry_s)

    def _heard(self, report: Report) -> None:
        match report:
            case Ready():
                self._expect()
                self._failed_starts = 0
                self.ready = not report.problem
                self._show(report.problem)
                logger.info("worker ready pid=%d restarts=%d", report.pid, self.restarts)
            case Decided() | Failed():
                self._expect()
                self._fruitless = 0
            case _:
                self._expect(self._limit_s)
                self._fruitless = 0
        self._on_report(report)

    def _expect(self, limit_s: float | None = None, slow_s: float | None = None) -> None:
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
        self._show(f"the capture worker is not ready after {slow_s:g} s")

    def _show(self, problem: str) -> None:
        if problem and problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem
