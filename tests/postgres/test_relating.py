"""What shared memories speak of: two steps from a name by one query, within one owner, and gone with them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from forged.memory import Entity, Relation, Scope
from forged.postgres import Shared
from tests.postgres.rows import row, running, soon
from tests.support.postgres import Database


@pytest.fixture
def shared(database: Database, tmp_path: Path) -> AbstractAsyncContextManager[Shared]:
    return running(database, tmp_path)


def related(name: str, *relations: tuple[str, str, str], scope: Scope = Scope.ORG, owner: str = "", **fields):
    """A memory that says these relations."""
    ends = dict.fromkeys(end for source, _, target in relations for end in (source, target))
    return row(
        scope,
        owner,
        name,
        content=f"text of {name}",
        entities=tuple(Entity(end) for end in ends),
        relations=tuple(Relation(*each) for each in relations),
        **fields,
    )


async def found(shared: Shared, *names: str, scope: Scope = Scope.ORG, owner: str = "") -> dict[str, tuple]:
    reached = await shared.reached(scope, owner, names, soon())
    return {each.memory_id.removeprefix("mem_"): (each.depth, each.path) for each in reached}


async def test_a_memory_is_reached_over_a_thing_that_it_shares_with_another(shared: Shared):
    await shared.put(
        [
            related("first", ("Atlas", "depends-on", "Hermes")),
            related("second", ("Hermes", "obeys", "Privacy Policy")),
            related("third", ("Privacy Policy", "cites", "GDPR")),
            related("fourth", ("GDPR", "cites", "Charter")),
        ]
    )

    reached = await found(shared, "Atlas")

    assert reached == {
        "first": (0, ("Atlas",)),
        "second": (1, ("Atlas", "depends-on", "Hermes")),
        "third": (2, ("Atlas", "depends-on", "Hermes", "obeys", "Privacy Policy")),
    }


async def test_relations_are_followed_from_both_ends_and_circles_end(shared: Shared):
    circle = [("Atlas", "calls", "Hermes"), ("Hermes", "calls", "Zeus"), ("Zeus", "calls", "Atlas")]
    await shared.put([related(f"{n}", each) for n, each in enumerate(circle)])

    reached = await found(shared, "Hermes")

    assert sorted(reached) == ["0", "1", "2"]
    assert reached["2"] == (1, ("Hermes", "< calls", "Atlas"))


async def test_nothing_leads_from_one_owner_to_another(shared: Shared):
    await shared.put(
        [
            related("mine", ("Atlas", "depends-on", "Hermes"), scope=Scope.USER, owner="ada"),
            related("his", ("Hermes", "depends-on", "Zeus"), scope=Scope.USER, owner="bob"),
            related("all", ("Hermes", "depends-on", "Hades")),
        ]
    )

    assert list(await found(shared, "Atlas", scope=Scope.USER, owner="ada")) == ["mine"]
    assert list(await found(shared, "Zeus", scope=Scope.USER, owner="bob")) == ["his"]


async def test_what_only_forgotten_memories_spoke_of_is_gone(database: Database, shared: Shared):
    await shared.put([related("a", ("Atlas", "calls", "Hermes")), related("b", ("Hermes", "calls", "Zeus"))])
    await shared.remove(Scope.ORG, "", ["mem_a"])

    assert await found(shared, "Atlas") == {}
    assert sorted(database.sql("SELECT name FROM forged.entities")) == [("Hermes",), ("Zeus",)]
    assert database.sql("SELECT source_id, target_id FROM forged.relationships") == [("hermes", "zeus")]


async def test_what_a_newer_version_replaces_leads_nowhere_until_it_is_a_head_again(shared: Shared):
    mine = {"scope": Scope.USER, "owner": "ada"}
    old = row(Scope.USER, "ada", "v1", content="`atlas.py` needs `hermes.py`")
    new = row(Scope.USER, "ada", "v2", content="`atlas.py` needs `zeus.py`", supersedes="mem_v1", version=2)
    await shared.put([new])
    await shared.put([old])
    assert list(await found(shared, "atlas.py", **mine)) == ["v2"]
    assert await found(shared, "hermes.py", **mine) == {}

    await shared.remove(Scope.USER, "ada", ["mem_v2"], kind="version")
    assert list(await found(shared, "hermes.py", **mine)) == ["v1"]


async def test_a_thing_of_which_all_speak_keeps_nobody_waiting(shared: Shared):
    rows = [related(f"{n:03}", (f"Service {n}", "depends-on", "Hub")) for n in range(300)]
    await shared.put(rows)

    reached = await found(shared, "Hub")

    assert len(reached) == 100
