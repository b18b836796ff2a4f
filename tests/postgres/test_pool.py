from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from forged.errors import SharedError
from forged.memory import Scope
from forged.postgres.connecting import SETTINGS, connect, parameters
from forged.postgres.pool import CONNECTIONS, Pool, ServerHealth
from forged.postgres.roles import RowOwner, grant
from forged.postgres.values import Settings
from tests.support.clock import PATIENCE_S, until
from tests.support.postgres import MODEL, Database, migrated
from tests.support.scratch_server import ScratchServer


@pytest.fixture(scope="module")
def own_server():
    """One that is killed and stopped, which others must not notice."""
    folder = Path(tempfile.mkdtemp(prefix="forged-pg-", dir="/tmp"))
    server = ScratchServer(folder, durable=False)
    server.start()
    try:
        asyncio.run(migrated(Database(server, "postgres")))
        yield server
    finally:
        server.kill()  # what it holds is thrown away: no checkpoint of it is wanted
        shutil.rmtree(folder)


@pytest.fixture
def own(own_server):
    return Database(own_server, "postgres")


class Using:
    """A pool for the time of a test."""

    def __init__(self, settings):
        self.offsets = list[float]()
        self.pool = Pool(settings, self._keep)

    async def _keep(self, offset_s: float) -> None:
        self.offsets.append(offset_s)

    async def __aenter__(self):
        return self.pool

    async def __aexit__(self, *_):
        await self.pool.close()


def soon(seconds=PATIENCE_S):
    return time.monotonic() + seconds


async def ask(pool, query="SELECT 1", values=None, deadline=None):
    async with pool.connection(deadline or soon()) as connection:
        return await (await connection.execute(query, values)).fetchall()


async def test_a_search_goes_on_until_its_limit_is_full_and_plans_for_its_values(database):
    async with Using(database.settings()) as pool:
        names = ", ".join(f"current_setting('{name}')" for name in SETTINGS)
        found = await ask(pool, f"SELECT {names}")
    assert found == [tuple(SETTINGS.values())]


async def test_a_statement_is_ended_by_the_server_before_its_deadline(database):
    async with Using(database.settings()) as pool:
        await ask(pool)
        with pytest.raises(SharedError, match="did not answer in time") as caught:
            await ask(pool, "SELECT pg_sleep(600)", deadline=soon(0.3))

        assert caught.value.reason == "timeout"
        await until(lambda: is_idle(database))


async def test_the_server_is_sent_a_limit_anew_only_where_it_differs(database):
    async with Using(database.settings()) as pool:
        reported = []
        for seconds in (100.0, 99.0, 105.0, 50.0, 200.0, 200.0):
            ((limit,),) = await ask(pool, "SHOW statement_timeout", deadline=soon(seconds))
            reported.append(int(limit.removesuffix("ms")) if limit.endswith("ms") else int(limit[:-1]) * 1000)

    assert reported[0] == reported[1] == reported[2] > reported[3]
    assert 90_000 < reported[0] < 100_000 * 0.95
    assert 45_000 < reported[3] <= 50_000 * 0.95 < 180_000 < reported[4] == reported[5]


async def test_a_connection_that_the_server_ended_is_replaced_and_no_one_notices(database):
    async with Using(database.settings()) as pool:
        ((pid,),) = await ask(pool, "SELECT pg_backend_pid()", deadline=soon())
        database.sql("SELECT pg_terminate_backend(%s, 5000)", (pid,))

        ((other,),) = await ask(pool, "SELECT pg_backend_pid()", deadline=soon())

    assert other != pid


async def test_an_agent_that_hangs_up_ends_the_statement(database):
    async with Using(database.settings()) as pool:
        asking = asyncio.create_task(ask(pool, "SELECT pg_sleep(60)", deadline=soon(PATIENCE_S)))
        await until(lambda: not is_idle(database))
        asking.cancel()
        await asyncio.wait([asking])

        await until(lambda: is_idle(database))


def is_idle(database):
    query = (
        "SELECT pid FROM pg_stat_activity WHERE datname = %s AND state = 'active'"
        " AND query LIKE '%%pg_sleep%%'"
        " AND pid <> pg_backend_pid()"
    )
    return database.sql(query, [database.name]) == []


