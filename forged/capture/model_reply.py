"""Read proposals from a classifier model's reply, and the entities of a text.

Models add fences, explanations, wrappers, thoughts and trailing commas, and stop in the middle. So JSON is
decoded from every bracket on until an array of memories is found; a pattern would fail on brackets in
strings. Objects of a broken array are read one by one. A reply that keeps nothing must say so in JSON.
Length, depth and attempts are bounded, as the reply is untrusted. Raises nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from forged.capture.values import MAX_CONTENT_BYTES, MOST_DOCUMENTS, Classified, Proposal
from forged.entities import LONGEST_NAME, entity_id, mentions_in
from forged.memory import Entity, EntityRelation, Related
from forged.models import sendable
from forged.text.think_blocks import without_thoughts

MOST_ENTITIES = 16
_LONGEST_TEXT = 300
_ARROW = re.compile(r"\s*(?:->|→|-->|=>|\|)\s*")
_WITH_TYPE = re.compile(r"(?P<name>[^()]+?)\s*\((?P<type>[\w -]{1,40})\)")
_VERB = re.compile(r"[\s_]+")
# Names that models use for the fields of a relation.
_SOURCES, _TARGETS = ("source", "subject", "from", "head"), ("target", "object", "to", "tail")
_VERBS = ("relation", "predicate", "relationship", "type", "verb")
_MOST_EDGES = 32
_MOST_LINES = 8
# Ten memories of the greatest size take 80 KiB; text beyond this limit is not read.
_MOST_CHARACTERS = 512 << 10
_MOST_FAILURES = 100
_MOST_READ_IN_VAIN = 4 * _MOST_CHARACTERS
_DEEPEST = 8

_DECODER = json.JSONDecoder(strict=False)  # models put line breaks into strings
# Places where JSON may begin, except links and checkboxes; a run of brackets is one place.
_OPENING = re.compile(r'\[+(?=\s*["\[\]{\dntfNI-])|\{(?=\s*["}])')
# A reply that is an empty array; in prose, `[ ]` is a checkbox.
_NOTHING = re.compile(r"\s*(?:```(?:json)?\s*)?(?:\[\s*\]|\{\s*\}|null)\s*(?:```\s*)?", re.IGNORECASE)
_CHECKBOX = "[ ]"
_BEGUN_MEMORY = re.compile(r'\{\s*"(?:content|scope|category|supersedes|related)"\s*:')
# A string, closed or not, or a comma before a closing bracket. Possessive, hence linear.
_STRING_OR_LOOSE_COMMA = re.compile(r'"(?>(?:[^"\\]++|\\.?)*)(?:"|\Z)|,(?=\s*+[\]}])', re.DOTALL)
_JSON_BEGINS = ("[", "{", "`")
# Fields of a memory; a link has none of them.
_FIELDS = frozenset({"content", "scope", "category"})


def read(text: str) -> Classified:
    """Read up to 10 proposals of up to 8 KiB from a model's reply, also from damaged JSON. Raises nothing."""
    answer = _without_thinking(text)[:_MOST_CHARACTERS]
    reply = _read_text(answer)
    if reply.proposals and not reply.malformed:
        return reply
    mended = _without_loose_commas(answer)
    better = _read_text(mended) if len(mended) < len(answer) else reply
    return better if len(better.proposals) > len(reply.proposals) else reply


def begins_with_json(text: str) -> bool:
    """Return True if a reply begins with JSON after its thoughts, so it was not cut inside a thought."""
    return _without_thinking(text).lstrip()[:1] in _JSON_BEGINS


def _read_text(text: str) -> Classified:
    """Read the proposals of a text without repairing it, and count malformed ones."""
    elements, broken, is_nothing = _elements(text)
    read_proposals = [_read_proposal(element) for element in elements]
    proposals = tuple(proposal for proposal in read_proposals if proposal is not None)
    is_nothing = is_nothing or _NOTHING.fullmatch(text) is not None
    malformed = broken + len(read_proposals) - len(proposals)
    return Classified(
        proposals[:MOST_DOCUMENTS], malformed=malformed, is_answer=bool(proposals) or is_nothing
    )


def _without_thinking(text: str) -> str:
    """Return a reply without thoughts, unless it begins with JSON, which may mention think tags."""
    return text if text.lstrip()[:1] in _JSON_BEGINS else without_thoughts(text)


