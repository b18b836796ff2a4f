"""Replies in every state of a daemon: a value by the deadline, never an exception.

`Client`, `AsyncClient` and `Observer` in their default mode. A state is a context manager in which a daemon
is, for example, stopped; calls are made in it and each must end by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forged_client import AsyncClient, Client, Observer
from forged_client.framing import encode
from forged_client.protocol import Events, Hello, Reply, Retrieved
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S
from tests.support.daemon import DaemonProcess, configuration, ids, running
from tests.support.provider import CHAT, Answer, ScriptedProvider

CALLS = 20
TIMEOUT_S = 0.15
STATUSES = {"ok", "empty", "not_ready", "disabled", "timeout", "error", "unavailable"}
# The most connections that a daemon has.
PLACES = 128

WINDOW = [
    {"role": ("user", "assistant")[number % 2], "content": f"message {number} " + "walrus " * 60}
    for number in range(40)
]
TURNS = 200
# So many requests the daemon hands to a provider at once.
IN_HAND = 12

_EDITING = """
import pathlib, sys, time
from forged_client import Client
directory, repo, address = sys.argv[1:]
with Client(address, strict=True) as client:
    while True:
        for number in range(0, 5000, 5):
            text = f"memory {number} of the walrus and its {time.monotonic_ns()} songs"
            pathlib.Path(directory, f"mem_{number}.md").write_text(text)
        client.rebuild(repo, wait=True, timeout_s=60)
