"""Status, rebuilds and their events: what a person sees, and when."""

from __future__ import annotations

import asyncio
import os

import pytest

from forged.maps.indexer import BuildEvent
from forged_client import protocol as wire
from tests.daemon.parts import EPOCH, assembled
from tests.data.memories import memory, put
from tests.support.clock import run, turns, until
from tests.support.provider import FakeEmbedder


def talk(home, work, embedder=None, **options):
    """Run `work(parts)` over real parts."""

    async def body():
        async with assembled(home, embedder, **options) as parts:
            return await work(parts)

    return run(body())


def of_repo(reply):
    return next(root for root in reply.roots if root.scope == "repo")


# --- hello --------------------------------------------------------------------------------------------


def test_a_client_of_our_protocol_is_welcome(home):
    async def work(parts):
        return await parts.ask(wire.Hello(id=1))

    reply = talk(home, work)

    assert (type(reply), reply.id, reply.epoch, reply.pid) == (wire.Welcome, 1, EPOCH, os.getpid())


@pytest.mark.parametrize(
    ("low", "high", "welcome"), [(1, 1, True), (0, 5, True), (2, 9, False), (0, 0, False)]
)
def test_a_client_is_welcome_if_its_range_holds_our_protocol(home, low, high, welcome):
    async def work(parts):
        return await parts.ask(wire.Hello(protocol_min=low, protocol_max=high))

    reply = talk(home, work)

    assert isinstance(reply, wire.Welcome) is welcome
    assert welcome or reply.code == "protocol_mismatch"


# --- status -------------------------------------------------------------------------------------------


def test_status_without_a_workspace_loads_nothing(home, repo):
    async def work(parts):
        reply = await parts.ask(wire.Status())
        return reply.roots, reply.state, reply.connections, reply.warnings

    assert talk(home, work) == ((), "ok", 3, ("from the start",))


def test_status_of_a_workspace_loads_its_roots(home, repo):
    put(repo, memory("m1", "one"))

    async def work(parts):
        first = await parts.ask(wire.Status(workspace=str(repo)))
        await parts.loaded(repo)
        return [root.state for root in first.roots], of_repo(
            await parts.ask(wire.Status(workspace=str(repo)))
        )

    states, report = talk(home, work)

    assert states == ["loading", "loading"]
    assert (report.state, report.memories, report.legs, report.watch, report.watches) == (
        "ready",
        1,
        ("lexical",),
        "inotify",
        2,
    )


def test_a_file_that_is_no_memory_degrades_the_status_and_is_named(home, repo):
    put(repo, memory("m1", "one"))
    (repo / ".forge/memory/bad.md").write_bytes(b"---\nid: [\n---\n")

    async def work(parts):
        await parts.loaded(repo)
        return await parts.ask(wire.Status(workspace=str(repo)))

    reply = talk(home, work)

    assert reply.state == "degraded"
    assert [os.path.basename(problem.path) for problem in of_repo(reply).problems] == ["bad.md"]


def test_a_quarantined_text_is_counted_and_named(home, repo):
    put(repo, memory("m1", "one"), memory("m2", "poison"))
    embedder = FakeEmbedder()
    embedder.poison = {"poison": "bad_input"}

    async def work(parts):
        return of_repo(await parts.loaded(repo))

    report = talk(home, work, embedder)

    assert (report.quarantined, [problem.path for problem in report.problems]) == (1, ["m2"])
    assert (report.embedded, report.to_embed) == (2, 2)


def test_a_provider_that_is_down_degrades_the_status_with_its_reason(home, repo):
    put(repo, memory("m1", "one"))
    embedder = FakeEmbedder()
    embedder.down = "auth"

    async def work(parts):
        await parts.loaded(repo)
        return await parts.ask(wire.Status(workspace=str(repo)))

    reply = talk(home, work, embedder)

    assert (reply.state, of_repo(reply).state) == ("degraded", "failed")
    assert "auth" in of_repo(reply).last_error


@pytest.mark.parametrize(
    ("watching", "state"), [("inotify", "ok"), ("polling: limit", "degraded"), ("restarting: x", "degraded")]
)
def test_a_watcher_in_trouble_degrades_the_status(home, watching, state):
    async def work(parts):
        parts.watcher.state = watching
        return (await parts.ask(wire.Status())).state

    assert talk(home, work) == state


def test_a_daemon_that_is_off_says_so_and_loads_nothing(home, repo):
    async def work(parts):
        reply = await parts.ask(wire.Status(workspace=str(repo)))
        return reply.state, reply.reason, reply.roots

    assert talk(home, work, disabled="memory.enabled is false") == ("disabled", "memory.enabled is false", ())


