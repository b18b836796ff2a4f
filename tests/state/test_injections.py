"""Stored injections: their age, size, and removal of forgotten text."""

from __future__ import annotations

from msgspec.structs import replace

from forged.state import InjectionRecord, RecordedMemory
from forged.state.database import Database
from forged.state.injected_sets import KEPT_S, Injections
from tests.state.conftest import opened, raw
from tests.support.clock import Clock

NOW = 100 * 24 * 3600.0
FAR = 4e9  # beyond any day on which this runs
ONE, TWO = (
    RecordedMemory("/r", "mem_one", 1, "search", "strong"),
    RecordedMemory("/r", "mem_two", 3, "pinned", "pinned"),
)
TURN = InjectionRecord(
    at=NOW,
    tops=("/r", "/h"),
    session_id="s",
    agent="codex",
    turn_id="t",
    strategy="direct",
    memories=(ONE, TWO),
)


def test_newest_come_first_and_go_after_thirty_days():
    clock = Clock(NOW)
    kept = Injections(Database(""), clock)
    kept.add(TURN)
    kept.add(replace(TURN, at=NOW + 9, turn_id="u"))

    assert [each.turn_id for each in kept.listed()] == ["u", "t"]
    clock.now = NOW + KEPT_S
    assert [each.turn_id for each in kept.listed()] == ["u"]
    clock.now = NOW + KEPT_S + 9
    assert kept.listed() == ()


async def test_it_outlives_the_daemon_and_is_lost_with_nothing_else(directory):
    async with opened(directory) as state:
        state.injections.add(replace(TURN, at=FAR))
        before = state.injections.listed()

    async with opened(directory) as state:
        assert state.injections.listed() == before


async def test_what_is_forgotten_leaves_its_injections_of_that_root_alone_and_the_disk(directory):
    other = replace(ONE, root="/h")
    async with opened(directory) as state:
        state.injections.add(replace(TURN, at=FAR, memories=(ONE, TWO, other)))
        state.injections.add(replace(TURN, at=FAR, memories=(TWO,)))
        await state.injections.save()
        assert b"mem_two" in raw(directory)

        await state.injections.forget("/r", ("mem_two",))
        await state.erase_traces()

        assert [each.memories for each in state.injections.listed()] == [(ONE, other)]
        assert b"mem_two" not in raw(directory)
        await state.injections.forget("/r", ("mem_one",))

    async with opened(directory) as state:
        assert [each.memories for each in state.injections.listed()] == [(other,)]


async def test_the_page_that_shows_all_memories_goes_with_what_is_forgotten(directory):
    async with opened(directory) as state:
        (directory / "ui.html").write_text("all memories")
        assert await state.unexpected_files() == ()

        await state.erase_traces()

        assert not (directory / "ui.html").exists()
