"""The Unix socket: accept, frames, decode, guard, encode; and what a hostile or broken peer may cost.

Each connection is a `BufferedProtocol` with a buffer of its own, because asyncio's streams and plain
protocols allocate a quarter of a megabyte per read and take twice the time (performance-anchors.md 1d).
A peer of another user is refused before a byte is read. A length is judged before its frame is read, a
frame must be complete 5 s after its first byte, a reader that takes nothing for 5 s is dropped, and when
all places are taken the connection that has been quiet for longest makes room (design.md section 4).
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Coroutine
from typing import Protocol

from forged.counters import Metrics
from forged.daemon.listening import BACKLOG
from forged.errors import ForgedError
from forged_client import framing, protocol
from forged_client.errors import MalformedFrame
from forged_client.protocol import AnyRequest, Failed, Reply

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 128
FRAME_TIMEOUT_S = 5.0
READER_TIMEOUT_S = 5.0
SWEEP_S = 1.0
# What was begun when the daemon is told to stop has this long to be answered.
_GRACE_S = 1.0
# Turns of the loop from the acceptance of a connection until asyncio has made it and read what it said.
_ACCEPTING_TURNS = 5
_BUFFER_BYTES = 1 << 16
_IN_FLIGHT = 64
_HEADER = framing.HEADER_BYTES
_size_at = struct.Struct(">I").unpack_from


class Service(Protocol):
    """What answers requests: `handlers.Handlers`, or a stand-in of a test."""

    def handle(self, request: AnyRequest) -> Reply | Awaitable[Reply]: ...

    def events(self, request: protocol.Events) -> AsyncIterator[Reply]: ...

    def code_of(self, error: ForgedError) -> str: ...


class Server:
    """All connections of one listening socket."""

    def __init__(self, service: Service, metrics: Metrics, *, uid: int | None = None) -> None:
        self.service = service
        self.metrics = metrics
        self.connections: set[Connection] = set()
        self._uid = os.geteuid() if uid is None else uid
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket) -> None:
        """Serve a bound and listening Unix socket."""
        self._server = await self._accept(listening)
        self._sweeper = asyncio.create_task(self._sweep())

    async def replace(self, listening: socket.socket) -> None:
        """Serve another socket from now on; open connections stay."""
        assert self._server is not None
        await self._close(self._server)
        self._server = await self._accept(listening)

    def listening(self) -> socket.socket:
        """The socket that is served, once more: whoever connects while this server ends waits in its line."""
        assert self._server is not None
        return self._server.sockets[0].dup()

    async def _accept(self, listening: socket.socket) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        if sys.version_info < (3, 13):
            return await loop.create_unix_server(lambda: Connection(self), sock=listening, backlog=BACKLOG)
        # Who bound the path removes it: it may be the service manager's.
        return await loop.create_unix_server(
            lambda: Connection(self), sock=listening, backlog=BACKLOG, cleanup_socket=False
        )

    async def stop(self) -> None:
        """Stop accepting, let what was begun be answered for a moment, then end every connection."""
        if self._server is not None:
            await self._close(self._server)
        if self._sweeper is not None:
            self._sweeper.cancel()
        begun = [task for connection in self.connections for task in connection.begun]
        if begun:
            await asyncio.wait(begun, timeout=_GRACE_S)
        for connection in tuple(self.connections):
            connection.end()
        await asyncio.sleep(0)

    async def _close(self, server: asyncio.Server) -> None:
        """Accept no more, and close once what was accepted is made: asyncio would leave it open, unserved."""
        for each in server.sockets:
            asyncio.get_running_loop().remove_reader(each.fileno())
        for _ in range(_ACCEPTING_TURNS):
            await asyncio.sleep(0)
        server.close()

    def admit(self, connection: Connection, transport: asyncio.Transport) -> str:
        """Why a new peer must go, or nothing. Makes room by ending the quietest connection."""
        if _peer_uid(transport.get_extra_info("socket")) != self._uid:
            self.metrics.foreign_peers_refused += 1
            return "foreign"
        if len(self.connections) >= MAX_CONNECTIONS:
            quiet = [other for other in self.connections if not other.in_flight]
            if not quiet:
                self.metrics.connections_refused += 1
                return "busy"
            self.metrics.connections_evicted += 1
            min(quiet, key=lambda other: (other.greeted, other.last_heard)).refuse(
                "busy", "too many connections; this one was quiet for longest"
            )
        self.connections.add(connection)
        return ""

    async def _sweep(self) -> None:
        """End peers that send or take too slowly. One timer for all costs an idle daemon nothing."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now = time.monotonic()
            for connection in tuple(self.connections):
                connection.check(now)


