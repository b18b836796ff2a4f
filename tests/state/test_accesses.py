"""How often memories are found: counted at once, kept over a restart, bounded, forgotten with them."""

from __future__ import annotations

from forged.state.accesses import Access, Accesses
from forged.state.database import Database
from forged.state.tables import Row
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


def test_of_too_many_those_found_last_are_counted():
    accesses = Accesses(Database(""), Clock(NOW), most=2)
    for memory_id in ("mem_1", "mem_2", "mem_1", "mem_3"):
        accesses.hit([("/r", memory_id)])

    assert [accesses.of("/r", f"mem_{number}").count for number in (1, 2, 3)] == [2, 0, 1]


async def test_counts_go_on_after_a_restart(tmp_path):
    async with opened(tmp_path) as state:
        state.accesses.hit([("/r", "mem_1")])
        state.accesses.hit([("/r", "mem_1")])
    async with opened(tmp_path) as state:
        state.accesses.hit([("/r", "mem_1")])
        assert state.accesses.of("/r", "mem_1").count == 3


def test_what_is_found_before_the_file_is_read_counts_too():
    accesses = Accesses(Database(""), Clock(NOW))
    accesses.hit([("/r", "mem_1")])
    accesses.restore([Row("/r\nmem_1", 7.0, Access(5, 7), 0), Row("/r\nmem_2", 9.0, Access(1, 9), 0)])

    assert accesses.of("/r", "mem_1") == Access(6, 1_000_000_000)
    assert accesses.of("/r", "mem_2") == Access(1, 9)


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
