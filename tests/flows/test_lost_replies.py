"""A lost reply: the client sends its write again, and the daemon has done it once."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from forged_client import Client
from forged_client.protocol import Moved, Remembered
from tests.support.clock import PATIENCE_S
from tests.support.daemon import DaemonProcess, Peer, PeerConnection


@pytest.fixture
def lossy(daemon: DaemonProcess) -> Iterator[Client]:
    """A client of the daemon whose connection breaks once, after its first write and before the reply."""

    def script(connection: PeerConnection) -> None:
        connection.greet()
        with daemon.client() as through:
            while (request := connection.next_request()) is not None:
                reply = through.ask(request)
                if connection.number == 0:
                    return
                connection.reply(msgspec.structs.replace(reply, id=request.id))

    with tempfile.TemporaryDirectory(prefix="fg") as folder:
        peer = Peer(f"{folder}/s", script)
        try:
            with Client(peer.path, timeout_s=PATIENCE_S) as client:
                yield client
                assert len(peer.connections) == 2, "the connection has broken once"
        finally:
            peer.stop()


@pytest.fixture
def walrus(daemon: DaemonProcess, repo: Path) -> str:
    """Of a memory in the repository."""
    with daemon.client() as client:
        return client.remember(str(repo), "the walrus sings").memory_id


def test_a_memory_is_written_once(daemon, repo, lossy):
    reply = lossy.remember(str(repo), "the walrus sings")

    assert (type(reply), reply.status, reply.existed) == (Remembered, "ok", False)
    assert len(list((repo / ".forge/memory").glob("*.md"))) == 1


def test_a_memory_is_moved_once_and_the_receipt_is_the_first(daemon, repo, lossy, walrus):
    reply = lossy.move(str(repo), walrus, "user")

    assert (type(reply), reply.status, reply.ids) == (Moved, "ok", (walrus,))
    with daemon.client() as client:
        moved = [each.id for each in client.list(str(repo), scope="user").memories]
    assert moved == [reply.memory_id]
