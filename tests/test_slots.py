"""A few pieces of work at a time, the highest rank next, and nobody who left keeps a slot."""

from __future__ import annotations

import asyncio

from forged.slots import Slots
from tests.support.clock import turns


class Line:
    """Pieces of work over slots: `begun` are those that have one or had one, in order."""

    def __init__(self, most=1):
        self.most = most
        self.slots = Slots(lambda: self.most)
        self.begun = []

    def wait(self, name, rank=0):
        async def piece():
            await self.slots.take(lambda: (rank,))
            self.begun.append(name)

        return asyncio.create_task(piece())


async def test_of_those_who_wait_the_highest_rank_is_next_and_of_equals_who_came_first():
    line = Line()
    for name, rank in (("first", 0), ("a", 1), ("b", 2), ("c", 2), ("d", 0)):
        line.wait(name, rank)
    await turns()
    assert line.begun == ["first"]
    for _ in range(4):
        line.slots.give_back()
        await turns()
    assert line.begun == ["first", "b", "c", "a", "d"]


async def test_fewer_slots_hold_as_soon_as_what_was_begun_has_ended_and_more_at_the_next_give_back():
    line = Line(most=2)
    for name in "abcde":
        line.wait(name)
    await turns()
    line.most = 1
    line.slots.give_back()
    await turns()
    assert line.begun == ["a", "b"]
    line.slots.give_back()
    await turns()
    assert line.begun == ["a", "b", "c"]
    line.most = 2
    line.slots.give_back()
    await turns()
    assert line.begun == ["a", "b", "c", "d", "e"]


async def test_who_is_cancelled_takes_no_slot_whether_it_was_given_one_or_not():
    line = Line()
    line.wait("a")
    given, waiting, last = line.wait("given"), line.wait("waiting"), line.wait("last")
    await turns()
    waiting.cancel()
    line.slots.give_back()
    given.cancel()  # the slot is its own, and it has not run since
    await asyncio.gather(given, waiting, return_exceptions=True)
    await last
    assert line.begun == ["a", "last"]


async def test_closing_cancels_those_who_wait():
    line = Line()
    line.wait("a")
    waiting = line.wait("b")
    await turns()
    line.slots.close()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (waiting.cancelled(), line.begun) == (True, ["a"])
