"""A real PostgreSQL with pgvector, started once per test process, and a fresh database for each test.

Import the fixtures `server` and `database` into a conftest. A database is a copy of a migrated one.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest

from forged.postgres.connecting import connect
from forged.postgres.migrating import migrate
from forged.postgres.values import EmbeddingModel, Settings
from tests.support.scratch_server import ScratchServer

MODEL = EmbeddingModel("test-embedder", 8)
_numbers = itertools.count()


class Database(msgspec.Struct, frozen=True):
    """One database of a server; `url` is the administrator's."""

    server: ScratchServer
    name: str
    model: EmbeddingModel = MODEL

    @property
    def url(self) -> str:
        return self.server.url(database=self.name)

    def settings(self, role: str = "postgres") -> Settings:
        return Settings(url=self.server.url(role, self.name), model=self.model, user_id="ada")

    def sql(self, text: str, values: object = None, role: str = "postgres") -> list[tuple]:
        """Run one statement and return its rows."""
        with psycopg.connect(self.server.url(role, self.name), autocommit=True) as connection:
            cursor = connection.execute(text, values)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session")
def server() -> Iterator[ScratchServer]:
    """Start a server outside of pytest's folder, which is closed to the server's user."""
    folder = Path(tempfile.mkdtemp(prefix="forged-pg-", dir="/tmp"))
    server = ScratchServer(folder, durable=False)
    try:
        server.start()
        yield server
    finally:
        server.kill()  # its data is discarded, so no checkpoint is needed
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def template(server: ScratchServer) -> str:
    """Return a migrated database to copy."""
    empty = make_database(server, "forged_template")
    asyncio.run(migrated(empty))
    return empty.name


@pytest.fixture
def database(server: ScratchServer, template: str) -> Database:
    """Return a migrated, unused database."""
    return make_database(server, f"forged_{next(_numbers)}", template)


@pytest.fixture
def empty_database(server: ScratchServer) -> Database:
    """Return a database that was never migrated."""
    return make_database(server, f"forged_{next(_numbers)}")


def make_database(server: ScratchServer, name: str, template: str = "template1") -> Database:
    made = Database(server, name)
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    return made


async def migrated(database: Database, model: EmbeddingModel = MODEL) -> Database:
    connection = await connect(database.settings())
    async with connection:
        await migrate(connection, {"": model})
    return database
