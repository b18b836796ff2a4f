"""SQL statements of searches and writes, as text.

Each compares the owner by `=`, so that it uses one partition (or one machine of a distributed server).
"""

# ruff: noqa: S608 - what is put into the text are names from this package, never a value

from __future__ import annotations

from functools import cache

from forged.memory import Scope
from forged.postgres.schema import CJK, CJK_LETTERS, MAIN, VECTORS, indexed_expression, indexed_type, table
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
# Rows that pass a filter are all compared: always up to the first number, never beyond the second.
_FEW, _MOST = 5_000, 10_000
# A filter is tried first on a sample of places, which are the first ones of their pages. If few rows pass,
# the sample says that many do with a chance below one in a million.
_TRIED, _PLACES, _SURE = 500, 4, "ln(1e6)"
# Rows of a graph for each wanted one: without a filter, and after and before one; `hnsw.ef_search` with one.
_POOL, _FILTERED_POOL, _CANDIDATES, _FILTERED_EF = 2, 4, 200, 200
_BARE = " AND ".join(f"{each} IS NULL" for each in VECTORS.values())
# Sequence that grows with every change.
_NEXT = "nextval('forged.changes')"

# --- search --------------------------------------------------------------------------------------------


@cache
def search(
    scope: Scope,
    model: str = MAIN,
    *,
    dimension: int,
    filters: bool = False,
    nested: int = 0,
    vectors: bool = False,
) -> str:
    """Return the SQL query of one owner's rows nearest to a vector, sorted by distance, then by id.

    `filters`: rows must contain all of %(filters)s. `nested`: this number of keys must be equal as a whole,
    as %(key0)s, %(value0)s and so on. `vectors`: with vectors. Rows of a session are all compared. Otherwise
    an index finds more rows than wanted, in half precision; full precision decides on the nearest.
    """
    here, rows = TABLES[scope], table(scope)
    columns = ", ".join(map(here.read_as, found_columns(scope, vectors=vectors)[:-1]))
    own = _own_condition(here, model)
    passing = " AND ".join(
        ("metadata @> %(filters)s", *(f"metadata -> %(key{at})s = %(value{at})s" for at in range(nested)))
    )
    near = f"{indexed_expression(dimension, model)} <=> %(vector)s::{indexed_type(dimension)}"
    distance = f"{VECTORS[model]} <=> %(vector)s"
    nearest = f"SELECT * FROM {rows} WHERE {own} ORDER BY {near}"
    if scope == Scope.SESSION:
        rows = f"{rows} WHERE {own}{f' AND {passing}' if filters else ''}"
    elif filters:
        return _filtered_search(here, rows, columns, nearest, f"{own} AND {passing}", distance)
    else:
        rows = f"({nearest} LIMIT {_POOL} * %(limit)s) AS pool"
    return f"""
        SELECT {columns}, {distance} AS distance FROM {rows}
        ORDER BY distance, id LIMIT %(limit)s"""


def _filtered_search(  # noqa: PLR0917 - parts of one statement
    here: ScopeTable, rows: str, columns: str, nearest: str, wanted: str, distance: str
) -> str:
    """Return the query of rows that pass a filter: all of few are compared, else a graph finds them."""
    # A condition without a column ends a part of the statement before it begins. If too few of the graph's
    # candidates pass, all rows that pass are compared after all.
    compared = f"SELECT id, {distance} AS distance FROM {rows} WHERE {wanted}"
    return f"""
        WITH tried (many) AS MATERIALIZED ({_many_in_sample(here, rows, wanted)}),
        few AS MATERIALIZED ({compared} AND NOT (SELECT many FROM tried) LIMIT {_MOST + 1}),
        counted (many) AS MATERIALIZED (SELECT count(*) > {_MOST} OR (SELECT many FROM tried) FROM few),
        pool AS MATERIALIZED (
            SELECT id, {distance} AS distance
            FROM ({nearest} LIMIT {_CANDIDATES} * %(limit)s) AS candidate
            WHERE {wanted} AND (SELECT many FROM counted)
                AND (SELECT set_config('hnsw.ef_search', '{_FILTERED_EF}', true)) <> ''
            LIMIT {_FILTERED_POOL} * %(limit)s),
        filled (up) AS MATERIALIZED (SELECT count(*) = {_FILTERED_POOL} * %(limit)s FROM pool),
        best AS (
            SELECT id, distance FROM few WHERE NOT (SELECT many FROM counted)
            UNION ALL SELECT id, distance FROM pool WHERE (SELECT up FROM filled)
            UNION ALL {compared} AND (SELECT many FROM counted) AND NOT (SELECT up FROM filled)
            ORDER BY distance, id LIMIT %(limit)s)
        SELECT {columns}, distance FROM best JOIN {rows} USING (id)
        {f"WHERE {here.owner} = %(owner)s" if here.owner else ""} ORDER BY distance, id"""


