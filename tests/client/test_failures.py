"""Whatever state the daemon is in, a call ends by its deadline, with a value."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from pathlib import Path

import pytest

from forged_client import AsyncClient, Client, errors, protocol
from forged_client.framing import encode
from forged_client.protocol import MAX_REPLY_BYTES, Failed, Found, Hello, Pong, Remember, Remembered
from tests.client.conftest import acting_on
from tests.support.clock import PATIENCE_S
from tests.support.daemon import (
    PeerConnection,
    answering,
    full_backlog,
    listener_of_another_user,
    needs_two_users,
    stopped_server,
)

# Of calls that nobody answers, and of those that are answered.
SHORT_S, LONG_S = 0.1, PATIENCE_S


def silent(connection: PeerConnection) -> None:
    connection.greet()
    connection.wait_for_hang_up()


NEVER = threading.Event()


def dripping(connection: PeerConnection) -> None:
    connection.greet()
    connection.sock.sendall(MAX_REPLY_BYTES.to_bytes(4, "big"))
    while not NEVER.wait(0.02):
        connection.sock.sendall(b"\x00")


def babbling(connection: PeerConnection) -> None:
    """Replies without end, none of them to this request."""
    connection.greet()
    while not NEVER.wait(0.01):
        connection.reply(Pong(id=999))


def deaf(connection: PeerConnection) -> None:
    """Never reads: the kernel's buffer fills and the client cannot even send."""
    hung_up = select.poll()
    hung_up.register(connection.sock, 0)  # that the other end has closed is told unasked
    hung_up.poll(20_000)


def garbage(connection: PeerConnection) -> None:
    connection.greet()
    connection.sock.sendall(b"\x00\x00\x00\x05\xc1\xc1\xc1\xc1\xc1")
    connection.wait_for_hang_up()


def not_our_protocol(connection: PeerConnection) -> None:
    connection.sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    connection.wait_for_hang_up()


def short_frame(connection: PeerConnection) -> None:
    connection.greet()
    connection.next_request()
    connection.sock.sendall(encode(Found(id=2))[:-3])


def hangs_up(connection: PeerConnection) -> None:
    connection.greet()
    connection.next_request()


def newer_version(connection: PeerConnection) -> None:
    connection.greet(protocol=protocol.PROTOCOL_VERSION + 1)
    connection.wait_for_hang_up()


INVALID = Failed(code="invalid", message="no such workspace")
FULL = Failed(code="busy", message="64 connections")
LATE = ("timeout", "no answer within 0.1 s", errors.DeadlineExceeded)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (silent, LATE),
        (PeerConnection.wait_for_hang_up, LATE),
        (dripping, LATE),
        (babbling, LATE),
        (garbage, ("error", "not a message of the protocol", errors.MalformedFrame)),
        (not_our_protocol, ("error", "above the limit", errors.FrameTooLarge)),
        (short_frame, ("error", "closed the connection", errors.ReplyLost)),
        (hangs_up, ("error", "closed the connection", errors.ReplyLost)),
        (answering(lambda _: Pong()), ("error", "expected Found", errors.MalformedFrame)),
        (newer_version, ("error", "version 2", errors.ProtocolMismatch)),
        (answering(lambda _: INVALID), ("error", "invalid: no such workspace", errors.RequestFailed)),
        (lambda connection: connection.reply(FULL), ("error", "busy: 64 connections", errors.RequestFailed)),
    ],
)
def test_a_bad_peer_costs_a_status_and_nothing_more(serve, ask, script, expected):
    serve(script)
    status, reason, error = expected
    timeout_s = SHORT_S if status == "timeout" else LONG_S

    reply = ask("search", "/w", "q", timeout_s=timeout_s)

    assert (type(reply), reply.status) == (Found, status)
    assert reason in reply.reason
    with pytest.raises(error):
        ask("search", "/w", "q", timeout_s=timeout_s, strict=True)


def test_a_peer_that_never_reads_does_not_hold_a_large_request(serve, ask):
    serve(deaf)

    assert ask("search", "/w", "x" * 900_000, timeout_s=SHORT_S).status == "timeout"


def test_a_write_whose_reply_was_lost_is_sent_again_under_the_same_key(serve, ask):
    def script(connection: PeerConnection) -> None:
        hangs_up(connection) if connection.number == 0 else answering(lambda _: Remembered(memory_id="m"))(
            connection
        )

    peer = serve(script)

    assert ask("remember", "/w", "text").memory_id == "m"
    first, second = peer.requests_of(Remember)
    assert first.key == second.key != ""


def test_a_write_that_gets_no_reply_twice_is_an_error_and_one_without_a_key_is_sent_once(serve, ask):
    peer = serve(hangs_up)

    reply = ask("remember", "/w", "text")
    with pytest.raises(errors.ReplyLost):
        ask("dead", "retry", strict=True)

    assert (type(reply), reply.status) == (Remembered, "error")
    sent = [type(request).__name__ for request in peer.requests if not isinstance(request, Hello)]
    assert sent == ["Remember", "Remember", "Dead"]


@pytest.mark.parametrize("odd", ["directory", "link", "pipe", "file"])
def test_something_else_in_place_of_the_socket_is_named_and_no_daemon_is_started_for_it(socket_file, odd):
    match odd:
        case "directory":
            os.mkdir(socket_file)
        case "link":
            os.symlink("nowhere", socket_file)
        case "pipe":
            os.mkfifo(socket_file)
        case _:
            Path(socket_file).write_text("somebody's")

    with Client(socket_file, autostart=True, executable="/nowhere/forged") as client:
        reply = client.ping()

    assert reply.status == "unavailable"
    assert f"{socket_file} is a " in reply.reason
    assert "not a socket: remove it, or set FORGED_SOCKET to another path" in reply.reason


def test_a_stopped_daemon_is_a_timeout_and_a_full_backlog_unavailable_by_the_deadline(socket_file, ask):
    with stopped_server(socket_file, backlog=5):
        assert ask("search", "/w", "q", timeout_s=SHORT_S).status == "timeout"

    Path(socket_file).unlink(missing_ok=True)
    with stopped_server(socket_file, backlog=1), full_backlog(socket_file):
        reply = ask("search", "/w", "q", timeout_s=SHORT_S)

        assert (reply.status, "connecting" in reply.reason) == ("unavailable", True)
        with pytest.raises(errors.DaemonUnavailable):
            ask("search", "/w", "q", timeout_s=SHORT_S, strict=True)
        with Client(socket_file, timeout_s=SHORT_S) as client:
            assert [each.status for each in client.events("/w")] == ["unavailable"]
        assert asyncio.run(_all_events(AsyncClient(socket_file, timeout_s=SHORT_S))) == ["unavailable"]


async def _all_events(client: AsyncClient) -> list[str]:
    return [each.status async for each in client.events("/w")]


def test_a_reply_to_another_request_is_passed_over(serve, ask):
    @acting_on
    def script(connection, request):
        connection.reply(Found(id=request.id + 7, generation="wrong"))
        connection.reply(Found(id=request.id, generation="right"))

    serve(script)

    assert ask("search", "/w", "q").generation == "right"


@needs_two_users
def test_another_users_listener_gets_nothing(ask, socket_file):
    with listener_of_another_user(socket_file) as received:
        reply = ask("search", "/w", "q")

        assert received() == b""
    assert reply.status == "unavailable"
    assert "12345" in reply.reason
