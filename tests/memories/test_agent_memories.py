"""Memories of an agent: written, shown and removed like others, and never another agent's."""

from __future__ import annotations

import asyncio
import os
from functools import partial

import pytest

from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.secrets import ALNUM, Draw

SECRET = "gh" + "p_" + Draw("agents").of(ALNUM, 36)


async def remembered(parts, repo, content, agent_id="claude", **fields):
    asked = wire.Remember(
        workspace=str(repo), content=content, **{"scope": "agent", "agent_id": agent_id} | fields
    )
    return await parts.ask(asked)


async def listed(parts, repo, agent_id="claude", **fields):
    scope = {"scope": "agent"} if agent_id else {}
    asked = wire.ListMemories(workspace=str(repo), agent_id=agent_id, **scope | fields)
    return (await parts.ask(asked)).memories


async def shown(parts, repo, written, agent_id="claude", scope="agent"):
    asked = wire.GetMemories(
        workspace=str(repo),
        ids=(written.memory_id,),
        scope=scope,
        agent_id=agent_id,
        min_generation=written.generation,
    )
    (found,) = (await parts.ask(asked)).memories
    return found


# --- where it lies --------------------------------------------------------------------------------------


async def test_an_agents_memory_is_a_file_in_the_agents_own_directory(home, repo):
    async with assembled(home) as parts:
        written = await remembered(parts, repo, "the build needs make -j2", memory_type="learning")

    path = home / ".forge/agents/claude/memory" / f"{written.memory_id}.md"
    assert (written.path, written.scope, written.category) == (str(path), "agent", "patterns")
    assert "the build needs make -j2" in path.read_text()
    assert "learning" not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert (home / ".forge/agents/claude").stat().st_mode & 0o077 == 0


async def test_details_are_shown_with_it_and_kept_by_its_next_version(home, repo):
    reported = {
        "memory_type": "state",
        "importance": 0.25,
        "metadata": {"topic": "debug", "n": [1, {"a": None}]},
    }
    async with assembled(home) as parts:
        first = await remembered(parts, repo, "one", **reported)
        edited = await parts.ask(
            wire.Edit(
                workspace=str(repo),
                memory_id=first.memory_id,
                content="two",
                scope="agent",
                agent_id="claude",
            )
        )
        second = await remembered(parts, repo, "three", supersedes=edited.memory_id, importance=0.5)
        found = [await shown(parts, repo, each) for each in (first, edited, second)]

    assert [each.memory_type for each in found] == ["state"] * 3
    assert [each.importance for each in found] == [0.25, 0.25, 0.5]
    assert [each.metadata for each in found] == [reported["metadata"]] * 3
    assert [each.agent_id for each in found] == ["claude"] * 3
    assert [each.access_count for each in found] == [0] * 3


async def test_a_user_memory_has_a_type_and_an_author_and_is_important_where_no_one_says(home, repo):
    async with assembled(home) as parts:
        written = await remembered(parts, repo, "tea, not coffee", scope="user", memory_type="preference")
        found = await shown(parts, repo, written, agent_id="", scope="user")

    assert (found.memory_type, found.agent_id, found.importance, found.access_count) == (
        "preference",
        "claude",
        1.0,
        0,
    )


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({"agent_id": ""}, "which agent? Give --agent NAME"),
        ({"agent_id": "../x"}, "is not an agent id"),
        ({"agent_id": ".."}, "is not an agent id"),
        ({"agent_id": "."}, "is not an agent id"),
        ({"agent_id": "a/b"}, "is not an agent id"),
        ({"agent_id": "a\0b"}, "is no id"),
        ({"agent_id": "claude\n"}, "is no id"),
        ({"agent_id": "-x"}, "is not an agent id"),
        ({"agent_id": "кот"}, "is not an agent id"),
        ({"agent_id": "ｃlaude"}, "is not an agent id"),
        ({"agent_id": "x" * 65}, "is not an agent id"),
        ({"agent_id": "x" * 300}, "is no id"),
        ({"memory_type": "fact"}, "unknown type 'fact' in scope agent"),
        ({"memory_type": "learning", "scope": "user"}, "unknown type 'learning' in scope user"),
        ({"memory_type": "learning", "scope": "repo"}, "memories of scope repo have no type"),
        ({"importance": 1.5}, "not between 0 and 1"),
        ({"metadata": {"k": "x" * 5000}}, "4096 are the most"),
        ({"metadata": {str(n): n for n in range(33)}}, "32 are the most"),
        ({"metadata": {"k": "a <private>b</private>"}}, "marked private"),
        ({"scope": "org"}, "forgectl ingest"),
        ({"scope": "team"}, "unknown scope 'team'; use one of repo, user, agent, session, org"),
    ],
    ids=lambda value: (
        ", ".join(f"{k}={str(v)[:12]!r}" for k, v in value.items()) if isinstance(value, dict) else ""
    ),
)
async def test_what_cannot_be_kept_is_refused_in_a_sentence_and_leaves_nothing(home, repo, fields, reported):
    asked = {"scope": "agent", "agent_id": "claude"} | fields
    async with assembled(home) as parts:
        code, sentence = await parts.refusal(wire.Remember(workspace=str(repo), content="text", **asked))

    assert code == "invalid"
    assert reported in sentence
    assert len(sentence) < 300
    assert not (home / ".forge").exists()


