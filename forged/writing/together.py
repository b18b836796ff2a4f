"""Work that is cheaper for many at once: whoever waits at the same time is served by one call.

`ask` puts an item in line and returns what `work` makes of it. While a call runs, others wait; the next call
takes all of them. Who was served together mostly comes again together, so after a call for several the next
one begins when as many are there, or a quarter of that call's time has gone by; a caller alone never waits
for company. (32 writers on a busy machine: two thirds of the time had gone into calls for a few.) A caller
that is cancelled before its turn is left out, later it changes nothing; an exception of `work` is that of
every caller it had.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from forged.fair_queue import logged, retrieved

Item = TypeVar("Item")
Result = TypeVar("Result")


_SHARE_OF_CALL, _LONGEST_S = 0.25, 0.01


class Together(Generic[Item, Result]):
    """One line of callers."""

    def __init__(self, work: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]], most: int) -> None:
        """`work` gets at most `most` items, and returns as many results in their order."""
        self._work = work
        self._most = most
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._serving: asyncio.Task[None] | None = None
        self._wanted = 0
        self._are_enough = asyncio.Event()

    def ask(self, item: Item) -> asyncio.Future[Result]:
        """Get in line, at once; the future is what comes of it."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        future.add_done_callback(retrieved)  # its caller may be gone when the call fails
        self._waiting.append((item, future))
        if len(self._waiting) >= self._wanted:
            self._are_enough.set()
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
            self._serving.add_done_callback(logged)
        return future

    async def _serve(self) -> None:
        try:
            while batch := self._next():
                began = time.monotonic()
                await self._served(batch)
                if len(batch) > 1:
                    await self._company(len(batch), time.monotonic() - began)
        finally:
            self._serving = None

    def _next(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        there = [each for each in self._waiting if not each[1].done()]
        self._waiting = there[self._most :]
        return there[: self._most]

    async def _company(self, wanted: int, took_s: float) -> None:
        """Wait a little for as many as there were a moment ago."""
        self._wanted = wanted
        self._are_enough.clear()
        if len(self._waiting) < wanted:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(took_s * _SHARE_OF_CALL, _LONGEST_S)):
                    await self._are_enough.wait()

    async def _served(self, batch: Sequence[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._work([item for item, _ in batch])
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
