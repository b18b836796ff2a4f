"""Connections of the daemon's Unix socket: admission, frames, replies, and their ends.

A peer of another user is refused before a byte of it is read. A request's error becomes its reply. With 64
requests in flight no more are read. Only hello and ping are answered at once. asyncio's streams would
allocate a quarter of a megabyte per read and take twice the time.
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
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, Protocol

from forged.agent_table import doubt_about
from forged.counters import Metrics
from forged.daemon.listening import BACKLOG
from forged.errors import ForgedError
from forged.fair_queue import FairQueue, QueueClient, log_failure
from forged_client import framing, protocol
from forged_client.errors import FrameTooLarge, MalformedFrame
from forged_client.protocol import Failed, HandOver, Reply, Request

logger = logging.getLogger(__name__)

FRAME_TIMEOUT_S = 5.0
READER_TIMEOUT_S = 5.0
_IN_FLIGHT = 64
_FRAMES_AT_ONCE = 64  # of one connection, in one iteration of the loop
_WAITING_BYTES = protocol.MAX_CAPTURE_BYTES  # of one connection; one more request is read above that
_MAX_FRAME_BYTES = protocol.MAX_REPLY_BYTES + framing.HEADER_BYTES
MAX_CONNECTIONS = 128
SWEEP_S = 1.0
_ACCEPTED_AT_ONCE = 16  # without a free descriptor asyncio logs so many failures, then waits 1 s
_GRACE_S = 1.0  # for requests under way when the daemon stops; writes have twice as long
_ACCEPTING_TURNS = 5  # iterations of the loop from accept until asyncio reads from a connection


def has_left(peer: socket.socket) -> bool:
    """Return True if a peer closed both directions of its connection, and not only its sending side."""
    hung_up = select.poll()
    hung_up.register(peer, 0)
    return bool(hung_up.poll(0))


class Peer:
    """Process at the other end of a connection: its user, and its id (0 if the system does not tell it)."""

    def __init__(self, pid: int, uid: int) -> None:
        self.pid, self.uid = pid, uid
        self._since_s = time.clock_gettime(time.CLOCK_BOOTTIME) if pid > 0 else 0.0

    def doubt(self) -> str:
        """Return why its text may not be that of a person at a terminal, or "". Blocks to read /proc."""
        return doubt_about(self.pid, self._since_s)


UNKNOWN = Peer(0, -1)


def peer_of(connected: socket.socket) -> Peer:
    """Return the process at a socket's other end; its uid is -1, never admitted, if the system is silent."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        pid, uid, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        return Peer(pid, uid)
    if hasattr(socket, "LOCAL_PEERCRED"):  # macOS: struct xucred, version and uid first
        credentials = connected.getsockopt(0, socket.LOCAL_PEERCRED, 76)
        return Peer(0, int(struct.unpack_from("Ii", credentials)[1]))
    return UNKNOWN


class Service(Protocol):
    """Protocol of the part that answers requests: the dispatcher, or a replacement in a test."""

    def handle(self, request: Request[Any], peer: Peer) -> Reply | Awaitable[Reply] | AsyncIterator[Reply]:
        """Return the reply to a request of a process, an awaitable of it, or a stream of replies."""

    def sent(self, request: Request[Any], *, whole: bool) -> None:
        """Take note of a sent reply; `whole` if it was no error and the peer took all of it."""


