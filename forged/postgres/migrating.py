"""Apply the numbered files of `migrations/` to a database.

`migrate` updates a database in one transaction that locks the table of applied files, so that two callers at
once apply each file once. Only the owner of the tables can hold that lock.
Repeating it changes nothing. A file with `${set}` runs once for every set of tables, any other file once. A
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
from forged.postgres.schema import MAIN, OPERATORS, indexed_expression, suffix
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
    set_name text NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (number, set_name)
);
CREATE TABLE IF NOT EXISTS forged.models (
    set_name text PRIMARY KEY,
    model text NOT NULL,
    dimension integer NOT NULL
);
"""


class Migration(msgspec.Struct, frozen=True):
    """Numbered SQL file of `migrations/`, for the whole schema or for each set of tables."""

    number: int
    name: str
    text: str

    @property
    def is_per_set(self) -> bool:
        """Return True if the migration runs for every set of tables, by `${set}` in its text."""
        return "${set}" in self.text

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the file's text, in hex."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class MigrationStep(msgspec.Struct, frozen=True, order=True):
    """Migration file to run for one set of tables; a file for all sets belongs to the main one."""

    number: int
    set_name: str


def migrations(folder: Path = _FOLDER) -> tuple[Migration, ...]:
    """Return the migration files of a folder, sorted by number."""
    found = ((_NAME.fullmatch(file.name), file) for file in sorted(folder.iterdir()))
    return tuple(Migration(int(name[1]), name[2], file.read_text()) for name, file in found if name)


async def migrate(
    connection: Connection, models: Mapping[str, EmbeddingModel], files: Sequence[Migration] | None = None
) -> tuple[MigrationStep, ...]:
    """Create pgvector, run lacking migrations, renew members' rights; return steps. Raises SharedError."""
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
            lacking = await missing_steps(connection, models, files)
            for step in lacking:
                await _apply_step(connection, step, models, files)
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
        lacking = await missing_steps(connection, models, migrations())
    if lacking:
        raise SharedError(
            "the tables of the shared PostgreSQL are of an older forged: run `forgectl shared migrate`",
            reason="schema",
        )


async def missing_steps(
    connection: Connection, models: Mapping[str, EmbeddingModel], files: Sequence[Migration]
) -> tuple[MigrationStep, ...]:
    """Return migration steps that a database lacks. Raises SharedError for unknown ones or other models."""
    cursor = await connection.execute("SELECT number, set_name, sha256 FROM forged.migrations")
    had = {MigrationStep(number, name): digest for number, name, digest in await cursor.fetchall()}
    _require_known_files(had, files)
    await require_models(connection, models)
    return tuple(step for step in _steps(models, files) if step not in had)


def _steps(sets: Iterable[str], files: Sequence[Migration]) -> Iterable[MigrationStep]:
    """Yield a step for each migration file, or one for every set of tables if the file is per set."""
    for file in files:
        yield from (
            MigrationStep(file.number, name)
            for name in (sorted({MAIN, *sets}) if file.is_per_set else [MAIN])
        )


def _require_known_files(had: Mapping[MigrationStep, str], files: Sequence[Migration]) -> None:
    """Raise SharedError if an applied migration is unknown here, or has another text."""
    known = {file.number: file for file in files}
    for step, digest in sorted(had.items()):
        file = known.get(step.number)
        if file is None:
            raise SharedError(
                f"the shared PostgreSQL has migration {step.number}, which is of a newer forged:"
                " upgrade this one",
                reason="schema",
            )
        if file.sha256 != digest:
            raise SharedError(
                f"migration {step.number} ({file.name}) is not the one that the shared PostgreSQL has had:"
                " this forged and the one that migrated it differ",
                reason="schema",
            )


async def require_models(connection: Connection, models: Mapping[str, EmbeddingModel]) -> None:
    """Raise SharedError if the vectors of a set belong to another model or have another length."""
    cursor = await connection.execute("SELECT set_name, model, dimension FROM forged.models")
    for name, model, dimension in await cursor.fetchall():
        ours = models.get(name)
        if ours is None:
            continue
        if ours.dimension != dimension:
            raise SharedError(
                f"the vectors of the shared PostgreSQL have {dimension} numbers, and shared.dimension is"
                f" {ours.dimension}: set it to {dimension}, and memory.embedding_model to {model}",
                reason="dimension",
            )
        if ours.name != model:
            raise SharedError(
                f"the vectors of the shared PostgreSQL are of the model {model}, and memory.embedding_model"
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


async def _apply_step(
    connection: Connection,
    step: MigrationStep,
    models: Mapping[str, EmbeddingModel],
    files: Sequence[Migration],
) -> None:
    """Run the SQL of a step, and record the step as applied."""
    file = next(file for file in files if file.number == step.number)
    text = _sql_for_set(file, step.set_name, models[step.set_name].dimension)
    await connection.execute(text.encode())
    await connection.execute(
        "INSERT INTO forged.migrations (number, set_name, name, sha256) VALUES (%s, %s, %s, %s)",
        (step.number, step.set_name, file.name, file.sha256),
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
    """Yield the SQL of all migrations for these sets of tables."""
    files = migrations()
    for step in _steps(models, files):
        file = next(file for file in files if file.number == step.number)
        yield _sql_for_set(file, step.set_name, models[step.set_name].dimension)


def _sql_for_set(file: Migration, set_name: str, dimension: int) -> str:
    """Return the SQL of a file for one set of tables with vectors of this length."""
    indexed = f"{indexed_expression(dimension)} {OPERATORS}"
    places = {"set": suffix(set_name), "dimension": dimension, "indexed": indexed}
    return Template(file.text).substitute(places)


async def _record_models(connection: Connection, models: Mapping[str, EmbeddingModel]) -> None:
    """Record the embedding model of each set without a recorded one."""
    for name, model in models.items():
        await connection.execute(
            "INSERT INTO forged.models (set_name, model, dimension) VALUES (%s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            (name, model.name, model.dimension),
        )
