from __future__ import annotations

import asyncio

import psycopg
import pytest

from forged.errors import SharedError
from forged.memory import Scope
from forged.postgres.connecting import connect
from forged.postgres.inspecting import examine
from forged.postgres.migrating import Migration, migrate, migrations
from forged.postgres.roles import RowOwner, grant
from forged.postgres.schema import MAIN
from forged.postgres.values import EmbeddingModel
from tests.postgres.rows import ids, row, running, soon, vector
from tests.support.clock import PATIENCE_S
from tests.support.postgres import MODEL


async def run_files(database, models=None, files=None):
    async with await connect(database.settings()) as connection:
        return await migrate(connection, models or {"": MODEL}, files)


async def test_two_who_migrate_at_once_do_it_once(empty_database):
    both = await asyncio.gather(run_files(empty_database), run_files(empty_database))

    assert sorted(map(len, both)) == [0, len([each for each in migrations() if each.model == MAIN])]


async def test_a_database_of_a_newer_program_is_left_alone(database):
    newer = (*migrations(), Migration(9, "later", "CREATE TABLE forged.later (id text PRIMARY KEY)"))
    await run_files(database, files=newer)

    with pytest.raises(SharedError, match="migration 9, which is of a newer forged"):
        await run_files(database)


async def test_a_file_that_was_changed_after_it_ran_is_refused(database):
    first, *rest = migrations()
    changed = Migration(first.number, first.name, first.text + "\n-- and one more word")

    with pytest.raises(SharedError, match="not the one that the shared PostgreSQL has had"):
        await run_files(database, files=(changed, *rest))


async def test_another_dimension_is_refused_by_a_sentence_that_names_both(database):
    with pytest.raises(SharedError, match=r"have 8 numbers, and shared.dimension is 512") as caught:
        await run_files(database, {"": EmbeddingModel(MODEL.name, 512)})
    assert caught.value.reason == "dimension"


async def test_the_extension_may_be_in_any_schema(empty_database, tmp_path):
    empty_database.sql('CREATE SCHEMA "My extensions"')
    empty_database.sql('CREATE EXTENSION vector SCHEMA "My extensions"')
    await run_files(empty_database)
    async with running(empty_database, tmp_path) as shared:
        await shared.put([row(Scope.ORG, "", "one")])
        found = await shared.recall({Scope.ORG: ""}, vector(1), deadline=soon())
    assert ids(found[Scope.ORG]) == ["one"]
    async with await connect(empty_database.settings()) as connection:
        found = await examine(connection, empty_database.settings())
    assert [each for each in found if each.level == "fail"] == []


@pytest.fixture
def mallory(database):
    """Grant a role its own rows; return its name."""
    name = f"mallory_of_{database.name}"
    database.sql(f"CREATE ROLE {name} LOGIN")

    async def granted() -> None:
        async with await connect(database.settings()) as owner:
            await grant(owner, name, [RowOwner(Scope.USER, "mallory")])

    asyncio.run(granted())
    return name


READABLE = (
    "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'forged'::regnamespace"
    " AND relkind IN ('r', 'p') AND has_table_privilege(%s, oid, 'SELECT')"
)
TAKES = {
    "advisory": "SELECT pg_advisory_lock(112589977085284)",  # "forged" as a number
    "tables": "LOCK TABLE {} IN ACCESS SHARE MODE",
}


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
def test_no_lock_of_another_role_delays_a_migration(take, mallory, database):
    """Whatever a role of the team holds, a migration that adds a table does not wait for it."""
    files = (*migrations(), Migration(9, "later", "CREATE TABLE forged.later (id text PRIMARY KEY)"))
    with psycopg.connect(database.server.url(mallory, database.name)) as held:
        for (name,) in database.sql(READABLE, [mallory]):
            held.execute(take.format(name))
        steps = asyncio.run(asyncio.wait_for(run_files(database, files=files), PATIENCE_S))
    assert len(steps) == 1


async def test_a_table_that_is_read_for_long_stops_the_migration_by_name(database, monkeypatch):
    monkeypatch.setattr("forged.postgres.migrating._LOCK_TIMEOUT", "50ms")
    files = (*migrations(), Migration(9, "later", "ALTER TABLE forged.user_memories ADD COLUMN later text"))
    with psycopg.connect(database.url) as held:
        held.execute("SELECT count(*) FROM forged.user_memories")
        with pytest.raises(SharedError, match="a lock is held there by another program"):
            await run_files(database, files=files)
    assert len(await run_files(database, files=files)) == 1


@pytest.mark.parametrize("mode", ["ROW EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE"])
def test_a_role_of_the_team_cannot_hold_the_lock_of_a_migration(mode, mallory, database):
    with (
        psycopg.connect(database.server.url(mallory, database.name)) as held,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        held.execute(f"LOCK TABLE forged.migrations IN {mode} MODE".encode())
