"""The asyncio client: the same verbs and the same rules, many requests at once over one connection.

Replies find their request by id, so a slow retrieve never holds up a ping. A request that misses its
deadline is given up alone; the connection is dropped with the last one waiting, because a daemon that
leaves everyone without an answer may never read again. One `AsyncClient` works in one event loop at a time.
A `BufferedProtocol` is used because asyncio's streams cost twice as much per reply (performance note 1a).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Iterable
from types import TracebackType
from typing import Self

from forged_client import autostart as daemon_start
from forged_client import protocol
from forged_client.address import checked, socket_path
from forged_client.client import DEFAULT_TIMEOUT_S, GRACE_S
from forged_client.deadline import Deadline
from forged_client.dial import attempt, growing_pauses, is_gone
from forged_client.errors import ClientError, ConnectionLost, DaemonAbsent, ReplyLost
from forged_client.exchange import Exchange, R, failure, may_repeat, settled
from forged_client.window import CAPTURE_BYTES, RETRIEVE_BYTES, window

_BUFFER_BYTES = 1 << 16

Arrival = protocol.Reply | ClientError


class _Wire(asyncio.BufferedProtocol):
    """One connection: an exchange, a buffer, and a mailbox for each request that waits."""

    def __init__(self, sock: socket.socket, name: str) -> None:
        self.sock = sock
        self.loop = asyncio.get_running_loop()
        self._exchange = Exchange(name)
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._waiting: dict[int, asyncio.Queue[Arrival]] = {}
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended: ClientError | None = None
        self._transport: asyncio.Transport | None = None

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's signature
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            replies = self._exchange.replies(self._buffer[:nbytes])
        except ClientError as error:
            self.end(error)
            return
        for reply in replies:
            if mailbox := self._waiting.get(reply.id):
                mailbox.put_nowait(reply)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.end(ReplyLost("the daemon closed the connection before it replied"))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # What the client calls.

    def is_usable(self) -> bool:
        if self._ended is not None or self.loop is not asyncio.get_running_loop():
            return False
        # The loop may not have seen yet that an idle connection was closed.
        return bool(self._waiting) or not is_gone(self.sock)

    async def ask(self, request: protocol.Request) -> protocol.Reply:
        stream = self.stream(request)
        try:
            return await anext(stream)
        finally:
            await stream.aclose()

    async def stream(self, request: protocol.Request) -> AsyncGenerator[protocol.Reply, None]:
        """Every reply to one request, until the connection ends, which is raised."""
        await self._writable.wait()
        if self._ended is not None:
            raise ConnectionLost("the connection ended before the request was sent")
        number, frame = self._exchange.request(request)
        mailbox = self._waiting[number] = asyncio.Queue()
        try:
            assert self._transport is not None
            self._transport.write(frame)
            while True:
                arrival = await mailbox.get()
                if isinstance(arrival, ClientError):
                    raise arrival
                yield arrival
        finally:
            del self._waiting[number]

    @property
    def is_idle(self) -> bool:
        return not self._waiting

    def end(self, error: ClientError) -> None:
        """Close the connection and tell everybody who waits why."""
        if self._ended is not None:
            return
        self._ended = error
        self._writable.set()
        for mailbox in self._waiting.values():
            mailbox.put_nowait(error)
        if self._transport is not None and not self.loop.is_closed():
            self._transport.abort()
        else:
            self.sock.close()


class AsyncClient:
    """As `Client`, with `await`; see there for the parameters."""

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        autostart: bool = False,
        executable: str | None = None,
        strict: bool = False,
        name: str = "forged-client",
    ) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._autostart = autostart
        self._executable = executable
        self._strict = strict
        self._name = name
        self._wire: _Wire | None = None
        self._opening: asyncio.Lock | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; a later call opens a new one."""
        self._drop(ReplyLost("the client was closed"))
        await asyncio.sleep(0)  # lets the transport close its socket

    # The verbs, as in client.py.

    async def ping(self) -> protocol.Pong:
        return await self._ask(protocol.Ping(), protocol.Pong)

    async def status(self, workspace: str = "") -> protocol.StatusReport:
        return await self._ask(protocol.Status(workspace=workspace), protocol.StatusReport)

    async def retrieve(
        self,
        workspace: str,
        messages: Iterable[object] = (),
        *,
        session_id: str = "",
        turn_id: str = "",
        last_summary_index: int = 0,
        hypotheses: Iterable[str] = (),
        token_budget: int | None = None,
        timeout_s: float | None = None,
        min_generation: str = "",
        known_digest: str = "",
    ) -> protocol.Retrieved:
        request = protocol.Retrieve(
            workspace=workspace,
            session_id=session_id,
            turn_id=turn_id,
            messages=window(messages, last_summary_index, RETRIEVE_BYTES),
            last_summary_index=last_summary_index,
            hypotheses=tuple(hypotheses),
            token_budget=token_budget,
            timeout_s=timeout_s,
            min_generation=min_generation,
            known_digest=known_digest,
        )
        seconds = None if timeout_s is None else timeout_s + GRACE_S
        return await self._ask(request, protocol.Retrieved, seconds)

    async def search(
        self, workspace: str, query: str, *, limit: int = 10, min_generation: str = ""
    ) -> protocol.Found:
        request = protocol.Search(
            workspace=workspace, query=query, limit=limit, min_generation=min_generation
        )
        return await self._ask(request, protocol.Found)

    async def why(self, workspace: str = "", *, session_id: str = "", query: str = "") -> protocol.Explained:
        request = protocol.Why(workspace=workspace, session_id=session_id, query=query)
        return await self._ask(request, protocol.Explained)

    async def remember(
        self,
        workspace: str,
        content: str,
        *,
        scope: str = "repo",
        category: str = "user-facts",
        supersedes: str = "",
        related: Iterable[protocol.Edge] = (),
        session_id: str = "",
    ) -> protocol.Remembered:
        request = protocol.Remember(
            workspace=workspace,
            content=content,
            scope=scope,
            category=category,
            supersedes=supersedes,
            related=tuple(related),
            session_id=session_id,
        )
        return await self._ask(request, protocol.Remembered)

    async def capture(
        self,
        workspace: str,
        session_id: str,
        messages: Iterable[object],
        *,
        kind: str = "turn",
        last_summary_index: int = 0,
    ) -> protocol.Captured:
        request = protocol.Capture(
            workspace=workspace,
            session_id=session_id,
            kind=kind,
            messages=window(messages, last_summary_index, CAPTURE_BYTES),
            last_summary_index=last_summary_index,
        )
        return await self._ask(request, protocol.Captured)

    async def get(self, workspace: str, ids: Iterable[str], *, min_generation: str = "") -> protocol.Memories:
        request = protocol.GetMemories(workspace=workspace, ids=tuple(ids), min_generation=min_generation)
        return await self._ask(request, protocol.Memories)

    async def list(
        self,
        workspace: str,
        *,
        scope: str = "",
        category: str = "",
        all_versions: bool = False,
        limit: int = 100,
        offset: int = 0,
        min_generation: str = "",
    ) -> protocol.Memories:
        request = protocol.ListMemories(
            workspace=workspace,
            scope=scope,
            category=category,
            all_versions=all_versions,
            limit=limit,
            offset=offset,
            min_generation=min_generation,
        )
        return await self._ask(request, protocol.Memories)

    async def history(self, workspace: str, memory_id: str, *, min_generation: str = "") -> protocol.Chain:
        request = protocol.History(workspace=workspace, memory_id=memory_id, min_generation=min_generation)
        return await self._ask(request, protocol.Chain)

    async def forget(
        self, workspace: str, memory_id: str, *, version_only: bool = False, erase_now: bool = False
    ) -> protocol.Forgotten:
        request = protocol.Forget(
            workspace=workspace, memory_id=memory_id, version_only=version_only, erase_now=erase_now
        )
        return await self._ask(request, protocol.Forgotten)

    async def rebuild(
        self, workspace: str, *, full: bool = False, wait: bool = False, timeout_s: float | None = None
    ) -> protocol.Rebuilt:
        request = protocol.Rebuild(workspace=workspace, full=full, wait=wait)
        return await self._ask(request, protocol.Rebuilt, timeout_s)

    async def events(
        self, workspace: str = "", *, timeout_s: float | None = None
    ) -> AsyncGenerator[protocol.Progress, None]:
        """As `Client.events`, on the shared connection."""
        deadline = Deadline(float("inf") if timeout_s is None else timeout_s)
        doing = "waiting for an event"
        stream = None
        try:
            wire = await self._connected(Deadline(self._timeout_s))
            stream = wire.stream(protocol.Events(workspace=workspace))
            while True:
                reply = await _within(deadline, doing, anext(stream))
                yield settled(reply, protocol.Progress)
        except ClientError as error:
            if self._strict:
                raise
            yield failure(protocol.Progress, error)
        finally:
            if stream is not None:
                await stream.aclose()
