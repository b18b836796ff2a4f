"""Another daemon takes the place of the one that runs, and nobody who asks notices."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Self

import pytest

from forged_client import Client
from tests.data.memories import memory, put
from tests.support.clock import eventually
from tests.support.daemon import (
    DaemonProcess,
    Stage,
    activated,
    capturing,
    needs_activation,
    on_disk,
    processes_with,
    running,
)
from tests.support.provider import Answer, Request, ScriptedProvider, proposal, reply

_AGENTS, _NOTICED_S = 8, 2.0
_SERVE = (sys.executable, "-m", "forged", "serve", "--replace")


@pytest.fixture
def stage(home: Path) -> Iterator[Stage]:
    """A daemon that embeds at a provider, and whose classifier keeps each fact that it is told."""

    def classify(_: ScriptedProvider, request: Request) -> Answer:
        told = request.json["messages"][-1]["content"]
        facts = [word.strip("\"'.,\\n") for word in told.split() if word.startswith("fact-")]
        return reply(
            *(proposal(f"The code word of {fact} is known to all.") for fact in dict.fromkeys(facts))
        )

    with capturing(home, classifier_model="m", embedding_model="m") as stage:
        stage.provider.chat = classify
        yield stage


class Agents:
    """Agents that are attached: each asks, remembers and is captured, over a connection of its own."""

    def __init__(self, stage: Stage, repo: Path) -> None:
        self.longest_s = 0.0
        self.failures: list[str] = []
        self.remembered: list[str] = []
        self.told: list[str] = []
        self._stage, self._repo = stage, repo
        self._over = threading.Event()
        self._asked = Counter[int]()

    def __enter__(self) -> Self:
        self._threads = ThreadPoolExecutor(_AGENTS)
        self._running = [self._threads.submit(self._live, number) for number in range(_AGENTS)]
        self.go_on()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._threads.shutdown()
        for agent in self._running:
            agent.result()

    def go_on(self) -> None:
        """Wait until each of them has asked a few times more."""
        before = dict(self._asked)
        eventually(lambda: all(self._asked[each] >= before.get(each, 0) + 3 for each in range(_AGENTS)), 30)

    def _live(self, number: int) -> None:
        with self._stage.daemon.client() as client:
            turn = 0
            while not self._over.is_set():
                turn += 1
                self._ask(client, number, f"{number}-{turn}")
                self._asked[number] += 1
                self._over.wait(0.02)

    def _ask(self, client: Client, number: int, name: str) -> None:
        since = time.monotonic()
        match int(name.partition("-")[2]) % 3:
            case 0:
                done = client.remember(str(self._repo), f"Module {name} has an owner.")
                self.remembered.append(f"Module {name} has an owner.")
            case 1:
                messages = [{"role": "user", "content": f"Please remember fact-{name} for good."}]
                done = client.capture(str(self._repo), f"s{number}", messages, kind="explicit")
                self.told.append(f"fact-{name}")
            case _:
                done = client.search(str(self._repo), "which walrus sings?")
        self.longest_s = max(self.longest_s, time.monotonic() - since)
        if done.status not in {"ok", "empty"}:
            self.failures.append(f"{type(done).__name__}: {done.status} {done.reason}")


# --- nobody notices -----------------------------------------------------------------------------------


def test_an_upgrade_under_eight_agents_fails_no_request_loses_nothing_and_embeds_nothing_again(stage, repo):
    put(repo, *(memory(f"mem_{n}", f"The walrus {n} sings on Tuesdays.") for n in range(30)))
    stage.load(repo)

    with Agents(stage, repo) as agents:
        assert stage.daemon.replace().wait(10) == 0
        agents.go_on()
    stage.settle()

    assert agents.failures == []
    assert agents.longest_s < _NOTICED_S
    kept = Counter(each.content for each in on_disk(repo))
    assert {text: kept[text] for text in agents.remembered} == dict.fromkeys(agents.remembered, 1)
    facts = [f"The code word of {fact} is known to all." for fact in agents.told]
    assert {text: kept[text] for text in facts} == dict.fromkeys(facts, 1)
    embedded = Counter(text for text in stage.embedded if "sings on Tuesdays" in text)
    assert set(embedded.values()) == {1}, embedded
    assert stage.ask(repo, "The walrus 7 sings on Tuesdays.").legs == ("lexical", "dense")


# --- who does not get the place -----------------------------------------------------------------------


@pytest.fixture
def daemon(home: Path) -> Iterator[DaemonProcess]:
    with running(home) as daemon:
        yield daemon


def test_a_successor_with_a_wrong_configuration_says_so_and_the_daemon_goes_on(daemon, home):
    with daemon.client() as client:
        epoch = client.status().epoch
        (home / ".config/forged/config.toml").write_text("[memory]\nretrieval_top_k = 900\n")

        done = subprocess.run(_SERVE, env=daemon.env, capture_output=True, text=True, timeout=30, cwd="/")

        assert done.returncode == os.EX_CONFIG
        assert "memory.retrieval_top_k" in done.stderr.splitlines()[-1]
        assert client.status().epoch == epoch


@needs_activation
def test_a_daemon_of_the_service_manager_stays_and_names_what_restarts_it(home):
    with activated(home) as one, one.daemon.client() as client:
        pid = client.status().pid

        done = subprocess.run(_SERVE, env=one.daemon.env, capture_output=True, text=True, timeout=30, cwd="/")

        assert done.returncode == os.EX_TEMPFAIL
        assert "`systemctl --user restart forged.service`" in done.stderr.splitlines()[-1]
        assert client.status().pid == pid


def test_of_two_successors_at_once_one_serves_at_the_end_and_nobody_else_is_left(daemon):
    with daemon.client() as client:
        old = daemon.process
        both = [daemon.successor(), daemon.successor()]
        try:
            assert old.wait(10) == 0
            ended = eventually(lambda: [each for each in both if each.poll() is not None])
            assert len(ended) == 1
            assert ended[0].returncode in {0, os.EX_TEMPFAIL}  # it had the place, or never got it
            (left,) = (each for each in both if each.poll() is None)
            assert client.status().pid == left.pid
            left.terminate()
            assert left.wait(10) == 0
        finally:
            for each in both:
                each.kill()
                each.wait(10)
    eventually(lambda: not processes_with(daemon.socket))


# --- somebody dies, or hangs, or is told to end -------------------------------------------------------

# A daemon that ends as ever, but closes its state only when there is a file.
_SLOW = """
import asyncio, os, sys
from forged.state import State
real = State.close
async def close(self):
    while not os.path.exists(sys.argv[1]):
        await asyncio.sleep(0.01)
    await real(self)
