"""One task at a time for the worker: its questions on the way are answered, and its last word is awaited.

In goes a `Classify`, out comes what became of it: `Decided`, `Failed`, or what the worker died of. Until then
the worker may ask which memories name something, and for the vectors of texts; where neither can be found
out, it is told that there are none. It asks before it sends an event once more, and must not if that was cut
meanwhile: nothing that was forgotten leaves the machine afterwards. What left the machine is written down as
it is told. Nothing is raised for what the worker says or leaves unsaid; a report about another task changes
nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from forged.capture.supervisor import Supervisor
from forged.capture.values import (
    Asked,
    AskedAgain,
    AskedVectors,
    Classify,
    Decided,
    Departed,
    Failed,
    GoOn,
    Heads,
    KnownMemory,
    Ready,
    Report,
    StatementVectors,
    WorkerSettings,
)
from forged.capture.vectors import VectorsOf
from forged.counters import Departure
from forged.state import Event

logger = logging.getLogger(__name__)

# What a worker may take beyond its classifier's time limit, and while it waits for an answer of ours.
_GRACE_S = 60.0

HeadsOf = Callable[[Event, Sequence[str]], Awaitable[tuple[KnownMemory, ...]]]
MakeSupervisor = Callable[..., Supervisor]
LastWord = Decided | Failed | str
"""The last report about a task, or what the worker died of."""


class Asking:
    """One for the daemon. `start` has work done that nobody waits for, `on_ready` is told of a new worker.

    `stands` says whether an event is still as it was given.
    """

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        heads: HeadsOf,
        vectors: VectorsOf,
        stands: Callable[[Event], bool],
        departed: Callable[[Departure], None],
        make_supervisor: MakeSupervisor,
        start: Callable[[Coroutine[None, None, None]], None],
        on_ready: Callable[[], None],
    ) -> None:
        self._limit_s = settings.timeout_s + _GRACE_S
        self._heads = heads
        self._vectors = vectors
        self._stands = stands
        self._departed = departed
        self._start = start
        self._on_ready = on_ready
        self._event: Event | None = None  # that the worker has
        self._answer: asyncio.Future[LastWord] | None = None  # to it
        self.supervisor = make_supervisor(settings, on_report=self._heard, on_death=self._died)

    async def ask(self, task: Classify) -> LastWord:
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

    def _heard(self, report: Report) -> None:
        if isinstance(report, Ready):
            self._on_ready()
            return
        if isinstance(report, Departed):
            self._departed(report.departure)
            return
        event, answer = self._event, self._answer
        if event is None or answer is None or answer.done() or event.id != report.event_id:
            logger.warning("report about another event=%s", report.event_id)
        elif isinstance(report, Asked):
            self._start(self._answer_heads(event, report.names))
        elif isinstance(report, AskedAgain):
            self._reply(GoOn(event.id, self._stands(event)))
        elif isinstance(report, AskedVectors):
            self._start(self._answer_vectors(event, report.texts))
        else:
            answer.set_result(report)

    def _died(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reason)

    async def _answer_heads(self, event: Event, names: Sequence[str]) -> None:
        """Tell the worker which memories name something; none if that cannot be found out."""
        heads: tuple[KnownMemory, ...] = ()
        try:
            heads = await self._heads(event, names)
        except Exception:
            logger.exception("no heads event=%s", event.id)
        self._reply(Heads(event.id, heads))

    async def _answer_vectors(self, event: Event, texts: Sequence[str]) -> None:
        """Give the worker the vectors of texts; none if there are none to be had."""
        self._reply(StatementVectors(event.id, await self._vectors(texts)))

    def _reply(self, told: Heads | StatementVectors | GoOn) -> None:
        if self._answer is not None and self.supervisor.ready:
            self.supervisor.give(told, self._limit_s)
