"""SQL statements of searches and writes, as text.

Each compares the owner by `=`, so that it uses one partition (or one machine of a distributed server).
`set_name` is the set of tables of an embedding model, "" for the main one.
"""

# ruff: noqa: S608 - what is put into the text are names from this package, never a value

from __future__ import annotations

from functools import cache

from forged.memory import Scope
from forged.postgres.schema import indexed_expression, indexed_type, table
from forged.postgres.tables import TABLES, ScopeTable

CHANNEL = "forged_memories"

# Writers and removers of the same owner or documents wait for each other by rows of their own, so that no row
# is written next to its tombstone. An advisory lock could be held by every role that may connect.
LOCK = """
    INSERT INTO forged.locks (scope, owner, slot)
    SELECT %(scope)s, %(owner)s, slot FROM unnest(%(slots)s::int[]) AS slot ORDER BY slot
    ON CONFLICT (owner, scope, slot) DO UPDATE SET at = now()"""
WROTE = """
    INSERT INTO forged.writers (scope, owner, daemon) VALUES (%(scope)s, %(owner)s, %(daemon)s)
    ON CONFLICT (owner, scope, daemon) DO UPDATE SET at = now()"""
WRITERS = """
    SELECT daemon, extract(epoch FROM now() - max(at))::float8 FROM forged.writers
    WHERE at > now() - interval '1 day' AND (scope, owner) IN (
        SELECT * FROM unnest(%(scopes)s::text[], %(owners)s::text[]))
    GROUP BY daemon ORDER BY 2 LIMIT 100"""
NOTIFY = f"SELECT pg_notify('{CHANNEL}', %(payload)s)"
# Candidates for each wanted row.
_POOL = 2
# Sequence that grows with every change.
_NEXT = "nextval('forged.changes')"

# --- search --------------------------------------------------------------------------------------------


@cache
def search(
    scope: Scope,
    set_name: str = "",
    *,
    dimension: int,
    filters: bool = False,
    nested: int = 0,
    vectors: bool = False,
) -> str:
    """Return the SQL query of one owner's rows nearest to a vector, sorted by distance, then by id.

    `filters`: rows must contain all of %(filters)s. `nested`: this number of keys must be equal as a whole,
    as %(key0)s, %(value0)s and so on. `vectors`: with vectors. An index finds more rows than wanted, in half
    precision; full precision decides on the nearest.
    """
    here = TABLES[scope]
    columns = ", ".join((*map(here.read_as, here.read), *(["embedding"] if vectors else [])))
    wanted = " AND ".join(_conditions(here, filters=filters, nested=nested))
    near = f"{indexed_expression(dimension)} <=> %(vector)s::{indexed_type(dimension)}"
    return f"""
        SELECT {columns}, embedding <=> %(vector)s AS distance FROM (
            SELECT {", ".join((*here.read, "embedding"))} FROM {table(scope, set_name)}
            WHERE {wanted} ORDER BY {near}, id LIMIT {_POOL} * %(limit)s) AS pool
        ORDER BY distance, id LIMIT %(limit)s"""


def found_columns(scope: Scope, *, vectors: bool = False) -> tuple[str, ...]:
    """Return the column names of the query `search`, in order."""
    return (*TABLES[scope].read, *(["embedding"] if vectors else []), "distance")


def _conditions(here: ScopeTable, *, filters: bool, nested: int) -> list[str]:
    """Return the WHERE conditions of a vector search: owner, current versions, importance, filters."""
    wanted = ["embedding IS NOT NULL"]
    if here.owner:
        wanted.append(f"{here.owner} = %(owner)s")
    if here.scope == Scope.SESSION:
        wanted.append("expires_at > %(now)s")
    if here.versions:
        wanted.append("is_head")
    if "importance_score" in here.columns:
        wanted.append("importance_score >= %(least)s")
    if filters:
        wanted.append("metadata @> %(filters)s")
    return [*wanted, *(f"metadata -> %(key{at})s = %(value{at})s" for at in range(nested))]


# --- writes --------------------------------------------------------------------------------------------


