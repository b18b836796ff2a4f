"""One asyncio connection to the daemon: an `Exchange`, and a mailbox for each waiting request.

Replies come in any order. Errors are those of a blocking connection, raised to every waiting request. It is
a `BufferedProtocol`, because asyncio's streams and plain protocols cost twice as much per reply.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

from forged_client.dial import has_hung_up
from forged_client.errors import ClientError, ConnectionLost, ReplyLost
from forged_client.exchange import Exchange
from forged_client.protocol import R, Reply, Request

Mailbox = asyncio.Queue[Reply | ClientError]


class AsyncConnection(asyncio.BufferedProtocol):
    """Asyncio connection to the daemon that concurrent requests share; belongs to the loop that made it."""

    def __init__(self, sock: socket.socket, name: str) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._exchange = Exchange(name)
        self._waiting: dict[int, Mailbox] = {}
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = False
        self._transport: asyncio.Transport | None = None

    async def ask(self, request: Request[R]) -> Reply:
        """Return the reply to one request. Raises ClientError, and ReplyLost if the connection ends first."""
        with self._open_mailbox(request) as (mailbox, frame):
            await self._write(frame)
            return await _next_reply(mailbox)

    async def stream(self, request: Request[R]) -> AsyncGenerator[Reply, None]:
        """Yield every reply to one request, until the connection ends; then its error is raised."""
        with self._open_mailbox(request) as (mailbox, frame):
            await self._write(frame)
            while True:
                yield await _next_reply(mailbox)

    def is_usable(self) -> bool:
        """Return True if the connection is open, belongs to the running loop, and was not hung up."""
        if self._ended or self._loop is not asyncio.get_running_loop():
            return False
        # The loop may not have seen yet that an idle connection was closed.
        return bool(self._waiting) or not has_hung_up(self._sock)

    def is_idle(self) -> bool:
        """Return True if no request waits for a reply."""
        return not self._waiting

    def end(self, error: ClientError) -> None:
        """Close the connection and pass the error to every waiting request."""
        if self._ended:
            return
        self._ended = True
        self._writable.set()
        for mailbox in self._waiting.values():
            mailbox.put_nowait(error)
        if self._transport is not None and not self._loop.is_closed():
            self._transport.abort()
        else:
            self._sock.close()

    @contextmanager
    def _open_mailbox(self, request: Request[R]) -> Iterator[tuple[Mailbox, bytes]]:
        """Give a request a mailbox during the `with` body; yield the mailbox and the frame to send."""
        number, frame = self._exchange.encode_request(request)
        mailbox = self._waiting[number] = asyncio.Queue()
        try:
            yield mailbox, frame
        finally:
            del self._waiting[number]

    async def _write(self, frame: bytes) -> None:
        """Write a frame once the transport has room. Raises ConnectionLost if the connection has ended."""
        # If the daemon does not read, requests wait here and not in a growing buffer.
        await self._writable.wait()
        if self._ended or self._transport is None:
            raise ConnectionLost("the connection ended before the request was sent")
        self._transport.write(frame)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's signature
        return self._exchange.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Put the replies that these bytes complete into their mailboxes; on an error end the connection."""
        try:
            replies = self._exchange.decode_replies(nbytes)
        except ClientError as error:
            self.end(error)
            return
        for reply in replies:
            if mailbox := self._waiting.get(reply.id):
                mailbox.put_nowait(reply)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        """Fail the requests of a lost connection, with the daemon's refusal if it sent one, or ReplyLost."""
        if not self._ended:
            self._read_refusal()
        self.end(ReplyLost("the daemon closed the connection before it replied"))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _read_refusal(self) -> None:
        """Read what the daemon sent before it hung up; an error in it ends the connection."""
        try:
            size = self._sock.recv_into(self._exchange.room())
        except OSError:
            return
        if size:
            self.buffer_updated(size)


async def _next_reply(mailbox: Mailbox) -> Reply:
    """Return the next reply to arrive in a mailbox, or raise the error that ended the connection."""
    arrived = await mailbox.get()
    if isinstance(arrived, ClientError):
        raise arrived
    return arrived
