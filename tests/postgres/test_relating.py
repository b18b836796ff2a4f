"""Entities of shared memories: two links from a name by one query, within one owner."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from forged.errors import ProviderError
from forged.files import render
from forged.memory import Entity, EntityRelation, Scope
from forged.models import EgressGuard
from forged.postgres import RowOwner, SharedServer, Stored, grant
from forged.postgres.relating import EntityTables
from tests.data.memories import memory
from tests.entities.whole_names import QUESTIONS, SENTENCES
from tests.postgres.rows import row, running, soon
from tests.support.postgres import Database

Told = tuple[str, str, str]


@pytest.fixture
def shared(database: Database, tmp_path: Path) -> AbstractAsyncContextManager[SharedServer]:
    return running(database, tmp_path)


def related(name: str, *relations: Told, owner: str = "ada", **fields: object) -> Stored:
    """A user's memory whose file says these relations."""
    ends = dict.fromkeys(end for source, _, target in relations for end in (source, target))
    reported = replace(
        memory(f"mem_{name}", f"text of {name}", scope="user"),
        entities=tuple(Entity(end) for end in ends),
        relations=tuple(EntityRelation(*each) for each in relations),
    )
    return row(Scope.USER, owner, name, content=reported.content, file=render(reported), **fields)


def piece(name: str, content: str) -> Stored:
    return row(Scope.ORG, "", name, content=content)


async def found(
    shared: SharedServer, query: str, scope: Scope = Scope.USER, owner: str = "ada", **fields: object
) -> dict[str, tuple[int, str]]:
    reached = await shared.reached({scope: owner}, query, deadline=soon(), **fields)
    return {each.row.id.removeprefix("mem_"): (each.hops, each.path) for each in reached}


async def test_two_steps_lead_to_rows_that_share_no_word_with_the_query_and_a_third_to_none(
    shared: SharedServer,
):
    await shared.put(
        [
            related("first", ("Atlas", "depends-on", "Hermes")),
            related("second", ("Hermes", "obeys", "Privacy Policy")),
            related("third", ("Privacy Policy", "cites", "GDPR")),
            related("fourth", ("GDPR", "cites", "Charter")),
        ]
    )
    reached = await found(shared, "What does Atlas have to do with it?")
    runs = await found(shared, "our privacy policy")

    assert reached == {
        "first": (0, "Atlas"),
        "second": (1, "Atlas depends-on Hermes"),
        "third": (2, "Atlas depends-on Hermes; Hermes obeys Privacy Policy"),
    }
    assert runs["third"] == (0, "Privacy Policy")


async def test_pieces_of_documents_are_joined_by_what_rules_find_in_their_text(shared: SharedServer):
    await shared.put([piece("a", "`apollo` writes to `ledger`."), piece("b", "See `ledger` and `vault`.")])
    reached = await found(shared, "apollo", Scope.ORG, "")

    assert list(reached) == ["a", "b"]
    assert reached["b"][0] == 1


async def test_nothing_leads_from_one_owner_to_another(shared: SharedServer):
    await shared.put(
        [
            related("mine", ("Atlas", "depends-on", "Hermes")),
            related("his", ("Hermes", "depends-on", "Zeus"), owner="bob"),
            piece("all", "`Hermes` depends on `Hades`."),
        ]
    )
    assert list(await found(shared, "Atlas")) == ["mine"]
    assert list(await found(shared, "Zeus", owner="bob")) == ["his"]
    assert await found(shared, "Zeus") == {}


async def test_what_a_forgotten_memory_said_is_gone_though_others_speak_of_the_same_things(
    database: Database, shared: SharedServer
):
    await shared.put(
        [
            related("a", ("Atlas", "calls", "Hermes"), ("Atlas", "pays", "Zeus")),
            related("b", ("Hermes", "calls", "Hades")),
            related("c", ("Atlas", "reads", "Nyx")),
        ]
    )
    await shared.remove(Scope.USER, "ada", ["mem_a"])
    reached = await found(shared, "Atlas")

    assert reached == {"c": (0, "Atlas")}
    names = {name for (name,) in database.sql("SELECT name FROM forged.entities")}
    assert names == {"Atlas", "Hermes", "Hades", "Nyx"}
    said = database.sql("SELECT memory_id, relation_type FROM forged.relationships ORDER BY memory_id")
    assert said == [("mem_b", "calls"), ("mem_c", "reads")]


async def test_what_a_newer_version_replaces_leads_nowhere_until_it_is_a_head_again(shared: SharedServer):
    old = related("v1", ("Atlas", "needs", "Hermes"))
    new = related("v2", ("Atlas", "needs", "Zeus"), supersedes="mem_v1", version=2)
    await shared.put([new])
    await shared.put([old])
    assert list(await found(shared, "Atlas")) == ["v2"]
    assert await found(shared, "Hermes") == {}

    await shared.remove(Scope.USER, "ada", ["mem_v2"], kind="version")
    assert list(await found(shared, "Hermes")) == ["v1"]


