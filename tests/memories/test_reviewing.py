"""Review by a client: kept proposals take the path of all writes."""

from __future__ import annotations

import msgspec
import pytest

from forged.files import Root
from forged.memory import Memory, Scope, new_id, utc_now
from forged.state import DecidedMemory
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put
from tests.support.daemon import on_disk

KEY = "AKIA" + "QWERTYUIOPASDFGH"
ORDER = "Restart the broker after each edit."


def waiting(root: Root, content: str = ORDER, **fields: object) -> DecidedMemory:
    now = utc_now()
    found = Memory(new_id(), content, now, now, 1, root.scope, "project-conventions", "s7", "cadence")
    pasted = "lou: restart"
    changed = msgspec.structs.replace(found, **fields)
    return DecidedMemory(root, changed, waits="it stands beside pasted text", pasted=pasted)


async def put_in(parts, *documents: DecidedMemory) -> list[str]:
    return list(await parts.state.to_review.add(documents))


def roots(home, repo) -> tuple[Root, Root]:
    return Root(str(repo), Scope.REPO), Root(str(home), Scope.USER)


async def reviewed(parts, workspace, **fields) -> wire.Reviewed:
    return await parts.ask(wire.Review(workspace=str(workspace), **fields))


async def test_a_person_sees_what_waits_where_it_came_from_and_what_was_pasted(home, repo):
    mine, users = roots(home, repo)
    async with assembled(home) as parts:
        await put_in(parts, waiting(mine), waiting(users, "Answer in verse."), waiting(Root("/else", "repo")))
        shown = await reviewed(parts, repo)
        outside = await reviewed(parts, home)
        status = await parts.ask(wire.Status())
    assert [(each.content, each.scope, each.root) for each in shown.waiting] == [
        (ORDER, "repo", str(repo)),
        ("Answer in verse.", "user", str(home)),
    ]
    one = shown.waiting[0]
    assert (one.session_id, one.pasted, one.why) == ("s7", "lou: restart", "it stands beside pasted text")
    assert one.created_at
    assert shown.elsewhere == ("/else",)
    assert [each.content for each in outside.waiting] == ["Answer in verse."]  # in no repository
    assert outside.elsewhere == ("/else", str(repo))
    assert status.capture.to_review == 3


async def test_what_is_kept_is_a_typed_memory_and_is_found_at_once(home, repo):
    mine, _ = roots(home, repo)
    async with assembled(home) as parts:
        (first, second) = await put_in(parts, waiting(mine), waiting(mine, "Run make before a commit."))
        done = await reviewed(parts, repo, keep=(first[:-2],))
        edited = await reviewed(parts, repo, keep=(second,), text="Run make lint before a commit.")
        hits = await parts.ask(wire.Search(workspace=str(repo), query="restart the broker edit"))
        listed = await parts.ask(wire.ListMemories(workspace=str(repo)))
    assert (done.kept, [each.id for each in done.waiting]) == ((first,), [second])
    assert (edited.kept, edited.waiting) == ((second,), ())
    assert [each.content for each in hits.memories][:1] == [ORDER]
    assert {(each.content, each.origin) for each in listed.memories} == {
        (ORDER, "typed"),
        ("Run make lint before a commit.", "typed"),
    }


async def test_a_proposal_is_saved_for_another_scope_if_a_person_says_so(home, repo):
    mine, users = roots(home, repo)
    put(repo, memory("mem_1", "Never restart the broker."))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        replacing = waiting(mine, supersedes="mem_1", version=2)
        (one, other) = await put_in(parts, replacing, waiting(users, "Answer in verse."))
        done = await reviewed(parts, repo, keep=(one,), scope="user")
        await reviewed(parts, repo, keep=(other,), scope="repo")
        refused = await parts.refusal(wire.Review(workspace=str(repo), keep=(one,), scope="org"))
        nowhere = await put_in(parts, waiting(users, "Run tox."))
        outside = await parts.refusal(wire.Review(workspace=str(home), keep=tuple(nowhere), scope="repo"))
        after = await parts.ask(wire.ListMemories(workspace=str(repo)))
    assert done.kept == (one,)
    assert {(each.content, each.scope, each.version) for each in after.memories} == {
        ("Never restart the broker.", "repo", 1),
        (ORDER, "user", 1),
        ("Answer in verse.", "repo", 1),
    }
    assert "use one of repo, user" in refused[1]
    assert "there is no place for scope repo here" in outside[1]


async def test_what_it_replaces_is_replaced_when_it_is_kept_and_not_before(home, repo):
    mine, _ = roots(home, repo)
    put(repo, memory("mem_1", "Never restart the broker."))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        ids = await put_in(
            parts,
            waiting(mine, supersedes="mem_1", version=2),
            waiting(mine, "Run tox.", supersedes="mem_gone", version=2),
        )
        before = await parts.ask(wire.ListMemories(workspace=str(repo)))
        await reviewed(parts, repo, keep=tuple(ids))
        after = await parts.ask(wire.ListMemories(workspace=str(repo)))
    assert [each.id for each in before.memories] == ["mem_1"]
    assert {(each.content, each.version) for each in after.memories} == {(ORDER, 2), ("Run tox.", 1)}


async def test_a_secret_is_kept_only_by_who_insists_and_what_is_private_never(home, repo):
    mine, _ = roots(home, repo)
    async with assembled(home) as parts:
        (one,) = await put_in(parts, waiting(mine))
        code, _ = await parts.refusal(wire.Review(workspace=str(repo), keep=(one,), text=f"the key is {KEY}"))
        assert code == "secret"
        assert (on_disk(repo), len(parts.state.to_review.of())) == ([], 1)
        await reviewed(parts, repo, keep=(one,), text="Restart it. <private>Ann's</private>")
    assert [each.content for each in on_disk(repo)] == ["Restart it."]


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({"keep": ("mem_nobody",)}, "waits here"),
        ({"drop": ("mem_nobody",)}, "waits here"),
        ({"text": "x"}, "a text needs exactly one proposal"),
        ({"keep": ("mem_",), "text": "x"}, "several ids begin"),
    ],
)
async def test_what_cannot_be_meant_is_said_and_nothing_is_done(home, repo, fields, reported):
    mine, _ = roots(home, repo)
    async with assembled(home) as parts:
        await put_in(parts, waiting(mine), waiting(mine, "Run tox."))
        _, why = await parts.refusal(wire.Review(workspace=str(repo), **fields))
        assert reported in why
        assert len(parts.state.to_review.of()) == 2
    assert on_disk(repo) == []


async def test_another_repositorys_proposals_cannot_be_decided_from_here(home, repo):
    async with assembled(home) as parts:
        (one,) = await put_in(parts, waiting(Root("/else", "repo")))
        code, _ = await parts.refusal(wire.Review(workspace=str(repo), keep=(one,)))
    assert code == "not_found"


async def test_what_is_forgotten_waits_no_longer(home, repo):
    mine, _ = roots(home, repo)
    put(repo, memory("mem_1", "Restart the broker after each edit."))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        await put_in(parts, waiting(mine, f"{ORDER} And wait."), waiting(mine, "Run tox."))
        done = await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        left = [each.memory.content for each in parts.state.to_review.of()]
    assert left == ["Run tox."]
    assert done.cut_sentences == 1
