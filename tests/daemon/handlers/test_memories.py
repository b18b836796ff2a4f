"""Writing, finding by id, listing and forgetting, as a client asks for them."""

from __future__ import annotations

import asyncio

import pytest

from forged.errors import MemoryNotFound
from forged.memory import Scope
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put
from tests.support.clock import run, until
from tests.support.provider import FakeEmbedder


def talk(home, work, embedder=None, **options):
    """Run `work(parts)` over real parts."""

    async def body():
        async with assembled(home, embedder, **options) as parts:
            return await work(parts)

    return run(body())


def ids(reply):
    return [each.id for each in reply.memories]


# --- remember -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["repo", "user"])
def test_a_memory_is_written_under_the_root_of_its_scope(home, repo, scope):
    async def work(parts):
        return await parts.ask(wire.Remember(id=4, workspace=str(repo), content="text", scope=scope))

    reply = talk(home, work)

    assert (reply.id, reply.status, reply.version) == (4, "ok", 1)
    top = repo if scope == "repo" else home
    assert reply.path == str(top / ".forge/memory" / f"{reply.memory_id}.md")
    assert "text" in (top / ".forge/memory" / f"{reply.memory_id}.md").read_text()


def test_what_was_remembered_is_seen_by_a_reader_that_names_its_generation(home, repo):
    async def work(parts):
        written = await parts.ask(wire.Remember(workspace=str(repo), content="text"))
        asked = wire.GetMemories(
            workspace=str(repo), ids=(written.memory_id,), min_generation=written.generation
        )
        return (await parts.ask(asked)).memories[0].content

    assert talk(home, work) == "text"


def test_a_workspace_without_a_repository_root_has_no_repo_scope(home):
    async def work(parts):
        return await parts.refusal(wire.Remember(workspace=str(home), content="text", scope="repo"))

    code, told = talk(home, work)

    assert code == "invalid"
    assert "scope user" in told


def test_an_unknown_scope_is_refused(home, repo):
    async def work(parts):
        return await parts.refusal(wire.Remember(workspace=str(repo), content="text", scope="org"))

    assert talk(home, work)[0] == "invalid"


def test_a_memory_of_the_other_scope_cannot_be_superseded(home, repo):
    """A repository's memory would replace the user's own in every other repository."""
    put(home, memory("mem_u", "of the user", scope="user"))

    async def work(parts):
        return await parts.refusal(wire.Remember(workspace=str(repo), content="text", supersedes="mem_u"))

    assert talk(home, work)[0] == "not_found"
    assert not (repo / ".forge").exists()


def test_an_edge_to_a_memory_just_written_holds_and_one_into_nothing_is_refused(home, repo):
    async def work(parts):
        first = await parts.ask(wire.Remember(workspace=str(repo), content="first"))
        there = (wire.Edge(first.memory_id, "refines"),)
        good = await parts.ask(wire.Remember(workspace=str(repo), content="second", related=there))
        with pytest.raises(MemoryNotFound, match="mem_none"):
            await parts.ask(
                wire.Remember(workspace=str(repo), content="third", related=(wire.Edge("mem_none"),))
            )
        return good

    assert talk(home, work).status == "ok"
    assert len(list((repo / ".forge/memory").glob("*.md"))) == 2


def test_a_memory_that_is_too_large_is_a_storage_error(home, repo):
    async def work(parts):
        return await parts.refusal(wire.Remember(workspace=str(repo), content="x" * 300_000))

    assert talk(home, work)[0] == "storage_error"


def test_where_memory_is_off_nothing_is_written_read_or_watched(home, repo):
    put(repo, memory("mem_1", "text"))
    (repo / ".forge/config.toml").write_text("[memory]\nenabled = false\n")
    place = str(repo)

    async def work(parts):
        requests = [
            wire.Remember(workspace=place, content="text"),
            wire.GetMemories(workspace=place, ids=("mem_1",)),
            wire.ListMemories(workspace=place),
            wire.History(workspace=place, memory_id="mem_1"),
            wire.Forget(workspace=place, memory_id="mem_1"),
            wire.Rebuild(workspace=place, wait=True),
            wire.Retrieve(workspace=place, hypotheses=("text",)),
            wire.Search(workspace=place, query="text"),
        ]
        statuses = {(await parts.ask(request)).status for request in requests}
        await parts.ask(wire.Status(workspace=place))
        return statuses, parts.indexer.indexes()

    assert talk(home, work) == ({"disabled"}, ())
    assert len(list((repo / ".forge/memory").iterdir())) == 1


# --- get, list, history -------------------------------------------------------------------------------


def test_memories_come_in_the_order_asked_and_the_missing_are_named(home, repo):
    put(repo, memory("a", "text a"), memory("b", "text b"))

    async def work(parts):
        return await parts.ask(wire.GetMemories(workspace=str(repo), ids=("b", "no", "a")))

    reply = talk(home, work)

    assert (ids(reply), reply.missing, reply.total, reply.status) == (["b", "a"], ("no",), 2, "ok")


