"""What memories speak of, as far as it joins anything: pure functions over records of the wire.

A thing is one over all roots, by the id of its name. Only what two memories speak of, or what is related to
another thing, joins anything; superseded versions count for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from forged.entities import entity_id
from forged_client.protocol import MemoryRecord

# Of a memory: its root and its id.
Key = tuple[str, str]


class Thing(msgspec.Struct, frozen=True):
    """Something by the name that it has first, and the memories that speak of it."""

    name: str
    memories: tuple[Key, ...] = ()


class Tie(msgspec.Struct, frozen=True):
    """How two things are related, each by its place among them."""

    source: int
    target: int
    relation: str


class Things(msgspec.Struct, frozen=True):
    things: tuple[Thing, ...] = ()
    ties: tuple[Tie, ...] = ()


def things_of(memories: Iterable[MemoryRecord]) -> Things:
    """What the newest versions speak of, in the order of root, time and id."""
    names, speaking = dict[str, str](), defaultdict[str, list[Key]](list)
    ties = dict[tuple[str, str, str], None]()
    for memory in sorted(memories, key=lambda each: (each.root, each.created_at, each.id)):
        if not memory.is_head:
            continue
        for thing, name in _once(memory.entities).items():
            names.setdefault(thing, name)
            speaking[thing].append((memory.root, memory.id))
        for each in memory.relations:
            ties.setdefault((entity_id(each.source), entity_id(each.target), each.relation))
    related = {thing for source, target, _ in ties for thing in (source, target)}
    joining = [thing for thing in names if thing in related or len(speaking[thing]) > 1]
    places = {thing: place for place, thing in enumerate(joining)}
    return Things(
        tuple(Thing(names[thing], tuple(speaking[thing])) for thing in joining),
        tuple(
            Tie(places[one], places[other], how)
            for one, other, how in ties
            if one in places and other in places
        ),
    )


def _once(names: Iterable[str]) -> dict[str, str]:
    found = dict[str, str]()
    for name in names:
        if thing := entity_id(name):
            found.setdefault(thing, name)
    return found
