"""Decide by its form if a word is a name: a path, a file, an identifier, a technology.

`named_by_word` takes a word of prose, which must be a name beyond doubt. `named_by_code` takes a span in
backticks, which is no ordinary word. `name_words` has the words that decide on names of several words. Pure,
and linear in the word.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from functools import cache

import msgspec

from forged.entities.names import TECHNOLOGIES, technology_name
from forged.memory import Entity
from forged.text.english import STOP_WORDS
from forged.text.word_lists import lists

_WORDS_FILE = os.path.join(os.path.dirname(__file__), "name_words.toml")

# Without `log`: `console.log` is no file.
_EXTENSIONS = (
    "bash|bat|bazel|bzl|c|cc|cfg|clj|conf|cpp|cs|css|csv|dart|db|diff|erl|ex|exs|go|gql|gradle|graphql|h|hcl|"
    "hpp|hs|html|ini|ipynb|java|jl|js|json|jsonl|jsx|kt|less|lock|lua|md|mdx|mjs|ml|mod|parquet|patch|php|pl|"
    "plist|proto|ps1|py|pyi|r|rb|rs|rst|sass|scala|scss|service|sh|snap|socket|sql|sqlite|sum|svelte|svg|swift|"
    "tf|tfvars|toml|ts|tsv|tsx|txt|vue|xml|yaml|yml|zig|zsh"
)
_FILE = re.compile(rf"\.?[A-Za-z0-9_][\w.-]*\.(?:{_EXTENSIONS})", re.ASCII)
_PLAIN_FILES = frozenset(
    ("Makefile", "Dockerfile", "Justfile", "Rakefile", "Gemfile", "Procfile", "CODEOWNERS")
)
_DOT_FILE = re.compile(r"\.[a-z][a-z_-]*(?:rc|ignore|env|config|attributes)|\.env(?:\.\w+)*", re.ASCII)
_PARTS = r"(?:[\w.@+-]+/)*[\w.@+-]+/?"
_ROOTED = re.compile(rf"(?:~|\.{{1,2}})/{_PARTS}|/(?:[\w.@+-]+/)+[\w.@+-]+/?", re.ASCII)
_PATH_WITH_FILE = re.compile(rf"(?:[\w.@+-]+/)+{_FILE.pattern}", re.ASCII)
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
# Units and titles with an inner capital.
_NO_HUMPS = frozenset(
    ("GiB", "KiB", "MiB", "TiB", "PhD", "MSc", "BSc", "kHz", "MHz", "GHz", "kWh", "mAh", "McDonald")
)
# Words of programming languages and tools; in backticks they are no entities.
_OWN_WORDS = frozenset(lists("code")["words"].split())

# End of a clause, or the next word.
_ENDS = re.compile(r"\s*(?:[^\w\s-]|\n|\Z)|\s+(\w+)")
# Letters of Latin scripts; others may be written without blanks.
LETTER = "A-Za-zÀ-ÖØ-öø-ɏ"
# The number behind a word, a Roman numeral, or one capital letter.
NUMBER = re.compile(
    r"[ \u00a0](?:(?:[Vv]ersion|[Vv]\.|[Nn]o\.|[Nn]r\.|[Nn]umber)[ \u00a0]|#)?"
    r"(?:(?P<digits>[vV]?(?P<first>\d{1,6})(?:(?:\.\d{1,5}){1,4}(?:\.x|-?(?:rc|alpha|beta)\.?\d{0,3})?|\.x|:\d{4}|-(?P<to>\d{1,5}))?"
    r"[a-cefA-FH-JLN-SU-VY-Z]?(?:\([0-9a-z]{1,4}\)){0,3})"
    r"(?![\w°€$£(]|\s?%|[.,:/–-]\d|\.\s+[a-z])"
    r"|(?P<roman>(?=[IVX]{2})X{0,3}(?:IX|IV|V?I{0,3}))(?![\w'’&/-])"
    r"|(?P<letter>[A-Z])(?![\w'’&/+-]|\.\w|\s[A-Z]))"
)
_NEXT_WORD = re.compile(rf"[ \u00a0]?([{LETTER}']{{1,24}})")
NEXT_SENTENCE = re.compile(r"\.\s+[A-Z]")
# A verb behind "I" shows that it is a numeral: "Phase I uses", not "I use".
_NUMERAL_FOLLOWS = re.compile(r"[.,;:!?)\]]|\s*\Z|\s(?!was\b|as\b|always\b)(?:has|[a-z]{1,20}s)\b")
_LONGEST_ABBREVIATION = 8


def named_by_word(word: str, *, begins: bool) -> Entity | None:
    """Return the entity that a word of prose surely names, or None; `begins`: it begins a sentence."""
    if word in _PLAIN_FILES:
        return Entity(word, "path")
    if word.isalpha() and (word.islower() or word[1:].islower()):
        found = technology_name(word, begins=begins)
        return Entity(found, "technology") if found else None
    is_call = word.endswith("()")
    word = word.removesuffix("()").rstrip(".,-")
    if found := technology_name(word, begins=begins):
        return Entity(found, "technology")
    if "/" in word:
        return _entity_of_path(word)
    if _DOT_FILE.fullmatch(word):
        return Entity(word, "path")
    stem, _, ending = word.rpartition(".")
    if _FILE.fullmatch(word) and not is_call:
        if ending == "js" and stem.istitle():
            return Entity(word, "technology")
        # In prose an ending of one letter proves nothing.
        return Entity(word, "path") if len(ending) > 1 else None
    return _entity_of_identifier(word, is_call=is_call)


def _entity_of_path(word: str) -> Entity | None:
    """Return the package or path that a word with a slash names, or None."""
    if _SCOPED.fullmatch(word):
        return Entity(word, "package")
    if _MEDIA.fullmatch(word):
        return None
    known = (_PATH_WITH_FILE, _ROOTED, _FOLDER)
    return Entity(word, "path") if any(form.fullmatch(word) for form in known) else None


def _entity_of_identifier(word: str, *, is_call: bool = False) -> Entity | None:
    """Return the entity a word names by underscores, inner capitals or a dotted call, or None."""
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
    """Return the entity that a span in backticks names; None for several words, versions and keywords."""
    word = span.strip().removesuffix("()")
    if not word or any(map(str.isspace, word)) or _MEDIA.fullmatch(word) or _RELEASE.fullmatch(word):
        return None
    if found := technology_name(word):
        return Entity(found, "technology")
    if _SCOPED.fullmatch(word):
        return Entity(word, "package")
    is_file = word in _PLAIN_FILES or _FILE.fullmatch(word) or _DOT_FILE.fullmatch(word)
    if is_file or _ANY_PATH.fullmatch(word):
        return Entity(word.removeprefix("./"), "path")
    if sigil := _SIGIL.fullmatch(word):
        return Entity(sigil[1], "identifier")
    if _SNAKE.fullmatch(word) or _DOTTED.fullmatch(word) or _LOWER_HUMP.fullmatch(word):
        return Entity(word, "identifier")
    is_name = len(word) > 2 and _NAME.fullmatch(word) and word.lower() not in _OWN_WORDS
    return Entity(word, "name") if is_name else None


def noun_follows(text: str, end: int) -> bool:
    """Return True if a word follows that may be a noun, so that the word before it only describes it."""
    found = _ENDS.match(text, end)
    return found is None or (found[1] is not None and found[1].lower() not in name_words().function)


# --- numbers -------------------------------------------------------------------------------------------


def number_after(text: str, word: str, end: int) -> re.Match[str] | None:
    """Return the number or letter that belongs to the word that ends at `end`, or None, as for an amount."""
    found = NUMBER.match(text, end)
    if found is None:
        return None
    if found["letter"]:
        is_numeral = found["letter"] != "I" or _NUMERAL_FOLLOWS.match(text, found.end())
        is_initial = word.lower() not in name_words().lettered and NEXT_SENTENCE.match(text, found.end())
        return found if is_numeral and not is_initial else None
    goes_up = found["to"] is not None and int(found["first"]) < int(found["to"])
    if goes_up and not word.isupper():  # "pages 17-21", but "Contract 2024-117"
        return None
    return None if _word_after(text, found.end()) in name_words().units else found


def is_numbered(text: str, word: str, found: re.Match[str]) -> bool:
    """Return True if a number belongs to the word before it for sure, even where a sentence begins."""
    if found["roman"] or (found["digits"] or "")[:1] in {"v", "V"}:
        return True
    if word.lower() in name_words().lettered:
        return bool(found["letter"]) or word.lower() in name_words().numbered
    is_abbreviation = word.isupper() and len(word) <= _LONGEST_ABBREVIATION
    takes_number = word.lower() in TECHNOLOGIES or is_abbreviation
    return (takes_number and bool(found["digits"])) or _word_after(text, found.end()) in name_words().verbs


def _word_after(text: str, end: int) -> str:
    """Return the next word in small letters, "" if something else follows."""
    found = _NEXT_WORD.match(text, end)
    return found[1].lower() if found else ""


# --- lists ---------------------------------------------------------------------------------------------


class NameWords(msgspec.Struct, frozen=True):
    """Lists of name_words.toml.

    `function`: words before which a name is complete. `uncounted`: words in small letters that no number
    makes a name of. `small_names`: words in small letters that are a name, or end one. `plurals`: English
    words of `numbered` by their plural.
    """

    no_names: frozenset[str]
    openers: frozenset[str]
    numbered: frozenset[str]
    lettered: frozenset[str]
    counted: frozenset[str]
    units: frozenset[str]
    verbs: frozenset[str]
    behind: frozenset[str]
    groups: frozenset[str]
    no_groups: frozenset[str]
    inside: re.Pattern[str]
    no_parts: re.Pattern[str]
    function: frozenset[str]
    uncounted: frozenset[str]
    small_names: frozenset[str]
    plurals: Mapping[str, str]


@cache
def name_words() -> NameWords:
    """Return the lists of name_words.toml, read once."""
    with open(_WORDS_FILE, "rb") as file:
        found = tomllib.load(file)
    no_names, inside, no_parts = (found.pop(name) for name in ("no_names", "inside", "no_parts"))
    words = {name: frozenset(text.split()) for name, text in found.items()}
    words["lettered"] |= words["numbered"]
    function = STOP_WORDS | words["verbs"] | words["behind"]
    return NameWords(
        **words,
        no_names=frozenset(no_names),
        inside=re.compile(rf" (?:(?:{inside}) )+"),
        no_parts=re.compile("|".join(no_parts)),
        function=function,
        small_names=TECHNOLOGIES | words["groups"],
        plurals={re.sub("y$", "ie", each) + "s": each for each in words["numbered"]},
        uncounted=function | words["counted"] | words["units"] | words["openers"],
    )
