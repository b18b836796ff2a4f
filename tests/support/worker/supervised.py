"""A running supervisor with a worker process, a record of its reports, and a count of resources."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from pathlib import Path

from forged.capture.supervisor import Patience, Supervisor, Target
from forged.capture.values import (
    AskHeads,
    AskRetry,
    AskVectors,
    Classified,
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
from tests.support.clock import until
from tests.support.daemon import Usage, proc, usage
from tests.support.scripted_worker import scripted

PROMPT = Patience(first_start_s=0)


@dataclass
class Supervised:
    supervisor: Supervisor = field(init=False)
    task: asyncio.Task[None] = field(init=False)
    seen: list[Report | str] = field(default_factory=list)  # reports and causes of death, in order
    died_at: list[float] = field(default_factory=list)
    heads: tuple[KnownMemory, ...] = ()  # the answer to a worker's question

    def on_report(self, report: Report) -> None:
        self.seen.append(report)
        if isinstance(report, AskHeads):
            self.supervisor.give(HeadsAnswer(report.event_id, self.heads), 10.0)
        if isinstance(report, AskVectors):
            self.supervisor.give(VectorsAnswer(report.event_id), 10.0)
        if isinstance(report, AskRetry):
            self.supervisor.give(RetryAnswer(report.event_id, may=True), 10.0)

    def on_death(self, cause: str) -> None:
        self.seen.append(cause)
        self.died_at.append(asyncio.get_running_loop().time())

    async def ready(self) -> int:
        """Return the process id of a worker that waits for a task."""
        await until(lambda: self.supervisor.ready)
        return self.supervisor.pid

    async def handled(self, task: Task, limit_s: float = 10.0) -> Classified | TaskFailed:
        """Return the last report about a task."""
        await self.ready()
        seen = len(self.reports)
        self.supervisor.give(task, limit_s)
        return await until(
            lambda: next(
                (one for one in self.reports[seen:] if isinstance(one, Classified | TaskFailed)), None
            )
        )

    async def killed(self, pid: int) -> int:
        """Kill a worker; return the process id of its successor, once that is ready."""
        deaths = len(self.deaths)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: len(self.deaths) > deaths)
        return await self.ready()

    @property
    def reports(self) -> list[Report]:
        return [one for one in self.seen if not isinstance(one, str)]

    @property
    def deaths(self) -> list[str]:
        return [one for one in self.seen if isinstance(one, str)]

    @property
    def readies(self) -> list[Ready]:
        return [report for report in self.reports if isinstance(report, Ready)]

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})


@contextlib.asynccontextmanager
async def supervised(
    settings: WorkerSettings | str = "ready",
    target: Target = scripted,
    patience: Patience = PROMPT,
) -> AsyncIterator[Supervised]:
    """Yield a running supervisor; with a word as settings, that of a scripted worker."""
    one = Supervised()
    one.supervisor = Supervisor(
        WorkerSettings(classifier=settings) if isinstance(settings, str) else settings,
        on_report=one.on_report,
        on_death=one.on_death,
        target=target,
        patience=patience,
    )
    one.task = asyncio.create_task(one.supervisor.run())
    try:
        yield one
    finally:
        await one.stop()


def census() -> Usage:
    """Return the resources of this process, after starting the helper process of `multiprocessing`."""
    resource_tracker.ensure_running()
    return usage(os.getpid())


def semaphores(pid: int) -> list[Path]:
    """Return the files of a worker's semaphores with shared names."""
    return [Path(name.decode()) for name in re.findall(rb"/dev/shm/sem\.mp\S+", proc(pid, "maps"))]


async def back_to(before: Usage) -> None:
    """Wait until the use of resources is no more than before."""

    def settled() -> bool:
        now = census()
        return (
            now.threads <= before.threads
            and now.descriptors <= before.descriptors
            and now.children <= before.children
            and now.semaphores <= before.semaphores
        )

    try:
        await until(settled)
    except AssertionError:
        raise AssertionError(f"{before} became {census()}") from None
