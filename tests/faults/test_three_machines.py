"""Three machines of two users and one server: no trouble loses, doubles or resurrects anything.

Acts and troubles are random. After each trouble the machines must agree with the ledger of all acts, in
files, tables, answers and copies of documents, and status must be clean; while it lasts, each sentence of
status must be true.
"""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.amount import MINUTES, SEED, times
from tests.faults.team.agreement import disagreements
from tests.faults.team.troubles import Troubles
from tests.faults.team.world import World
from tests.postgres.meeting import a_meeting, running
from tests.support.postgres import Database
from tests.support.provider import ScriptedProvider
from tests.support.scratch_server import ScratchServer

KINDS = [
    *["remember"] * 6,
    *["edit"] * 3,
    *["supersede"] * 3,
    *["forget"] * 3,
    *["restore"] * 2,
    *["ingest"] * 4,
    *["remove"] * 2,
]
OF_MACHINES = ["offline", "alone", "daemon_killed"]
OF_SERVER = ["read_only", "full", "server_killed"]
TROUBLES = [*OF_MACHINES, *OF_SERVER]
AGREE_S = 45.0
MOST_ACTS = 24


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    """An endpoint whose vectors are as different as texts are."""
    with ScriptedProvider(dimension=8) as provider:
        yield provider


@pytest.fixture
def database() -> Iterator[Database]:
    """A database of a server that keeps what it acknowledges, for this test to kill."""
    folder = Path(tempfile.mkdtemp(prefix="forged-pg-", dir="/tmp"))
    server = ScratchServer(folder, durable=True)
    try:
        server.start()
        yield a_meeting(server, model="scripted")
    finally:
        server.kill()
        shutil.rmtree(folder)


def test_machines_agree_with_the_ledger_after_each_trouble_and_status_is_true(
    place: Path, database: Database, provider: ScriptedProvider
):
    seed = SEED or random.SystemRandom().randrange(1, 1_000_000)
    print(f"seed {seed}")
    world = World(place, database, provider, seed)
    troubles = Troubles(world)
    with running(*world.machines), explained(world, seed):
        world.begin()
        agree(world, troubles)
        until = time.monotonic() + 60 * MINUTES
        for number in range(10_000):
            if number >= times(len(TROUBLES), 2) and time.monotonic() > until:
                break
            one_round(world, troubles, number)
    print(world.summary())


def one_round(world: World, troubles: Troubles, number: int) -> None:
    """Carry out acts before, during and after one trouble, later two, and wait until all machines agree."""
    names = [TROUBLES[number]] if number < len(TROUBLES) else []
    names = names or [world.random.choice(OF_MACHINES), world.random.choice(OF_SERVER)]
    acts(world, troubles, MOST_ACTS // 4)
    with contextlib.ExitStack() as lasting:
        checks = [lasting.enter_context(getattr(troubles, name)()) for name in names]
        acts(world, troubles, world.random.randint(4, MOST_ACTS))
        for check in checks:
            check()
        acts(world, troubles, MOST_ACTS // 4)
    acts(world, troubles, MOST_ACTS // 4)
    agree(world, troubles)
    world.acts.append(f"--- agreed after {names}")


def acts(world: World, troubles: Troubles, count: int) -> None:
    """Carry out acts on random machines, and look at the sentences of one."""
    for _ in range(count):
        world.act(world.random.choice(world.machines), world.random.choice(KINDS))
    troubles.sentences(world.random.choice(world.machines))


def agree(world: World, troubles: Troubles) -> None:
    """Wait until all machines agree with the ledger, and status has no complaint."""
    deadline = time.monotonic() + AGREE_S
    while faults := disagreements(world, troubles):
        assert time.monotonic() < deadline, "\n".join(faults)
        time.sleep(0.2)
    troubles.forget_past()
    world.waiting = {each.name: [] for each in world.machines}
    world.counts["quiet points"] += 1


@contextlib.contextmanager
def explained(world: World, seed: int) -> Iterator[None]:
    """Add to a failure the seed, the acts on the ids that it names, and the end of each log."""
    try:
        yield
    except BaseException as error:
        named = set(re.findall(r"(?:mem|doc)_\w+", str(error)))
        acts = [each for each in world.acts if any(name in each for name in named)]
        acts += [
            f"{each}: {document.source}: {document.acts}"
            for each, document in world.shelf.documents.items()
            if each in named
        ]
        logs = [f"{each.name}:\n{each.daemon.log()[-2000:]}" for each in world.machines]
        error.add_note(
            "\n".join(
                [
                    f"FORGED_FAULT_SEED={seed}",
                    *acts[-40:],
                    "last acts:",
                    *world.acts[-15:],
                    *logs,
                    world.summary(),
                ]
            )
        )
        raise
