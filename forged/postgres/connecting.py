"""Connections to the team's server: parameters of libpq, and settings of a new connection.

A server on another machine is used with TLS, and dead connections are detected. Raises SharedError for errors
of psycopg, and ConfigError for an invalid URL.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import ipaddress
import os
import select
import socket
import time
from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal

import msgspec
import psycopg
from pgvector.psycopg import register_vector_async
from psycopg.abc import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow
from psycopg.types.datetime import TimestamptzBinaryLoader, TimestamptzLoader
from psycopg.types.json import JsonbBinaryLoader, JsonbLoader

from forged.errors import ConfigError, SharedError
from forged.postgres.failures import shared_error
from forged.postgres.values import Settings

Connection = psycopg.AsyncConnection[TupleRow]

OLDEST_PGVECTOR = (0, 8)
"""First version that continues a search if a filter left too few rows."""

_LOGIN = ("host", "hostaddr", "port", "dbname", "user")
Pooler = Literal["", "session", "transaction", "statement"]
"""For how long a pooler lends a connection of the server; "" if there is none."""
POOLER_FIX = "set its pool_mode to session, or let shared.url name the server itself"
CONNECT_S = 5
"""Time limit in seconds for a new connection."""
EF_SEARCH = 100
"""Size of the candidate list in a search of the HNSW graph."""
SETTINGS = {
    # A graph gives its rows in about the right order, and the statement sorts them. In strict order it would
    # leave out each row that comes late.
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": str(EF_SEARCH),
    # A search with a filter limits its candidates itself, and must not end before.
    "hnsw.max_scan_tuples": "100000",
    "hnsw.scan_mem_multiplier": "8",
    # Each statement is planned for its values, because a plan for ten rows is bad for a million.
    "plan_cache_mode": "force_custom_plan",
    # Others may hold locks of tables for as long as they like.
    "lock_timeout": "1s",
    # The planner overestimates the two steps over entities, which take a millisecond. To compile them would
    # make a recall wait a second.
    "jit": "off",
}
"""Settings of PostgreSQL and pgvector for a connection that searches."""
_CANCEL_S = 0.3
# Others use the same pooler, so that a process may be taken by chance.
_POOLER_TRIES, _POOLER_S = 3, 1.0


def parameters(settings: Settings) -> dict[str, Any]:
    """Return libpq's parameters for these settings: URL, login, TLS, detection of dead connections.

    A server on another machine is used with TLS unless the URL says otherwise. Raises ConfigError.
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
        "connect_timeout": CONNECT_S,
        "keepalives_idle": 30,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
    }
    return ours | given


def login_digest(settings: Settings) -> str:
    """Return a digest of server, database and role, without the password. Raises ConfigError."""
    given = parameters(settings)
    named = {key: str(given.get(key) or "") for key in _LOGIN} | {"user_id": settings.user_id}
    return hashlib.sha256(msgspec.json.encode(named)).hexdigest()


def is_local(given: dict[str, Any]) -> bool:
    """Return True if all hosts in these libpq parameters are this machine."""
    hosts = str(given.get("hostaddr") or given.get("host") or "").split(",")
    return all(not host or host.startswith(("/", "@")) or _is_loopback(host) for host in hosts)


def _is_loopback(host: str) -> bool:
    """Return True if a host is a loopback address, or localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def connect(settings: Settings) -> Connection:
    """Open an autocommit connection outside of the pool, not set up for searches. Raises SharedError."""
    try:
        return await _QuickCancelConnection.connect(**parameters(settings), autocommit=True)
    except (psycopg.Error, OSError) as error:
        raise shared_error(error) from error


class ServerInfo(msgspec.Struct, frozen=True):
    """Address with database, PostgreSQL version, and role of a connection to the server."""

    address: str
    version: str
    role: str


def server_info(connection: Connection) -> ServerInfo:
    """Return address with database, PostgreSQL version, and role of a connection to the server."""
    info = connection.info
    major, minor = divmod(info.server_version, 10_000)
    return ServerInfo(f"{info.host}:{info.port}/{info.dbname}", f"{major}.{minor}", info.user)


async def server_pid(connection: Connection) -> int:
    """Return the id of the server's process that serves a connection; a pooler reports an id of its own."""
    found = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
    assert found is not None
    return int(found[0])


