"""A pooler between a machine and the team's server: all modes but session are refused by name."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from forged.errors import SharedError
from forged.postgres.connecting import connect, find_pooler
from forged.postgres.inspecting import examine
from forged.postgres.pool import Pool
from tests.postgres.meeting import Machine, a_meeting, running
from tests.support.clock import PATIENCE_S, eventually
from tests.support.pooler import PGBOUNCER, own_pooler, pgbouncer

POOLERS = (
    pytest.param(own_pooler, id="own"),
    pytest.param(
        pgbouncer, id="pgbouncer", marks=pytest.mark.skipif(PGBOUNCER is None, reason="no pgbouncer here")
    ),
)
"""A pooler, as a context that yields the URL through it."""


async def _kept(_offset_s: float) -> None:
    """Take an offset of the clocks, which these tests do not need."""


async def used(settings) -> None:
    """Use a pool once."""
    pool = Pool(settings, _kept)
    try:
        async with pool.connection(time.monotonic() + PATIENCE_S) as connection:
            await connection.execute("SELECT 1")
    finally:
        await pool.close()


@pytest.mark.parametrize("size", [1, 2, 20])
@pytest.mark.parametrize("pooler", POOLERS)
class TestTransactionMode:
    def test_is_found_before_anything_is_asked(self, pooler, size, database):
        with pooler(database, "transaction", size) as url:
            settings = msgspec.structs.replace(database.settings(), url=url)
            with pytest.raises(SharedError, match="for a transaction only: set its pool_mode") as error:
                asyncio.run(used(settings))
        assert error.value.reason == "pooler"

    def test_doctor_names_it_with_the_remedy(self, pooler, size, database):
        with pooler(database, "transaction", size) as url:
            settings = msgspec.structs.replace(database.settings(), url=url)
            found = asyncio.run(findings(settings))["pooler"]
        assert (found.level, "pool_mode" in found.fix) == ("fail", True)


@pytest.mark.parametrize("pooler", POOLERS)
class TestSessionMode:
    def test_works(self, pooler, database):
        with pooler(database, "session") as url:
            settings = msgspec.structs.replace(database.settings(), url=url)
            asyncio.run(used(settings))
            assert asyncio.run(findings(settings))["pooler"].detail == "a pooler in session mode"

    def test_keeps_no_connection_of_the_check(self, pooler, database):
        with pooler(database, "session", 2) as url:
            settings = msgspec.structs.replace(database.settings(), url=url)

            async def twice() -> list[str]:
                async with await connect(settings) as connection:
                    return [await find_pooler(connection, settings) for _ in range(2)]

            assert asyncio.run(twice()) == ["session", "session"]


def test_without_a_pooler_none_is_found(database):
    assert asyncio.run(findings(database.settings()))["pooler"].level == "ok"


def test_own_notifications_are_known_through_a_pooler(database):
    with own_pooler(database, "session") as url:
        settings = msgspec.structs.replace(database.settings(), url=url)

        async def pids() -> tuple[bool, bool]:
            pool = Pool(settings, _kept)
            try:
                async with pool.connection(time.monotonic() + PATIENCE_S) as connection:
                    cursor = await connection.execute("SELECT pg_backend_pid()")
                    ((pid,),) = await cursor.fetchall()
                    return pool.is_own(pid), pool.is_own(pid + 1)
            finally:
                await pool.close()

        assert asyncio.run(pids()) == (True, False)


def test_status_names_the_pooler_and_writes_wait(server, tmp_path):
    database = a_meeting(server, "forged_pooled")
    with own_pooler(database, "transaction") as url:
        machine = Machine("pooled", tmp_path, database)
        machine.configure(url=url)
        with running(machine):
            kept = machine.remember("The pager rings at nine.")
            eventually(lambda: "for a transaction only" in machine.status.message)
            assert database.sql("SELECT 1 FROM forged.user_memories") == []
            machine.restart()
            eventually(lambda: database.sql("SELECT id FROM forged.user_memories") == [(kept,)])


async def findings(settings) -> dict[str, object]:
    """Return doctor's findings by name."""
    async with await connect(settings) as connection:
        return {each.name: each for each in await examine(connection, settings)}
