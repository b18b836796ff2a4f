"""Ids of entity names, and names of technologies.

`entity_id` folds a name: width, case, quotes, backticks, brackets, blanks, a leading `./`, a final full stop,
the `()` of a call and the word before a number do not count: "Policy No. 7" is "Policy 7". `Postgres` and
`PostgreSQL` are one technology, by `technologies.toml`. A name has the same id in every root, process and
database. A name with a number has wider names too: Java 21 is found as Java, but not as Java 17.
"""

from __future__ import annotations

import os
import re
import tomllib
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType

LONGEST_NAME = 120

_FILE = os.path.join(os.path.dirname(__file__), "technologies.toml")
_AROUND = " \t\n`'\"“”‘’«»[]<>"
_BEHIND = _AROUND + ".,;:"
_NUMBER_SIGNS = frozenset(("version", "v", "v.", "number", "no", "no.", "nr", "nr.", "#"))
# The last part of a number of several parts: 16.2, 27001:2022, 6(1), 4a.
_LAST_PART = re.compile(r"(?<=\w)[.:-]\w+\Z|\(\w+\)\Z|(?<=\d)[a-z]\Z")


def _read_technologies() -> tuple[Mapping[str, str], ...]:
    """Read technologies.toml: usual names by folded spelling, by exact spelling, and before a number."""
    with open(_FILE, "rb") as file:
        lists = tomllib.load(file)
    folded = {alias.casefold(): name for name, aliases in lists["any"].items() for alias in (name, *aliases)}
    spelled = {name: name for name in lists["spelled"]}
    return tuple(map(MappingProxyType, (folded, spelled, lists["numbered"] | folded)))


_FOLDED, _SPELLED, _NUMBERED = _read_technologies()
_IDS = {alias: name.casefold() for alias, name in _FOLDED.items()}
TECHNOLOGIES = frozenset((*_NUMBERED, *map(str.casefold, _SPELLED)))
"""Folded names of technologies, alone or before a version."""


def entity_id(name: str) -> str:
    """Return the id of an entity by one of its names; "" for a name without a letter or digit."""
    text = _folded(name)
    if not any(map(str.isalnum, text)):
        return ""
    stem, number = _stem_and_number(text)
    return f"{_NUMBERED.get(stem, stem).casefold()} {number}" if number else _IDS.get(text, text)


def wider_ids(name: str) -> tuple[str, ...]:
    """Return ids under which a name with a number is found too: those with less of it, or without it.

    PostgreSQL 16.2 is found as PostgreSQL 16 and PostgreSQL. Only the number of a technology, an
    abbreviation (ISO 27001) or a version (v2) can be missing: there is no policy that all policies are.
    """
    stem, number = _stem_and_number(_folded(name))
    found, shorter = list[str](), number
    while shorter != (shorter := _LAST_PART.sub("", shorter)):
        found.append(entity_id(f"{stem} {shorter}"))
    written, _, last = name.strip(_AROUND).rpartition(" ")
    if number and (stem in TECHNOLOGIES or (len(stem) > 1 and written.isupper()) or last[:1] in {"v", "V"}):
        found.append(_NUMBERED.get(stem, stem).casefold())
    return tuple(found)


def technology_name(word: str, *, begins: bool = False) -> str:
    """Return the usual name of the technology that a word names, or "".

    A word that `begins` a sentence is capitalised anyway, as in "Go on".
    """
    if found := _FOLDED.get(word.casefold()):
        return found
    return "" if begins else _SPELLED.get(word, "")


def _folded(name: str) -> str:
    """Return a name without that of its spelling that does not count."""
    text = name[: 2 * LONGEST_NAME]
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("’", "'")
    text = text.casefold()
    text = " ".join(text.split()).strip(_AROUND).removeprefix("./").rstrip(_BEHIND).removesuffix("()")
    return text[:LONGEST_NAME].rstrip(_BEHIND)


def _stem_and_number(text: str) -> tuple[str, str]:
    """Return a folded name's words before its number, and the number; the whole name and "" without one."""
    stem, _, last = text.rpartition(" ")
    number = last.lstrip("#").removeprefix("v")
    if not stem or not number[:1].isdigit():
        return text, ""
    while True:
        before, _, word = stem.rpartition(" ")
        if not before or word not in _NUMBER_SIGNS:
            return stem, number
        stem = before
