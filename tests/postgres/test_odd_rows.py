"""A row with values that nobody expected costs itself, and a lock that others hold stops nobody for long."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from forged.errors import SharedError
from forged.memory import Scope
from forged.postgres.connecting import connect
from forged.postgres.inspecting import examine
from forged.postgres.migrating import migrate, migrations
from forged.postgres.roles import RowOwner, grant
from tests.postgres.rows import ids, row, running, soon, until, vector
from tests.support.postgres import MODEL, Database

OWNERS = {Scope.USER: "ada", Scope.AGENT: "ada/coder", Scope.ORG: "", Scope.SESSION: "s"}
NAMES = {
    Scope.USER: "user_memories",
    Scope.AGENT: "agent_memories",
    Scope.ORG: "organizational_memories",
    Scope.SESSION: "session_memories",
}
VERSIONED = (Scope.USER, Scope.AGENT)
ODD = [
    *((scope, "metadata = '[1, 2]'") for scope in NAMES),
    *((scope, "metadata = '\"text\"'") for scope in NAMES),
    *((scope, "metadata = 'null'") for scope in NAMES),
    *((scope, "created_at = 'infinity'") for scope in NAMES),
    *((scope, "created_at = '-infinity'") for scope in NAMES),
    *((scope, "content = repeat('long ', 60000)") for scope in NAMES),
    *((scope, "updated_at = 'infinity'") for scope in VERSIONED),
    *((scope, "importance_score = 'NaN'") for scope in (*VERSIONED, Scope.SESSION)),
    *((scope, "importance_score = 'Infinity'") for scope in (*VERSIONED, Scope.SESSION)),
    (Scope.SESSION, "expires_at = 'infinity'"),
    (Scope.ORG, "source = repeat('long ', 60000)"),
]
# These are no business of a constraint, and have to be read all the same.
DEEP = "metadata = (repeat('{\"a\":', 2000) || '1' || repeat('}', 2000))::jsonb"
LATE = "created_at = '294000-01-01'"


@pytest.mark.parametrize(("scope", "change"), ODD, ids=str)
async def test_an_odd_value_is_refused_and_where_it_is_there_its_row_alone_is_left_out(
    database: Database, tmp_path: Path, scope: Scope, change: str
):
    async with running(database, tmp_path) as shared:
        await shared.put([row(scope, OWNERS[scope], name) for name in ("one", "odd", "two")])
        update = f"UPDATE forged.{NAMES[scope]} SET {change} WHERE id = 'mem_odd'"
        with pytest.raises(psycopg.errors.CheckViolation):
            database.sql(update)
        database.sql(f"ALTER TABLE forged.{NAMES[scope]} DROP CONSTRAINT {NAMES[scope]}_readable")
        database.sql(update)
        assert await found(shared, scope) == ["one", "two"]
        assert shared.condition().odd == ("mem_odd",)


@pytest.mark.parametrize("change", [DEEP, LATE])
@pytest.mark.parametrize("scope", NAMES)
async def test_a_value_that_python_cannot_have_costs_its_row_alone(
    database: Database, tmp_path: Path, scope: Scope, change: str
):
    async with running(database, tmp_path) as shared:
        await shared.put([row(scope, OWNERS[scope], name) for name in ("one", "odd", "two")])
        database.sql(f"UPDATE forged.{NAMES[scope]} SET {change} WHERE id = 'mem_odd'")
        assert await found(shared, scope) == ["one", "two"]
        assert shared.condition().odd == ("mem_odd",)


async def found(shared, scope: Scope) -> list[str]:
    owners = {scope: OWNERS[scope]}
    return sorted(ids((await shared.recall(owners, vector(1), deadline=soon()))[scope]))


async def test_rows_that_were_there_before_the_constraint_stay_and_doctor_names_their_table(
    empty_database: Database, tmp_path: Path
):
    first = [each for each in migrations() if each.number < 3]
    async with await connect(empty_database.settings()) as connection:
        await migrate(connection, {"": MODEL}, first)
        for metadata in ("[1]", "{}"):
            empty_database.sql(
                "INSERT INTO forged.user_memories (user_id, id, agent_id, content, metadata)"
                " VALUES ('ada', %s, 'a', 'c', %s)",
                (f"mem_{metadata}", metadata),
            )
        await migrate(connection, {"": MODEL})
        findings = await examine(connection, empty_database.settings())
        assert [each.detail.split()[2] for each in findings if each.name == "odd rows"] == ["user_memories"]
        empty_database.sql("DELETE FROM forged.user_memories WHERE metadata = '[1]'")
        await migrate(connection, {"": MODEL})
        findings = await examine(connection, empty_database.settings())
        assert [each for each in findings if each.name == "odd rows"] == []


async def test_a_table_that_another_member_locks_fails_a_search_soon_and_writes_wait_with_the_reason(
    database: Database, tmp_path: Path
):
    database.sql("CREATE ROLE locks_tables LOGIN")
    async with await connect(database.settings()) as connection:
        await grant(connection, "locks_tables", [RowOwner(Scope.USER, "eve")])
    async with running(database, tmp_path) as shared:
        await shared.put([row(Scope.ORG, "", "one")])
        other = await psycopg.AsyncConnection.connect(database.server.url("locks_tables", database.name))
        async with other:
            await other.execute("LOCK TABLE forged.organizational_memories IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(SharedError, match="a lock is held") as failed:
                await found(shared, Scope.ORG)
            assert failed.value.reason == "server"
            await shared.put([row(Scope.ORG, "", "two")])
            await until(lambda: "a lock is held" in " ".join(shared.condition().waits))
            assert shared.condition().state == "ok"
        await until(lambda: not shared.condition().waiting)
        assert await found(shared, Scope.ORG) == ["one", "two"]


async def test_no_lock_that_an_outsider_may_take_is_one_that_writers_wait_for(
    database: Database, tmp_path: Path
):
    """Whatever advisory locks a role takes that it sees writers hold, they go on."""
    database.sql("CREATE ROLE takes_locks LOGIN")
    async with running(database, tmp_path) as shared:
        seen: list[tuple[int, int, int]] = []

        async def watch() -> None:
            other = await psycopg.AsyncConnection.connect(
                database.server.url("takes_locks", database.name), autocommit=True
            )
            async with other:
                for _ in range(200):
                    held = "SELECT classid::int, objid::int FROM pg_locks WHERE locktype = 'advisory'"
                    seen.extend(await (await other.execute(held)).fetchall())
                    await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        for number in range(30):
            await shared.put([row(Scope.USER, "ada", f"{number}"), row(Scope.ORG, "", f"{number}")])
        await watching
        assert seen == []
