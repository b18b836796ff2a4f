"""Native calls of one kind: so many at once, each in a thread, the others in the order in which they came.

A call that was begun can be neither interrupted nor hurried. So it keeps its place until it has ended, though
its caller may have given it up; what was not begun when its caller gives up is never begun. Raised is what
the call raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from forged.fair_queue import Slots, retrieved

T = TypeVar("T")


class Lane(Generic[T]):
    """At most `most` threads; `at_once` says how many calls may be under way just now."""

    def __init__(self, name: str, most: int, at_once: Callable[[], int]) -> None:
        self._threads = ThreadPoolExecutor(most, thread_name_prefix=name)
        self._slots = Slots(at_once)

    async def run(self, call: Callable[[], T]) -> T:
        await self._slots.take()
        running = asyncio.get_running_loop().run_in_executor(self._threads, call)
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    def _ended(self, running: asyncio.Future[T]) -> None:
        retrieved(running)
        self._slots.give_back()

    def close(self) -> None:
        """Cancel what waits; nobody waits for the calls under way."""
        self._slots.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
