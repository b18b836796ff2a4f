"""Two daemons of one user, each with its own HOME, and a real server that can fail."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.memory import Scope
from forged.postgres.connecting import connect
from forged.postgres.roles import RowOwner, grant
from tests.postgres.meeting import Machine, a_meeting, alike, running
from tests.support.clock import eventually
from tests.support.daemon import Shell
from tests.support.postgres import Database
from tests.support.scratch_server import ScratchServer


@pytest.fixture(scope="module")
def meeting(server) -> Database:
    return a_meeting(server)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, meeting: Database) -> Iterator[tuple[Machine, Machine]]:
    place = tmp_path_factory.mktemp("machines")
    one, other = Machine("one", place, meeting), Machine("other", place, meeting)
    with running(one, other):
        yield one, other


@pytest.fixture
def two(pair: tuple[Machine, Machine], meeting: Database) -> tuple[Machine, Machine]:
    """Both without a memory: what an earlier test left there was removed by hand, and stays away."""
    for machine in pair:
        machine.looks_again()  # or it would not know that what a hand removes was there
        for name in machine.files():
            machine.path(name.removesuffix(".md")).unlink()
        with machine.client() as client:
            client.rebuild(str(machine.workspace), wait=True)  # a watcher that has just begun may miss it
        assert not machine.listed()
    meeting.sql("DELETE FROM forged.user_memories")
    return pair


def test_what_one_machine_remembers_the_other_recalls(two):
    one, other = two
    one.remember("the first memory, by which both are known to be there")
    eventually(other.listed)
    memory_id = one.remember("the staging database is called heron")
    eventually(
        lambda: (
            other.recalled("what is the staging database called?")[:1]
            == ["the staging database is called heron"]
        )
    )
    assert one.path(memory_id).read_bytes() == other.path(memory_id).read_bytes()
    alike(one, other, count=2)


def test_what_is_forgotten_on_one_machine_goes_from_the_other_and_comes_back_when_restored(two, meeting):
    one, other = two
    first = one.remember("use tabs in makefiles")
    second = one.remember("use tabs in makefiles and nowhere else", supersedes=first)
    alike(one, other, count=2)

    other.forget(second)
    eventually(lambda: not one.files())
    eventually(lambda: not meeting.sql("SELECT id FROM forged.user_memories"))
    eventually(lambda: not one.recalled("tabs in makefiles"))

    one.restore(second)
    eventually(lambda: len(other.files()) == 2)
    alike(one, other)
    assert other.history(first)[0] == [first, second]


def test_a_file_that_was_removed_by_hand_stays_away_here_and_stays_there(two):
    one, other = two
    kept = one.remember("kept on one machine alone")
    alike(one, other, count=1)
    other.path(kept).unlink()
    eventually(lambda: not other.listed())

    more = one.remember("something else")
    eventually(lambda: set(other.listed()) == {more})
    other.daemon.stop()
    other.daemon.start()
    last = one.remember("and something more")
    eventually(lambda: set(other.listed()) == {more, last})
    assert set(one.listed()) == {kept, more, last}


def test_a_file_with_a_secret_stays_on_its_machine(two, meeting):
    one, other = two
    secret = "ghp_" + "Zk3Lq9Rt7Wx2Bn5Vc8Mj1Hd4Fg6Ys0PaQeUi"
    one.remember(f"the deploy token is {secret}", allow_secret=True)
    other_id = one.remember("the deploy token is in the vault")
    eventually(lambda: set(other.listed()) == {other_id})
    (rows,) = meeting.sql(
        "SELECT count(*) FROM forged.user_memories WHERE position(%s in content) > 0", (secret,)
    )
    assert rows == (0,)
    assert len(one.files()) == 2


def test_two_users_of_one_server_never_mix(two, tmp_path, meeting):
    ada, bob = two[0], Machine("bobs", tmp_path, meeting, "bob")
    with running(bob):
        ada.remember("ada likes tea")
        bob.remember("bob likes coffee")
        eventually(lambda: len(meeting.sql("SELECT id FROM forged.user_memories")) == 2)
        ada.remember("ada likes green tea best")
        eventually(lambda: len(meeting.sql("SELECT id FROM forged.user_memories")) == 3)
        assert list(bob.listed().values()) == ["bob likes coffee"]
        assert len(ada.files()) == 2


@pytest.mark.long
def test_a_daemon_that_is_killed_in_the_middle_loses_and_doubles_nothing(two):
    one, other = two
    one.cut()
    written = {one.remember(f"fact number {number} of many") for number in range(40)}
    gone = written.pop()
    one.forget(gone)
    one.mend()
    for _ in range(3):
        time.sleep(0.15)  # somewhere in the middle; where, is not for the test to say
        one.daemon.kill()
        other.daemon.kill()
        one.daemon.start()
        other.daemon.start()
    alike(one, other, count=len(written))
    assert {name.removesuffix(".md") for name in other.files()} == written


@pytest.mark.long
def test_a_server_that_is_killed_in_the_middle_loses_nothing_and_is_not_waited_for(tmp_path):
    folder = Path(tempfile.mkdtemp(prefix="forged-pg-", dir="/tmp"))
    server = ScratchServer(folder, durable=True)
    try:
        server.start()
        meeting = a_meeting(server)
        one, other = Machine("one", tmp_path, meeting), Machine("other", tmp_path, meeting)
        with running(one, other):
            written = {one.remember(f"fact number {number} of one") for number in range(15)}
            server.kill()
            one.forget(written.pop())
            written |= {other.remember(f"fact number {number} of the other") for number in range(15)}
            server.start()
            alike(one, other, count=len(written))
            assert {name.removesuffix(".md") for name in one.files()} == written
    finally:
        server.stop()
        shutil.rmtree(folder)


# --- whose words a row has ---------------------------------------------------------------------------------


def a_role_of_ada(database: Database) -> str:
    """A role that row level security limits to Ada's rows."""

    async def grants() -> None:
        async with await connect(database.settings()) as connection:
            await grant(connection, "ada_alone", [RowOwner(Scope.USER, "ada")])

    database.sql("CREATE ROLE ada_alone LOGIN")
    asyncio.run(grants())
    return "ada_alone"


