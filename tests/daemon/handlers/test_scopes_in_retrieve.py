"""Sessions, agents and documents in an injection: as configured, and only one's own."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from forged.config import Config
from forged.config.values import ScopesConfig
from forged.stores import FileStore, View
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put
from tests.memories.test_agent_memories import remembered
from tests.support.clock import Clock, until
from tests.support.provider import FakeEmbedder

ALL = Config(scopes=ScopesConfig(retrieve="session, agent org"))
NOW = 1_800_000_000.0
_turns = itertools.count()


async def retrieved(parts, repo, text, agent="", session_id="", **fields):
    asked = wire.Retrieve(
        workspace=str(repo),
        agent=agent,
        session_id=session_id,
        messages=(wire.Message("user", text),),
        **{"turn_id": f"t{next(_turns)}", "mode": "append"} | fields,
    )
    reply = await parts.ask(asked)
    parts.handlers.sent(asked, whole=True)
    return reply


def contents(reply):
    return {each.content for each in reply.memories}


def a_document(home, text="zebra rules of the organization"):
    put(home / ".forge/org", memory("mem_doc", text, scope="org"), folder="memory")


@pytest.mark.parametrize("with_model", [False, True])
async def test_each_scope_is_in_the_injection_of_whom_it_is_for(home, repo, with_model):
    a_document(home)
    async with assembled(home, FakeEmbedder() if with_model else None, ALL) as parts:
        await remembered(parts, repo, "zebra of claude")
        await remembered(parts, repo, "zebra of codex", agent_id="codex")
        await remembered(parts, repo, "zebra of session s", scope="session", session_id="s")
        await remembered(parts, repo, "zebra of session t", scope="session", session_id="t")
        await remembered(parts, repo, "zebra of the repository", scope="repo", agent_id="")
        await parts.loaded(repo)
        await parts.ask(wire.Search(workspace=str(repo), query="zebra", agent="claude"))  # opens the roots
        await parts.ask(wire.Search(workspace=str(repo), query="zebra", agent="codex"))
        shared = {"zebra of the repository", "zebra rules of the organization"}
        reply = await retrieved(parts, repo, "zebra", agent="claude", session_id="s")
        assert contents(reply) == shared | {"zebra of claude", "zebra of session s"}
        assert "zebra of session s" in reply.text
        reply = await retrieved(parts, repo, "zebra", agent="codex", session_id="t")
        assert contents(reply) == shared | {"zebra of codex", "zebra of session t"}
        assert contents(await retrieved(parts, repo, "zebra", agent="../claude")) == shared
        assert contents(await retrieved(parts, repo, "zebra")) == shared
        found = await parts.ask(
            wire.Search(workspace=str(repo), query="zebra", agent="codex", session_id="s")
        )
        assert contents(found) == shared | {"zebra of codex", "zebra of session s"}


async def test_what_was_found_is_counted_and_what_a_person_looks_at_is_not(home, repo):
    async with assembled(home, config=ALL) as parts:
        written = await remembered(parts, repo, "zebra of claude")
        await parts.ask(wire.Search(workspace=str(repo), query="zebra", agent="claude"))
        await retrieved(parts, repo, "zebra", agent="claude", mode="plain")
        for session in ("s", "t"):
            await retrieved(parts, repo, "zebra", agent="claude", session_id=session)
        asked = wire.GetMemories(
            workspace=str(repo), ids=(written.memory_id,), scope="agent", agent_id="claude"
        )
        (found,) = (await parts.ask(asked)).memories
        assert found.access_count == 2
        assert found.last_accessed > "2026"


async def test_what_a_session_remembers_is_gone_after_an_hour_also_from_a_turn_that_is_kept(home, repo):
    clock = Clock(NOW)
    async with assembled(home, config=ALL, clock=clock) as parts:
        await remembered(parts, repo, "zebra of the session", scope="session", session_id="s")
        turn = {"agent": "claude", "session_id": "s", "turn_id": "t", "mode": "block"}
        clock.now = NOW + 59 * 60
        assert "zebra" in (await retrieved(parts, repo, "zebra", **turn)).text
        assert "zebra" in (await retrieved(parts, repo, "zebra", **turn)).text
        clock.now = NOW + 61 * 60
        assert "zebra" not in (await retrieved(parts, repo, "zebra", **turn)).text


async def test_the_last_injection_is_explained_without_what_is_anothers(home, repo):
    async with assembled(home, config=ALL) as parts:
        await remembered(parts, repo, "zebra of claude")
        await parts.ask(wire.Search(workspace=str(repo), query="zebra", agent="claude"))
        await retrieved(parts, repo, "zebra", agent="claude", session_id="s")
        for asked in (
            wire.Why(workspace=str(repo), session_id="s"),
            wire.Why(workspace=str(repo), session_id="s", agent="codex"),
            wire.Why(workspace=str(repo)),
        ):
            hidden = await parts.ask(asked)
            assert "zebra of claude" not in str(hidden)
            assert "1 private memories of an agent or session are not shown" in hidden.reason
        shown = await parts.ask(wire.Why(workspace=str(repo), session_id="s", agent="claude"))
        assert [(each.content, each.scope) for each in shown.memories] == [("zebra of claude", "agent")]
        now = await parts.ask(wire.Why(workspace=str(repo), query="zebra", agent="claude"))
        assert [each.scope for each in now.memories] == ["agent"]


async def test_personas_of_an_agent_are_injected_at_the_start_of_a_session(home, repo):
    async with assembled(home, config=ALL) as parts:
        reported = {"memory_type": "persona", "origin": "explicit"}
        await remembered(parts, repo, "you are the careful one", **reported)
        await remembered(parts, repo, "you are the bold one", agent_id="codex", **reported)
        await remembered(parts, repo, "said by a program", memory_type="persona")
        await remembered(parts, repo, "learned by hand", memory_type="learning", origin="explicit")
        for agent in ("claude", "codex"):
            await parts.ask(wire.Search(workspace=str(repo), query="one", agent=agent))
        reply = await retrieved(parts, repo, "please mend the parser", agent="claude", session_id="s")
        assert [(each.content, each.found.found_by) for each in reply.memories] == [
            ("you are the careful one", "pinned")
        ]
        again = await retrieved(parts, repo, "please mend the lexer", agent="claude", session_id="s")
        assert again.text == ""


async def test_a_scope_that_is_not_read_yet_is_named_and_delays_no_request(home, repo, monkeypatch):
    seen = FileStore.view

    async def view(self, generation, deadline):
        found = await seen(self, generation, deadline)
        return View((), waiting=True) if self.scope == "org" else found

    monkeypatch.setattr(FileStore, "view", view)
    async with assembled(home, config=ALL) as parts:
        await remembered(parts, repo, "zebra of the repository", scope="repo", agent_id="")
        reply = await retrieved(parts, repo, "zebra", agent="claude", session_id="s")
        assert contents(reply) == {"zebra of the repository"}
        assert "org is read for the first time" in reply.reason


# --- what a session is given to remember ----------------------------------------------------------------


async def test_a_sessions_memory_says_how_long_it_is_kept_and_that_it_is_lost(home, repo):
    async with assembled(home, clock=Clock(NOW)) as parts:
        written = await remembered(
            parts, repo, "text", scope="session", session_id="s", importance=0.4, metadata={"topic": "x"}
        )
        assert (written.scope, written.path, written.version) == ("session", "", 1)
        assert "until 2027-01-15T09:00:00" in written.reason
        assert "lost if the daemon ends" in written.reason
        again = await remembered(parts, repo, "text", scope="session", session_id="s")
        assert (again.existed, again.memory_id) == (True, written.memory_id)
        (row,) = parts.session_memories.of("s")
        facts = row.facts
        assert (facts.agent_id, facts.user_id, facts.importance) == ("claude", "", 0.4)
        assert facts.metadata == {"topic": "x"}
    assert not (home / ".forge").exists()


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        ({"session_id": ""}, "needs a session_id and an agent_id"),
        ({"agent_id": ""}, "needs a session_id and an agent_id"),
        ({"session_id": "a\nb"}, "printable"),
        ({"session_id": "x" * 201}, "up to 200"),
        ({"content": " \n"}, "the text is blank"),
        ({"content": "x" * 300_000}, "256 KiB"),
        ({"content": "<private>all of it</private>"}, "the text is blank"),
        ({"supersedes": "mem_1"}, "has no supersedes"),
        ({"cues": ("a",)}, "has no cues"),
        ({"memory_type": "fact"}, "memories of scope session have no type"),
        ({"importance": 2.0}, "not between 0 and 1"),
        ({"category": "none"}, "unknown category"),
    ],
)
async def test_what_a_session_cannot_remember_is_refused(home, repo, fields, reported):
    asked = wire.Remember(
        workspace=str(repo), content="text", scope="session", session_id="s", agent_id="claude"
    )
    async with assembled(home) as parts:
        code, sentence = await parts.refusal(msgspec.structs.replace(asked, **fields))
        assert (code, reported in sentence) == ("invalid", True), sentence
        assert parts.session_memories.sessions == 0


async def test_files_are_of_one_user_alone(home, repo):
    config = Config()
    config = msgspec.structs.replace(config, shared=msgspec.structs.replace(config.shared, user_id="ann"))
    async with assembled(home, config=config) as parts:
        assert (await remembered(parts, repo, "text", scope="user", user_id="ann")).status == "ok"
        code, sentence = await parts.refusal(
            wire.Remember(workspace=str(repo), content="other", scope="user", user_id="bob")
        )
        assert (code, "belong to one user" in sentence) == ("invalid", True)


async def test_a_session_that_starts_has_its_agents_memories_read_before_the_first_prompt(home, repo):
    put(home / ".forge/agents/claude", memory("mem_own", "zebra of claude", scope="agent"), folder="memory")
    event = {"session_id": "s", "cwd": str(repo), "hook_event_name": "SessionStart", "source": "startup"}
    async with assembled(home, config=ALL) as parts:
        await parts.ask(wire.Hook(harness="claude", payload=msgspec.json.encode(event)))
        opened = {index.root.top for index in parts.indexer.indexes()}
        assert str(home / ".forge/agents/claude") in opened
        await until(lambda: all(index.map is not None for index in parts.indexer.indexes()))
        assert contents(await retrieved(parts, repo, "zebra", agent="claude")) == {"zebra of claude"}
