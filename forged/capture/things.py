"""What a classifier says a memory speaks of: read in any shape, and kept as far as it was said.

A model invents names, and a text that it read may want it to. So a thing is kept only if its name stands in
the text of the memory, a relation only if both of its ends do, and of either no more than a few. What is read
may be anything, and nothing is raised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from forged.entities import LONGEST_NAME, entity_id, spoken_of
from forged.memory import Entity, Relation
from forged.models import sendable

MOST_THINGS = 16
_LONGEST_TEXT = 300
_ARROW = re.compile(r"\s*(?:->|→|-->|=>|\|)\s*")
_WITH_TYPE = re.compile(r"(?P<name>[^()]+?)\s*\((?P<type>[\w -]{1,40})\)")
_VERB = re.compile(r"[\s_]+")
# How models name the fields of a triple.
_SOURCES, _TARGETS = ("source", "subject", "from", "head"), ("target", "object", "to", "tail")
_VERBS = ("relation", "predicate", "relationship", "type", "verb")


def entities_in(value: object) -> tuple[Entity, ...]:
    """Names, alone or with a type in brackets, or objects; whatever else is left out."""
    found = map(_entity, value[: 4 * MOST_THINGS] if isinstance(value, list) else ())
    return tuple(each for each in found if each is not None)[:MOST_THINGS]


def _entity(item: object) -> Entity | None:
    fields: Mapping[str, object] = item if isinstance(item, dict) else {"name": item}
    name, kind, told = (_line(fields.get(key)) for key in ("name", "type", "description"))
    if not kind and (typed := _WITH_TYPE.fullmatch(name)):
        name, kind = typed["name"], typed["type"]
    is_one = entity_id(name) and len(name) <= LONGEST_NAME
    return Entity(name, kind[:40].lower(), told[:_LONGEST_TEXT]) if is_one else None


def relations_in(value: object) -> tuple[Relation, ...]:
    """Triples as text with arrows, as lists or as objects; whatever else is left out."""
    found = map(_relation, value[: 4 * MOST_THINGS] if isinstance(value, list) else ())
    return tuple(each for each in found if each is not None)[:MOST_THINGS]


def _relation(item: object) -> Relation | None:
    source, verb, target = _triple(item)
    verb = _VERB.sub("-", verb.strip(" -:").lower())
    short = max(map(len, (source, verb, target))) <= LONGEST_NAME
    if not (short and verb and entity_id(source) and entity_id(target)):
        return None
    return None if entity_id(source) == entity_id(target) else Relation(source, verb, target)


def _triple(item: object) -> tuple[str, str, str]:
    if isinstance(item, str):
        item = _ARROW.split(item.strip()[: 4 * LONGEST_NAME])
    if isinstance(item, dict):
        item = [_first(item, keys) for keys in (_SOURCES, _VERBS, _TARGETS)]
    if not isinstance(item, list) or len(item) != 3:
        return "", "", ""
    source, verb, target = map(_line, item)
    return source, verb, target


def _first(fields: Mapping[str, object], keys: Sequence[str]) -> object:
    return next((fields[key] for key in keys if key in fields), None)


def _line(value: object) -> str:
    return " ".join(sendable(value[:_LONGEST_TEXT]).split()) if isinstance(value, str) else ""


def said_things(
    entities: Sequence[Entity],
    relations: Sequence[Relation],
    content: str,
    presentable: Callable[[str], str],
) -> tuple[tuple[Entity, ...], tuple[Relation, ...]]:
    """Those whose names stand in a memory's text, each once, if `presentable` leaves them as they are."""
    folded, ruled = content.casefold(), {entity_id(each.name) for each in spoken_of(content).entities}

    def is_said(name: str) -> bool:
        return (name.casefold() in folded or entity_id(name) in ruled) and presentable(name) == name

    things, ties = dict[str, Entity](), dict[tuple[str, str, str], Relation]()
    for each in filter(lambda thing: is_said(thing.name), entities):
        kept = Entity(each.name, presentable(each.type), presentable(each.description))
        things.setdefault(entity_id(each.name), kept)
    for tie in relations:
        if is_said(tie.source) and is_said(tie.target) and presentable(tie.relation) == tie.relation:
            ties.setdefault((entity_id(tie.source), tie.relation, entity_id(tie.target)), tie)
    return tuple(things.values()), tuple(ties.values())
