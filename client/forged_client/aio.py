"""Asyncio client: the same verbs and rules, many requests at once over one connection.

Replies find their request by id. A request that misses its deadline is given up alone; the connection is
dropped with the last one waiting, because a daemon that leaves everyone without an answer may never read
again. Works in one event loop at a time; imported only when asked for, as asyncio is slow to import.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from forged_client import autostart as daemon_start
from forged_client.address import bypassed
from forged_client.dial import Deadline, attempt, growing_pauses
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
    expect_reply,
    failed_reply,
    keyed,
    may_repeat,
    of_all_parts,
    of_both,
)
from forged_client.protocol import Capture, Captured, Events, Progress, R, Reply, Request
from forged_client.verbs import Verbs
from forged_client.wire import Wire


class AsyncClient(Verbs):
    """As `Client`, with `await`."""

    def _start_disconnected(self) -> None:
        self._wire: Wire | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()

    async def ask(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """The reply to any request; the verbs make the requests that they are named after."""
        if request.bypassable and bypassed():
            return bypass_reply(request)
        deadline = self._deadline(request, timeout_s)
        try:
            return expect_reply(request, await self._deliver(keyed(request), deadline))
        except ClientError as error:
            if isinstance(error, DeadlineExceeded) and self._wire is not None and self._wire.is_idle():
                self._drop(str(error))
            if self._strict:
                raise
            return failed_reply(request, error)

    async def _hand_over(self, parts: Iterable[Capture]) -> Captured:
        """As `Client._hand_over`; the parts are made in a thread, as a long window takes its time."""
        deadline, replies, walk = Deadline(self._timeout_s), list[Captured](), iter(parts)
        while (part := await asyncio.to_thread(next, walk, None)) is not None:
            replies.append(await self.ask(part, timeout_s=deadline.seconds()))
            if not replies[-1].is_taken:
                break
        return of_all_parts(replies)

    async def events(
        self, workspace: str = "", *, timeout_s: float | None = None
    ) -> AsyncGenerator[Progress, None]:
        """As `Client.events`."""
        request, wire = Events(workspace=workspace), None
        try:
            async with _until(opening := Deadline(self._timeout_s), "connecting"):
                wire = await self._open(opening)
            deadline = Deadline(float("inf") if timeout_s is None else timeout_s)
            stream = wire.stream(request)
            while True:
                async with _until(deadline, "waiting for an event"):
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
        """Close the connection; a later call opens a new one."""
        self._drop("the client was closed")
        await asyncio.sleep(0)  # in which the transport closes its socket

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _deliver(self, request: Request[R], deadline: Deadline) -> Reply:
        try:
            return await self._send(request, deadline)
        except ConnectionLost as lost:
            if not may_repeat(request, lost):
                raise
            try:
                return await self._send(request, deadline)
            except DaemonUnavailable as error:
                raise of_both(request, lost, error) from error

    async def _send(self, request: Request[R], deadline: Deadline) -> Reply:
        wire = self._wire
        if wire is None or not wire.is_usable():
            wire = await self._connected(deadline)
        async with _until(deadline, "waiting for the reply"):
            return await wire.ask(request)

    async def _connected(self, deadline: Deadline) -> Wire:
        if self._loop is not (running := asyncio.get_running_loop()):
            self._loop, self._opening = running, asyncio.Lock()
        try:
            async with _until(deadline, "connecting"), self._opening:
                if self._wire is None or not self._wire.is_usable():
                    self._drop("the connection is no longer usable")
                    self._wire = await self._open(deadline)
                return self._wire
        except DeadlineExceeded as error:
            # Not a time-out of the request: nothing was sent, and `unavailable` always says so.
            raise DaemonUnavailable(str(error)) from error

    def _drop(self, reason: str) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.end(ReplyLost(reason))

    async def _open(self, deadline: Deadline) -> Wire:
        address = self._socket_path()
        try:
            return await self._dialled(address)
        except DaemonAbsent:
            if not self._autostart:
                raise
        starting = await asyncio.to_thread(daemon_start.start, address, self._executable, deadline)
        try:
            for pause in growing_pauses():
                await asyncio.sleep(pause)
                try:
                    return await self._dialled(address)
                except DaemonAbsent:
                    await asyncio.to_thread(starting.check)
        finally:
            starting.done()
        raise AssertionError  # the pauses never end

    async def _dialled(self, address: str) -> Wire:
        pauses = growing_pauses()
        while (opened := attempt(address)) is None:  # noqa: ASYNC110 - a full backlog tells nobody
            await asyncio.sleep(next(pauses))
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=opened.detach())
        loop = asyncio.get_running_loop()
        try:
            _, wire = await loop.create_unix_connection(lambda: Wire(sock, self._name), sock=sock)
        except OSError as error:
            sock.close()
            raise DaemonUnavailable(f"cannot use the connection ({error.strerror})") from error
        return wire


@asynccontextmanager
async def _until(deadline: Deadline, doing: str) -> AsyncIterator[None]:
    """The body, ended by DeadlineExceeded when the deadline passes first."""
    try:
        async with asyncio.timeout(deadline.left(doing)):
            yield
    except TimeoutError as error:
        raise deadline.exceeded(doing) from error