class Connection(asyncio.BufferedProtocol):
    """One client: bytes in, requests to the service, replies out as they are ready."""

    def __init__(self, server: Server) -> None:
        self.greeted = False
        self.in_flight = 0
        self.last_heard = time.monotonic()
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._have = 0
        self._began: float | None = None  # when the first byte of an unfinished frame came
        self._stuck_since: float | None = None  # when the peer stopped taking replies
        self._ended = False  # the peer will send no more
        self._unsent = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams: set[asyncio.Task[None]] = set()

    # --- asyncio's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        refusal = self._server.admit(self, transport)
        if refusal == "foreign":
            transport.abort()
        elif refusal:
            self.refuse(refusal, "too many connections are busy; try again")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._server.connections.discard(self)
        self._transport = None
        # A request that was begun is carried out: a write half done helps nobody. A stream has no end.
        for stream in self._streams:
            stream.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._view[self._have :] if self._have else self._view

    def buffer_updated(self, nbytes: int) -> None:
        self._have += nbytes
        self.last_heard = time.monotonic()
        self._receive_whole_frames()

    def _receive_whole_frames(self) -> None:
        """Begin what has arrived, as far as there is room for it; the rest stays in the buffer."""
        start, received = 0, False
        while self._have - start >= _HEADER and self._has_room:
            (size,) = _size_at(self._buffer, start)
            if size > protocol.MAX_CAPTURE_BYTES:
                self._server.metrics.bad_frames += 1
                self.refuse("frame_too_large", f"a request may have {protocol.MAX_CAPTURE_BYTES} bytes")
                return
            end = start + _HEADER + size
            if end > self._have:
                self._make_room(start, _HEADER + size)
                start = 0
                break
            self._receive(self._view[start + _HEADER : end])
            start, received = end, True
        self._compact(start)
        if received or self._began is None or not self._have:
            self._began = time.monotonic() if self._have else None

    def eof_received(self) -> bool:
        """Keep the connection of a peer that only says that it will ask no more, until it has its replies."""
        self._ended, self._began = True, None
        return self.in_flight > 0 and self._transport is not None and not _has_left(self._transport)

    def pause_writing(self) -> None:
        self._stuck_since = time.monotonic()
        if self._transport is not None:
            self._unsent = self._transport.get_write_buffer_size()
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._stuck_since = None
        self._listen_again()

    # --- the server's side ---

    @property
    def begun(self) -> set[asyncio.Task[None]]:
        """Requests that are being carried out; streams are not, as they have no end."""
        return self._tasks - self._streams

    def end(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def refuse(self, code: str, message: str) -> None:
        """Say why, then close; a peer that does not read it is cut off after 5 s."""
        self.send(Failed(status="error", reason=code, code=code, message=message))
        if self._transport is not None:
            self._server.connections.discard(self)
            self._transport.close()
            asyncio.get_running_loop().call_later(READER_TIMEOUT_S, self._transport.abort)
            self._transport = None

    def check(self, now: float) -> None:
        """Cut a peer that took more than 5 s for one frame, or took no reply for 5 s."""
        if self._transport is None:
            return
        # While it is we who do not read, nobody can finish a frame.
        reading = self._has_room and self._transport.is_reading()
        if reading and self._began is not None and now - self._began > FRAME_TIMEOUT_S:
            self._server.metrics.slow_senders_closed += 1
            self._transport.abort()
            return
        if self._stuck_since is not None:
            unsent = self._transport.get_write_buffer_size()
            if unsent < self._unsent:
                self._unsent, self._stuck_since = unsent, now
            elif now - self._stuck_since > READER_TIMEOUT_S:
                self._server.metrics.slow_readers_closed += 1
                self._transport.abort()

    def send(self, reply: Reply) -> None:
        if self._transport is None:
            return
        frame = self._encoded(reply)
        stuck = self._stuck_since is not None
        if stuck and self._transport.get_write_buffer_size() > protocol.MAX_REPLY_BYTES:
            self._server.metrics.slow_readers_closed += 1
            self._transport.abort()
            return
        self._transport.write(frame)

    def _encoded(self, reply: Reply) -> bytes:
        """The reply's frame, or that of a typed error when it has none."""
        try:
            frame = framing.encode(reply)
        except (TypeError, ValueError, OverflowError) as error:
            return framing.encode(self._broken(reply.id, type(reply).__name__, error))
        if len(frame) <= protocol.MAX_REPLY_BYTES + _HEADER:
            return frame
        return framing.encode(_failed(reply.id, "invalid", "the reply is over 4 MiB; ask for less"))

    # --- requests ---

    def _receive(self, body: memoryview) -> None:
        """Answer one frame, at once or in a task; nothing that a request does may end the daemon."""
        try:
            request = framing.decode_request(body)
        except MalformedFrame as error:
            self._server.metrics.bad_frames += 1
            self.send(_undecodable(body, error))
            return
        if len(body) > protocol.MAX_REQUEST_BYTES and not isinstance(request, protocol.Capture):
            self._server.metrics.bad_frames += 1
            self.send(_failed(request.id, "frame_too_large", "a request may have 1 MiB, a capture 2 MiB"))
            return
        if not self.greeted and not isinstance(request, protocol.Hello):
            self.send(_failed(request.id, "hello_required", "the first request is hello"))
            return
        if isinstance(request, protocol.Events):
            stream = self._start(self._stream(request))
            self._streams.add(stream)
            stream.add_done_callback(self._streams.discard)
            return
        try:
            answer = self._server.service.handle(request)
        except Exception as error:  # noqa: BLE001 - the request guard: one bad request ends nothing
            self.send(self._guarded(request, error))
            return
        if isinstance(answer, Reply):
            self.greeted = self.greeted or isinstance(answer, protocol.Welcome)
            self.send(answer)
        else:
            self._start(self._finish(request, answer))

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        self.in_flight += 1
        task.add_done_callback(self._done)
        if self.in_flight == _IN_FLIGHT and self._transport is not None:
            self._transport.pause_reading()
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.in_flight -= 1
        if self._ended and not self.in_flight:
            self.end()
        self._listen_again()

    @property
    def _has_room(self) -> bool:
        """Whether one more request may be begun: not with 64 in flight or a peer that takes no replies."""
        open_ = self._transport is not None and not self._transport.is_closing()
        return open_ and self._stuck_since is None and self.in_flight < _IN_FLIGHT

    def _listen_again(self) -> None:
        if self._has_room:
            self._receive_whole_frames()
        if self._has_room and self._transport is not None:
            if self._began is not None:
                self._began = time.monotonic()
            self._transport.resume_reading()

    async def _finish(self, request: AnyRequest, answer: Awaitable[Reply]) -> None:
        try:
            reply = await answer
        except Exception as error:  # noqa: BLE001 - the request guard
            reply = self._guarded(request, error)
        self.send(reply)

    async def _stream(self, request: protocol.Events) -> None:
        try:
            async for reply in self._server.service.events(request):
                self.send(reply)
        except Exception as error:  # noqa: BLE001 - the request guard
            self.send(self._guarded(request, error))

    def _guarded(self, request: AnyRequest, error: Exception) -> Reply:
        if isinstance(error, ForgedError):
            return _failed(request.id, self._server.service.code_of(error), str(error))
        return self._broken(request.id, type(request).__name__, error)

    def _broken(self, number: int, verb: str, error: Exception) -> Failed:
        self._server.metrics.internal_errors += 1
        logger.error("request failed verb=%s", verb, exc_info=error)
        return _failed(number, "internal", "the daemon's log says more")

    # --- the buffer ---

    def _make_room(self, start: int, needed: int) -> None:
        """Move an unfinished frame to the front; grow as it arrives, so that a claim alone costs nothing."""
        self._compact(start)
        size = len(self._buffer)
        if needed > size and self._have == size:
            grown = bytearray(min(size * 4, needed))
            grown[: self._have] = self._view[: self._have]
            self._buffer, self._view = grown, memoryview(grown)

    def _compact(self, start: int) -> None:
        rest = self._have - start
        if start and rest:
            self._buffer[:rest] = self._buffer[start : self._have]
        self._have = rest
        if not rest and len(self._buffer) > _BUFFER_BYTES:
            self._buffer = bytearray(_BUFFER_BYTES)
            self._view = memoryview(self._buffer)


def _failed(number: int, code: str, message: str) -> Failed:
    return Failed(id=number, status="error", reason=f"{code}: {message}", code=code, message=message)


def _undecodable(body: memoryview, error: MalformedFrame) -> Failed:
    """A frame of an unknown verb still gets its id back; anything else is only called invalid."""
    try:
        head = framing.decode_head(body)
    except MalformedFrame:
        head = framing.Head()
    known = {struct_.__struct_config__.tag for struct_ in protocol.AnyRequest.__args__}
    if head.type and head.type not in known:
        code, message = "unknown_verb", f"this daemon does not know {head.type[:64]!r}"
    else:
        code, message = "invalid", str(error)
    return Failed(id=head.id, status="error", reason=f"{code}: {message}", code=code, message=message)


def _has_left(transport: asyncio.Transport) -> bool:
    """Whether the peer closed altogether, and not only the way from it to us."""
    hung_up = select.poll()
    hung_up.register(transport.get_extra_info("socket"), 0)
    return bool(hung_up.poll(0))


def _peer_uid(peer: socket.socket) -> int:
    """User id at the other end; -1 when the system cannot tell, which admits nobody."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        return int(uid)
    if hasattr(socket, "LOCAL_PEERCRED"):  # macOS: struct xucred, version and uid first
        credentials = peer.getsockopt(0, socket.LOCAL_PEERCRED, 76)
        return int(struct.unpack_from("Ii", credentials)[1])
    return -1
