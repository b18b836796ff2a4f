"""Group commit: concurrent writers share a commit, and a single one does not wait."""

from __future__ import annotations

import asyncio

import pytest

from forged.writing import writer
from forged.writing.writer import GroupCommit
from tests.support.clock import turns


class Work:
    """Doubles what it gets, in as many calls as it notes; `go` is clear while a call hangs."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, items: list[int]) -> list[int]:
        self.calls.append(list(items))
        await self.go.wait()
        if -1 in items:
            raise ValueError("no")
        return [2 * item for item in items]


async def test_those_who_come_during_a_call_are_the_next_one_in_their_order():
    work = Work()
    line = GroupCommit(work, most=3)
    work.go.clear()
    first = line.submit(1)
    await turns(2)
    others = [line.submit(number) for number in range(2, 7)]
    work.go.set()

    assert await asyncio.gather(first, *others) == [2, 4, 6, 8, 10, 12]
    assert work.calls == [[1], [2, 3, 4], [5, 6]]


async def test_who_was_served_together_is_waited_for(monkeypatch):
    monkeypatch.setattr(writer, "_LONGEST_S", 60.0)
    monkeypatch.setattr(writer, "_SHARE_OF_CALL", 1e9)
    work = Work()
    line = GroupCommit(work, most=10)
    await asyncio.gather(*(line.submit(number) for number in range(3)))

    again = [line.submit(3)]
    await turns(5)
    again.append(line.submit(4))
    await turns(5)
    assert work.calls == [[0, 1, 2]]
    again.append(line.submit(5))
    assert await asyncio.gather(*again) == [6, 8, 10]
    assert work.calls == [[0, 1, 2], [3, 4, 5]]


async def test_a_failure_is_that_of_every_caller_it_had_and_of_no_other():
    work = Work()
    line = GroupCommit(work, most=2)
    reported = await asyncio.gather(*(line.submit(number) for number in (5, -1, 7)), return_exceptions=True)

    assert [type(each) for each in reported[:2]] == [ValueError, ValueError]
    assert reported[2] == 14


@pytest.mark.parametrize("when", ["before its turn", "in its turn"])
async def test_a_caller_that_goes_away_stops_no_other(when):
    work = Work()
    line = GroupCommit(work, most=1)
    work.go.clear()
    callers = [line.submit(number) for number in range(3)]
    await turns(2)
    callers[1 if when == "before its turn" else 0].cancel()
    work.go.set()

    assert await callers[2] == 4
    assert work.calls == ([[0], [2]] if when == "before its turn" else [[0], [1], [2]])