class ServerConnection(asyncio.BufferedProtocol):
    """Connection of one peer: reads and runs requests within limits, replies, and drops a slow peer."""

    def __init__(self, server: Server) -> None:
        self.greeted = False
        self.in_flight = 0
        self.last_active = time.monotonic()
        self._server, self._service, self._metrics = server, server.service, server.metrics
        self._transport: asyncio.Transport | None = None
        self.peer = UNKNOWN
        self._frames = framing.FrameCutter(protocol.MAX_CAPTURE_BYTES)
        self._began: float | None = None  # when the first byte of an unfinished frame came
        self._stuck_since: float | None = None  # when the peer stopped taking replies
        self._ended = False  # the peer will send no more
        self._is_draining = False  # the daemon stops: it reads and begins no more
        self._unsent = 0
        self._streams: set[asyncio.Task[None]] = set()
        self._questions: set[asyncio.Task[None]] = set()
        self.writes: set[asyncio.Task[None]] = set()
        self._queue_client = QueueClient(server.queue)
        self._waiting: deque[tuple[Request[Any], int]] = deque()  # received and not begun, with their sizes
        self._waiting_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the peer; drop one of another user, refuse one too many with an error."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        refusal = self._server.admit(self, transport)
        if refusal == "foreign":
            transport.abort()
        elif refusal:
            self.refuse(refusal, "too many connections are busy; try again")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Cancel the lost peer's streams and reading requests; its writes, also waiting ones, go on."""
        self._server.connections.discard(self)
        self._transport = None
        for task in self._streams | self._questions:
            task.cancel()
        self._waiting = deque(each for each in self._waiting if each[0].is_write)
        self._queue_client.release()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Return the buffer into which asyncio puts the next received bytes."""
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Note that bytes came, and carry out or queue the complete requests among them."""
        self._frames.held += nbytes
        self.last_active = time.monotonic()
        self._take_frames()

    def _take_frames(self) -> None:
        """Carry out or queue complete frames while there is room; refuse one that is too large."""
        began, frames, taken = self._began, self._frames, 0
        try:
            while frames.held and self._has_room and (body := frames.take()) is not None:
                began = None
                self._receive_request(body)
                if (taken := taken + 1) == _FRAMES_AT_ONCE:
                    self._queue_client.begin(self._take_frames)
                    break
        except FrameTooLarge:
            self._metrics.bad_frames += 1
            self.refuse("frame_too_large", f"a request may have at most {protocol.MAX_CAPTURE_BYTES} bytes")
            return
        if not frames.held:
            self._began = None
        elif began is None:
            self._began = time.monotonic()

    def eof_received(self) -> bool:
        """Return True to keep a half-closed connection until its replies are sent, False to close it."""
        self._ended, self._began = True, None
        if self._transport is None or not self.in_flight:
            return False
        return not has_left(self._transport.get_extra_info("socket"))

    def pause_writing(self) -> None:
        """Stop reading and running requests: the peer does not take its replies."""
        self._stuck_since = time.monotonic()
        if self._transport is not None:
            self._unsent = self._transport.get_write_buffer_size()
            self._transport.pause_reading()
            self._queue_client.hold()

    def resume_writing(self) -> None:
        """Read and run requests again: the peer has taken its replies."""
        self._stuck_since = None
        self._queue_client.release()
        self._resume_reading()

    @property
    def begun(self) -> set[asyncio.Task[None]]:
        """Tasks of the connection's requests that are being carried out, without streams."""
        return self.writes | self._questions

    def drain(self) -> None:
        """Read no more and drop waiting requests, as the daemon stops; those being carried out go on."""
        self._is_draining = True
        self._waiting.clear()
        self._queue_client.release()
        if self._transport is not None:
            self._transport.pause_reading()

    def end(self) -> None:
        """Close the connection once its pending replies are sent."""
        if self._transport is not None:
            self._transport.close()

    def refuse(self, code: str, message: str) -> None:
        """Send an error, then close; a peer that does not read it is cut off after 5 s."""
        self.send(Failed(status="error", reason=code, code=code, message=message))
        if self._transport is not None:
            self._server.connections.discard(self)
            self._transport.close()
            asyncio.get_running_loop().call_later(READER_TIMEOUT_S, self._transport.abort)
            self._transport = None

    def drop_if_slow(self, now: float) -> None:
        """Drop a peer that took over 5 s to send a frame, or took no byte of replies for 5 s."""
        if self._transport is None:
            return
        reading = self._has_room and self._transport.is_reading()  # else no peer can finish a frame
        if reading and self._began is not None and now - self._began > FRAME_TIMEOUT_S:
            self._metrics.slow_senders_closed += 1
            self._transport.abort()
            return
        if self._stuck_since is not None:
            unsent = self._transport.get_write_buffer_size()
            if unsent < self._unsent:
                self._unsent, self._stuck_since = unsent, now
            elif now - self._stuck_since > READER_TIMEOUT_S:
                self._metrics.slow_readers_closed += 1
                self._transport.abort()

    def send(self, reply: Reply) -> bool:
        """Write a reply; False if the peer is gone, is dropped for unread replies, or gets an error."""
        if self._transport is None or self._transport.is_closing():
            return False
        frame, is_whole = self._encode(reply)
        stuck = self._stuck_since is not None
        if stuck and self._transport.get_write_buffer_size() > protocol.MAX_REPLY_BYTES:
            self._metrics.slow_readers_closed += 1
            self._transport.abort()
            return False
        self._transport.write(frame)
        return is_whole

    def _answer(self, request: Request[Any], reply: Reply) -> None:
        """Send a reply; if the request injects, report to the service whether it was sent whole."""
        whole = self.send(reply)
        if request.injects:
            wire = self._transport
            gone = wire is None or wire.is_closing() or wire.get_write_buffer_size() > 0
            self._service.sent(request, whole=whole and not gone)

    def _encode(self, reply: Reply) -> tuple[bytes, bool]:
        """Return a reply's frame, or an error's if too large or not encodable; True if no error."""
        try:
            frame = framing.encode(reply)
        except (TypeError, ValueError, OverflowError) as error:
            return framing.encode(self._log_internal_error(reply.id, type(reply).__name__, error)), False
        if len(frame) <= _MAX_FRAME_BYTES:
            return frame, not isinstance(reply, Failed)
        return framing.encode(_failure(reply.id, "invalid", "the reply is over 4 MiB; ask for less")), False

    def _receive_request(self, body: memoryview) -> None:
        """Decode a frame; refuse, carry out or queue its request, or pass on a daemon's hand-over."""
        try:
            request = framing.decode_request(body)
        except MalformedFrame as error:
            self._metrics.bad_frames += 1
            self.send(_decode_error_reply(body, error))
            return
        if len(body) > request.limit_bytes:
            self._metrics.bad_frames += 1
            self.send(
                _failure(request.id, "frame_too_large", "a request may have at most 1 MiB, a capture 2 MiB")
            )
            return
        if not self.greeted and not isinstance(request, protocol.Hello):
            self.send(_failure(request.id, "hello_required", "the first request is hello"))
            return
        if request.at_once:
            self._carry_out(request)
            return
        if isinstance(request, protocol.HandOver):
            if self._transport is not None:  # answered over a duplicate, which outlives this server
                self._server.give_way(request, self._transport.get_extra_info("socket").dup())
            return
        self.in_flight += 1
        self._waiting.append((request, len(body)))
        self._waiting_bytes += len(body)
        if not self._has_room and self._transport is not None:
            self._transport.pause_reading()
        self._queue_client.begin(self._begin_next)

    def _begin_next(self) -> None:
        """Begin the oldest waiting request, unless all were dropped, and read again if that makes room."""
        if not self._waiting:
            return
        request, size = self._waiting.popleft()
        self._waiting_bytes -= size
        if not self._carry_out(request):
            self._request_ended()
        elif self._waiting_bytes < _WAITING_BYTES <= self._waiting_bytes + size:
            self._resume_reading()

    def _carry_out(self, request: Request[Any]) -> bool:
        """Begin a request: answer it at once and return False, or start a task and return True."""
        try:
            answer = self._service.handle(request, self.peer)
        except Exception as error:  # noqa: BLE001 - the request guard: one bad request ends nothing
            answer = self._error_reply(request, error)
        if isinstance(answer, Reply):
            self.greeted = self.greeted or isinstance(answer, protocol.Welcome)
            self._answer(request, answer)
            return False
        if isinstance(answer, AsyncIterator):
            self._start_task(self._send_stream(request, answer), self._streams)
        else:
            kind = self.writes if request.is_write else self._questions
            task = self._start_task(self._await_and_answer(request, answer), kind)
            if isinstance(answer, Coroutine):  # close it, also if it was cancelled before its first step
                task.add_done_callback(lambda _: answer.close())
        return True

    def _start_task(
        self, work: Coroutine[None, None, None], kind: set[asyncio.Task[None]]
    ) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, context=self._queue_client.context)
        kind.add(task)
        task.add_done_callback(log_failure)
        task.add_done_callback(kind.discard)
        task.add_done_callback(self._request_ended)
        return task

    def _request_ended(self, _: object = None) -> None:
        """Count a request as ended; read again if that makes room, or close a half-closed connection."""
        self.in_flight -= 1
        if self._ended and not self.in_flight:
            self.end()
        if self.in_flight == _IN_FLIGHT - 1:
            self._resume_reading()

    @property
    def _has_room(self) -> bool:
        """True if one more request may be read: the peer takes replies, and no limit is reached."""
        open_ = self._transport is not None and not self._transport.is_closing()
        willing = self._stuck_since is None and not self._is_draining
        return open_ and willing and self.in_flight < _IN_FLIGHT and self._waiting_bytes < _WAITING_BYTES

    def _resume_reading(self) -> None:
        """Take buffered frames, then read from the socket, while there is room for requests."""
        if self._has_room:
            self._take_frames()
        if self._has_room and self._transport is not None:
            if self._began is not None:
                self._began = time.monotonic()
            self._transport.resume_reading()

    async def _await_and_answer(self, request: Request[Any], answer: Awaitable[Reply]) -> None:
        try:
            reply = await answer
        except Exception as error:  # noqa: BLE001 - the request guard
            reply = self._error_reply(request, error)
        self._answer(request, reply)

    async def _send_stream(self, request: Request[Any], replies: AsyncIterator[Reply]) -> None:
        try:
            async for reply in replies:
                self.send(reply)
        except Exception as error:  # noqa: BLE001 - the request guard
            self.send(self._error_reply(request, error))

    def _error_reply(self, request: Request[Any], error: Exception) -> Reply:
        if isinstance(error, ForgedError):
            return _failure(request.id, error.code, str(error))
        return self._log_internal_error(request.id, type(request).__name__, error)

    def _log_internal_error(self, number: int, verb: str, error: Exception) -> Failed:
        self._metrics.internal_errors += 1
        logger.error("request failed verb=%s", verb, exc_info=error)
        return _failure(number, "internal", "the daemon's log says more")


