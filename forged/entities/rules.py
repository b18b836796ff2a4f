"""What a text speaks of, by rules that need no model: names that their form gives away, and few relations.

Named are `[[wiki links]]`, paths, packages (where one is installed), identifiers, technologies, and other
single words in backticks. Precision comes before recall: a word that could be an ordinary one names nothing.
Two things are related where a sentence puts nothing between them but words that say how ("depends on", "is
replaced by"): the words stand in `relations.toml`, in seven languages. Around such words a name that is
only written large counts as well.

`spoken_of` takes any text, raises nothing, and its time is linear: it reads at most MOST_CHARACTERS, and
gives at most MOST_ENTITIES and MOST_RELATIONS.

Whether a single word is a name by its form: a path, a file, an identifier, a technology.
`named_by_word` judges a word of prose, which must be one beyond doubt; `named_by_code` what stands between
backticks, where whoever wrote it has said that it is no ordinary word. Pure, and linear in the word.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise

import msgspec

from forged.entities.names import LONGEST_NAME, entity_id, technology
from forged.memory import Entity, Relation
from forged.text.word_lists import words

# Without `log`: who writes `console.log` means no file.
_EXTENSIONS = (
    "bash|bat|bazel|bzl|c|cc|cfg|clj|conf|cpp|cs|css|csv|dart|db|diff|erl|ex|exs|go|gql|gradle|graphql|h|hcl|"
    "hpp|hs|html|ini|ipynb|java|jl|js|json|jsonl|jsx|kt|less|lock|lua|md|mdx|mjs|ml|mod|parquet|patch|php|pl|"
    "plist|proto|ps1|py|pyi|r|rb|rs|rst|sass|scala|scss|service|sh|snap|socket|sql|sqlite|sum|svelte|svg|swift|"
    "tf|tfvars|toml|ts|tsv|tsx|txt|vue|xml|yaml|yml|zig|zsh"
)
_FILE_NAME = re.compile(rf"\.?[A-Za-z0-9_][\w.-]*\.(?:{_EXTENSIONS})", re.ASCII)
_PLAIN_FILES = frozenset(
    ("Makefile", "Dockerfile", "Justfile", "Rakefile", "Gemfile", "Procfile", "CODEOWNERS")
)
_DOT_FILE = re.compile(r"\.[a-z][a-z_-]*(?:rc|ignore|env|config|attributes)|\.env(?:\.\w+)*", re.ASCII)
_PARTS = r"(?:[\w.@+-]+/)*[\w.@+-]+/?"
_ROOTED = re.compile(rf"(?:~|\.{{1,2}})/{_PARTS}|/(?:[\w.@+-]+/)+[\w.@+-]+/?", re.ASCII)
_PATH_WITH_FILE = re.compile(rf"(?:[\w.@+-]+/)+{_FILE_NAME.pattern}", re.ASCII)
_FOLDER = re.compile(r"(?:[a-z_.][a-z0-9_.-]*/)+", re.ASCII)
_ANY_PATH = re.compile(r"[~.]{0,2}/?(?:[\w.@+*-]+/)+[\w.@+*-]*|/[\w.@+*-]+", re.ASCII)
_MEDIA = re.compile(r"(?:application|audio|font|image|multipart|text|video)/[\w.+*-]+", re.ASCII)
_SCOPED = re.compile(r"@[a-z0-9][\w.-]*/[\w.-]+", re.ASCII)

_SNAKE = re.compile(r"_{0,2}[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+_{0,2}", re.ASCII)
_LOWER_HUMP = re.compile(r"[a-z]{2,}[A-Z]\w*", re.ASCII)
_UPPER_HUMP = re.compile(r"(?:[A-Z][a-z0-9]+){2,}[A-Z]*|[A-Z][a-z0-9]+[A-Z]{2,}[a-z0-9]*", re.ASCII)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)
_SIGIL = re.compile(r"\$\{?([A-Za-z_]\w*)\}?", re.ASCII)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[.-][A-Za-z0-9]+)*", re.ASCII)
_RELEASE = re.compile(r"v?\d+(?:\.\d+)*", re.ASCII)
# Units and titles with a hump.
_NO_HUMPS = frozenset(
    ("GiB", "KiB", "MiB", "TiB", "PhD", "MSc", "BSc", "kHz", "MHz", "GHz", "kWh", "mAh", "McDonald")
)
# What languages and their programs call things: named in backticks they are no thing of anybody's.
_OWN_WORDS = frozenset(words("code_words"))


def named_by_word(word: str, *, begins: bool) -> Entity | None:
    """What a word of prose names beyond doubt; `begins`: it stands where a sentence does."""
    if word in _PLAIN_FILES:
        return Entity(word, "path")
    if word.isalpha() and (word.islower() or word[1:].islower()):
        found = technology(word, begins=begins)
        return Entity(found, "technology") if found else None
    is_call = word.endswith("()")
    word = word.removesuffix("()").rstrip(".,-")
    if found := technology(word, begins=begins):
        return Entity(found, "technology")
    if "/" in word:
        return _path(word)
    if _DOT_FILE.fullmatch(word):
        return Entity(word, "path")
    stem, _, ending = word.rpartition(".")
    if _FILE_NAME.fullmatch(word) and not is_call:
        if ending == "js" and stem.istitle():
            return Entity(word, "technology")
        # In prose an ending of one letter gives nothing away.
        return Entity(word, "path") if len(ending) > 1 else None
    return _identifier(word, is_call=is_call)


def _path(word: str) -> Entity | None:
    if _SCOPED.fullmatch(word):
        return Entity(word, "package")
    if _MEDIA.fullmatch(word):
        return None
    known = (_PATH_WITH_FILE, _ROOTED, _FOLDER)
    return Entity(word, "path") if any(form.fullmatch(word) for form in known) else None


def _identifier(word: str, *, is_call: bool = False) -> Entity | None:
    if _SNAKE.fullmatch(word):
        return Entity(word, "identifier")
    if is_call and _DOTTED.fullmatch(word):
        return Entity(word, "identifier")
    if word in _NO_HUMPS:
        return None
    if _LOWER_HUMP.fullmatch(word):
        return Entity(word, "identifier")
    return Entity(word, "name") if _UPPER_HUMP.fullmatch(word) and not word.endswith("Is") else None


def named_by_code(span: str) -> Entity | None:
    """What a span between backticks names: one word, or nothing."""
    word = span.strip().removesuffix("()")
    if not word or any(map(str.isspace, word)) or _MEDIA.fullmatch(word) or _RELEASE.fullmatch(word):
        return None
    if found := technology(word):
        return Entity(found, "technology")
    if _SCOPED.fullmatch(word):
        return Entity(word, "package")
    is_file = word in _PLAIN_FILES or _FILE_NAME.fullmatch(word) or _DOT_FILE.fullmatch(word)
    if is_file or _ANY_PATH.fullmatch(word):
        return Entity(word.removeprefix("./"), "path")
    if sigil := _SIGIL.fullmatch(word):
        return Entity(sigil[1], "identifier")
    if _SNAKE.fullmatch(word) or _DOTTED.fullmatch(word) or _LOWER_HUMP.fullmatch(word):
        return Entity(word, "identifier")
    is_name = len(word) > 2 and _NAME.fullmatch(word) and word.lower() not in _OWN_WORDS
    return Entity(word, "name") if is_name else None


MOST_CHARACTERS = 32 << 10
MOST_ENTITIES = 64
MOST_RELATIONS = 64
# Characters between two names that may say how they are related.
_FARTHEST = 48
_KEPT = 16_384

_FILE = os.path.join(os.path.dirname(__file__), "relations.toml")

# One token: what is no text (fences, addresses), what is marked as a name, or a word.
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
    """What a text names, in its order, each thing once; `aliases` are other names of one, with its id."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()


