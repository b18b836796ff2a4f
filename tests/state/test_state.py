"""What is written when: durable before the answer, spending every five seconds, a copy once a day."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from forged.state import State, digest
from tests.state.conftest import a_governor, event, opened, raw
from tests.state.flaky import FlakyDatabase
from tests.support.clock import later, run, turns, until


def spent(governor) -> list[tuple[str, int]]:
    return [(day.purpose, day.tokens) for day in governor.accounts()]


def test_spending_is_written_at_the_end_and_added_to_after_a_restart(kept):
    first, second = a_governor(), a_governor()

    async def spend(state):
        first.spend("hyde", prompt_tokens=3, completion_tokens=1)
        first.spend("capture", failed=1, prompt_tokens=5)

    async def more(state):
        assert sorted(spent(second)) == [("capture", 5), ("hyde", 4)]
        second.spend("hyde", prompt_tokens=6)

    kept(spend, first)
    kept(more, second)
    third = a_governor()

    async def look(_):
        return sorted(spent(third))

    assert kept(look, third) == [("capture", 5), ("hyde", 10)]


def test_spending_is_written_every_five_seconds_and_only_when_there_is_some(directory):
    async def scene() -> list[int]:
        governor = a_governor()
        async with opened(directory, governor) as state:
            state._database.__class__ = FlakyDatabase
            saved = lambda: state._database.asked.count("save")  # noqa: E731
            await later(5.1)
            await until(lambda: state._copied_at > 0 and (directory / "state.copy").exists())
            counts = [saved()]
            governor.spend("hyde", prompt_tokens=3)
            await turns()
            counts.append(saved())
            await later(5.1)
            await until(saved)
            await later(5.1)
            await state.pauses.set("/srv/repo", True)  # after what was begun
            return [*counts, saved()]

    assert run(scene()) == [0, 0, 1]


def test_spending_that_cannot_be_written_is_warned_of_once_and_written_later(directory, caplog):
    async def scene() -> None:
        governor = a_governor()
        async with opened(directory, governor) as state:
            state._database.__class__ = FlakyDatabase
            state._database.failing = frozenset({"save"})
            for _ in range(3):
                governor.spend("hyde", prompt_tokens=5)
                await state.spending.save()
            assert [record.getMessage()[:37] for record in caplog.records].count(
                "costs are counted in memory only erro"
            ) == 1
            state._database.failing = frozenset()

    run(scene())
    governor = a_governor()

    async def again() -> list[tuple[str, int]]:
        async with opened(directory, governor):
            return spent(governor)

    assert run(again()) == [("hyde", 15)]


def test_only_spending_does_not_wait_for_the_disk(directory, monkeypatch):
    """Everything else is synced before it is answered: FULL, where spending has NORMAL."""
    synced: list[tuple[str, int]] = []

    async def scene() -> None:
        governor = a_governor()
        async with opened(directory, governor) as state:
            real = state._database._connection
            statements: list[str] = []
            await state._database._in_thread(lambda: real.set_trace_callback(statements.append))
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

    run(scene())

    assert synced == [
        ("put", "FULL"),
        ("pause", "FULL"),
        ("forgotten", "FULL"),
        ("spending", "NORMAL"),
        ("remove", "FULL"),
    ]


def test_the_copy_is_made_at_the_start_and_once_a_day(directory):
    async def scene() -> list[bool]:
        async with opened(directory) as state:
            await state._keep_copy()
            await state.forgotten.add("/srv/repo", ["text"])
            made = []
            for hours in (0, 23, 25):
                state._copied_at -= hours * 3600
                await state._keep_copy()
                made.append(digest("/srv/repo", "text").encode() in (directory / "state.copy").read_bytes())
                state._copied_at += hours * 3600 if hours < 24 else 0
            return made

    assert run(scene()) == [False, False, True]


def test_a_file_that_cannot_be_opened_is_tried_again_and_its_pauses_hold_then(directory):
    async def first() -> None:
        async with opened(directory) as state:
            await state.pauses.set("/srv/repo", True)
            await state.events.put(event())

    async def scene() -> tuple[str, tuple[str, ...], str, tuple[str, ...], int]:
        (directory / "state.db").rename(directory / "kept")
        (directory / "state.db").mkdir()
        async with opened(directory) as state:
            problem, paused = state.problem, state.pauses.listed()
            (directory / "state.db").rmdir()
            (directory / "kept").rename(directory / "state.db")
            await later(5.1)
            await asyncio.wait_for(state.events.restored.wait(), 5)
            return problem, paused, state.problem, state.pauses.listed(), len(state.events.left())

    run(first())
    problem, paused, *rest = run(scene())

    assert "cannot use" in problem
    assert paused == ("*",)
    assert rest == ["", ("/srv/repo",), 1]


def test_what_is_written_while_the_file_is_closed_is_refused_with_the_reason(directory):
    async def scene() -> None:
        state = State(str(directory), a_governor())
        await state._open()
        await state.close()
        from forged.errors import StoreError

        with pytest.raises(StoreError, match="is closed"):
            await state.events.put(event())

    run(scene())


def test_nothing_lies_beside_the_closed_file_and_another_program_can_read_it(kept, directory):
    async def scene(state):
        await state.events.put(event())

    kept(scene)

    assert sorted(path.name for path in directory.iterdir()) == ["state.db"]
    (count,) = sqlite3.connect(directory / "state.db").execute("SELECT count(*) FROM events").fetchone()
    assert count == 1
    assert b"errors.As" in raw(directory)
