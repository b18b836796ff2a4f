"""Events of agents' hooks: counted by day, persistent, and bounded."""

from __future__ import annotations

from pathlib import Path

from forged.state import State
from forged.state.daily_counts import Agents
from forged.state.database import Database
from tests.state.conftest import a_governor, opened
from tests.support.clock import Clock

_DAY_S = 24 * 3600.0


async def test_counts_and_the_last_event_outlive_the_daemon(tmp_path: Path):
    async with opened(tmp_path) as state:
        state.agents.record_event("claude", "UserPromptSubmit", "2.1")
        state.agents.count("claude", turns=1)
        state.agents.record_failure("claude", "Stop: spool_full")
    async with opened(tmp_path) as state:
        state.agents.record_event("claude", "Stop")
        state.agents.count("claude", turns=1, unknown=1)
        ((agent, day, known),) = state.agents.newest_days()

        assert (agent, day) == ("claude", state.agents.today)
        assert (known.turns, known.unknown, known.failed) == (2, 1, 1)
        assert (known.last_event, known.version, known.last_failure) == ("Stop", "2.1", "Stop: spool_full")


async def test_what_is_reported_before_the_file_is_open_is_added_to_what_it_holds(tmp_path: Path):
    async with opened(tmp_path) as state:
        state.agents.record_event("claude", "Stop", "2.1")
        state.agents.count("claude", turns=3)
    later = State(str(tmp_path), a_governor())
    later.agents.record_event("claude", "SessionStart")
    later.agents.count("claude", turns=1)
    await later._open()

    ((_, _, known),) = later.agents.newest_days()
    assert (known.turns, known.last_event, known.version) == (4, "SessionStart", "2.1")
    await later.close()


def test_each_day_is_counted_anew_and_a_month_is_kept():
    clock = Clock(100 * _DAY_S)
    agents = Agents(Database(""), clock)
    for _ in range(40):
        agents.count("claude", turns=1)
        clock.now += _DAY_S
    agents.record_event("codex", "Stop")

    assert [(agent, known.turns) for agent, _, known in agents.newest_days()] == [("claude", 1), ("codex", 0)]
    assert len(agents) == 31
