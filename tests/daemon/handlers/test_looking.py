"""What a person is told of a retrieval: each memory near the top, and why it came or stayed out."""

from __future__ import annotations

import pytest

from forged.retrieval.turns import Turns
from forged_client import protocol as wire
from tests.daemon.handlers.test_capture import captured
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


# --- the record of what a session got ------------------------------------------------------------------

FACTS = {"mem_keep": "the walrus sleeps on the ice", "mem_gone": "the walrus eats clams on the ice"}


async def _forget(parts, repo, memory_id):
    await parts.ask(wire.Forget(workspace=str(repo), memory_id=memory_id))


async def _erase(parts, repo, memory_id):
    await parts.ask(wire.Forget(workspace=str(repo), memory_id=memory_id, erase_now=True))


async def _undo(parts, repo, memory_id):
    done = await parts.ask(wire.Undo(workspace=str(repo), session_id=memory_id))
    assert [each.id for each in done.memories] == [memory_id]


async def _move(parts, repo, memory_id):
    await parts.ask(wire.Move(workspace=str(repo), memory_id=memory_id, to="user"))


async def _trust(parts, repo, memory_id):
    await parts.ask(wire.Trust(workspace=str(repo), action="trust"))


async def _restore(parts, repo, memory_id):
    assert (await parts.ask(wire.Restore(workspace=str(repo), memory_id="mem_before"))).memories


async def _documents(parts, repo, memory_id):
    document = wire.Document(source="a.md", text="Ships sail at noon.")
    await parts.ask(wire.Ingest(workspace=str(repo), documents=(document,)))
    assert (await parts.ask(wire.RemoveDocument(workspace=str(repo), name="a.md"))).pieces


async def _forget_in_session(parts, repo, memory_id):
    noted = wire.Remember(
        workspace=str(repo), content="tea at four", scope="session", session_id="z", agent_id="a"
    )
    await _forget(parts, repo, (await parts.ask(noted)).memory_id)


TAKES = {"forget": _forget, "erase": _erase, "undo": _undo, "move": _move}
LEAVES = {
    "trust": _trust, "restore": _restore, "document": _documents, "of a session": _forget_in_session
}  # fmt: skip


def _stored():
    return [captured(each, text, 2, session=each) for each, text in FACTS.items()]


async def _given(parts, repo, *sessions):
    """Let each session be given both memories."""
    for session in sessions:
        asked = wire.Message("user", "where does the walrus sleep, and what does it eat on the ice?")
        given = await parts.ask(
            wire.Retrieve(
                workspace=str(repo), session_id=session, turn_id="t", messages=(asked,), mode="plain"
            )
        )
        assert {each.id for each in given.memories} == set(FACTS)


async def _why(parts, repo, session):
    return await parts.ask(wire.Why(workspace=str(repo), session_id=session))


@pytest.mark.parametrize("does", [*TAKES.values(), *LEAVES.values()], ids=[*TAKES, *LEAVES])
async def test_why_tells_afterwards_what_it_told_before_or_what_was_cleared(home, repo, does):
    """In every session, and what each has in context stays known."""
    put(repo, *_stored(), memory("mem_before", "ships sail at dawn"))
    other = repo.with_name("other")
    (other / ".git").mkdir(parents=True)
    put(other, *_stored())
    async with assembled(home) as parts:
        await parts.loaded(repo)
        await parts.loaded(other)
        await _forget(parts, repo, "mem_before")
        await _given(parts, repo, "one", "two")
        await _given(parts, other, "far")
        before = {session: await _why(parts, repo, session) for session in ("one", "two")}
        far = await _why(parts, other, "far")
        turns: Turns = parts.retriever.turns
        known = [turns._last[each].contents for each in ("one", "two", "far")]

        await does(parts, repo, "mem_gone")

        after = {session: await _why(parts, repo, session) for session in ("one", "two")}
        assert [turns._last[each].contents for each in ("one", "two", "far")] == known
        assert [each.id for each in (await _why(parts, other, "far")).memories] == [
            each.id for each in far.memories
        ]

    for session, told in after.items():
        took = does in TAKES.values()
        left = [each.id for each in before[session].memories if not took or each.id != "mem_gone"]
        assert (told.status, [each.id for each in told.memories], told.included) == ("ok", left, len(left))
        assert (told.at, told.turn_id) == (before[session].at, "t")
        assert ("1 memory that it had was taken away since" in told.reason) == took


async def test_why_says_that_all_was_cleared_and_shows_no_text_of_it(home, repo):
    put(repo, *_stored())
    async with assembled(home) as parts:
        await parts.loaded(repo)
        await _given(parts, repo, "one")
        for memory_id in FACTS:
            await _forget(parts, repo, memory_id)
        told = await _why(parts, repo, "one")

    assert (told.status, told.memories, told.stayed) == ("empty", (), ())
    assert "2 memories that it had were taken away since" in told.reason
