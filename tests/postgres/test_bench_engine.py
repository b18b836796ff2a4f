"""The bench measures the engine on right answers, and its server ends with it."""

from __future__ import annotations

import commits
import engine_filters
import engine_inside
import engine_tables
import msgspec
import numpy as np
import pytest
import stores
import vectors
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


def test_a_granted_role_has_a_hit_for_each_piece_that_an_exact_search_finds(empty_database):
    rows = vectors.clustered(6_000, stores.DIMENSION)
    stored = engine_filters.pieces(rows, ["a text"])
    tables = engine_tables.Engine(empty_database.url)
    with tables.connection:
        tables.load([stored], vacuumed=False)
        reader = engine_filters.granted(tables, empty_database.settings(engine_filters.ROLE).url)
        with reader.connection:
            hits = {name: hits for name, hits, *_ in engine_filters.measured(reader, stored, rows[:3])}

    assert hits == dict.fromkeys(("10 rows", "1 %", "4,900", "5,100", "half", "side"), 15)


def test_a_piece_that_is_not_nearest_or_does_not_pass_is_no_hit():
    rows = vectors.clustered(6_000, stores.DIMENSION)
    stored = engine_filters.pieces(rows, ["a text"])
    half = next(each for each in stored.filters if each.name == "half")
    order = np.argsort(1 - rows @ rows[0])
    passing, others = order[half.passing[order]], order[~half.passing[order]]

    def hits(numbers) -> int:
        return stored.hits(half, rows[0], [stored.id(int(number)) for number in numbers])

    assert hits(passing[:5]) == 5
    assert hits([*passing[:3], *passing[-2:]]) == 3
    assert hits([*passing[:4], others[0]]) == 4


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
