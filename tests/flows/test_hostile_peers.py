"""Broken and hostile peers get a typed error or a closed connection; others are served."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time

import msgspec
import pytest

from forged_client import framing, protocol
from tests.support.clock import PATIENCE_S
from tests.support.daemon import DaemonProcess, cut

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def others_are_served(daemon):
    """After every attack the same process answers a new client."""
    pid = daemon.pid
    yield
    with daemon.client(strict=True) as client:
        assert client.ping().status == "ok"
    assert daemon.process.poll() is None
    assert daemon.pid == pid


def test_garbage_is_answered_with_a_typed_error_or_closed(daemon):
    source = random.Random(7)
    for _ in range(300):
        with _connect(daemon) as peer:
            _send(peer, source.randbytes(source.randrange(1, 400)))
            peer.shutdown(socket.SHUT_WR)
            for body in _bodies(peer):
                assert isinstance(framing.decode_reply(body), protocol.Failed)


@pytest.mark.parametrize("claimed", [0xFFFFFFFF, 0x80000000, protocol.MAX_CAPTURE_BYTES + 1])
def test_a_claimed_length_over_the_limit_is_refused_at_the_header(daemon, claimed):
    with _connect(daemon) as peer:
        _send(peer, _frame(protocol.Hello(id=1)) + struct.pack(">I", claimed))

        replies = [framing.decode_reply(body) for body in _bodies(peer)]

    assert replies[-1].code == "frame_too_large"


def test_a_request_over_one_mebibyte_is_refused_and_the_connection_goes_on(daemon):
    big = protocol.Search(id=2, workspace="/", query="x" * (protocol.MAX_REQUEST_BYTES + 1))
    with _connect(daemon) as peer:
        _send(peer, _frame(protocol.Hello(id=1)) + _frame(big) + _frame(protocol.Ping(id=3)))
        peer.shutdown(socket.SHUT_WR)

        _, refused, pong = (framing.decode_reply(body) for body in _bodies(peer))

    assert (refused.id, refused.code) == (2, "frame_too_large")
    assert isinstance(pong, protocol.Pong)


_HELLO, _FROM_LATER = protocol.Hello(id=1), protocol.Hello(id=1, protocol_min=7, protocol_max=9)


@pytest.mark.parametrize(
    ("requests", "refusal"),
    [
        pytest.param([protocol.Ping(id=5)], (5, "hello_required"), id="no hello"),
        pytest.param([_HELLO, {"type": "levitate", "id": 9}], (9, "unknown_verb"), id="unknown verb"),
        pytest.param([_FROM_LATER], (1, "protocol_mismatch"), id="another protocol"),
    ],
)
def test_what_is_no_request_here_gets_a_typed_error_with_its_id(daemon, requests, refusal):
    with _connect(daemon) as peer:
        _send(peer, b"".join(map(_frame, requests)))
        peer.shutdown(socket.SHUT_WR)

        replies = [framing.decode_reply(body) for body in _bodies(peer)]

    assert len(replies) == len(requests)
    assert (replies[-1].id, replies[-1].code) == refusal


@pytest.mark.long
def test_one_byte_a_second_is_cut_off_while_others_are_served(daemon):
    slow = [_connect(daemon) for _ in range(50)]
    before = _counter(daemon, "slow_senders_closed")
    frame = _frame(protocol.Hello(id=1))

    ended = time.monotonic() + 2 * PATIENCE_S
    sent = 0
    while _counter(daemon, "slow_senders_closed") < before + 50:
        assert time.monotonic() < ended
        for peer in slow:
            _send(peer, frame[sent : sent + 1])
        sent += 1
        _wait(1.0)

    for peer in slow:
        assert _is_closed(peer)
        peer.close()


def _connect(daemon: DaemonProcess) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(PATIENCE_S)
    peer.connect(daemon.socket)
    return peer


def _frame(message: protocol.Request | dict[str, object]) -> bytes:
    if isinstance(message, protocol.Request):
        return bytes(framing.encode(message))
    body = msgspec.msgpack.encode(message)
    return struct.pack(">I", len(body)) + body


def _send(peer: socket.socket, data: bytes) -> None:
    """Send what the daemon takes; that it closes meanwhile is one of the right answers."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
        peer.sendall(data)


def _bodies(peer: socket.socket):
    frames = framing.FrameCutter(protocol.MAX_REPLY_BYTES)
    while True:
        try:
            data = peer.recv(65536)
        except ConnectionResetError:
            return
        if not data:
            return
        yield from cut(frames, data)


def _is_closed(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


def _counter(daemon: DaemonProcess, name: str) -> int:
    with daemon.client(strict=True) as client:
        return client.status().counters[name]


def _wait(seconds: float) -> None:
    """The pace of a peer that drips: the behaviour under test, not a wait for something to happen."""
    time.sleep(seconds)
