"""What a person is told of a retrieval: each memory near the top, and why it came or stayed out."""

from __future__ import annotations

from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put

FAINT = "roofing heating plumbing carpentry masonry tiling glazing painting fencing paving and walrus"


async def test_why_says_of_each_memory_near_the_top_why_it_stayed_out(home, repo):
    put(repo, memory("m0", "the walrus sleeps on the ice"), memory("m1", "the lamp"))
    async with assembled(home, min_score=0.95) as parts:
        await parts.loaded(repo)
        held, given = [
            await parts.ask(wire.Why(id=7, workspace=str(repo), query=query))
            for query in (FAINT, "where does the walrus sleep?")
        ]

    assert (held.status, held.memories) == ("empty", ())
    assert [(each.id, each.first_line, each.why) for each in held.stayed] == [
        ("m0", "the walrus sleeps on the ice", "faint")
    ]
    assert held.stayed[0].evidence is not None
    assert held.far_ids == ("m0",)
    assert [(each.id, each.came) for each in given.memories] == [("m0", "strong")]
    assert given.stayed == ()


async def test_a_search_looks_for_hypotheses_beside_the_query_and_in_place_of_one(home, repo):
    """An agent writes sentences that a memory may hold: each memory is found by the one that is like it."""
    put(repo, memory("m0", "the walrus sleeps on the ice"), memory("m1", "a lamp burns oil"))
    put(repo, memory("m2", "trains leave at dawn"))
    async with assembled(home) as parts:
        await parts.loaded(repo)

        async def found(query: str, *hypotheses: str) -> set[str]:
            asked = wire.Search(workspace=str(repo), query=query, hypotheses=hypotheses)
            return {each.id for each in (await parts.ask(asked)).memories}

        assert await found("walrus") == {"m0"}
        assert await found("walrus", "A lamp is lit.") == {"m0", "m1"}
        assert await found("", "A lamp is lit.", "Trains are early.") == {"m1", "m2"}
        assert await found(" ", "  ", "Trains are early.") == {"m2"}
        _, refusal = await parts.refusal(wire.Search(workspace=str(repo), query="", hypotheses=("", " ")))

    assert "say what to look for" in refusal


async def test_what_is_private_in_a_hypothesis_is_not_looked_for(home, repo):
    put(repo, memory("m0", "the walrus sleeps on the ice"), memory("m1", "a lamp burns oil"))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        asked = "Where is the lamp? <private>walrus</private>"
        reply = await parts.ask(wire.Search(workspace=str(repo), query="", hypotheses=(asked,)))

    assert [each.id for each in reply.memories] == ["m1"]
