"""`recall` over entities: a memory without common words is found over two links."""

from __future__ import annotations

from msgspec.structs import replace

from forged.entities import graph_of
from forged.files import agent_root, org_root
from forged.memory import Entity, EntityRelation
from forged.stores import recall
from forged_client import protocol as wire
from tests.daemon.handlers.test_recall import put_in
from tests.daemon.parts import Parts, assembled
from tests.data.memories import memory, put

QUERY = "How does Apollo relate to Policy 7?"
STORES = memory("mem_1", "Invoices of `apollo` are kept in `ledger`.", scope="user")
RULED = replace(
    memory("mem_2", "Closed books stay readable for ten years.", scope="org"),
    relations=(EntityRelation("ledger", "falls-under", "Policy 7"),),
)
ALIEN = [memory(f"mem_x{number}", f"walrus number {100 + number}", scope="user") for number in range(40)]


async def recalled(parts: Parts, query: str = QUERY, **fields) -> dict[str, wire.MemoryRecord]:
    reply = await parts.ask(wire.Recall(query=query, **fields))
    assert isinstance(reply, wire.Recalled)
    return {each.id: each for each in reply.memories}


async def test_a_memory_that_is_reached_only_over_a_thing_comes_with_the_path_in_words(home):
    put(home, STORES, *ALIEN)
    put_in(org_root(str(home)), RULED)
    async with assembled(home) as parts:
        found = await recalled(parts)
        lone = await recalled(parts, scopes=("org",))
        plain = await recalled(parts, "invoices")

    assert list(found) == ["mem_1", "mem_2"]
    assert found["mem_2"].found.path == "apollo stored-in ledger; ledger falls-under Policy 7"
    assert found["mem_2"].scope == "org"
    assert list(lone) == ["mem_2"]
    assert list(plain) == ["mem_1"]
    assert plain["mem_1"].found.path == ""


async def test_what_another_agent_knows_leads_nowhere(home):
    put_in(agent_root(str(home), "codex"), replace(STORES, scope="agent"))
    put_in(org_root(str(home)), replace(RULED, entities=(Entity("ledger"),), relations=()))
    async with assembled(home) as parts:
        theirs = await recalled(parts, "apollo", agent_id="codex")
        mine = await recalled(parts, "apollo", agent_id="claude")

    assert list(theirs) == ["mem_1", "mem_2"]
    assert mine == {}


async def test_filters_and_replaced_versions_hold_for_what_is_reached_as_for_what_is_found(home):
    newer = memory("mem_3", "They go to the archive.", scope="user", supersedes="mem_1", version=2)
    put(home, STORES, newer)
    put_in(org_root(str(home)), RULED)
    async with assembled(home) as parts:
        replaced = await recalled(parts, "apollo")
        filtered = await recalled(parts, "ledger", filters={"topic": "books"})

    assert [(each.id, each.found.path) for each in replaced.values()] == [("mem_3", "")]
    assert filtered == {}


async def test_the_graph_of_a_map_is_made_once_and_anew_after_an_edit(home, monkeypatch):
    made = []

    def counted(memories):
        made.append(found := graph_of(memories))
        return found

    monkeypatch.setattr(recall, "graph_of", counted)
    put(home, STORES)
    async with assembled(home) as parts:
        for _ in range(3):
            await recalled(parts, "apollo", scopes=("user",))
        once = len(made)
        written = await parts.ask(
            wire.Remember(workspace=str(home), content="`ledger` is slow.", scope="user")
        )
        assert isinstance(written, wire.Remembered)
        await parts.ask(wire.Search(workspace=str(home), query="ledger", min_generation=written.generation))
        found = await recalled(parts, "apollo", scopes=("user",))

    assert (once, len(made)) == (1, 2)
    assert [each.content for each in found.values()] == [STORES.content, "`ledger` is slow."]


async def test_get_and_search_say_what_a_memory_speaks_of_and_a_list_only_where_it_is_asked_to(home):
    put(home, memory("mem_1", "`ledger` falls under [[Policy 7]].", scope="user"))
    place = str(home)
    async with assembled(home) as parts:
        got = await parts.ask(wire.GetMemories(workspace=place, ids=("mem_1",)))
        found = await parts.ask(wire.Search(workspace=place, query="ledger"))
        plain = await parts.ask(wire.ListMemories(workspace=place))
        reported = await parts.ask(wire.ListMemories(workspace=place, entities=True))

    for reply in (got, found, reported):
        (one,) = reply.memories
        assert one.entities == ("ledger", "Policy 7")
        assert one.relations == (wire.Relation("ledger", "falls-under", "Policy 7"),)
    assert (plain.memories[0].entities, plain.memories[0].relations) == ((), ())


async def test_a_question_leads_to_its_policy_and_not_to_one_with_another_number(home):
    put(home, memory("mem_1", "Project X depends on payment-gateway.", scope="user"), *ALIEN)
    put_in(
        org_root(str(home)),
        memory("mem_2", "payment-gateway falls under Policy 7.", scope="org"),
        memory("mem_3", "payout-worker falls under Policy 8.", scope="org"),
    )
    async with assembled(home) as parts:
        found = await recalled(parts, "How does Project X relate to Policy 7?")

    paths = {each.id: each.found.path for each in found.values() if each.found.path}
    led = "Project X depends-on payment-gateway; payment-gateway falls-under Policy 7"
    assert paths == {"mem_1": led, "mem_2": led}
