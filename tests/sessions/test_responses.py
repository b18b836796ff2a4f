"""An agent's responses come back in their session, without secrets, and end with it."""

from __future__ import annotations

from forged.config import Config
from forged.config.values import ScopesConfig
from forged_client import protocol as wire
from tests.daemon.parts import assembled

KEY = "AKIA" + "QWERTYUIOPASDFGH"
ANSWER = "The gateway waits for 30 seconds because the upstream is slow."
KEPT = Config(scopes=ScopesConfig(retrieve="session"))


def turn(top, answer=ANSWER, **fields):
    messages = (wire.Message("user", "Why is the gateway slow?"), wire.Message("assistant", answer))
    said = {"messages": messages, "session_id": "s", "agent": "claude"} | fields
    return wire.Capture(workspace=str(top), **said)


async def remembered(home, request, config=KEPT):
    """What sessions remember after a capture."""
    async with assembled(home, config=config) as parts:
        await parts.ask(request)
        return tuple(parts.session_memories.all())


async def test_a_response_is_a_session_memory_once_however_often_it_is_captured(home, repo):
    async with assembled(home, config=KEPT) as parts:
        await parts.ask(turn(repo))
        await parts.ask(turn(repo))
        (row,) = parts.session_memories.all()

    assert (row.memory.content, row.session_id, row.facts.agent_id) == (ANSWER, "s", "claude")
    assert str(repo) in row.tops


async def test_a_response_is_found_in_its_session_and_in_no_other(home, repo):
    async with assembled(home, config=KEPT) as parts:
        await parts.ask(turn(repo))
        asked = {"query": "gateway waits upstream", "agent_id": "claude", "scopes": ("session",)}
        here = await parts.ask(wire.Recall(workspace=str(repo), session_id="s", **asked))
        there = await parts.ask(wire.Recall(workspace=str(repo), session_id="other", **asked))

    assert [each.content for each in here.memories] == [ANSWER]
    assert there.memories == ()


async def test_a_session_that_ends_takes_its_responses_with_it(home, repo):
    async with assembled(home, config=KEPT) as parts:
        await parts.ask(turn(repo))
        await parts.ask(turn(repo, kind="session_end"))

        assert tuple(parts.session_memories.all()) == ()


async def test_nothing_is_kept_where_sessions_are_in_no_injection(home, repo):
    assert await remembered(home, turn(repo), Config()) == ()


async def test_secrets_and_private_spans_stay_out(home, repo):
    (row,) = await remembered(home, turn(repo, f"The key is {KEY}, use it. <private>My cat.</private>"))

    assert row.memory.content == "The key is [redacted], use it."


async def test_nothing_is_kept_while_memory_is_paused(home, repo):
    async with assembled(home, config=KEPT) as parts:
        await parts.ask(wire.Pause(workspace=str(repo), paused=True))
        refused = await parts.ask(turn(repo))

        assert (refused.outcome, tuple(parts.session_memories.all())) == ("rejected", ())
