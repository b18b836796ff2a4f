"""How often memories are found: counted at once, kept over a restart, bounded, forgotten with them."""

from __future__ import annotations

from forged.state.accesses import Access, Accesses
from tests.state.conftest import opened, raw
from tests.support.clock import Clock

NOW = 1_000_000.0


def test_each_hit_counts_and_says_when():
    clock = Clock(NOW)
    accesses = Accesses(None, clock)
    accesses.hit([("/r", "mem_1"), ("/r", "mem_2")])
    clock.now += 60
    accesses.hit([("/r", "mem_1")])

    assert accesses.get("/r", "mem_1") == Access(2, 1_000_060_000)
    assert accesses.get("/r", "mem_2") == Access(1, 1_000_000_000)
    assert accesses.get("/other", "mem_1") == Access()


def test_of_too_many_those_found_last_are_counted():
    accesses = Accesses(None, Clock(NOW), most=2)
    for memory_id in ("mem_1", "mem_2", "mem_1", "mem_3"):
        accesses.hit([("/r", memory_id)])

    assert [accesses.get("/r", f"mem_{number}").count for number in (1, 2, 3)] == [2, 0, 1]


async def test_counts_go_on_after_a_restart(tmp_path):
    async with opened(tmp_path) as state:
        state.accesses.hit([("/r", "mem_1")])
        state.accesses.hit([("/r", "mem_1")])
    async with opened(tmp_path) as state:
        state.accesses.hit([("/r", "mem_1")])
        assert state.accesses.get("/r", "mem_1").count == 3


def test_what_is_found_before_the_file_is_read_counts_too():
    accesses = Accesses(None, Clock(NOW))
    accesses.hit([("/r", "mem_1")])
    accesses.restore([("/r\nmem_1", Access(5, 7)), ("/r\nmem_2", Access(1, 9))])

    assert accesses.get("/r", "mem_1") == Access(6, 1_000_000_000)
    assert accesses.get("/r", "mem_2") == Access(1, 9)


async def test_what_is_forgotten_is_counted_no_more(tmp_path):
    async with opened(tmp_path) as state:
        state.accesses.hit([("/r", "mem_gone"), ("/r", "mem_stays")])
        await state.accesses.save()
        await state.accesses.forget("/r", ["mem_gone"])
        await state.erase_traces()
        assert b"mem_gone" not in raw(tmp_path)
    async with opened(tmp_path) as state:
        assert state.accesses.get("/r", "mem_gone") == Access()
        assert state.accesses.get("/r", "mem_stays").count == 1
