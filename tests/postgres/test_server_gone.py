"""A killed, stopped or frozen server: no acknowledged write is lost, and no client waits."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.errors import SharedError
from forged.memory import Scope
from forged.postgres import SharedServer
from tests.postgres.meeting import Machine, a_meeting
from tests.postgres.meeting import running as machines_running
from tests.postgres.rows import ids, row, running, soon, until, vector
from tests.support.clock import PATIENCE_S
from tests.support.postgres import Database, make_database, migrated
from tests.support.scratch_server import ScratchServer

pytestmark = pytest.mark.long

ORG = {Scope.ORG: ""}


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database of a server that is this test's to kill, and that keeps what it acknowledges."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="forged-pg-", dir="/tmp"))
    server = ScratchServer(folder, durable=True)
    try:
        server.start()
        made = make_database(server, "forged_own")
        asyncio.run(migrated(made))
        yield made
    finally:
        server.stop()
        shutil.rmtree(folder)


async def there(shared: SharedServer) -> list[str]:
    limits = dict.fromkeys(Scope, 5000)
    return sorted(
        ids((await shared.recall(ORG, vector(1), limits=limits, deadline=soon(PATIENCE_S)))[Scope.ORG])
    )


async def storm(own: Database, shared: SharedServer, writes: int, kills: int) -> int:
    """So many writes, and recalls beside them, while the server is killed and started; how many recalls."""
    numbers, recalled, over = iter(range(writes)), itertools.count(), asyncio.Event()

    async def write() -> None:
        for number in numbers:
            await shared.put([row(Scope.ORG, "", f"{number:04}")])

    async def recall() -> None:
        while not over.is_set():
            next(recalled)
            try:
                await shared.recall(ORG, vector(1), deadline=soon(0.5))
            except SharedError:
                await asyncio.sleep(0.005)

    async def kill() -> None:
        for _ in range(kills):
            await asyncio.sleep(random.uniform(0.05, 0.3))
            await asyncio.to_thread(own.server.kill)
            await asyncio.sleep(random.uniform(0.0, 0.2))
            await asyncio.to_thread(own.server.start)

    recalls = [asyncio.create_task(recall()) for _ in range(2)]
    await asyncio.gather(kill(), *(write() for _ in range(4)))
    over.set()
    await asyncio.gather(*recalls)
    return next(recalled)


@pytest.mark.parametrize(
    ("writes", "kills"), [(150, 2), pytest.param(1000, 12, marks=pytest.mark.long)], ids=["some", "many"]
)
async def test_a_server_that_is_killed_loses_and_doubles_nothing_that_was_acknowledged(
    own: Database, tmp_path: Path, writes: int, kills: int
):
    async with running(own, tmp_path) as shared:
        recalls = await storm(own, shared, writes, kills)
        await until(lambda: not shared.condition().waiting)
        await until(lambda: shared.condition().state == "ok")

        assert await there(shared) == [f"{number:04}" for number in range(writes)]
        assert shared.condition().refused == ()
    assert recalls > 0


async def test_writes_to_a_server_that_is_gone_come_to_it_in_their_order_when_it_is_back(
    own: Database, tmp_path: Path
):
    async with running(own, tmp_path) as shared:
        await shared.put([row(Scope.ORG, "", "old", content="before")])
        await asyncio.to_thread(own.server.kill)
        for content in ("first", "second", "third"):
            await shared.put([row(Scope.ORG, "", "old", content=content)])
        await shared.put([row(Scope.ORG, "", "new"), row(Scope.ORG, "", "gone")])
        await shared.remove(Scope.ORG, "", ["mem_gone"])
        reported = shared.condition()
        assert (reported.state, reported.waiting) == ("failing", 5)

    async with running(own, tmp_path) as shared:  # another daemon takes up what waits
        await asyncio.to_thread(own.server.start)
        await until(lambda: not shared.condition().waiting)
        assert await there(shared) == ["new", "old"]
        assert shared.condition().replayed_s is not None
    assert own.sql("SELECT content FROM forged.organizational_memories WHERE id = 'mem_old'") == [("third",)]
    assert own.sql("SELECT id FROM forged.tombstones") == [("mem_gone",)]


async def test_a_server_that_hangs_keeps_no_one_beyond_the_deadline(own: Database, tmp_path: Path):
    """Frozen, it still takes connections and bytes, and answers nothing."""
    async with running(own, tmp_path) as shared:
        await shared.put([row(Scope.ORG, "", "one")])
        group = [own.server.pid, *children(own.server.pid)]
        for pid in group:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(SharedError) as first:
                await shared.recall(ORG, vector(1), deadline=soon(0.3))
            assert first.value.reason == "timeout"

            for _ in range(50):
                with pytest.raises(SharedError):  # nobody waits for a server that is known to hang
                    await shared.recall(ORG, vector(1), deadline=soon(3600))
            await shared.put([row(Scope.ORG, "", "two")])
        finally:
            for pid in group:
                os.kill(pid, signal.SIGCONT)
        await until(lambda: not shared.condition().waiting)
        assert await there(shared) == ["one", "two"]


async def test_whoever_goes_away_while_the_server_hangs_is_gone_at_once(own: Database, tmp_path: Path):
    async with running(own, tmp_path) as shared:
        await shared.put([row(Scope.ORG, "", "one")])
        group = [own.server.pid, *children(own.server.pid)]
        for pid in group:
            os.kill(pid, signal.SIGSTOP)
        try:
            asking = asyncio.create_task(shared.recall(ORG, vector(1), deadline=soon(PATIENCE_S)))
            await asyncio.sleep(0.1)
            asking.cancel()
            await asyncio.wait([asking])
        finally:
            for pid in group:
                os.kill(pid, signal.SIGCONT)


async def test_what_the_server_refuses_for_good_is_reported_and_holds_up_nothing(
    own: Database, tmp_path: Path
):
    own.sql(
        "CREATE FUNCTION forged.no() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '23514'; END $$"
    )
    own.sql(
        "CREATE TRIGGER no BEFORE INSERT ON forged.organizational_memories FOR EACH ROW"
        " WHEN (NEW.id = 'mem_bad') EXECUTE FUNCTION forged.no()"
    )
    async with running(own, tmp_path) as shared:
        await asyncio.to_thread(own.server.kill)
        for name in ("a", "bad", "b"):
            await shared.put([row(Scope.ORG, "", name)])
        await asyncio.to_thread(own.server.start)
        await until(lambda: not shared.condition().waiting)

        assert await there(shared) == ["a", "b"]
        (reported,) = shared.condition().refused
        assert reported.startswith("put mem_bad: the shared PostgreSQL answered CheckViolation")


def test_status_knows_what_waits_as_soon_as_a_killed_daemon_answers_again(server, tmp_path):
    machine = Machine("killed", tmp_path, a_meeting(server, "forged_killed"), scopes="org")
    with machines_running(machine):
        machine.cut()
        for number in range(300):
            machine.ingest(f"{number}.md", f"The page {number} is about leave.")
        for _ in range(3):
            machine.daemon.kill()
            machine.daemon.start()
            assert machine.status.waiting == 300


def children(pid: int) -> list[int]:
    """The processes of a server's connections and helpers."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
