"""Graph of the entities of memories; a value, made once for the memories of a root.

Pure. Callers with many memories make it in a thread: 5,000 of them take half a second, and recent texts are
cached.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from forged.entities.mentions import Mentions, mentions_of
from forged.entities.names import entity_id
from forged.memory import Entity, Memory

_T = TypeVar("_T")


class RelationEnd(msgspec.Struct, frozen=True):
    """Relation seen from one of its ends; `turned`: from its target. The memory `memory_id` states it."""

    relation: str
    other: str
    weight: float
    turned: bool
    memory_id: str


class EntityGraph(msgspec.Struct, frozen=True, eq=False):
    """Tables of one root's entities by id: names, aliases, relations, and memories that mention them.

    `names` has each entity as the newest memory names it, `aliases` those that another or wider name means,
    newest first. `mentioned_by` has the ids of memories that mention an entity, newest first. `mentions` has
    the entities of a memory, `relations` those of an entity. `linked` has the memories that a memory links to
    or is linked from.
    """

    names: Mapping[str, Entity]
    aliases: Mapping[str, tuple[str, ...]]
    mentioned_by: Mapping[str, tuple[str, ...]]
    mentions: Mapping[str, tuple[str, ...]]
    relations: Mapping[str, tuple[RelationEnd, ...]]
    linked: Mapping[str, tuple[str, ...]]


def graph_of(memories: Iterable[Memory]) -> EntityGraph:
    """Make the graph of the entities in these memories, which must not include replaced ones."""
    newest_first = sorted(memories, key=lambda each: (each.created_at, each.id), reverse=True)
    by_memory = {each.id: mentions_of(each) for each in newest_first}
    names, aliases = dict[str, Entity](), defaultdict[str, dict[str, None]](dict)
    mentions = {memory_id: dict.fromkeys(_entity_ids(each)) for memory_id, each in by_memory.items()}
    mentioned_by, relations = defaultdict[str, list[str]](list), defaultdict[str, list[RelationEnd]](list)
    for memory_id, each in by_memory.items():
        for key, entity in zip(_entity_ids(each), each.entities, strict=True):
            names.setdefault(key, entity)
        for key, thing in (*each.aliases, *each.wider_names):
            aliases[key][thing] = None
        for key in mentions[memory_id]:
            mentioned_by[key].append(memory_id)
        for key, end in _relation_ends(memory_id, each):
            relations[key].append(end)
    return EntityGraph(
        names,
        _as_tuples(aliases),
        _as_tuples(mentioned_by),
        _as_tuples(mentions),
        _as_tuples(relations),
        _as_tuples(_linked_memories(newest_first)),
    )


def _entity_ids(mentioned: Mentions) -> list[str]:
    """Return the ids of the entities that a text mentions, in order."""
    return [entity_id(each.name) for each in mentioned.entities]


def _relation_ends(memory_id: str, mentioned: Mentions) -> Iterable[tuple[str, RelationEnd]]:
    """Yield each relation twice: with the id of its source, and with that of its target."""
    for each in mentioned.relations:
        source, target = entity_id(each.source), entity_id(each.target)
        yield source, RelationEnd(each.relation, target, each.weight, False, memory_id)
        yield target, RelationEnd(each.relation, source, each.weight, True, memory_id)


def _linked_memories(memories: Iterable[Memory]) -> Mapping[str, list[str]]:
    """Return the ids of memories linked with each memory, in both directions."""
    linked = defaultdict[str, list[str]](list)
    for memory in memories:
        for edge in memory.related:
            linked[memory.id].append(edge.id)
            linked[edge.id].append(memory.id)
    return linked


def _as_tuples(lists: Mapping[str, Iterable[_T]]) -> dict[str, tuple[_T, ...]]:
    """Return the lists of a mapping as tuples."""
    return {key: tuple(found) for key, found in lists.items()}
