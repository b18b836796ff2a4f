"""Another daemon takes over from the running one, without an effect on clients."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import (
    FORGED,
    FREE,
    Agents,
    DaemonProcess,
    Stage,
    activated,
    capturing,
    configuration,
    needs_activation,
    needs_user_manager,
    on_disk,
    processes_with,
    running,
    user_manager,
)
from tests.support.provider import EMBEDDINGS, Answer, Request, ScriptedProvider, proposal, reply

pytestmark = pytest.mark.long

_CLIENTS = 8
_SERVE = (sys.executable, "-m", "forged", "serve", "--replace")


def classify(_: ScriptedProvider, request: Request) -> Answer:
    """The classifier's answer: a memory for each fact that it is told of."""
    reported = request.json["messages"][-1]["content"]
    facts = [word.strip("\"'.,\\n") for word in reported.split() if word.startswith("fact-")]
    return reply(*(proposal(known(fact)) for fact in dict.fromkeys(facts)))


def known(fact: str) -> str:
    return f"The code word of {fact} is known to all."


@pytest.fixture
def stage(home: Path) -> Iterator[Stage]:
    """A daemon that embeds at a provider, and whose classifier keeps each fact that it is told."""
    with capturing(home, classifier_model="m", embedding_model="m") as stage:
        stage.provider.chat = classify
        yield stage


def assert_no_effect(agents: Agents, repo: Path, embedded: Sequence[str]) -> None:
    """No request failed, and what was told is kept once."""
    assert agents.failures == []
    kept = Counter(each.content for each in on_disk(repo))
    wanted = [*agents.remembered, *map(known, agents.captured)]
    assert {text: kept[text] for text in wanted} == dict.fromkeys(wanted, 1)
    assert set(Counter(text for text in embedded if "sings on Tuesdays" in text).values()) == {1}


# --- nobody notices -----------------------------------------------------------------------------------


def walruses(repo: Path) -> None:
    put(repo, *(memory(f"mem_{n}", f"The walrus {n} sings on Tuesdays.") for n in range(30)))


def test_an_upgrade_under_eight_agents_fails_no_request_loses_nothing_and_embeds_nothing_again(stage, repo):
    walruses(repo)
    stage.load(repo)

    with Agents(stage.daemon.client, repo) as agents:
        assert stage.daemon.replace().wait(PATIENCE_S) == 0
        agents.go_on()
    stage.settle()

    assert_no_effect(agents, repo, stage.embedded)
    assert stage.ask(repo, "The walrus 7 sings on Tuesdays.").indexes == ("lexical", "dense")


@pytest.mark.long
@needs_user_manager
def test_a_restart_by_systemd_under_eight_agents_does_neither(home, repo):
    walruses(repo)
    with ScriptedProvider(dimension=3) as provider, user_manager(home) as manager:
        (home / ".config/forged").mkdir(parents=True, exist_ok=True)
        (home / ".config/forged/config.toml").write_text(
            configuration(provider, embedding_model="m", classifier_model="m")
        )
        provider.chat = classify
        manager.install(FREE)
        with manager.client() as client:
            client.trust(str(repo), action="trust")
            client.rebuild(str(repo), wait=True)
            before = client.status().pid

            with Agents(manager.client, repo) as agents:
                manager.systemctl("restart", "forged.service")
                agents.go_on()
            assert client.status().pid != before
            eventually(lambda: client.status().capture.state == "idle", 3 * PATIENCE_S)

        asked = [text for request in provider.requests(EMBEDDINGS) for text in request.inputs]
        assert_no_effect(agents, repo, asked)


# --- who does not get the place -----------------------------------------------------------------------


@pytest.fixture
def daemon(home: Path) -> Iterator[DaemonProcess]:
    with running(home) as daemon:
        yield daemon


@needs_activation
def test_a_daemon_of_the_service_manager_stays_and_names_what_restarts_it(home):
    with activated(home) as one, one.daemon.client() as client:
        pid = client.status().pid

        done = subprocess.run(
            _SERVE, env=one.daemon.env, capture_output=True, text=True, timeout=PATIENCE_S, cwd="/"
        )

        assert done.returncode == os.EX_TEMPFAIL
        assert "`systemctl --user restart forged.service`" in done.stderr.splitlines()[-1]
        assert client.status().pid == pid


def test_of_two_successors_at_once_one_serves_at_the_end_and_no_one_else_is_left(daemon):
    with daemon.client() as client:
        old = daemon.process
        both = [daemon.successor(), daemon.successor()]
        try:
            assert old.wait(PATIENCE_S) == 0
            ended = eventually(lambda: [each for each in both if each.poll() is not None])
            assert len(ended) == 1
            assert ended[0].returncode in {0, os.EX_TEMPFAIL}  # it had the place, or never got it
            (left,) = (each for each in both if each.poll() is None)
            assert client.status().pid == left.pid
            left.terminate()
            assert left.wait(PATIENCE_S) == 0
        finally:
            for each in both:
                each.kill()
                each.wait(PATIENCE_S)
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

    def served_by(self, *, autostart: bool = False) -> int:
        """Process id of whoever answers."""
        with self.daemon.client(trusts=False, autostart=autostart, executable=FORGED) as client:
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
            ending.successor.wait(PATIENCE_S)
        daemon.close()


def test_who_connects_while_no_one_accepts_waits_and_is_served_by_the_successor(ending):
    with ThreadPoolExecutor(_CLIENTS) as threads:
        waiting = [threads.submit(ending.served_by, autostart=each % 2 > 0) for each in range(_CLIENTS)]
        assert not wait(waiting, 0.1).done
        ending.go()
        served = {each.result(PATIENCE_S) for each in waiting}

    assert served == {ending.successor.pid}
    assert ending.old.wait(PATIENCE_S) == 0


def test_a_successor_that_dies_while_it_waits_leaves_the_daemon_as_it_was(ending):
    ending.successor.kill()
    ending.go()

    assert ending.served_by() == ending.old.pid
    assert "not handed over" in ending.daemon.log()
    assert ending.daemon.stop() == 0


def test_a_daemon_that_is_asked_to_end_meanwhile_ends_and_its_successor_serves(ending):
    ending.old.send_signal(signal.SIGTERM)
    ending.go()

    assert ending.old.wait(PATIENCE_S) == 0
    assert ending.served_by() == ending.successor.pid


def test_a_daemon_that_is_asked_to_end_and_whose_successor_dies_leaves_no_one(ending):
    ending.old.send_signal(signal.SIGTERM)
    ending.successor.kill()
    ending.go()

    assert ending.old.wait(PATIENCE_S) == 0
    assert ending.served_by() == 0
    assert not os.path.exists(ending.daemon.socket)


def test_a_successor_takes_the_free_place_when_the_old_daemon_is_killed_meanwhile(ending):
    ending.old.kill()
    ending.old.wait(PATIENCE_S)

    eventually(lambda: ending.served_by() == ending.successor.pid)


def test_a_daemon_that_hangs_as_it_ends_gives_its_place_all_the_same(ending):
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(ending.served_by)
        assert ending.old.wait(PATIENCE_S) == 0  # nobody lets it go

        assert waiting.result(PATIENCE_S) == ending.successor.pid
    assert "stopped late" in ending.daemon.log()
    with ending.daemon.client() as client:
        done = client.remember(str(ending.daemon.home), "The walrus hums.", scope="user")
    assert done.status == "ok"  # its state is the successor's
