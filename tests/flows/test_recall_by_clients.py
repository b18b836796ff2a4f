"""A recall as agents make it: by both clients, over the socket of a real daemon, until it is started anew."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from forged_client import AsyncClient, Client
from tests.data.memories import memory, put
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


def test_a_person_recalls_and_forgets_at_a_shell(daemon, home):
    with daemon.client() as client:
        made = remember(client, "The walrus sleeps.", metadata={"topic": "debug"})
    shell = Shell(home, daemon.socket, home)

    shown = shell.run("recall", "walrus", "--session", str(SESSION), "--filter", "topic=debug")
    gone = shell.run("forget", made, "--yes")
    empty = shell.run("recall", "walrus", "--session", str(SESSION), "--scope", "session")

    assert made in shown.out
    assert "The walrus sleeps." in shown.out
    assert (gone.code, "erased" in gone.out) == (0, True)
    assert (empty.code, empty.out) == (0, "")
