"""Searches with a filter in tables of many rows, by a granted role, against a search of all rows by numpy.

Row level security hides from the planner how many rows pass a filter, so the statement itself must find out.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import psycopg
import pytest
from pgvector.psycopg import register_vector

from forged.memory import Scope
from forged.postgres import RowOwner, Stored, grant
from forged.postgres import shared as searches
from forged.postgres.connecting import configure_connection, connect
from forged.postgres.schema import table
from forged.postgres.shared import RowQuery
from forged.postgres.tables import TABLES
from forged.stores import matches_filters
from tests.postgres.rows import DIMENSION, NOW, row, text, vector
from tests.support.postgres import Database, make_database

OWNERS = {Scope.SESSION: "s1", Scope.USER: "ada", Scope.AGENT: "coder", Scope.ORG: ""}
# More rows of the user and of documents than are ever compared, and few of an agent and a session.
COUNTS = {Scope.SESSION: 300, Scope.USER: 12_000, Scope.AGENT: 700, Scope.ORG: 50_000}
MOST = 5
LATER = text(NOW.replace(year=NOW.year + 1))
VALUES = ("red", "blue", "", 1, 2.5, -7, True, False, [], ["a"], ["a", 2], {"in": {"a": 1}}, {})


class Crowd(msgspec.Struct, frozen=True, eq=False):
    """A database with many rows, a role that was granted its owners, and the rows of each scope."""

    database: Database
    role: str
    rows: Mapping[Scope, Sequence[Stored]]
    vectors: Mapping[Scope, np.ndarray[Any, np.dtype[np.float32]]]

    def passing(self, scope: Scope, wanted: RowQuery) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.array(
            [matches_filters(each.facts, wanted.filters, wanted.least) for each in self.rows[scope]]
        )

    def found(self, scope: Scope, wanted: Sequence[RowQuery], role: str = "") -> list[list[Stored]]:
        """Return the rows that each recall finds, as the granted role."""

        async def asked() -> list[list[Stored]]:
            async with await connect(self.database.settings(role or self.role)) as connection:
                await configure_connection(connection)
                owners = {scope: OWNERS[scope]}
                return [(await searches.recall(connection, owners, each))[scope] for each in wanted]

        return asyncio.run(asked())

    def check_exact(self, scope: Scope, wanted: Sequence[RowQuery], role: str = "") -> int:
        """Check that recalls with one filter find the nearest rows that pass; return how many pass."""
        passing = self.passing(scope, wanted[0])
        for each, found in zip(wanted, self.found(scope, wanted, role), strict=True):
            distances = 1 - self.vectors[scope] @ each.vector
            nearest = np.sort(distances[passing])[: each.limits[scope]]
            numbers = [int(one.id.rpartition("_")[2]) for one in found]
            assert len(set(numbers)) == len(found) == len(nearest), each.filters
            assert passing[numbers].all(), each.filters
            assert [one.distance for one in found] == pytest.approx(nearest.tolist(), abs=1e-5), each.filters
            assert distances[numbers] == pytest.approx(nearest, abs=1e-5)
        return int(passing.sum())


@pytest.fixture(scope="module")
def crowd(server, template) -> Crowd:
    """Return a database that is not analysed, with its graphs built after the rows."""
    database = make_database(server, "forged_crowd", template)
    source = np.random.default_rng(7)
    chosen = random.Random(7)
    vectors, rows = {}, {}
    for scope, count in COUNTS.items():
        vectors[scope] = source.standard_normal((count, DIMENSION), dtype=np.float32)
        vectors[scope] /= np.linalg.norm(vectors[scope], axis=1, keepdims=True)
        order = source.permutation(count)
        rows[scope] = [
            made(scope, number, int(order[number]), vectors[scope][number], chosen) for number in range(count)
        ]
    others = [
        row(Scope.USER, "bob", f"bob_{number}", vector=vector(1), metadata={"lang": "en"})
        for number in range(99)
    ]
    load(database, [*rows[Scope.USER], *others, *rows[Scope.SESSION], *rows[Scope.AGENT], *rows[Scope.ORG]])
    database.sql("CREATE ROLE crowded LOGIN")

    async def granted() -> None:
        async with await connect(database.settings()) as connection:
            await grant(connection, "crowded", [RowOwner(Scope.USER, "ada"), RowOwner(Scope.AGENT, "coder")])

    asyncio.run(granted())
    return Crowd(database, "crowded", rows, vectors)


def made(scope: Scope, number: int, place: int, near: np.ndarray, chosen: random.Random) -> Stored:
    """Return a row; its `place` of all decides on most of its metadata, so that numbers of rows are known."""
    metadata: dict[str, Any] = {
        "part": "ten" if place < 10 else "many",
        "hundredth": place % 100,
        "border": place < 5_000,
        "begin": number < 5_000,
        "lang": "en" if place % 10 else "de",
        "side": 1 if near[0] > 0.3 else -1,
        "any": chosen.choice(VALUES),
        "other": chosen.choice(VALUES),
    }
    fields = {"expires_at": LATER} if scope == Scope.SESSION else {}
    importance = 1.0 if scope == Scope.ORG else round(chosen.random(), 1)
    # So long that few rows share a page, as rows with long vectors do.
    content = chosen.randbytes(450).hex()
    facts = {"user_id": "ada"} if scope == Scope.SESSION else {}
    return row(
        scope,
        OWNERS[scope],
        f"{scope}_{number}",
        vector=near,
        metadata=metadata,
        importance=importance,
        content=content,
        **fields,
        **facts,
    )


def load(database: Database, rows: Sequence[Stored]) -> None:
    """Copy rows into tables without graphs, and build these."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        register_vector(connection)
        graphs = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'forged'"
            " AND indexdef LIKE '%hnsw%' AND NOT indexname ~ '_[0-9]+_'"
        ).fetchall()
        for name, _ in graphs:
            connection.execute(f"DROP INDEX forged.{name}")
        for scope in Scope:
            if scope in COUNTS:
                copy(connection, scope, [each for each in rows if each.scope == scope])
        for _, definition in graphs:
            connection.execute(definition.replace(" ON ONLY ", " ON "))


