"""An agent's memories are its user's on every machine, unless the team has the agent in common."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.memory import Scope
from forged.postgres.connecting import connect
from forged.postgres.roles import RowOwner, grant
from tests.postgres.meeting import Machine, a_meeting, running
from tests.support.clock import eventually
from tests.support.daemon import Shell
from tests.support.postgres import Database
from tests.support.scratch_server import ScratchServer

AGENT = "reviewer"


@pytest.fixture(scope="module")
def meeting(server: ScratchServer) -> Database:
    """A database with a role of each of two users, who both may use the team's agent."""
    made = a_meeting(server, "forged_agents")

    async def grants() -> None:
        async with await connect(made.settings()) as connection:
            for user in ("ada", "bob"):
                owners = [RowOwner(Scope.USER, user), RowOwner(Scope.AGENT, AGENT)]
                await grant(connection, f"{user}_of_agents", owners)

    for user in ("ada", "bob"):
        made.sql(f"CREATE ROLE {user}_of_agents LOGIN")
    asyncio.run(grants())
    return made


@pytest.fixture
def users(tmp_path: Path, meeting: Database, team: str) -> Iterator[tuple[Machine, Machine]]:
    for table in ("user_memories", "agent_memories", "tombstones"):
        meeting.sql(f"TRUNCATE forged.{table}")
    ada, bob = (
        Machine(user, tmp_path, meeting, user, role=f"{user}_of_agents", team_agents=team)
        for user in ("ada", "bob")
    )
    with running(ada, bob):
        yield ada, bob


def remember(machine: Machine, content: str, *options: str, agent: str = AGENT) -> str:
    """Remember something for an agent, as the person at the terminal; return its id."""
    shell = Shell(machine.home, machine.daemon.socket, machine.workspace)
    shell.run_as_person("remember", "--scope", "agent", "--agent", agent, *options, content)
    return next(each for each, text in of_agent(machine, agent).items() if text == content)


def of_agent(machine: Machine, agent: str = AGENT) -> dict[str, str]:
    with machine.client() as client:
        found = client.list(str(machine.workspace), scope="agent", agent_id=agent).memories
        return {each.id: each.content for each in found}


def origins(machine: Machine) -> dict[str, str]:
    with machine.client() as client:
        client.rebuild(str(machine.workspace), wait=True)
        found = client.list(str(machine.workspace), scope="agent", agent_id=AGENT).memories
        return {each.content: each.origin for each in found}


def rows(database: Database) -> set[tuple[str, str]]:
    return set(database.sql("SELECT agent_id, content FROM forged.agent_memories"))


@pytest.mark.parametrize("team", [""])
def test_agents_of_two_users_with_one_name_never_mix_and_need_no_grant(users, meeting):
    ada, bob = users
    remember(ada, "You are terse.", "--type", "persona")
    remember(bob, "You are verbose.", "--type", "persona")
    remember(bob, "Use four spaces.", agent="brand-new")
    expected = {
        ("ada/reviewer", "You are terse."),
        ("bob/reviewer", "You are verbose."),
        ("bob/brand-new", "Use four spaces."),
    }
    eventually(lambda: rows(meeting) == expected)
    for user in ("ada", "bob"):
        seen = meeting.sql("SELECT agent_id, content FROM forged.agent_memories", role=f"{user}_of_agents")
        assert set(seen) == {each for each in expected if each[0].startswith(user)}
    for machine, text in ((ada, "You are terse."), (bob, "You are verbose.")):
        assert list(of_agent(machine).values()) == [text]
        assert origins(machine) == {text: "explicit"}, "it is this user's own"
        assert text in opening(machine)


@pytest.mark.parametrize("team", [AGENT])
def test_an_agent_of_the_team_is_labelled_as_the_teams_and_each_forgets_for_all_what_is_ones_own(
    users, meeting
):
    ada, bob = users
    of_ada = remember(ada, "You are terse.", "--type", "persona")
    of_bob = remember(bob, "Look for races first.")
    both = {of_ada: "You are terse.", of_bob: "Look for races first."}
    eventually(lambda: of_agent(ada) == of_agent(bob) == both)
    for machine in users:
        assert set(origins(machine).values()) == {"team"}, "of nobody's own words"
        assert "terse" not in opening(machine), "and not pinned"

    bob.forget(of_ada, scope="agent", agent_id=AGENT)
    assert of_agent(bob) == {of_bob: "Look for races first."}
    remember(bob, "Then read the tests.")
    eventually(lambda: "Then read the tests." in of_agent(ada).values())
    assert of_ada in of_agent(ada), "another user's forget does not take it"
    assert (AGENT, "You are terse.") in rows(meeting)
    by_hand = "DELETE FROM forged.agent_memories WHERE id = %s RETURNING id"
    assert meeting.sql(by_hand, (of_ada,), role="bob_of_agents") == [], "nor past the program"

    bob.forget(of_bob, scope="agent", agent_id=AGENT)
    eventually(lambda: set(of_agent(ada).values()) == {"You are terse.", "Then read the tests."})
    ada.forget(of_ada, scope="agent", agent_id=AGENT)
    eventually(lambda: rows(meeting) == {(AGENT, "Then read the tests.")})


def opening(machine: Machine) -> str:
    """What a session of the agent begins with."""
    with machine.client() as client:
        client.search(str(machine.workspace), "terse", agent=AGENT)  # reads the agent's files
        message = {"role": "user", "content": "please mend the parser"}
        return client.retrieve(str(machine.workspace), [message], session_id="s", agent=AGENT).text


@pytest.mark.parametrize("team", ["aardvark"])
def test_an_agent_without_a_grant_stops_no_other_and_is_named(users, meeting):
    """Its name is the first in the alphabet."""
    ada, _ = users
    remember(ada, "I may not share this.", agent="aardvark")
    remember(ada, "You are terse.")
    eventually(lambda: rows(meeting) == {("ada/reviewer", "You are terse.")})
    (trouble,) = [each for each in ada.status.sync if each.problem or each.kept_here]
    assert trouble.owner == "aardvark"
    assert "may not do that" in (trouble.problem or " ".join(trouble.reasons.values()))
