"""Birth and death of the daemon: one of it, whatever kills it, and nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import DaemonProcess, configuration, processes_with, running
from tests.support.provider import Answer, ScriptedProvider

_AGENT = Path(__file__).parent / "agents" / "remembering.py"
_SUPERSEDING = """
import sys
from forged_client import Client

with Client(sys.argv[1], timeout_s=60, strict=True) as client:
    client.remember(sys.argv[2], f"from {sys.argv[4]}", supersedes=sys.argv[3])
"""


@pytest.fixture
def daemon(home):
    daemon = DaemonProcess(home)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.close()


def test_nothing_acknowledged_is_lost_when_the_daemon_is_killed(daemon, repo):
    """1,000 calls by four agents at once, and kill -9 in the middle of each quarter."""
    acknowledged: dict[str, str] = {}
    for quarter in range(4):
        agents = [_agent(daemon, repo, 63 if n else 61, f"q{quarter}a{n}") for n in range(4)]
        first = agents[0].stdout
        assert first is not None
        for _ in range(20):
            acknowledged.update([first.readline().rstrip("\n").split("\t")])
        daemon.kill()
        for agent in agents:
            lines = agent.communicate(timeout=PATIENCE_S)[0].splitlines()
            acknowledged.update(line.split("\t") for line in lines)
        eventually(lambda: processes_with(daemon.socket) == [])  # its helpers end a moment after it
        daemon.start()

    directory = repo / ".forge/memory"
    assert len(acknowledged) >= 80
    for memory_id, text in acknowledged.items():
        assert text in (directory / f"{memory_id}.md").read_text() + " "
    with daemon.client(strict=True) as client:
        found = client.get(str(repo), list(acknowledged))
    assert found.missing == ()
    assert len(found.memories) == len(acknowledged)


@pytest.mark.long
def test_twenty_starts_at_once_give_one_daemon(home):
    daemon = DaemonProcess(home)
    starts = [_serve(daemon) for _ in range(20)]
    try:
        eventually(lambda: sum(start.poll() is not None for start in starts) == 19)
        with daemon.client(strict=True) as client:
            (alive,) = (start for start in starts if start.poll() is None)
            assert client.status().pid == alive.pid
        assert {start.returncode for start in starts if start is not alive} == {os.EX_TEMPFAIL}
    finally:
        for start in starts:
            start.kill()
            start.communicate(timeout=PATIENCE_S)
        daemon.close()


def test_socket_and_directory_are_closed_to_others(daemon):
    assert os.stat(daemon.socket).st_mode & 0o777 == 0o600 | (os.stat(daemon.socket).st_mode & 0o100)
    assert os.stat(daemon.socket).st_mode & 0o077 == 0
    assert os.stat(os.path.dirname(daemon.socket)).st_mode & 0o777 == 0o700


@pytest.mark.parametrize("clients", [0, 64])
def test_sigterm_ends_a_daemon_and_removes_the_socket(daemon, clients):
    with contextlib.ExitStack() as stack:
        for peer in [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(clients)]:
            peer.connect(daemon.socket)
        assert daemon.stop() == 0

    assert not os.path.exists(daemon.socket)


def test_sigterm_ends_a_daemon_in_the_middle_of_a_rebuild(daemon, repo):
    directory = repo / ".forge/memory"
    directory.mkdir(parents=True)
    for number in range(5000):
        (directory / f"mem_{number}.md").write_text(f"memory number {number}")
    with daemon.client(strict=True) as client:
        client.rebuild(str(repo))

        assert daemon.stop() == 0


def test_sigterm_ends_a_daemon_whose_provider_hangs(home, repo):
    (repo / ".forge/memory").mkdir(parents=True)
    (repo / ".forge/memory/mem_a.md").write_text("text")
    with ScriptedProvider() as provider:
        provider.embeddings = Answer(hold=threading.Event())
        with running(home, config=configuration(provider)) as daemon, daemon.client(strict=True) as client:
            client.status(str(repo))
            provider.wait_for(1)

            assert daemon.stop() == 0


def test_a_write_is_visible_to_a_reader_that_names_its_generation(daemon, repo):
    with daemon.client(strict=True) as writer, daemon.client(strict=True) as reader:
        for number in range(50):
            written = writer.remember(str(repo), f"the walrus number {number} sings")
            found = reader.search(
                str(repo), f"walrus number {number}", limit=50, min_generation=written.generation
            )
            assert written.memory_id in [hit.id for hit in found.memories]


def test_concurrent_new_versions_of_one_memory_make_one_chain(daemon, repo):
    with daemon.client(strict=True) as client:
        first = client.remember(str(repo), "version one")
    agents = [
        subprocess.Popen(
            [sys.executable, "-c", _SUPERSEDING, daemon.socket, str(repo), first.memory_id, str(number)]
        )
        for number in range(6)
    ]
    assert [agent.wait(PATIENCE_S) for agent in agents] == [0] * 6

    with daemon.client(strict=True) as client:
        client.rebuild(str(repo), wait=True)
        chain = client.history(str(repo), first.memory_id)

    assert [record.version for record in chain.memories] == list(range(1, 8))
    assert chain.flags == ()


def _agent(daemon: DaemonProcess, repo: Path, count: int, tag: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(_AGENT), daemon.socket, str(repo), str(count), tag],
        stdout=subprocess.PIPE,
        text=True,
    )


def _serve(daemon: DaemonProcess) -> subprocess.Popen[str]:
    """Another start at the same address."""
    return subprocess.Popen(
        [sys.executable, "-m", "forged", "serve"],
        env=daemon.env,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
