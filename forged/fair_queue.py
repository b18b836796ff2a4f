"""Round-robin scheduling of CPU-bound work on the event loop, one client at a time.

Requests are begun by `QueueClient.begin`; what they do later waits with `turn()`, in a task that runs in its
`context`. One piece of each client is served in a round, what goes on before what is begun, one in a turn of
the loop: so a ping waits for one piece, and a client for one of each other client. A held client has no
turns; work for nobody in particular goes on at once. Nothing is raised.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")

_client: ContextVar[QueueClient | None] = ContextVar("client", default=None)


class FairQueue:
    """All clients with work that waits, in the order of the round."""

    def __init__(self) -> None:
        self._round: dict[QueueClient, None] = {}
        self._is_taken = False  # this turn of the loop has its piece; `_next` is scheduled
        self.in_threads = 0  # long pieces that run beside the loop: until they end only beginnings are served
        self._behind: dict[QueueClient, None] = {}  # what goes on there waits for that

    def take(self) -> bool:
        """Take this turn of the loop, if it is still free."""
        if self._is_taken:
            return False
        self._is_taken = True
        asyncio.get_running_loop().call_soon(self._next)
        return True

    def join(self, client: QueueClient) -> None:
        self._round[client] = None
        self.take()

    def _next(self) -> None:
        self._is_taken = False
        while self._round and not self._is_taken:
            client = next(iter(self._round))
            del self._round[client]
            if client.go_on():
                self.take()
                if client.is_waiting:
                    self._round[client] = None
            elif client.is_waiting and not client.is_held:
                self._behind[client] = None

    def thread_ended(self) -> None:
        self.in_threads -= 1
        if not self.in_threads:
            behind, self._behind = self._behind, {}
            for client in behind:
                self.join(client)


class QueueClient:
    """One client of the queue. While it `is_held` its work waits: its peer takes no replies."""

    def __init__(self, queue: FairQueue) -> None:
        self.queue = queue
        self.is_held = False
        self.context = copy_context()
        self.context.run(_client.set, self)
        self._going_on: deque[asyncio.Future[None]] = deque()
        self._beginnings: deque[Callable[[], None]] = deque()

    @property
    def is_waiting(self) -> bool:
        return bool(self._going_on or self._beginnings)

    def begin(self, work: Callable[[], None]) -> None:
        """Have `work` called when it is its turn: at once, if nobody else wants this one."""
        if not (self.is_held or self.is_waiting) and self.queue.take():
            work()
            return
        self._beginnings.append(work)
        self.queue.join(self)

    async def turn(self) -> None:
        if not (self.is_held or self.queue.in_threads or self._going_on) and self.queue.take():
            return
        waiting = asyncio.get_running_loop().create_future()
        self._going_on.append(waiting)
        self.queue.join(self)
        await waiting

    def hold(self) -> None:
        self.is_held = True

    def release(self) -> None:
        self.is_held = False
        if self.is_waiting:
            self.queue.join(self)

    def go_on(self) -> bool:
        """Do one piece of what waits here; whether there was one that may be done now."""
        if self.is_held:
            return False
        while self._going_on and not self.queue.in_threads:
            if not (waiting := self._going_on.popleft()).done():
                waiting.set_result(None)
                return True
        if not self._beginnings:
            return False
        self._beginnings.popleft()()
        return True


async def turn() -> None:
    """Wait until it is the turn of whoever this task works for: what follows may take some milliseconds."""
    if (client := _client.get()) is not None:
        await client.turn()


async def in_thread(thread: Executor, work: Callable[[], T]) -> T:
    """What `work` returns: a long piece, done beside the loop when it is its turn."""
    running = asyncio.get_running_loop().run_in_executor
    if (client := _client.get()) is None:
        return await running(thread, work)
    await client.turn()
    client.queue.in_threads += 1
    try:
        return await running(thread, work)
    finally:
        client.queue.thread_ended()


class Activity:
    """Of all agents together; a person who looks how the daemon fares is none."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked_at = float("-inf")

    def asked(self) -> None:
        self._asked_at = self._clock()

    def quiet(self, seconds: float) -> bool:
        """Whether nobody has asked for so long."""
        return self._clock() - self._asked_at >= seconds


logger = logging.getLogger(__name__)

Rank = tuple[float, ...]


class PrioritySemaphore:
    """As many slots as `most` says, which is at least one."""

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._taken = 0
        self._waiting: list[tuple[Callable[[], Rank], asyncio.Future[None]]] = []

    async def take(self, rank: Callable[[], Rank] = tuple) -> None:
        """Wait for a slot; `rank` is asked whenever one is free."""
        if not self._waiting and self._taken < self._most():
            self._taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((rank, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting = [each for each in self._waiting if each[1] is not turn]
            else:  # it was given, and at the same moment nobody wanted it any more
                self.release()
            raise

    def release(self) -> None:
        self._taken -= 1
        while self._waiting and self._taken < self._most():
            # The first of those with the highest rank.
            place = max(range(len(self._waiting)), key=lambda at: self._waiting[at][0]())
            _, turn = self._waiting.pop(place)
            if not turn.done():
                self._taken += 1
                turn.set_result(None)

    def close(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _, turn in waiting:
            turn.cancel()


def ignore_failure(work: asyncio.Future[Any]) -> None:
    """Take the exception of work that its caller may have given up: it is no news then."""
    if not work.cancelled():
        work.exception()


def log_failure(work: asyncio.Future[Any]) -> None:
    """Log the failure of work in the background, which should have none."""
    if not work.cancelled() and (error := work.exception()) is not None:
        name = work.get_name() if isinstance(work, asyncio.Task) else "a call"
        logger.error("background work failed work=%s", name, exc_info=error)