class _Span(msgspec.Struct, frozen=True):
    """A name at its place; `sure` unless only its large letter says so."""

    start: int
    end: int
    entity: Entity
    alias: str = ""
    sure: bool = True


@lru_cache(_KEPT)
def spoken_of(text: str) -> Mentions:
    """Entities and relations of a text. A text that was met lately is not read again."""
    text = text[:MOST_CHARACTERS]
    spans = list(_whole(text, _spans(text)))
    relations = tuple(dict.fromkeys(_relations(text, spans)))[:MOST_RELATIONS]
    related = {name for each in relations for name in (each.source, each.target)}
    found = dict[str, Entity]()
    aliases = dict[str, str]()
    for each in spans:
        if each.sure or each.entity.name in related:
            found.setdefault(entity_id(each.entity.name), each.entity)
            if each.alias:
                aliases.setdefault(entity_id(each.alias), entity_id(each.entity.name))
    for package in _installed(text):
        found.setdefault(entity_id(package.name), package)
    found.pop("", None)
    aliases.pop("", None)
    return Mentions(tuple(found.values())[:MOST_ENTITIES], relations, tuple(aliases.items())[:MOST_ENTITIES])


# --- names ---------------------------------------------------------------------------------------------


def _spans(text: str) -> Iterator[_Span]:
    for token in _TOKEN.finditer(text):
        kind, said = token.lastgroup, token[0]
        if kind == "word":
            entity, sure = _of_word(text, token.start(), said)
            said = said.rstrip(".,-/") or said
        elif kind == "code":
            entity, sure = named_by_code(token["code"]), True
        elif token["page"]:
            entity, sure = Entity(" ".join(token["page"].split()), "page"), True
        else:
            continue
        if entity is not None and len(entity.name) <= LONGEST_NAME and entity_id(entity.name):
            alias = (token["alias"] or "").strip()
            yield _Span(token.start(), token.start() + len(said), entity, alias, sure)


