"""Memories as a graph of what they speak of: values, made once for the memories of a root.

Pure, and made in a thread by who has many memories: 5,000 of them take half a second, and what was read
lately is not read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from forged.entities.names import entity_id
from forged.entities.rules import Mentions, spoken_by
from forged.memory import Entity, Memory

_T = TypeVar("_T")


class Tie(msgspec.Struct, frozen=True):
    """A relation seen from one of its ends; `turned`: from its target. The memory `memory_id` tells of it."""

    relation: str
    other: str
    weight: float
    turned: bool
    memory_id: str


class EntityGraph(msgspec.Struct, frozen=True, eq=False):
    """What the memories of one root speak of; things go by the ids of their names.

    `names` has each thing as the newest memory names it, `aliases` the ids of other names; `speaking` are the
    ids of memories that speak of a thing, newest first, `said` the things of a memory, `ties` the relations
    of a thing, and `linked` the memories that a memory's links lead to, or come from.
    """

    names: Mapping[str, Entity]
    aliases: Mapping[str, str]
    speaking: Mapping[str, tuple[str, ...]]
    said: Mapping[str, tuple[str, ...]]
    ties: Mapping[str, tuple[Tie, ...]]
    linked: Mapping[str, tuple[str, ...]]


def graph_of(memories: Iterable[Memory]) -> EntityGraph:
    """The graph of these memories; those that were replaced are not to be among them."""
    newest_first = sorted(memories, key=lambda each: (each.created_at, each.id), reverse=True)
    spoken = {each.id: spoken_by(each) for each in newest_first}
    names, aliases = dict[str, Entity](), dict[str, str]()
    said = {memory_id: dict.fromkeys(_ids(each)) for memory_id, each in spoken.items()}
    speaking, ties = defaultdict[str, list[str]](list), defaultdict[str, list[Tie]](list)
    for memory_id, each in spoken.items():
        for key, entity in zip(_ids(each), each.entities, strict=True):
            names.setdefault(key, entity)
        for key, thing in each.aliases:
            aliases.setdefault(key, thing)
        for key in said[memory_id]:
            speaking[key].append(memory_id)
        for key, tie in _ties(memory_id, each):
            ties[key].append(tie)
    return EntityGraph(
        names,
        aliases,
        _frozen(speaking),
        _frozen(said),
        _frozen(ties),
        _frozen(_linked(newest_first)),
    )


def _ids(spoken: Mentions) -> list[str]:
    return [entity_id(each.name) for each in spoken.entities]


def _ties(memory_id: str, spoken: Mentions) -> Iterable[tuple[str, Tie]]:
    """Each relation from both of its ends."""
    for each in spoken.relations:
        source, target = entity_id(each.source), entity_id(each.target)
        yield source, Tie(each.relation, target, each.weight, False, memory_id)
        yield target, Tie(each.relation, source, each.weight, True, memory_id)


def _linked(memories: Iterable[Memory]) -> Mapping[str, list[str]]:
    linked = defaultdict[str, list[str]](list)
    for memory in memories:
        for edge in memory.related:
            linked[memory.id].append(edge.id)
            linked[edge.id].append(memory.id)
    return linked


def _frozen(lists: Mapping[str, Iterable[_T]]) -> dict[str, tuple[_T, ...]]:
    return {key: tuple(found) for key, found in lists.items()}
