"""Connection pool for the team's server, with deadlines; raises SharedError.

The server ends a statement just before its deadline; if it does not answer, the socket is shut then. A
database that lacks a migration, or has vectors of another model, is not used. One failure opens
`ServerHealth`: requests are refused at once, and one probe at a time, with growing pauses, checks the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus

from forged.errors import NotAsked, SharedError, StoreError
from forged.fair_queue import log_failure
from forged.postgres.connecting import (
    CONNECT_S,
    Connection,
    configure_connection,
    connect,
    has_unread_data,
    parameters,
    require_session,
    shut_socket_at,
)
from forged.postgres.failures import shared_error
from forged.postgres.migrating import recorded_models, require_current
from forged.postgres.schema import MAIN
from forged.postgres.values import EmbeddingModel, Settings
from forged_client.protocol import SharedReport

_FIRST_S, _LONGEST_S = 0.1, 5.0
_REFUSED_S = 30.0  # refused access needs a person, and servers count attempts
_NO_ACCESS = frozenset({"refused", "role", "pooler"})
# Reasons about the server itself and not about a request.
_COUNTS = frozenset({"unreachable", "timeout", *_NO_ACCESS})


class ServerHealth:
    """Circuit breaker of one server: open from a failure until an answer. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Take `clock`, which gives seconds that never go back."""
        self._clock = clock
        self._succeeded_at: float | None = None
        self._failing_since: float | None = None
        self._error: SharedError | None = None
        self._probes = 0

    @property
    def trouble(self) -> NotAsked | None:
        """Return the last error while the breaker is open, else None."""
        return None if self._error is None else NotAsked(str(self._error), reason=self._error.reason)

    @property
    def next_probe_s(self) -> float:
        """Return the seconds before the next probe: 0 at first, then up to 5, 30 after refused access."""
        if self._probes == 0:
            return 0.0
        refused = self._error is not None and self._error.reason in _NO_ACCESS
        return _REFUSED_S if refused else min(_FIRST_S * 2 ** (self._probes - 1), _LONGEST_S)

    def record_success(self) -> None:
        """Record an answer of the server, which closes the breaker."""
        self._succeeded_at, self._failing_since, self._error, self._probes = self._clock(), None, None, 0

    def record_failure(self, error: SharedError) -> bool:
        """Record an error, which opens the breaker unless it is about a request; True if it opened just now.

        An error about a request is an answer, and closes the breaker.
        """
        if error.reason == "busy":
            return False
        if error.reason not in _COUNTS:
            self.record_success()
            return False
        opened = self._error is None
        self._probes = 0 if opened else self._probes + 1
        self._failing_since = self._clock() if opened else self._failing_since
        self._error = error
        return opened

    def condition(self, server: str = "") -> SharedReport:
        """Return the server's state for status and doctor; `server` is the displayed name."""
        now, error = self._clock(), self._error
        untried = self._succeeded_at is None and error is None
        return SharedReport(
            server=server,
            state="untried" if untried else "ok" if error is None else "failing",
            last_success_s=None if self._succeeded_at is None else round(now - self._succeeded_at, 1),
            failing_s=None if self._failing_since is None else round(now - self._failing_since, 1),
            message="" if error is None else str(error),
            next_s=None if error is None else round(self.next_probe_s, 1),
        )


CONNECTIONS = 4
"""Maximum number of connections of a daemon."""
_LEAST_MS = 1
_FULL_S = 0.05  # pause before a server without a free connection is asked again
_KNOWN_PIDS = 64
_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"
_EXACT_S = 1.0  # longest answer from which the offset of the clocks is taken
# Share of the remaining time for the server, so that its answer arrives before the deadline.
_EARLIER = 0.95
# An earlier limit is kept within these shares of the remaining time; it still ends earlier.
_ALIKE = (0.9, 1.03)
_FAILURES = (psycopg.Error, TimeoutError, OSError, SharedError)