@cache
def put_one(scope: Scope, set_name: str = "") -> str:
    """Return the statement that writes one row over any with its id, unless forgotten or older."""
    here = TABLES[scope]
    given = ", ".join(f"%({column})s::{here.type_of(column)} AS {column}" for column in here.columns)
    return _upsert(here, set_name, f"(SELECT {given})")


@cache
def put_checked(scope: Scope, set_name: str = "") -> str:
    """Return the statement that writes one row unchecked; the caller holds the lock and has checked it."""
    here = TABLES[scope]
    given = ", ".join(f"%({column})s::{here.type_of(column)} AS {column}" for column in here.columns)
    return _upsert(here, set_name, f"(SELECT {given})", is_checked=True)


@cache
def put_many(scope: Scope, set_name: str = "") -> str:
    """Return the statement that writes all rows of the table `incoming`, as `put_one` does."""
    return _upsert(TABLES[scope], set_name, "incoming")


@cache
def incoming(scope: Scope, set_name: str = "") -> str:
    """Return the statement that creates the temporary table `incoming`, to copy rows into."""
    here = TABLES[scope]
    columns = ", ".join(here.columns)
    return (
        f"CREATE TEMP TABLE incoming ON COMMIT DROP AS SELECT {columns}"
        f" FROM {table(scope, set_name)} WITH NO DATA"
    )


@cache
def copy(scope: Scope) -> str:
    """Return the statement that copies rows into the table `incoming`."""
    return f"COPY incoming ({', '.join(TABLES[scope].columns)}) FROM STDIN (FORMAT BINARY)"


def _upsert(here: ScopeTable, set_name: str, given: str, *, is_checked: bool = False) -> str:
    """Return the upsert of the rows `given`; unless `is_checked`, forgotten and older rows are left out."""
    name, columns = table(here.scope, set_name), list(here.columns)
    changed = [_assignment(here.scope, column) for column in columns if column not in here.key]
    if here.versions:
        columns.append("changed")
        changed.append("changed = EXCLUDED.changed")
    values = ", ".join(_NEXT if column == "changed" else f"i.{column}" for column in columns)
    stays_away = f"WHERE NOT EXISTS (SELECT FROM forged.tombstones AS f WHERE {_forbidden_condition(here)})"
    return f"""
        INSERT INTO {name} AS t ({", ".join(columns)}) SELECT {values} FROM {given} AS i
        {"" if is_checked else stays_away}
        ON CONFLICT ({", ".join(here.key)}) DO UPDATE SET {", ".join(changed)}
        {"" if is_checked else _not_older_condition(here)}"""


def _assignment(scope: Scope, column: str) -> str:
    """Return the SQL to set a column in an upsert; equal text keeps its vector, an agent's row its author."""
    if (scope, column) == (Scope.AGENT, "user_id"):
        return "user_id = coalesce(t.user_id, EXCLUDED.user_id)"
    if column != "embedding":
        return f"{column} = EXCLUDED.{column}"
    kept = "CASE WHEN EXCLUDED.content = t.content THEN t.embedding END"
    return f"embedding = coalesce(EXCLUDED.embedding, {kept})"


def _forbidden_condition(here: ScopeTable) -> str:
    """Return the SQL condition that tombstone `f` forbids row `i`; documents may be ingested again."""
    if here.scope == Scope.ORG:
        named = "f.id IN (i.id, i.document_id) AND f.at >= i.created_at"
        return f"f.scope = 'org' AND f.owner = '' AND {named}"
    named = f"f.scope = '{here.scope}' AND f.owner = i.{here.owner} AND f.id = i.id"
    return f"{named} AND f.kind <> 'restored'"


def _not_older_condition(here: ScopeTable) -> str:
    """Return the SQL condition that a row is not older (by time, then hash), "" if unversioned."""
    if not here.versions:
        return ""
    return "WHERE (EXCLUDED.updated_at, EXCLUDED.file_sha256) >= (t.updated_at, t.file_sha256)"


