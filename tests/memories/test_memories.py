"""Writing, finding by id, listing and forgetting, as a client asks for them."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import msgspec
import pytest

from forged.errors import NotReady
from forged.files import Root
from forged.memory import Scope, utc_now
from forged.state import DecidedMemory, Event
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put
from tests.data.secrets import ALNUM, Draw
from tests.support.clock import until
from tests.support.provider import FakeEmbedder

SECRET = "gh" + "p_" + Draw("remember").of(ALNUM, 36)


def ids(reply):
    return [each.id for each in reply.memories]


# --- remember -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "code", "reported"),
    [
        (partial(wire.Remember, content="text", scope="team"), "invalid", "unknown scope 'team'"),
        (partial(wire.Remember, content="x" * 300_000), "storage_error", "256 KiB"),
        (partial(wire.Remember, content="text", supersedes="mem_u", scope="repo"), "not_found", "mem_u"),
        (partial(wire.Remember, content="text", supersedes="mem_none"), "not_found", "mem_none"),
        (partial(wire.Remember, content="text", related=(wire.Edge("mem_none"),)), "not_found", "mem_none"),
        (partial(wire.ListMemories, scope="team"), "invalid", "unknown scope 'team'"),
        (partial(wire.History, memory_id="x" * 500), "not_found", "x" * 64),
        (partial(wire.Forget, memory_id="mem_other"), "not_found", "mem_other"),
        (partial(wire.Search, query=" \n"), "invalid", "the query is empty"),
    ],
    ids=lambda value: value.func.__name__ if isinstance(value, partial) else None,
)
async def test_what_cannot_be_done_is_refused_in_a_sentence(home, repo, asked, code, reported):
    """A repository's memory may not replace the user's own, and another repository's is out of reach."""
    other = repo.with_name("other")
    (other / ".git").mkdir(parents=True)
    put(home, memory("mem_u", "of the user", scope="user"))
    put(other, memory("mem_other", "of another repository"))
    async with assembled(home) as parts:
        refused, sentence = await parts.refusal(asked(workspace=str(repo)))

    assert refused == code
    assert reported in sentence
    assert len(sentence) < 300
    assert not (repo / ".forge").exists()
    assert (other / ".forge/memory/mem_other.md").exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"content": f"push with {SECRET}"},
        {"content": "text", "category": SECRET},
        {"content": "text", "session_id": SECRET},
        {"content": "text", "supersedes": SECRET},
        {"content": "text", "related": (wire.Edge(SECRET),)},
        {"content": "text", "related": (wire.Edge("mem_1", SECRET),)},
    ],
    ids=lambda fields: list(fields)[-1],
)
async def test_a_secret_is_refused_by_name_before_anything_is_written_or_sent(home, repo, fields):
    embedder = FakeEmbedder()
    async with assembled(home, embedder=embedder) as parts:
        code, reported = await parts.refusal(wire.Remember(workspace=str(repo), **fields))

    assert code == "secret"
    assert "GitHub token" in reported
    assert "--allow-secret" in reported
    assert SECRET not in reported
    assert not (repo / ".forge").exists()
    assert embedder.texts == []


async def test_who_insists_gets_the_whole_text_back_and_no_one_else_gets_the_secret(home, repo):
    embedder = FakeEmbedder()
    async with assembled(home, embedder=embedder) as parts:
        reported = await parts.ask(
            wire.Remember(workspace=str(repo), content=f"push with {SECRET}", allow_secret=True)
        )
        (shown,) = (await parts.ask(seen_after(reported, repo))).memories
        await until(lambda: embedder.texts)

    assert "GitHub token" in reported.reason
    assert "agents will see it" in reported.reason
    assert (shown.content, shown.redacted) == (f"push with {SECRET}", ())
    assert embedder.texts == ["push with [redacted]"]


