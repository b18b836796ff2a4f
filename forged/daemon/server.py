"""All connections of the daemon's Unix socket: who may come in, who must make room, and how they all end.

In: a bound and listening socket, and a service that answers requests. A peer of another user is refused
before a byte of it is read. When all places are taken, the connection that has been quiet for longest goes.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from forged.counters import Metrics
from forged.daemon import peer
from forged.daemon.connection import ServerConnection, Service
from forged.daemon.listening import BACKLOG
from forged.fair_queue import FairQueue, logged
from forged_client.protocol import HandOver

MAX_CONNECTIONS = 128
SWEEP_S = 1.0
# Without a descriptor left asyncio tries so often, complains each time, and pauses for a second.
_ACCEPTED_AT_ONCE = 16
# What was begun when the daemon is told to stop has this long to be answered, and what writes twice as long.
_GRACE_S = 1.0
# Turns of the loop from the acceptance of a connection until asyncio has made it and read what it said.
_ACCEPTING_TURNS = 5


def _stays(_: HandOver, peer: socket.socket) -> None:
    peer.close()


class Server:
    """All connections of one listening socket."""

    def __init__(
        self,
        service: Service,
        metrics: Metrics,
        *,
        uid: int | None = None,
        give_way: Callable[[HandOver, socket.socket], None] = _stays,
    ) -> None:
        """`give_way` is told of a daemon that wants this one's place, and owns the connection to it."""
        self._service = service
        self._metrics = metrics
        self._give_way = give_way
        self.connections: set[ServerConnection] = set()
        self._line = FairQueue()
        self._uid = os.geteuid() if uid is None else uid
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket) -> None:
        """Serve a bound and listening Unix socket."""
        self._server = await self._accept(listening)
        self._sweeper = asyncio.create_task(self._sweep(), name="sweeper")
        self._sweeper.add_done_callback(logged)

    async def replace(self, listening: socket.socket) -> None:
        """Serve another socket from now on; open connections stay."""
        assert self._server is not None
        await self._close(self._server)
        self._server = await self._accept(listening)

    def listening(self) -> socket.socket:
        """The socket that is served, once more: whoever connects while this server ends waits in its line."""
        assert self._server is not None
        return self._server.sockets[0].dup()

    def connection(self) -> ServerConnection:
        """A connection that nobody has made yet."""
        return ServerConnection(
            self._service,
            self._metrics,
            self._line,
            admit=self._admit,
            left=self.connections.discard,
            give_way=self._give_way,
        )

    async def _accept(self, listening: socket.socket) -> asyncio.Server:
        # Who bound the path removes it: it may be the service manager's.
        kept: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        server = await asyncio.get_running_loop().create_unix_server(
            self.connection, sock=listening, backlog=_ACCEPTED_AT_ONCE, **kept
        )
        listening.listen(BACKLOG)  # asyncio takes as many at once as it lets wait
        return server

    async def stop(self) -> None:
        """Accept, read and begin no more, let what was begun be answered, then end every connection."""
        if self._server is not None:
            await self._close(self._server)
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in self.connections:
            connection.finish()
        await _ended(task for connection in self.connections for task in connection.begun)
        await _ended(task for connection in self.connections for task in connection.writes)
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

    def _admit(self, connection: ServerConnection, transport: asyncio.Transport) -> str:
        """Why a new peer must go, or nothing. Makes room by ending the quietest connection."""
        if peer.uid_of(transport.get_extra_info("socket")) != self._uid:
            self._metrics.foreign_peers_refused += 1
            return "foreign"
        if len(self.connections) >= MAX_CONNECTIONS:
            quiet = [other for other in self.connections if not other.in_flight]
            if not quiet:
                self._metrics.connections_refused += 1
                return "busy"
            self._metrics.connections_evicted += 1
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


async def _ended(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Wait for them, but only for a moment."""
    if begun := tuple(tasks):
        await asyncio.wait(begun, timeout=_GRACE_S)