@cache
def settle_heads(scope: Scope, set_name: str = "") -> str:
    """Return the statement that marks an owner's unreplaced rows as heads; returns changed ids."""
    here = TABLES[scope]
    name = table(scope, set_name)
    return f"""
        UPDATE {name} AS t SET is_head = NOT is_head
        WHERE {here.owner} = %(owner)s AND is_head = EXISTS (
            SELECT FROM {name} AS n
            WHERE n.{here.owner} = %(owner)s AND n.supersedes = t.id AND n.id <> t.id)
        RETURNING t.id"""


@cache
def keep_newest(set_name: str = "") -> str:
    """Return the statement that deletes all rows of a session but its newest %(most)s."""
    name = table(Scope.SESSION, set_name)
    return f"""
        DELETE FROM {name} WHERE session_id = %(owner)s AND id IN (
            SELECT id FROM {name} WHERE session_id = %(owner)s
            ORDER BY created_at DESC, id DESC OFFSET %(most)s)"""


@cache
def fill(scope: Scope, set_name: str = "") -> str:
    """Return the statement that adds a vector to a row without one, unless its text has changed."""
    here = TABLES[scope]
    own = f"{here.owner} = %(owner)s AND " if here.owner else ""
    return (
        f"UPDATE {table(scope, set_name)} SET embedding = %(vector)s"
        f" WHERE {own}id = %(id)s AND content = %(content)s AND embedding IS NULL"
    )


@cache
def without_vector(scope: Scope, set_name: str = "") -> str:
    """Return the query of ids and texts of an owner's current rows without a vector, by id."""
    here = TABLES[scope]
    own = f"{here.owner} = %(owner)s AND " if here.owner else ""
    head = "is_head AND " if here.versions else ""
    return (
        f"SELECT id, content FROM {table(scope, set_name)}"
        f" WHERE {own}{head}embedding IS NULL AND id > %(after)s"
        f" AND {here.read_as('content')} IS NOT NULL ORDER BY id LIMIT %(most)s"
    )


# --- removals ------------------------------------------------------------------------------------------

BURY = f"""
    INSERT INTO forged.tombstones (scope, owner, id, kind, changed, at)
    SELECT %(scope)s, %(owner)s, gone, %(kind)s, {_NEXT}, %(at)s FROM unnest(%(ids)s::text[]) AS gone
    ON CONFLICT (owner, scope, id) DO UPDATE
    SET kind = EXCLUDED.kind, changed = EXCLUDED.changed, at = greatest(tombstones.at, EXCLUDED.at)"""
UNLINK = """
    DELETE FROM forged.memory_entities
    WHERE owner = %(owner)s AND scope = %(scope)s AND memory_id = ANY(%(ids)s)
    RETURNING entity_id"""


@cache
def remove(scope: Scope, set_name: str = "") -> str:
    """Return the statement that deletes rows of one owner by id."""
    here = TABLES[scope]
    own = f"{here.owner} = %(owner)s AND " if here.owner else ""
    return f"DELETE FROM {table(scope, set_name)} WHERE {own}id = ANY(%(ids)s)"


@cache
def remove_document(set_name: str = "") -> str:
    """Return the statement that deletes a document's pieces made up to a time, and returns their ids."""
    return (
        f"DELETE FROM {table(Scope.ORG, set_name)}"
        " WHERE document_id = %(document)s AND created_at <= %(at)s RETURNING id"
    )


@cache
def sweep(set_name: str = "") -> str:
    """Return the statement that deletes expired session rows, which searches already leave out."""
    return f"DELETE FROM {table(Scope.SESSION, set_name)} WHERE expires_at <= %(now)s"


@cache
def count(scope: Scope, set_name: str = "") -> str:
    """Return the statement that adds to a row's number of answers, and sets the time of the last one."""
    here = TABLES[scope]
    return f"""
        UPDATE {table(scope, set_name)}
        SET access_count = access_count + %(count)s, last_accessed = greatest(last_accessed, %(at)s)
        WHERE {here.owner} = %(owner)s AND id = %(id)s"""
