"""What each agent's hooks have told, by day: how many turns and failures, and what came last.

Counts and never text; written as spending is, now and then. The days of the last month are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from forged.memory import utc
from forged.state import tables
from forged.state.database import Damaged, Database
from forged.state.soft_rows import SoftRows
from forged.text.local_time import day_of

if TYPE_CHECKING:
    from sqlite3 import Connection

_DAYS_KEPT = 31
_TABLE = "agents"


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


# Agent and day, what was told.
AgentRow = tuple[str, str, AgentDay]
_decoder = msgspec.msgpack.Decoder(AgentDay)


class Agents:
    """The record, in memory and in the file. `clock` gives Unix seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._rows = SoftRows(database, _TABLE, "what agents' hooks tell is")
        self._clock = clock
        self._days: dict[tuple[str, str], AgentDay] = {}

    def restore(self, found: Sequence[AgentRow]) -> None:
        """Take over what a file holds, as it is opened; what came by then is added to it."""
        for agent, day, kept in found:
            new = self._days.get((agent, day), AgentDay())
            self._days[agent, day] = _together(kept, new)
        self._rows.restore(tuple(_row(*each) for each in found))

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

    def newest(self) -> tuple[AgentRow, ...]:
        """The newest day of each agent."""
        found = {agent: (agent, day, self._days[agent, day]) for agent, day in sorted(self._days)}
        return tuple(found.values())

    @property
    def today(self) -> str:
        return day_of(self._clock(), 0)

    async def save(self) -> None:
        """Write what has changed since the last time. Raises nothing; what fails is written later."""
        await self._rows.save(tuple(_row(*key, kept) for key, kept in self._days.items()))

    def _now(self) -> str:
        return utc(round(self._clock()))

    def _today(self, agent: str) -> AgentDay:
        return self._days.get((agent, self.today), AgentDay())

    def _put(self, agent: str, known: AgentDay) -> None:
        self._days[agent, self.today] = known
        oldest = day_of(self._clock(), _DAYS_KEPT - 1)
        if any(day < oldest for _, day in self._days):
            self._days = {key: kept for key, kept in self._days.items() if key[1] >= oldest}


def _together(old: AgentDay, new: AgentDay) -> AgentDay:
    """Counts of both; of the words those that came last."""
    both = {}
    for name in AgentDay.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        both[name] = before + after if isinstance(after, int) else after or before
    return AgentDay(**both)


def all_agents(connection: Connection) -> tuple[AgentRow, ...]:
    """All rows. Raises Damaged."""
    try:
        return tuple(_agent(row) for row in tables.rows(connection, _TABLE))
    except msgspec.DecodeError as error:
        raise Damaged(f"what agents' hooks told cannot be read: {error}") from error


def _agent(row: tables.Columns) -> AgentRow:
    agent, _, day = str(row[0]).partition(" ")
    return agent, day, _decoder.decode(row[1] if isinstance(row[1], bytes) else b"")


def _row(agent: str, day: str, kept: AgentDay) -> tables.Columns:
    return (f"{agent} {day}", msgspec.msgpack.encode(kept))
