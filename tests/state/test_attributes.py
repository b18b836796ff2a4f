"""Attributes of memories: durable with the write, inherited by versions, bounded."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from forged.attributes import UNCHANGED, UNKNOWN, Facts, FactsPatch
from forged.errors import StoreError
from forged.state import OwnFile, PendingWrite, RequestOutcome, State, attributes, database
from tests.state.conftest import opened, raw

TOP = "/home/me/.forge/agents/claude"
PATCH = FactsPatch("learning", 0.7, {"topic": "debug"}, "claude")
FACTS = Facts("learning", 0.7, {"topic": "debug"}, "claude")


def write(id_: str, base: str = "", patch: FactsPatch = UNCHANGED) -> PendingWrite:
    return PendingWrite("1:2:3", OwnFile(id_, "beef"), root=TOP, base=base, patch=patch)


async def wrote(state: State, *writes: PendingWrite, key: str = "") -> tuple[RequestOutcome | None, ...]:
    if key:
        writes = tuple(
            replace(each, key=key, known=RequestOutcome("digest", each.file.id)) for each in writes
        )
    return await asyncio.wrap_future(state.requests.begin(writes))


async def test_attributes_are_on_disk_with_the_write_they_are_of(tmp_path):
    async with opened(tmp_path) as state:
        await wrote(state, write("mem_1", patch=PATCH))
        assert state.attributes.of(TOP, "mem_1") == FACTS
    async with opened(tmp_path) as state:
        assert state.attributes.of(TOP, "mem_1") == FACTS
        assert state.attributes.of("/elsewhere", "mem_1") == UNKNOWN


async def test_a_write_that_is_not_on_record_has_no_attributes(tmp_path, monkeypatch):
    real = database.put

    def failing(connection, table, *values):
        if table == "requests":
            raise StoreError("no space left")
        real(connection, table, *values)

    async with opened(tmp_path) as state:
        with monkeypatch.context() as patched:
            patched.setattr(database, "put", failing)
            with pytest.raises(StoreError, match="no space left"):
                await wrote(state, write("mem_1", patch=PATCH), key="a")
        assert state.attributes.of(TOP, "mem_1") == UNKNOWN
    async with opened(tmp_path) as state:
        assert state.attributes.of(TOP, "mem_1") == UNKNOWN


async def test_a_request_that_comes_again_leaves_the_attributes_of_the_first(tmp_path):
    async with opened(tmp_path) as state:
        await wrote(state, write("mem_1", patch=PATCH), key="a")
        assert await wrote(state, write("mem_1", patch=FactsPatch("state")), key="a") == (
            RequestOutcome("digest", "mem_1"),
        )
        assert state.attributes.of(TOP, "mem_1") == FACTS


async def test_a_new_version_keeps_the_attributes_of_its_head_but_for_what_it_says(tmp_path):
    async with opened(tmp_path) as state:
        # Both in one transaction: the head of the second is not in memory yet.
        await wrote(
            state,
            write("mem_1", patch=PATCH),
            write("mem_2", "mem_1", FactsPatch(importance=0.1)),
            write("mem_3", "mem_2"),
        )
        assert state.attributes.of(TOP, "mem_3") == Facts("learning", 0.1, {"topic": "debug"}, "claude")


async def test_what_no_one_says_anything_of_takes_no_row(tmp_path):
    async with opened(tmp_path) as state:
        await wrote(state, write("mem_unsaid"))
        await state.attributes.put(TOP, {"mem_unsaid_too": UNKNOWN})
        rows = await state._database.run(lambda connection: tuple(database.rows(connection, "attributes")))
    assert rows == ()


async def test_of_too_many_memories_those_whose_attributes_were_put_last_keep_them(tmp_path, monkeypatch):
    monkeypatch.setattr(attributes, "MOST", 2)
    async with opened(tmp_path) as state:
        for number in range(4):
            await wrote(state, write(f"mem_{number}", patch=PATCH))
        assert list(state.attributes.of_root(TOP)) == ["mem_2", "mem_3"]
    monkeypatch.undo()
    async with opened(tmp_path) as state:
        assert list(state.attributes.of_root(TOP)) == ["mem_2", "mem_3"]


async def test_a_record_has_the_counts_of_a_memory_too(tmp_path):
    async with opened(tmp_path) as state:
        await wrote(state, write("mem_1", patch=PATCH))
        state.accesses.hit([(TOP, "mem_1"), (TOP, "mem_1")])
        facts = state.facts(TOP, "mem_1")
        assert (facts.importance, facts.access_count) == (0.7, 2)
        assert facts.last_accessed.startswith("20")
        assert state.facts(TOP, "mem_2") == UNKNOWN


async def test_of_what_is_forgotten_no_byte_stays(tmp_path):
    patch = FactsPatch(metadata={"about": "a-word-of-metadata"})
    async with opened(tmp_path) as state:
        await wrote(state, write("mem_gone", patch=patch), write("mem_stays", patch=PATCH))
        await state.attributes.forget(TOP, ["mem_gone", "mem_never"])
        await state.erase_traces()
        assert state.attributes.of(TOP, "mem_gone") == UNKNOWN
        assert b"a-word-of-metadata" not in raw(tmp_path)
    async with opened(tmp_path) as state:
        assert state.attributes.of(TOP, "mem_gone") == UNKNOWN
        assert state.attributes.of(TOP, "mem_stays") == FACTS
