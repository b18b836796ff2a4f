"""Find entities and relations in a text or memory by rules: names by their form, and a few relations.

Entities are `[[wiki links]]`, paths, installed packages, identifiers, technologies and words in backticks. A
word that may be an ordinary one is no entity. Two entities are related if a sentence has only words of
`relations.toml` between them; near these, a capitalised name counts as well. `mentions_in` raises nothing and
is linear, up to MOST_CHARACTERS.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise

import msgspec

from forged.entities.name_forms import named_by_code, named_by_word
from forged.entities.names import LONGEST_NAME, entity_id
from forged.memory import Entity, EntityRelation, Memory
from forged_client.typed import resolved

MOST_CHARACTERS = 32 << 10
MOST_ENTITIES = 64
MOST_RELATIONS = 64
# Most characters between two related names.
_FARTHEST = 48
_KEPT = 16_384

_FILE = os.path.join(os.path.dirname(__file__), "relations.toml")

# One token: a fence or address, a marked name, or a word.
_TOKEN = re.compile(
    r"(?P<skipped>```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>`]*+|\S{1,64}@[\w.-]+)"
    r"|\[\[(?P<page>[^\[\]|#\n]{1,120})(?:#[^\[\]|\n]{0,120})?(?:\|(?P<alias>[^\[\]\n]{1,120}))?\]\]"
    r"|`(?P<code>[^`\n]{1,120})`"
    r"|(?P<word>[A-Za-z0-9_.~/@$][A-Za-z0-9_./~@+-]{0,119}(?:\(\))?)",
    re.DOTALL,
)
_INSTALL = re.compile(
    r"\b(?:(?:uv )?pip3?|pipx|npm|pnpm|yarn|bun|poetry|uv|cargo|gem|go|brew|apt|apt-get|conda) "
    r"(?:install|add|get|i) (?P<what>[^\n;&|`]{1,200})"
)
_PACKAGE = re.compile(r"@?[A-Za-z][\w.-]*(?:/[\w.-]+)*")
_SENTENCE_BEGINS = re.compile(r"(?:\A|[.!?:;\n][\"')\]]*|^[ \t]*[-*#>]+)\s*\Z", re.MULTILINE)


class Mentions(msgspec.Struct, frozen=True):
    """Entities and relations of a text, each once; `aliases` pairs ids of other names with entity ids."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[EntityRelation, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()


class _NameSpan(msgspec.Struct, frozen=True):
    """Possible name at its place in a text; not `sure` if only its capital shows that it is one."""

    start: int
    end: int
    entity: Entity
    alias: str = ""
    sure: bool = True


@lru_cache(_KEPT)
def mentions_in(text: str) -> Mentions:
    """Return the entities and relations that a text mentions; recent texts are cached."""
    text = text[:MOST_CHARACTERS]
    spans = list(_joined_names(text, _name_spans(text)))
    relations = tuple(dict.fromkeys(_relations(text, spans)))[:MOST_RELATIONS]
    related = {name for each in relations for name in (each.source, each.target)}
    found = dict[str, Entity]()
    aliases = dict[str, str]()
    for each in spans:
        if each.sure or each.entity.name in related:
            found.setdefault(entity_id(each.entity.name), each.entity)
            if each.alias:
                aliases.setdefault(entity_id(each.alias), entity_id(each.entity.name))
    for package in _installed_packages(text):
        found.setdefault(entity_id(package.name), package)
    found.pop("", None)
    aliases.pop("", None)
    return Mentions(tuple(found.values())[:MOST_ENTITIES], relations, tuple(aliases.items())[:MOST_ENTITIES])


# --- names ---------------------------------------------------------------------------------------------


def _name_spans(text: str) -> Iterator[_NameSpan]:
    """Yield possible names in a text in order: words, code in backticks, and wiki pages."""
    for token in _TOKEN.finditer(text):
        kind, said = token.lastgroup, token[0]
        if kind == "word":
            entity, sure = _entity_of_word(text, token.start(), said)
            said = said.rstrip(".,-/") or said
        elif kind == "code":
            entity, sure = named_by_code(token["code"]), True
        elif token["page"]:
            entity, sure = Entity(" ".join(token["page"].split()), "page"), True
        else:
            continue
        if entity is not None and len(entity.name) <= LONGEST_NAME and entity_id(entity.name):
            alias = (token["alias"] or "").strip()
            yield _NameSpan(token.start(), token.start() + len(said), entity, alias, sure)


def _joined_names(text: str, spans: Iterator[_NameSpan]) -> Iterator[_NameSpan]:
    """Yield names, with adjacent capitalised words joined to one: Policy Seven."""
    held: _NameSpan | None = None
    for span in spans:
        if held is not None and not span.sure and not held.sure and text[held.end : span.start] == " ":
            held = _NameSpan(held.start, span.end, Entity(text[held.start : span.end]), sure=False)
            continue
        if held is not None:
            yield held
        held = span
    if held is not None:
        yield held


def _entity_of_word(text: str, start: int, word: str) -> tuple[Entity | None, bool]:
    """Return the entity that a word of prose names, or None, and True if it surely is one."""
    begins = word[:1].isupper() and _SENTENCE_BEGINS.search(text, max(0, start - 24), start) is not None
    if (entity := named_by_word(word, begins=begins)) is not None:
        return entity, True
    bare = word.rstrip(".")
    is_large = (
        bare[:1].isupper() and bare.replace("-", "").isalnum() and bare.lower() not in _capitalised_words()
    )
    return (Entity(bare) if is_large else None), False


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


def _relations(text: str, spans: list[_NameSpan]) -> Iterator[EntityRelation]:
    """Yield relations of neighbouring names with only relation words between them."""
    for one, other in pairwise(spans):
        between = text[one.end : other.start]
        if not 0 < len(between) <= _FARTHEST:
            continue
        says, names = _relation_phrases(), (one.entity.name, other.entity.name)
        found = says.between.fullmatch(between.lower())
        if found is None or entity_id(names[0]) == entity_id(names[1]):
            continue
        phrase = says.phrases[int((found.lastgroup or "w0")[1:])]
        if not ((one.sure and other.sure) or phrase.large):
            continue
        if phrase.behind and not re.match(phrase.behind, text[other.end : other.end + _FARTHEST].lower()):
            continue
        source, target = reversed(names) if phrase.turned else names
        yield EntityRelation(source, phrase.relation, target)


class _RelationPhrase(msgspec.Struct, frozen=True):
    """Words that state a relation: `between` two names, and `behind` the second.

    `turned`: the second name is the source. `large`: a capitalised name may take part.
    """

    relation: str
    between: str
    behind: str = ""
    turned: bool = False
    large: bool = False


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
    fill = "|".join(lists["between"])
    return _RelationPhrases(phrases, re.compile(rf"[\s]?(?:{forms})\s?(?:(?:{fill})\s?)?"))


@cache
def _capitalised_words() -> frozenset[str]:
    """Return words that are capitalised at a sentence's start and are no names."""
    return frozenset(_relation_lists()["no_names"])


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
