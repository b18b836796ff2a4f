"""Asyncio client: the same verbs and rules, many requests at once over one connection.

Replies find their request by id. A request that misses its deadline is given up alone. The connection is
dropped with the last waiting request, because a daemon that answers no request may never read again. It
works in one event loop at a time. It is imported only on demand, because asyncio is slow to import.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from forged_client import autostart as daemon_start
from forged_client.address import is_bypassed
from forged_client.async_connection import AsyncConnection
from forged_client.dial import Deadline, retry_pauses, try_connect
from forged_client.errors import (
    ClientError,
    ConnectionLost,
    DaemonAbsent,
    DaemonUnavailable,
    DeadlineExceeded,
    ReplyLost,
)
from forged_client.exchange import (
    bypass_reply,
    error_of_both,
    expect_reply,
    failed_reply,
    may_repeat,
    reply_of_all_parts,
    with_key,
)
from forged_client.protocol import Capture, Captured, Events, Progress, R, Reply, Request
from forged_client.verbs import Verbs


class AsyncClient(Verbs):
    """Asyncio counterpart of `Client`: one awaited method per verb; many calls share one connection."""

    def _start_disconnected(self) -> None:
        self._wire: AsyncConnection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()

    async def ask(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Send any request; return the reply (the client's own if bypassed or, unless `strict`, failed)."""
        if request.bypassable and is_bypassed():
            return bypass_reply(request)
        deadline = self._deadline(request, timeout_s)
        try:
            return expect_reply(request, await self._send_with_retry(with_key(request), deadline))
        except ClientError as error:
            if isinstance(error, DeadlineExceeded) and self._wire is not None and self._wire.is_idle():
                self._close_connection(str(error))
            if self._strict:
                raise
            return failed_reply(request, error)

    async def _send_parts(self, parts: Iterable[Capture]) -> Captured:
        """Send a capture's parts, built in a thread, until one is refused; return one reply for all."""
        deadline, replies, walk = Deadline(self._timeout_s), list[Captured](), iter(parts)
        while (part := await asyncio.to_thread(next, walk, None)) is not None:
            replies.append(await self.ask(part, timeout_s=deadline.seconds()))
            if not replies[-1].is_taken:
                break
        return reply_of_all_parts(replies)

    async def events(
        self, workspace: str = "", *, timeout_s: float | None = None
    ) -> AsyncGenerator[Progress, None]:
        """Yield the progress of builds over its own connection, for `timeout_s` in all (None: one day)."""
        request, wire = Events(workspace=workspace), None
        try:
            async with _connecting_by(opening := Deadline(self._timeout_s)):
                wire = await self._connect_or_start(opening)
            deadline = Deadline(float("inf") if timeout_s is None else timeout_s)
            stream = wire.stream(request)
            while True:
                async with _limit_to(deadline, "waiting for an event"):
                    reply = await anext(stream)
                yield expect_reply(request, reply)
        except ClientError as error:
            if self._strict:
                raise
            yield failed_reply(request, error)
        finally:
            if wire is not None:
                wire.end(ReplyLost("the event stream is closed"))

    async def aclose(self) -> None:
        """Close the connection: waiting requests fail, and a later call opens a new connection."""
        self._close_connection("the client was closed")
        await asyncio.sleep(0)  # the transport closes its socket meanwhile

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _send_with_retry(self, request: Request[R], deadline: Deadline) -> Reply:
        """Send a request and return the reply; if the connection ended and it is safe, send it once more."""
        try:
            return await self._send(request, deadline)
        except ConnectionLost as lost:
            if not may_repeat(request, lost):
                raise
            try:
                return await self._send(request, deadline)
            except DaemonUnavailable as error:
                raise error_of_both(request, lost, error) from error

    async def _send(self, request: Request[R], deadline: Deadline) -> Reply:
        """Send a request over the open or a new connection and return its reply."""
        wire = self._wire
        if wire is None or not wire.is_usable():
            wire = await self._ensure_connection(deadline)
        async with _limit_to(deadline, "waiting for the reply"):
            return await wire.ask(request)

    async def _ensure_connection(self, deadline: Deadline) -> AsyncConnection:
        """Return the open connection, or open one that all callers share. Raises DaemonUnavailable."""
        if self._loop is not (running := asyncio.get_running_loop()):
            self._loop, self._opening = running, asyncio.Lock()
        async with _connecting_by(deadline), self._opening:
            if self._wire is None or not self._wire.is_usable():
                self._close_connection("the connection is no longer usable")
                self._wire = await self._connect_or_start(deadline)
            return self._wire

    def _close_connection(self, reason: str) -> None:
        """Close the connection; every waiting request fails with the reason."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.end(ReplyLost(reason))

    async def _connect_or_start(self, deadline: Deadline) -> AsyncConnection:
        """Connect to the daemon; if none listens and `autostart` is set, start it and connect then."""
        address = self._socket_path()
        try:
            return await self._dial(address)
        except DaemonAbsent:
            if not self._autostart:
                raise
        starting = await asyncio.to_thread(daemon_start.prepare_start, address, self._executable, deadline)
        try:
            for pause in retry_pauses():
                await asyncio.sleep(pause)
                try:
                    return await self._dial(address)
                except DaemonAbsent:
                    await asyncio.to_thread(starting.proceed)
        finally:
            starting.release_lock()
        raise AssertionError  # `retry_pauses` never ends

    async def _dial(self, address: str) -> AsyncConnection:
        """Connect to the daemon's socket; try again while its backlog is full. Raises DaemonUnavailable."""
        pauses = retry_pauses()
        while (opened := try_connect(address)) is None:  # noqa: ASYNC110 - no event announces room in the backlog
            await asyncio.sleep(next(pauses))
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=opened.detach())
        loop = asyncio.get_running_loop()
        try:
            _, wire = await loop.create_unix_connection(lambda: AsyncConnection(sock, self._name), sock=sock)
        except OSError as error:
            sock.close()
            raise DaemonUnavailable(f"cannot use the connection ({error.strerror})") from error
        return wire


@asynccontextmanager
async def _limit_to(deadline: Deadline, doing: str) -> AsyncIterator[None]:
    """Run the `with` body; raise DeadlineExceeded, with the step `doing`, when the deadline passes first."""
    try:
        async with asyncio.timeout(deadline.left(doing)):
            yield
    except TimeoutError as error:
        raise deadline.exceeded(doing) from error


@asynccontextmanager
async def _connecting_by(deadline: Deadline) -> AsyncIterator[None]:
    """Run the `with` body, which connects; raise DaemonUnavailable when the deadline passes first."""
    try:
        async with _limit_to(deadline, "connecting"):
            yield
    except DeadlineExceeded as error:
        # Not a time-out of the request. Nothing was sent, so the status is always `unavailable`.
        raise DaemonUnavailable(str(error)) from error
