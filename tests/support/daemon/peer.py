"""A real Unix-socket server that follows a test's script, well or badly; one thread per connection."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from msgspec.structs import replace

from forged_client import protocol
from forged_client.framing import FrameCutter, decode_request, encode
from tests.support.clock import PATIENCE_S


def cut(cutter: FrameCutter, data: bytes) -> Iterator[bytes]:
    """Yield the bodies that `data` completes, when as much arrives at once as the cutter has room for."""
    rest = memoryview(data)
    while rest:
        room = cutter.room()
        size = min(len(room), len(rest))
        room[:size] = rest[:size]
        cutter.held += size
        rest = rest[size:]
        while (body := cutter.take()) is not None:
            yield bytes(body)


class PeerConnection:
    """One accepted connection, for a script."""

    def __init__(self, sock: socket.socket, peer: Peer) -> None:
        self.sock = sock
        self.number = len(peer.connections)
        self._peer = peer
        self._frames = FrameCutter(protocol.MAX_CAPTURE_BYTES)
        self._pending: list[protocol.Request] = []

    def next_request(self) -> protocol.Request | None:
        """Return the next request; None when the client has hung up."""
        while not self._pending:
            data = self.sock.recv(1 << 16)
            if not data:
                return None
            self._pending += map(decode_request, cut(self._frames, data))
        request = self._pending.pop(0)
        self._peer.requests.append(request)
        return request

    def greet(self, **welcome: object) -> None:
        hello = self.next_request()
        if hello is None:
            raise ConnectionResetError
        assert isinstance(hello, protocol.Hello)
        self.reply(protocol.Welcome(id=hello.id, **welcome))

    def reply(self, message: protocol.Reply) -> None:
        self.sock.sendall(encode(message))

    def wait_for_hang_up(self) -> None:
        while self.sock.recv(1 << 16):
            pass


Script = Callable[[PeerConnection], None]
Answer = protocol.Reply | Callable[[protocol.Request], protocol.Reply]


class Peer:
    """Listens at `path` until it is stopped; records `requests` and `connections`."""

    def __init__(self, path: str, script: Script) -> None:
        self.path = path
        self.requests: list[protocol.Request] = []
        self.connections: list[PeerConnection] = []
        self._script = script
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(64)
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def stop(self) -> None:
        """Hang up on all clients and free the path, like a daemon that ends."""
        self._stopping = True
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wake_up:
            wake_up.connect(self.path)
        self._accepting.join(PATIENCE_S)
        self._listener.close()
        for connection in self.connections:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def requests_of(self, kind: type[protocol.Request]) -> list[protocol.Request]:
        return [request for request in self.requests if isinstance(request, kind)]

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            if self._stopping:
                sock.close()
                return
            connection = PeerConnection(sock, self)
            self.connections.append(connection)
            thread = threading.Thread(target=self._converse, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _converse(self, connection: PeerConnection) -> None:
        with suppress(OSError), connection.sock:
            self._script(connection)


def answering(answer: Callable[[protocol.Request], protocol.Reply | None]) -> Script:
    """Return the script of a good daemon: greets, then answers each request with `answer(request)`."""

    def script(connection: PeerConnection) -> None:
        connection.greet()
        while (request := connection.next_request()) is not None:
            reply = answer(request)
            if reply is not None:
                connection.reply(replace(reply, id=request.id))

    return script


class FakeDaemon(Peer):
    """A peer that answers by the type of the request, with a reply or with a function's result."""

    def __init__(self, path: str) -> None:
        self.answers: dict[type[protocol.Request], Answer] = {
            protocol.Hello: protocol.Welcome(version="0.1.0", pid=7),
            protocol.Ping: protocol.Pong(),
        }
        self.waits = threading.Event()
        self._released = threading.Event()
        super().__init__(path, self._answer)

    def _answer(self, connection: PeerConnection) -> None:
        unknown = protocol.Failed(status="error", code="unknown_verb", message="?")
        while (request := connection.next_request()) is not None:
            found = self.answers.get(type(request), unknown)
            reply = found(request) if callable(found) else found
            connection.reply(replace(reply, id=request.id))

    def stop_answering(self) -> protocol.Reply:
        """As an answer: report that a client waits, and leave it waiting until the end of the test."""
        self.waits.set()
        self._released.wait(PATIENCE_S)
        return protocol.Failed(status="error")

    def asked(self, kind: type[protocol.Request]) -> protocol.Request:
        """Return the only request of this type."""
        (request,) = self.requests_of(kind)
        return request

    def stop(self) -> None:
        self._released.set()
        super().stop()


def any_answer(request: protocol.Request) -> protocol.Reply:
    """Return an empty, successful reply of the request's reply type."""
    return request.reply_type()()


_NEVER_ACCEPTS = """
import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1])
listener.listen(int(sys.argv[2]))
print("listening", flush=True)
sys.stdin.read()
"""


@contextmanager
def stopped_server(path: str, backlog: int) -> Iterator[None]:
    """Run a process that listens at `path` and is SIGSTOPped: the kernel still connects callers to it."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _NEVER_ACCEPTS, path, str(backlog)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], PATIENCE_S)[0]
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        yield
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


_OF_ANOTHER_USER = """
import os, socket, sys
os.setgid(12345), os.setuid(12345)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
listener.listen()
listener.setblocking(False)
print("listening", flush=True)
sys.stdin.read()
try:
    while True:
        caller, _ = listener.accept()
        caller.setblocking(False)
        try:
            while data := caller.recv(1 << 16):
                os.write(1, data)
        except BlockingIOError:
            pass
except BlockingIOError:
    pass
"""
needs_two_users = pytest.mark.skipif(
    os.geteuid() != 0 or sys.platform != "linux", reason="needs root to be two users"
)


@contextmanager
def listener_of_another_user(path: str) -> Iterator[Callable[[], bytes]]:
    """Listen at `path` as user 12345; yield a function that ends this and returns the received bytes."""
    folder, name = os.path.split(path)  # a path may be too long for an address
    os.chmod(folder, 0o777)  # that user binds there
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _OF_ANOTHER_USER, name],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listening\n"
        yield lambda: process.communicate(timeout=PATIENCE_S)[0]
    finally:
        process.kill()
        process.wait(PATIENCE_S)


@contextmanager
def full_backlog(path: str) -> Iterator[None]:
    """Open connections until a listener refuses one more."""
    callers = []
    try:
        while True:
            caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            callers.append(caller)
            caller.setblocking(False)
            try:
                caller.connect(path)
            except BlockingIOError:
                break
        yield
    finally:
        for caller in callers:
            caller.close()
