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