def _without_loose_commas(text: str) -> str:
    """Return a text without commas before closing brackets."""
    first = _OPENING.search(text)
    at = first.start() if first else len(text)  # in prose, quotes need not come in pairs
    return text[:at] + _STRING_OR_LOOSE_COMMA.sub(lambda m: "" if m[0] == "," else m[0], text[at:])


def _elements(text: str) -> tuple[list[object], int, bool]:
    """Find the memories in a reply's JSON; return them, a count of broken ones, True for an empty array."""
    alone: list[object] = []  # memories outside an array, or in a broken one
    others: list[object] = []
    broken = 0
    for value in _values(text):
        if value is None:
            broken += 1
        elif _is_memory(value):
            alone.append(value)
        elif (array := _array(value)) is not None:
            # After a broken element, an array is part of it, unless it holds memories.
            if not alone and (not broken or any(map(_is_memory, array))):
                return array, broken, not array
        elif isinstance(value, list) and any(isinstance(item, str) for item in value):
            others = others or value
    return (alone, broken, False) if alone or broken else (others, 0, False)


def _values(text: str) -> Iterator[object]:
    """Yield the outermost JSON arrays and objects of a text, and None for a broken memory."""
    at = failures = in_vain = 0
    while failures < _MOST_FAILURES and in_vain < _MOST_READ_IN_VAIN:
        opening = _OPENING.search(text, at)
        if opening is None:
            return
        at = opening.start()
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:  # not JSON, a number too long, or nested too deep
            failures += 1
            in_vain += getattr(error, "pos", at) - at
            if _BEGUN_MEMORY.match(text, at):
                yield None
            at = opening.end()
        else:
            if text[opening.start() : at] != _CHECKBOX:
                yield value


def _array(value: object, depth: int = 0) -> list[object] | None:
    """Return the array of objects that a value is or wraps, or None; a filled one is preferred."""
    if isinstance(value, list) and (not value or any(isinstance(item, dict) for item in value)):
        return value
    if _is_memory(value):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if depth == _DEEPEST:
        return None
    found = (_array(item, depth + 1) for item in inner)
    return max((array for array in found if array is not None), key=bool, default=None)


def _is_memory(value: object) -> bool:
    """Return True for a JSON object with a field of a memory."""
    return isinstance(value, dict) and not _FIELDS.isdisjoint(value)


def _read_proposal(element: object) -> Proposal | None:
    """Return the proposal in a JSON value, or None if it is malformed."""
    if not isinstance(element, dict):
        return None
    content, scope, category = (_text(element.get(name)) for name in ("content", "scope", "category"))
    if not content or scope is None or category is None:
        return None
    if len(content.encode()) > MAX_CONTENT_BYTES:
        return None
    return Proposal(
        content=content,
        scope=scope.lower(),
        category=_hyphenated(category),
        supersedes=_id(element.get("supersedes")),
        related=_edges(element.get("related")),
        cues=_lines(element.get("cues")),
        evidence=_lines(element.get("evidence")),
        entities=entities_in(element.get("entities")),
        relations=relations_in(element.get("relations")),
        importance=_unit_number(element.get("importance")),
    )


def _lines(value: object) -> tuple[str, ...]:
    """Return the filled texts of a JSON list, at most eight; nothing for another type."""
    found = (_text(item) for item in value[:_MOST_LINES]) if isinstance(value, list) else ()
    return tuple(line for line in found if line)


def _unit_number(value: object) -> float | None:
    """Return a JSON number clamped to the range 0 to 1; None for another type or NaN."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    return float(min(max(value, 0), 1))


def _text(value: object) -> str | None:
    """Return a JSON field's text, valid and stripped; "" if it is missing, None for another type."""
    if value is None:
        return ""
    return sendable(value).strip() if isinstance(value, str) else None


def _hyphenated(text: str) -> str:
    """Return a text in lower case, with hyphens in place of underscores and blanks."""
    return text.lower().replace("_", "-").replace(" ", "-")


def _id(value: object) -> str:
    """Return an id without brackets, which some models copy from the prompt."""
    return (_text(value) or "").removeprefix("[").removesuffix("]")


def _edges(value: object) -> tuple[Related, ...]:
    """Return the links of a JSON list that have an id and a relationship, up to a limit."""
    edges = (_edge(item) for item in value[:_MOST_EDGES]) if isinstance(value, list) else ()
    return tuple(edge for edge in edges if edge.id and edge.relationship)