async def test_what_is_insisted_on_is_shown_without_its_secret_once_the_file_is_edited(home, repo):
    async with assembled(home) as parts:
        reported = await parts.ask(
            wire.Remember(workspace=str(repo), content=f"push with {SECRET}", allow_secret=True)
        )
        path = Path(reported.path)
        fresh = path.with_name(".fresh")  # as an editor does that renames: what is being saved is not read
        fresh.write_text(path.read_text() + " and hope")
        fresh.rename(path)
        rebuilt = await parts.ask(wire.Rebuild(workspace=str(repo), wait=True))
        (shown,) = (await parts.ask(seen_after(rebuilt, repo, reported.memory_id))).memories

    assert (shown.content, shown.redacted) == ("push with [redacted] and hope", ("GitHub token",))
    assert shown.origin == "agent"  # what the file says of itself, as it makes less of it


async def test_private_spans_are_left_out_of_what_is_remembered_and_that_is_said(home, repo):
    async with assembled(home) as parts:
        reported = await parts.ask(
            wire.Remember(workspace=str(repo), content=f"we use goose <private>{SECRET}</private>daily")
        )
        code, _ = await parts.refusal(
            wire.Remember(workspace=str(repo), content="<private>nothing else</private>")
        )

    assert "private" in reported.reason
    assert Path(reported.path).read_text().endswith("we use goose daily")
    assert code == "invalid"


@pytest.mark.parametrize("origin", ["typed", "model", "file", "import", "me", ""])
async def test_a_client_cannot_claim_an_origin_that_only_the_daemon_knows(home, repo, origin):
    async with assembled(home) as parts:
        code, reported = await parts.refusal(
            wire.Remember(workspace=str(repo), content="text", origin=origin)
        )

    assert code == "invalid"
    assert "agent, explicit" in reported


async def test_an_origin_that_a_file_claims_is_not_believed(home, repo):
    put(home, msgspec.structs.replace(memory("mem_u", "by hand", scope="user"), origin="typed"))
    async with assembled(home) as parts:
        (found,) = (await parts.ask(wire.ListMemories(workspace=str(repo), min_generation="e1:1"))).memories

    assert found.origin == "file"


async def test_status_names_memories_that_are_shown_without_a_secret(home, repo):
    put(home, memory("mem_u", f"push with {SECRET}", scope="user"), memory("mem_v", "v", scope="user"))
    async with assembled(home) as parts:
        await parts.ask(wire.Rebuild(workspace=str(repo), wait=True))
        report = await parts.ask(wire.Status(workspace=str(repo)))

    of_user = next(root for root in report.roots if root.scope == "user")
    assert (of_user.redacted, of_user.redacted_ids) == (1, ("mem_u",))


