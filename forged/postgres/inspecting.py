"""Check the team's server: schema, role, rows and settings, with remedies.

Reads only. A finding describes a fact and, unless it is fine, the remedy.
"""

# ruff: noqa: S608 - what is put into the text are names, never a value

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Literal

import msgspec

from forged.postgres.connecting import (
    POOLER_FIX,
    Connection,
    Pooler,
    find_pooler,
    is_local,
    parameters,
    server_info,
)
from forged.postgres.failures import translated
from forged.postgres.filling import RowVectors
from forged.postgres.migrating import migration_texts, migrations, recorded_models, require_current
from forged.postgres.pool import CONNECTIONS
from forged.postgres.schema import CJK, MAIN
from forged.postgres.values import EmbeddingModel, Settings

_TABLE = re.compile(r"CREATE TABLE forged\.(\w+)")
_COLUMNS_OF_TABLE = re.compile(r"CREATE TABLE forged\.(\w+) \(\n(.*?)\n\)", re.DOTALL)
_COLUMN = re.compile(r"^    ([a-z_]+) ", re.MULTILINE)
_INDEX = re.compile(r"CREATE INDEX (\w+) ON forged\.")
_SECURED = re.compile(r"ALTER TABLE forged\.(\w+) ENABLE ROW LEVEL SECURITY")
_POLICY = re.compile(r"CREATE POLICY (\w+) ON forged\.(\w+)")
_EMBEDDING = re.compile(r"CREATE TABLE forged\.(\w+) \([^;]*? embedding vector\((\d+)\)")
_ANEW = "restore the database from a backup, or drop the schema forged and run `forgectl shared migrate`"
_MANY_DEAD, _FEW_ROWS = 0.2, 1000


class Finding(msgspec.Struct, frozen=True):
    """One result of a check of the server: ok, warn or fail, with detail and remedy."""

    name: str
    level: Literal["ok", "warn", "fail"]
    detail: str
    fix: str = ""


async def check_schema(connection: Connection, settings: Settings) -> list[Finding]:
    """Check tables, indexes, policies and vectors against this program's migrations; return findings.

    Raises SharedError if it is unreadable or of another program.
    """
    await require_current(connection, {MAIN: settings.model})
    with translated():
        recorded = await recorded_models(connection)
        due = sum(file.model in recorded for file in migrations())
        return [
            Finding("migrations", "ok", f"all {due}"),
            *[found async for found in _schema_findings(connection, settings, recorded)],
        ]


async def examine(connection: Connection, settings: Settings) -> list[Finding]:
    """Return findings about schema, role, rows, connections and TLS. Raises SharedError as `check_schema`."""
    found = await check_schema(connection, settings)
    with translated():
        found += [each async for each in _role_findings(connection, settings)]
        found += [each async for each in _row_findings(connection)]
        found += [each async for each in _limit_findings(connection, settings)]
    return found


async def _schema_findings(
    connection: Connection, settings: Settings, recorded: dict[str, EmbeddingModel]
) -> AsyncIterator[Finding]:
    """Yield findings about tables, indexes, row level security, policies and vector lengths."""
    text = "\n".join(migration_texts({MAIN: settings.model} | recorded))
    tables = await _fetch_column(connection, _TABLES)
    yield _names_finding("tables", _TABLE.findall(text), tables, "is missing", _ANEW)
    columns = await _fetch_column(connection, _COLUMNS)
    yield _names_finding("columns", _columns_of(text), columns, "is missing", _ANEW)
    indexes = await _fetch_column(connection, _INDEXES)
    yield _names_finding("indexes", _INDEX.findall(text), indexes, "is missing", _ANEW)
    broken = await _fetch_column(connection, _INVALID)
    if broken:
        yield Finding(
            "indexes", "fail", f"not valid: {_first_names(broken)}", f"REINDEX INDEX forged.{broken[0]}"
        )
    secured = await _fetch_column(connection, _ROW_SECURITY)
    yield _names_finding(
        "row level security",
        _SECURED.findall(text),
        secured,
        "is open to every member",
        "ALTER TABLE forged.NAME ENABLE ROW LEVEL SECURITY",
    )
    policies = await _fetch_column(
        connection, "SELECT policyname || ' ' || tablename FROM pg_policies WHERE schemaname = 'forged'"
    )
    wanted = [f"{name} {table}" for name, table in _POLICY.findall(text)]
    yield _names_finding("policies", wanted, policies, "is missing", _ANEW)
    yield await _dimension_finding(connection, dict(_EMBEDDING.findall(text)))
    if finding := _second_finding(settings, recorded):
        yield finding


