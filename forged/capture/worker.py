"""Worker process of capture: it classifies events.

`main` handles one `Classify` at a time until killed, and reports `Classified` or `TaskFailed`. It opens no
file of a store, asks the daemon about memories, and keeps nothing that matters, as it may be killed at any
step. It leads its own process group, ignores a service manager's signals, and ends with the daemon.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.queues import Queue
from typing import TYPE_CHECKING, TypeVar

import msgspec

from forged import log
from forged.capture.values import (
    AskHeads,
    AskRetry,
    AskVectors,
    CallFailed,
    CallSent,
    Classified,
    Classifier,
    Classify,
    HeadsAnswer,
    KnownMemory,
    Ready,
    Report,
    RetryAnswer,
    Task,
    TaskFailed,
    Usage,
    VectorsAnswer,
    WorkerSettings,
)
from forged.errors import ConfigError, ProviderError
from forged_client.typed import resolved

if TYPE_CHECKING:
    from forged.models import ChatModel

logger = logging.getLogger(__name__)

A = TypeVar("A", HeadsAnswer, VectorsAnswer, RetryAnswer)

# HTTP codes of a gateway without a server, or of a wrong path or model: not the event's fault.
_ENDPOINT_MISSING = frozenset({404, 502, 503, 504, 529})
# Extra seconds for a classifier that ends at its deadline by itself and reports its cost.
_GRACE_S = 1.0


def main(queue: Queue[bytes], results: Connection, settings: bytes) -> None:
    """Run the capture worker: make a classifier and handle tasks until killed or the pipe is closed."""
    os.setpgid(0, 0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_daemon, name="daemon-watch", daemon=True).start()
    os.umask(0o077)
    wanted = msgspec.msgpack.decode(settings, type=resolved(WorkerSettings))
    log.begin(wanted.log)

    def report(one: Report) -> None:
        """Send a report to the daemon, or exit at once if the daemon is gone."""
        try:
            results.send_bytes(msgspec.msgpack.encode(one))
        except BrokenPipeError:  # the daemon is gone; skip an orderly exit
            os._exit(1)

    def next_task() -> Task:
        """Wait for the daemon's next message, and return it."""
        return decoder.decode(queue.get())

    decoder: msgspec.msgpack.Decoder[Task] = msgspec.msgpack.Decoder(resolved(Task))
    classifier, problem = _make_classifier(wanted, DaemonLink(next_task, report), report)
    one = Worker(wanted, classifier, report)
    # One loop for all events, so that connections stay open.
    with asyncio.Runner() as runner:
        report(Ready(os.getpid(), problem))
        while True:
            task = next_task()
            assert isinstance(task, Classify), "an answer to nothing"
            runner.run(one.handle(task))


def _end_with_daemon() -> None:
    """Wait for the daemon to end, then kill this process and its group."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _make_classifier(
    settings: WorkerSettings, daemon: DaemonLink, report: Callable[[Report], None]
) -> tuple[Classifier | None, str]:
    """Return a new classifier and "", or None and the reason; import only what it needs."""
    try:
        from forged.capture.local_classifier import LocalClassifier, RequestClassifier  # noqa: PLC0415

        local = LocalClassifier(daemon.vectors if settings.has_vectors else None)
        if not settings.classifier:
            from forged.capture.rules.engine import RuleClassifier  # noqa: PLC0415

            return RequestClassifier(RuleClassifier(daemon.heads, local.refine), local), ""
        from forged.capture.llm import LlmClassifier  # noqa: PLC0415

        model = LlmClassifier(_make_chat_model(settings, report), may_go_on=daemon.may_go_on)
        return RequestClassifier(model, local, overrules=True), ""
    except ConfigError as error:
        return None, str(error)


def _make_chat_model(settings: WorkerSettings, report: Callable[[Report], None]) -> ChatModel:
    """Return the chat model or program, without retries, as the classifier counts its calls."""
    from forged.config import NetworkConfig  # noqa: PLC0415
    from forged.models import EgressGuard  # noqa: PLC0415

    network = NetworkConfig(settings.proxy, settings.plain_http_hosts)
    egress = EgressGuard(network, lambda each: report(CallSent(each)))
    if settings.program.command:
        from forged.models.programs.chat import ProgramChat  # noqa: PLC0415

        return ProgramChat(settings.program, settings.scratch, egress=egress)
    from forged.models.openai_compatible import OpenAICompatibleChat  # noqa: PLC0415

    return OpenAICompatibleChat(
        settings.base_url, settings.classifier, settings.key, egress=egress, retries=0
    )


class DaemonLink:
    """Asks the daemon questions about the event of the current task, and waits for each answer."""

    def __init__(self, next_task: Callable[[], Task], report: Callable[[Report], None]) -> None:
        """`next_task` waits for the daemon's next message."""
        self._next_task = next_task
        self._report = report

    def heads(self, event_id: str, names: Sequence[str]) -> tuple[KnownMemory, ...]:
        """Ask the daemon for current memories that an event sees, with one of `names` in the first line."""
        return self._ask(AskHeads(event_id, tuple(names)), HeadsAnswer).heads

    def vectors(self, event_id: str, texts: Sequence[str]) -> tuple[bytes, ...]:
        """Ask the daemon for a float32 vector as bytes for each text; an empty tuple if it has none."""
        return self._ask(AskVectors(event_id, tuple(texts)), VectorsAnswer).rows

    def may_go_on(self, event_id: str) -> bool:
        """Ask the daemon if an event is unchanged since it was given; False if some of it was forgotten."""
        return self._ask(AskRetry(event_id), RetryAnswer).may

    def _ask(self, question: AskHeads | AskVectors | AskRetry, form: type[A]) -> A:
        """Send a question to the daemon and wait for its answer."""
        self._report(question)
        answer = self._next_task()
        assert isinstance(answer, form), "a task instead of an answer"
        assert answer.event_id == question.event_id, "an answer about another event"
        return answer


class Worker:
    """Classifies the events of tasks, one after the other, and reports each result."""

    def __init__(
        self, settings: WorkerSettings, classifier: Classifier | None, report: Callable[[Report], None]
    ) -> None:
        self._timeout_s = settings.timeout_s
        self._classifier = classifier
        self._report = report

    async def handle(self, task: Classify) -> None:
        """Classify the event of a task, and report the result: Classified or TaskFailed."""
        event_id = task.event.id
        try:
            last: Report = msgspec.structs.replace(await self._classify(task), event_id=event_id)
        except ProviderError as error:
            usage = error.usage if isinstance(error, CallFailed) else Usage()
            reason = "unreachable" if error.status in _ENDPOINT_MISSING else error.reason
            last = TaskFailed(event_id, reason, str(error), usage, error.retry_after_s)
        except Exception as error:
            logger.exception("task not handled event=%s", event_id)
            last = TaskFailed(event_id, "internal", f"{type(error).__name__}; the log has the rest")
        self._report(last)

    async def _classify(self, task: Classify) -> Classified:
        """Classify the event of a task within the time limit. Raises ProviderError."""
        if self._classifier is None:
            raise ProviderError("there is no classifier", reason="auth")
        deadline = time.monotonic() + self._timeout_s
        try:
            async with asyncio.timeout(self._timeout_s + _GRACE_S):
                return await self._classifier.classify(
                    task.event, task.known, deadline=deadline, attempts=task.attempts
                )
        except TimeoutError as error:
            raise ProviderError("the classifier gave no answer in time", reason="timeout") from error