@pytest.mark.parametrize("is_secured", [True, False], ids=["row level security", "a role that sees all"])
def test_words_of_the_user_count_on_another_machine_where_nobody_else_can_write_the_row(
    tmp_path, server, is_secured
):
    meeting = a_meeting(server, f"forged_words_{is_secured}".lower())
    role = a_role_of_ada(meeting) if is_secured else "postgres"
    one, other = (Machine(name, tmp_path, meeting, scopes="user", role=role) for name in ("one", "other"))

    def origins(machine: Machine) -> dict[str, str]:
        with machine.client() as client:
            client.rebuild(str(machine.workspace), wait=True)
            found = client.list(str(machine.workspace), scope="user").memories
        return {each.content: each.origin for each in found}

    believed = "explicit" if is_secured else "file"
    with running(one, other):
        shell = Shell(one.home, one.daemon.socket, one.workspace)
        shell.run_as_person("remember", "--scope", "user", "Answer in Danish.")
        one.remember("The user reads Danish.")
        eventually(lambda: len(other.listed()) == 2)
        assert origins(one) == {"Answer in Danish.": "explicit", "The user reads Danish.": "agent"}
        assert origins(other) == {"Answer in Danish.": believed, "The user reads Danish.": "agent"}

        (memory_id,) = (each for each, text in other.listed().items() if text == "Answer in Danish.")
        eventually(other.is_in_step)
        path = other.path(memory_id)
        path.write_text(path.read_text().replace("in Danish.", "in Dutch."))
        eventually(lambda: "Answer in Dutch." in one.listed().values())
        assert origins(one)["Answer in Dutch."] == believed