def _many_in_sample(here: ScopeTable, rows: str, wanted: str) -> str:
    """Return the query whether surely more than _FEW rows are wanted: Chernoff's bound of a sample."""
    # The sample is of the same places while the largest partition keeps its size. Small ones have none.
    parts = f"pg_partition_tree('{rows}')" if here.owner else f"(SELECT '{rows}'::regclass AS relid) AS this"
    places = f"(SELECT greatest(1, {_PLACES} * max(pg_relation_size(relid)) / 8192) FROM {parts})"
    return f"""
        SELECT seen > expected AND seen * (ln(greatest(seen, 1) / expected) - 1) + expected > {_SURE} FROM (
            SELECT count(*)::float8 AS seen, {_TRIED}::float8 * {_FEW} / {places} AS expected FROM {rows}
            WHERE {wanted} AND ctid = ANY (ARRAY(
                SELECT ('(' || place / {_PLACES} || ',' || mod(place, {_PLACES}) + 1 || ')')::tid FROM (
                    SELECT mod(hashint8extended(n, 0) & ~(1::int8 << 63), {places})
                    FROM generate_series(1, least({_TRIED}, {places} - {_FEW})) AS n) AS sample (place)))
            ) AS counted"""


def found_columns(scope: Scope, *, vectors: bool = False) -> tuple[str, ...]:
    """Return the column names of the query `search`, in order."""
    return (*TABLES[scope].read, *(VECTORS.values() if vectors else ()), "distance")


def _own_condition(here: ScopeTable, model: str) -> str:
    """Return the WHERE condition of a search by a model's vectors: owner, current, importance."""
    wanted = [f"{VECTORS[model]} IS NOT NULL"]
    if here.owner:
        wanted.append(f"{here.owner} = %(owner)s")
    if here.scope == Scope.SESSION:
        wanted.append("expires_at > %(now)s")
    if here.versions:
        wanted.append("is_head")
    if "importance_score" in here.columns:
        wanted.append("importance_score >= %(least)s")
    return " AND ".join(wanted)


# --- writes --------------------------------------------------------------------------------------------


@cache
def put_one(scope: Scope, *, is_checked: bool = False) -> str:
    """Return the statement that writes one row over any with its id, unless forgotten or older.

    With `is_checked` the caller holds the lock and has checked that.
    """
    here = TABLES[scope]
    given = ", ".join(f"%({column})s::{here.type_of(column)} AS {column}" for column in here.columns)
    return _upsert(here, f"(SELECT {given})", is_checked=is_checked)


@cache
def put_many(scope: Scope) -> str:
    """Return the statement that writes all rows of the table `incoming`, as `put_one` does."""
    return _upsert(TABLES[scope], "incoming")


@cache
def incoming(scope: Scope) -> str:
    """Return the statement that creates the temporary table `incoming`, to copy rows into."""
    here = TABLES[scope]
    rows = f"SELECT {', '.join(here.columns)} FROM {table(scope)}"
    return f"CREATE TEMP TABLE incoming ON COMMIT DROP AS {rows} WITH NO DATA"


def _upsert(here: ScopeTable, given: str, *, is_checked: bool = False) -> str:
    """Return the upsert of the rows `given`; unless `is_checked`, forgotten and older rows are left out."""
    name, columns = table(here.scope), list(here.columns)
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
    if column not in VECTORS.values():
        return f"{column} = EXCLUDED.{column}"
    is_bare = " AND ".join(f"EXCLUDED.{each} IS NULL" for each in VECTORS.values())
    kept = f"CASE WHEN {is_bare} AND EXCLUDED.content = t.content THEN t.{column} ELSE EXCLUDED.{column} END"
    return f"{column} = {kept}"