async def test_a_secret_in_metadata_is_refused_as_one_in_the_text_is(home, repo):
    async with assembled(home) as parts:
        asked = partial(wire.Remember, workspace=str(repo), content="text", scope="agent", agent_id="claude")
        code, sentence = await parts.refusal(asked(metadata={"token": SECRET}))
        assert code == "secret"
        assert SECRET not in sentence
        written = await parts.ask(asked(metadata={"token": SECRET}, allow_secret=True))
        assert "agents will see it" in written.reason


async def test_ids_that_differ_in_case_alone_are_not_two_agents(home, repo):
    async with assembled(home) as parts:
        await remembered(parts, repo, "text", agent_id="Claude")
        code, sentence = await parts.refusal(
            wire.Remember(workspace=str(repo), content="text", scope="agent", agent_id="claude")
        )
        assert (code, "there is an agent 'Claude'" in sentence) == ("invalid", True)
        assert await listed(parts, repo, agent_id="claude") == ()
    assert os.listdir(home / ".forge/agents") == ["Claude"]


async def test_a_link_is_no_agents_directory(home, repo):
    async with assembled(home) as parts:
        await remembered(parts, repo, "text of one", agent_id="one")
        (home / ".forge/agents/two").symlink_to(home / ".forge/agents/one")
        assert await listed(parts, repo, agent_id="two") == ()
        code, sentence = await parts.refusal(
            wire.Remember(workspace=str(repo), content="text", scope="agent", agent_id="two")
        )
    assert (code, "is not a directory, or is a link" in sentence) == ("storage_error", True)


async def test_two_agents_that_write_at_once_lose_nothing(home, repo):
    async with assembled(home) as parts:
        writes = [
            remembered(parts, repo, f"text {number} of {agent}", agent_id=agent)
            for number in range(40)
            for agent in ("codex", "claude")
        ]
        done = await asyncio.gather(*writes)
        last = max((each.generation for each in done), key=lambda token: int(token.rpartition(":")[2]))
        for agent in ("codex", "claude"):
            found = await listed(parts, repo, agent_id=agent, min_generation=last)
            assert {each.content for each in found} == {f"text {number} of {agent}" for number in range(40)}


# --- whose it is ----------------------------------------------------------------------------------------