def _columns_of(text: str) -> list[str]:
    """Return the columns of all tables that these migrations make, each after the name of its table."""
    tables = ((found[1], found[2]) for found in _COLUMNS_OF_TABLE.finditer(text))
    return [f"{table}.{column}" for table, lines in tables for column in _COLUMN.findall(lines)]


async def _dimension_finding(connection: Connection, wanted: dict[str, str]) -> Finding:
    """Return a finding that fails if a table's vectors have another length than its migration states."""
    query = (
        "SELECT relname, atttypmod FROM pg_attribute JOIN pg_class c ON c.oid = attrelid"
        " WHERE relnamespace = 'forged'::regnamespace AND relkind IN ('r', 'p') AND attname = 'embedding'"
    )
    there = {table: str(dimension) for table, dimension in await _fetch_all(connection, query)}
    wrong = sorted(table for table, dimension in wanted.items() if there.get(table) != dimension)
    if wrong:
        detail = f"{wrong[0]} has {there.get(wrong[0], 'none')} numbers in a vector, not {wanted[wrong[0]]}"
        return Finding("vectors", "fail", detail, _ANEW)
    return Finding("vectors", "ok", f"{' and '.join(sorted(set(wanted.values())))} numbers")


def _second_finding(settings: Settings, recorded: Mapping[str, EmbeddingModel]) -> Finding | None:
    """Return a finding about the second model, for Chinese, Japanese and Korean; None if there is none."""
    vectors, there = RowVectors(settings, {}), recorded.get(CJK)
    vectors.recorded = recorded
    if vectors.problem:
        fix = f"{'use its model' if there else 'run that'}, or leave memory.cjk_embedding_model empty"
        return Finding("second model", "fail" if there else "warn", vectors.problem, fix)
    if there is None:
        return None
    if settings.second is None:
        detail = f"rows in Chinese, Japanese and Korean have vectors of {there.name}, not in use here"
        fix = f"set memory.cjk_embedding_model to it, and shared.cjk_dimension to {there.dimension}"
        return Finding("second model", "warn", detail, fix)
    return Finding("second model", "ok", f"{there.name}, {there.dimension} numbers")


async def _role_findings(connection: Connection, settings: Settings) -> AsyncIterator[Finding]:
    """Yield findings about the role: row level security, and its right to the user's rows."""
    query = (
        "SELECT current_user, rolsuper, rolbypassrls, pg_get_userbyid(nspowner) = current_user"
        " FROM pg_roles, pg_namespace WHERE rolname = current_user AND nspname = 'forged'"
    )
    ((role, is_super, bypasses, owns),) = await _fetch_all(connection, query)
    why = (
        "a superuser"
        if is_super
        else "the owner of the tables"
        if owns
        else ("exempt from row level security")
    )
    if is_super or bypasses or owns:
        yield Finding(
            "role",
            "warn",
            f"{role} is {why}: whoever has its password reads and writes the rows of all users",
            "`forgectl shared grant USER --role ROLE` opens the tables to a role of each user",
        )
        return
    yield Finding("role", "ok", f"{role}, limited to its own rows by row level security")
    ((owns_user,),) = await _fetch_all(connection, _IS_OWN, (settings.user_id,))
    if not owns_user:
        user = settings.user_id
        detail = f"{role} was not granted the rows of {user}, who you are by shared.user_id"
        fix = f"set shared.user_id, or have `forgectl shared grant {user} --role {role}` run"
        yield Finding("user", "fail", detail, fix)


async def _row_findings(connection: Connection) -> AsyncIterator[Finding]:
    """Yield findings about dead rows, expired session rows, and rows without vectors."""
    query = (
        "SELECT coalesce(sum(n_live_tup), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint"
        " FROM pg_stat_user_tables WHERE schemaname = 'forged' AND relname LIKE '%memories%'"
    )
    ((live, dead),) = await _fetch_all(connection, query)
    if dead > _FEW_ROWS and dead > _MANY_DEAD * live:
        yield Finding(
            "dead rows",
            "warn",
            f"{dead:,} dead rows, {live:,} live ones",
            ("run VACUUM ANALYZE, and check that autovacuum is on"),
        )
    else:
        yield Finding("rows", "ok", f"about {live:,}, of which {dead:,} wait for vacuum")
    for table in await _fetch_column(connection, _ODD):
        yield Finding(
            "odd rows",
            "warn",
            f"rows of {table} have values that no forged can read; answers leave them out",
            "repair or delete the rows that break its constraint, then run `forgectl shared migrate`",
        )
    ((expired,),) = await _fetch_all(connection, _EXPIRED)
    if expired:
        detail = f"{expired:,}, of sessions, were not removed"
        yield Finding("expired rows", "warn", detail, "a running daemon removes them")
    ((bare,),) = await _fetch_all(connection, _BARE)
    if bare:
        yield Finding(
            "vectors",
            "warn",
            f"rows without an embedding, which cannot be found: {bare:,}",
            "a running daemon with their model that may write them adds the embeddings within an hour",
        )


