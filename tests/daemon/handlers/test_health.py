"""Status, rebuilds and their events: what a person sees, and when."""

from __future__ import annotations

import asyncio
import os

import pytest

from forged.config import Config
from forged.config.values import ScopesConfig
from forged.maps import BuildEvent
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put
from tests.support.clock import later, turns, until
from tests.support.provider import FakeEmbedder


@pytest.fixture
def embedder(repo):
    """Of a repository with two memories."""
    put(repo, memory("m1", "one"), memory("m2", "two"))
    return FakeEmbedder()


def of_repo(reply):
    return next(root for root in reply.roots if root.scope == "repo")


# --- status -------------------------------------------------------------------------------------------


async def test_a_file_costs_an_answer_only_where_it_lies_and_only_with_a_text(home, repo, tmp_path):
    """A readable name, an empty file, a copy and a note on a date cost none; nor does another repository."""
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    put(repo, memory("m1", "one"), memory("m2", "two", created_at="yesterday"))
    put(other, memory("m3", "three"))
    folder = repo / ".forge/memory"
    (folder / "m1.md").rename(folder / "money.md")
    (folder / "copy.md").write_bytes((folder / "money.md").read_bytes())
    (folder / "blank.md").write_bytes(b" \n")
    (other / ".forge/memory/bad.md").write_bytes(b"The port of the caf\xe9 is 1.\n")

    async def state(workspace) -> str:
        await parts.loaded(workspace)
        return (await parts.ask(wire.Status(workspace=str(workspace)))).state

    async with assembled(home) as parts:
        assert await state(other) == "degraded"
        assert await state(repo) == "ok"
        reports = (await parts.ask(wire.Status(workspace=str(repo)))).roots
        (here,) = (each for each in reports if each.root == str(repo))
        assert {os.path.basename(each.path) for each in here.problems} == {"blank.md", "m2.md", "money.md"}
        (folder / "blank.md").write_bytes(b"The port of the caf\xe9 is 1.\n")
        assert await state(repo) == "degraded"


async def test_a_provider_that_is_down_fails_a_rebuild_and_degrades_the_status_with_its_reason(
    home, repo, embedder
):
    embedder.down = "auth"
    async with assembled(home, embedder) as parts:
        rebuilt = await parts.loaded(repo)
        reply = await parts.ask(wire.Status(workspace=str(repo)))

    assert (rebuilt.status, rebuilt.reason) == ("error", "auth: scripted auth")
    assert (reply.state, of_repo(reply).state) == ("degraded", "failed")
    assert "auth" in of_repo(reply).last_error


# --- rebuild ------------------------------------------------------------------------------------------


async def test_status_says_how_fast_texts_are_embedded_and_how_long_it_takes(home, repo, embedder):
    put(repo, *(memory(f"n{number}", f"new {number}") for number in range(9 * embedder.chunk)))
    async with assembled(home, embedder) as parts:
        embedder.hold = asyncio.Event()
        loading = asyncio.create_task(parts.loaded(repo))
        await embedder.called.wait()
        events = parts.handlers.handle(wire.Events(workspace=str(repo)))
        embedded = (event async for event in events if event.event == "embedding")
        reported = asyncio.create_task(anext(embedded))
        await turns()
        before = of_repo(await parts.ask(wire.Status(workspace=str(repo))))
        for calls in (5, 9):
            held, embedder.hold = embedder.hold, asyncio.Event()
            held.set()
            await until(lambda calls=calls: len(embedder.calls) == calls)
        first = await reported
        last = await anext(embedded)
        between = of_repo(await parts.ask(wire.Status(workspace=str(repo))))
        embedder.hold.set()
        after = of_repo(await loading)

    assert (before.rate, before.left_s) == (0.0, None)
    assert between.rate > 0
    assert between.left_s is not None
    assert (between.embedded, between.to_embed) == (5 * embedder.chunk, 9 * embedder.chunk + 2)
    assert (first.done, first.rate, first.left_s) == (embedder.chunk, 0.0, None)
    assert last.rate > 0
    assert last.left_s is not None
    assert (after.rate, after.left_s) == (0.0, None)


