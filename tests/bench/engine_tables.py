"""Tables of the engine and a plain one on a PostgreSQL of their own, with the same rows and queries.

`Engine` has the tables of forged's migrations and uses its statements. `Plain` is the obvious alternative:
one table for all scopes and one HNSW index. Both are loaded by COPY before vectors are indexed, as an
existing store is, and both continue a search where a filter left too few rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb
from stores import DIMENSION, LIMITS, Asked, Part
from vectors import Vectors as Vector

from forged.attributes import Facts
from forged.memory import Scope
from forged.postgres import shared
from forged.postgres.connecting import EF_SEARCH, SETTINGS, connect
from forged.postgres.migrating import migrate
from forged.postgres.schema import table
from forged.postgres.tables import TABLES
from forged.postgres.values import EmbeddingModel, Settings, Stored
from tests.support.scratch_server import ScratchServer

_SERVER = {
    "shared_buffers": "2GB",
    "maintenance_work_mem": "4GB",  # the graph of a million rows is built in memory
    "max_parallel_maintenance_workers": "1",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "1h",
}
_NOW = datetime(2026, 11, 24, tzinfo=UTC)
_EXPIRES = "2036-11-21T00:00:00Z"  # the daemon has a clock of its own
_MODEL = EmbeddingModel("bench", DIMENSION)
_LIMITS = {Scope(scope): most for scope, most in LIMITS.items()}
_NONE: Mapping[str, Any] = {}

_STRICT: Mapping[str, str] = {"hnsw.iterative_scan": "strict_order"}  # nothing sorts the rows of the graph

Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]
Found = dict[str, list[str]]  # ids by scope


class Loaded(msgspec.Struct, frozen=True):
    """Seconds of copying and of indexing vectors; bytes of rows, of graphs and of all other indexes."""

    copied_s: float
    indexed_s: float
    row_bytes: int
    graph_bytes: int
    other_bytes: int


@contextlib.contextmanager
def server(folder: Path, **more: str) -> Iterator[ScratchServer]:
    """Run a PostgreSQL with memory for a store, and `more` settings; it need not survive a power cut."""
    running = ScratchServer(folder, durable=False, settings=_SERVER | more)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def connected(url: str, ef_search: int = EF_SEARCH, settings: Mapping[str, str] = SETTINGS) -> Connection:
    """Return a connection that is set up as the engine's are, or with other settings."""
    connection = psycopg.connect(url, autocommit=True)
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    register_vector(connection)
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    set_ef(connection, ef_search)
    return connection


def set_ef(connection: Connection, ef_search: int) -> None:
    connection.execute(f"SET hnsw.ef_search = {ef_search:d}")


class Engine:
    """The tables of forged's own migrations; `is_migrated`: they are there."""

    settings = SETTINGS

    def __init__(self, url: str, *, is_migrated: bool = False) -> None:
        if not is_migrated:
            asyncio.run(_migrated(url))
        self.url = url
        self.connection = connected(url)

    def load(self, parts: Sequence[Part], *, vacuumed: bool = True) -> Loaded:
        """Load the rows first, then the graphs; then VACUUM ANALYZE, if `vacuumed`."""
        graphs = self._drop_graphs()
        began = time.perf_counter()
        for part in parts:
            self._copy(part)
        copied = time.perf_counter()
        self._build(graphs)
        return _loaded(self.connection, copied - began, copied, vacuumed=vacuumed)

    def build_graphs(self) -> None:
        """Drop the graphs and build others of the same rows."""
        self._build(self._drop_graphs())

    def _drop_graphs(self) -> list[str]:
        """Drop the graphs; return their definitions."""
        graphs = _graphs(self.connection)
        for name, _ in graphs:
            self.connection.execute(f"DROP INDEX {name}")
        return [definition for _, definition in graphs]

    def _build(self, graphs: Sequence[str]) -> None:
        for definition in graphs:
            self.connection.execute(definition.replace(" ON ONLY ", " ON "))

    def ask(self, asked: Asked, connection: Connection | None = None) -> Found:
        """Send the four statements at once and read the results."""
        connection, found = connection or self.connection, {}
        with connection.pipeline():
            for scope, owner in asked.owners.items():
                found[scope] = _execute(connection, Scope(scope), owner, _wanted(asked))
        return {scope: _ids(rows, Scope(scope)) for scope, rows in found.items()}

    def of_organization(self, vector: Vector, most: int, filters: Mapping[str, Any] = _NONE) -> list[str]:
        """Search the organization's pieces alone."""
        wanted = shared.RowQuery(vector=vector, limits={Scope.ORG: most}, now=_NOW, filters=filters)
        return _ids(_execute(self.connection, Scope.ORG, "", wanted), Scope.ORG)

    def _copy(self, part: Part) -> None:
        kind = TABLES[Scope(part.scope)]
        into = f"COPY {table(kind.scope)} ({', '.join(kind.columns)}) FROM STDIN (FORMAT BINARY)"
        with self.connection.cursor().copy(into) as copying:
            copying.set_types([kind.type_of(column) for column in kind.columns])
            for stored in _stored(part, kind.scope):
                copying.write_row(tuple(kind.values(stored).values()))