def copy(connection: psycopg.Connection, scope: Scope, rows: Sequence[Stored]) -> None:
    here = TABLES[scope]
    columns = (*here.columns, *(("written_by",) if scope == Scope.SESSION else ()))
    into = f"COPY {table(scope)} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor().copy(into) as copying:
        copying.set_types([here.type_of(column) for column in columns])
        for each in rows:
            extra = ("crowded",) if scope == Scope.SESSION else ()
            copying.write_row((*here.values(each).values(), *extra))


def query(scope: Scope, near: Any, filters: Mapping[str, Any], **more: Any) -> RowQuery:
    return RowQuery(**{"vector": near, "limits": {scope: MOST}, "now": NOW, "filters": filters} | more)


def questions(count: int, seed: int = 3) -> Iterator[np.ndarray[Any, np.dtype[np.float32]]]:
    source = np.random.default_rng(seed)
    for _ in range(count):
        near = source.standard_normal(DIMENSION).astype(np.float32)
        yield near / np.linalg.norm(near)


@pytest.mark.parametrize("scope", COUNTS)
def test_of_few_rows_that_pass_any_filter_none_is_missed(crowd: Crowd, scope: Scope):
    """Filters of one and two keys, with all kinds of values, and of rows with a minimum importance."""
    chosen = random.Random(11)
    for _ in range(30):
        keys = chosen.sample(["any", "other"], chosen.choice((1, 2)))
        filters = {key: chosen.choice(VALUES) for key in keys}
        least = 0.0 if scope == Scope.ORG else chosen.choice((0.0, 0.5, 0.95))
        limits = {scope: chosen.choice((1, 5, 12))}
        crowd.check_exact(
            scope, [query(scope, near, filters, least=least, limits=limits) for near in questions(3)]
        )


