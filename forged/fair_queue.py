"""Round-robin scheduling of CPU-bound work on the event loop, one client at a time.

A request begins by `QueueClient.begin`; later work of it waits by `turn()`, in a task that runs in the
client's `context`. A round serves one piece of each client, work under way before new requests, one piece in
each iteration of the loop. So a ping waits for one piece, and a client for one of each other client. A held
client has no turns; work without a client runs at once. Nothing is raised.
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
    """Round-robin queue of clients with waiting work: one piece in each iteration of the event loop."""

    def __init__(self) -> None:
        self._round: dict[QueueClient, None] = {}
        self._is_taken = False  # this iteration of the loop is used; `_serve_next` is scheduled
        self.in_threads = 0  # long pieces in threads: until they end only new requests begin
        self._behind: dict[QueueClient, None] = {}  # their work under way waits for the threads

    def take_iteration(self) -> bool:
        """Reserve this iteration of the event loop for one piece of work; False if it is taken already."""
        if self._is_taken:
            return False
        self._is_taken = True
        asyncio.get_running_loop().call_soon(self._serve_next)
        return True

    def join(self, client: QueueClient) -> None:
        """Add a client with waiting work to the round."""
        self._round[client] = None
        self.take_iteration()

    def _serve_next(self) -> None:
        """Let the next client that may work do one piece; those that wait for threads step aside."""
        self._is_taken = False
        while self._round and not self._is_taken:
            client = next(iter(self._round))
            del self._round[client]
            if client.go_on():
                self.take_iteration()
                if client.is_waiting:
                    self._round[client] = None
            elif client.is_waiting and not client.is_held:
                self._behind[client] = None

    def thread_ended(self) -> None:
        """Count a thread's piece as ended; after the last one, waiting clients go on."""
        self.in_threads -= 1
        if not self.in_threads:
            behind, self._behind = self._behind, {}
            for client in behind:
                self.join(client)


class QueueClient:
    """One client of the queue, such as a connection. While it `is_held` its work waits."""

    def __init__(self, queue: FairQueue) -> None:
        self.queue = queue
        self.is_held = False
        self.context = copy_context()
        self.context.run(_client.set, self)
        self._going_on: deque[asyncio.Future[None]] = deque()
        self._beginnings: deque[Callable[[], None]] = deque()

    @property
    def is_waiting(self) -> bool:
        """True if work of this client waits for its turn."""
        return bool(self._going_on or self._beginnings)

    def begin(self, work: Callable[[], None]) -> None:
        """Call `work` at the client's turn: at once, if this iteration of the loop is free."""
        if not (self.is_held or self.is_waiting) and self.queue.take_iteration():
            work()
            return
        self._beginnings.append(work)
        self.queue.join(self)

    async def turn(self) -> None:
        """Wait for the client's next turn to go on with work that is under way."""
        if not (self.is_held or self.queue.in_threads or self._going_on) and self.queue.take_iteration():
            return
        waiting = asyncio.get_running_loop().create_future()
        self._going_on.append(waiting)
        self.queue.join(self)
        await waiting

    def hold(self) -> None:
        """Give the client no turns until `release`, so that its work waits."""
        self.is_held = True

    def release(self) -> None:
        """Give a held client turns again."""
        self.is_held = False
        if self.is_waiting:
            self.queue.join(self)

    def go_on(self) -> bool:
        """Do one piece of work, what is under way before what is new; False if none may be done now."""
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
    """Wait for the turn of this task's client, if any, before work of some milliseconds."""
    if (client := _client.get()) is not None:
        await client.turn()


async def in_thread(thread: Executor, work: Callable[[], T]) -> T:
    """Run work in a thread at its client's turn; return the result. Other work under way waits."""
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
    """Time of the last client request, so that background work can wait until clients are quiet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked_at = float("-inf")

    def note_request(self) -> None:
        """Record that a client request came now."""
        self._asked_at = self._clock()

    def is_quiet(self, seconds: float) -> bool:
        """Return True if there was no client request for so many seconds."""
        return self._clock() - self._asked_at >= seconds


logger = logging.getLogger(__name__)

Rank = tuple[float, ...]


class PrioritySemaphore:
    """Semaphore with waiters in order of rank; `most` returns its limit and must not return 0."""

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._taken = 0
        self._waiting: list[tuple[Callable[[], Rank], asyncio.Future[None]]] = []

    async def take(self, rank: Callable[[], Rank] = tuple) -> None:
        """Wait for a slot; `rank` is called whenever one is free, and the highest rank goes first."""
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
            else:  # the slot was given to a caller that was just cancelled
                self.release()
            raise

    def release(self) -> None:
        """Give a slot back, and let the waiting caller with the highest rank have it."""
        self._taken -= 1
        while self._waiting and self._taken < self._most():
            # The first one with the highest rank.
            place = max(range(len(self._waiting)), key=lambda at: self._waiting[at][0]())
            _, turn = self._waiting.pop(place)
            if not turn.done():
                self._taken += 1
                turn.set_result(None)

    def close(self) -> None:
        """Cancel all callers that wait for a slot."""
        waiting, self._waiting = self._waiting, []
        for _, turn in waiting:
            turn.cancel()


def ignore_failure(work: asyncio.Future[Any]) -> None:
    """Retrieve the exception of work that its caller may have given up, so that asyncio logs nothing."""
    if not work.cancelled():
        work.exception()


def log_failure(work: asyncio.Future[Any]) -> None:
    """Log the exception of background work that failed, with its name."""
    if not work.cancelled() and (error := work.exception()) is not None:
        name = work.get_name() if isinstance(work, asyncio.Task) else "a call"
        logger.error("background work failed work=%s", name, exc_info=error)
