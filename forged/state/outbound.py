"""What left the machine, by day, host and purpose: how many calls, texts and characters, and never any text.

Parts add to it as requests are handed to the network. Written as spending is: now and then, and whatever is
wrong with that ends no call. The days of three months are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from forged.counters import Departure
from forged.memory import utc_day
from forged.state.database import Database
from forged.state.rows import Rows

_KEPT_S = 90 * 24 * 3600.0


class DayOut(msgspec.Struct, frozen=True):
    """One day (UTC, as YYYY-MM-DD), host and purpose; `failed` calls are among `calls`."""

    day: str
    host: str
    purpose: str
    calls: int = 0
    failed: int = 0
    texts: int = 0
    characters: int = 0

    def __add__(self, more: DayOut) -> DayOut:
        return DayOut(
            self.day,
            self.host,
            self.purpose,
            calls=self.calls + more.calls,
            failed=self.failed + more.failed,
            texts=self.texts + more.texts,
            characters=self.characters + more.characters,
        )


class Outbound(Rows[DayOut]):
    """The record. `clock` gives Unix seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(
            database,
            "outbound",
            DayOut,
            keep_s=_KEPT_S,
            merge=DayOut.__add__,
            is_copied=True,
            clock=clock,
        )

    def add(self, departure: Departure) -> None:
        """Count what left just now, or that it came to nothing."""
        if not (departure.calls or departure.failed):
            return
        day, host, purpose = utc_day(self._clock(), 0), departure.host, departure.purpose
        counts = departure.calls, departure.failed, departure.texts, departure.characters
        key, before = f"{day} {host} {purpose}", DayOut(day, host, purpose)
        self.update({key: self.get(key, before) + DayOut(day, host, purpose, *counts)})

    def days(self, number: int) -> tuple[DayOut, ...]:
        """What left in the last days, today included: newest first, then by host and purpose."""
        since = utc_day(self._clock(), number - 1)
        chosen = (each for each in self.values() if each.day >= since)
        told = sorted(chosen, key=lambda each: (each.host, each.purpose))
        return tuple(sorted(told, key=lambda each: each.day, reverse=True))
