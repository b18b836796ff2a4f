"""Results of requests: one row for each key, for a day, without forgotten text."""

from __future__ import annotations

import asyncio
import threading

import pytest

from forged.errors import StoreError
from forged.state import OwnFile, PendingWrite, RequestOutcome, State
from forged.state.requests import KEPT_S, Requests
from tests.state.conftest import a_governor, opened
from tests.support.clock import PATIENCE_S

HERE = "1:2:3"


def begun(key: str, memory_id: str, **fields: object) -> PendingWrite:
    return PendingWrite(
        HERE, OwnFile(memory_id, f"sha of {memory_id}"), key, RequestOutcome("digest", memory_id), **fields
    )


async def put(requests: Requests, *writes: PendingWrite) -> tuple[RequestOutcome | None, ...]:
    return await asyncio.wrap_future(requests.begin(writes))


async def test_the_first_row_of_a_key_counts_and_no_other_file_is_on_record(tmp_path):
    async with opened(tmp_path) as state:
        assert await put(state.requests, begun("a", "mem_1"), begun("a", "mem_2")) == (
            None,
            RequestOutcome("digest", "mem_1"),
        )
        assert set(state.trust.own(HERE)) == {"mem_1"}
    async with opened(tmp_path) as state:
        assert await put(state.requests, begun("a", "mem_3")) == (RequestOutcome("digest", "mem_1"),)
        assert set(state.trust.own(HERE)) == {"mem_1"}


async def test_a_row_and_its_own_file_are_one_transaction(tmp_path, monkeypatch):
    from forged.state import database

    real = database.put

    def failing(connection, table, *values):
        if table == "requests":
            raise StoreError("no space left")
        real(connection, table, *values)

    async with opened(tmp_path) as state:
        with monkeypatch.context() as patched:
            patched.setattr(database, "put", failing)
            with pytest.raises(StoreError, match="no space left"):
                await put(state.requests, begun("a", "mem_1"))
        assert not state.trust.own(HERE)
    async with opened(tmp_path) as state:
        assert not state.trust.own(HERE)


async def test_a_key_is_known_for_a_day(tmp_path):
    now = 1_000_000.0
    async with opened(tmp_path) as state:
        requests = Requests(state._database, state.trust, state.attributes, clock=lambda: now)
        await put(requests, begun("a", "mem_1"))
        now += KEPT_S - 1
        assert await put(requests, begun("a", "mem_2")) == (RequestOutcome("digest", "mem_1"),)
        now += 601
        assert await put(requests, begun("a", "mem_2")) == (None,)


async def test_of_what_is_forgotten_the_key_alone_stays(tmp_path):
    async with opened(tmp_path) as state:
        await put(state.requests, begun("a", "mem_1"), begun("b", "mem_2"))
        await state.requests.forget(["mem_1"])
        known = await put(state.requests, begun("a", "mem_3"), begun("b", "mem_3"))

    assert known == (RequestOutcome("", ""), RequestOutcome("digest", "mem_2"))


async def test_threads_that_wait_together_share_a_transaction(tmp_path):
    async with opened(tmp_path) as state:
        go, transactions = threading.Event(), 0
        real = state._database.change

        def change(work, **named):
            nonlocal transactions
            transactions += 1
            return real(work, **named)

        state._database.change = change
        state._database.submit(lambda: go.wait(PATIENCE_S) and None)
        waiting = [asyncio.wrap_future(state.requests.begin([begun(str(n), f"mem_{n}")])) for n in range(20)]
        go.set()
        assert await asyncio.gather(*waiting) == [(None,)] * 20
        assert transactions == 1


async def test_a_state_that_is_closed_says_so_to_everybody(tmp_path):
    state = State(str(tmp_path), a_governor())
    await state.close()

    with pytest.raises(StoreError, match="is closed"):
        await put(state.requests, begun("a", "mem_1"))