def test_warnings_of_the_repository_are_shown_beside_the_daemons(home, repo):
    (repo / ".forge").mkdir()
    (repo / ".forge/config.toml").write_text('[memory]\nembedding_model = "evil"\n')

    async def work(parts):
        return (await parts.ask(wire.Status(workspace=str(repo)))).warnings

    first, *others = talk(home, work)

    assert first == "from the start"
    assert any("embedding_model" in warning for warning in others)


def test_every_counter_is_shown(home):
    async def work(parts):
        parts.daemon.metrics.bad_frames = 7
        return (await parts.ask(wire.Status())).counters

    assert talk(home, work)["bad_frames"] == 7


# --- rebuild ------------------------------------------------------------------------------------------


def test_a_rebuild_answers_at_once_and_goes_on(home, repo):
    put(repo, memory("m1", "one"))
    embedder = FakeEmbedder()

    async def work(parts):
        embedder.hold = asyncio.Event()
        reply = await parts.ask(wire.Rebuild(workspace=str(repo)))
        embedder.hold.set()
        return reply.status, (await parts.loaded(repo)).status

    assert talk(home, work, embedder) == ("not_ready", "ok")


@pytest.mark.parametrize("lexical", [True, False])
def test_a_rebuild_that_is_waited_for_answers_when_the_vectors_are_there(home, repo, lexical):
    put(repo, memory("m1", "one"))
    embedder = FakeEmbedder()

    async def work(parts):
        embedder.hold = asyncio.Event()
        waiting = asyncio.create_task(parts.loaded(repo))
        await embedder.called.wait()
        await turns(100)
        early = waiting.done()
        embedder.hold.set()
        reply = await waiting
        return early, reply.status, "dense" in of_repo(reply).legs

    assert talk(home, work, embedder, lexical=lexical) == (False, "ok", True)


def test_a_rebuild_that_is_waited_for_and_fails_is_an_error_with_its_reason(home, repo):
    put(repo, memory("m1", "one"))
    embedder = FakeEmbedder()
    embedder.down = "unreachable"

    async def work(parts):
        return await parts.loaded(repo)

    reply = talk(home, work, embedder)

    assert (reply.status, reply.reason) == ("error", "unreachable: scripted unreachable")


def test_a_full_rebuild_embeds_all_and_an_ordinary_one_nothing(home, repo):
    put(repo, memory("m1", "one"), memory("m2", "two"))
    embedder = FakeEmbedder()

    async def work(parts):
        counts = []
        for full in (False, False, True):
            before = len(embedder.texts)
            await parts.ask(wire.Rebuild(workspace=str(repo), wait=True, full=full))
            counts.append(len(embedder.texts) - before)
        return counts

    assert talk(home, work, embedder) == [2, 0, 2]


def test_a_rebuild_tries_quarantined_texts_again(home, repo):
    put(repo, memory("m1", "one"), memory("m2", "poison"))
    embedder = FakeEmbedder()
    embedder.poison = {"poison": "bad_input"}

    async def work(parts):
        before = of_repo(await parts.loaded(repo)).quarantined
        embedder.poison.clear()
        return before, of_repo(await parts.loaded(repo)).quarantined

    assert talk(home, work, embedder) == (1, 0)


# --- events -------------------------------------------------------------------------------------------


def told(event):
    return (event.event, event.done, event.total)


def test_events_of_a_build_come_in_order_with_the_requests_id(home, repo):
    put(repo, memory("m1", "one"), memory("m2", "two"))
    embedder = FakeEmbedder()

    async def work(parts):
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
        return [told(event) for event in heard], {event.id for event in heard}

    heard, numbers = talk(home, work, embedder, lexical=False)

    assert heard[:3] == [("scanning", 0, 0), ("embedding", 2, 2), ("swapped", 2, 2)]
    assert numbers == {9}


def test_events_of_a_foreign_root_are_not_told(home, repo, tmp_path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)

    async def work(parts):
        await parts.loaded(repo)
        stream = parts.handlers.handle(wire.Events(workspace=str(repo)))
        first = asyncio.create_task(anext(stream))
        await turns()
        await parts.ask(wire.Rebuild(workspace=str(other), wait=True))
        await parts.loaded(repo)
        roots = {(await first).root}
        await stream.aclose()
        return roots <= {str(repo), str(home)}

    assert talk(home, work)


def test_a_listener_that_does_not_listen_costs_a_bounded_amount_and_leaves_no_trace(home, repo):
    async def work(parts):
        stream = parts.handlers.handle(wire.Events())
        waiting = asyncio.create_task(anext(stream))
        await turns()
        for number in range(5000):
            parts.indexer._tell(BuildEvent("scanning", "/", generation=number))
        await waiting
        await stream.aclose()
        return len(parts.indexer._listeners)

    assert talk(home, work) == 0
