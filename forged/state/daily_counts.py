"""Counts by day: cost of model calls, egress, and events of each agent's hooks.

Counts are approximate and contain no text. They are write-behind, and a failure never ends a call or a hook.
Days of egress are kept for three months, those of agents for one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from forged.state.database import Database, Row
from forged.state.rows import Rows
from forged_client.protocol import DayCost

if TYPE_CHECKING:
    from forged.models import Governor


import time
from collections.abc import Callable
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from forged.counters import EgressRecord, summed
from forged.memory import utc, utc_day
from forged.text.local_time import day_of
from forged_client.protocol import DayEgress


class Spending(Rows[DayCost]):
    """Table of the daily cost of model calls by purpose; the governor counts it in memory."""

    def __init__(self, database: Database, governor: Governor) -> None:
        super().__init__(database, "spending", DayCost, is_copied=True)
        self._governor = governor

    def restore(self, found: Iterable[Row[DayCost]]) -> None:
        """Take over the file's costs by day at open, and load them into the governor."""
        super().restore(found)
        self._governor.restore(self.values())

    async def save(self) -> None:
        """Write the governor's changed daily costs. Raises nothing; a failed write is repeated."""
        now = {f"{spent.day} {spent.purpose}": spent for spent in self._governor.accounts()}
        gone = dict.fromkeys(self.keys() - now)
        self.update(gone | {key: spent for key, spent in now.items() if self.get(key) != spent})
        await super().save()


_EGRESS_S = 90 * 24 * 3600.0


class EgressCounts(Rows[DayEgress]):
    """Table of counts of calls and texts sent, by day, host and purpose, for 90 days."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(
            database, "egress", DayEgress, keep_s=_EGRESS_S, merge=summed, is_copied=True, clock=clock
        )

    def add(self, record: EgressRecord) -> None:
        """Add a sent or failed call and the numbers of its texts to the counts of the UTC day."""
        if not (record.calls or record.failed):
            return
        day, host, purpose = utc_day(self._clock(), 0), record.host, record.purpose
        counts = record.calls, record.failed, record.texts, record.characters
        key, before = f"{day} {host} {purpose}", DayEgress(day, host, purpose)
        self.update({key: summed(self.get(key, before), DayEgress(day, host, purpose, *counts))})

    def days(self, number: int) -> tuple[DayEgress, ...]:
        """Return the egress of the last `number` days, today included, newest first, by host and purpose."""
        since = utc_day(self._clock(), number - 1)
        chosen = (each for each in self.values() if each.day >= since)
        ordered = sorted(chosen, key=lambda each: (each.host, each.purpose))
        return tuple(sorted(ordered, key=lambda each: each.day, reverse=True))


_AGENTS_S = 31 * 24 * 3600.0


class AgentDay(msgspec.Struct, frozen=True, omit_defaults=True):
    """Turns and hook failures of one agent on one local day, with its newest event and version.

    `unknown` counts turns that ended without a known prompt.
    """

    last_event: str = ""
    last_event_at: str = ""
    version: str = ""
    turns: int = 0
    skipped: int = 0
    unknown: int = 0
    failed: int = 0
    last_failure: str = ""
    last_failure_at: str = ""


class Agents(Rows[AgentDay]):
    """Table of turn and failure counts, and the newest hook event, by agent and local day."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, "agents", AgentDay, keep_s=_AGENTS_S, merge=_merge_days, clock=clock)

    def record_event(self, agent: str, event: str, version: str = "") -> None:
        """Record the newest hook event of an agent, its time, and the agent's version if known."""
        known = self._counts_today(agent)
        self._put_today(
            agent,
            replace(known, last_event=event, last_event_at=self._now(), version=version or known.version),
        )

    def count(self, agent: str, *, turns: int = 0, skipped: int = 0, unknown: int = 0) -> None:
        """Add to an agent's counts of today: turns, skipped turns, turns of an unknown prompt."""
        known = self._counts_today(agent)
        turns, skipped, unknown = known.turns + turns, known.skipped + skipped, known.unknown + unknown
        self._put_today(agent, replace(known, turns=turns, skipped=skipped, unknown=unknown))

    def record_failure(self, agent: str, why: str) -> None:
        """Count a failed hook of an agent; record the reason and the time."""
        known = self._counts_today(agent)
        self._put_today(
            agent, replace(known, failed=known.failed + 1, last_failure=why, last_failure_at=self._now())
        )

    def newest_days(self) -> tuple[tuple[str, str, AgentDay], ...]:
        """Return each agent's newest day with counts: the name, the day, the counts."""
        found = {key.partition(" ")[0]: (key, day) for key, day in sorted(self.items(), key=itemgetter(0))}
        return tuple((agent, key.partition(" ")[2], day) for agent, (key, day) in found.items())

    @property
    def today(self) -> str:
        """Return the local day now, under which new counts are kept."""
        return day_of(self._clock(), 0)

    def _now(self) -> str:
        return utc(round(self._clock()))

    def _counts_today(self, agent: str) -> AgentDay:
        """Return the counts of an agent on the local day, zeros if there are none."""
        return self.get(f"{agent} {self.today}", AgentDay())

    def _put_today(self, agent: str, known: AgentDay) -> None:
        """Set the counts of an agent on the local day, in memory."""
        self.update({f"{agent} {self.today}": known})


def _merge_days(old: AgentDay, new: AgentDay) -> AgentDay:
    """Return the sum of an agent's counts of the same day, with the newer texts."""
    both = {}
    for name in AgentDay.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        both[name] = before + after if isinstance(after, int) else after or before
    return AgentDay(**both)
