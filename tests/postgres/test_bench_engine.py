"""The bench measures the engine on right answers, and its server ends with it."""

from __future__ import annotations

import commits
import engine_inside
import engine_tables
import msgspec
import pytest
import stores
from processes import Broken

from forged_client import protocol
from tests.support.clock import eventually
from tests.support.daemon.processes import processes_with

DRIVER = "engine_inside.py"


@pytest.fixture(params=[engine_tables.Engine, engine_tables.Plain])
def tables(request, empty_database):
    tables = request.param(empty_database.url)
    with tables.connection:
        yield tables


def test_tables_that_are_loaded_give_the_nearest_rows_of_each_owner_and_of_a_rare_mark(tables):
    store = stores.store(2_000, asked=4)

    loaded = tables.load(store.parts)

    assert min(loaded.row_bytes, loaded.graph_bytes) > 0
    assert engine_inside.wrong_of_four(tables, store) == []
    marked = [set(tables.of_organization(asked.vector, 10, stores.RARE_FILTER)) for asked in store.asked]
    assert marked == engine_inside.marked(store)
    assert engine_inside.share_found(tables, store.parts[-1].vectors, store.parts[-1].vectors[:20]) > 0.95


def test_a_row_that_is_not_found_is_seen(empty_database):
    store = stores.store(2_000, asked=4)
    tables = engine_tables.Engine(empty_database.url)
    with tables.connection as connection:
        tables.load(store.parts)
        nearest = store.parts[1].nearest_of(store.asked[0].owners["user"], store.asked[0].vector, 1)
        connection.execute("DELETE FROM forged.user_memories WHERE id = ANY(%s)", (nearest,))

        assert "user" in engine_inside.wrong_of_four(tables, store)[0]


@pytest.mark.long
@pytest.mark.parametrize(
    "words", [("four", 1_000, "engine"), ("recalls", 1_000, "daemon")], ids=lambda words: words[0]
)
def test_a_case_is_asked_round_by_round_and_what_it_runs_ends_with_it(words):
    before = set(_running())

    with commits.this().inside(*words, driver=DRIVER) as running:
        assert 0 < running.figure() < 1
        assert set(_running()) - before

    eventually(lambda: set(_running()) <= before)


def _running() -> list[int]:
    return [*processes_with("/pg/data"), *processes_with("stub_daemon.py")]


@pytest.mark.parametrize("lacking", [{"degraded": ("shared failed",)}, {"memories": ()}], ids=str)
def test_a_recall_that_the_server_did_not_answer_is_not_timed(lacking):
    row = protocol.MemoryRecord(
        id="mem_a",
        scope="org",
        category="",
        version=1,
        content="a",
        created_at="",
        root="shared",
    )
    whole = protocol.Recalled(memories=(row,) * 10)

    assert engine_inside.lacks(whole) == ""
    assert "rows of the server came" in engine_inside.lacks(msgspec.structs.replace(whole, **lacking))


def test_a_case_that_there_is_none_of_is_broken():
    with pytest.raises(Broken, match="no case nonsense"), commits.this().inside("nonsense", driver=DRIVER):
        pass
