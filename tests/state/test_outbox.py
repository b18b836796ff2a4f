"""Pending writes for the shared server: ordered, persistent, bounded, and forgettable."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from forged.errors import StoreError
from forged.state import Write, outbox
from tests.state.conftest import opened, raw

ALL = ("put", "fill", "remove", "document")


def put(memory_id: str, text: str = "", **fields: Any) -> Write:
    given = {"kind": "put", "scope": "org", "owner": "", "row": text.encode()} | fields
    return Write(id=memory_id, **given)


def removal(memory_id: str, **fields: Any) -> Write:
    return Write(**{"kind": "remove", "scope": "org", "owner": "", "id": memory_id} | fields)


def ids(found: list[tuple[int, Write]]) -> list[str]:
    return [write.id for _, write in found]


def test_writes_come_back_in_their_order_after_a_restart_and_those_that_are_done_do_not(directory: Path):
    async def scenario() -> None:
        async with opened(directory) as state:
            await state.outbox.add([put(f"mem_{number}", f"text {number}") for number in range(12)])
            found = await state.outbox.oldest(3, ALL)
            await state.outbox.delete_sent([position for position, _ in found])
        async with opened(directory) as state:
            await state.outbox.add([put("mem_later")])
            found = await state.outbox.oldest(100, ALL)
            assert ids(found) == [*(f"mem_{number}" for number in range(3, 12)), "mem_later"]
            assert found[0][1].row == b"text 3"
            assert state.outbox.waiting == 10

    asyncio.run(scenario())


def test_a_removal_takes_what_waits_of_that_memory_away_and_nothing_else(directory: Path):
    async def scenario() -> None:
        async with opened(directory) as state:
            await state.outbox.add(
                [put("mem_1", "first"), put("mem_2"), put("mem_1", scope="user", owner="me")]
            )
            await state.outbox.add([removal("mem_1")])
            found = await state.outbox.oldest(9, ALL)
            assert [(write.kind, write.scope, write.id) for _, write in found] == [
                ("put", "org", "mem_2"),
                ("put", "user", "mem_1"),
                ("remove", "org", "mem_1"),
            ]

    asyncio.run(scenario())


def test_removing_a_document_takes_all_of_its_pieces_that_wait(directory: Path):
    async def scenario() -> None:
        async with opened(directory) as state:
            await state.outbox.add([put(f"mem_d_{n}", document="doc_d") for n in range(3)])
            await state.outbox.add([put("mem_e_0", document="doc_e"), removal("doc_d", kind="document")])
            assert ids(await state.outbox.oldest(9, ALL)) == ["mem_e_0", "doc_d"]

    asyncio.run(scenario())


def test_no_byte_of_a_forgotten_text_stays(directory: Path):
    async def scenario() -> None:
        async with opened(directory) as state:
            await state.outbox.add([put("mem_1", "the launch code is swordfish"), put("mem_2", "kept")])
            await state.outbox.forget({"mem_1"})
            await state.erase_traces()

    asyncio.run(scenario())
    assert b"swordfish" not in raw(directory)
    assert b"mem_2" in raw(directory)


def test_more_than_there_is_room_for_is_refused_with_a_sentence_but_a_removal_is_taken(
    directory: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outbox, "MOST_BYTES", 100)

    async def scenario() -> None:
        async with opened(directory) as state:
            await state.outbox.add([put("mem_1", "x" * 60)])
            with pytest.raises(StoreError, match="1 writes wait for the shared server, and there is no room"):
                await state.outbox.add([put("mem_2", "x" * 60)])
            assert state.outbox.waiting == 1
            await state.outbox.add([removal("mem_1")])
            await state.outbox.add([put("mem_2", "x" * 60)])

    asyncio.run(scenario())


def test_what_is_refused_for_good_waits_no_longer_and_can_be_tried_again(directory: Path):
    async def scenario() -> None:
        async with opened(directory) as state:
            await state.outbox.add([put("mem_1", "bad"), put("mem_2", "good")])
            (position, write), _ = await state.outbox.oldest(9, ALL)
            await state.outbox.refuse(position, write, "512 numbers where 384 are wanted")
        async with opened(directory) as state:
            assert ids(await state.outbox.oldest(9, ALL)) == ["mem_2"]
            assert [each.refused for each in state.outbox.set_aside] == ["512 numbers where 384 are wanted"]
            await state.outbox.retry()
            (_, write), _ = await state.outbox.oldest(9, ALL)
            assert (write.id, write.row, write.refused) == ("mem_1", b"bad", "")

    asyncio.run(scenario())
