"""Tables of entities and relations of an owner's rows, and search of rows over them.

A step follows a relation, in either direction, or leads from one entity to another of the same memory. All
data belongs to one owner, so that one machine of a distributed server answers. Entities are read from a row
after its write and are deleted with it: nothing leads over forgotten or replaced rows.
"""

# ruff: noqa: S608 - what is put into the text are names from this package, never a value

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
from psycopg.types.json import Jsonb

from forged.entities import Mentions, entity_id, mentions_of
from forged.errors import ForgedError
from forged.files import parse
from forged.memory import Entity, Memory, Scope, Trigger
from forged.postgres import statements
from forged.postgres.connecting import Connection
from forged.postgres.schema import table
from forged.postgres.tables import TABLES, OddRowError
from forged.postgres.values import Stored

DEEPEST, MOST_FOUND = 2, 64
# Limits: steps from one entity, the heaviest first; and entities to continue from.
_FAN = 40
_MOST_STARTS = 16
_LONGEST = 120

_UNRELATE = """
    DELETE FROM forged.relationships
    WHERE owner = %(owner)s AND scope = %(scope)s AND memory_id = ANY(%(ids)s)"""
_ORPHANED = """
    WITH gone AS (
        DELETE FROM forged.entities AS e
        WHERE e.owner = %(owner)s AND e.scope = %(scope)s AND e.id = ANY(%(things)s) AND NOT EXISTS (
            SELECT FROM forged.memory_entities AS l
            WHERE l.owner = %(owner)s AND l.scope = %(scope)s AND l.entity_id = e.id)
        RETURNING e.id)
    DELETE FROM forged.entity_aliases AS a USING gone
    WHERE a.owner = %(owner)s AND a.scope = %(scope)s AND a.entity_id = gone.id"""
_NAME = """
    INSERT INTO forged.entities (owner, scope, id, name, type, description)
    SELECT %(owner)s, %(scope)s, n.id, n.name, n.type, n.description
    FROM unnest(%(things)s::text[], %(names)s::text[], %(types)s::text[], %(descriptions)s::text[])
        AS n (id, name, type, description)
    ON CONFLICT (owner, scope, id) DO UPDATE
    SET type = coalesce(nullif(EXCLUDED.type, ''), entities.type),
        description = coalesce(nullif(EXCLUDED.description, ''), entities.description)"""
_ALIAS = """
    INSERT INTO forged.entity_aliases (owner, scope, alias, entity_id)
    SELECT %(owner)s, %(scope)s, a.alias, a.thing
    FROM unnest(%(aliases)s::text[], %(things)s::text[]) AS a (alias, thing)
    ON CONFLICT DO NOTHING"""
_LINK = """
    INSERT INTO forged.memory_entities (owner, scope, memory_id, entity_id)
    SELECT %(owner)s, %(scope)s, l.memory, l.thing
    FROM unnest(%(memories)s::text[], %(things)s::text[]) AS l (memory, thing)
    ON CONFLICT DO NOTHING"""
_RELATE = """
    INSERT INTO forged.relationships
        (owner, scope, memory_id, source_id, target_id, relation_type, weight)
    SELECT %(owner)s, %(scope)s, r.memory, r.source, r.target, r.relation, r.weight
    FROM unnest(%(memories)s::text[], %(sources)s::text[], %(targets)s::text[], %(relations)s::text[],
        %(weights)s::float4[]) AS r (memory, source, target, relation, weight)
    ON CONFLICT DO NOTHING"""
_NAMED = """
    SELECT id FROM forged.entities
    WHERE owner = %(owner)s AND scope = %(scope)s AND id = ANY(%(names)s)
    UNION ALL
    SELECT entity_id FROM forged.entity_aliases
    WHERE owner = %(owner)s AND scope = %(scope)s AND alias = ANY(%(whole)s)"""


@cache
def _texts_query(scope: Scope) -> str:
    """Return the query of texts and files of an owner's current rows by id."""
    here = TABLES[scope]
    own = f"{here.owner} = %(owner)s AND is_head AND " if here.versions else ""
    file = "file" if here.versions else "NULL"
    return f"SELECT id, content, {file} FROM {table(scope)} WHERE {own}id = ANY(%(ids)s)"


