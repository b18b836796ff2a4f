"""Long work in a thread beside an event loop: done in slices of 0.25 ms, with a pause after each.

A tight loop holds the interpreter lock and makes every ping wait: their p99 grew 94-fold beside one. A slice
is measured in time and not in things done, because a machine may be busy and a text may be long.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SLICE_S = 0.00025


class Pace:
    """Counts the time of one piece of work; `pause` is called when a slice is over."""

    def __init__(self, pause: Callable[[], None]) -> None:
        self._pause = pause
        self._slice_ends = time.perf_counter() + SLICE_S

    def yield_if_due(self) -> None:
        """Pause if the slice is over; to be called often, after each small step."""
        if time.perf_counter() >= self._slice_ends:
            self.pause()

    def pause(self) -> None:
        """Pause now: after a step that is a slice of its own."""
        self._pause()
        self._slice_ends = time.perf_counter() + SLICE_S
