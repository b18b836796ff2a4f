"""Find entities and relations in a text or memory by rules: names by their form, and a few relations.

Entities are `[[wiki links]]`, paths, installed packages, identifiers, technologies, words in backticks and
names with a number. A word that may be an ordinary one is no entity. Two entities are related if a sentence
has only words of `relations.toml` between them; near these, a name that only a capital, a hyphen or "team"
shows counts as well. `mentions_in` raises nothing and is linear, up to MOST_CHARACTERS.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise

import msgspec

from forged.entities.name_forms import noun_follows
from forged.entities.name_spans import NameSpan, name_spans, unwrapped
from forged.entities.names import LONGEST_NAME, entity_id, wider_ids
from forged.memory import Entity, EntityRelation, Memory
from forged_client.typed import resolved

MOST_CHARACTERS = 32 << 10
MOST_ENTITIES = 64
MOST_RELATIONS = 64
# Most characters between two related names.
_FARTHEST = 48
_KEPT = 16_384

_FILE = os.path.join(os.path.dirname(__file__), "relations.toml")

_INSTALL = re.compile(
    r"\b(?:(?:uv )?pip3?|pipx|npm|pnpm|yarn|bun|poetry|uv|cargo|gem|go|brew|apt|apt-get|conda) "
    r"(?:install|add|get|i) (?P<what>[^\n;&|`]{1,200})"
)
# Quotes and emphasis around a name.
_MARKS = '["“”„«»*_]{0,3}'
_PACKAGE = re.compile(r"@?[A-Za-z][\w.-]*(?:/[\w.-]+)*")


class Mentions(msgspec.Struct, frozen=True):
    """Entities and relations of a text, each once; `aliases` pairs ids of other names with entity ids."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[EntityRelation, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()

    @property
    def wider_names(self) -> Iterator[tuple[str, str]]:
        """Pairs of a wider id and the id of an entity with a number in its name, as of Java and Java 21."""
        for each in self.entities:
            for wider in wider_ids(each.name):
                yield wider, entity_id(each.name)


@lru_cache(_KEPT)
def mentions_in(text: str) -> Mentions:
    """Return the entities and relations that a text mentions; recent texts are cached."""
    text = unwrapped(text[:MOST_CHARACTERS])
    spans = name_spans(text)
    relations = tuple(dict.fromkeys(_relations(text, spans)))[:MOST_RELATIONS]
    related = {name for each in relations for name in (each.source, each.target)}
    found = dict[str, Entity]()
    aliases = dict[str, str]()
    for each in spans:
        entity = each.entity if each.sure or each.entity.name in related else each.inside
        if entity is not None:
            found.setdefault(entity_id(entity.name), entity)
            if each.alias:
                aliases.setdefault(entity_id(each.alias), entity_id(entity.name))
    for package in _installed_packages(text):
        found.setdefault(entity_id(package.name), package)
    found.pop("", None)
    aliases.pop("", None)
    return Mentions(tuple(found.values())[:MOST_ENTITIES], relations, tuple(aliases.items())[:MOST_ENTITIES])


def _installed_packages(text: str) -> Iterator[Entity]:
    """Yield packages of install commands: all if the command is marked as code, else the first."""
    for found in _INSTALL.finditer(text):
        is_code = text[max(0, found.start() - 2) : found.start()].rstrip(" ")[-1:] in {"`", "$"}
        names = [word.strip("'\"") for word in found["what"].split() if not word.startswith("-")]
        for name in names if is_code else names[:1]:
            package = _PACKAGE.match(name)
            if package is not None and package[0].rstrip(".") not in {"and", "the", "a"}:
                yield Entity(package[0].rstrip("."), "package")


# --- relations -----------------------------------------------------------------------------------------


def _relations(text: str, spans: Sequence[NameSpan]) -> Iterator[EntityRelation]:
    """Yield relations of neighbouring names with only relation words between them."""
    for one, other in pairwise(spans):
        between = text[one.end : other.start]
        if not 0 < len(between) <= _FARTHEST:
            continue
        says, names = _relation_phrases(), (one.entity.name, other.entity.name)
        found = says.between.fullmatch(between.lower())
        if found is None or len({*map(entity_id, names)} - {""}) < len(names):
            continue
        phrase = says.phrases[int((found.lastgroup or "w0")[1:])]
        if (one.large or other.large) and not phrase.large:
            continue
        if (one.small or other.small) and phrase.hyphens:
            continue
        if (other.small or between.endswith((" a ", " an "))) and noun_follows(text, other.end):
            continue
        if phrase.behind and not re.match(phrase.behind, text[other.end : other.end + _FARTHEST].lower()):
            continue
        source, target = reversed(names) if phrase.turned else names
        yield EntityRelation(source, phrase.relation, target)


class _RelationPhrase(msgspec.Struct, frozen=True):
    """Words that state a relation: `between` two names, and `behind` the second.

    `turned`: the second name is the source. `large`: a capitalised name may take part. `hyphens`: no word in
    small letters with a hyphen may, as ordinary ones have some.
    """

    relation: str
    between: str
    behind: str = ""
    turned: bool = False
    large: bool = False
    hyphens: bool = False


class _RelationPhrases(msgspec.Struct, frozen=True):
    """All phrases of relations.toml, and the pattern that finds one of them."""

    phrases: tuple[_RelationPhrase, ...]
    between: re.Pattern[str]


@cache
def _relation_phrases() -> _RelationPhrases:
    """Return the phrases of relations.toml, read once."""
    lists = _relation_lists()
    phrases = tuple(msgspec.convert(each, resolved(_RelationPhrase)) for each in lists["way"])
    forms = "|".join(f"(?P<w{number}>{phrase.between})" for number, phrase in enumerate(phrases))
    before, fill = "|".join(lists["before"]), "|".join(lists["between"])
    pattern = rf"{_MARKS}\s?(?:(?:{before})\s)?(?:{forms})\s?(?:(?:{fill})\s?)?{_MARKS}"
    return _RelationPhrases(phrases, re.compile(pattern))


@cache
def _relation_lists() -> dict[str, list[str]]:
    """Return the lists of relations.toml, read once."""
    with open(_FILE, "rb") as file:
        return tomllib.load(file)


def mentions_of(memory: Memory) -> Mentions:
    """Return the entities and relations of a memory: those of its front matter, then those in its text."""
    ruled = mentions_in(memory.content)
    if not memory.entities and not memory.relations:
        return ruled
    relations = _unique_relations((*memory.relations[:MOST_RELATIONS], *ruled.relations))
    ends = [Entity(name) for each in relations for name in (each.source, each.target)]
    entities = dict[str, Entity]()
    for each in (*memory.entities[:MOST_ENTITIES], *ruled.entities, *ends):
        key = entity_id(each.name)
        if key and len(each.name) <= LONGEST_NAME:
            there = entities.get(key)
            entities[key] = each if there is None or (each.type and not there.type) else there
    return Mentions(tuple(entities.values())[:MOST_ENTITIES], relations, ruled.aliases)


def _unique_relations(relations: tuple[EntityRelation, ...]) -> tuple[EntityRelation, ...]:
    """Return valid relations of two different entities, each once with its first weight."""
    found = dict[tuple[str, str, str], EntityRelation]()
    for each in relations:
        key = entity_id(each.source), each.relation.casefold(), entity_id(each.target)
        if all(key) and key[0] != key[2] and max(map(len, (each.source, each.target))) <= LONGEST_NAME:
            found.setdefault(key, each)
    return tuple(found.values())[:MOST_RELATIONS]
