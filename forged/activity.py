"""When somebody last asked the daemon for something: work for nobody in particular steps back then."""

from __future__ import annotations

import time
from collections.abc import Callable


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