@cache
def two_hops_query(scope: Scope) -> str:
    """Return the SQL of rows up to two steps from entities, on paths that pass no entity twice.

    The weight of an entity falls with its distance and with the number of its memories.
    """
    here = TABLES[scope]
    columns = ", ".join(here.read_as(column, "t") for column in here.read)
    own = f"AND t.{here.owner} = %(owner)s AND t.is_head" if here.versions else ""
    importance = "AND t.importance_score >= %(least)s" if "importance_score" in here.columns else ""
    return f"""
    WITH RECURSIVE reached (entity, name, depth, weight, seen, path) AS (
        SELECT id, name, 0, 1.0::float8, ARRAY[id], '{{}}'::text[] FROM forged.entities
        WHERE owner = %(owner)s AND scope = %(scope)s AND id = ANY(%(start)s)
        UNION ALL
        SELECT step.id, e.name, r.depth + 1, r.weight * step.weight, r.seen || step.id, r.path || CASE
            WHEN step.is_back THEN concat_ws(' ', e.name, step.label, r.name)
            ELSE concat_ws(' ', r.name, step.label, e.name) END
        FROM reached AS r CROSS JOIN LATERAL (
            SELECT DISTINCT ON (s.id) s.id, s.label, s.is_back, least(greatest(s.weight, 0), 1) AS weight
            FROM (
                (SELECT target_id AS id, relation_type AS label, false AS is_back, weight
                FROM forged.relationships
                WHERE owner = %(owner)s AND scope = %(scope)s AND source_id = r.entity
                ORDER BY weight DESC, target_id LIMIT %(fan)s)
                UNION ALL
                (SELECT source_id, relation_type, true, weight FROM forged.relationships
                WHERE owner = %(owner)s AND scope = %(scope)s AND target_id = r.entity
                ORDER BY weight DESC, source_id LIMIT %(fan)s)
                UNION ALL
                (SELECT b.entity_id, 'with', false, 0.5 FROM (
                    SELECT memory_id FROM forged.memory_entities
                    WHERE owner = %(owner)s AND scope = %(scope)s AND entity_id = r.entity
                    ORDER BY memory_id LIMIT %(fan)s) AS a
                CROSS JOIN LATERAL (
                    SELECT entity_id FROM forged.memory_entities
                    WHERE owner = %(owner)s AND scope = %(scope)s AND memory_id = a.memory_id
                    ORDER BY entity_id LIMIT %(fan)s) AS b
                LIMIT %(fan)s)
            ) AS s
            WHERE s.id <> ALL(r.seen)
            ORDER BY s.id, s.weight DESC, s.label) AS step
        JOIN forged.entities AS e ON e.owner = %(owner)s AND e.scope = %(scope)s AND e.id = step.id
        WHERE r.depth < %(depth)s),
    things AS (
        SELECT DISTINCT ON (entity) entity, name, depth, path, weight * 0.5 ^ depth AS weight FROM reached
        ORDER BY entity, weight * 0.5 ^ depth DESC, path),
    spoken AS (
        SELECT l.memory_id, w.name, w.depth, w.path,
            w.weight / (1 + ln(1 + count(*) OVER (PARTITION BY w.entity)) / ln(2)) AS strength
        FROM things AS w CROSS JOIN LATERAL (
            SELECT memory_id FROM forged.memory_entities
            WHERE owner = %(owner)s AND scope = %(scope)s AND entity_id = w.entity
            ORDER BY memory_id DESC LIMIT %(most)s) AS l),
    best AS (
        SELECT DISTINCT ON (memory_id) * FROM spoken ORDER BY memory_id, strength DESC, depth, path)
    SELECT {columns}, b.strength, b.depth,
        CASE b.depth WHEN 0 THEN b.name ELSE array_to_string(b.path, '; ') END
    FROM best AS b JOIN {table(scope)} AS t ON t.id = b.memory_id {own} {importance}
    WHERE t.metadata @> %(filters)s
    ORDER BY b.strength DESC, b.depth, t.id LIMIT %(most)s"""


class ReachedRow(msgspec.Struct, frozen=True):
    """Row found over entities, with the number of steps, its weight, and the path in words."""

    row: Stored
    strength: float
    hops: int
    path: str


