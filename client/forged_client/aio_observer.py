"""Report finished turns to the daemon from an asyncio agent, without blocking its event loop.

Works as observer.py, with a task in place of the thread; the task exists only while events are pending. If
the loop cancels it, the event being sent is pending again. A thread of the loop's pool reads long texts.
Events that are pending when the process ends are delivered by an `Observer`. An observer belongs to one loop
at a time; outside of a loop it only accepts events.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

from forged_client import observer
from forged_client.aio import AsyncClient
from forged_client.capture_parts import SplitCapture
from forged_client.delivery_queue import (
    DeliveryQueue,
    PendingEvent,
    Verdict,
    verdict_on_error,
    verdict_on_part,
)
from forged_client.errors import ClientError
from forged_client.exchange import failed_reply, reply_of_all_parts
from forged_client.message_snapshot import MessageSnapshot
from forged_client.protocol import Capture, Captured

_CLOSE_S = 2.0
# Characters that are read in one go, in about a millisecond.
_SHORT = 100_000


class AsyncObserver(observer.BaseObserver):
    """Hands over one session's events for capture, from asyncio; no method raises, `on_...` never wait.

    `counts`, `last_reply` and `agent` are those of `Observer`. `async with` closes it.
    """

    def _set_up(self) -> None:
        self._queue = DeliveryQueue()
        self._client = AsyncClient(
            self._address,
            timeout_s=observer.SEND_TIMEOUT_S,
            autostart=self._autostart,
            strict=True,
            name="forged-observer",
        )
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    @property
    def counts(self) -> Mapping[str, int]:
        """Return counts: of replies by outcome, and of events replaced, dropped, given up and waiting."""
        return self._queue.counts()

    @property
    def last_reply(self) -> Captured | None:
        """Return the newest reply to an event (for a failed call, one made here); None before the first."""
        return self._queue.last_reply

    async def aclose(self, timeout_s: float = _CLOSE_S) -> bool:
        """Try once more to send pending events, for at most `timeout_s`; return True if none is left.

        Events that were not sent wait for the next call, or for the end of the process.
        """
        if self._queue.waiting:
            self._ensure_task()
        self._closing.set()
        task = self._task
        if task is not None and not task.done():
            await asyncio.wait([task], timeout=max(timeout_s, 0))
            task.cancel()
            await asyncio.wait([task])
        return not self._queue.waiting

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose(_CLOSE_S)

    def observer_for_exit(self) -> observer.Observer | None:
        """Return an `Observer` that sends the pending events when the process ends; None without events."""
        if self._queue.is_of_parent or not self._queue.waiting:
            return None
        self._queue.put_back()
        heir = observer.Observer(self._workspace, self._session_id, address=self._address, agent=self._agent)
        heir._queue = self._queue
        return heir

    def _enqueue(self, kind: str, snapshot: MessageSnapshot) -> None:
        """Queue an event and, in a loop, start the sending task; a forked child drops its parent's events."""
        if self._queue.is_of_parent:
            self._set_up()
        self._queue.add(kind, snapshot)
        observer.pending_at_exit.add(self)
        self._ensure_task()

    def _ensure_task(self) -> None:
        """Start the sending task if none runs in the current loop; do nothing outside of a loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        task = self._task
        if task is None or task.done() or task.get_loop() is not loop:
            self._queue.put_back()  # the event being sent, if its task was cancelled
            self._closing = asyncio.Event()
            self._task = loop.create_task(self._send_all(), name="forged-observer")
            self._task.add_done_callback(_retrieve_exception)
        self._closing.clear()

    # Runs in the task.

    async def _send_all(self) -> None:
        """Send pending events until none is left or a close ends it; wait longer after each failure."""
        retry_s = observer.FIRST_RETRY_S
        try:
            while (event := self._queue.take()) is not None:
                if await self._deliver(event):
                    retry_s = observer.FIRST_RETRY_S
                elif await self._wait_to_retry(retry_s):
                    retry_s = min(retry_s * 2, observer.LAST_RETRY_S)
                else:
                    return
            observer.pending_at_exit.discard(self)
        finally:
            if self._task is asyncio.current_task():
                self._task = None  # the next event starts a new task
            await self._client.aclose()

    async def _deliver(self, event: PendingEvent) -> bool:
        """Send an event and count the reply; return False if the event has to be sent again."""
        request = event.request(self._workspace, self._session_id, self._agent)
        parts = SplitCapture(request, event.snapshot)
        reply, verdict = await self._send_parts(parts, event.snapshot)
        return self._queue.record_reply(event, reply, verdict, parts.repaired)

    async def _send_parts(self, parts: SplitCapture, snapshot: MessageSnapshot) -> tuple[Captured, Verdict]:
        """Send an event's parts until one is refused or fails; return one reply for all, and the verdict."""
        replies, walk, is_short = list[Captured](), iter(parts), snapshot.characters < _SHORT
        try:
            while (part := next(walk, None) if is_short else await _build_next_part(walk)) is not None:
                asked = part
                replies.append(await self._client.ask(part))
                if not replies[-1].is_taken:
                    break
        except ClientError as error:
            return failed_reply(asked, error), verdict_on_error(error)
        reply = reply_of_all_parts(replies)
        return reply, verdict_on_part(asked, reply)

    async def _wait_to_retry(self, seconds: float) -> bool:
        """Wait `seconds` or until a close begins, then return True; return False at once if it had begun."""
        if self._closing.is_set():
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        return True


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """Retrieve the exception of a task that is never awaited, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


async def _build_next_part(walk: Iterator[Capture]) -> Capture | None:
    """Build the next part of a capture in a thread; return None after the last one."""
    return await asyncio.to_thread(next, walk, None)
