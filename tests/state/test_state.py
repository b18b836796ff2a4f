"""Times of writes: durable before the answer, spending every five seconds, a daily copy."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3

import pytest

from forged.errors import StoreError
from forged.state import State
from forged.state.forgotten import digest
from tests.state.conftest import a_governor, event, opened, raw
from tests.support.clock import later


def spent(governor) -> list[tuple[str, int]]:
    return sorted((day.purpose, day.tokens) for day in governor.accounts())


async def test_spending_is_written_at_the_end_and_added_to_after_a_restart(directory):
    first, second, third = a_governor(), a_governor(), a_governor()
    async with opened(directory, first):
        first.spend("hyde", prompt_tokens=3, completion_tokens=1)
        first.spend("capture", failed=1, prompt_tokens=5)

    async with opened(directory, second):
        assert spent(second) == [("capture", 5), ("hyde", 4)]
        second.spend("hyde", prompt_tokens=6)

    async with opened(directory, third):
        assert spent(third) == [("capture", 5), ("hyde", 10)]


async def test_only_spending_does_not_wait_for_the_disk(directory):
    """Everything else is synced before it is answered: FULL, where spending has NORMAL."""
    synced: list[tuple[str, str]] = []
    governor = a_governor()
    async with opened(directory, governor) as state:
        real = state._database._connection
        statements: list[str] = []
        await state._database._run_in_thread(lambda: real.set_trace_callback(statements.append))
        governor.spend("hyde")
        for name, work in (
            ("put", state.events.put(event())),
            ("pause", state.pauses.set("/srv/repo", True)),
            ("forgotten", state.forgotten.add("/srv/repo", ["text"])),
            ("spending", state.spending.save()),
            ("remove", state.events.remove(event().id)),
        ):
            statements.clear()
            await work
            level = [each for each in statements if "synchronous" in each][-1]
            synced.append((name, level.rpartition("=")[2]))

    assert [name for name, level in synced if level == "FULL"] == ["put", "pause", "forgotten", "remove"]
    assert ("spending", "NORMAL") in synced


async def test_the_copy_is_made_at_the_start_and_once_a_day(state, directory):
    await state._copy_daily()
    await state.forgotten.add("/srv/repo", ["text"])
    for hours, is_made in ((0, False), (23, False), (25, True)):
        state._copied_at -= hours * 3600
        await state._copy_daily()
        held = (directory / "state.copy").read_bytes()
        assert (digest("/srv/repo", "text").encode() in held) is is_made
        state._copied_at += hours * 3600


async def test_a_file_that_cannot_be_opened_is_tried_again_and_its_pauses_hold_then(directory):
    async with opened(directory) as state:
        await state.pauses.set("/srv/repo", True)
        await state.events.put(event())

    (directory / "state.db").rename(directory / "kept")
    (directory / "state.db").mkdir()
    async with opened(directory) as state:
        assert "cannot use" in state.problem
        assert (state.pauses.reason(()), state.pauses.listed()) == (state.problem, ())
        (directory / "state.db").rmdir()
        (directory / "kept").rename(directory / "state.db")
        await later(5.1)
        await asyncio.wait_for(state.events.restored.wait(), 5)
        assert (state.problem, state.pauses.listed()) == ("", ("/srv/repo",))
        assert len(state.events.take_restored()) == 1


async def test_what_is_written_while_the_file_is_closed_is_refused_with_the_reason(directory):
    state = State(str(directory), a_governor())
    await state._open()
    await state.close()

    with pytest.raises(StoreError, match="is closed"):
        await state.events.put(event())


async def test_nothing_lies_next_to_the_closed_file_and_another_program_can_read_it(directory):
    async with opened(directory) as state:
        await state.events.put(event())

    assert [path.name for path in directory.iterdir()] == ["state.db"]
    with contextlib.closing(sqlite3.connect(directory / "state.db")) as connection:
        (count,) = connection.execute("SELECT count(*) FROM events").fetchone()
    assert count == 1
    assert b"errors.As" in raw(directory)
