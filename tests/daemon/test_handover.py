"""Handover of a daemon's place: complete, to a living successor; else it stays."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from forged.daemon import handover, listening
from forged.daemon.handover import AddressClaim, Successor
from forged.daemon.listening import AlreadyRunning
from forged_client import protocol as wire
from forged_client.framing import encode
from tests.support.clock import PATIENCE_S
from tests.support.daemon import Peer, PeerConnection


class Old:
    """A daemon's side: its place, and what it does with one that asks for it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = listening.lock(path)
        self.socket = listening.bind(path)
        self._threads = ThreadPoolExecutor(4)

    def asked(self) -> Successor:
        """Whoever asks next; it has been greeted."""
        peer, _ = self.socket.accept()
        connection = PeerConnection(peer, _Log())
        connection.greet()
        request = connection.next_request()
        assert isinstance(request, wire.HandOver)
        return Successor(peer, request)

    def take(self) -> Future[AddressClaim]:
        """A successor that wants the place, in this process."""
        return self._threads.submit(handover.claim_address, self.path, replace=True)

    def end(self) -> None:
        self.socket.close()
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    def is_locked(self) -> bool:
        """Whether another process would find the lock taken."""
        try:
            os.close(listening.lock(self.path))
        except AlreadyRunning:
            return True
        return False

    def close(self) -> None:
        self.end()
        self._threads.shutdown(cancel_futures=True)


class _Log:
    """What `Talk` needs of a peer."""

    def __init__(self) -> None:
        self.requests: list[wire.Request] = []
        self.connections: list[PeerConnection] = []


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="fg") as directory:
        yield str(Path(directory) / "s" / "forged.sock")


@pytest.fixture
def old(path: str) -> Iterator[Old]:
    old = Old(path)
    try:
        yield old
    finally:
        old.close()


@pytest.fixture
def vector_pack() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        file.write(b"known by heart")
        file.flush()
        yield file.fileno()


def let_go(place: AddressClaim) -> None:
    for descriptor in (place.lock, *place.vector_packs):
        os.close(descriptor)
    if place.listening is not None:
        place.listening.close()


# --- a place that is given ----------------------------------------------------------------------------


def test_the_lock_names_the_process_that_holds_it(old):
    os.ftruncate(old.lock, 0)
    os.pwrite(old.lock, b"12345678901\n", 0)
    taking = old.take()
    successor = old.asked()
    assert successor.give(old.lock, old.socket, ())
    successor.close()

    place = taking.result(PATIENCE_S)

    assert place.vector_packs == ()
    with open(f"{old.path}.lock", "rb") as file:
        assert file.read() == f"{os.getpid()}\n".encode()
    let_go(place)


@pytest.mark.parametrize("replace", [False, True])
def test_the_place_of_a_daemon_that_ends_is_waited_for(old, replace):
    old.socket.close()
    with ThreadPoolExecutor(1) as thread:
        taking = thread.submit(handover.claim_address, old.path, replace=replace)
        with pytest.raises(TimeoutError):
            taking.result(0.1)
        old.end()

        let_go(taking.result(PATIENCE_S))


def test_no_daemon_begins_before_the_old_one_has_hung_up(old):
    taking = old.take()
    successor = old.asked()

    assert successor.give(old.lock, old.socket, ())
    with pytest.raises(TimeoutError):
        taking.result(0.1)

    successor.close()
    let_go(taking.result(PATIENCE_S))


# --- one of them dies, or hangs -----------------------------------------------------------------------


