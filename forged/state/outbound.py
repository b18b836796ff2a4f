"""What left the machine, by day, host and purpose: how many calls, texts and characters, and never any text.

Parts add to it as requests are handed to the network. Written as spending is: now and then, and whatever is
wrong with that ends no call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from forged.counters import Departure
from forged.memory import utc_day
from forged.state import tables
from forged.state.database import Database
from forged.state.soft_rows import SoftRows

if TYPE_CHECKING:
    from sqlite3 import Connection

_DAYS_KEPT = 90
_TABLE = "outbound"


class DayOut(msgspec.Struct, frozen=True):
    """One day (UTC, as YYYY-MM-DD), host and purpose; `failed` calls are among `calls`."""

    day: str
    host: str
    purpose: str
    calls: int = 0
    failed: int = 0
    texts: int = 0
    characters: int = 0


class Outbound:
    """The record, in memory and in the file. `clock` gives Unix seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._rows = SoftRows(database, _TABLE, "what leaves is")
        self._clock = clock
        self._days: dict[tuple[str, str, str], DayOut] = {}

    def add(self, departure: Departure) -> None:
        """Count what left just now, or that it came to nothing."""
        if not (departure.calls or departure.failed):
            return
        self._add(
            DayOut(
                self._day(),
                departure.host,
                departure.purpose,
                departure.calls,
                departure.failed,
                departure.texts,
                departure.characters,
            )
        )

    def restore(self, found: Sequence[DayOut]) -> None:
        """Take over what a file holds, as it is opened; more may have left by then."""
        for each in found:
            self._add(each)
        self._rows.restore(tuple(map(_row, found)))

    def days(self, number: int) -> tuple[DayOut, ...]:
        """What left in the last days, today included: newest first, then by host and purpose."""
        since = self._day(back=number - 1)
        chosen = (each for each in self._days.values() if each.day >= since)
        told = sorted(chosen, key=lambda each: (each.host, each.purpose))
        return tuple(sorted(told, key=lambda each: each.day, reverse=True))

    async def save(self) -> None:
        """Write what has changed since the last time. Raises nothing; what fails is written later."""
        await self._rows.save(tuple(map(_row, self._days.values())))

    def _add(self, more: DayOut) -> None:
        key = (more.day, more.host, more.purpose)
        known = self._days.get(key, DayOut(*key))
        self._days[key] = DayOut(
            *key,
            calls=known.calls + more.calls,
            failed=known.failed + more.failed,
            texts=known.texts + more.texts,
            characters=known.characters + more.characters,
        )
        oldest = self._day(back=_DAYS_KEPT - 1)
        if any(day < oldest for day, _, _ in self._days):
            self._days = {key: kept for key, kept in self._days.items() if kept.day >= oldest}

    def _day(self, back: int = 0) -> str:
        return utc_day(self._clock(), back)


def all_left(connection: Connection) -> tuple[DayOut, ...]:
    """All rows. Raises Damaged."""
    return tuple(_day_out(row) for row in tables.rows(connection, _TABLE))


def _day_out(row: tables.Columns) -> DayOut:
    day, host, purpose = [*str(row[0]).split(" "), "", ""][:3]
    return DayOut(day, host, purpose, *(count if isinstance(count, int) else 0 for count in row[1:]))


def _row(out: DayOut) -> tables.Columns:
    key = f"{out.day} {out.host} {out.purpose}"
    return (key, out.calls, out.failed, out.texts, out.characters)