async def find_pooler(connection: Connection, settings: Settings) -> Pooler:
    """Return how a pooler between this machine and the server lends connections; "" without a pooler.

    A second connection takes the server's process that the first one has left, if the pooler allows it.
    """
    pid = await server_pid(connection)
    if pid == connection.info.backend_pid:
        return ""
    try:
        for _ in range(_POOLER_TRIES):
            async with await connect(settings) as other:
                await other.set_autocommit(False)
                taken = await _pid_in_time(other)
                if not taken:  # the first connection keeps the pooler's only process
                    return "session"
                if taken == pid or await _pid_in_time(connection) != pid:
                    return "transaction"
    except psycopg.errors.ProtocolViolation:  # pgbouncer refuses transactions in statement mode
        return "statement"
    return "session"


async def _pid_in_time(connection: Connection) -> int:
    """Return the id of the server's process, 0 if the pooler has none left for a second."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_POOLER_S):
            return await server_pid(connection)
    return 0


async def require_session(connection: Connection, settings: Settings) -> int:
    """Return the id of the server's process. Raises SharedError for a pooler that is not in session mode."""
    if (pooler := await find_pooler(connection, settings)) not in {"", "session"}:
        raise SharedError(
            f"a pooler lends connections of the shared PostgreSQL for a {pooler} only: {POOLER_FIX}",
            reason="pooler",
        )
    return await server_pid(connection)


class _QuickCancelConnection(psycopg.AsyncConnection[TupleRow]):
    """psycopg connection that cancels a statement within 0.3 s, not 10 s, or shuts its socket."""

    async def _try_cancel(self, *, timeout: float = _CANCEL_S) -> None:  # noqa: ASYNC109 - psycopg's own
        """Cancel the running statement within 0.3 s, or shut the socket if that fails."""
        try:
            await self.cancel_safe(timeout=min(timeout, _CANCEL_S))
        except (psycopg.Error, OSError):
            shut_socket(self)


def shut_socket(connection: Connection) -> None:
    """Shut a connection's socket, so that every call that waits for the server fails at once."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as twin,
    ):
        twin.shutdown(socket.SHUT_RDWR)


def has_unread_data(connection: Connection) -> bool:
    """Return True if the server sent data since the last answer, as it does to end a connection."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


@contextlib.contextmanager
def shut_socket_at(deadline: float, connection: Connection) -> Iterator[None]:
    """Shut the connection's socket at the deadline, unless this context has ended before."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(max(0.0, deadline - time.monotonic()), shut_socket, connection)
    try:
        yield
    finally:
        timer.cancel()


async def configure_connection(connection: Connection) -> None:
    """Prepare a connection for searches: check pgvector; set schema and SETTINGS. Raises SharedError."""
    found = await (await connection.execute(_EXTENSION)).fetchone()
    require_pgvector(None if found is None else found[0])
    assert found is not None
    await connection.execute(
        "SELECT set_config('search_path', 'forged, ' || quote_ident(%s), false)"
        + ", set_config(%s, %s, false)" * len(SETTINGS),
        (found[1], *chain.from_iterable(SETTINGS.items())),
    )
    await register_vector_async(connection)
    for name, loader in _LOADERS:
        connection.adapters.register_loader(name, loader)


class _OrNone:
    """Makes a loader return None for a value that Python cannot have: infinity, JSON nested too deeply."""

    def load(self, data: Buffer) -> Any:
        try:
            return super().load(data)  # type: ignore[misc]
        except (psycopg.DataError, ValueError, OverflowError, RecursionError):
            return None


_EXTENSION = (
    "SELECT e.extversion, n.nspname FROM pg_catalog.pg_extension e"
    " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
)


_LOADERS: list[tuple[str, type[Loader]]] = [
    (name, type(f"_{base.__name__}", (_OrNone, base), {}))
    for name, bases in (
        ("timestamptz", (TimestamptzLoader, TimestamptzBinaryLoader)),
        ("jsonb", (JsonbLoader, JsonbBinaryLoader)),
    )
    for base in bases
]


def require_pgvector(version: str | None) -> None:
    """Raise SharedError if pgvector has a version before 0.8, or is not installed (None)."""
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