def _whole(text: str, spans: Iterator[_Span]) -> Iterator[_Span]:
    """Words that are only written large make one name where they stand side by side: Policy Seven."""
    held: _Span | None = None
    for span in spans:
        if held is not None and not span.sure and not held.sure and text[held.end : span.start] == " ":
            held = _Span(held.start, span.end, Entity(text[held.start : span.end]), sure=False)
            continue
        if held is not None:
            yield held
        held = span
    if held is not None:
        yield held


def _of_word(text: str, start: int, word: str) -> tuple[Entity | None, bool]:
    begins = word[:1].isupper() and _SENTENCE_BEGINS.search(text, max(0, start - 24), start) is not None
    if (entity := named_by_word(word, begins=begins)) is not None:
        return entity, True
    bare = word.rstrip(".")
    is_large = bare[:1].isupper() and bare.replace("-", "").isalnum() and bare.lower() not in _no_names()
    return (Entity(bare) if is_large else None), False


def _installed(text: str) -> Iterator[Entity]:
    """Packages of commands that install some: all of one in backticks, otherwise the first."""
    for found in _INSTALL.finditer(text):
        is_code = text[max(0, found.start() - 2) : found.start()].rstrip(" ")[-1:] in {"`", "$"}
        names = [word.strip("'\"") for word in found["what"].split() if not word.startswith("-")]
        for name in names if is_code else names[:1]:
            package = _PACKAGE.match(name)
            if package is not None and package[0].rstrip(".") not in {"and", "the", "a"}:
                yield Entity(package[0].rstrip("."), "package")


# --- relations -----------------------------------------------------------------------------------------


def _relations(text: str, spans: list[_Span]) -> Iterator[Relation]:
    """Neighbours with nothing between them but words that say how one relates to the other."""
    for one, other in pairwise(spans):
        between = text[one.end : other.start]
        if not 0 < len(between) <= _FARTHEST:
            continue
        says, names = _ways(), (one.entity.name, other.entity.name)
        found = says.between.fullmatch(between.lower())
        if found is None or entity_id(names[0]) == entity_id(names[1]):
            continue
        way = says.ways[int((found.lastgroup or "w0")[1:])]
        if not ((one.sure and other.sure) or way.large):
            continue
        if way.behind and not re.match(way.behind, text[other.end : other.end + _FARTHEST].lower()):
            continue
        source, target = reversed(names) if way.turned else names
        yield Relation(source, way.relation, target)


class _Way(msgspec.Struct, frozen=True):
    """Words that say how two things are related: `between` their names, and `behind` the second.

    `turned`: the second is the source. `large`: a name that is only written large may stand beside them.
    """

    relation: str
    between: str
    behind: str = ""
    turned: bool = False
    large: bool = False


class _Ways(msgspec.Struct, frozen=True):
    ways: tuple[_Way, ...]
    between: re.Pattern[str]


@cache
def _ways() -> _Ways:
    lists = _lists()
    ways = tuple(msgspec.convert(each, _Way) for each in lists["way"])
    forms = "|".join(f"(?P<w{number}>{way.between})" for number, way in enumerate(ways))
    fill = "|".join(lists["between"])
    return _Ways(ways, re.compile(rf"[\s]?(?:{forms})\s?(?:(?:{fill})\s?)?"))


@cache
def _no_names() -> frozenset[str]:
    """Words that are written large where a sentence begins and are no names."""
    return frozenset(_lists()["no_names"])


@cache
def _lists() -> dict[str, list[str]]:
    with open(_FILE, "rb") as file:
        return tomllib.load(file)
