"""A recall over a real server and the files and sessions of this machine."""

from __future__ import annotations

import msgspec

from forged.config import Config
from forged.config.values import SharedConfig
from forged.files import render
from forged.memory import EntityRelation, Scope
from forged_client import protocol as wire
from tests.daemon.parts import Parts, assembled
from tests.data.memories import memory, put
from tests.postgres.rows import row, running
from tests.support.provider import FakeEmbedder, vector

CONFIG = Config(shared=SharedConfig(url="set by the test", user_id="ada"))


async def recalled(parts: Parts, query: str = "q", **fields: object) -> wire.Recalled:
    reply = await parts.ask(wire.Recall(query=query, **fields))
    assert isinstance(reply, wire.Recalled)
    return reply


def embedded(scope: Scope, owner: str, name: str, **fields: object):
    content = str(fields.pop("content", f"{name} of {owner}"))
    return row(scope, owner, name, content=content, vector=vector(content), **fields)


async def test_rows_of_the_server_stand_among_those_of_files_by_distance_and_none_twice(
    home, database, tmp_path
):
    put(home, memory("mem_here", "kept here", scope="user"))
    put(home, memory("mem_both", "both of ada", scope="user"))
    async with (
        running(database, tmp_path / "shared") as shared,
        assembled(home, FakeEmbedder(), CONFIG) as parts,
    ):
        parts.shares(shared)
        await parts.loaded(home)
        await shared.put(
            [
                embedded(Scope.ORG, "", "doc", source="guide.md", chunk_index=3),
                embedded(Scope.USER, "ada", "both"),
                embedded(Scope.USER, "ada", "there", memory_type="fact", metadata={"topic": "ice"}),
                embedded(Scope.USER, "bob", "other"),
                embedded(Scope.AGENT, "ada/claude", "mine"),
                embedded(Scope.AGENT, "ada/codex", "theirs"),
                embedded(Scope.AGENT, "bob/claude", "of_bob"),
                embedded(Scope.USER, "ada", "faint", importance=0.49),
            ]
        )
        reply = await recalled(parts, agent_id="claude")
        filtered = await recalled(parts, filters={"topic": "ice"})

    names = [each.id.removeprefix("mem_") for each in reply.memories]
    assert set(names) == {"here", "both", "doc", "there", "mine"}
    distances = [each.found.distance for each in reply.memories]
    assert distances == sorted(distances)
    roots = {each.id: each.root for each in reply.memories}
    assert (roots["mem_both"], roots["mem_there"]) == (str(home), "shared")
    (doc,) = [each for each in reply.memories if each.id == "mem_doc"]
    assert (doc.scope, doc.source, doc.document_id, doc.chunk_index) == ("org", "guide.md", "doc_1", 3)
    (there,) = filtered.memories
    assert (there.id, there.memory_type, there.metadata) == ("mem_there", "fact", {"topic": "ice"})
    assert "there of ada" in filtered.text
    assert reply.degraded == ()


async def test_a_server_that_is_gone_is_named_and_files_answer_in_time(home, database, tmp_path):
    put(home, memory("mem_here", "kept here", scope="user"))
    gone = msgspec.structs.replace(database, server=database.server, name="never_made")
    async with (
        running(gone, tmp_path / "shared") as shared,
        assembled(home, FakeEmbedder(), CONFIG) as parts,
    ):
        parts.shares(shared)
        await parts.loaded(home)
        reply = await recalled(parts, timeout_s=1.0)

    assert [each.id for each in reply.memories] == ["mem_here"]
    assert [each.split()[0] for each in reply.degraded] == ["shared"]


async def test_a_secret_in_a_row_that_someone_else_wrote_is_not_shown(home, database, tmp_path):
    key = "AKIA" + "IOSFODNN7EXAMPLA"
    async with (
        running(database, tmp_path / "shared") as shared,
        assembled(home, FakeEmbedder(), CONFIG) as parts,
    ):
        parts.shares(shared)
        await shared.put([embedded(Scope.ORG, "", "doc", content="a harmless text")])
        database.sql("UPDATE forged.organizational_memories SET content = %s", (f"the key is {key}",))
        reply = await recalled(parts)

    assert len(reply.memories) == 1
    assert key not in reply.text
    assert key not in reply.memories[0].content


async def test_a_row_to_which_only_a_thing_leads_comes_with_the_path_and_is_counted(home, database, tmp_path):
    """Of many that are as near, none shares a word with what the query leads to."""
    path = memory("mem_rule", "Closed books stay readable.", scope="user")
    path = msgspec.structs.replace(path, relations=(EntityRelation("ledger", "falls-under", "Policy 7"),))
    crowd = [embedded(Scope.USER, "ada", f"x{n}", content=f"walrus {n}") for n in range(30)]
    async with (
        running(database, tmp_path / "shared") as shared,
        assembled(home, FakeEmbedder(), CONFIG) as parts,
    ):
        parts.shares(shared)
        await shared.put(
            [
                *crowd,
                embedded(Scope.USER, "ada", "stores", content="Invoices of `apollo` are in `ledger`."),
                embedded(Scope.USER, "ada", "rule", content=path.content, file=render(path)),
                embedded(Scope.USER, "bob", "other", content="`apollo` is in `vault`."),
            ]
        )
        reply = await recalled(parts, "What has apollo to do with Policy 7?")
        await shared.send_counts()

    found = {each.id: each for each in reply.memories}
    assert {"mem_stores", "mem_rule"} <= found.keys()
    assert "mem_other" not in found
    assert found["mem_stores"].found.path
    assert found["mem_rule"].root == "shared"
    counted = database.sql("SELECT access_count FROM forged.user_memories WHERE id = 'mem_rule'")
    assert counted == [(1,)]