def test_an_id_in_both_scopes_is_the_repositorys(home, repo):
    put(repo, memory("a", "of the repo"))
    put(home, memory("a", "of the user", scope="user"))

    async def work(parts):
        return await parts.ask(wire.GetMemories(workspace=str(repo), ids=("a",)))

    assert [each.content for each in talk(home, work).memories] == ["of the repo"]


def test_a_list_is_newest_first_heads_only_and_paged(home, repo):
    put(repo, *(memory(f"m{n}", f"text {n}", created_at=f"2025-01-0{n + 1}T00:00:00Z") for n in range(5)))
    put(repo, memory("m9", "new", supersedes="m4", version=2, created_at="2025-02-01T00:00:00Z"))

    async def work(parts):
        page = await parts.ask(wire.ListMemories(workspace=str(repo), limit=3))
        rest = await parts.ask(wire.ListMemories(workspace=str(repo), limit=3, offset=3))
        everything = await parts.ask(wire.ListMemories(workspace=str(repo), all_versions=True))
        return page, rest, everything

    page, rest, everything = talk(home, work)

    assert (ids(page), page.total) == (["m9", "m3", "m2"], 5)
    assert ids(rest) == ["m1", "m0"]
    assert ids(everything) == ["m9", "m4", "m3", "m2", "m1", "m0"]


def test_times_of_a_list_are_compared_as_times(home, repo):
    put(
        repo,
        memory("early", "x", created_at="2025-01-01T12:00:00+02:00"),
        memory("late", "x", created_at="2025-01-01T11:00:00Z"),
        memory("never", "x", created_at=""),
    )

    async def work(parts):
        return await parts.ask(wire.ListMemories(workspace=str(repo)))

    assert ids(talk(home, work)) == ["late", "early", "never"]


@pytest.mark.parametrize(("scope", "expected"), [("", ["a", "u"]), ("repo", ["a"]), ("user", ["u"])])
def test_a_list_can_be_of_one_scope(home, repo, scope, expected):
    put(repo, memory("a", "text"))
    put(home, memory("u", "text", scope="user"))

    async def work(parts):
        return await parts.ask(wire.ListMemories(workspace=str(repo), scope=scope))

    assert sorted(ids(talk(home, work))) == expected


@pytest.mark.parametrize(("limit", "offset"), [(-1, 0), (0, 0), (10, 99), (10, -5), (10**30, 10**30)])
def test_odd_pages_are_empty_or_whole_but_no_error(home, repo, limit, offset):
    put(repo, memory("a", "text"))

    async def work(parts):
        return await parts.ask(wire.ListMemories(workspace=str(repo), limit=limit, offset=offset))

    assert talk(home, work).total == 1


def test_a_history_is_the_chain_oldest_first_with_what_is_odd(home, repo):
    put(
        repo,
        memory("m1", "one"),
        memory("m2", "two", supersedes="m1", version=2),
        memory("m3", "other two", supersedes="m1", version=2, created_at="2026-01-01T00:00:00Z"),
    )

    async def work(parts):
        return [await parts.ask(wire.History(workspace=str(repo), memory_id=each)) for each in ("m1", "m3")]

    by_oldest, by_head = talk(home, work)

    assert ids(by_oldest) == ids(by_head) == ["m1", "m2", "m3"]
    assert by_oldest.flags == ("fork",)
    assert [each.is_head for each in by_head.memories] == [False, False, True]


def test_an_unknown_memory_has_no_history(home, repo):
    async def work(parts):
        return await parts.refusal(wire.History(workspace=str(repo), memory_id="x" * 500))

    code, told = talk(home, work)

    assert code == "not_found"
    assert len(told) < 300


def test_before_the_first_build_nobody_is_told_that_there_is_nothing(home, repo, monkeypatch):
    put(repo, memory("m1", "one"))
    embedder = FakeEmbedder()

    async def work(parts):
        embedder.hold = asyncio.Event()
        loop = asyncio.get_running_loop()
        now = loop.time
        asking = [
            asyncio.create_task(parts.ask(wire.ListMemories(workspace=str(repo)))),
            asyncio.create_task(parts.ask(wire.GetMemories(workspace=str(repo), ids=("m1",)))),
            asyncio.create_task(parts.refusal(wire.History(workspace=str(repo), memory_id="m1"))),
        ]
        await embedder.called.wait()
        loop.time = lambda: now() + 5.1  # the patience of a reader is over
        answers = await asyncio.gather(*asking)
        embedder.hold.set()
        return [answer if isinstance(answer, tuple) else answer.status for answer in answers]

    listed, got, (code, _) = talk(home, work, embedder, lexical=False)

    assert (listed, got, code) == ("not_ready", "not_ready", "busy")


# --- forget -------------------------------------------------------------------------------------------


