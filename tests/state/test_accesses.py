"""Counts of found memories: immediate, persistent, bounded, forgotten with them."""

from __future__ import annotations

from forged.state.attributes import Access, Accesses
from forged.state.database import Database
from tests.state.conftest import opened, raw
from tests.support.clock import Clock

NOW = 1_000_000.0


def test_each_hit_counts_and_says_when():
    clock = Clock(NOW)
    accesses = Accesses(Database(""), clock)
    accesses.hit([("/r", "mem_1"), ("/r", "mem_2")])
    clock.now += 60
    accesses.hit([("/r", "mem_1")])

    assert accesses.of("/r", "mem_1") == Access(2, 1_000_060_000)
    assert accesses.of("/r", "mem_2") == Access(1, 1_000_000_000)
    assert accesses.of("/other", "mem_1") == Access()


async def test_what_is_forgotten_is_counted_no_more(tmp_path):
    async with opened(tmp_path) as state:
        state.accesses.hit([("/r", "mem_gone"), ("/r", "mem_stays")])
        await state.accesses.save()
        await state.accesses.forget("/r", ["mem_gone"])
        await state.erase_traces()
        assert b"mem_gone" not in raw(tmp_path)
    async with opened(tmp_path) as state:
        assert state.accesses.of("/r", "mem_gone") == Access()
        assert state.accesses.of("/r", "mem_stays").count == 1