GOOSE = "We deploy with goose on Mondays."
WAYS = {
    "forgotten": lambda top: wire.Forget(workspace=top, memory_id="mem_1"),
    "erased": lambda top: wire.Forget(workspace=top, memory_id="mem_1", erase_now=True),
    "undone": lambda top: wire.Undo(workspace=top),
    "dropped": lambda top: wire.Review(workspace=top, drop=("mem_w",)),
}
WORDINGS = (GOOSE, "we deploy with **goose** on mondays", f"Tabs are four wide. {GOOSE} Ask Ann.")
WRITES = {
    "repo": partial(wire.Remember),
    "user": partial(wire.Remember, scope="user"),
    "agent": partial(wire.Remember, scope="agent", agent_id="a"),
    "session": partial(wire.Remember, scope="session", agent_id="a", session_id="s"),
    "a version": partial(wire.Remember, supersedes="mem_2"),
    "an edit": partial(wire.Edit, memory_id="mem_2"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("write", WRITES)
async def test_an_agent_does_not_write_again_what_a_person_forgot(home, repo, way, write):
    """In any words that say the same, and in any scope; a person may say it again, and then it is kept."""
    captured = msgspec.structs.replace(memory("mem_1", GOOSE), trigger="cadence")
    put(repo, captured, memory("mem_2", "Tabs are four wide."))
    root = Root(str(repo), Scope.REPO)
    async with assembled(home) as parts:
        await parts.loaded(repo)
        if way == "dropped":
            (repo / ".forge/memory/mem_1.md").unlink()
            waiting = memory("mem_w", GOOSE, created_at=utc_now())
            await parts.state.to_review.add([DecidedMemory(root, waiting, waits="why")])
        assert (await parts.ask(WAYS[way](str(repo)))).status == "ok"
        for content in WORDINGS:
            code, reported = await parts.refusal(WRITES[write](workspace=str(repo), content=content))
            assert (code, "`forgectl remember`" in reported, "goose" in reported) == (
                "forgotten",
                True,
                False,
            )
        other = WRITES[write](workspace=str(repo), content="We deploy with goose on Fridays.")
        assert (await parts.ask(other)).status == "ok"

        said = await parts.ask(wire.Remember(workspace=str(repo), content=GOOSE, origin="explicit"))
        again = await parts.ask(wire.Remember(workspace=str(repo), content=GOOSE))
        assert (said.status, again.memory_id, again.existed) == ("ok", said.memory_id, True)


def seen_after(reported, repo, *ids):
    return wire.GetMemories(
        workspace=str(repo), ids=ids or (reported.memory_id,), min_generation=reported.generation
    )


async def test_where_memory_is_off_nothing_is_written_read_or_watched(home, repo):
    put(repo, memory("mem_1", "text"))
    (repo / ".forge/config.toml").write_text("[memory]\nenabled = false\n")
    place = str(repo)
    async with assembled(home) as parts:
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
        assert statuses == {"disabled"}
        assert parts.indexer.indexes() == ()
    assert len(list((repo / ".forge/memory").iterdir())) == 1


# --- get, list, history -------------------------------------------------------------------------------


async def test_an_id_in_both_scopes_is_two_memories(home, repo):
    put(repo, memory("a", "of the repo"))
    put(home, memory("a", "of the user", scope="user"))
    async with assembled(home) as parts:
        both = await parts.ask(wire.GetMemories(workspace=str(repo), ids=("a", "no")))
        one = await parts.ask(wire.GetMemories(workspace=str(repo), ids=("a",), scope="user"))

    assert [each.content for each in both.memories] == ["of the repo", "of the user"]
    assert both.missing == ("no",)
    assert [each.content for each in one.memories] == ["of the user"]


async def test_what_names_an_id_of_both_scopes_has_to_say_which(home, repo):
    put(repo, memory("a", "of the repo"))
    put(home, memory("a", "of the user", scope="user"))
    asked = partial(wire.History, workspace=str(repo), memory_id="a")
    async with assembled(home) as parts:
        for request in (asked(), wire.Forget(workspace=str(repo), memory_id="a")):
            code, reported = await parts.refusal(request)
            assert code == "invalid"
            assert "--scope repo or --scope user" in reported
        (one,) = (await parts.ask(asked(scope="user"))).memories
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="a", scope="repo"))

    assert one.content == "of the user"
    assert not (repo / ".forge/memory/a.md").exists()
    assert (home / ".forge/memory/a.md").exists()


async def test_an_edge_into_another_root_is_refused(home, repo):
    put(home, memory("mem_u", "of the user", scope="user"))
    edge = (wire.Edge("mem_u"),)
    async with assembled(home) as parts:
        code, reported = await parts.refusal(wire.Remember(workspace=str(repo), content="x", related=edge))
        good = await parts.ask(wire.Remember(workspace=str(repo), content="x", related=edge, scope="user"))

    assert (code, good.status) == ("not_found", "ok")
    assert "scope repo" in reported


async def listed(parts, repo, **fields):
    return await parts.ask(wire.ListMemories(workspace=str(repo), **fields))


async def test_a_list_is_newest_first_heads_only_and_paged(home, repo):
    put(repo, *(memory(f"m{n}", f"text {n}", created_at=f"2025-01-0{n + 1}T00:00:00Z") for n in range(5)))
    put(repo, memory("m9", "new", supersedes="m4", version=2, created_at="2025-02-01T00:00:00Z"))
    async with assembled(home) as parts:
        page = await listed(parts, repo, limit=3)
        assert (ids(page), page.total) == (["m9", "m3", "m2"], 5)
        assert ids(await listed(parts, repo, limit=3, offset=3)) == ["m1", "m0"]
        everything = await listed(parts, repo, all_versions=True)
        assert ids(everything) == ["m9", "m4", "m3", "m2", "m1", "m0"]
        for limit, offset in ((-1, 0), (0, 0), (10, 99), (10, -5), (10**30, 10**30)):
            odd = await listed(parts, repo, limit=limit, offset=offset)
            assert odd.total == 5
            assert len(odd.memories) in (0, 5)