State.close = close
from forged.__main__ import main
main(sys.argv[2:])
"""


class Ending:
    """A daemon that was asked for its place and ends, and the one that waits for it; `go` lets it end."""

    def __init__(self, daemon: DaemonProcess, file: Path) -> None:
        self.daemon = daemon
        self.old = daemon.process
        self._file = file
        self.successor = daemon.successor(sys.executable, "-m", "forged")
        eventually(lambda: "stopping" in daemon.log())

    def go(self) -> None:
        self._file.touch()

    def served_by(self) -> int:
        """Process id of whoever answers."""
        with self.daemon.client(trusts=False) as client:
            return client.status().pid


@pytest.fixture
def ending(home: Path, tmp_path: Path) -> Iterator[Ending]:
    file = tmp_path / "go"
    daemon = DaemonProcess(home, command=(sys.executable, "-c", _SLOW, str(file)))
    ending = None
    try:
        daemon.start()
        yield (ending := Ending(daemon, file))
    finally:
        if ending is not None:
            ending.successor.kill()
            ending.successor.wait(10)
        daemon.close()


def test_who_connects_while_nobody_accepts_waits_and_is_served_by_the_successor(ending):
    with ThreadPoolExecutor(_AGENTS) as threads:
        waiting = [threads.submit(ending.served_by) for _ in range(_AGENTS)]
        assert not wait(waiting, 0.1).done
        ending.go()
        served = {each.result(10) for each in waiting}

    assert served == {ending.successor.pid}
    assert ending.old.wait(10) == 0


def test_a_successor_that_dies_while_it_waits_leaves_the_daemon_as_it_was(ending):
    ending.successor.kill()
    ending.go()

    assert ending.served_by() == ending.old.pid
    assert "not handed over" in ending.daemon.log()
    assert ending.daemon.stop() == 0


def test_a_daemon_that_is_told_to_end_meanwhile_ends_and_its_successor_serves(ending):
    ending.old.send_signal(signal.SIGTERM)
    ending.go()

    assert ending.old.wait(10) == 0
    assert ending.served_by() == ending.successor.pid


def test_a_daemon_that_is_told_to_end_and_whose_successor_dies_leaves_nobody(ending):
    ending.old.send_signal(signal.SIGTERM)
    ending.successor.kill()
    ending.go()

    assert ending.old.wait(10) == 0
    assert ending.served_by() == 0
    assert not os.path.exists(ending.daemon.socket)


def test_a_successor_takes_the_free_place_when_the_old_daemon_is_killed_meanwhile(ending):
    ending.old.kill()
    ending.old.wait(10)

    eventually(lambda: ending.served_by() == ending.successor.pid)


def test_a_daemon_that_hangs_as_it_ends_gives_its_place_all_the_same(ending):
    assert ending.old.wait(10) == 0  # nobody lets it go

    assert "stopped late" in ending.daemon.log()
    assert ending.served_by() == ending.successor.pid
    with ending.daemon.client() as client:
        done = client.remember(str(ending.daemon.home), "The walrus hums.", scope="user")
    assert done.status == "ok"  # its state is the successor's
