"""Edits of a memory and its links, forgotten versions in the middle, names and defaults."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from forged_client import protocol as wire
from tests.daemon.parts import Parts, assembled
from tests.data.memories import memory, put
from tests.support.provider import FakeEmbedder


async def remembered(parts: Parts, repo: Path, content: str, **fields: object) -> wire.Remembered:
    return await parts.ask(wire.Remember(workspace=str(repo), content=content, **fields))


async def shown(parts: Parts, repo: Path, memory_id: str) -> wire.MemoryRecord:
    await parts.ask(wire.Rebuild(workspace=str(repo), wait=True))
    (found,) = (await parts.ask(wire.GetMemories(workspace=str(repo), ids=(memory_id,)))).memories
    return found


async def chain(parts: Parts, repo: Path, memory_id: str) -> wire.Chain:
    await parts.ask(wire.Rebuild(workspace=str(repo), wait=True))
    return await parts.ask(wire.History(workspace=str(repo), memory_id=memory_id))


def links(found: wire.Chain) -> list[tuple[str, str | None]]:
    return [(each.id, each.supersedes) for each in found.memories]


# --- ids in any Unicode form ----------------------------------------------------------------------------


@pytest.mark.parametrize("on_disk", ["caf\u00e9", "cafe\u0301"])
@pytest.mark.parametrize("typed", ["caf\u00e9", "cafe\u0301", "cafe", "caf"])
async def test_an_id_is_found_in_whatever_unicode_form_it_is_typed(home, repo, on_disk, typed):
    """A file from a Mac has its name in another one than a keyboard gives."""
    put(repo, memory("mem_other", "another"))
    path = repo / f".forge/memory/{on_disk}.md"
    path.write_text("Deploys go by canary.\n")
    named = "caf\u00e9"
    async with assembled(home) as parts:
        if typed == "cafe":  # the beginning of the name on disk is none of its id
            ask = wire.GetMemories(workspace=str(repo), ids=(typed,))
            await parts.ask(wire.Rebuild(workspace=str(repo), wait=True))
            assert (await parts.ask(ask)).memories == ()
            return
        assert (await shown(parts, repo, typed)).id == named
        new = await remembered(parts, repo, "Not by canary.", supersedes=typed)
        assert new.replaced == named
        assert [each.id for each in (await chain(parts, repo, typed)).memories] == [named, new.memory_id]
        gone = await forgotten(parts, repo, typed)
        assert gone.ids == (named,)
        assert not path.exists()
        await parts.ask(wire.Restore(workspace=str(repo), memory_id=typed))
        assert path.read_text() == "Deploys go by canary.\n"


@pytest.mark.parametrize("typed", ["caf\u00e9", "cafe\u0301"])
async def test_a_whole_id_in_another_unicode_form_is_meant_though_others_begin_like_it(home, repo, typed):
    put(repo, memory("mem_other", "another"))
    for name in ("cafe\u0301", "caf\u00e9-2", "cafe\u0301-3"):
        (repo / f".forge/memory/{name}.md").write_text(f"the text of {len(name)}")
    async with assembled(home) as parts:
        assert (await shown(parts, repo, typed)).id == "caf\u00e9"
        assert (await remembered(parts, repo, "new", supersedes=typed)).replaced == "caf\u00e9"


# --- what is left out ---------------------------------------------------------------------------------


async def test_a_new_version_keeps_scope_category_and_links_of_its_head(home, repo):
    put(home, memory("mem_other", "another", scope="user"))
    async with assembled(home) as parts:
        old = await remembered(
            parts, repo, "old", scope="user", category="corrections", related=(wire.Edge("mem_other"),)
        )
        new = await remembered(parts, repo, "new", supersedes=old.memory_id)

        found = await shown(parts, repo, new.memory_id)
        assert (new.replaced, new.base_moved) == (old.memory_id, False)
        assert (found.scope, found.category, found.related) == (
            *("user", "corrections"),
            (wire.Edge("mem_other", "relates-to"),),
        )


async def test_keys_of_the_head_that_no_one_knows_are_in_the_new_version(home, repo):
    path = repo / ".forge/memories/mem_hand.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nid: mem_hand\ntags: [deploy]\n---\nBy hand.\n")
    async with assembled(home) as parts:
        reported = await remembered(parts, repo, "new", supersedes="mem_hand")

    assert "tags: [deploy]\n" in Path(reported.path).read_text()
    assert path.read_text() == "---\nid: mem_hand\ntags: [deploy]\n---\nBy hand.\n"


# --- names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        wire.History(workspace="", memory_id="mem_a"),
        wire.GetMemories(workspace="", ids=("a",)),
        wire.Forget(workspace="", memory_id="a"),
        wire.Edit(workspace="", memory_id="mem_a", content="x"),
        wire.Move(workspace="", memory_id="a", to="user"),
        wire.Remember(workspace="", content="x", supersedes="a"),
        wire.Remember(workspace="", content="x", related=(wire.Edge("a"),)),
    ],
    ids=lambda ask: type(ask).__name__,
)
async def test_a_beginning_of_several_ids_is_refused_with_their_names(home, repo, ask):
    put(repo, memory("mem_a1", "one"), memory("mem_a2", "two"))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        code, reported = await parts.refusal(replace(ask, workspace=str(repo)))

    assert code == "invalid"
    assert "mem_a1, mem_a2" in reported


async def test_a_whole_id_is_meant_though_others_begin_like_it(home, repo):
    put(repo, memory("mem_a", "one"), memory("mem_a2", "two"))
    async with assembled(home) as parts:
        gone = await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_a"))

    assert gone.ids == ("mem_a",)


# --- edit ---------------------------------------------------------------------------------------------


async def test_what_was_just_written_is_known_to_whoever_asks_for_it(home, repo, monkeypatch):
    monkeypatch.setattr("forged.writing.writer._UNASKED_S", 60.0)  # nothing else begins its build
    workspace = str(repo)
    async with assembled(home) as parts:
        first = (await remembered(parts, repo, "the walrus sings")).memory_id
        await parts.ask(wire.Rebuild(workspace=workspace, wait=True))
        newest = (
            await parts.ask(wire.Edit(workspace=workspace, memory_id=first, content="it dances"))
        ).memory_id
        history = await parts.ask(wire.History(workspace=workspace, memory_id=newest))
        assert [each.id for each in history.memories] == [first, newest]
        last = (await remembered(parts, repo, "the carpenter weeps")).memory_id
        got = await parts.ask(wire.GetMemories(workspace=workspace, ids=(last,)))
        assert [each.id for each in got.memories] == [last]


async def test_what_was_there_before_is_shown_though_what_was_just_written_has_no_vector_yet(
    home, repo, monkeypatch
):
    monkeypatch.setattr("forged.daemon.handlers.request_context.PATIENCE_S", 3600.0)
    embedder, workspace = FakeEmbedder(), str(repo)
    async with assembled(home, embedder, lexical=False) as parts:
        first = (await remembered(parts, repo, "the walrus sings")).memory_id
        await parts.ask(wire.Rebuild(workspace=workspace, wait=True))
        embedder.hold = asyncio.Event()
        await remembered(parts, repo, "the carpenter weeps")
        got = await parts.ask(wire.GetMemories(workspace=workspace, ids=(first,)))
        embedder.hold.set()
        assert [each.id for each in got.memories] == [first]


async def test_an_edit_is_a_new_version_that_keeps_the_rest(home, repo):
    put(repo, memory("mem_1", "old", related=["mem_2"]), memory("mem_2", "other"))
    async with assembled(home) as parts:
        reported = await parts.ask(wire.Edit(workspace=str(repo), memory_id="mem_1", content="new"))

        found = await shown(parts, repo, reported.memory_id)
        assert (reported.replaced, reported.version, found.content) == ("mem_1", 2, "new")
        assert (found.category, found.related) == ("patterns", (wire.Edge("mem_2", "relates-to"),))
        assert (repo / ".forge/memory/mem_1.md").exists()


@pytest.mark.parametrize("base", ["mem_1", "1"])
async def test_an_edit_of_a_version_that_is_not_the_newest_any_more_is_a_conflict(home, repo, base):
    put(repo, memory("mem_1", "old"))
    async with assembled(home) as parts:
        ask = wire.Edit(workspace=str(repo), memory_id="mem_1", base=base, content="mine")
        other = await remembered(parts, repo, "theirs", supersedes="mem_1")
        code, reported = await parts.refusal(ask)
        await parts.ask(wire.Edit(workspace=str(repo), memory_id="mem_1", base="2", content="mine"))
        heads = [each.content for each in (await chain(parts, repo, "mem_1")).memories]

    assert code == "conflict"
    assert other.memory_id in reported
    assert "nothing was written" in reported
    assert heads == ["old", "theirs", "mine"]


async def test_an_edit_that_changes_nothing_writes_nothing(home, repo):
    async with assembled(home) as parts:
        old = await remembered(parts, repo, "text")
        reported = await parts.ask(wire.Edit(workspace=str(repo), memory_id=old.memory_id, content="text"))

    assert (reported.memory_id, reported.existed) == (old.memory_id, True)
    assert len(list((repo / ".forge/memory").glob("*.md"))) == 1


# --- links --------------------------------------------------------------------------------------------


async def test_a_link_is_added_changed_and_taken_away_in_new_versions(home, repo):
    put(repo, memory("mem_1", "text"), memory("mem_2", "other"))
    async with assembled(home) as parts:

        async def linked(**fields: object) -> tuple[wire.Edge, ...]:
            reported = await parts.ask(wire.Edit(workspace=str(repo), memory_id="mem_1", **fields))
            return (await shown(parts, repo, reported.memory_id)).related

        assert await linked(relate=(wire.Edge("mem_2"),)) == (wire.Edge("mem_2", "relates-to"),)
        assert await linked(relate=(wire.Edge("mem_2", "refines"),)) == (wire.Edge("mem_2", "refines"),)
        assert await linked(unrelate=("2",)) == ()
        assert await linked(content="new", relate=(wire.Edge("mem_2"),)) == (
            wire.Edge("mem_2", "relates-to"),
        )
        assert await linked(category="patterns") == (wire.Edge("mem_2", "relates-to"),)
        again = await parts.ask(
            wire.Edit(workspace=str(repo), memory_id="mem_2", relate=(wire.Edge("mem_1"),))
        )
        same = await parts.ask(
            wire.Edit(workspace=str(repo), memory_id="mem_2", relate=(wire.Edge("mem_1"),))
        )
        refused = await parts.refusal(wire.Edit(workspace=str(repo), memory_id="mem_2", unrelate=("mem_9",)))

    assert (again.existed, same.existed, same.memory_id) == (False, True, again.memory_id)
    assert refused == ("not_found", "it has no link to 'mem_9'")


async def test_a_fork_is_shown_with_both_heads_until_one_replaces_the_other(home, repo):
    put(
        repo,
        memory("mem_r", "We use goose."),
        memory("mem_a", "We use atlas.", supersedes="mem_r", version=2),
        memory("mem_b", "We use flyway.", supersedes="mem_r", version=2),
    )
    async with assembled(home) as parts:
        await parts.loaded(repo)
        listed = await parts.ask(wire.ListMemories(workspace=str(repo)))
        found = (
            await parts.ask(wire.Search(workspace=str(repo), query="which migrations: goose, atlas"))
        ).memories
        block = await parts.ask(
            wire.Retrieve(workspace=str(repo), messages=(wire.Message("user", "goose or atlas or flyway?"),))
        )
        status = await parts.ask(wire.Status(workspace=str(repo)))

        assert {each.id: each.concurrent_heads for each in listed.memories} == {
            "mem_a": ("mem_b",),
            "mem_b": ("mem_a",),
        }
        assert [
            (hit.id, [each.id for each in hit.found.concurrent_heads], [each.id for each in hit.found.older])
            for hit in found
        ] == [("mem_b", ["mem_a"], ["mem_r"])]
        assert "[b pattern] We use flyway.\n" in block.text
        assert "[a pattern, in conflict with b] We use atlas.\n" in block.text
        assert [(root.forks, root.fork_ids) for root in status.roots if root.scope == "repo"] == [
            (1, ("mem_b",))
        ]

        await parts.ask(
            wire.Edit(workspace=str(repo), memory_id="mem_b", relate=(wire.Edge("mem_a", "supersedes"),))
        )
        ended = await chain(parts, repo, "mem_r")
        status = await parts.ask(wire.Status(workspace=str(repo)))
        assert ended.flags == ()
        assert [each.is_head for each in ended.memories] == [False, False, False, True]
        assert [root.forks for root in status.roots if root.scope == "repo"] == [0]


# --- a version in the middle --------------------------------------------------------------------------

THREE = (
    memory("mem_1", "first"),
    memory("mem_2", "second", supersedes="mem_1", version=2),
    memory("mem_3", "third", supersedes="mem_2", version=3),
)


async def forgotten(parts: Parts, repo: Path, memory_id: str, **fields: object) -> wire.Forgotten:
    return await parts.ask(wire.Forget(workspace=str(repo), memory_id=memory_id, version_only=True, **fields))


@pytest.mark.parametrize("erase_now", [False, True])
@pytest.mark.parametrize(
    ("gone", "left"),
    [
        ("mem_1", [("mem_2", None), ("mem_3", "mem_2")]),
        ("mem_2", [("mem_1", None), ("mem_3", "mem_1")]),
        ("mem_3", [("mem_1", None), ("mem_2", "mem_1")]),
    ],
)
async def test_a_version_that_is_forgotten_leaves_its_chain_whole(home, repo, gone, left, erase_now):
    put(repo, *THREE)
    async with assembled(home) as parts:
        receipt = await forgotten(parts, repo, gone, erase_now=erase_now)
        found = await chain(parts, repo, left[-1][0])
        listed = await parts.ask(wire.ListMemories(workspace=str(repo)))

    assert receipt.ids == (gone,)
    assert links(found) == left
    assert found.flags == ()
    assert [each.id for each in listed.memories] == [left[-1][0]]


async def test_of_the_file_that_names_another_predecessor_nothing_else_changes(home, repo):
    by_hand = (
        b"---\r\n# a comment\r\nid: mem_3\r\nversion: 3\r\nsupersedes:   mem_2   # why\r\n"
        b"cues: [a, b]\r\n---\r\ncaf\xc3\xa9, third\r\n"
    )
    put(repo, *THREE[:2])
    path = repo / ".forge/memory/mem_3.md"
    path.write_bytes(by_hand)
    path.chmod(0o644)
    async with assembled(home) as parts:
        await forgotten(parts, repo, "mem_2")

    assert path.read_bytes() == by_hand.replace(b"supersedes:   mem_2   # why", b"supersedes: mem_1")
    assert path.stat().st_mode & 0o777 == 0o644
    assert sorted(each.name for each in path.parent.iterdir()) == ["mem_1.md", "mem_3.md"]


async def test_a_pinned_root_and_an_origin_follow_the_file_that_is_changed(home, repo):
    async with assembled(home, trusting=False) as parts:
        one = await remembered(parts, repo, "first")
        two = await remembered(parts, repo, "second", supersedes=one.memory_id)
        three = await remembered(parts, repo, "third", supersedes=two.memory_id)
        await parts.ask(wire.Trust(workspace=str(repo), action="trust", mode="locked"))
        await forgotten(parts, repo, two.memory_id)
        found = await shown(parts, repo, three.memory_id)
        held = await parts.ask(wire.Review(workspace=str(repo)))

    assert (found.supersedes, found.origin) == (one.memory_id, "agent")
    assert held.files == ()


async def test_two_versions_of_a_first_one_that_goes_stay_versions_of_one_memory(home, repo):
    put(
        repo,
        memory("mem_r", "r"),
        memory("mem_a", "a", supersedes="mem_r", version=2),
        memory("mem_b", "b", supersedes="mem_r", version=2),
    )
    async with assembled(home) as parts:
        await forgotten(parts, repo, "mem_r")
        found = await chain(parts, repo, "mem_a")

    assert [each.id for each in found.memories] == ["mem_a", "mem_b"]
    assert "fork" in found.flags
