"""A scripted daemon on a real Unix socket: answers each verb with the reply that a test laid down."""

from __future__ import annotations

import shutil
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from forged_client.framing import FrameCutter, decode_request, encode
from forged_client.protocol import (
    MAX_REQUEST_BYTES,
    Failed,
    Hello,
    Ping,
    Pong,
    Reply,
    Request,
    Welcome,
)
from tests.support.frames import cut

Answer = Reply | Callable[[Request], Reply]


class FakeDaemon(socketserver.ThreadingUnixStreamServer):
    """`answers` maps request types to replies, or to functions of the request; ids are filled in."""

    daemon_threads = True

    def __init__(self, directory: str) -> None:
        self.path = f"{directory}/forged.sock"
        self.answers: dict[type[Request], Answer] = {Hello: Welcome(version="0.1.0", pid=7), Ping: Pong()}
        self.requests: list[Request] = []
        self.waits = threading.Event()
        self._released = threading.Event()
        super().__init__(self.path, _Conversation)

    def answer(self, request: Request) -> Reply:
        self.requests.append(request)
        found = self.answers.get(type(request), Failed(status="error", code="unknown_verb", message="?"))
        reply = found(request) if callable(found) else found
        return msgspec.structs.replace(reply, id=request.id)

    def stop_answering(self) -> Reply:
        """As an answer: say that a client waits, and leave it waiting until the test is over."""
        self.waits.set()
        self._released.wait(30)
        return Failed(status="error")

    def release(self) -> None:
        self._released.set()

    def asked(self, kind: type[Request]) -> Request:
        """The only request of this type."""
        (request,) = (request for request in self.requests if isinstance(request, kind))
        return request

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news."""


class _Conversation(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        frames = FrameCutter(MAX_REQUEST_BYTES)
        while data := self.request.recv(65536):
            for body in cut(frames, data):
                self.request.sendall(encode(self.server.answer(decode_request(body))))


@contextmanager
def fake_daemon() -> Iterator[FakeDaemon]:
    """A fake that listens, and is gone at the end. Socket paths are short, so not under tmp_path."""
    directory = tempfile.mkdtemp(prefix="fgf")
    Path(directory).chmod(0o700)
    try:
        with FakeDaemon(directory) as daemon:
            thread = threading.Thread(
                target=daemon.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
            )
            thread.start()
            yield daemon
            daemon.release()
            daemon.shutdown()
            thread.join(5)
    finally:
        shutil.rmtree(directory)