async def test_nothing_of_an_agent_is_in_a_place_that_does_not_name_it(home, repo):
    """Two agents and requests of every kind: no word of one reaches the other or nobody in particular."""
    async with assembled(home) as parts:
        one = await remembered(parts, repo, "zebra crossing of codex", agent_id="codex")
        await remembered(parts, repo, "giraffe of claude", agent_id="claude")
        mine = await remembered(parts, repo, "common text", agent_id="", scope="repo")
        await shown(parts, repo, one, agent_id="codex")
        workspace, memory_id = str(repo), one.memory_id
        claude = {"scope": "agent", "agent_id": "claude"}
        for scope in (claude, {}, {"scope": "user"}, {"scope": "repo"}, {"scope": "org"}):
            for asked in (
                wire.GetMemories(workspace=workspace, ids=(memory_id, memory_id[4:12]), **scope),
                wire.ListMemories(workspace=workspace, all_versions=True, **scope),
                wire.ListMemories(workspace=workspace, all_repos=not scope, **scope),
                wire.Restore(workspace=workspace, **scope),
            ):
                reply = await parts.ask(asked)
                assert "zebra" not in str(reply)
                assert all(each.scope != "agent" or each.agent_id == "claude" for each in reply.memories)
            for asked in (
                wire.History(workspace=workspace, memory_id=memory_id, **scope),
                wire.Forget(workspace=workspace, memory_id=memory_id, **scope),
                wire.Edit(workspace=workspace, memory_id=memory_id, content="other", **scope),
                wire.Edit(workspace=workspace, memory_id=memory_id, relate=(wire.Edge(memory_id),), **scope),
                wire.Edit(workspace=workspace, memory_id=mine.memory_id, relate=(wire.Edge(memory_id),)),
                wire.Move(workspace=workspace, memory_id=memory_id, to="repo", **scope),
                wire.Restore(workspace=workspace, memory_id=memory_id, **scope),
            ):
                code, sentence = await parts.refusal(asked)
                assert code in {"not_found", "invalid"}
                assert "zebra" not in sentence
        for number in range(200):
            query = "zebra crossing of codex" if number % 2 else "giraffe of claude"
            found = await parts.ask(wire.Search(workspace=workspace, query=query, agent="claude"))
            retrieved = await parts.ask(
                wire.Retrieve(workspace=workspace, agent="claude", messages=(wire.Message("user", query),))
            )
            assert "zebra" not in str(found.memories)
            assert "zebra" not in str(retrieved)
        assert (await shown(parts, repo, one, agent_id="codex")).content == "zebra crossing of codex"


# --- going and coming back ------------------------------------------------------------------------------


async def test_what_is_forgotten_takes_its_details_with_it_and_brings_them_back(home, repo):
    async with assembled(home) as parts:
        written = await remembered(
            parts, repo, "text", memory_type="persona", metadata={"k": "a-word-of-metadata"}
        )
        place = {"workspace": str(repo), "scope": "agent", "agent_id": "claude"}
        gone = await parts.ask(wire.Forget(memory_id=written.memory_id, **place))
        assert gone.ids == (written.memory_id,)
        assert await listed(parts, repo) == ()
        state = b"".join(path.read_bytes() for path in (home / "state").glob("state.db*"))
        assert b"a-word-of-metadata" not in state
        (could,) = (await parts.ask(wire.Restore(**place))).restorable
        assert (could.id, could.scope) == (written.memory_id, "agent")
        (back,) = (await parts.ask(wire.Restore(memory_id=written.memory_id, **place))).memories
        assert (back.memory_type, back.metadata) == ("persona", {"k": "a-word-of-metadata"})


async def test_a_memory_moves_to_an_agent_and_back_with_what_holds_in_both_scopes(home, repo):
    async with assembled(home) as parts:
        written = await remembered(parts, repo, "text", "", scope="repo", importance=0.3, metadata={"a": 1})
        there = await parts.ask(
            wire.Move(workspace=str(repo), memory_id=written.memory_id, to="agent", agent_id="codex")
        )
        assert there.path.startswith(str(home / ".forge/agents/codex/memory/"))
        found = await shown(parts, repo, there, agent_id="codex")
        assert (found.scope, found.importance, found.metadata) == ("agent", 0.3, {"a": 1})
        typed = await remembered(
            parts, repo, "other text", "codex", supersedes=there.memory_id, memory_type="learning"
        )
        back = await parts.ask(
            wire.Move(
                workspace=str(repo), memory_id=typed.memory_id, to="user", scope="agent", agent_id="codex"
            )
        )
        found = await shown(parts, repo, back, agent_id="", scope="user")
        assert (found.content, found.memory_type, found.metadata) == ("other text", "", {"a": 1})
        assert await listed(parts, repo, agent_id="codex") == ()
        code, _ = await parts.refusal(
            wire.Move(
                workspace=str(repo), memory_id=back.memory_id, to="agent", scope="agent", agent_id="claude"
            )
        )
        assert code == "invalid"


async def test_no_other_spelling_and_no_link_recalls_an_agents_memories(home, repo):
    async with assembled(home) as parts:
        await remembered(parts, repo, "zebra of claude")
        (home / ".forge/agents/link").symlink_to(home / ".forge/agents/claude")
        asked = partial(wire.Recall, workspace=str(repo), query="zebra")
        assert "zebra of claude" in str(await parts.ask(asked(agent_id="claude")))
        for name in ("Claude", "link", "codex"):
            assert (await parts.ask(asked(agent_id=name))).memories == ()
