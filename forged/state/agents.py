"""What each agent's hooks have told, by day: how many turns and failures, and what came last.

Counts and never text; written as spending is, now and then. The days of the last month are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from forged.memory import utc
from forged.state.database import Database
from forged.state.rows import Rows
from forged.text.local_time import day_of

_KEPT_S = 31 * 24 * 3600.0


class AgentDay(msgspec.Struct, frozen=True, omit_defaults=True):
    """One agent on one day, local. `unknown` turns ended of which nobody had heard the prompt."""

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
    """The record, by agent and day. `clock` gives Unix seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, "agents", AgentDay, keep_s=_KEPT_S, merge=_together, clock=clock)

    def saw(self, agent: str, event: str, version: str = "") -> None:
        """An event came."""
        known = self._today(agent)
        self._put(
            agent,
            replace(known, last_event=event, last_event_at=self._now(), version=version or known.version),
        )

    def count(self, agent: str, *, turns: int = 0, skipped: int = 0, unknown: int = 0) -> None:
        known = self._today(agent)
        turns, skipped, unknown = known.turns + turns, known.skipped + skipped, known.unknown + unknown
        self._put(agent, replace(known, turns=turns, skipped=skipped, unknown=unknown))

    def failed(self, agent: str, why: str) -> None:
        """A hook came to nothing."""
        known = self._today(agent)
        self._put(
            agent, replace(known, failed=known.failed + 1, last_failure=why, last_failure_at=self._now())
        )

    def newest(self) -> tuple[tuple[str, str, AgentDay], ...]:
        """Return the newest day of each agent: its name, the day, what was counted."""
        found = {key.partition(" ")[0]: (key, day) for key, day in sorted(self.items(), key=itemgetter(0))}
        return tuple((agent, key.partition(" ")[2], day) for agent, (key, day) in found.items())

    @property
    def today(self) -> str:
        return day_of(self._clock(), 0)

    def _now(self) -> str:
        return utc(round(self._clock()))

    def _today(self, agent: str) -> AgentDay:
        return self.get(f"{agent} {self.today}", AgentDay())

    def _put(self, agent: str, known: AgentDay) -> None:
        self.update({f"{agent} {self.today}": known})


def _together(old: AgentDay, new: AgentDay) -> AgentDay:
    """Counts of both; of the words those that came last."""
    both = {}
    for name in AgentDay.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        both[name] = before + after if isinstance(after, int) else after or before
    return AgentDay(**both)
