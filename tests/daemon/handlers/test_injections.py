"""`list_injections`: what turns of sessions got, from the retrieve to who asks for it."""

from __future__ import annotations

import json
import time

from msgspec.structs import replace

from forged.memory import utc
from forged.state import Write
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put

PYTEST = memory("mem_pytest", "The tests of this repository run with pytest and never with unittest.")
QUESTION = "Which runner do the tests of this repository use, pytest or unittest?"
ASK = wire.Retrieve(
    workspace="",
    session_id="s-1",
    agent="claude",
    turn_id="1",
    messages=(wire.Message("user", QUESTION),),
)


async def turn(parts, repo, *, whole: bool = True, **fields) -> wire.Retrieved:
    """A turn of an agent, whose reply was written whole or not."""
    request = replace(ASK, workspace=str(repo), **fields)
    reply = await parts.ask(request)
    parts.handlers.sent(request, whole=whole)
    return reply


async def listed(parts, repo, **fields) -> tuple[wire.InjectedTurn, ...]:
    return (await parts.ask(wire.ListInjections(workspace=str(repo), **fields))).injections


async def test_a_turn_that_got_memories_is_on_record_with_ids_and_how_they_came_and_no_text(home, repo):
    put(repo, PYTEST)
    async with assembled(home, lexical=True) as parts:
        reply = await turn(parts, repo)
        (one,) = await listed(parts, repo)

    assert one == wire.InjectedTurn(
        at=one.at,
        roots=(str(repo), str(home)),
        session_id="s-1",
        agent="claude",
        turn_id="1",
        strategy=reply.strategy,
        memories=(
            wire.InjectedMemory(
                id="mem_pytest",
                root=str(repo),
                version=1,
                found_by=reply.memories[0].found.found_by,
                admitted_as=reply.memories[0].found.admitted_as,
                sessions=int(reply.memories[0].found.found_by == "search"),
            ),
        ),
    )
    assert abs(time.time() - float(parts.state.injections.listed()[0].at)) < 60


async def test_a_reply_that_never_arrived_is_no_injection(home, repo):
    put(repo, PYTEST)
    async with assembled(home, lexical=True) as parts:
        assert (await turn(parts, repo, whole=False)).memories

        assert await listed(parts, repo) == ()


async def test_a_workspace_sees_its_own_all_repos_every_one_and_session_and_time_narrow_it(home, repo):
    other = repo.with_name("other")
    (other / ".git").mkdir(parents=True)
    put(repo, PYTEST)
    put(other, PYTEST)
    async with assembled(home, lexical=True) as parts:
        await turn(parts, repo)
        await turn(parts, repo, session_id="t-1")
        await turn(parts, other)

        assert {each.session_id for each in await listed(parts, repo)} == {"s-1", "t-1"}
        assert len(await listed(parts, repo, all_repos=True)) == 3
        assert len(await listed(parts, repo, session_id="t")) == 1
        assert await listed(parts, repo, since=utc(time.time() + 60)) == ()
        page = await parts.ask(wire.ListInjections(all_repos=True, limit=1, offset=2))  # from nowhere
        assert (page.total, len(page.injections), page.injections[0].roots[0]) == (3, 1, str(repo))


async def test_what_is_forgotten_does_not_wait_for_a_server(home, repo):
    put(repo, PYTEST)
    waits = Write(kind="put", scope="user", owner="ada", id="mem_pytest", row=b"a row")
    async with assembled(home, lexical=True) as parts:
        await turn(parts, repo)
        await parts.daemon.state.outbox.add([waits, replace(waits, id="mem_other")])
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_pytest"))

        assert parts.daemon.state.outbox.count({"put"}) == 1


async def test_what_a_hook_printed_for_an_agent_is_on_record_as_that_agents(home, repo):
    put(repo, PYTEST)
    said = {"session_id": "s-7", "cwd": str(repo), "hook_event_name": "UserPromptSubmit", "prompt": QUESTION}
    async with assembled(home, lexical=True) as parts:
        await parts.ask(wire.ListInjections(workspace=str(repo)))  # trusts the repository
        request = wire.Hook(harness="codex", payload=json.dumps(said).encode(), within_ms=5_000)
        assert b"pytest" in (await parts.ask(request)).output
        parts.handlers.sent(request, whole=True)

        (one,) = await listed(parts, repo)

    assert (one.agent, one.session_id, [each.id for each in one.memories]) == ("codex", "s-7", ["mem_pytest"])
