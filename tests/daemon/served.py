"""A stand-in for the handlers behind a real server, and a peer of it that counts bytes and not words."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

from forged.counters import Metrics
from forged.daemon import listening
from forged.daemon.connection import Server
from forged_client import protocol as wire
from forged_client.framing import FrameCutter, decode_reply, encode
from tests.support.daemon import cut


class ScriptedService:
    """Answers pings at once; a search when `release(query)` has been called; `replies` by query at once.

    What is remembered is done when its text has been released. A retrieve gets the reply of its turn, and
    `whole` tells of each whether it was written whole.
    """

    def __init__(self) -> None:
        self.requests: list[wire.Request] = []
        self.replies: dict[str, wire.Reply | Exception] = {}
        self.late: dict[str, wire.Reply | Exception] = {}
        self.progress: asyncio.Queue[wire.Progress] = asyncio.Queue()
        self.ended: list[str] = []  # queries whose work is over, in any way
        self.written: list[str] = []
        self.whole: dict[str, bool] = {}
        self._gates: dict[str, asyncio.Event] = {}

    def release(self, query: str) -> None:
        self._gate(query).set()

    def release_all(self) -> None:
        for gate in self._gates.values():
            gate.set()

    def _gate(self, query: str) -> asyncio.Event:
        return self._gates.setdefault(query, asyncio.Event())

    def handle(
        self, request: wire.Request, _: object
    ) -> wire.Reply | Awaitable[wire.Reply] | AsyncIterator[wire.Reply]:
        if isinstance(request, wire.Events):
            return self._events(request)
        self.requests.append(request)
        match request:
            case wire.Hello():
                return wire.Welcome(id=request.id)
            case wire.Search() if request.query in self.replies:
                return _given(self.replies[request.query], request.id)
            case wire.Search():
                return self._when_released(request)
            case wire.Retrieve():
                return _given(self.replies[request.turn_id], request.id)
            case wire.Remember():
                return self._when_written(request)
        return wire.Pong(id=request.id)

    def sent(self, request: wire.Request, *, whole: bool) -> None:
        if isinstance(request, wire.Retrieve):
            self.whole[request.turn_id] = whole

    async def _when_released(self, request: wire.Search) -> wire.Reply:
        try:
            await self._gate(request.query).wait()
            return _given(self.late.get(request.query, wire.Found()), request.id)
        finally:
            self.ended.append(request.query)

    async def _when_written(self, request: wire.Remember) -> wire.Reply:
        await self._gate(request.content).wait()
        self.written.append(request.content)
        return wire.Remembered(id=request.id)

    async def _events(self, request: wire.Events) -> AsyncIterator[wire.Reply]:
        try:
            while True:
                yield _given(await self.progress.get(), request.id)
        finally:
            self.ended.append("events")

    @property
    def searches(self) -> int:
        return sum(isinstance(request, wire.Search) for request in self.requests)


def _given(reply: wire.Reply | Exception, number: int) -> wire.Reply:
    from msgspec.structs import replace

    if isinstance(reply, Exception):
        raise reply
    return replace(reply, id=number)


class Served:
    """A server on a real socket, its service, and what a test needs to reach it."""

    def __init__(self, directory: Path, uid: int | None) -> None:
        self.path = str(directory / "s.sock")
        self.service = ScriptedService()
        self.metrics = Metrics()
        self.server = Server(self.service, self.metrics, uid=uid)
        self._peers: list[Peer] = []

    async def connect(self, *, hello: bool = True, path: str | None = None) -> Peer:
        """A new connection, greeted unless told otherwise."""
        reader, writer = await asyncio.open_unix_connection(path or self.path)
        peer = Peer(reader, writer)
        self._peers.append(peer)
        if hello:
            peer.send(wire.Hello(id=1))
            assert isinstance(await peer.reply(), wire.Welcome)
        return peer

    async def close(self) -> None:
        self.service.release_all()
        await self.server.stop()
        for peer in self._peers:
            peer.writer.close()
            with contextlib.suppress(OSError):
                await peer.writer.wait_closed()


class Peer:
    """The client's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._frames = FrameCutter(wire.MAX_REPLY_BYTES)
        self._replies: list[wire.Reply] = []

    def send(self, *requests: wire.Request) -> None:
        self.writer.write(b"".join(encode(request) for request in requests))

    async def send_bytes(self, data: bytes) -> None:
        """Hand bytes to the kernel, and let the server meet them before any others."""
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0.002)

    async def reply(self) -> wire.Reply:
        """The next reply. Raises EOFError when the server has closed."""
        while not self._replies:
            data = await self.reader.read(1 << 16)
            if not data:
                raise EOFError
            self._replies += map(decode_reply, cut(self._frames, data))
        return self._replies.pop(0)

    async def rest(self) -> list[wire.Reply]:
        """All replies until the server closes."""
        replies = []
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                replies.append(await self.reply())
        return replies

    def half_close(self) -> None:
        self.writer.get_extra_info("socket").shutdown(socket.SHUT_WR)


@contextlib.asynccontextmanager
async def serving(uid: int | None = None) -> AsyncIterator[Served]:
    directory = Path(tempfile.mkdtemp(prefix="fg"))  # short: socket names have 107 bytes
    served = Served(directory, uid)
    try:
        await served.server.start(listening.bind(served.path))
        yield served
    finally:
        await served.close()
        shutil.rmtree(directory)
