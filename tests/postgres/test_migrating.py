from __future__ import annotations

import asyncio

import pytest

from forged.errors import SharedError
from forged.memory import Scope
from forged.postgres.connecting import connect
from forged.postgres.inspecting import examine
from forged.postgres.migrating import Migration, migrate, migrations
from forged.postgres.values import EmbeddingModel
from tests.postgres.rows import ids, row, running, soon, vector
from tests.support.postgres import MODEL


async def run_files(database, models=None, files=None):
    async with await connect(database.settings()) as connection:
        return await migrate(connection, models or {"": MODEL}, files)


async def test_two_who_migrate_at_once_do_it_once(empty_database):
    both = await asyncio.gather(run_files(empty_database), run_files(empty_database))

    assert sorted(map(len, both)) == [0, len(migrations())]


async def test_a_second_set_of_tables_has_its_own_dimension(database):
    await run_files(database, {"": MODEL, "cjk": EmbeddingModel("zh", 12)})

    vector = str([0.5] * 12)
    database.sql(
        "INSERT INTO forged.user_memories_cjk (user_id, id, agent_id, content, embedding)"
        " VALUES ('u', 'm', 'a', 'c', %s)",
        [vector],
    )
    assert database.sql("SELECT tableoid::regclass::text FROM forged.user_memories_cjk") != []


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
