"""A rebuild loads a changed configuration: the daemon restarts in its process, under its lock."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forged_client import Client
from forged_client.protocol import RELOADING, StatusReport
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import (
    Activated,
    DaemonProcess,
    Shell,
    activated,
    needs_activation,
    on_disk,
    running,
    usage,
)

_CLIENTS = 20
needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux's /proc")


def write(home: Path, budget: int, more: str = "") -> None:
    """A configuration that differs in what nobody here looks at, `budget`, and in `more`."""
    file = home / ".config/forged/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f'[memory]\nembedding_model = "builtin:lexical"\ninjection_token_budget = {budget}\n{more}'
    )


@pytest.fixture
def daemon(home: Path, repo: Path) -> Iterator[DaemonProcess]:
    put(repo, memory("m1", "The walrus sings on Tuesdays."))
    write(home, 1000)
    with running(home) as daemon:
        yield daemon


def reloaded(client: Client, repo: Path, before: str) -> StatusReport:
    """Ask for a rebuild; the status of the daemon once it has started over."""
    reported = client.rebuild(str(repo))
    assert (reported.status, reported.reason) == ("not_ready", RELOADING)
    return eventually(lambda: (now := client.status(str(repo))).epoch not in {"", before} and now)


# --- what starts over and what does not ---------------------------------------------------------------


@pytest.mark.inotify
def test_a_rebuild_takes_up_a_changed_configuration_in_the_same_process(daemon, home, repo):
    with daemon.client() as client:
        before = client.status(str(repo))
        write(home, 1000, "retrieval_top_k = 1\n")
        put(repo, memory("m2", "The walrus hums on Fridays."))

        after = reloaded(client, repo, before.epoch)
        found = client.retrieve(str(repo), [{"role": "user", "content": "what does the walrus do?"}])

        assert eventually(lambda: client.status(str(repo)).state == "ok")
    assert after.pid == before.pid
    assert len(found.memories) == 1
    second = subprocess.run(
        [sys.executable, "-m", "forged", "serve"],
        env=daemon.env,
        cwd="/",
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert second.returncode == os.EX_TEMPFAIL  # it is the only one still


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ("retrieval_top_k = 900\n", "memory.retrieval_top_k"),
        ("retrieval_top_k = = 1\n", "config.toml"),
        ("retrieval_min_score = 2\n", "memory.retrieval_min_score"),
    ],
)
def test_a_broken_configuration_is_refused_and_what_ran_runs_on(daemon, home, repo, broken, named):
    with daemon.client() as client:
        epoch = client.status().epoch
        write(home, 1000, broken)

        done = Shell(home, daemon.socket, repo).run("rebuild", "--wait")

        assert done.code == os.EX_CONFIG, done
        assert named in done.err
        assert client.status(str(repo)).epoch == epoch
        assert client.retrieve(str(repo), [{"role": "user", "content": "which walrus sings?"}]).status == "ok"
        write(home, 3000)
        assert reloaded(client, repo, epoch).epoch != epoch


# --- who is at work meanwhile -------------------------------------------------------------------------


def test_clients_that_ask_meanwhile_get_an_answer_or_are_informed_that_no_one_is_there(daemon, home, repo):
    message = [{"role": "user", "content": "which walrus sings?"}]
    daemon.trust(repo)
    enough, reported, answers = threading.Event(), {}, [0] * _CLIENTS

    def ask(number: int) -> None:
        with daemon.client() as client:
            while not enough.is_set():
                reply = client.retrieve(str(repo), message)
                reported[reply.status] = reply.reason
                answers[number] += 1
                assert ("walrus" in reply.text) == (reply.status == "ok")

    with ThreadPoolExecutor(_CLIENTS) as threads, daemon.client() as client:
        asking = [threads.submit(ask, number) for number in range(_CLIENTS)]
        try:
            epoch = eventually(lambda: client.status().epoch)
            for budget in (2000, 3000, 4000):
                write(home, budget)
                epoch = reloaded(client, repo, epoch).epoch
                # A request is sent again once, so none is to meet two reloads.
                wanted = [count + 2 for count in answers]
                eventually(lambda wanted=wanted: all(map(operator.ge, answers, wanted)))
        finally:
            enough.set()
        for each in asking:
            each.result(PATIENCE_S)

    assert set(reported) <= {"ok", "unavailable", "not_ready"}, reported
    assert "ok" in reported


def test_what_is_acknowledged_as_it_starts_over_is_kept(daemon, home, repo):
    """Memories that agents write during three reloads are all on disk, and none is there twice."""
    enough, written = threading.Event(), []

    def write_on() -> None:
        with daemon.client() as client:
            number = 0
            while not enough.is_set():
                number += 1
                receipt = client.remember(str(repo), f"fact number {number}")
                if receipt.status == "ok":
                    written.append((receipt.memory_id, f"fact number {number}"))

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        with daemon.client() as client:
            epoch = eventually(lambda: client.status().epoch)
            for budget in (2000, 3000, 4000):
                write(home, budget)
                epoch = reloaded(client, repo, epoch).epoch
    finally:
        enough.set()
        writer.join(PATIENCE_S)

    found = {each.id: each.content for each in on_disk(repo)}
    assert written
    assert all(found[memory_id] == text for memory_id, text in written)
    assert len(set(found.values())) == len(found)


# --- its end ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pause_s", [0.0, 0.02, 0.1, 0.4])
def test_sigterm_while_it_starts_over_ends_it_in_time(daemon, home, repo, pause_s):
    """At whatever moment: while it takes itself down, and while it starts again."""
    with daemon.client() as client:
        write(home, 2000)
        assert client.rebuild(str(repo)).reason == RELOADING
    threading.Event().wait(pause_s)

    assert daemon.stop() == 0


@needs_proc
def test_twenty_reloads_leave_no_threads_descriptors_or_children_behind(daemon, home, repo):
    def settled(client: Client) -> tuple[int, int, int]:
        eventually(lambda: client.status().capture.state == "idle")
        now = usage(daemon.pid)
        return now.threads, now.descriptors, len(now.children)

    with daemon.client() as client:
        epoch, early = client.status().epoch, (0, 0, 0)
        for number in range(20):
            write(home, 2000 + number)
            epoch = reloaded(client, repo, epoch).epoch
            assert client.rebuild(str(repo), wait=True).status == "ok"
            if number == 3:
                early = settled(client)

        # The pool of `asyncio.to_thread` grows to six by and by; a leak would be sixteen of something.
        eventually(lambda: all(now <= then + 6 for now, then in zip(settled(client), early, strict=True)))


# --- under a service manager --------------------------------------------------------------------------


@pytest.fixture
def service(home: Path) -> Iterator[Activated]:
    write(home, 1000)
    with activated(home) as service:
        yield service


@needs_activation
def test_a_socket_of_the_service_manager_is_served_on(service, home, repo):
    """The same node, the same process; the manager hears of a reload and never of an end."""
    daemon, process, notify = service.daemon, service.process, service.notify
    put(repo, memory("m1", "The walrus sings on Tuesdays."))
    node = os.stat(daemon.socket).st_ino
    with Client(daemon.socket, timeout_s=PATIENCE_S) as client:
        daemon.trust(repo)
        epoch = client.status(str(repo)).epoch
        for budget in (2000, 3000):
            write(home, budget)
            epoch = reloaded(client, repo, epoch).epoch
        assert client.retrieve(str(repo), [{"role": "user", "content": "which walrus sings?"}]).status == "ok"

        assert (client.status().pid, os.stat(daemon.socket).st_ino) == (process.pid, node)
    reported = [notify.recv(1024).split(b"\n")[0] for _ in range(5)]
    process.send_signal(signal.SIGTERM)

    assert reported == [b"READY=1", b"RELOADING=1", b"READY=1", b"RELOADING=1", b"READY=1"]
    assert notify.recv(1024) == b"STOPPING=1"
    assert process.wait(PATIENCE_S) == 0
    assert Path(daemon.socket).is_socket()