async def _limit_findings(connection: Connection, settings: Settings) -> AsyncIterator[Finding]:
    """Yield findings about the server's version, its connection limit, and TLS."""
    ((most,),) = await _fetch_all(connection, "SELECT current_setting('max_connections')::int")
    yield Finding("server", "ok", f"PostgreSQL {server_info(connection).version}, {most} connections at most")
    if most < CONNECTIONS * 5:
        detail = f"this daemon takes up to {CONNECTIONS} of {most}"
        yield Finding("connections", "warn", detail, "raise its max_connections")
    yield _pooler_finding(await find_pooler(connection, settings))
    yield _tls_finding(parameters(settings), encrypted=connection.pgconn.ssl_in_use)


def _pooler_finding(pooler: Pooler) -> Finding:
    """Return a finding about a pooler between this machine and the server."""
    if pooler in {"", "session"}:
        detail = "a pooler in session mode" if pooler else "none: connections are to the server itself"
        return Finding("pooler", "ok", detail)
    detail = f"a pooler in {pooler} mode, with which forged does not work"
    return Finding("pooler", "fail", detail, POOLER_FIX)


def _tls_finding(given: dict[str, Any], *, encrypted: bool) -> Finding:
    """Return a finding about encryption, and about the check of the server's identity."""
    mode = given.get("sslmode", "prefer")
    if is_local(given):
        return Finding("TLS", "ok", "not needed: the server is on this machine")
    if not encrypted:
        return Finding("TLS", "fail", "the connection is not encrypted", "remove sslmode from shared.url")
    if mode not in {"verify-ca", "verify-full"}:
        return Finding(
            "TLS",
            "warn",
            "encrypted, but the server's identity is not checked",
            "add sslmode=verify-full&sslrootcert=FILE to shared.url",
        )
    return Finding("TLS", "ok", f"encrypted, {mode}")


_OURS = "relnamespace = 'forged'::regnamespace"
_TABLES = f"SELECT relname FROM pg_class WHERE {_OURS} AND relkind IN ('r', 'p')"
_COLUMNS = f"""
    SELECT relname || '.' || attname FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
    WHERE {_OURS} AND relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped"""
_INDEXES = f"SELECT relname FROM pg_class WHERE {_OURS} AND relkind IN ('i', 'I')"
_INVALID = f"""
    SELECT relname FROM pg_index JOIN pg_class c ON c.oid = indexrelid
    WHERE {_OURS} AND NOT (indisvalid AND indisready) ORDER BY relname"""
_ROW_SECURITY = f"SELECT relname FROM pg_class WHERE {_OURS} AND relrowsecurity"
_ODD = f"""
    SELECT relname FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid
    WHERE {_OURS} AND NOT convalidated AND NOT relispartition ORDER BY 1"""
_IS_OWN = "SELECT forged.may('user', %s)"
_EXPIRED = "SELECT count(*) FROM forged.session_memories WHERE expires_at < now() - interval '1 hour'"
_BARE = """
SELECT count(*) FROM (
    SELECT embedding, embedding_cjk FROM forged.user_memories WHERE is_head
    UNION ALL SELECT embedding, embedding_cjk FROM forged.agent_memories WHERE is_head
    UNION ALL SELECT embedding, embedding_cjk FROM forged.organizational_memories) AS kept
WHERE embedding IS NULL AND embedding_cjk IS NULL
"""


def _names_finding(name: str, wanted: Iterable[str], there: Iterable[str], lacks: str, fix: str) -> Finding:
    """Return a finding: ok if all `wanted` names are there, else failed with `lacks` and the remedy `fix`."""
    wanted = set(wanted)
    absent = sorted(wanted - set(there))
    if absent:
        return Finding(name, "fail", f"{_first_names(absent)} {lacks}", fix.replace("NAME", absent[0]))
    return Finding(name, "ok", f"all {len(wanted)}")


def _first_names(names: list[str]) -> str:
    """Return the first three names as text, and the number of the others."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


async def _fetch_column(connection: Connection, query: str) -> list[str]:
    """Return the first column of a query's rows as text."""
    return [str(value) for (value,) in await _fetch_all(connection, query)]


async def _fetch_all(
    connection: Connection, query: str, values: tuple[Any, ...] | None = None
) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    return await (await connection.execute(query.encode(), values)).fetchall()
