"""Connections to the team's server: how one is made, and a pool of them that never keeps anybody waiting.

A connection is used inside a deadline: the server ends a statement just before it, and where the server
itself is gone without a word, the socket is shut at the deadline. A server that failed is not waited for
again until it has answered a look that nobody waits for. Raises SharedError and nothing else of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
from pgvector.psycopg import register_vector_async
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from forged.errors import ConfigError, SharedError
from forged.postgres.failures import shared_error
from forged.postgres.health import ServerHealth
from forged.postgres.values import Settings

Connection = psycopg.AsyncConnection[TupleRow]

OLDEST_PGVECTOR = (0, 8)
"""The first that goes on searching where a filter left too few rows."""

_CONNECT_S = 5
_LEAST_MS = 1
# So much before the deadline the server gives up, so that its word still arrives.
_EARLIER = 0.95


def parameters(settings: Settings) -> dict[str, Any]:
    """What libpq is told: the URL, the role, and that a dead connection is noticed.

    A server on another machine is spoken to by TLS unless the URL itself says otherwise. Raises ConfigError.
    """
    try:
        given = dict(conninfo_to_dict(settings.url))
    except psycopg.Error as error:
        raise ConfigError("shared.url must be a URL such as postgresql://HOST/DATABASE") from error
    if settings.user:
        given["user"] = settings.user
    if settings.password:
        given["password"] = settings.password
    if not is_local(given):
        given.setdefault("sslmode", "require")
    ours = {
        "application_name": "forged",
        "connect_timeout": _CONNECT_S,
        "keepalives_idle": 30,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
    }
    return ours | given


def is_local(given: dict[str, Any]) -> bool:
    """Whether every host that is named is this machine."""
    hosts = str(given.get("hostaddr") or given.get("host") or "").split(",")
    return all(not host or host.startswith(("/", "@")) or _is_loopback(host) for host in hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def connect(settings: Settings) -> Connection:
    """One connection of its own, outside of any pool and without the set-up that searches want."""
    try:
        return await psycopg.AsyncConnection.connect(**parameters(settings), autocommit=True)
    except (psycopg.Error, OSError) as error:
        raise shared_error(error) from error


async def set_up(connection: Connection, settings: Settings) -> None:
    """Make a new connection ready: vectors as arrays, our schema, an index scan that fills its limit.

    Every statement is planned for its values: what is best for one owner's ten rows is not for a million.
    """
    found = await (await connection.execute(_EXTENSION)).fetchone()
    require_pgvector(None if found is None else found[0])
    assert found is not None
    await connection.execute(
        "SELECT set_config('search_path', 'forged, ' || quote_ident(%s), false),"
        " set_config('hnsw.iterative_scan', 'strict_order', false),"
        " set_config('hnsw.ef_search', %s, false),"
        " set_config('plan_cache_mode', 'force_custom_plan', false)",
        (found[1], str(settings.ef_search)),
    )
    await register_vector_async(connection)


_EXTENSION = (
    "SELECT e.extversion, n.nspname FROM pg_catalog.pg_extension e"
    " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
)


def require_pgvector(version: str | None) -> None:
    """Raise SharedError where the extension is missing or too old."""
    if version is None:
        raise SharedError(
            "the shared PostgreSQL has no pgvector in this database: run `forgectl shared migrate`",
            reason="pgvector",
        )
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_PGVECTOR:
        raise SharedError(
            f"the shared PostgreSQL has pgvector {version}, and 0.8 or newer is needed: install it there,"
            " then run `ALTER EXTENSION vector UPDATE`",
            reason="pgvector",
        )


class Pool:
    """A few connections that stay open; belongs to one event loop.

    One of our own: who waits for psycopg's is told that it took too long, and never why.
    """

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError for a URL that is none."""
        parameters(settings)
        self._settings = settings
        self._slots = asyncio.Semaphore(settings.pool_size)
        self._idle: list[Connection] = []
        self._looking: asyncio.Task[None] | None = None
        self.health = ServerHealth()

    async def close(self) -> None:
        """End every connection that is not in use."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        await self._drop_idle()

    @contextlib.asynccontextmanager
    async def connection(self, deadline: float) -> AsyncIterator[Connection]:
        """A connection until `deadline`, in `time.monotonic()` seconds; each statement is a transaction.

        Raises SharedError, at once while the server is known to be gone, for whatever psycopg raises inside.
        """
        if (trouble := self.health.trouble) is not None:
            raise trouble
        try:
            async with self._slot(deadline), self._lent(deadline) as connection:
                yield connection
        except (psycopg.Error, TimeoutError, OSError, SharedError) as error:
            late = isinstance(error, psycopg.OperationalError) and time.monotonic() >= deadline
            failure = shared_error(TimeoutError() if late else error)
            await self._failed(failure)
            raise failure from error
        self.health.succeeded()

    @contextlib.asynccontextmanager
    async def _slot(self, deadline: float) -> AsyncIterator[None]:
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
        connection = await self._ready(deadline)
        try:
            with shut_at(deadline, connection):
                yield connection
        finally:
            if connection.info.transaction_status == TransactionStatus.IDLE:
                self._idle.append(connection)
            else:
                await connection.close()

    async def _ready(self, deadline: float) -> Connection:
        """One that answers: an idle one, or, where the server has ended that meanwhile, a new one."""
        while self._idle:
            connection = self._idle.pop()
            try:
                with shut_at(deadline, connection):
                    await _limit(connection, deadline)
            except psycopg.OperationalError:
                await connection.close()
            else:
                return connection
        connection = await self._new(deadline)
        await _limit(connection, deadline)
        return connection

    async def _new(self, deadline: float) -> Connection:
        async with asyncio.timeout(deadline - time.monotonic()):
            connection = await connect(self._settings)
            try:
                with shut_at(
                    deadline, connection
                ):  # to cancel a statement is to wait for the server once more
                    await set_up(connection, self._settings)
            except BaseException:
                await connection.close()
                raise
        return connection

    async def _drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def _failed(self, failure: SharedError) -> None:
        """Look beside everybody whether the server is back, until it is."""
        if self.health.failed(failure):
            await self._drop_idle()
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while self.health.trouble is not None:
            await asyncio.sleep(self.health.next_look_s)
            try:
                self._idle.append(await self._new(time.monotonic() + _CONNECT_S))
                self.health.succeeded()
            except (psycopg.Error, TimeoutError, OSError, SharedError) as error:
                self.health.failed(shared_error(error))


async def _limit(connection: Connection, deadline: float) -> None:
    """Have the server give up before the deadline."""
    left_ms = int((deadline - time.monotonic()) * 1000 * _EARLIER)
    await connection.execute(f"SET statement_timeout = {max(left_ms, _LEAST_MS)}".encode())


@contextlib.contextmanager
def shut_at(deadline: float, connection: Connection) -> Iterator[None]:
    """Shut the socket at the deadline, which wakes whoever waits for a server that is gone without a word."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(max(0.0, deadline - time.monotonic()), _shut, connection)
    try:
        yield
    finally:
        timer.cancel()


def _shut(connection: Connection) -> None:
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as twin,
    ):
        twin.shutdown(socket.SHUT_RDWR)
