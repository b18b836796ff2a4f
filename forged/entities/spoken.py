"""What a memory speaks of: what its front matter says, then what rules find in its text, each thing once."""

from __future__ import annotations

from forged.entities.names import LONGEST_NAME, entity_id
from forged.entities.rules import MOST_ENTITIES, MOST_RELATIONS, Mentions, spoken_of
from forged.memory import Entity, Memory, Relation


def spoken_by(memory: Memory) -> Mentions:
    """Entities, relations and other names; both ends of a relation are among the entities.

    What a person or a model wrote into the front matter comes first and wins where both say something.
    """
    ruled = spoken_of(memory.content)
    if not memory.entities and not memory.relations:
        return ruled
    relations = _each_once((*memory.relations[:MOST_RELATIONS], *ruled.relations))
    ends = [Entity(name) for each in relations for name in (each.source, each.target)]
    entities = dict[str, Entity]()
    for each in (*memory.entities[:MOST_ENTITIES], *ruled.entities, *ends):
        key = entity_id(each.name)
        if key and len(each.name) <= LONGEST_NAME:
            there = entities.get(key)
            entities[key] = each if there is None or (each.type and not there.type) else there
    return Mentions(tuple(entities.values())[:MOST_ENTITIES], relations, ruled.aliases)


def _each_once(relations: tuple[Relation, ...]) -> tuple[Relation, ...]:
    """A triple of source, relation and target stands once, with the weight that it has first."""
    found = dict[tuple[str, str, str], Relation]()
    for each in relations:
        key = entity_id(each.source), each.relation.casefold(), entity_id(each.target)
        if all(key) and key[0] != key[2] and max(map(len, (each.source, each.target))) <= LONGEST_NAME:
            found.setdefault(key, each)
    return tuple(found.values())[:MOST_RELATIONS]
