"""Memories of agents and sessions for programs: both clients, a real daemon, and a restart."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from forged_client import AsyncClient, Client
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S
from tests.support.daemon import DaemonProcess, Shell, running

SESSION, USER = uuid.uuid4(), None


@pytest.fixture
def daemon(home) -> Iterator[DaemonProcess]:
    put(home, memory("mem_u", "The walrus is the user's.", scope="user"))
    put(home / ".forge/org", memory("mem_o", "A walrus of the handbook.", scope="org"), folder="memory")
    with running(home) as daemon:
        yield daemon


def remember(client: Client, text: str, session: object = SESSION, **fields: object) -> str:
    made = client.remember("/", text, scope="session", session_id=str(session), agent_id="claude", **fields)
    assert made.status == "ok", made
    return made.memory_id


def contents(reply) -> set[str]:
    assert reply.status in {"ok", "empty"}, reply
    return {each.content for each in reply.memories}


async def test_the_call_of_the_seed_is_made_by_both_clients_with_ids_of_any_kind(daemon):
    with daemon.client() as client:
        remember(client, "The walrus sleeps.", metadata={"topic": "debug", "turn": 5})
        remember(client, "The walrus eats.", metadata={"topic": "chat"})
        remember(client, "A walrus of somebody else.", session=uuid.uuid4())

        all_ = client.recall("walrus", SESSION, USER, "claude", None)
        debug = client.recall("walrus", SESSION, USER, "claude", {"topic": "debug", "turn": 5})
        async with AsyncClient(daemon.socket) as agent:
            awaited = await agent.recall("walrus", SESSION, USER, "claude", {"topic": "debug"})

    assert contents(all_) == {
        "The walrus sleeps.",
        "The walrus eats.",
        "The walrus is the user's.",
        "A walrus of the handbook.",
    }
    assert contents(debug) == contents(awaited) == {"The walrus sleeps."}
    assert "The walrus sleeps." in debug.text


def test_a_session_is_recalled_by_its_id_alone_whoever_wrote_into_it(daemon, repo, tmp_path):
    """No agent, user or workspace is named; an end is that of its own agent's session and of no other."""
    session, other = str(SESSION), f"{SESSION}-other"
    writers = {"claude": str(repo), "codex": "/", "helper": str(tmp_path)}
    with daemon.client() as client:
        for agent_id, workspace in writers.items():
            for name in (session, other):
                made = client.remember(
                    workspace,
                    f"The walrus of {agent_id} in {name}.",
                    scope="session",
                    session_id=name,
                    agent_id=agent_id,
                )
                assert made.status == "ok", made
        found = {name: in_session(client, name) for name in (session, other, session[:-1], session.upper())}
        client.capture(str(repo), [], session, kind="session_end")
        unnamed = {name: in_session(client, name) for name in (session, other)}
        client.capture(str(repo), [], session, kind="session_end", agent="claude")
        ended = {name: in_session(client, name) for name in (session, other)}

    of_each = [f"The walrus of {name} in" for name in ("claude", "codex", "helper")]
    assert found == {
        session: [f"{each} {session}." for each in of_each],
        other: [f"{each} {other}." for each in of_each],
        session[:-1]: [],
        session.upper(): [],
    }
    assert unnamed == {session: found[session], other: found[other]}
    assert ended == {session: found[session][1:], other: found[other]}


def in_session(client: Client, session: str) -> list[str]:
    """Recall a session by its id alone."""
    return sorted(each for each in contents(client.recall("walrus", session)) if " in " in each)


def test_a_person_searches_a_session_and_forgets_at_a_shell(daemon, home):
    with daemon.client() as client:
        made = remember(client, "The walrus sleeps.", metadata={"topic": "debug"})
    shell = Shell(home, daemon.socket, home)

    shown = shell.run("search", "walrus", "--session", str(SESSION), "--filter", "topic=debug")
    gone = shell.run("forget", made, "--yes")
    empty = shell.run("search", "walrus", "--session", str(SESSION), "--scope", "session")

    assert made in shown.out
    assert "The walrus sleeps." in shown.out
    assert (gone.code, "erased" in gone.out) == (0, True)
    assert (empty.code, empty.out) == (0, "")
    assert "searched: session" in empty.err


# --- agents and sessions in injections too --------------------------------------------------------------

CONFIG = '[memory]\nembedding_model = "builtin:lexical"\n[scopes]\nretrieve = "session agent"\n'


def said(text):
    return [{"role": "user", "content": text}]


def test_what_an_agent_learned_outlives_the_daemon_and_what_a_session_looked_at_does_not(home, tmp_path):
    workspace = str(tmp_path)
    own = {"scope": "agent", "agent_id": "claude"}
    with running(home, config=CONFIG) as daemon:
        with daemon.client() as client:
            made = client.remember(
                workspace, "The zebra build needs make.", memory_type="learning", metadata={"n": 1}, **own
            )
            client.remember(
                workspace, "We look at the zebra.", scope="session", session_id="s", agent_id="claude"
            )
            client.list(workspace, min_generation=made.generation, **own)
            asked = {"session_id": "s", "turn_id": "t1", "agent": "claude", "mode": "append"}
            found = client.retrieve(workspace, said("Where is the zebra?"), **asked)
            assert {each.scope for each in found.memories} == {"agent", "session"}
            (session, *_) = client.status().scopes
            assert (session.memories, session.engine) == (1, "memory")
        assert daemon.stop() == 0
        daemon.start()
        with daemon.client() as client:
            (known,) = client.list(workspace, **own).memories
            assert (known.memory_type, known.metadata, known.access_count) == ("learning", {"n": 1}, 1)
            assert client.list(workspace, scope="session", session_id="s").memories == ()
            assert client.list(workspace).memories == ()


def test_two_programs_that_answer_as_two_agents_never_see_each_other(home, tmp_path):
    workspace = str(tmp_path)

    def at_work(daemon, agent, other):
        own = {"scope": "agent", "agent_id": agent}
        with daemon.client() as client:
            for number in range(20):
                made = client.remember(workspace, f"Zebra {number} of {agent}.", **own)
                assert made.status == "ok", made
                listed = client.list(workspace, min_generation=made.generation, **own)
                assert listed.total == number + 1
                found = client.retrieve(
                    workspace, said(f"zebra {number}"), session_id="same", turn_id=f"t{number}", agent=agent
                )
                recalled = client.recall("zebra", "same", "", agent, workspace=workspace)
                assert f"of {other}" not in found.text + str(found.memories)
                assert f"of {other}" not in recalled.text + str(recalled.memories)
                assert f"of {agent}" in recalled.text
        return True

    with running(home, config=CONFIG) as daemon, ThreadPoolExecutor(2) as threads:
        works = [
            threads.submit(at_work, daemon, *names) for names in (("claude", "codex"), ("codex", "claude"))
        ]
        assert all(work.result(PATIENCE_S) for work in works)