@pytest.mark.parametrize("lexical", [True, False])
async def test_a_rebuild_that_is_waited_for_answers_when_the_vectors_are_there(home, repo, embedder, lexical):
    async with assembled(home, embedder, lexical=lexical) as parts:
        embedder.hold = asyncio.Event()
        waiting = asyncio.create_task(parts.loaded(repo))
        await embedder.called.wait()
        await turns(100)
        await later(30 * 86_400)
        assert not waiting.done(), "there is no limit to the wait"
        embedder.hold.set()
        reply = await waiting
        assert reply.status == "ok"
        assert "dense" in of_repo(reply).indexes


async def test_a_rebuild_tries_quarantined_texts_again(home, repo, embedder):
    embedder.poison = {"two": "bad_input"}
    async with assembled(home, embedder) as parts:
        report = of_repo(await parts.loaded(repo))
        assert (report.quarantined, [problem.path for problem in report.problems]) == (1, ["m2"])
        assert (report.embedded, report.to_embed) == (2, 2)
        embedder.poison.clear()
        assert of_repo(await parts.loaded(repo)).quarantined == 0


# --- events -------------------------------------------------------------------------------------------


async def test_events_of_a_build_come_in_order_with_the_requests_id(home, repo, embedder):
    async with assembled(home, embedder, lexical=False) as parts:
        await parts.loaded(home)
        stream = parts.handlers.handle(wire.Events(id=9, workspace=str(repo)))
        heard = []

        async def listen():
            async for event in stream:
                if event.root == str(repo):
                    heard.append(event)  # noqa: PERF401 - it is looked at meanwhile

        listening = asyncio.create_task(listen())
        await turns()
        await parts.loaded(repo)
        await until(lambda: heard and heard[-1].event == "swapped")
        listening.cancel()

    reported = [(event.event, event.done, event.total) for event in heard]
    assert reported[:3] == [("scanning", 0, 0), ("embedding", 2, 2), ("swapped", 2, 2)]
    assert {event.id for event in heard} == {9}


async def test_events_of_a_foreign_root_are_not_streamed(home, repo, tmp_path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    async with assembled(home) as parts:
        await parts.loaded(repo)
        stream = parts.handlers.handle(wire.Events(workspace=str(repo)))
        first = asyncio.create_task(anext(stream))
        await turns()
        await parts.ask(wire.Rebuild(workspace=str(other), wait=True))
        await parts.loaded(repo)
        roots = {(await first).root}
        await stream.aclose()
        assert roots <= {str(repo), str(home)}


async def test_a_listener_that_does_not_listen_costs_a_bounded_amount_and_leaves_no_trace(home, repo):
    async with assembled(home) as parts:
        stream = parts.handlers.handle(wire.Events())
        waiting = asyncio.create_task(anext(stream))
        await turns()
        for number in range(5000):
            parts.indexer.events.publish(BuildEvent("scanning", "/", generation=number))
        await waiting
        await stream.aclose()
        assert len(parts.indexer.events._listeners) == 0


async def test_status_tells_which_scope_lives_where(home, repo):
    config = Config(scopes=ScopesConfig(retrieve="agent"))
    async with assembled(home, config=config) as parts:
        reported = {"workspace": str(repo), "content": "text"}
        for agent in ("claude", "codex"):
            await parts.ask(wire.Remember(scope="agent", agent_id=agent, **reported))
        await parts.ask(wire.Remember(scope="session", session_id="s", agent_id="claude", **reported))
        session, agent, org = (await parts.ask(wire.Status())).scopes

    assert (session.engine, session.memories, session.owners, session.lasts_s) == ("memory", 1, 1, 3600.0)
    assert (agent.engine, agent.memories, agent.owners, agent.retrieved) == ("files", 2, 2, True)
    assert agent.place == str(home / ".forge/agents")
    assert (org.memories, org.owners, org.retrieved) == (0, 0, False)