def _forbidden_condition(here: ScopeTable) -> str:
    """Return the SQL condition that tombstone `f` forbids row `i`; documents may be ingested again."""
    if here.scope == Scope.ORG:
        named = "f.id IN (i.id, i.document_id) AND f.at >= i.created_at"
        return f"f.scope = 'org' AND f.owner = '' AND {named}"
    named = f"f.scope = '{here.scope}' AND f.owner = i.{here.owner} AND f.id = i.id"
    return f"{named} AND f.kind <> 'restored'"


def _not_older_condition(here: ScopeTable) -> str:
    """Return the SQL condition that a row is not older (by time, then hash), "" for sessions."""
    if not here.versions:
        return "WHERE EXCLUDED.created_at >= t.created_at" if here.scope is Scope.ORG else ""
    return "WHERE (EXCLUDED.updated_at, EXCLUDED.file_sha256) >= (t.updated_at, t.file_sha256)"


@cache
def settle_heads(scope: Scope) -> str:
    """Return the statement that marks an owner's unreplaced rows as heads; returns changed ids."""
    here = TABLES[scope]
    name = table(scope)
    return f"""
        UPDATE {name} AS t SET is_head = NOT is_head
        WHERE {here.owner} = %(owner)s AND is_head = EXISTS (
            SELECT FROM {name} AS n
            WHERE n.{here.owner} = %(owner)s AND n.supersedes = t.id AND n.id <> t.id)
        RETURNING t.id"""


# Deletes all rows of a session but its newest %(most)s.
KEEP_NEWEST = f"""
    DELETE FROM {table(Scope.SESSION)} WHERE session_id = %(owner)s AND id IN (
        SELECT id FROM {table(Scope.SESSION)} WHERE session_id = %(owner)s
        ORDER BY created_at DESC, id DESC OFFSET %(most)s)"""


@cache
def fill(scope: Scope, model: str = MAIN) -> str:
    """Return the statement that adds a vector to a row without one, unless its text has changed.

    A vector of the second model takes the place of one of the first.
    """
    here = TABLES[scope]
    own = f"{here.owner} = %(owner)s AND " if here.owner else ""
    wanted = f"{own}id = %(id)s AND content = %(content)s AND embedding_cjk IS NULL"
    wanted += "" if model == CJK else " AND embedding IS NULL"
    given = {each: "%(vector)s" if name == model else "NULL" for name, each in VECTORS.items()}
    changes = ", ".join(f"{column} = {value}" for column, value in given.items())
    return f"UPDATE {table(scope)} SET {changes} WHERE {wanted}"


@cache
def without_vector(scope: Scope, *, crossed: bool = False) -> str:
    """Return the query of ids and texts of an owner's current rows without a vector, by id.

    `crossed`: rows with a vector of the first model, and with letters of the second one's languages.
    """
    here = TABLES[scope]
    own = f"{here.owner} = %(owner)s AND " if here.owner else ""
    head = "is_head AND " if here.versions else ""
    lacks = f"embedding IS NOT NULL AND content ~ '{CJK_LETTERS}'" if crossed else _BARE
    wanted = f"{own}{head}{lacks} AND id > %(after)s AND {here.read_as('content')} IS NOT NULL"
    return f"SELECT id, content FROM {table(scope)} WHERE {wanted} ORDER BY id LIMIT %(most)s"


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
def remove(scope: Scope) -> str:
    """Return the statement that deletes rows of one owner by id."""
    here = TABLES[scope]
    own = f"{here.owner} = %(owner)s AND " if here.owner else ""
    return f"DELETE FROM {table(scope)} WHERE {own}id = ANY(%(ids)s)"


# Deletes a document's pieces made up to a time, and returns their ids.
REMOVE_DOCUMENT = f"""
    DELETE FROM {table(Scope.ORG)} WHERE document_id = %(document)s AND created_at <= %(at)s RETURNING id"""
# Deletes expired session rows, which searches already leave out.
SWEEP = f"DELETE FROM {table(Scope.SESSION)} WHERE expires_at <= %(now)s"


@cache
def count(scope: Scope) -> str:
    """Return the statement that adds to a row's number of answers, and sets the time of the last one."""
    here = TABLES[scope]
    return f"""
        UPDATE {table(scope)}
        SET access_count = access_count + %(count)s, last_accessed = greatest(last_accessed, %(at)s)
        WHERE {here.owner} = %(owner)s AND id = %(id)s"""