"""

State = Callable[..., contextlib.AbstractContextManager[str]]


def _asked(client: Client | AsyncClient, workspace: str, number: int) -> Reply | Awaitable[Reply]:
    """Call `number` of a round through all verbs, writing ones too."""
    verbs = (
        lambda: client.retrieve(workspace, WINDOW[-2:], session_id="s", turn_id=f"t{number}"),
        lambda: client.search(workspace, "walrus"),
        lambda: client.remember(workspace, f"the walrus sang {number} times"),
        client.ping,
        lambda: client.status(workspace),
        lambda: client.list(workspace),
        lambda: client.get(workspace, ["mem_a"]),
        lambda: client.history(workspace, "mem_a"),
        lambda: client.why(workspace),
        lambda: client.capture(workspace, WINDOW, "s"),
        lambda: client.rebuild(workspace),
        lambda: client.forget(workspace, "mem_none"),
    )
    return verbs[number % len(verbs)]()


# --- the states --------------------------------------------------------------------------------------


@contextlib.contextmanager
def absent(daemon: DaemonProcess, _: Path) -> Iterator[str]:
    yield str(daemon.directory / "nothing/forged.sock")


@contextlib.contextmanager
def stale(daemon: DaemonProcess, _: Path) -> Iterator[str]:
    path = str(daemon.directory / "stale.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
    yield path
    os.unlink(path)


@contextlib.contextmanager
def stopped(daemon: DaemonProcess, _: Path) -> Iterator[str]:
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        yield daemon.socket
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


@contextlib.contextmanager
def killed(daemon: DaemonProcess, _: Path) -> Iterator[str]:
    daemon.kill()
    try:
        yield daemon.socket
    finally:
        daemon.start()


@contextlib.contextmanager
def restarted(daemon: DaemonProcess, _: Path) -> Iterator[str]:
    daemon.kill()
    daemon.start()
    yield daemon.socket


@contextlib.contextmanager
def rebuilding(daemon: DaemonProcess, repo: Path) -> Iterator[str]:
    """In the middle of reading 5,000 files for the first time, and again and again a part of them."""
    directory = repo / ".forge/memory"
    directory.mkdir(parents=True)
    for number in range(5000):
        (directory / f"mem_{number}.md").write_text(f"memory {number} of the walrus and its songs")
    # In a process of its own: it must not take the interpreter from the calls that are timed.
    command = [sys.executable, "-P", "-c", _EDITING, str(directory), str(repo), daemon.socket]
    with daemon.client(strict=True) as client:
        client.rebuild(str(repo))
        editor = subprocess.Popen(command)
        try:
            yield daemon.socket
            assert editor.poll() is None
        finally:
            editor.kill()
            editor.wait(PATIENCE_S)
        assert client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S).status == "ok"


@contextlib.contextmanager
def crowded(daemon: DaemonProcess, _: Path) -> Iterator[str]:
    """All places are taken by connections that are quiet: the quietest makes room."""
    with _peers(daemon):
        yield daemon.socket


@contextlib.contextmanager
def full(daemon: DaemonProcess, _: Path) -> Iterator[str]:
    """All places are taken by connections that wait for events: nobody makes room."""
    with _peers(daemon, encode(Hello(id=1)) + encode(Events(id=2))):
        yield daemon.socket


@contextlib.contextmanager
def _peers(daemon: DaemonProcess, said: bytes = b"") -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for peer in [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(PLACES)]:
            peer.connect(daemon.socket)
            if said:
                peer.sendall(said)
                peer.recv(1 << 16)  # the welcome; what came with hello has been received by now
        yield


ABSENT = {"unavailable"}
NO_ANSWER = {"timeout"}
# A retrieve is asked once more: of nobody, or of the backlog of a process that is still dying.
CUT_OFF = {"unavailable", "error"}
ANSWERED = {"ok", "empty", "not_ready", "timeout", "error"}
# A machine that is busy enough may not even connect within the call's time, and then nothing was sent.
BUSY = ANSWERED | {"unavailable"}
STATES = [
    pytest.param(absent, ABSENT, id="absent"),
    pytest.param(stale, ABSENT, id="stale socket file"),
    pytest.param(stopped, NO_ANSWER, id="SIGSTOP"),
    pytest.param(killed, ABSENT, id="killed between requests"),
    pytest.param(rebuilding, BUSY, id="rebuild of 5,000 files", marks=pytest.mark.long),
    pytest.param(restarted, ANSWERED, id="restarted"),
    pytest.param(crowded, ANSWERED, id="all places quiet"),
    pytest.param(full, {"error"}, id="all places busy"),
]


# --- Client and AsyncClient --------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "expected"), STATES)
def test_every_call_of_a_client_ends_by_its_deadline_with_a_value(daemon, repo, state: State, expected):
    with Client(daemon.socket, timeout_s=TIMEOUT_S) as client:
        client.ping()
        with state(daemon, repo) as address:
            asked = client if address == daemon.socket else Client(address, timeout_s=TIMEOUT_S)
            called = [_timed(lambda n=n: _asked(asked, str(repo), n)) for n in range(CALLS)]
            asked.close()

    _check(called, expected)


@pytest.mark.parametrize(("state", "expected"), STATES)
def test_every_call_of_an_asyncio_client_ends_by_its_deadline_with_a_value(daemon, repo, state, expected):
    async def agent():
        async with AsyncClient(daemon.socket, timeout_s=TIMEOUT_S) as client:
            await client.ping()
            with state(daemon, repo) as address:
                asked = client if address == daemon.socket else AsyncClient(address, timeout_s=TIMEOUT_S)
                called = await asyncio.gather(*(_awaited(_asked(asked, str(repo), n)) for n in range(CALLS)))
                await asked.aclose()
        return called

    _check(asyncio.run(agent()), expected)


def test_reading_calls_after_a_restart_notice_nothing(daemon, repo):
    put(repo, memory("mem_a", "the walrus sings"))
    with daemon.client() as client:
        client.rebuild(str(repo), wait=True)
        with restarted(daemon, repo):
            found = client.search(str(repo), "walrus")

    assert (found.status, [hit.id for hit in found.memories]) == ("ok", ["mem_a"])


@pytest.fixture
def in_hand(home, repo) -> Iterator[tuple[DaemonProcess, Callable[[], None]]]:
    """A daemon whose retrieves wait for a provider, and what kills it once so many are in its hands."""
    put(repo, memory("mem_a", "the walrus sings"))
    with ScriptedProvider() as provider:
        provider.chat = Answer(hold=threading.Event())
        config = configuration(provider, retrieval_model="chat", retrieval_timeout_s=PATIENCE_S)
        with running(home, config=config) as daemon:
            daemon.trust(repo)

            def kill() -> None:
                provider.wait_for(IN_HAND, path=CHAT)
                daemon.kill()

            yield daemon, kill


def test_clients_whose_daemon_is_killed_in_the_middle_of_their_requests_get_a_value(in_hand, repo):
    daemon, kill = in_hand
    clients = [Client(daemon.socket, timeout_s=PATIENCE_S) for _ in range(IN_HAND)]
    with ThreadPoolExecutor(IN_HAND) as threads:
        calls = [
            threads.submit(client.retrieve, str(repo), WINDOW[-1:], session_id=f"s{n}", turn_id="t")
            for n, client in enumerate(clients)
        ]
        kill()
        reported = {call.result(timeout=PATIENCE_S).status for call in calls}

    assert reported <= CUT_OFF
    assert [client.close() for client in clients] == [None] * IN_HAND


def test_requests_of_one_asyncio_connection_all_end_when_the_daemon_is_killed(in_hand, repo):
    daemon, kill = in_hand

    async def agent():
        async with AsyncClient(daemon.socket, timeout_s=PATIENCE_S) as client:
            calls = [
                asyncio.ensure_future(
                    client.retrieve(str(repo), WINDOW[-1:], session_id=f"s{n}", turn_id="t")
                )
                for n in range(IN_HAND)
            ]
            await asyncio.to_thread(kill)
            return await asyncio.wait_for(asyncio.gather(*calls), PATIENCE_S)

    assert {reply.status for reply in asyncio.run(agent())} <= CUT_OFF


def _fifty(repo: Path) -> list[str]:
    words = [
        f"{a}{b}" for a in ("zor", "mip", "tal", "quo", "ven") for b in ("ka", "lo", "mu", "ti", "xe") * 2
    ]
    words = [f"{word}{number}" for number, word in enumerate(words)]
    put(repo, *(memory(f"mem_{word}", f"the walrus likes {word}") for word in words))
    return words


async def _at_once(daemon, repo, asked: Sequence[dict[str, str]]) -> list[Retrieved]:
    """The replies to requests that one connection sends at once, each with its word as turn and question."""
    async with AsyncClient(daemon.socket, timeout_s=PATIENCE_S) as client:
        await client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S)
        before = (await client.status()).connections
        calls = [
            client.retrieve(str(repo), [{"role": "user", "content": each["turn_id"]}], **each)
            for each in asked
        ]
        replies = await asyncio.gather(*calls)
        assert (before, (await client.status()).connections) == (1, 1)
    return replies


def test_fifty_retrieves_at_once_share_one_connection_and_get_their_own_answers(daemon, repo):
    words = _fifty(repo)
    daemon.trust(repo)

    replies = asyncio.run(_at_once(daemon, repo, [{"session_id": w, "turn_id": w} for w in words]))

    assert [ids(reply)[0] for reply in replies] == [f"mem_{word}" for word in words]


def test_fifty_turns_of_a_session_at_once_hear_each_memory_once(daemon, repo):
    words = _fifty(repo)
    daemon.trust(repo)
    # Only what is new is sent: what does not fit the socket at once counts as not heard, and comes again.
    asked = [{"session_id": "s", "turn_id": word, "mode": "append"} for word in words]

    replies = asyncio.run(_at_once(daemon, repo, asked))

    new = [each for reply in replies for each in ids(reply)]
    assert sorted(new) == sorted(f"mem_{word}" for word in words)


def _timed(call: Callable[[], Reply]) -> tuple[Reply, float]:
    started = time.monotonic()
    return call(), time.monotonic() - started


async def _awaited(call: Awaitable[Reply]) -> tuple[Reply, float]:
    started = time.monotonic()
    return await call, time.monotonic() - started


def _check(called: list[tuple[Reply, float]], expected: set[str]) -> None:
    assert len(called) == CALLS
    assert {reply.status for reply, _ in called} <= expected & STATUSES
    if expected == BUSY:
        assert all("(connecting" in reply.reason for reply, _ in called if reply.status == "unavailable")
    assert all(reply.reason for reply, _ in called if reply.status not in {"ok", "empty"})


# --- Observer ----------------------------------------------------------------------------------------


@pytest.mark.speed
@pytest.mark.parametrize("state", [absent, stopped, rebuilding, killed], ids=lambda state: state.__name__)
def test_no_turn_waits_for_the_daemon(daemon, repo, state: State, request):
    with state(daemon, repo) as address:
        observer = Observer(str(repo), "s", address=address)
        took = sorted(_timed(lambda: observer.on_turn_complete(WINDOW))[1] for _ in range(TURNS))
        observer.close(0.2)

    print(f"\non_turn_complete x{TURNS}, {state.__name__}: {_percentiles(took)}")
    # A single wait for the daemon would take 10 s.
    assert sum(took) < 5


def test_a_stopped_daemon_gets_the_newest_window_when_it_goes_on(daemon, repo):
    with _observing(daemon, repo) as observer:
        before = _taken(daemon)
        with stopped(daemon, repo):
            for _ in range(TURNS):
                observer.on_turn_complete(WINDOW)
        assert observer.close(PATIENCE_S)

        # The first was in the sender's hand already; of all others the newest is left.
        counts = dict(observer.counts)
        delivered = counts.get("accepted", 0) + counts.get("coalesced", 0)
        assert counts["replaced"] + delivered == TURNS
        assert delivered <= 2
        assert _taken(daemon) - before == delivered


@contextlib.contextmanager
def _observing(daemon: DaemonProcess, repo: Path) -> Iterator[Observer]:
    observer = Observer(str(repo), "s", address=daemon.socket)
    try:
        yield observer
    finally:
        observer.close(0.2)


def _taken(daemon: DaemonProcess) -> int:
    with daemon.client(strict=True) as client:
        captured = client.status().capture
        return captured.accepted + captured.coalesced


def _percentiles(took: list[float]) -> str:
    cuts = statistics.quantiles(took, n=100)
    return f"p50 {cuts[49] * 1000:.3f} ms, p99 {cuts[98] * 1000:.3f} ms, max {max(took) * 1000:.3f} ms"