async def test_a_history_is_the_chain_oldest_first_with_what_is_odd(home, repo):
    put(
        repo,
        memory("m1", "one"),
        memory("m2", "two", supersedes="m1", version=2),
        memory("m3", "other two", supersedes="m1", version=2, created_at="2026-01-01T00:00:00Z"),
    )
    async with assembled(home) as parts:
        by_oldest, by_head = [
            await parts.ask(wire.History(workspace=str(repo), memory_id=each)) for each in ("m1", "m3")
        ]

    assert ids(by_oldest) == ids(by_head) == ["m1", "m2", "m3"]
    assert [each.path for each in by_oldest.memories] == [
        str(repo / f".forge/memory/{each}.md") for each in ("m1", "m2", "m3")
    ]
    assert by_oldest.flags == ("fork",)
    assert [each.is_head for each in by_head.memories] == [False, True, True]
    assert [each.concurrent_heads for each in by_head.memories] == [(), ("m3",), ("m2",)]


async def test_before_the_first_build_no_message_is_sent_that_there_is_nothing(home, repo):
    put(repo, memory("m1", "one"))
    embedder = FakeEmbedder()
    async with assembled(home, embedder, lexical=False) as parts:
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
        every, got, (code, _) = await asyncio.gather(*asking)
        embedder.hold.set()

    assert (every.status, got.status, code) == ("not_ready", "not_ready", "busy")


# --- forget -------------------------------------------------------------------------------------------


WALRUS = (
    memory("m1", "walrus one"),
    memory("m2", "walrus two", supersedes="m1", version=2),
    memory("m3", "x"),
)


@pytest.mark.parametrize("failing", ["down", "hanging"])
async def test_a_memory_can_be_forgotten_while_the_provider_is_gone(home, repo, failing):
    put(repo, memory("m1", "one"), memory("m2", "two"))
    embedder = FakeEmbedder()
    async with assembled(home, embedder, lexical=False) as parts:
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
        assert (await forgetting).ids == ("m1",)


# --- before the state is read, and without it ----------------------------------------------------------

NAMES_A_MEMORY = {"memory_id", "ids", "supersedes", "keep"}
# Each verb that names a memory, with its request for one that is there.
BY_ID = {
    wire.Edit: lambda one, other: {
        "memory_id": one,
        "content": "another text",
        "relate": (wire.Edge(other),),
    },
    wire.Move: lambda one, _: {"memory_id": one, "to": "user"},
    wire.Remember: lambda one, other: {
        "content": "newer",
        "supersedes": one,
        "related": (wire.Edge(other),),
    },
    wire.Forget: lambda one, _: {"memory_id": one},
    wire.Restore: lambda one, _: {"memory_id": one},
    wire.History: lambda one, _: {"memory_id": one},
    wire.GetMemories: lambda one, _: {"ids": (one,)},
    wire.Undo: lambda one, _: {"ids": (one,)},
    wire.Review: lambda one, _: {"keep": (one,)},
    wire.Dead: lambda one, _: {"action": "show", "ids": (one,)},
}


