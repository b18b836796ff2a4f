"""The four searches on a real server: limits, filters, order, expiry, heads, partitions."""

from __future__ import annotations

import re
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from forged.memory import Scope
from forged.postgres import SharedServer
from forged.postgres import shared as searches
from forged.postgres.shared import RowQuery
from forged.postgres.values import EmbeddingModel
from tests.postgres.rows import NOW, Clock, at_angle, ids, row, running, soon, vector
from tests.support.postgres import Database, migrated

OWNERS = {Scope.SESSION: "s1", Scope.USER: "ada", Scope.AGENT: "coder", Scope.ORG: ""}


@pytest.fixture
def shared(database: Database, tmp_path: Path) -> AbstractAsyncContextManager[SharedServer]:
    return running(database, tmp_path)


async def test_no_one_finds_what_is_of_another(shared: SharedServer):
    others = {Scope.SESSION: "s2", Scope.USER: "bob", Scope.AGENT: "critic"}
    await shared.put([row(scope, owner, f"{scope}") for scope, owner in others.items()])
    await shared.put([row(Scope.ORG, "", "for-all")])

    found = await shared.recall(OWNERS, vector(1), deadline=soon())

    assert {str(scope): ids(rows) for scope, rows in found.items()} == {
        "session": [],
        "user": [],
        "agent": [],
        "org": ["for-all"],
    }


async def test_the_cosine_distance_decides_and_of_equals_the_id(shared: SharedServer):
    known = {"far": 0.1, "near": 0.9, "b-same": 0.5, "a-same": 0.5}
    await shared.put([row(Scope.ORG, "", name, vector=at_angle(cosine)) for name, cosine in known.items()])

    found = (await shared.recall({Scope.ORG: ""}, vector(1), deadline=soon()))[Scope.ORG]

    assert ids(found) == ["near", "a-same", "b-same", "far"]
    assert [each.distance for each in found] == pytest.approx([0.1, 0.5, 0.5, 0.9], abs=1e-6)


async def test_rows_of_a_session_that_are_over_are_not_found_though_they_are_still_there(
    database: Database, tmp_path: Path
):
    clock = Clock()
    async with running(database, tmp_path, clock=clock) as shared:
        await shared.put([row(Scope.SESSION, "s1", "turn")])
        found = []
        for minutes in (59, 61):
            clock.now = NOW + timedelta(minutes=minutes)
            found.append(ids((await shared.recall(OWNERS, vector(1), deadline=soon()))[Scope.SESSION]))

        assert found == [["turn"], []]
        assert database.sql("SELECT count(*) FROM forged.session_memories") == [(1,)]
        assert await shared.sweep() == 1
        assert database.sql("SELECT count(*) FROM forged.session_memories") == [(0,)]


async def test_the_best_are_chosen_among_what_the_filter_lets_through(shared: SharedServer):
    near = [row(Scope.ORG, "", f"near{n:02}", vector=at_angle(0.99)) for n in range(60)]
    metadata = {"topic": "debug", "level": 3, "tags": ["a"]}
    far = [row(Scope.ORG, "", f"far{n}", vector=at_angle(0.1), metadata=metadata) for n in range(5)]
    await shared.put([*near, *far])

    for filters, expected in (
        ({"topic": "debug"}, 5),
        ({"topic": "debug", "level": 3}, 5),
        ({"tags": ["a"]}, 5),
        ({"tags": []}, 0),
        ({"tags": "a"}, 0),
        ({"level": "3"}, 0),
        ({"topic": "debug", "other": 1}, 0),
    ):
        found = await shared.recall({Scope.ORG: ""}, vector(1), filters, deadline=soon())
        assert len(found[Scope.ORG]) == expected, filters


async def test_of_versions_only_the_heads_are_found_in_whatever_order_they_were_written(shared: SharedServer):
    versions = [
        row(Scope.USER, "ada", "v3", version=3, supersedes="mem_v2"),
        row(Scope.USER, "ada", "v1"),
        row(Scope.USER, "ada", "v2", version=2, supersedes="mem_v1"),
        row(Scope.USER, "ada", "fork", version=3, supersedes="mem_v2"),
    ]
    for each in versions:
        await shared.put([each])
    assert ids((await shared.recall(OWNERS, vector(1), deadline=soon()))[Scope.USER]) == ["fork", "v3"]

    await shared.remove(Scope.USER, "ada", ["mem_v3", "mem_fork"], kind="version")

    assert ids((await shared.recall(OWNERS, vector(1), deadline=soon()))[Scope.USER]) == ["v2"]


@pytest.mark.parametrize("filters", [{}, {"topic": "debug", "tags": ["a"]}], ids=["plain", "filtered"])
@pytest.mark.parametrize("scope", [Scope.SESSION, Scope.USER, Scope.AGENT])
async def test_one_recall_touches_one_partition(database: Database, scope: Scope, filters: dict[str, object]):
    wanted = RowQuery(vector=vector(1), limits={scope: 5}, now=NOW, filters=filters)
    values = searches.values(OWNERS[scope], wanted, scope) | {"vector": str(vector(1).tolist())}
    text = searches.statement(scope, wanted).replace("%(vector)s", "%(vector)s::vector")

    plan = "\n".join(line for (line,) in database.sql(f"EXPLAIN {text}", values))

    assert len(set(re.findall(rf" on ({scope}_memories_\d+)", plan))) == 1, plan


async def test_a_piece_has_a_vector_of_as_many_numbers_as_an_index_takes(
    empty_database: Database, tmp_path: Path
):
    """It does not fit on the page of its row."""
    model = EmbeddingModel("long", 4_000)
    await migrated(empty_database, model)
    near, far = np.zeros((2, 4_000), np.float32)
    near[:2000], far[2000:] = 1, 1
    async with running(empty_database, tmp_path, model=model) as shared:
        await shared.put(
            [
                row(Scope.ORG, "", name, vector=each, metadata={"topic": "debug"})
                for name, each in (("near", near), ("far", far))
            ]
        )
        for filters in ({}, {"topic": "debug"}):
            found = await shared.recall({Scope.ORG: ""}, near, filters, deadline=soon())
            assert ids(found[Scope.ORG]) == ["near", "far"]
