"""What left the machine, by day, host and purpose: how many calls, texts and characters, and never any text.

Parts add to it as requests are handed to the network. Written as spending is: now and then, and whatever is
wrong with that ends no call. The days of three months are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from forged.counters import Departure, summed
from forged.memory import utc_day
from forged.state.database import Database
from forged.state.rows import Rows
from forged_client.protocol import DayOutbound

_KEPT_S = 90 * 24 * 3600.0


class Outbound(Rows[DayOutbound]):
    """The record. `clock` gives Unix seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(
            database,
            "outbound",
            DayOutbound,
            keep_s=_KEPT_S,
            merge=summed,
            is_copied=True,
            clock=clock,
        )

    def add(self, departure: Departure) -> None:
        """Count what left just now, or that it came to nothing."""
        if not (departure.calls or departure.failed):
            return
        day, host, purpose = utc_day(self._clock(), 0), departure.host, departure.purpose
        counts = departure.calls, departure.failed, departure.texts, departure.characters
        key, before = f"{day} {host} {purpose}", DayOutbound(day, host, purpose)
        self.update({key: summed(self.get(key, before), DayOutbound(day, host, purpose, *counts))})

    def days(self, number: int) -> tuple[DayOutbound, ...]:
        """What left in the last days, today included: newest first, then by host and purpose."""
        since = utc_day(self._clock(), number - 1)
        chosen = (each for each in self.values() if each.day >= since)
        told = sorted(chosen, key=lambda each: (each.host, each.purpose))
        return tuple(sorted(told, key=lambda each: each.day, reverse=True))
