"""Work that is cheaper for many at once: whoever waits at the same time is served by one call.

`ask` puts an item in line and returns what `work` makes of it. While a call runs, others wait; the next call
takes all of them. Nobody waits for company. A caller that is cancelled before its turn is left out, later it
changes nothing; an exception of `work` is that of every caller it had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Together(Generic[Item, Result]):
    """One line of callers."""

    def __init__(self, work: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]], most: int) -> None:
        """`work` gets at most `most` items, and returns as many results in their order."""
        self._work = work
        self._most = most
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._serving: asyncio.Task[None] | None = None

    def ask(self, item: Item) -> asyncio.Future[Result]:
        """Get in line, at once; the future is what comes of it."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        return future

    async def _serve(self) -> None:
        try:
            while batch := self._next():
                await self._served(batch)
        finally:
            self._serving = None

    def _next(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        there = [each for each in self._waiting if not each[1].done()]
        self._waiting = there[self._most :]
        return there[: self._most]

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
