"""Every date that a person sees is that of the clock on the wall, whichever zone that hangs in."""

from __future__ import annotations

import time
from datetime import datetime
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from forged.cli.captured import _entry_lines
from forged.cli.listing import chain_table, explanation, hit_lines, memory_list, memory_page, memory_table
from forged.cli.reviewing import _proposal_lines, numbered_proposals
from forged.cli.since import parse_time
from forged.mcp import rendering
from forged.state.daily_counts import Agents
from forged.state.database import Database
from forged.text.local_time import day_of, local_day, local_time
from forged_client import protocol as wire

ZONES = (
    *("UTC", "America/Los_Angeles", "Asia/Kolkata", "Pacific/Kiritimati", "Pacific/Pago_Pago"),
    *("Australia/Lord_Howe", "Europe/Berlin", "XYZ-5:45"),
)
NIGHT = "2026-11-28T05:42:00.123456Z"
DAYS = {"America/Los_Angeles": "2026-11-27", "Pacific/Pago_Pago": "2026-11-27"}


@pytest.fixture(params=ZONES)
def zone(request, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def _plain(_: str, text: str) -> str:
    return text


CALL = SimpleNamespace(paint=_plain, width=0)
RECORD = wire.MemoryRecord(
    id="mem_1", content="text", scope="repo", category="patterns", version=1, created_at=NIGHT,
    updated_at=NIGHT, is_head=True, root="/w", origin="typed", session_id="s", trigger="explicit",
)  # fmt: skip
HIT = replace(RECORD, found=wire.Ranking(1.0))
PROPOSED = wire.Proposed(id="mem_1", content="text", scope="repo", created_at=NIGHT)
SURFACES = {
    "list": lambda: memory_table([RECORD]),
    "list --long": lambda: memory_list([RECORD]),
    "show": lambda: memory_page(RECORD, _plain),
    "history": lambda: chain_table(wire.Chain(memories=(RECORD,))),
    "search": lambda: hit_lines((HIT,), _plain, 0),
    "why": lambda: explanation(wire.Explained(at=NIGHT, session_id="s"), "", _plain),
    "captured": lambda: _entry_lines(CALL, [wire.CapturedEntry(at=NIGHT, text="text")], with_root=False),
    "review": lambda: _proposal_lines(PROPOSED, _plain),
    "review at a terminal": lambda: numbered_proposals([PROPOSED], _plain),
    "MCP list": lambda: [rendering.list_entry(RECORD)],
    "MCP search": lambda: [rendering.list_entry(HIT)],
}


@pytest.mark.parametrize("surface", SURFACES)
def test_a_moment_has_its_local_day_wherever_it_is_shown(zone, surface):
    text = "\n".join(SURFACES[surface]())
    day = DAYS.get(zone, "2026-11-28")

    assert day in text
    assert all(other not in text for other in {"2026-11-27", "2026-11-28"} - {day})


def test_today_begins_at_local_midnight_in_counts_and_in_options(zone):
    now = datetime.fromisoformat(NIGHT).timestamp()
    clock = SimpleNamespace(now=now)
    agents = Agents(Database(""), clock=lambda: clock.now)
    agents.count("codex", turns=1)
    midnight = parse_time("today", datetime.now().astimezone().fromtimestamp(now).astimezone())

    assert agents.today == DAYS.get(zone, "2026-11-28") == day_of(now) == local_day(NIGHT)
    assert day_of(midnight.timestamp()) == agents.today
    assert day_of(midnight.timestamp() - 1) == day_of(now, 1)
    clock.now = midnight.timestamp() - 1
    assert agents.today == day_of(now, 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seconds=st.integers(0, 4_102_444_800))
def test_day_and_minute_of_any_time_agree_in_every_zone(zone, seconds):
    text = f"{datetime.fromtimestamp(seconds).astimezone().isoformat()}"

    assert local_day(text) == day_of(seconds)
    assert local_time(text) == time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-45", "2026-01-31"])
def test_what_is_no_time_stays_and_a_day_alone_is_that_day(zone, text):
    assert local_day(text) == text[:10]
