"""Explanation of a retrieval: each memory near the top, and the reason it was in or out."""

from __future__ import annotations

from functools import partial

import pytest

from forged_client import protocol as wire
from tests.daemon.handlers.test_capture import captured
from tests.daemon.parts import assembled
from tests.data.memories import memory, put

FAINT = "roofing heating plumbing carpentry masonry tiling glazing painting fencing paving and walrus"


async def test_why_names_the_reason_of_each_rejection_near_the_top(home, repo):
    put(repo, memory("m0", "the walrus sleeps on the ice"), memory("m1", "the lamp"))
    async with assembled(home, min_score=0.95) as parts:
        await parts.loaded(repo)
        held, given = [
            await parts.ask(wire.Why(id=7, workspace=str(repo), query=query))
            for query in (FAINT, "where does the walrus sleep?")
        ]

    assert (held.status, held.memories) == ("empty", ())
    assert [(each.id, each.first_line, each.why) for each in held.rejected] == [
        ("m0", "the walrus sleeps on the ice", "faint")
    ]
    assert held.rejected[0].evidence is not None
    assert held.rejected_ids == ("m0",)
    assert [(each.id, each.found.admitted_as) for each in given.memories] == [("m0", "strong")]
    assert given.rejected == ()


async def test_a_search_uses_hypotheses_with_the_query_and_in_place_of_one(home, repo):
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
async def test_why_repeats_its_answer_or_counts_removed_memories(home, repo, does):
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

        def contents(session: str, top: object) -> tuple[str, ...]:
            return parts.daemon.sessions.last(session, (str(top), str(home))).reply.contents

        known = contents("one", repo), contents("two", repo), contents("far", other)

        await does(parts, repo, "mem_gone")

        after = {session: await _why(parts, repo, session) for session in ("one", "two")}
        assert (contents("one", repo), contents("two", repo), contents("far", other)) == known
        assert [each.id for each in (await _why(parts, other, "far")).memories] == [
            each.id for each in far.memories
        ]

    for session, reported in after.items():
        took = does in TAKES.values()
        left = [each.id for each in before[session].memories if not took or each.id != "mem_gone"]
        assert (reported.status, [each.id for each in reported.memories], reported.included) == (
            "ok",
            left,
            len(left),
        )
        assert (reported.at, reported.turn_id) == (before[session].at, "t")
        assert ("1 memory of it was removed since" in reported.reason) == took


async def test_why_says_that_all_was_cleared_and_shows_no_text_of_it(home, repo):
    put(repo, *_stored())
    async with assembled(home) as parts:
        await parts.loaded(repo)
        await _given(parts, repo, "one")
        for memory_id in FACTS:
            await _forget(parts, repo, memory_id)
        reported = await _why(parts, repo, "one")

    assert (reported.status, reported.memories, reported.rejected) == ("empty", (), ())
    assert "2 memories of it were removed since" in reported.reason


# --- why there is nothing ------------------------------------------------------------------------------

CONFLICT = "<<<<<<< HEAD\nThe port is 1.\n=======\nThe port is 2.\n>>>>>>> pr\n"
UNUSED = {
    "nothing": ((), ""),
    "withheld": (("withheld",), "1 not used yet"),
    "in conflict": (("conflict",), "1 file is not used (port.md: unresolved merge conflict: "),
    "both": (("withheld", "conflict"), "1 not used yet, 1 file is not used (port.md: "),
}
ASKED = "which port does the server use?"


@pytest.mark.parametrize(("files", "reported"), UNUSED.values(), ids=UNUSED)
@pytest.mark.parametrize("kind", ["retrieve", "search", "why", "list"])
async def test_where_no_memory_can_be_used_every_verb_says_why(home, repo, kind, files, reported):
    if "withheld" in files:
        put(repo, memory("mem_1", "The port is 9000."))
    if "conflict" in files:
        (repo / ".forge/memory").mkdir(parents=True, exist_ok=True)
        (repo / ".forge/memory/port.md").write_text(CONFLICT)
    workspace = str(repo)
    asked = {
        "retrieve": wire.Retrieve(workspace=workspace, messages=(wire.Message("user", ASKED),)),
        "search": wire.Search(workspace=workspace, query=ASKED),
        "why": wire.Why(workspace=workspace, query=ASKED),
        "list": wire.ListMemories(workspace=workspace),
    }[kind]
    async with assembled(home, trusting=False) as parts:
        await parts.loaded(repo)
        reply = await parts.ask(asked)
    nothing = "" if kind == "list" else "no memories yet"
    usable = "" if kind == "list" else "no memory can be used here: "
    assert reply.status == "empty"
    assert reply.reason.startswith(usable + reported if reported else nothing)
    assert bool(reply.reason) == bool(reported or nothing)


@pytest.mark.parametrize("mode", ["append", "block"])
@pytest.mark.parametrize("min_score", [0.0, 0.95])
async def test_what_fits_and_was_given_before_is_named_with_its_turn(home, repo, mode, min_score):
    put(repo, memory("m0", "walrus sleeps on ice"), memory("m1", "lamps burn oil"))
    asked = partial(wire.Retrieve, workspace=str(repo), session_id="s", mode=mode)
    async with assembled(home, min_score=min_score) as parts:
        await parts.loaded(repo)

        async def turn(name: str, text: str) -> wire.Retrieved:
            request = asked(turn_id=name, messages=(wire.Message("user", text),))
            reply = await parts.ask(request)
            parts.handlers.sent(request, whole=True)
            return reply

        first = await turn("t1", "where does a walrus sleep?")
        await turn("t2", "do lamps burn oil?")
        again = await turn("t5", "does a walrus sleep on ice?")
        why = await parts.ask(wire.Why(workspace=str(repo), session_id="s"))
    said = "1 matching memory was already injected in turn t1"
    assert "m0" in [each.id for each in first.memories]
    assert again.reason == (said if mode == "append" else f"nothing new: {said}")
    listed, stayed = [[each.id for each in part] for part in (why.memories, why.rejected)]
    assert "m0" in (*listed, *stayed)
    assert not set(listed) & set(stayed)
    if mode == "append":
        assert [(each.id, each.why) for each in why.rejected if each.why == "given"] == [("m0", "given")]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"scopes": ("session",)}, "no scope was searched"),
        ({"scopes": ("user",), "user_id": "someone-else"}, "no scope was searched"),
        ({"scopes": ("user",)}, "no memories yet; searched: user"),
        ({"scopes": ("org",)}, "no memories yet; searched: org"),
        ({"scopes": ("repo",)}, "no memory matches the query; searched: repo"),
        ({"scopes": ("repo",), "filters": {"team": "x"}}, "has the values of the filters; searched: repo"),
    ],
    ids=["no session", "another user", "empty", "no documents", "no match", "filters"],
)
async def test_a_recall_without_a_result_says_why(home, repo, fields, reason):
    put(repo, memory("m0", "the walrus sleeps on the ice"))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        reply = await parts.ask(wire.Recall(workspace=str(repo), query="quokka", **fields))
    assert (reply.status, reply.memories) == ("empty", ())
    assert reason in reply.reason
