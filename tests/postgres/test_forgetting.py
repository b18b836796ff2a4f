"""A memory that met a server and is forgotten here is gone everywhere, also by a run without a server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.postgres.meeting import Machine, a_meeting, alike, running
from tests.support.clock import eventually
from tests.support.postgres import Database
from tests.support.provider import ScriptedProvider
from tests.support.scratch_server import ScratchServer

# Runs that do not reach the server's rows: settings of `[shared]`, and the warning or state in status.
WITHOUT_SERVER = {
    "no url": {"url": None},
    "a url without a meaning": {"url": "postgresql://[broken"},
    "a variable that is not set": {"password": "env:NOBODY_SETS_THIS"},
    "other scopes": {"scopes": "session"},
}


@pytest.fixture(scope="module")
def meeting(server: ScratchServer) -> Database:
    return a_meeting(server, "forged_forgetting")


@pytest.fixture
def three(tmp_path: Path, meeting: Database) -> Iterator[tuple[Machine, Machine]]:
    """Two machines of one user, without a memory."""
    for table in ("user_memories", "agent_memories", "organizational_memories", "tombstones"):
        meeting.sql(f"TRUNCATE forged.{table}")
    machines = [Machine(name, tmp_path, meeting, scopes="user agent org") for name in ("one", "other")]
    with running(*machines):
        yield machines[0], machines[1]


def says_so(machine: Machine) -> bool:
    """Return True if status says that the run uses no server, or has one that fails."""
    warned = " ".join(machine.warnings)
    return "nothing is shared" in warned or "a team's server" in warned or machine.status is not None


@pytest.mark.parametrize("settings", WITHOUT_SERVER.values(), ids=WITHOUT_SERVER)
def test_a_forget_in_a_run_without_a_server_holds_everywhere_when_there_is_one_again(
    three, meeting, settings
):
    one, other = three
    gone, stays = one.remember("The staging password rotates on Mondays."), one.remember("Tabs, please.")
    of_agent = one.remember("The build needs 8 GB.", scope="agent", agent_id="builder")
    document = one.ingest("guide.md", "# Leave\n\nTwenty days of leave a year.")
    alike(one, other, count=2)
    eventually(lambda: rows(meeting) == {gone, stays, of_agent, document})
    one.restart(**settings)
    eventually(lambda: says_so(one))
    one.forget(gone)
    one.forget(of_agent, scope="agent", agent_id="builder")
    one.remove_document("guide.md")
    one.restart()
    eventually(lambda: rows(meeting) == {stays})
    eventually(lambda: set(other.listed()) == {stays})
    assert set(one.listed()) == {stays}


def rows(database: Database) -> set[str]:
    """Ids of memories and documents on the server."""
    found = database.sql(
        "SELECT id FROM forged.user_memories UNION ALL SELECT id FROM forged.agent_memories"
        " UNION ALL SELECT DISTINCT document_id FROM forged.organizational_memories"
    )
    return {each for (each,) in found}


def test_what_this_machine_has_forgotten_or_lacks_is_in_no_answer_of_its_own(server, tmp_path):
    """The server can be read and takes no writes; the other machine still answers."""
    texts = ["The cat is called Mog.", "The dog is called Rex.", "The bird is called Pip."]
    fish = "The fish is called Bubbles."
    meeting = a_meeting(server, "forged_answers", model="scripted")
    with ScriptedProvider(dimension=8) as provider:
        one, other = (
            Machine(name, tmp_path, meeting, scopes="user org", provider=provider)
            for name in ("one", "other")
        )
        with running(one, other):
            forgotten, removed, _ = map(one.remember, texts)
            one.ingest("pets.md", fish)
            alike(one, other, count=3)
            for machine in (one, other):
                eventually(lambda machine=machine: pets(machine) == {*texts, fish})
            with read_only(meeting):
                one.forget(forgotten)
                one.remove_document("pets.md")
                one.path(removed).unlink()
                eventually(lambda: one.status.sync[0].absent == 1)
                assert pets(one) == {texts[2]}
                assert "it is read-only now" in " ".join((*one.status.waits, one.status.sync[0].problem))
                assert one.status.refused == ()
                assert pets(other) == {*texts, fish}
            eventually(lambda: pets(other) == set(texts[1:]))
            assert pets(one) == {texts[2]}, "a hand's removal stays here and is no forget"


def pets(machine: Machine) -> set[str]:
    """What a machine answers, from its files and from the server."""
    with machine.client() as client:
        found = client.recall("How are the pets called?", scopes=["user", "org"])
        assert not found.degraded, found.degraded
    return {each.content for each in found.memories}


@contextlib.contextmanager
def read_only(database: Database) -> Iterator[None]:
    """Let all writes to a database fail, as a standby does."""
    set_read_only(database, True)
    try:
        yield
    finally:
        set_read_only(database, False)


def set_read_only(database: Database, value: bool) -> None:
    """Set it for new connections, and end the others."""
    with psycopg.connect(database.server.url(), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {database.name} SET default_transaction_read_only = {value}")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database.name,)
        )