class Plain:
    """One table for all scopes, and one index."""

    settings = _STRICT

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = connected(url, settings=self.settings)
        columns = (
            f"id text, scope text, owner text, content text, metadata jsonb, embedding vector({DIMENSION})"
        )
        self.connection.execute(f"CREATE TABLE plain ({columns})")

    def load(self, parts: Sequence[Part]) -> Loaded:
        """Load the rows first, then the graph."""
        began = time.perf_counter()
        with self.connection.cursor().copy("COPY plain FROM STDIN (FORMAT BINARY)") as copying:
            copying.set_types(["text", "text", "text", "text", "jsonb", "vector"])
            for part in parts:
                for owner, name, content, metadata, vector in part.rows():
                    copying.write_row((name, part.scope, owner, content, Jsonb(metadata), vector))
        copied = time.perf_counter()
        self.connection.execute("CREATE INDEX ON plain USING hnsw (embedding vector_cosine_ops)")
        return _loaded(self.connection, copied - began, copied)

    def ask(self, asked: Asked, connection: Connection | None = None) -> Found:
        """Send the same four searches in one round trip."""
        connection, found = connection or self.connection, {}
        with connection.pipeline():
            for scope, owner in asked.owners.items():
                values = (scope, owner, asked.vector, LIMITS[scope])
                found[scope] = connection.cursor(binary=True).execute(_PLAIN.format(""), values)
        return {scope: [str(row[0]) for row in rows] for scope, rows in found.items()}

    def of_organization(self, vector: Vector, most: int, filters: Mapping[str, Any] = _NONE) -> list[str]:
        """Search the organization's pieces alone."""
        sql = _PLAIN.format("AND metadata @> %s" if filters else "")
        values = ("org", "", *([Jsonb(filters)] if filters else []), vector, most)
        return [str(row[0]) for row in self.connection.cursor(binary=True).execute(sql, values)]


_PLAIN = """
    SELECT id, content, metadata FROM plain WHERE scope = %s AND owner = %s {}
    ORDER BY embedding <=> %s LIMIT %s"""


def server_settings(url: str) -> Settings:
    return Settings(url=url, model=_MODEL)


async def _migrated(url: str) -> None:
    connection = await connect(server_settings(url))
    async with connection:
        await migrate(connection, {"": _MODEL})


def _graphs(connection: Connection) -> list[tuple[str, str]]:
    """Return name and definition of every HNSW index that is not a part of another."""
    found = connection.execute(
        "SELECT c.oid::regclass::text, pg_get_indexdef(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam"
        " WHERE a.amname = 'hnsw' AND NOT c.relispartition"
    )
    return [(name, definition) for name, definition in found]


def _stored(part: Part, scope: Scope) -> Iterator[Stored]:
    for owner, name, content, metadata, vector in part.rows():
        yield Stored(
            scope=scope,
            owner=owner,
            id=name,
            content=content,
            vector=vector,
            facts=Facts(metadata=metadata, agent_id="bench", expires_at=_EXPIRES),
            created_at=_NOW,
            updated_at=_NOW,
            document_id=f"doc_{name[:-2]}",
        )


def _execute(connection: Connection, scope: Scope, owner: str, wanted: shared.RowQuery) -> Cursor:
    sql, values = shared.statement(scope, wanted), shared.values(owner, wanted, scope)
    return connection.cursor(binary=True).execute(sql, values)


def _ids(rows: Cursor, scope: Scope) -> list[str]:
    at = TABLES[scope].read.index("id")
    return [str(row[at]) for row in rows]


def _wanted(asked: Asked) -> shared.RowQuery:
    return shared.RowQuery(vector=asked.vector, limits=_LIMITS, now=_NOW)


def _loaded(connection: Connection, copied_s: float, copied: float, *, vacuumed: bool = True) -> Loaded:
    """Return the seconds and sizes of the load; after VACUUM ANALYZE, if `vacuumed`."""
    indexed_s = time.perf_counter() - copied
    if vacuumed:
        connection.execute("VACUUM ANALYZE")
    sizes = dict(connection.execute(_SIZES).fetchall())
    row_bytes, graphs = sizes.pop("", 0), sizes.pop("hnsw", 0)
    return Loaded(copied_s, indexed_s, row_bytes, graphs, sum(sizes.values()))


# TOAST tables have no index access method.
_SIZES = """
    SELECT coalesce(a.amname, ''), sum(pg_table_size(c.oid))::bigint
    FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam AND c.relkind = 'i'
    WHERE c.relkind IN ('r', 'i') AND c.relnamespace IN (
        SELECT oid FROM pg_namespace WHERE nspname IN ('forged', 'public')) GROUP BY 1"""