def test_forgetting_takes_the_whole_chain_and_answers_when_it_is_not_found_any_more(home, repo):
    put(
        repo,
        memory("m1", "walrus one"),
        memory("m2", "walrus two", supersedes="m1", version=2),
        memory("m3", "x"),
    )

    async def work(parts):
        receipt = await parts.ask(wire.Forget(workspace=str(repo), memory_id="m1"))
        left = await parts.ask(wire.ListMemories(workspace=str(repo), all_versions=True))
        found = await parts.ask(wire.Search(workspace=str(repo), query="walrus"))
        return receipt, ids(left), found.memories, parts.daemon.metrics.forgotten

    receipt, left, found, counted = talk(home, work)

    assert sorted(receipt.ids) == ["m1", "m2"]
    assert (left, found, counted) == (["m3"], (), 2)


def test_one_version_can_be_forgotten_alone(home, repo):
    put(repo, memory("m1", "one"), memory("m2", "two", supersedes="m1", version=2))

    async def work(parts):
        receipt = await parts.ask(wire.Forget(workspace=str(repo), memory_id="m2", version_only=True))
        return receipt.ids, ids(await parts.ask(wire.ListMemories(workspace=str(repo), all_versions=True)))

    assert talk(home, work) == (("m2",), ["m1"])


def test_what_was_remembered_a_moment_ago_can_be_forgotten(home, repo):
    """An agent that wrote a secret takes it back with its next request."""

    async def work(parts):
        await parts.loaded(repo)
        written = await parts.ask(wire.Remember(workspace=str(repo), content="oh no"))
        receipt = await parts.ask(
            wire.Forget(workspace=str(repo), memory_id=written.memory_id, erase_now=True)
        )
        return receipt.ids == (written.memory_id,), receipt.trash

    assert talk(home, work) == (True, "")
    assert list((repo / ".forge/memory").iterdir()) == []


@pytest.mark.parametrize("failing", ["down", "hanging"])
def test_a_memory_can_be_forgotten_while_the_provider_is_gone(home, repo, failing):
    put(repo, memory("m1", "one"), memory("m2", "two"))
    embedder = FakeEmbedder()

    async def work(parts):
        await parts.loaded(repo)
        embedder.called.clear()
        embedder.down = "unreachable" if failing == "down" else ""
        embedder.hold = asyncio.Event() if failing == "hanging" else None
        await parts.ask(wire.Remember(workspace=str(repo), content="cannot be embedded"))
        await embedder.called.wait()
        forgetting = asyncio.create_task(parts.ask(wire.Forget(workspace=str(repo), memory_id="m1")))
        await until(lambda: not (repo / ".forge/memory/m1.md").exists())
        index = parts.indexer.indexes()[0]
        await until(lambda: index.map.find("m1") is None)
        if embedder.hold is not None:
            embedder.hold.set()
        return (await forgetting).ids

    assert talk(home, work, embedder, lexical=False) == ("m1",)


def test_a_memory_of_another_repository_cannot_be_forgotten(home, repo, tmp_path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    put(other, memory("m1", "one"))

    async def work(parts):
        return await parts.refusal(wire.Forget(workspace=str(repo), memory_id="m1"))

    assert talk(home, work)[0] == "not_found"
    assert (other / ".forge/memory/m1.md").exists()


def test_forgetting_leaves_nothing_in_turn_cache_and_ledger(home, repo):
    put(repo, memory("m1", "the walrus sings"))
    turn = wire.Retrieve(
        workspace=str(repo), session_id="s", turn_id="t", messages=(wire.Message("user", "walrus"),)
    )

    async def work(parts):
        before = await parts.ask(turn)
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="m1"))
        after = await parts.ask(turn)
        return (
            before.included,
            (after.status, after.cached),
            (await parts.ask(wire.Why(session_id="s", workspace=str(repo)))).memories,
        )

    assert talk(home, work) == (1, ("empty", False), ())


# --- dispatch -----------------------------------------------------------------------------------------


def test_every_request_but_a_ping_wakes_the_watcher_and_all_are_counted(home, repo):
    async def work(parts):
        await parts.ask(wire.Ping())
        quiet = parts.watcher.used_at
        await parts.ask(wire.ListMemories(workspace=str(repo)))
        return quiet, parts.watcher.used_at > quiet, parts.daemon.metrics.requests

    assert talk(home, work) == (0.0, True, 2)


def test_every_verb_of_the_protocol_is_answered(home, repo):
    """A verb that is added to the contract and not to the dispatch would answer with nothing."""

    async def work(parts):
        answered = set()
        for kind in wire.AnyRequest.__args__:
            named = {name: str(repo) for name in ("workspace",) if name in kind.__struct_fields__}
            fields = dict.fromkeys(("session_id", "query", "content", "memory_id"), "x")
            known = {name: value for name, value in fields.items() if name in kind.__struct_fields__}
            try:
                answered.add((kind, await parts.ask(kind(id=5, **named, **known)) is not None))
            except Exception as error:  # noqa: BLE001 - a typed refusal is an answer
                answered.add((kind, error.code in wire.CODES))
        return {kind for kind, there in answered if not there}

    assert talk(home, work) == set()


def test_scopes_of_the_wire_are_those_of_the_domain():
    assert set(Scope) == {"repo", "user"}
