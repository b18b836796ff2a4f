from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from forged_client import Client, protocol
from tests.client.conftest import acting_on
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import PeerConnection, answering, any_answer


def ping_only(connection: PeerConnection) -> None:
    answering(lambda _: protocol.Pong())(connection)


CALLS: dict[str, Callable[[Client], protocol.Reply]] = {
    "ping": lambda c: c.ping(),
    "status": lambda c: c.status("/w"),
    "retrieve": lambda c: c.retrieve("/w", [{"role": "user", "content": "q"}], session_id="s", turn_id="t"),
    "search": lambda c: c.search("/w", "q", limit=3),
    "why": lambda c: c.why("/w", session_id="s"),
    "remember": lambda c: c.remember("/w", "text", scope="user"),
    "edit": lambda c: c.edit("/w", "a", "text", base="a", relate=[protocol.Edge("b")], unrelate=["c"]),
    "move": lambda c: c.move("/w", "a", "user"),
    "restore": lambda c: c.restore("/w", "a"),
    "capture": lambda c: c.capture("/w", [{"role": "user", "content": "q"}], "s"),
    "get": lambda c: c.get("/w", ["a", "b"]),
    "list": lambda c: c.list("/w", scope="repo"),
    "history": lambda c: c.history("/w", "a"),
    "forget": lambda c: c.forget("/w", "a"),
    "undo": lambda c: c.undo("/w", session_id="s", preview=True),
    "pause": lambda c: c.pause("/w", paused=False),
    "dead": lambda c: c.dead("show", ["ev_1"]),
    "cost": lambda c: c.cost(days=1),
    "egress": lambda c: c.egress(days=1),
    "rebuild": lambda c: c.rebuild("/w", full=True),
}


@pytest.mark.parametrize("verb", CALLS)
def test_a_verb_sends_its_request_and_returns_its_reply(serve, client, verb):
    peer = serve(answering(any_answer))

    reply = CALLS[verb](client)

    (request,) = peer.requests[1:]
    assert (type(reply), reply.status) == (type(any_answer(request)), "ok")
    assert type(request).__struct_config__.tag == verb


def test_a_retrieve_carries_all_it_was_given(serve, client):
    peer = serve(answering(lambda _: protocol.Retrieved(text="block")))
    plain = {"session_id": "s", "turn_id": "t", "token_budget": 5, "timeout_s": 1.5, "min_generation": "e:2"}
    said = [{"role": "user", "content": [{"type": "text", "text": "q"}]}]

    reply = client.retrieve("/w", said, hypotheses=["h"], known_digest="d", **plain)

    assert reply.text == "block"
    (request,) = peer.requests_of(protocol.Retrieve)
    messages = (protocol.Message("user", "q"),)
    assert request == protocol.Retrieve(
        id=2,
        seen={"/w": ""},
        workspace="/w",
        messages=messages,
        hypotheses=("h",),
        known_digest="d",
        **plain,
    )


def test_one_connection_serves_many_calls_none_before_the_first_and_another_after_closing(serve, socket_file):
    peer = serve(ping_only)
    client = Client(socket_file, name="my-agent")
    assert peer.connections == []

    for connections in (1, 2):
        assert [client.ping().status for _ in range(5)] == ["ok"] * 5
        client.close()
        assert len(peer.connections) == connections

    hello = peer.requests[0]
    assert (hello.client, hello.pid) == ("my-agent", os.getpid())


def test_a_daemon_that_hangs_up_on_an_idle_connection_is_not_an_error(serve, client):
    def one_answer_then_hang_up(connection: PeerConnection) -> None:
        connection.greet()
        request = connection.next_request()
        connection.reply(replace(any_answer(request), id=request.id))

    peer = serve(one_answer_then_hang_up)

    for _ in range(3):
        assert client.remember("/w", "text").status == "ok"
        peer._threads[-1].join(PATIENCE_S)

    assert len(peer.requests_of(protocol.Remember)) == 3


def test_a_late_reply_is_not_the_next_calls(serve, socket_file):
    release = threading.Event()

    @acting_on
    def script(connection, request):
        if connection.number == 0:
            release.wait(PATIENCE_S)
        connection.reply(protocol.Found(id=request.id, generation=f"connection {connection.number}"))

    serve(script)

    with Client(socket_file, timeout_s=0.2) as client:
        assert client.search("/w", "q").status == "timeout"
        release.set()
        found = eventually(lambda: one if (one := client.search("/w", "q")).status != "timeout" else None)
        assert found.generation != "connection 0"


def test_waiting_for_another_thread_counts_against_the_deadline(serve, socket_file):
    asked, release = threading.Event(), threading.Event()

    @acting_on
    def script(connection, request):
        asked.set()
        release.wait(PATIENCE_S)
        connection.reply(protocol.Retrieved(id=request.id))

    serve(script)
    with Client(socket_file, timeout_s=0.3) as client, ThreadPoolExecutor(1) as pool:
        slow = pool.submit(client.retrieve, "/w", timeout_s=PATIENCE_S)
        assert asked.wait(PATIENCE_S)

        assert "another thread" in client.ping().reason
        release.set()
        assert slow.result(PATIENCE_S).status == "ok"


def test_a_forked_child_has_its_own_connection(serve, client):
    peer = serve(ping_only)

    client.ping()
    child = _forked(lambda: client.ping().status == "ok")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.ping().status == "ok"

    assert len(peer.connections) == 2


def _forked(work: Callable[[], bool]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the peer's threads are still alive
        child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return child


def test_an_interrupted_call_leaves_no_reply_behind(serve, socket_file):
    def script(connection: PeerConnection) -> None:
        connection.greet()
        request = connection.next_request()
        if connection.number == 0:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            connection.wait_for_hang_up()
        connection.reply(protocol.Pong(id=request.id))

    peer = serve(script)

    with Client(socket_file, timeout_s=PATIENCE_S) as client:
        with pytest.raises(KeyboardInterrupt):
            client.ping()

        assert client.ping().status == "ok"
    assert len(peer.requests_of(protocol.Ping)) == 2
