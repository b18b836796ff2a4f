"""A few pieces of work at a time, and who of those that wait is next.

Whoever took a slot gives it back. Next is who has the highest rank when a slot is free, of equals who came
first; who is cancelled while waiting takes none. How many slots there are is asked again at every give-back,
so that a smaller number holds as soon as what was begun has ended. Belongs to one event loop; nothing is
raised.

`retrieved` and `logged` are callbacks for work that its caller may give up. Whoever starts a task adds one,
so that no exception ends as "never retrieved".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

Rank = tuple[float, ...]


class Slots:
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
                self.give_back()
            raise

    def give_back(self) -> None:
        self._taken -= 1
        while self._waiting and self._taken < self._most():
            # The first of those with the highest rank.
            place = max(range(len(self._waiting)), key=lambda at: self._waiting[at][0]())
            _, turn = self._waiting.pop(place)
            if not turn.done():
                self._taken += 1
                turn.set_result(None)

    def close(self) -> None:
        """Cancel all who wait."""
        waiting, self._waiting = self._waiting, []
        for _, turn in waiting:
            turn.cancel()


def retrieved(work: asyncio.Future[Any]) -> None:
    """Take the exception of work that its caller may have given up: it is no news then."""
    if not work.cancelled():
        work.exception()


def logged(work: asyncio.Future[Any]) -> None:
    """Log the failure of work in the background, which should have none."""
    if not work.cancelled() and (error := work.exception()) is not None:
        name = work.get_name() if isinstance(work, asyncio.Task) else "a call"
        logger.error("background work failed work=%s", name, exc_info=error)
