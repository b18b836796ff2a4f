"""One connection to the team's server: what libpq is told, and what a new connection is set to.

A server on another machine is spoken to by TLS, and a connection that is dead is noticed.
Raises SharedError for what psycopg raises, and ConfigError for a URL that is none.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from typing import Any

import psycopg
from pgvector.psycopg import register_vector_async
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

from forged.errors import ConfigError, SharedError
from forged.postgres.failures import shared_error
from forged.postgres.values import Settings

Connection = psycopg.AsyncConnection[TupleRow]

OLDEST_PGVECTOR = (0, 8)
"""The first that goes on searching where a filter left too few rows."""

CONNECT_S = 5
"""A server that has not let us in after so many seconds is taken for gone."""
EF_SEARCH = 100
"""How widely the graph is searched."""
_CANCEL_S = 0.3


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
        "connect_timeout": CONNECT_S,
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
        return await _Impatient.connect(**parameters(settings), autocommit=True)
    except (psycopg.Error, OSError) as error:
        raise shared_error(error) from error


class _Impatient(psycopg.AsyncConnection[TupleRow]):
    """One whose user may go away: psycopg would wait ten seconds for a server that does not answer."""

    async def _try_cancel(self, *, timeout: float = _CANCEL_S) -> None:  # noqa: ASYNC109 - psycopg's own
        try:
            await self.cancel_safe(timeout=min(timeout, _CANCEL_S))
        except (psycopg.Error, OSError):
            shut(self)


def shut(connection: Connection) -> None:
    """Shut the socket, which wakes whoever waits for an answer."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as twin,
    ):
        twin.shutdown(socket.SHUT_RDWR)


async def set_up(connection: Connection) -> None:
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
        " set_config('plan_cache_mode', 'force_custom_plan', false),"
        # The two steps over entities cost much by the planner's guess and a millisecond in truth: compiling
        # them for a second is all that a recall would wait for.
        " set_config('jit', 'off', false)",
        (found[1], str(EF_SEARCH)),
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