@pytest.mark.parametrize("word", [b"", wire.YOURS, b"\0"])
def test_a_place_is_given_only_to_a_successor_that_says_it_is_ready(old, word):
    """One that says anything else, or hangs up halfway, would not begin: then nobody would serve."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(PATIENCE_S)
    successor = Successor(ours, wire.HandOver(id=2, pid=1))
    theirs.sendall(word)
    theirs.shutdown(socket.SHUT_WR)  # it still listens

    with theirs:
        assert not successor.give(old.lock, old.socket, ())
        successor.close()
        reported = b""
        while data := theirs.recv(1 << 16):
            reported += data
        assert reported == encode(wire.HandedOver(id=2, pid=os.getpid()))  # never that the place is given
    assert old.is_locked()


@pytest.mark.parametrize("word", [b"", wire.READY, b"\0"])
def test_a_successor_begins_only_after_the_word_that_the_address_is_its_own(old, vector_pack, word):
    taking = old.take()
    taking.add_done_callback(lambda _: old.socket.shutdown(socket.SHUT_RDWR))  # nobody asks any more
    first = old.asked()
    given = [old.lock, old.socket.fileno(), vector_pack]
    socket.send_fds(first._peer, [encode(wire.HandedOver(id=2))], given)
    assert first._peer.recv(1) == wire.READY
    first._peer.sendall(word)
    first.close()

    second = old.asked()  # it asks once more
    assert not taking.done()
    assert second.give(old.lock, old.socket, ())
    second.close()
    place = taking.result(PATIENCE_S)
    assert place.vector_packs == ()
    let_go(place)


def test_the_old_daemon_goes_on_when_its_successor_hangs(old, monkeypatch):
    monkeypatch.setattr(handover, "_ANSWER_S", 0.05)
    ours, theirs = socket.socketpair()
    successor = Successor(ours, wire.HandOver(id=2, pid=1))

    with theirs:
        assert not successor.give(old.lock, old.socket, ())
    successor.close()


def test_a_successor_that_was_given_up_keeps_nothing_and_asks_again(old, vector_pack):
    """It was slow, and the old daemon went on; it has the descriptors, but not the word."""
    taking = old.take()
    first = old.asked()
    reply = wire.HandedOver(id=2)
    socket.send_fds(first._peer, [encode(reply)], [old.lock, old.socket.fileno(), vector_pack])
    assert first._peer.recv(1) == wire.READY
    before = _open_descriptors()
    first.close()

    second = old.asked()  # no lock was free, so it asks once more
    assert second.give(old.lock, old.socket, ())
    second.close()
    place = taking.result(PATIENCE_S)

    assert place.vector_packs == ()
    let_go(place)
    assert _open_descriptors() <= before


def test_a_successor_whose_old_daemon_dies_with_its_word_half_said_takes_the_free_place(old):
    """Its own copy of the lock must not keep it from the lock."""
    taking = old.take()
    successor = old.asked()
    socket.send_fds(successor._peer, [encode(wire.HandedOver(id=2))], [old.lock, old.socket.fileno()])
    old.end()
    successor.close()

    place = taking.result(PATIENCE_S)

    assert place.listening is None
    let_go(place)


def test_a_successor_gives_up_on_a_daemon_that_does_not_end(old, monkeypatch):
    monkeypatch.setattr(handover, "_ENDING_S", 0.05)
    taking = old.take()
    successor = old.asked()

    with pytest.raises(AlreadyRunning, match="did not hand over in time"):
        taking.result(PATIENCE_S)
    successor.close()


def test_a_successor_waits_no_longer_than_its_patience_for_one_that_is_always_busy(old, monkeypatch):
    monkeypatch.setattr(handover, "PATIENCE_S", 0.1)
    old.socket.settimeout(0.2)
    taking = old.take()

    with contextlib.suppress(TimeoutError):
        while not taking.done():
            old.asked().refuse("busy", "the daemon is ending")
    with pytest.raises(AlreadyRunning, match="already running"):
        taking.result(PATIENCE_S)


# --- a place that is not to be had --------------------------------------------------------------------


def test_a_daemon_that_does_not_know_the_request_is_to_be_ended_first(path):
    def of_an_older_version(connection: PeerConnection) -> None:
        connection.greet()
        connection.next_request()
        connection.reply(
            wire.Failed(id=2, code="unknown_verb", message="this daemon does not know 'hand_over'")
        )
        connection.wait_for_hang_up()

    lock = listening.lock(path)
    peer = Peer(path, of_an_older_version)
    try:
        with pytest.raises(AlreadyRunning, match="too old to hand over: end it with SIGTERM"):
            handover.claim_address(path, replace=True)
    finally:
        peer.stop()
        os.close(lock)


def _open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