class Pool:
    """Pool of up to 4 connections with deadlines and a circuit breaker; belongs to one event loop.

    An own pool, because psycopg's reports a timeout without its cause.
    """

    def __init__(
        self,
        settings: Settings,
        on_offset: Callable[[float], Awaitable[object]],
        on_models: Callable[[Mapping[str, EmbeddingModel]], object] = lambda _: None,
    ) -> None:
        """Take `on_offset`, which gets each measured offset of the clocks. Raises ConfigError for the URL.

        `on_models` gets the embedding models of the database with each new connection.
        """
        parameters(settings)
        self._settings = settings
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._idle: list[Connection] = []
        self._limits = WeakKeyDictionary[Connection, int]()
        self._is_closed = False
        self._pids = deque[int](maxlen=_KNOWN_PIDS)
        self._probing: asyncio.Task[None] | None = None
        self.health = ServerHealth()
        self._on_offset, self._on_models = on_offset, on_models

    async def close(self) -> None:
        """Stop probing; close idle connections now, and the others when they are returned."""
        self._is_closed = True
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing])
        await self._close_idle()

    @contextlib.asynccontextmanager
    async def connection(self, deadline: float) -> AsyncIterator[Connection]:
        """Lend a connection until `deadline`, in `time.monotonic()` seconds; each statement is a transaction.

        Raises SharedError for errors of psycopg, and at once while the server is known to be away.
        """
        if (trouble := self.health.trouble) is not None:
            raise trouble
        try:
            async with self._slot(deadline), self._lent(deadline) as connection:
                yield connection
        except _FAILURES as error:
            late = isinstance(error, psycopg.OperationalError) and time.monotonic() >= deadline
            failure = shared_error(TimeoutError() if late else error)
            await self._record_failure(failure)
            raise failure from error
        self.health.record_success()

    def is_own(self, pid: int) -> bool:
        """Return True if a process of the server serves a connection of this pool."""
        return pid in self._pids

    async def recovers(self, wait_s: float = _EXACT_S) -> bool:
        """Return True if the server takes a new connection in time, which closes the breaker."""
        try:
            self._idle.append(await self._open_new(time.monotonic() + wait_s))
        except _FAILURES as error:
            self.health.record_failure(shared_error(error))
            return False
        self.health.record_success()
        return True

    @contextlib.asynccontextmanager
    async def _slot(self, deadline: float) -> AsyncIterator[None]:
        """Hold a place in the pool during this context. Raises SharedError at the deadline."""
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await self._slots.acquire()
        except TimeoutError as error:
            raise SharedError(
                "no connection to the shared PostgreSQL was free in time", reason="busy"
            ) from error
        try:
            yield
        finally:
            self._slots.release()

    @contextlib.asynccontextmanager
    async def _lent(self, deadline: float) -> AsyncIterator[Connection]:
        """Lend a connection, its socket shut at the deadline; afterwards keep it if idle, else close it."""
        connection = await self._take_ready(deadline)
        try:
            with shut_socket_at(deadline, connection):
                yield connection
        finally:
            if connection.info.transaction_status == TransactionStatus.IDLE and not self._is_closed:
                self._idle.append(connection)
            else:
                await connection.close()

    async def _take_ready(self, deadline: float) -> Connection:
        """Take an idle connection that still answers, or open one; set its statement timeout."""
        while self._idle:
            connection = self._idle.pop()
            try:
                with shut_socket_at(deadline, connection):
                    await self._set_timeout(connection, deadline)
            except psycopg.OperationalError:
                await connection.close()
            except asyncio.CancelledError:
                await connection.close()
                raise
            else:
                return connection
        return await self._open_or_wait(deadline)

    async def _open_or_wait(self, deadline: float) -> Connection:
        """Open a connection, or wait until the server has one left or another one is returned here."""
        full: SharedError | None = None
        while True:
            try:
                return await self._open_new(deadline)
            except TimeoutError:
                if full is not None:  # the reason for which the time is over
                    raise full from None
                raise
            except SharedError as error:
                if error.reason != "busy" or time.monotonic() + _FULL_S >= deadline:
                    raise
                full = error
            await asyncio.sleep(_FULL_S)
            if self._idle:
                return await self._take_ready(deadline)

    async def _open_new(self, deadline: float) -> Connection:
        """Open a connection set up for searches, in time. Raises SharedError for another schema or model."""
        async with asyncio.timeout(deadline - time.monotonic()):
            connection = await connect(self._settings)
            try:
                with shut_socket_at(deadline, connection):
                    self._pids.append(await require_session(connection, self._settings))
                    await configure_connection(connection)
                    await require_current(connection, {MAIN: self._settings.model})
                    self._on_models(await recorded_models(connection))
                    await self._measure_offset(connection)
                    await self._set_timeout(connection, deadline)
            except BaseException:
                await connection.close()
                raise
        return connection

    async def _measure_offset(self, connection: Connection) -> None:
        """Measure how far the server's clock is ahead of this machine's, unless its answer takes too long."""
        asked_at = time.time()
        found = await (await connection.execute(_CLOCK)).fetchone()
        answered_at = time.time()
        if found is not None and 0 <= answered_at - asked_at < _EXACT_S:
            with contextlib.suppress(StoreError):
                await self._on_offset(found[0] - (asked_at + answered_at) / 2)

    async def _set_timeout(self, connection: Connection, deadline: float) -> None:
        """Set a statement timeout just before the deadline, unless a current one is about that already."""
        left_ms = max(int((deadline - time.monotonic()) * 1000 * _EARLIER), _LEAST_MS)
        least, most = (left_ms * share for share in _ALIKE)
        if least <= self._limits.get(connection, 0) <= most and not has_unread_data(connection):
            return
        await connection.execute(f"SET statement_timeout = {left_ms}".encode())
        self._limits[connection] = left_ms

    async def _close_idle(self) -> None:
        """Close all idle connections of the pool."""
        while self._idle:
            await self._idle.pop().close()

    async def _record_failure(self, failure: SharedError) -> None:
        """Record a failure; if it opens the breaker, close idle connections and start to probe."""
        if self.health.record_failure(failure):
            await self._close_idle()
            self._probing = asyncio.create_task(self._probe(), name="look for the server")
            self._probing.add_done_callback(log_failure)

    async def _probe(self) -> None:
        """Probe the server with growing pauses until it answers; keep that connection."""
        while self.health.trouble is not None:
            await asyncio.sleep(self.health.next_probe_s)
            await self.recovers(CONNECT_S)
