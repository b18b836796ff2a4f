"""Apply the numbered files of `migrations/` to a database.

`migrate` updates a database in one transaction that locks the table of applied files, so that two callers at
once apply each file once. Only the owner of the tables can hold that lock.
Repeating it changes nothing. A file with `${cjk_...}` runs only where there is a second embedding model. A
database with a newer or different file is left alone.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template

import msgspec
import psycopg
from psycopg import sql

from forged.errors import SharedError
from forged.postgres.connecting import Connection, require_pgvector
from forged.postgres.failures import translated
from forged.postgres.roles import refresh_members
from forged.postgres.schema import CJK, CJK_LETTERS, MAIN, OPERATORS, indexed_expression
from forged.postgres.values import EmbeddingModel

logger = logging.getLogger(__name__)
_FOLDER = Path(__file__).parent / "migrations"
_NAME = re.compile(r"(\d{4})_(\w+)\.sql")
# Longest wait for a table that somebody reads; a lock on it makes every later reader wait.
_LOCK_TIMEOUT = "10s"
# Errors of a second caller who creates the same schema, table or extension at the same moment.
_TWINS = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateSchema,
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateObject,
)

_MAY_NOT = (
    "the role may not create the tables in this database: migrate as the database's owner, or have that run"
    " `GRANT CREATE ON DATABASE ... TO ...`"
)
_LEDGER = """
CREATE SCHEMA IF NOT EXISTS forged;
CREATE TABLE IF NOT EXISTS forged.migrations (
    number integer NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (number)
);
CREATE TABLE IF NOT EXISTS forged.models (
    name text PRIMARY KEY,
    model text NOT NULL,
    dimension integer NOT NULL
);
"""


class Migration(msgspec.Struct, frozen=True):
    """Numbered SQL file of `migrations/`, with places for what depends on the embedding models."""

    number: int
    name: str
    text: str

    @property
    def model(self) -> str:
        """Return the name of the embedding model that the migration is for, main for any."""
        return CJK if "${cjk_" in self.text else MAIN

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the file's text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def migrations(folder: Path = _FOLDER) -> tuple[Migration, ...]:
    """Return the migration files of a folder, sorted by number."""
    found = ((_NAME.fullmatch(file.name), file) for file in sorted(folder.iterdir()))
    return tuple(Migration(int(name[1]), name[2], file.read_text()) for name, file in found if name)


async def migrate(
    connection: Connection, models: Mapping[str, EmbeddingModel], files: Sequence[Migration] | None = None
) -> tuple[Migration, ...]:
    """Create pgvector, run lacking files, renew members' rights; return these files. Raises SharedError."""
    files = migrations() if files is None else files
    with translated(_MAY_NOT):
        try:
            await _create_ledger(connection)
        except _TWINS:
            await _create_ledger(connection)
        async with connection.transaction():
            await connection.execute("LOCK TABLE forged.migrations IN SHARE ROW EXCLUSIVE MODE")
            await connection.execute("SELECT set_config('lock_timeout', %s, true)", (_LOCK_TIMEOUT,))
            await connection.execute(_SEARCH_PATH)
            lacking = await lacking_files(connection, models, files)
            for file in lacking:
                await _apply_file(connection, file, models)
            await _validate_constraints(connection)
            await _record_models(connection, models)
            await refresh_members(connection)
    return lacking


async def _create_ledger(connection: Connection) -> None:
    """Create pgvector, the schema, and the tables of applied files and models, unless they exist."""
    async with connection.transaction():
        await _ensure_extension(connection)
        await connection.execute(_LEDGER.encode())


async def require_current(connection: Connection, models: Mapping[str, EmbeddingModel]) -> None:
    """Raise SharedError if the database lacks a migration, has unknown ones, or vectors of another model."""
    with translated():
        lacking = await lacking_files(connection, models, migrations())
    if lacking:
        raise SharedError(
            "the tables of the shared PostgreSQL are of an older forged: run `forgectl shared migrate`",
            reason="schema",
        )


async def lacking_files(
    connection: Connection, models: Mapping[str, EmbeddingModel], files: Sequence[Migration]
) -> tuple[Migration, ...]:
    """Return the files that a database lacks. Raises SharedError for unknown ones or other models."""
    cursor = await connection.execute("SELECT number, sha256 FROM forged.migrations ORDER BY number")
    had: dict[int, str] = dict(await cursor.fetchall())
    _require_known_files(had, files)
    recorded = await recorded_models(connection)
    for name, model in models.items():
        if name in recorded:
            require_model(name, model, recorded[name])
    return tuple(file for file in files if file.model in models and file.number not in had)


def _require_known_files(had: Mapping[int, str], files: Sequence[Migration]) -> None:
    """Raise SharedError if an applied migration is unknown here, or has another text."""
    known = {file.number: file for file in files}
    for number, digest in had.items():
        file = known.get(number)
        if file is None:
            raise SharedError(
                f"the shared PostgreSQL has migration {number}, which is of a newer forged: upgrade this one",
                reason="schema",
            )
        if file.sha256 != digest:
            raise SharedError(
                f"migration {number} ({file.name}) is not the one that the shared PostgreSQL has had:"
                " this forged and the one that migrated it differ",
                reason="schema",
            )