async def test_a_server_that_says_nothing_more_keeps_no_one_beyond_the_deadline(own):
    async with Using(own.settings()) as pool:
        ((pid,),) = await ask(pool, "SELECT pg_backend_pid()")
        os.kill(own.server.pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(SharedError, match="did not answer in time"):
                await ask(pool, deadline=soon(0.3))

            with pytest.raises(SharedError, match="did not answer in time") as caught:
                await ask(pool, deadline=soon(3600))
            assert caught.value.__cause__ is None  # nobody asked the server
        finally:
            os.kill(pid, signal.SIGCONT)
            os.kill(own.server.pid, signal.SIGCONT)

        await until(lambda: pool.health.trouble is None)
        assert await ask(pool) == [(1,)]


async def test_a_killed_server_is_found_again_without_anybody_waiting_for_it(own):
    async with Using(own.settings()) as pool:
        await ask(pool)
        own.server.kill()
        for _ in range(3):
            with pytest.raises(SharedError) as caught:
                await ask(pool)
            assert (caught.value.reason, caught.value.is_away) == ("unreachable", True)
        assert pool.health.condition().state == "failing"
        own.server.start()

        await until(lambda: pool.health.trouble is None)
        assert await ask(pool) == [(1,)]


async def test_whoever_finds_every_connection_in_use_waits_no_longer_than_set(database):
    async with Using(database.settings()) as pool, contextlib.AsyncExitStack() as held:
        for _ in range(CONNECTIONS):
            await held.enter_async_context(pool.connection(soon()))
        with pytest.raises(SharedError, match="was free in time") as caught:
            await ask(pool, deadline=soon(0.05))
        assert caught.value.reason == "busy"
        assert pool.health.trouble is None


async def test_requests_wait_for_a_server_that_has_no_connection_left(database: Database):
    """A role that may have two connections: eight requests at once take turns, and none is refused."""
    database.sql("CREATE ROLE has_two LOGIN CONNECTION LIMIT 2")
    async with await connect(database.settings()) as connection:
        await grant(connection, "has_two", [RowOwner(Scope.USER, "ada")])
    async with Using(database.settings("has_two")) as pool:
        assert await asyncio.gather(*(ask(pool, deadline=soon()) for _ in range(8))) == [[(1,)]] * 8
        async with (
            Using(database.settings("has_two")) as other,
            pool.connection(soon()),
            pool.connection(soon()),
        ):
            with pytest.raises(SharedError, match="has no connection left") as caught:
                await ask(other, deadline=soon(0.3))
            assert caught.value.reason == "busy"
            assert other.health.trouble is None, "it is no failure of the server"


async def test_a_vector_of_another_length_is_refused_by_a_sentence_that_names_both(database):
    async with Using(database.settings()) as pool:
        with pytest.raises(SharedError, match="have 8 numbers, and this one has 12") as caught:
            await ask(
                pool,
                "INSERT INTO forged.user_memories (user_id, id, agent_id, content, embedding)"
                " VALUES ('u', 'm', 'a', 'c', %s) RETURNING id",
                [str([0.0] * 12)],
            )
        assert caught.value.reason == "dimension"
        assert pool.health.trouble is None


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO forged.tombstones (scope, owner, id, changed) VALUES ('user', 'u', 'm', %s)",
        "INSERT INTO forged.tombstones (scope, owner, kind) VALUES ('user', 'u', %s)",
        "SELECT %s::int",
    ],
)
async def test_no_error_quotes_what_was_written(database, query):
    async with Using(database.settings()) as pool:
        with pytest.raises(SharedError, match="the shared PostgreSQL answered") as caught:
            await ask(pool, query, ["secret"])
    assert "secret" not in str(caught.value)


async def test_a_database_that_was_never_migrated_is_not_used(empty_database):
    empty_database.sql("CREATE EXTENSION vector")
    async with Using(empty_database.settings()) as pool:
        with pytest.raises(SharedError, match="run `forgectl shared migrate`") as caught:
            await ask(pool)
        assert caught.value.reason == "schema"


async def test_a_database_without_pgvector_is_not_used(empty_database):
    async with Using(empty_database.settings()) as pool:
        with pytest.raises(SharedError, match="has no pgvector in this database"):
            await ask(pool)


async def test_what_a_transaction_left_open_is_not_lent_again(database):
    async with Using(database.settings()) as pool:
        async with pool.connection(soon()) as connection:
            await connection.execute("BEGIN")
            pid = connection.info.backend_pid
        assert await ask(pool, "SELECT pg_backend_pid()") != [(pid,)]


# --- the way there -------------------------------------------------------------------------------------


def given(url, **more):
    return parameters(Settings(url=url, model=MODEL, **more))


@pytest.mark.parametrize("host", ["db.example.org", "10.0.0.1", "[2001:db8::1]", "localhost,db.example.org"])
def test_a_server_elsewhere_is_spoken_to_by_tls(host):
    assert given(f"postgresql://{host}/team")["sslmode"] == "require"


def test_settings_show_no_password():
    settings = Settings(url="postgresql://ada:hush@db/x", password="hush", model=MODEL)
    assert "hush" not in f"{settings} {settings!r}"


# --- health --------------------------------------------------------------------------------------------


def failure(reason="unreachable"):
    return SharedError("gone", reason=reason)


def test_a_server_that_does_not_let_us_in_is_asked_every_half_minute():
    health = ServerHealth()
    health.record_failure(failure("refused"))
    health.record_failure(failure("refused"))

    assert health.next_probe_s == 30.0