async def test_before_the_state_is_read_no_verb_says_that_a_memory_is_not_there(home, repo):
    """Until then every file of the repository counts as withheld; the request waits, however long."""
    assert set(BY_ID) == {kind for kind in wire.REQUESTS if NAMES_A_MEMORY & set(kind.__struct_fields__)}
    ids = {}
    captured = msgspec.structs.replace(memory("mem_captured", "said", scope="user"), trigger="cadence")
    async with assembled(home, trusting=False) as parts:
        reported = [
            await parts.ask(wire.Remember(workspace=str(repo), content=f"fact number {each}"))
            for each in range(len(BY_ID) + 1)
        ]
        other, *each_its_own = [each.memory_id for each in reported]
        ids = dict(zip(BY_ID, each_its_own, strict=True))
        await parts.ask(wire.Forget(workspace=str(repo), memory_id=ids[wire.Restore]))
        put(home, captured)
        proposed = memory("mem_proposed", "Ports start at 9000.", created_at=utc_now())
        await parts.state.to_review.add(
            [DecidedMemory(Root(str(repo), Scope.REPO), proposed, waits="pasted")]
        )
        await parts.state.events.give_up(Event(id="ev_1", received_at=utc_now()), "five calls failed")
        ids |= {wire.Undo: captured.id, wire.Review: proposed.id, wire.Dead: "ev_1"}

    def place(kind):
        return {"workspace": str(repo)} if "workspace" in kind.__struct_fields__ else {}

    async with assembled(home, trusting=False, opens=False) as parts:
        asked = {
            kind: asyncio.create_task(parts.ask(kind(**fields(ids[kind], other), **place(kind))))
            for kind, fields in BY_ID.items()
        }
        early, _ = await asyncio.wait(asked.values(), timeout=0.2)
        assert {type(task.exception()) for task in early} <= {NotReady}
        parts.open_state()
        replies = dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))
    assert {
        kind: (reply.status, reply.reason) for kind, reply in replies.items() if reply.status != "ok"
    } == {}
    assert replies[wire.GetMemories].missing == replies[wire.Dead].missing == ()


WITHHELD = {
    kind: fields
    for kind, fields in BY_ID.items()
    if kind in {wire.Edit, wire.Move, wire.Remember, wire.History}
}


@pytest.mark.parametrize("kind", WITHHELD, ids=lambda kind: kind.__name__)
async def test_a_memory_that_is_withheld_is_named_as_that(home, repo, kind):
    put(repo, memory("mem_1", "text"), memory("mem_2", "text two"))
    async with assembled(home, trusting=False) as parts:
        asked = kind(workspace=str(repo), **WITHHELD[kind]("mem_1", "mem_2"))
        code, reported = await parts.refusal(asked)
        assert code == "invalid"
        assert "exists but is not used" in reported
        linked = wire.Remember(workspace=str(repo), content="x", related=(wire.Edge("mem_2"),))
        assert "exists but is not used" in (await parts.refusal(linked))[1]
        got = await parts.ask(wire.GetMemories(workspace=str(repo), ids=("mem_1", "mem_9")))
        assert got.missing == ("mem_1", "mem_9")
        assert got.reason == "not used until you allow it: mem_1"


@pytest.mark.parametrize("kind", WITHHELD, ids=lambda kind: kind.__name__)
async def test_where_the_state_cannot_be_read_a_memory_that_is_there_is_not_called_missing(home, repo, kind):
    put(repo, memory("mem_1", "text"), memory("mem_2", "text two"))
    (home / "state").mkdir()
    (home / "state/state.db").mkdir()
    async with assembled(home, trusting=False) as parts:
        code, reported = await parts.refusal(kind(workspace=str(repo), **WITHHELD[kind]("mem_1", "mem_2")))
        assert (code, " exists, but " in reported) == ("busy", True)
        assert parts.state.trust.doubt in reported


# --- dispatch -----------------------------------------------------------------------------------------


async def test_every_verb_of_the_protocol_is_answered(home, repo):
    """A verb that is added to the contract and not to the dispatch would answer with nothing."""
    async with assembled(home) as parts:
        answered = set()
        for kind in set(wire.REQUESTS) - {wire.HandOver}:  # the connection's own
            named = {name: str(repo) for name in ("workspace",) if name in kind.__struct_fields__}
            fields = dict.fromkeys(
                ("session_id", "query", "content", "memory_id", "to", "harness", "name"), "x"
            )
            fields["ids"] = fields["document_ids"] = ()
            fields["documents"] = (wire.Document(source="x.md", text="x"),)
            known = {name: value for name, value in fields.items() if name in kind.__struct_fields__}
            try:
                answered.add((kind, await parts.ask(kind(id=5, **named, **known)) is not None))
            except Exception as error:  # noqa: BLE001 - a typed refusal is an answer
                answered.add((kind, error.code in wire.CODES))
        assert {kind for kind, there in answered if not there} == set()