class EntityTables:
    """Writes and searches the entities and relations of one owner's rows, in the caller's transaction."""

    def __init__(self, connection: Connection, scope: Scope, owner: str) -> None:
        self._connection = connection
        self._scope = scope
        self._whose: Mapping[str, object] = {"owner": owner, "scope": str(scope)}

    async def renew(self, ids: Sequence[str]) -> None:
        """Replace the entities and relations of rows by those in their texts; delete orphaned entities."""
        if not ids or self._scope is Scope.SESSION:
            return
        # Writers of different documents meet here only, and would lock the same entities in different orders.
        await self._execute(statements.LOCK, slots=[0])
        await self._execute(_UNRELATE, ids=list(ids))
        lost = {each for (each,) in await self._execute(statements.UNLINK, ids=list(ids))}
        rows = await self._execute(_texts_query(self._scope), ids=list(ids))
        spoken = await asyncio.to_thread(_mentions_by_row, self._scope, rows) if rows else {}
        await self._write_mentions(spoken)
        if lost:
            await self._execute(_ORPHANED, things=sorted(lost))

    async def _write_mentions(self, spoken: Mapping[str, Mentions]) -> None:
        """Insert the entities, wider names, links and relations that rows mention, by row id."""
        things = {entity_id(each.name): each for one in spoken.values() for each in one.entities}
        if not things:
            return
        await self._write_entities(things)
        links = sorted({(row, entity_id(each.name)) for row, one in spoken.items() for each in one.entities})
        memories, named = zip(*links, strict=True)
        await self._execute(_LINK, memories=list(memories), things=list(named))
        wider = sorted({pair for one in spoken.values() for pair in one.wider_names})
        if wider:
            aliases, numbered = zip(*wider, strict=True)
            await self._execute(_ALIAS, aliases=list(aliases), things=list(numbered))
        await self._write_relations(spoken, things)

    async def _write_entities(self, things: Mapping[str, Entity]) -> None:
        """Insert entities by id; in known ones, replace type and description if given."""
        ids = sorted(things)
        await self._execute(
            _NAME,
            things=ids,
            names=[things[each].name for each in ids],
            types=[things[each].type[:_LONGEST] for each in ids],
            descriptions=[things[each].description for each in ids],
        )

    async def _write_relations(self, spoken: Mapping[str, Mentions], things: Mapping[str, Entity]) -> None:
        """Insert the relations that rows state between these entities."""
        rows_of_relations = sorted(
            (row, entity_id(each.source), entity_id(each.target), each.relation[:_LONGEST], each.weight)
            for row, one in spoken.items()
            for each in one.relations
            if {entity_id(each.source), entity_id(each.target)} <= things.keys()
        )
        names = ("memories", "sources", "targets", "relations", "weights")
        if rows_of_relations:
            columns = (list(column) for column in zip(*rows_of_relations, strict=True))
            await self._execute(_RELATE, **dict(zip(names, columns, strict=True)))

    async def _execute(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        """Execute a statement for the owner; return its rows, [] without any."""
        cursor = await self._connection.execute(statement, {**self._whose, **values})
        return await cursor.fetchall() if cursor.description else []

    async def reached(
        self, names: Sequence[str], filters: Mapping[str, Any] | None = None, least: float = 0.0
    ) -> list[ReachedRow]:
        """Return rows that pass the filters within two steps of entities with these ids, best first."""
        named = await self._execute(_NAMED, names=list(names), whole=_whole_names(names))
        start = list(dict.fromkeys(each for (each,) in named))[:_MOST_STARTS]
        if not start:
            return []
        found = await self._execute(
            two_hops_query(self._scope),
            start=start,
            depth=DEEPEST,
            fan=_FAN,
            most=MOST_FOUND,
            filters=Jsonb(filters or {}),
            least=least,
        )
        here, rows = TABLES[self._scope], list[ReachedRow]()
        for *row, strength, hops, path in found:
            with suppress(OddRowError):
                rows.append(ReachedRow(here.stored(row, here.read), strength, hops, path))
        return rows


def _whole_names(names: Sequence[str]) -> list[str]:
    """Return the names that have no number behind them in a query: "Java 17" does not ask for all of Java."""
    numbered = {stem for stem, _, last in (name.rpartition(" ") for name in names) if last[:1].isdigit()}
    return [name for name in names if name not in numbered]


def _mentions_by_row(scope: Scope, rows: Sequence[tuple[Any, ...]]) -> dict[str, Mentions]:
    """Return the entities and relations that each row mentions, by row id."""
    return {memory_id: mentions_of(_memory_of_row(scope, *row)) for row in rows for memory_id in row[:1]}


def _memory_of_row(scope: Scope, memory_id: str, content: str, file: bytes | None) -> Memory:
    """Return the memory of a row: its parsed file, else one with only the text."""
    if file is not None:
        try:
            return parse(bytes(file), scope, memory_id)
        except ForgedError:
            pass  # written by another daemon
    return Memory(
        id=memory_id,
        content=content,
        created_at="",
        updated_at="",
        version=1,
        scope=scope,
        category="",
        session_id="",
        trigger=Trigger.EXPLICIT,
    )
