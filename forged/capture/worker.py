"""The worker process: one event at a time, from a window to memory files.

It decides and writes, and nothing else: what waits, what is tried again and what is given up is the daemon's
to say. Any step may be its last. What an event becomes is journalled, with ids, before the first file
appears; so an event that comes again is only linked, and a file that is there already is one that is done
(design.md section 6, ADR-0046).

It is the leader of its own process group, deaf to the signals that a service manager sends to everybody, and
it ends when the daemon does, however that happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.queues import Queue

import msgspec

from forged.capture.classifier import CallFailed, Classifier
from forged.capture.documents import decide
from forged.capture.spool import Spool
from forged.capture.values import (
    Classified,
    Document,
    Done,
    Event,
    Failed,
    Journalled,
    Linked,
    Ready,
    Report,
    Task,
    Usage,
    WorkerSettings,
)
from forged.config.known_models import BUILTIN_RULES
from forged.errors import ConfigError, MemoryExists, ProviderError, StoreError
from forged.files.roots import Root
from forged.files.scan import scan
from forged.files.snapshot import Snapshot
from forged.files.store import MemoryStore
from forged.memory import Memory, utc_now
from forged.state.forgotten import Forgotten, digest

logger = logging.getLogger(__name__)

# Of a disk: full, or in trouble.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
# A gateway without a server behind it, and a path or model that is not there: no event's fault.
_NOBODY_THERE = frozenset({404, 502, 503, 504, 529})
_ROOTS_KEPT = 16
_ANSWERS_KEPT = 16
# A classifier keeps to its deadline by itself, and then says what its calls cost; not every one may.
_GRACE_S = 1.0


def main(queue: Queue[bytes], results: Connection, settings: bytes) -> None:
    """Target of the spawned process: handle tasks until killed, or until nobody listens any more."""
    os.setpgid(0, 0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_daemon, name="daemon-watch", daemon=True).start()
    os.umask(0o077)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")

    def report(one: Report) -> None:
        results.send_bytes(msgspec.msgpack.encode(one))

    wanted = msgspec.msgpack.decode(settings, type=WorkerSettings)
    classifier, problem = _classifier(wanted)
    one = Worker(wanted, classifier, report)
    # One loop for all events, so that a connection to an endpoint outlives an event.
    with contextlib.suppress(BrokenPipeError), asyncio.Runner() as runner:
        report(Ready(os.getpid(), problem))
        while True:
            runner.run(one.handle(msgspec.msgpack.decode(queue.get(), type=Task)))


def _end_with_daemon() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _classifier(settings: WorkerSettings) -> tuple[Classifier | None, str]:
    """The classifier, or why there is none. The rules need neither numpy nor httpx, half of a start."""
    try:
        if settings.classifier == BUILTIN_RULES:
            from forged.capture.rules import RuleClassifier  # noqa: PLC0415

            return RuleClassifier(), ""
        from forged.capture.llm import LlmClassifier  # noqa: PLC0415
        from forged.models.openai_compatible import OpenAICompatibleChat  # noqa: PLC0415

        # Retries are the classifier's own affair: it counts calls.
        model = OpenAICompatibleChat(settings.base_url, settings.classifier, settings.key, retries=0)
        return LlmClassifier(model), ""
    except ConfigError as error:
        return None, str(error)


class Worker:
    """Handles tasks one after the other. What calls cost is reported once, with the first report that can."""

    def __init__(
        self, settings: WorkerSettings, classifier: Classifier | None, report: Callable[[Report], None]
    ) -> None:
        self._timeout_s = settings.timeout_s
        self._classifier = classifier
        self._report = report
        self._spool = Spool(settings.spool, settings.dead)
        self._forgotten = Forgotten(settings.forgotten)
        self._snapshots: dict[Root, Snapshot] = {}
        self._answers: dict[str, Classified] = {}
        self._warned: set[str] = set()

    async def handle(self, task: Task) -> None:
        """Finish an event, or say why it is not finished; its last report is Done or Failed."""
        try:
            last = await self._handled(task)
        except ProviderError as error:
            usage = error.usage if isinstance(error, CallFailed) else Usage()
            reason = "unreachable" if error.status in _NOBODY_THERE else error.reason
            last = Failed(task.event_id, reason, str(error), usage, error.retry_after_s)
        except StoreError as error:
            last = Failed(task.event_id, "storage", str(error))
        except Exception as error:
            logger.exception("event not handled event=%s", task.event_id)
            last = Failed(task.event_id, "internal", f"{type(error).__name__}; the log has the rest")
        self._report(last)

    async def _handled(self, task: Task) -> Done | Failed:
        journalled = self._spool.journalled(task.event_id)
        if journalled is not None:
            return self._link(task.event_id, journalled)
        if task.event is None:
            return Done(task.event_id)
        answer = self._answers.pop(task.event_id, None) or await self._classify(task, task.event)
        documents, tally = decide(
            task.event,
            answer,
            {root: self._memories(root) for root in task.event.roots},
            self._forgotten.load(),
            utc_now(),
        )
        if not documents:
            return Done(task.event_id, answer.usage, tally)
        try:
            self._spool.journal(task.event_id, documents)
        except StoreError as error:
            self._keep(task.event_id, answer)
            return Failed(task.event_id, "storage", str(error), answer.usage)
        self._report(Journalled(task.event_id, answer.usage, tally))
        return self._link(task.event_id, documents)

    async def _classify(self, task: Task, event: Event) -> Classified:
        if self._classifier is None:
            raise ProviderError("there is no classifier", reason="auth")
        deadline = time.monotonic() + self._timeout_s
        try:
            async with asyncio.timeout(self._timeout_s + _GRACE_S):
                return await self._classifier.classify(
                    event, task.heads, deadline=deadline, attempts=task.attempts
                )
        except TimeoutError as error:
            raise ProviderError("the classifier gave no answer in time", reason="timeout") from error

    def _keep(self, event_id: str, answer: Classified) -> None:
        """Keep a paid answer that could not be journalled: a full disk must not cost a call per attempt."""
        self._answers[event_id] = msgspec.structs.replace(answer, usage=Usage())
        if len(self._answers) > _ANSWERS_KEPT:
            del self._answers[next(iter(self._answers))]

    def _memories(self, root: Root) -> tuple[Memory, ...]:
        """What the root holds now; a directory that cannot be listed counts as it was, or empty (B76)."""
        snapshot = scan(root, self._snapshots.pop(root, None))
        self._snapshots[root] = snapshot
        if len(self._snapshots) > _ROOTS_KEPT:
            del self._snapshots[next(iter(self._snapshots))]
        return snapshot.memories

    def _link(self, event_id: str, documents: tuple[Document, ...]) -> Done | Failed:
        """Put documents in place; one that cannot be keeps none of the others from it (B82).

        The event stays then, to be tried again, because what was acknowledged is not dropped: without end if
        the disk is at fault in a way that passes or for all of them, else a few times, and then it is set
        aside with its journal. Only a document that no disk would take is left out for good.
        """
        failed: list[str] = []
        storage, passes = "", False
        documents = self._still_wanted(documents)
        for document in documents:
            try:
                path = _write(document)
            except StoreError as error:
                failed.append(document.memory.id)
                self._warn(event_id, document.memory.id, error)
                if isinstance(error.__cause__, OSError):
                    storage = str(error)
                    passes = passes or error.__cause__.errno in _PASSING
            else:
                self._report(Linked(event_id, document.root, document.memory.id, path))
        if storage:
            if not any(os.path.isdir(document.root.top) for document in documents):
                return Failed(event_id, "gone", storage)
            whole = passes or len(failed) == len(documents)
            return Failed(event_id, "storage" if whole else "unwritten", storage)
        return Done(event_id, written=len(documents) - len(failed), failed=tuple(failed))

    def _warn(self, event_id: str, memory_id: str, error: StoreError) -> None:
        """Once for each, however often it is tried."""
        if memory_id not in self._warned:
            logger.warning("memory not written event=%s memory=%s error=%s", event_id, memory_id, error)
            self._warned.add(memory_id)

    def _still_wanted(self, documents: tuple[Document, ...]) -> tuple[Document, ...]:
        """Documents but for those that were forgotten since they were decided: a journal may be old."""
        forgotten = self._forgotten.load()
        return tuple(
            document
            for document in documents
            if digest(document.root.top, document.memory.content) not in forgotten
        )


def _write(document: Document) -> str:
    """Path of the document's file, which is there on return, from now on or from an earlier attempt."""
    try:
        return MemoryStore(document.root).write(document.memory)
    except MemoryExists:
        return os.path.join(document.root.directories[0], f"{document.memory.id}.md")
