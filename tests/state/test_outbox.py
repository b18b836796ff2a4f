"""Pending writes for the shared server: ordered, persistent, bounded, and forgettable."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forged.errors import ErrorKind, StoreError
from forged.state import State, Write, WriteFailure, outbox
from tests.state.conftest import opened, raw

ALL = ("put", "remove", "document")


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
            found = await state.outbox.due(3, ALL)
            await state.outbox.delete_sent([position for position, _ in found])
        async with opened(directory) as state:
            await state.outbox.add([put("mem_later")])
            found = await state.outbox.due(100, ALL)
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
            found = await state.outbox.due(9, ALL)
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
            assert ids(await state.outbox.due(9, ALL)) == ["mem_e_0", "doc_d"]

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


KINDS: list[ErrorKind] = ["final", "permission", "model", "passing"]


async def fail(state: State, kind: ErrorKind, *meant: str, times: int = 1, at: float | None = None) -> None:
    """Record that the server did not take writes of these memories."""
    failure = WriteFailure("no", kind, times, time.time() if at is None else at, "rights of today")
    found = [each for each in await state.outbox.due(99, ALL) if each[1].id in meant]
    await state.outbox.fail([(position, write, failure) for position, write in found])


@pytest.mark.parametrize("kind", KINDS)
async def test_later_writes_of_a_memory_wait_behind_one_that_failed_and_others_do_not(directory, kind):
    """A removal cancels what waits before it, and itself waits for nothing but an earlier removal."""
    async with opened(directory) as state:
        await state.outbox.add([put("mem_1", "bad"), put("mem_2", "good", document="doc_2")])
        await fail(state, kind, "mem_1")
        await state.outbox.add([put("mem_1", "later")] if kind != "final" else [])
    async with opened(directory) as state:
        due = await state.outbox.due(9, ALL, "rights of today")
        assert ids(due) == ["mem_2"]
        assert state.outbox.waiting == (1 if kind == "final" else 3)
        assert [each.id for each in state.outbox.refused] == (["mem_1"] if kind == "final" else [])
        await state.outbox.add([put("mem_1", "the latest")])
        assert state.outbox.refused == (), "a new text takes the place of a refused one"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_removal_that_fails_is_tried_for_ever_and_holds_up_its_document(directory, kind):
    async with opened(directory) as state:
        await state.outbox.add([removal("mem_1"), removal("doc_2", kind="document")])
        await fail(state, kind, "mem_1", "doc_2", times=1_000)
        await state.outbox.add([put("mem_3", document="doc_2"), put("mem_4")])
        assert state.outbox.refused == ()
        assert ids(await state.outbox.due(9, ALL, "rights of today")) == ["mem_4"]
        assert state.outbox.ids_to_remove == {"mem_1", "doc_2"}
        assert state.outbox.next_due_s(["document"], "rights of today") <= 3600
        await fail_again_an_hour_ago(state)
        assert ids(await state.outbox.due(9, ALL, "rights of today")) == ["mem_1", "doc_2", "mem_4"]


async def fail_again_an_hour_ago(state: State) -> None:
    """Let an hour pass for all that failed."""
    for position, (write, _) in list(state.outbox._headings.items()):
        if write.failure is not None:
            earlier = msgspec.structs.replace(write.failure, at=write.failure.at - 3600)
            await state.outbox.fail([(position, write, earlier)])


@pytest.mark.parametrize(
    ("kind", "is_due"), [("final", False), ("permission", True), ("model", True), ("passing", False)]
)
async def test_other_rights_or_models_make_a_write_due_again(directory, kind, is_due):
    async with opened(directory) as state:
        await state.outbox.add([put("mem_1")])
        await fail(state, kind, "mem_1")
        assert ids(await state.outbox.due(9, ALL, "rights of tomorrow")) == (["mem_1"] if is_due else [])


async def test_a_failure_that_may_pass_is_tried_with_growing_pauses_and_at_once_when_it_has(directory):
    async with opened(directory) as state:
        await state.outbox.add([put("mem_1")])
        pauses = []
        for times in range(12):
            state.outbox.end_pauses()
            await fail(state, "passing", "mem_1", times=times)
            pauses.append(state.outbox.next_due_s(ALL))
        assert [round(each) for each in pauses] == sorted(map(round, pauses))
        assert 0 < pauses[0] < 1
        assert pauses[-1] <= 30
        assert await state.outbox.due(9, ALL) == []
        state.outbox.end_pauses()
        assert ids(await state.outbox.due(9, ALL)) == ["mem_1"]
        assert state.outbox.troubles == {"no": 1}


async def test_a_memory_that_is_forgotten_while_its_write_fails_does_not_come_back(directory):
    """The failure is recorded after the removal, which was queued first."""
    async with opened(directory) as state:
        await state.outbox.add([put("mem_1", "the launch code is swordfish")])
        found = await state.outbox.due(9, ALL)
        failure = WriteFailure("no", "passing", 1, time.time())
        await state.outbox.forget({"mem_1"})
        await state.outbox.fail([(position, write, failure) for position, write in found])
    async with opened(directory) as state:
        assert (state.outbox.waiting, await state.outbox.due(9, ALL)) == (0, [])
    assert b"swordfish" not in raw(directory)


async def test_one_batch_has_one_write_of_a_memory_so_that_a_failure_cannot_change_their_order(directory):
    async with opened(directory) as state:
        await state.outbox.add([put("mem_1", "first"), put("mem_1", "second"), put("mem_2")])
        assert [(each.id, each.row) for _, each in await state.outbox.due(9, ALL)] == [
            ("mem_1", b"first"),
            ("mem_2", b""),
        ]
