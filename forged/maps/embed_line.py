"""Whose texts are embedded next, how fast it goes, and how long it will take.

The runs of all roots wait here before each chunk, and four chunks are out at a time, whichever roots they are
of. The root that was asked for last goes first; of roots that were asked for in the same second, as those of
one request are, the one with the fewest texts left, so that a small one does not wait for a large one.
Nothing is raised.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from forged.fair_queue import Rank, Slots

AT_ONCE = 4
_WINDOW_S = 60.0


class EmbedLine:
    """All runs under way, and what they got through in the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.slots = Slots(lambda: AT_ONCE)
        self._places: list[Place] = []
        self._done: deque[tuple[float, int]] = deque()
        self._since: float | None = None  # when the first texts of those who are here were done

    def enter(self, used_at: Callable[[], float] = lambda: 0.0, texts: int = 0) -> Place:
        """A place for a run over so many texts of a root; it has to be left again."""
        if not self._places:
            self._since = None
            self._done.clear()
        place = Place(self, used_at, texts)
        self._places.append(place)
        return place

    @property
    def rate(self) -> float:
        """Texts a second, of all roots, in the last minute; 0 while that is not known.

        It is known after the second chunk: before the first one is done a model may have to be loaded.
        """
        now = self._clock()
        while self._done and self._done[0][0] < now - _WINDOW_S:
            self._done.popleft()
        if self._since is None or not self._done:
            return 0.0
        return sum(count for _, count in self._done) / max(min(now - self._since, _WINDOW_S), 1e-3)

    def ahead_of(self, place: Place) -> int:
        """Texts left in all places whose turn comes before this one's, and in itself."""
        own = place.rank()
        return sum(each.left for each in self._places if each is place or each.rank() > own)

    def leave(self, place: Place) -> None:
        self._places.remove(place)

    def note(self, count: int) -> None:
        if self._since is None:
            self._since = self._clock()
        else:
            self._done.append((self._clock(), count))


class Place:
    """One run's place. `left` counts its texts that are still to be embedded."""

    def __init__(self, line: EmbedLine, used_at: Callable[[], float], texts: int) -> None:
        self.left = texts
        self._line = line
        self._used_at = used_at

    def rank(self) -> Rank:
        return (int(self._used_at()), -self.left)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """What is embedded within it is one of the chunks that are out."""
        await self._line.slots.take(self.rank)
        try:
            yield
        finally:
            self._line.slots.give_back()

    def did(self, count: int) -> None:
        """So many texts are done with."""
        self.left -= count
        self._line.note(count)

    @property
    def rate(self) -> float:
        """Texts a second that are embedded now, of all roots."""
        return self._line.rate

    @property
    def left_s(self) -> float | None:
        """Seconds until this run has its vectors, if nobody asks for another root; None while unknown."""
        rate = self._line.rate
        return round(self._line.ahead_of(self) / rate, 1) if rate else None

    def leave(self) -> None:
        self._line.leave(self)
