"""What the rows of one owner speak of, in tables; and the memories that one or two steps lead to.

A step goes along a relation, in either direction, or from one thing to another that the same memory speaks
of. Everything is of one owner, so that one machine of a distributed server answers. What no memory speaks of
any more is taken away with the last that did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from forged.entities import Spoken, entity_id, spoken_by
from forged.memory import Entity, Relation, Scope
from forged.postgres.connecting import Connection
from forged.postgres.found import as_memory
from forged.postgres.values import Stored

DEEPEST, MOST_FOUND = 2, 100
# From one thing at most so many steps are taken, the heaviest relations first.
_FAN = 40
_MOST_STARTS = 16

_UNLINK = """
    DELETE FROM forged.memory_entities
    WHERE owner = %(owner)s AND scope = %(scope)s AND memory_id = ANY(%(memories)s)
    RETURNING entity_id"""
_NAME = """
    INSERT INTO forged.entities (owner, scope, id, name, type, description)
    SELECT %(owner)s, %(scope)s, n.id, n.name, n.type, n.description
    FROM unnest(%(ids)s::text[], %(names)s::text[], %(types)s::text[], %(descriptions)s::text[])
        AS n (id, name, type, description)
    ON CONFLICT (owner, scope, id) DO UPDATE
    SET type = coalesce(nullif(EXCLUDED.type, ''), entities.type),
        description = coalesce(nullif(EXCLUDED.description, ''), entities.description)"""
_RELATE = """
    INSERT INTO forged.relationships (owner, scope, source_id, target_id, relation_type, weight)
    SELECT %(owner)s, %(scope)s, r.source, r.target, r.relation, r.weight
    FROM unnest(%(sources)s::text[], %(targets)s::text[], %(relations)s::text[], %(weights)s::float4[])
        AS r (source, target, relation, weight)
    ON CONFLICT (owner, scope, source_id, target_id, relation_type) DO UPDATE SET weight = EXCLUDED.weight"""
_LINK = """
    INSERT INTO forged.memory_entities (owner, scope, memory_id, entity_id)
    SELECT %(owner)s, %(scope)s, l.memory, l.entity
    FROM unnest(%(memories)s::text[], %(entities)s::text[]) AS l (memory, entity)
    ON CONFLICT DO NOTHING"""
_ORPHANED = """
    DELETE FROM forged.entities AS e
    WHERE e.owner = %(owner)s AND e.scope = %(scope)s AND e.id = ANY(%(ids)s) AND NOT EXISTS (
        SELECT FROM forged.memory_entities AS l
        WHERE l.owner = %(owner)s AND l.scope = %(scope)s AND l.entity_id = e.id)
    RETURNING e.id"""
_UNRELATED = """
    DELETE FROM forged.relationships
    WHERE owner = %(owner)s AND scope = %(scope)s
    AND (source_id = ANY(%(ids)s) OR target_id = ANY(%(ids)s))"""

# One query: from the named things in ever wider circles, never twice through one thing, to the memories that
# speak of what is reached. `path` holds a thing, how it leads on, the next thing, and so on.
TWO_HOPS = """
    WITH RECURSIVE reached (entity, depth, seen, path) AS (
        SELECT id, 0, ARRAY[id], ARRAY[name] FROM forged.entities
        WHERE owner = %(owner)s AND scope = %(scope)s AND id = ANY(%(start)s)
        UNION ALL
        SELECT step.id, r.depth + 1, r.seen || step.id, r.path || step.told || e.name
        FROM reached AS r CROSS JOIN LATERAL (
            SELECT s.id, (array_agg(s.told ORDER BY s.weight DESC, s.told))[1] AS told FROM (
                SELECT target_id AS id, relation_type AS told, weight FROM forged.relationships
                WHERE owner = %(owner)s AND scope = %(scope)s AND source_id = r.entity
                UNION ALL
                SELECT source_id, '< ' || relation_type, weight FROM forged.relationships
                WHERE owner = %(owner)s AND scope = %(scope)s AND target_id = r.entity
                UNION ALL
                SELECT b.entity_id, 'beside', 0.1 FROM (
                    SELECT memory_id FROM forged.memory_entities
                    WHERE owner = %(owner)s AND scope = %(scope)s AND entity_id = r.entity
                    ORDER BY memory_id LIMIT %(fan)s) AS a
                CROSS JOIN LATERAL (
                    SELECT entity_id FROM forged.memory_entities
                    WHERE owner = %(owner)s AND scope = %(scope)s AND memory_id = a.memory_id
                    LIMIT %(fan)s) AS b
            ) AS s
            WHERE s.id <> ALL(r.seen)
            GROUP BY s.id ORDER BY max(s.weight) DESC, s.id LIMIT %(fan)s) AS step
        JOIN forged.entities AS e ON e.owner = %(owner)s AND e.scope = %(scope)s AND e.id = step.id
        WHERE r.depth < %(depth)s)
    SELECT memory_id, depth, path FROM (
        SELECT DISTINCT ON (l.memory_id) l.memory_id, r.depth, r.path
        FROM reached AS r JOIN forged.memory_entities AS l
            ON l.owner = %(owner)s AND l.scope = %(scope)s AND l.entity_id = r.entity
        ORDER BY l.memory_id, r.depth, r.path) AS found
    ORDER BY depth, memory_id LIMIT %(most)s"""


class Reached(msgspec.Struct, frozen=True):
    """A memory that `depth` steps lead to; `path` is a thing, how it leads on, the next thing, and so on."""

    memory_id: str
    depth: int
    path: tuple[str, ...]


def _spoken(rows: Sequence[Stored]) -> dict[str, Spoken]:
    return {row.id: spoken_by(as_memory(row)) for row in rows}


class Relating:
    """Of one owner, by one connection, within the transaction of whoever calls."""

    def __init__(self, connection: Connection, scope: Scope, owner: str) -> None:
        self._connection = connection
        self._whose: Mapping[str, object] = {"owner": owner, "scope": str(scope)}

    async def put(self, rows: Sequence[Stored]) -> None:
        """Say what these rows speak of, and no longer what they spoke of before."""
        if not rows:
            return
        await self.remove([row.id for row in rows])
        spoken = await asyncio.to_thread(_spoken, rows)
        things = {entity_id(each.name): each for one in spoken.values() for each in one.entities}
        if not things:
            return
        await self._name(things)
        await self._relate([each for one in spoken.values() for each in one.relations], things)
        links = {(row, entity_id(each.name)) for row, one in spoken.items() for each in one.entities}
        memories, entities = zip(*sorted(links), strict=True)
        await self._run(_LINK, memories=list(memories), entities=list(entities))

    async def _name(self, things: Mapping[str, Entity]) -> None:
        named = [things[each] for each in sorted(things)]
        await self._run(
            _NAME,
            ids=sorted(things),
            names=[each.name for each in named],
            types=[each.type for each in named],
            descriptions=[each.description for each in named],
        )

    async def _relate(self, relations: Sequence[Relation], things: Mapping[str, Entity]) -> None:
        ends = {(entity_id(r.source), entity_id(r.target), r.relation): r.weight for r in relations}
        known = sorted(
            (ends_of, weight) for ends_of, weight in ends.items() if {*ends_of[:2]} <= things.keys()
        )
        if known:
            await self._run(
                _RELATE,
                sources=[source for (source, _, _), _ in known],
                targets=[target for (_, target, _), _ in known],
                relations=[relation for (_, _, relation), _ in known],
                weights=[weight for _, weight in known],
            )

    async def remove(self, memories: Sequence[str]) -> None:
        """These memories are gone, and with them what nobody else speaks of."""
        lost = await self._run(_UNLINK, memories=list(memories)) if memories else []
        if lost:
            orphaned = await self._run(_ORPHANED, ids=sorted(set(lost)))
            await self._run(_UNRELATED, ids=orphaned)

    async def _run(self, statement: str, **values: object) -> list[str]:
        cursor = await self._connection.execute(statement, {**self._whose, **values})
        return [str(found[0]) for found in await cursor.fetchall()] if cursor.description else []

    async def reached(self, named: Sequence[str], depth: int = DEEPEST) -> tuple[Reached, ...]:
        """The memories that so many steps lead to from things of these names, the nearest first."""
        values = {
            **self._whose,
            "start": [entity_id(name) for name in named][:_MOST_STARTS],
            "depth": min(depth, DEEPEST),
            "fan": _FAN,
            "most": MOST_FOUND,
        }
        cursor = await self._connection.execute(TWO_HOPS, values)
        return tuple(Reached(str(row[0]), int(row[1]), tuple(row[2])) for row in await cursor.fetchall())