def _failure(number: int, code: str, message: str) -> Failed:
    return Failed(id=number, status="error", reason=f"{code}: {message}", code=code, message=message)


def _decode_error_reply(body: memoryview, error: MalformedFrame) -> Failed:
    """Return the error reply to a malformed frame; an unknown verb is named and gets its id back."""
    try:
        head = framing.decode_head(body)
    except MalformedFrame:
        head = framing.FrameHead()
    known = {struct_.__struct_config__.tag for struct_ in protocol.REQUESTS}
    if head.type and head.type not in known:
        return _failure(head.id, "unknown_verb", f"this daemon does not know {head.type[:64]!r}")
    return _failure(head.id, "invalid", str(error))


def _refuse_handover(_: HandOver, peer: socket.socket) -> None:
    """Refuse another daemon that asks to replace this one, by closing its connection."""
    peer.close()


class Server:
    """Accepts connections on the daemon's socket, limits their number, drops slow peers, ends them all."""

    def __init__(
        self,
        service: Service,
        metrics: Metrics,
        *,
        uid: int | None = None,
        give_way: Callable[[HandOver, socket.socket], None] = _refuse_handover,
    ) -> None:
        """`give_way` gets the connection of a daemon that wants to replace this one."""
        self.service, self.metrics, self.give_way = service, metrics, give_way
        self.connections: set[ServerConnection] = set()
        self.queue = FairQueue()
        self._uid = os.geteuid() if uid is None else uid
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket) -> None:
        """Accept connections on a listening socket, and begin to drop slow peers."""
        self._server = await self._start_accepting(listening)
        self._sweeper = asyncio.create_task(self._drop_slow_peers(), name="sweeper")
        self._sweeper.add_done_callback(log_failure)

    async def replace(self, listening: socket.socket) -> None:
        """Serve another socket from now on; open connections stay."""
        assert self._server is not None
        await self._stop_accepting(self._server)
        self._server = await self._start_accepting(listening)

    def listening(self) -> socket.socket:
        """Return a duplicate of the served socket: new connections wait there while this server ends."""
        assert self._server is not None
        return self._server.sockets[0].dup()

    def connection(self) -> ServerConnection:
        return ServerConnection(self)

    async def _start_accepting(self, listening: socket.socket) -> asyncio.Server:
        keep_path: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        server = await asyncio.get_running_loop().create_unix_server(
            self.connection, sock=listening, backlog=_ACCEPTED_AT_ONCE, **keep_path
        )
        listening.listen(BACKLOG)  # asyncio accepts as many at once as may wait
        return server

    async def stop(self) -> None:
        """Accept and read no more, give requests under way 1 s (writes 2 s), then end every connection."""
        if self._server is not None:
            await self._stop_accepting(self._server)
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in self.connections:
            connection.drain()
        await _ended(task for connection in self.connections for task in connection.begun)
        await _ended(task for connection in self.connections for task in connection.writes)
        for connection in tuple(self.connections):
            connection.end()
        await asyncio.sleep(0)

    async def _stop_accepting(self, server: asyncio.Server) -> None:
        """Stop accepting, let accepted connections be set up, then close the listening socket."""
        for each in server.sockets:
            asyncio.get_running_loop().remove_reader(each.fileno())
        for _ in range(_ACCEPTING_TURNS):
            await asyncio.sleep(0)
        server.close()

    def admit(self, connection: ServerConnection, transport: asyncio.Transport) -> str:
        """Add a peer and return "", or why to refuse it; if all places are taken the longest idle goes."""
        connection.peer = peer_of(transport.get_extra_info("socket"))
        if connection.peer.uid != self._uid:
            self.metrics.foreign_peers_refused += 1
            return "foreign"
        if len(self.connections) >= MAX_CONNECTIONS:
            quiet = [other for other in self.connections if not other.in_flight]
            if not quiet:
                self.metrics.connections_refused += 1
                return "busy"
            self.metrics.connections_evicted += 1
            min(quiet, key=lambda other: (other.greeted, other.last_active)).refuse(
                "busy", "too many connections; the one that was idle for longest was closed"
            )
        self.connections.add(connection)
        return ""

    async def _drop_slow_peers(self) -> None:
        """Drop slow peers, once a second. One timer for all costs an idle daemon nothing."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now = time.monotonic()
            for connection in tuple(self.connections):
                connection.drop_if_slow(now)


async def _ended(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Wait until tasks of requests have ended, at most one second."""
    if begun := tuple(tasks):
        await asyncio.wait(begun, timeout=_GRACE_S)
