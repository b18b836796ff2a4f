"""Replies to a turn that was answered before: out of what is kept of it, and when they are not."""

from __future__ import annotations

from msgspec.structs import replace

from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put

WALRUS = (wire.Message("user", "the walrus"),)


def asked(repo, **fields) -> wire.Retrieve:
    reported = {"session_id": "s", "turn_id": "t", "messages": WALRUS, **fields}
    return wire.Retrieve(id=7, workspace=str(repo), **reported)


async def test_a_reply_that_is_sent_again_has_every_field_of_the_one_that_is_made(home, repo):
    put(repo, memory("m0", "the walrus", related=["m1"]), memory("m1", "the walrus again", version=2))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        first = await parts.ask(asked(repo))
        again = await parts.ask(replace(asked(repo), id=8))
        known = await parts.ask(asked(repo, known_digest=first.digest))

    assert first.included == 2
    assert replace(again, id=7, cached=False, elapsed_ms=first.elapsed_ms) == first
    assert replace(known, elapsed_ms=again.elapsed_ms) == replace(again, id=7, unchanged=True, text="")
    assert (again.id, again.elapsed_ms > 0) == (8, True)


async def test_the_last_injection_of_a_session_is_the_text_of_its_last_reply(home, repo):
    put(repo, memory("m0", "the walrus"), memory("m1", "the walrus again"))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        whole = await parts.ask(asked(repo))
        small = await parts.ask(asked(repo, token_budget=43))
        explained = await parts.ask(wire.Why(workspace=str(repo), session_id="s"))

    assert (whole.included, small.included, small.cached) == (2, 1, True)
    assert (explained.included, explained.omitted_ids, explained.turn_id) == (1, ("m1",), "t")


async def test_after_a_forget_a_turn_is_answered_anew_and_without_what_is_gone(home, repo):
    put(repo, memory("m0", "the walrus"), memory("m1", "the walrus again"))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        before = [await parts.ask(asked(repo)) for _ in range(2)]
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="m0"))
        after = await parts.ask(asked(repo))

    assert [reply.cached for reply in before] == [False, True]
    assert [hit.id for hit in before[1].memories] == ["m0", "m1"]
    assert (after.cached, [hit.id for hit in after.memories]) == (False, ["m1"])


async def test_a_session_gets_the_notice_of_withheld_memories_before_cached_replies(home, repo):
    put(repo, memory("m0", "the walrus"))
    put(home, memory("u0", "the walrus", scope="user"))
    async with assembled(home, trusting=False) as parts:
        await parts.loaded(repo)
        replies = [await parts.ask(asked(repo, session_id=session)) for session in ("s", "s", "", "")]

    assert [bool(reply.notice) for reply in replies] == [True, False, True, True]
    assert [reply.cached for reply in replies] == [False, True, False, True]


async def test_a_kept_reply_is_not_sent_where_memory_is_paused_or_switched_off(home, repo):
    put(repo, memory("m0", "the walrus"))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        await parts.ask(asked(repo))
        kept = await parts.ask(asked(repo))
        await parts.ask(wire.Pause(workspace=str(repo)))
        paused = await parts.ask(asked(repo))

    assert (kept.cached, kept.included) == (True, 1)
    assert (paused.status, paused.text) == ("disabled", "")
