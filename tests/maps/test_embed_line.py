"""Whose texts are next, how many a second, and how long it takes."""

from __future__ import annotations

import asyncio

import pytest

from forged.maps.embed_line import AT_ONCE, EmbedLine
from tests.support.clock import Clock, turns


@pytest.fixture
def clock():
    return Clock(1000.0)


@pytest.fixture
def line(clock):
    return EmbedLine(clock)


async def test_chunks_of_the_root_that_was_asked_for_last_go_next(line):
    asked = {"old": 1.0, "new": 2.0}
    begun, hold = [], asyncio.Event()

    async def chunk(place, name):
        async with place.turn():
            begun.append(name)
            await hold.wait()

    old, new = (line.enter(lambda name=name: asked[name], 100) for name in ("old", "new"))
    tasks = [asyncio.create_task(chunk(old, "old")) for _ in range(AT_ONCE + 2)]
    await turns()
    tasks += [asyncio.create_task(chunk(new, "new")) for _ in range(2)]
    await turns()
    assert begun == ["old"] * AT_ONCE
    hold.set()
    await asyncio.gather(*tasks)
    assert begun[AT_ONCE:] == ["new", "new", "old", "old"]


def test_who_was_asked_for_again_while_it_waits_goes_ahead(line):
    asked = {"a": 5.0, "b": 6.0}
    a, b = (line.enter(lambda name=name: asked[name], 10) for name in "ab")
    assert b.rank() > a.rank()

    asked["a"] = 9.0

    assert a.rank() > b.rank()


def test_of_roots_of_one_request_the_one_with_the_fewest_texts_left_goes_first(line):
    large, small = line.enter(lambda: 7.30, 900), line.enter(lambda: 7.31, 20)

    assert small.rank() > large.rank()

    large.did(890)
    assert large.rank() > small.rank()


def test_the_rate_is_that_of_the_last_minute_of_all_roots_and_of_this_embedding(line, clock):
    first, second = line.enter(texts=1000), line.enter(texts=1000)
    assert (first.rate, first.left_s) == (0.0, None)
    clock.now += 200
    first.did(8)
    assert (first.rate, first.left_s) == (0.0, None), "the model had to be loaded for these"
    clock.now += 10
    first.did(30)
    second.did(10)
    assert first.rate == second.rate == 4.0
    clock.now += 65
    first.did(80)

    assert first.rate == 80 / 60, "what is more than a minute ago says nothing of now"

    first.leave()
    second.leave()
    clock.now += 5
    later = line.enter(texts=50)
    later.did(1)
    clock.now += 2
    later.did(1)
    assert later.rate == 0.5, "nor what was embedded before"


def test_the_time_left_counts_what_goes_ahead_and_not_what_comes_behind(line, clock):
    behind, own, ahead = (line.enter(lambda at=at: at, 100) for at in (1.0, 2.0, 3.0))
    own.did(0)
    clock.now += 10
    own.did(20)

    assert (ahead.left_s, own.left_s, behind.left_s) == (50.0, 90.0, 140.0)

    ahead.leave()
    assert own.left_s == 40.0