def _edge(item: object) -> Related:
    """Return the link of an object, with empty fields if it is invalid."""
    fields: Mapping[str, object] = item if isinstance(item, dict) else {}
    return Related(_id(fields.get("id")), _hyphenated(_text(fields.get("relationship")) or ""))


def entities_in(value: object) -> tuple[Entity, ...]:
    """Return the entities in a JSON list of names, names with a (type), or objects; skip the rest."""
    found = map(_entity, value[: 4 * MOST_ENTITIES] if isinstance(value, list) else ())
    return tuple(each for each in found if each is not None)[:MOST_ENTITIES]


def _entity(item: object) -> Entity | None:
    """Return the entity in a name or a JSON object, or None if it is malformed."""
    fields: Mapping[str, object] = item if isinstance(item, dict) else {"name": item}
    name, kind, description = (_single_line(fields.get(key)) for key in ("name", "type", "description"))
    if not kind and (typed := _WITH_TYPE.fullmatch(name)):
        name, kind = typed["name"], typed["type"]
    is_one = entity_id(name) and len(name) <= LONGEST_NAME
    return Entity(name, kind[:40].lower(), description[:_LONGEST_TEXT]) if is_one else None


def relations_in(value: object) -> tuple[EntityRelation, ...]:
    """Return the relations in a JSON list of texts with arrows, lists or objects; skip others."""
    found = map(_relation, value[: 4 * MOST_ENTITIES] if isinstance(value, list) else ())
    return tuple(each for each in found if each is not None)[:MOST_ENTITIES]


def _relation(item: object) -> EntityRelation | None:
    """Return the relation in a text, list or object; None if malformed, too long or of one entity."""
    source, verb, target = _triple(item)
    verb = _VERB.sub("-", verb.strip(" -:").lower())
    short = max(map(len, (source, verb, target))) <= LONGEST_NAME
    if not (short and verb and entity_id(source) and entity_id(target)):
        return None
    return None if entity_id(source) == entity_id(target) else EntityRelation(source, verb, target)


def _triple(item: object) -> tuple[str, str, str]:
    """Return source, verb and target of a relation in any form; empty texts for another form."""
    if isinstance(item, str):
        item = _ARROW.split(item.strip()[: 4 * LONGEST_NAME])
    if isinstance(item, dict):
        item = [_first(item, keys) for keys in (_SOURCES, _VERBS, _TARGETS)]
    if not isinstance(item, list) or len(item) != 3:
        return "", "", ""
    source, verb, target = map(_single_line, item)
    return source, verb, target


def _first(fields: Mapping[str, object], keys: Sequence[str]) -> object:
    """Return the value of the first of `keys` that exists, or None."""
    return next((fields[key] for key in keys if key in fields), None)


def _single_line(value: object) -> str:
    """Return a JSON value's text in one line of at most 300 characters, "" for another type."""
    return " ".join(sendable(value[:_LONGEST_TEXT]).split()) if isinstance(value, str) else ""


def mentioned_entities(
    entities: Sequence[Entity],
    relations: Sequence[EntityRelation],
    content: str,
    presentable: Callable[[str], str],
) -> tuple[tuple[Entity, ...], tuple[EntityRelation, ...]]:
    """Return those entities and relations whose names a memory's text contains, each once.

    A name must pass `presentable` unchanged. A model invents names, or copies one from a text that it reads.
    """
    folded, ruled = content.casefold(), {entity_id(each.name) for each in mentions_in(content).entities}

    def is_mentioned(name: str) -> bool:
        return (name.casefold() in folded or entity_id(name) in ruled) and presentable(name) == name

    named, related = dict[str, Entity](), dict[tuple[str, str, str], EntityRelation]()
    for entity in filter(lambda each: is_mentioned(each.name), entities):
        fields = Entity(entity.name, presentable(entity.type), presentable(entity.description))
        named.setdefault(entity_id(entity.name), fields)
    for each in relations:
        is_clean = presentable(each.relation) == each.relation
        if is_clean and is_mentioned(each.source) and is_mentioned(each.target):
            related.setdefault((entity_id(each.source), each.relation, entity_id(each.target)), each)
    return tuple(named.values()), tuple(related.values())