FILTERS = (
    ({"part": "ten"}, 10),
    ({"hundredth": 7}, 500),
    ({"border": True}, 5_000),
    ({"begin": True}, 5_000),
    ({"border": True, "lang": "de"}, 500),
)


@pytest.mark.parametrize("role", ["", "postgres"], ids=["granted", "administrator"])
def test_up_to_five_thousand_pieces_are_all_compared(crowd: Crowd, role: str):
    for state in ("", "ANALYZE", "VACUUM ANALYZE"):
        if state:
            crowd.database.sql(f"{state} {table(Scope.ORG)}")
        for filters, passing in FILTERS:
            wanted = [query(Scope.ORG, near, filters) for near in questions(12)]
            assert crowd.check_exact(Scope.ORG, wanted, role) == passing


@pytest.mark.parametrize("scope", [Scope.USER, Scope.ORG])
def test_of_many_rows_that_pass_the_graph_finds_nearly_all(crowd: Crowd, scope: Scope):
    wanted = [query(scope, near, {"lang": "en"}) for near in questions(24)]
    passing, hits = crowd.passing(scope, wanted[0]), 0
    for each, found in zip(wanted, crowd.found(scope, wanted), strict=True):
        nearest = np.sort((1 - crowd.vectors[scope] @ each.vector)[passing])[MOST - 1]
        assert len(found) == MOST
        assert all(one.facts.metadata["lang"] == "en" for one in found)
        hits += sum(one.distance <= nearest + 1e-5 for one in found if one.distance is not None)

    assert passing.sum() > 10_000
    assert hits >= 0.95 * 24 * MOST


def test_many_rows_that_pass_are_compared_if_none_of_them_is_near(crowd: Crowd):
    """Most pieces pass, and the others are nearer: the graph would give all of those first."""
    away = [query(Scope.ORG, vector(1, side), {"side": -1}) for side in (0.0, 0.1)]

    assert crowd.check_exact(Scope.ORG, away) > 10_000


def test_rows_that_pass_a_filter_come_with_their_vectors(crowd: Crowd):
    for filters in ({"part": "ten"}, {"lang": "en"}):
        wanted = query(Scope.ORG, vector(1), filters, vectors=True)
        (found,) = crowd.found(Scope.ORG, [wanted])

        assert [1 - each.vector[0] for each in found] == pytest.approx(
            [each.distance for each in found], abs=1e-5
        )


def plan(crowd: Crowd, filters: Mapping[str, Any]) -> dict[str, float]:
    """Return how often each index and the sample were used by a search of pieces, as the granted role."""
    wanted = query(Scope.ORG, next(questions(1)), filters)
    sql, given = searches.statement(Scope.ORG, wanted), searches.values("", wanted, Scope.ORG)

    async def explained() -> Any:
        async with await connect(crowd.database.settings(crowd.role)) as connection:
            await configure_connection(connection)
            cursor = await connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", given)
            return await cursor.fetchall()

    ((found,),) = asyncio.run(explained())
    used: dict[str, float] = {}
    for node in nodes((json.loads(found) if isinstance(found, str) else found)[0]["Plan"]):
        name = node.get("Index Name") or ("sample" if node["Node Type"] == "Tid Scan" else "")
        if name:
            used[name] = used.get(name, 0) + node["Actual Loops"]
    return used


def nodes(top: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield top
    for each in top.get("Plans", ()):
        yield from nodes(each)


def test_a_filter_that_few_pass_uses_its_index_and_the_graph_is_not_begun(crowd: Crowd):
    used = plan(crowd, {"hundredth": 7})

    assert used == {
        "sample": 1,
        "organizational_memories_metadata": 1,
        "organizational_memories_near": 0,
        "organizational_memories_pkey": MOST,
    }


def test_a_filter_that_many_pass_uses_the_graph_alone(crowd: Crowd):
    used = plan(crowd, {"lang": "en"})

    assert used == {
        "sample": 1,
        "organizational_memories_metadata": 0,
        "organizational_memories_near": 1,
        "organizational_memories_pkey": MOST,
    }