async def recorded_models(connection: Connection) -> dict[str, EmbeddingModel]:
    """Return the embedding models of a database by name."""
    cursor = await connection.execute("SELECT name, model, dimension FROM forged.models")
    return {name: EmbeddingModel(model, dimension) for name, model, dimension in await cursor.fetchall()}


def require_model(name: str, ours: EmbeddingModel, recorded: EmbeddingModel) -> None:
    """Raise SharedError if the vectors of a database are of another model, or have another length."""
    prefix = "" if name == MAIN else f"{name}_"
    languages = "" if name == MAIN else " for Chinese, Japanese and Korean"
    texts = f"vectors of the shared PostgreSQL{languages}"
    if ours.dimension != recorded.dimension:
        raise SharedError(
            f"the {texts} have {recorded.dimension} numbers, and shared.{prefix}dimension is"
            f" {ours.dimension}: set it to {recorded.dimension}, and memory.{prefix}embedding_model to"
            f" {recorded.name}",
            reason="dimension",
        )
    if ours.name != recorded.name:
        raise SharedError(
            f"the {texts} are of the model {recorded.name}, and memory.{prefix}embedding_model"
            f" is {ours.name}: vectors of two models cannot be compared",
            reason="model",
        )


async def _ensure_extension(connection: Connection) -> None:
    """Create the extension pgvector if it is missing. Raises SharedError if it is too old."""
    query = "SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector'"
    found = await (await connection.execute(query)).fetchone()
    if found is None:
        await _create_extension(connection)
        found = await (await connection.execute(query)).fetchone()
    require_pgvector(None if found is None else found[0])


async def _create_extension(connection: Connection) -> None:
    """Create the extension pgvector. Raises SharedError with the remedy."""
    try:
        await connection.execute("CREATE EXTENSION vector")
    except psycopg.errors.InsufficientPrivilege as error:
        raise SharedError(
            "the role may not create extensions: as a superuser of this database,"
            " run `CREATE EXTENSION vector`",
            reason="permission",
        ) from error
    except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
        raise SharedError(
            "the shared PostgreSQL has no pgvector: install its package there (0.8 or newer)",
            reason="pgvector",
        ) from error


async def _apply_file(connection: Connection, file: Migration, models: Mapping[str, EmbeddingModel]) -> None:
    """Run the SQL of a file, and record it as applied."""
    await connection.execute(_sql_of(file, models).encode())
    await connection.execute(
        "INSERT INTO forged.migrations (number, name, sha256) VALUES (%s, %s, %s)",
        (file.number, file.name, file.sha256),
    )


async def _validate_constraints(connection: Connection) -> None:
    """Validate constraints that are not yet; one that older rows break stays in force for new rows only."""
    cursor = await connection.execute(_NOT_VALIDATED)
    for table, name in await cursor.fetchall():
        statement = sql.SQL("ALTER TABLE {} VALIDATE CONSTRAINT {}")
        try:
            async with connection.transaction():
                await connection.execute(
                    statement.format(sql.Identifier("forged", table), sql.Identifier(name))
                )
        except psycopg.errors.CheckViolation:
            logger.warning("odd rows table=%s constraint=%s", table, name)


# The extension may be in any schema.
_SEARCH_PATH = """
    SELECT set_config('search_path', concat_ws(', ', 'pg_catalog', quote_ident(nspname)), true)
    FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'vector'"""
_NOT_VALIDATED = """
    SELECT relname, conname FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid
    WHERE relnamespace = 'forged'::regnamespace AND contype = 'c' AND NOT convalidated AND NOT relispartition
    ORDER BY 1, 2"""


def migration_texts(models: Mapping[str, EmbeddingModel]) -> Iterable[str]:
    """Yield the SQL of all migrations for these embedding models."""
    return (_sql_of(file, models) for file in migrations() if file.model in models)


def _sql_of(file: Migration, models: Mapping[str, EmbeddingModel]) -> str:
    """Return the SQL of a file for these embedding models."""
    places = {"cjk_letters": CJK_LETTERS}
    for name, model in models.items():
        prefix = "" if name == MAIN else f"{name}_"
        places[f"{prefix}dimension"] = str(model.dimension)
        places[f"{prefix}indexed"] = f"{indexed_expression(model.dimension, name)} {OPERATORS}"
    return Template(file.text).substitute(places)


async def _record_models(connection: Connection, models: Mapping[str, EmbeddingModel]) -> None:
    """Record the embedding models that are not recorded yet."""
    for name, model in models.items():
        await connection.execute(
            "INSERT INTO forged.models (name, model, dimension) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            (name, model.name, model.dimension),
        )
