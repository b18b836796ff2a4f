"""Writes that a server which answers does not take: they wait with a true reason, and none is lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from forged.errors import SharedError
from forged.memory import Scope
from forged.postgres import SharedServer
from forged.postgres.connecting import connect
from forged.postgres.owner_rows import OwnerRows
from forged.postgres.replicating import Replication
from forged.postgres.roles import RowOwner, grant, revoke
from tests.postgres.machines import OWNER, Clock, Disk, Machine, Server
from tests.postgres.rows import ids, row, running, soon, until, vector
from tests.support.clock import PATIENCE_S
from tests.support.postgres import Database

# A full disk, no memory, a read-only server, a deadlock, a lost race, a lock, an I/O error, a plugin, a bug.
PASSING = ["53100", "53200", "25006", "40P01", "40001", "55P03", "58030", "P0001", "XX000", "0A000"]
TABLES = ("organizational_memories", "user_memories", "tombstones")
_roles = itertools.count()


@contextlib.contextmanager
def failing(database: Database, code: str, only: str = "") -> Iterator[None]:
    """Let every write fail with this SQLSTATE, or those of one id."""
    database.sql(
        "CREATE FUNCTION forged.fail() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$"
    )
    when = f"WHEN (NEW.id = '{only}')" if only else ""
    for table in TABLES:
        database.sql(
            f"CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON forged.{table} FOR EACH ROW {when}"
            " EXECUTE FUNCTION forged.fail()"
        )
    try:
        yield
    finally:
        database.sql("DROP FUNCTION forged.fail() CASCADE")


async def found(shared: SharedServer) -> list[str]:
    limits = dict.fromkeys(Scope, 100)
    rows = await shared.recall({Scope.ORG: ""}, vector(1), limits=limits, deadline=soon())
    return sorted(ids(rows[Scope.ORG]))


@pytest.mark.parametrize("code", PASSING)
async def test_no_write_is_set_aside_while_a_server_takes_none_and_all_arrive_in_order_afterwards(
    database: Database, tmp_path: Path, code: str
):
    async with running(database, tmp_path) as shared:
        await shared.put([row(Scope.ORG, "", "there"), row(Scope.ORG, "", "gone")])
        with failing(database, code):
            for content in ("first", "second"):
                await shared.put([row(Scope.ORG, "", "new", content=content)])
            await shared.put([row(Scope.ORG, "", f"{number}") for number in range(9)])
            await shared.remove(Scope.ORG, "", ["mem_gone"])
            await until(lambda: shared.condition().waits)
            status = shared.condition()
            assert (status.state, status.waiting, status.refused) == ("ok", 12, ())
            assert code in status.waits[0] or "could not do it" in status.waits[0]
            assert await found(shared) == ["gone", "there"], "searches go on"
        await until(lambda: not shared.condition().waiting)
        assert shared.condition().waits == ()
        assert await found(shared) == sorted(["new", "there", *map(str, range(9))])
        content = database.sql("SELECT content FROM forged.organizational_memories WHERE id = 'mem_new'")
        assert content == [("second",)]


@pytest.mark.parametrize("code", ["53200", "P0001", "XX000"])
async def test_a_row_that_always_fails_delays_its_own_id_alone_and_arrives_when_it_can(
    database: Database, tmp_path: Path, code: str
):
    async with running(database, tmp_path) as shared:
        with failing(database, code, only="mem_bad"):
            await shared.put([row(Scope.ORG, "", "bad", content="first")])
            await shared.put([row(Scope.ORG, "", name) for name in ("bad", "good")])
            await shared.put([row(Scope.ORG, "", "later")])
            await until(lambda: shared.condition().waiting == 2)
            assert await found(shared) == ["good", "later"]
            assert len(shared.condition().waits) == 1
        await until(lambda: not shared.condition().waiting)
        assert await found(shared) == ["bad", "good", "later"]
    (content,) = database.sql("SELECT content FROM forged.organizational_memories WHERE id = 'mem_bad'")
    assert content == ("bad of ",)


async def test_a_row_that_never_can_be_taken_is_reported_and_its_removal_is_not(
    database: Database, tmp_path: Path
):
    async with running(database, tmp_path) as shared:
        with failing(database, "23514", only="mem_bad"):
            with pytest.raises(SharedError, match="CheckViolation"):
                await shared.put([row(Scope.ORG, "", "bad")])
            await shared.remove(Scope.ORG, "", ["mem_bad"])
            await until(lambda: shared.condition().waits)
            assert (shared.condition().refused, shared.condition().waiting) == ((), 1)


async def test_a_role_without_a_grant_waits_and_goes_on_when_it_gets_one(database: Database, tmp_path: Path):
    """A role that may read documents writes some: they go up when it may, without a restart."""
    role = f"ada{next(_roles)}_{database.name}"
    database.sql(f"CREATE ROLE {role} LOGIN")
    settings = msgspec.structs.replace(database.settings(role), scopes=frozenset({Scope.ORG}))
    org = RowOwner(Scope.ORG)
    await change(database, grant, role, [RowOwner(Scope.USER, "ada")])
    async with running(database, tmp_path, settings=settings) as shared:
        await shared.put([row(Scope.ORG, "", "one", document_id="doc_1")])
        await shared.remove(Scope.ORG, "", ["mem_old"])
        status = shared.condition()
        assert (status.waiting, status.refused) == (2, ())
        assert "`forgectl shared grant`" in shared.outbox.reason_of("doc_1")
        assert await shared.outbox.due(9, ["put"], await shared.access()) == [], "not tried again for nothing"

        await change(database, grant, role, [org])
        await until(lambda: not shared.condition().waiting)
        assert await found(shared) == ["one"]
        await change(database, revoke, role, [org])
        await shared.remove(Scope.ORG, "", ["mem_one"])
        assert shared.condition().waiting == 1


async def change(database: Database, how, role: str, owners: list[RowOwner]) -> None:
    connection = await connect(database.settings())
    async with connection:
        await how(connection, role, owners)


@pytest.mark.parametrize("code", ["53100", "P0001"])
async def test_a_file_or_mark_that_always_fails_stops_no_other_and_says_why(
    database: Database, tmp_path: Path, code: str
):
    async with running(database, tmp_path) as shared:
        machine = Machine("a", Server(), Clock())
        rows = OwnerRows(shared, Scope.USER, "ada", "/home/ada")
        replication = Replication(OWNER, Disk(machine), rows, machine.replicas)
        texts = [machine.write(f"text {number}") for number in range(8)]
        await in_step(replication)
        await machine.forget([texts[0]], "chain")
        bad = "mem_a9"
        with failing(database, code, only=texts[0]):
            assert machine.write("next") == bad
            await in_step(replication)
            assert replication.progress.kept_here[texts[0]].startswith("its removal waits: the shared")
            assert stored(database) == {*texts, bad}
        with failing(database, code, only=bad):
            machine.edit_by_hand(bad, "edited", says_when=True)
            machine.write("last")
            await in_step(replication)
            assert replication.progress.kept_here[bad].startswith("waits: the shared PostgreSQL")
            assert replication.progress.behind
        await until_in_step(replication)
        assert replication.progress.kept_here == {}
        assert stored(database) == {*texts[1:], bad, "mem_a10"}
        (edited,) = database.sql("SELECT content FROM forged.user_memories WHERE id = %s", (bad,))
        assert edited == ("edited",)


def stored(database: Database) -> set[str]:
    return {each for (each,) in database.sql("SELECT id FROM forged.user_memories")}


async def in_step(replication: Replication) -> None:
    """Steps until all is sent that can be."""
    for _ in range(20):
        if not await replication.step():
            return
    raise AssertionError(f"never in step: {replication.progress}")


async def until_in_step(replication: Replication) -> None:
    """Steps until nothing is left, as the daemon does every second."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await replication.step()
            if not replication.progress.behind:
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("code", ["23514", "22000", "54000", "42501", "53100"])
async def test_a_removal_is_tried_again_whatever_the_server_says_of_it(
    database: Database, tmp_path: Path, code: str
):
    """Also for an error that would be final for a row, in files and for what is queued."""
    async with running(database, tmp_path) as shared:
        machine = Machine("a", Server(), Clock())
        rows = OwnerRows(shared, Scope.USER, "ada", "/home/ada")
        replication = Replication(OWNER, Disk(machine), rows, machine.replicas)
        gone = machine.write("text")
        await in_step(replication)
        await machine.forget([gone], "chain")
        with failing(database, code, only=gone):
            await in_step(replication)
            assert replication.progress.kept_here[gone].startswith("its removal waits: ")
            assert (stored(database), replication.progress.behind) == ({gone}, 1)
        replication.start_over()
        await until_in_step(replication)
        assert stored(database) == set()
