"""Connection pool for the team's server, with deadlines.

The server ends a statement just before its deadline; if it does not answer, the socket is shut then. A
database that lacks a migration, or has vectors of another model, is not used. One failure opens
`ServerHealth`: all requests are refused at once, and one probe at a time checks the server, with growing
pauses up to 5 s. The first answer closes it. Raises SharedError.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import time
from collections.abc import AsyncIterator, Callable, Iterator
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus

from forged.errors import SharedError
from forged.fair_queue import log_failure
from forged.postgres.connecting import CONNECT_S, Connection, connect, parameters, set_up, shut_socket
from forged.postgres.failures import shared_error
from forged.postgres.migrating import require_current
from forged.postgres.values import Settings
from forged_client.protocol import SharedReport

_FIRST_S, _LONGEST_S = 0.1, 5.0
_REFUSED_S = 30.0  # refused access needs a person, and servers count attempts
# Reasons about the server itself and not about a request.
_COUNTS = frozenset({"unreachable", "timeout", "refused"})


class ServerHealth:
    """Circuit breaker of one server; belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Take `clock`, which gives seconds that never go back."""
        self._clock = clock
        self._succeeded_at: float | None = None
        self._failing_since: float | None = None
        self._error: SharedError | None = None
        self._looks = 0

    @property
    def trouble(self) -> SharedError | None:
        """Return the error if the server is known to be away, or None."""
        return None if self._error is None else SharedError(str(self._error), reason=self._error.reason)

    @property
    def next_look_s(self) -> float:
        """Return the seconds until the next probe."""
        if self._looks == 0:
            return 0.0
        refused = self._error is not None and self._error.reason == "refused"
        return _REFUSED_S if refused else min(_FIRST_S * 2 ** (self._looks - 1), _LONGEST_S)

    def succeeded(self) -> None:
        self._succeeded_at, self._failing_since, self._error, self._looks = self._clock(), None, None, 0

    def failed(self, error: SharedError) -> bool:
        """Record an error; return True if it opened the breaker, so that a probe must start.

        An error about a request is an answer, and closes it.
        """
        if error.reason == "busy":
            return False
        if error.reason not in _COUNTS:
            self.succeeded()
            return False
        opened = self._error is None
        self._looks = 0 if opened else self._looks + 1
        self._failing_since = self._clock() if opened else self._failing_since
        self._error = error
        return opened

    def condition(self, server: str = "") -> SharedReport:
        """Return the report about the server, under a displayable name."""
        now, error = self._clock(), self._error
        untried = self._succeeded_at is None and error is None
        return SharedReport(
            server=server,
            state="untried" if untried else "ok" if error is None else "failing",
            last_success_s=None if self._succeeded_at is None else round(now - self._succeeded_at, 1),
            failing_s=None if self._failing_since is None else round(now - self._failing_since, 1),
            message="" if error is None else str(error),
            next_s=None if error is None else round(self.next_look_s, 1),
        )


CONNECTIONS = 4
"""Maximum number of connections of a daemon."""
_LEAST_MS = 1
# Share of the remaining time for the server, so that its answer arrives before the deadline.
_EARLIER = 0.95
# An earlier limit is kept within these shares of the remaining time; it still ends earlier.
_ALIKE = (0.9, 1.03)
_FAILURES = (psycopg.Error, TimeoutError, OSError, SharedError)


class Pool:
    """A few connections that stay open; belongs to one event loop.

    An own pool, because psycopg's reports a timeout without its cause.
    """

    def __init__(self, settings: Settings) -> None:
        """Take the settings. Raises ConfigError for an invalid URL."""
        parameters(settings)
        self._settings = settings
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._idle: list[Connection] = []
        self._limits = WeakKeyDictionary[Connection, int]()
        self._is_closed = False
        self._looking: asyncio.Task[None] | None = None
        self.health = ServerHealth()

    async def close(self) -> None:
        """Close idle connections now, and the others when they are returned."""
        self._is_closed = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        await self._drop_idle()

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
            await self._failed(failure)
            raise failure from error
        self.health.succeeded()

    @contextlib.asynccontextmanager
    async def _slot(self, deadline: float) -> AsyncIterator[None]:
        """Wait for a free place in the pool until the deadline."""
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
        """Lend a connection and take it back."""
        connection = await self._ready(deadline)
        try:
            with shut_socket_at(deadline, connection):
                yield connection
        finally:
            if connection.info.transaction_status == TransactionStatus.IDLE and not self._is_closed:
                self._idle.append(connection)
            else:
                await connection.close()

    async def _ready(self, deadline: float) -> Connection:
        """Return a connection that answers: an idle one, or a new one if the server ended that."""
        while self._idle:
            connection = self._idle.pop()
            try:
                with shut_socket_at(deadline, connection):
                    await self._limit(connection, deadline)
            except psycopg.OperationalError:
                await connection.close()
            except asyncio.CancelledError:
                await connection.close()
                raise
            else:
                return connection
        return await self._new(deadline)

    async def _new(self, deadline: float) -> Connection:
        async with asyncio.timeout(deadline - time.monotonic()):
            connection = await connect(self._settings)
            try:
                with shut_socket_at(deadline, connection):
                    await set_up(connection)
                    await require_current(connection, self._settings.models)
                    await self._limit(connection, deadline)
            except BaseException:
                await connection.close()
                raise
        return connection

    async def _limit(self, connection: Connection, deadline: float) -> None:
        """Set the statement timeout before the deadline; skips the round trip if it is nearly set."""
        left_ms = max(int((deadline - time.monotonic()) * 1000 * _EARLIER), _LEAST_MS)
        least, most = (left_ms * share for share in _ALIKE)
        if least <= self._limits.get(connection, 0) <= most and not _has_word(connection):
            return
        await connection.execute(f"SET statement_timeout = {left_ms}".encode())
        self._limits[connection] = left_ms

    async def _drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def _failed(self, failure: SharedError) -> None:
        """Probe the server in the background until it is back."""
        if self.health.failed(failure):
            await self._drop_idle()
            self._looking = asyncio.create_task(self._look(), name="look for the server")
            self._looking.add_done_callback(log_failure)

    async def _look(self) -> None:
        """Check if the server is back."""
        while self.health.trouble is not None:
            await asyncio.sleep(self.health.next_look_s)
            try:
                self._idle.append(await self._new(time.monotonic() + CONNECT_S))
                self.health.succeeded()
            except _FAILURES as error:
                self.health.failed(shared_error(error))


def _has_word(connection: Connection) -> bool:
    """Return True if the server sent data since the last answer, as it does to end a connection."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


@contextlib.contextmanager
def shut_socket_at(deadline: float, connection: Connection) -> Iterator[None]:
    """Shut the socket at the deadline, which wakes callers that wait for a silent server."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(max(0.0, deadline - time.monotonic()), shut_socket, connection)
    try:
        yield
    finally:
        timer.cancel()
