"""The worker process: finds out what an event comes to, and puts memory files in place.

`main` handles one task at a time until it is killed: for Classify it reports Decided, for Link a Linked for
every document and then Done, or for either Failed. It keeps nothing that matters: what waits, what was
decided and what is tried again is the daemon's to say, and any step may be the worker's last. A file that is
there already is one that is done, so linking again changes nothing.

It is the leader of its own process group, deaf to the signals that a service manager sends to everybody, and
it ends when the daemon does, however that happens.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection, wait
from multiprocessing.queues import Queue

import msgspec

from forged import log
from forged.capture.classifier import CallFailed, Classifier
from forged.capture.documents import decide
from forged.capture.values import (
    Classified,
    Classify,
    Decided,
    Departed,
    Done,
    Failed,
    Link,
    Linked,
    Ready,
    Report,
    Task,
    Usage,
    WorkerSettings,
)
from forged.errors import ConfigError, MemoryExists, ProviderError, StoreError
from forged.files import MemoryStore, Root, Snapshot, scan
from forged.map import link
from forged.memory import Memory, utc_now
from forged.state import Document

logger = logging.getLogger(__name__)

# Of a disk: full, or in trouble.
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
# A gateway without a server behind it, and a path or model that is not there: no event's fault.
_NOBODY_THERE = frozenset({404, 502, 503, 504, 529})
_ROOTS_KEPT = 16
# A classifier keeps to its deadline by itself, and then says what its calls cost; not every one may.
_GRACE_S = 1.0


def main(queue: Queue[bytes], results: Connection, settings: bytes) -> None:
    """Target of the spawned process: handle tasks until killed, or until nobody listens any more."""
    os.setpgid(0, 0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_daemon, name="daemon-watch", daemon=True).start()
    os.umask(0o077)
    wanted = msgspec.msgpack.decode(settings, type=WorkerSettings)
    log.begin(wanted.log)

    def report(one: Report) -> None:
        try:
            results.send_bytes(msgspec.msgpack.encode(one))
        except BrokenPipeError:  # the daemon is gone, and what an orderly end would close goes by itself
            os._exit(1)

    existing = Existing()
    classifier, problem = _classifier(wanted, existing, report)
    one = Worker(wanted, classifier, existing, report)
    # One loop for all events, so that a connection to an endpoint outlives an event.
    with asyncio.Runner() as runner:
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


def _classifier(
    settings: WorkerSettings, existing: Existing, report: Callable[[Report], None]
) -> tuple[Classifier | None, str]:
    """The classifier, or why there is none. The rules need neither numpy nor httpx, half of a start."""
    try:
        if not settings.classifier:
            from forged.capture.rules import RuleClassifier  # noqa: PLC0415

            return RuleClassifier(existing.heads), ""
        from forged.capture.llm import LlmClassifier  # noqa: PLC0415
        from forged.config import NetworkConfig  # noqa: PLC0415
        from forged.models import Door  # noqa: PLC0415
        from forged.models.openai_compatible import OpenAICompatibleChat  # noqa: PLC0415

        # Retries are the classifier's own affair: it counts calls.
        door = Door(
            NetworkConfig(settings.proxy, settings.plain_http_hosts), lambda each: report(Departed(each))
        )
        model = OpenAICompatibleChat(
            settings.base_url, settings.classifier, settings.key, door=door, retries=0
        )
        return LlmClassifier(model), ""
    except ConfigError as error:
        return None, str(error)


class Existing:
    """The memories that lie in the roots; a file that has not changed since a look is not read again."""

    def __init__(self) -> None:
        self._snapshots: dict[Root, Snapshot] = {}
        self.withheld = frozenset[str]()  # paths of files that do not count in the event in hand

    def memories(self, root: Root) -> tuple[Memory, ...]:
        """What counts in the root now; a directory that cannot be listed counts as it was, or empty."""
        snapshot = scan(root, self._snapshots.pop(root, None))
        self._snapshots[root] = snapshot
        if len(self._snapshots) > _ROOTS_KEPT:
            del self._snapshots[next(iter(self._snapshots))]
        if not self.withheld:
            return snapshot.memories
        pairs = zip(snapshot.paths, snapshot.memories, strict=True)
        return tuple(memory for path, memory in pairs if path not in self.withheld)

    def heads(self, roots: Iterable[Root]) -> list[Memory]:
        """The newest version of each memory of some roots."""
        heads: list[Memory] = []
        for memories in map(self.memories, roots):
            chains = link(memories)
            heads += [found for found in memories if chains.is_head(found.id)]
        return heads


class Worker:
    """Handles tasks one after the other."""

    def __init__(
        self,
        settings: WorkerSettings,
        classifier: Classifier | None,
        existing: Existing,
        report: Callable[[Report], None],
    ) -> None:
        self._timeout_s = settings.timeout_s
        self._classifier = classifier
        self._existing = existing
        self._report = report
        self._warned: set[str] = set()

    async def handle(self, task: Task) -> None:
        """Finish a task, or say why it is not finished; the last report is Decided, Done or Failed."""
        event_id = task.event.id if isinstance(task, Classify) else task.event_id
        try:
            last = await self._decide(task) if isinstance(task, Classify) else self._link(task)
        except ProviderError as error:
            usage = error.usage if isinstance(error, CallFailed) else Usage()
            reason = "unreachable" if error.status in _NOBODY_THERE else error.reason
            last = Failed(event_id, reason, str(error), usage, error.retry_after_s)
        except StoreError as error:
            last = Failed(event_id, "storage", str(error))
        except Exception as error:
            logger.exception("task not handled event=%s", event_id)
            last = Failed(event_id, "internal", f"{type(error).__name__}; the log has the rest")
        self._report(last)

    async def _decide(self, task: Classify) -> Decided:
        self._existing.withheld = task.withheld
        answer = await self._classify(task)
        existing = {root: self._existing.memories(root) for root in task.event.roots}
        documents, tally = decide(task.event, answer, existing, task.forgotten, utc_now())
        return Decided(task.event.id, documents, answer.usage, tally, answer.cut)

    async def _classify(self, task: Classify) -> Classified:
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

    def _link(self, task: Link) -> Done | Failed:
        """Put documents in place; one that cannot be keeps none of the others from it.

        The event stays then, to be tried again, because what was acknowledged is not dropped: without end if
        the disk is at fault in a way that passes or for all of them, else a few times, and then it is given
        up with what was decided. Only a document that no disk would take is left out for good.
        """
        event_id, documents = task.event_id, task.documents
        failed: list[str] = []
        storage, passes = "", False
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
                self._report(Linked(event_id, document.root.top, path))
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


def _write(document: Document) -> str:
    """Path of the document's file, which is there on return, from now on or from an earlier attempt."""
    try:
        return MemoryStore(document.root).write(document.memory)
    except MemoryExists:
        return os.path.join(document.root.directories[0], f"{document.memory.id}.md")