async def test_filters_and_importance_hold_for_what_is_reached(shared: SharedServer):
    await shared.put(
        [
            related("plain", ("Atlas", "calls", "Hermes")),
            related("asked", ("Atlas", "calls", "Zeus"), metadata={"topic": "ice"}),
            related("faint", ("Atlas", "calls", "Nyx"), importance=0.2, metadata={"topic": "ice"}),
        ]
    )
    reached = await found(shared, "Atlas", filters={"topic": "ice"}, least=0.5)

    assert list(reached) == ["asked"]


async def test_a_role_is_led_over_its_own_things_alone(database: Database, shared: SharedServer):
    await shared.put([related("mine", ("Atlas", "calls", "Hermes"))])
    await shared.put(
        [related("his", ("Atlas", "calls", "Zeus"), owner="bob"), piece("all", "`atlas` counts.")]
    )
    role = "ada_who_relates"
    database.sql(f"CREATE ROLE {role} LOGIN")
    async with await connected(database, "postgres") as connection:
        await grant(connection, role, [RowOwner(Scope.USER, "ada")])
    async with await connected(database, role) as connection:
        by_owner = [
            await EntityTables(connection, scope, owner).reached(["atlas"])
            for scope, owner in ((Scope.USER, "ada"), (Scope.USER, "bob"), (Scope.ORG, ""))
        ]

    assert [[each.row.id for each in rows] for rows in by_owner] == [["mem_mine"], [], ["mem_all"]]


async def connected(database: Database, role: str) -> psycopg.AsyncConnection:
    return await psycopg.AsyncConnection.connect(database.server.url(role, database.name), autocommit=True)


async def test_two_who_write_documents_that_name_the_same_things_do_not_lock_each_other_out(
    database: Database, shared: SharedServer
):
    names = [f"`thing_{n}`" for n in range(12)]
    texts = [" and ".join(names[n % 5 :: 1 + n % 3]) for n in range(40)]
    await asyncio.gather(
        *(shared.put([piece(f"{n}_{again}", text)]) for again in range(2) for n, text in enumerate(texts)),
        *(shared.remove(Scope.ORG, "", [f"mem_{n}_0"]) for n in range(0, 40, 3)),
    )

    assert shared.condition().refused == ()
    dangling = """
        SELECT count(*) FROM forged.memory_entities AS l WHERE NOT EXISTS (
            SELECT FROM forged.entities AS e
            WHERE (e.owner, e.scope, e.id) = (l.owner, l.scope, l.entity_id))"""
    assert database.sql(dangling) == [(0,)]


async def test_what_a_query_names_leaves_as_all_texts_do(database: Database, tmp_path: Path):
    left, key = [], "AKIA" + "IOSFODNN7EXAMPLA"
    egress = EgressGuard(record=left.append)

    async def paused(_: tuple[str, ...]) -> str:
        return "paused"

    async with running(database, tmp_path, egress=egress) as shared:
        await shared.put([piece("a", "`apollo` writes to `ledger`.")])
        database.sql("UPDATE forged.entities SET id = %s WHERE id = 'ledger'", (key.casefold(),))
        left.clear()
        assert await found(shared, key, Scope.ORG, "") == {}, "a secret has left as a name"
        assert list(await found(shared, "apollo", Scope.ORG, "")) == ["a"]
        assert {(each.host, each.purpose) for each in left} == {(shared.host, "shared")}
        egress.configure(paused, lambda _: "", left.append, egress.metrics)
        with pytest.raises(ProviderError):
            await found(shared, "apollo", Scope.ORG, "")


async def test_a_wider_name_leads_to_each_version_as_long_as_a_memory_mentions_it(
    database: Database, shared: SharedServer
):
    await shared.put(
        [
            piece("old", "The till needs Java 17."),
            piece("new", "The shop needs Java 21."),
            piece("tls", "TLS 1.3 is on."),
        ]
    )
    assert set(await found(shared, "where is java?", Scope.ORG, "")) == {"old", "new"}
    assert set(await found(shared, "where is java 17?", Scope.ORG, "")) == {"old"}
    assert await found(shared, "where is java 11?", Scope.ORG, "") == {}

    await shared.remove(Scope.ORG, "", ["mem_old", "mem_tls"])
    assert set(await found(shared, "where is java?", Scope.ORG, "")) == {"new"}
    kept = database.sql("SELECT alias, entity_id FROM forged.entity_aliases")
    assert kept == [("java", "java 21")]


async def test_questions_are_answered_over_two_hops_by_the_right_one_of_two_similar_names(
    shared: SharedServer,
):
    await shared.put([piece(each.id, each.text) for each in SENTENCES])
    wrong = {
        each.text: missed
        for each in QUESTIONS
        if (missed := each.missed([*await found(shared, each.text, Scope.ORG, "")]))
    }

    assert wrong == {}
