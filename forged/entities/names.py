"""Ids of entity names, and names of technologies.

`entity_id` folds a name: width, case, quotes, backticks, brackets, blanks, a leading `./` and the `()` of a
call do not count. `Postgres` and `PostgreSQL` are one technology, by `technologies.toml`. A name has the same
id in every root, process and database.
"""

from __future__ import annotations

import os
import tomllib
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType

LONGEST_NAME = 120

_FILE = os.path.join(os.path.dirname(__file__), "technologies.toml")
_AROUND = " \t\n`'\"“”‘’«»[]<>"


def _read_technologies() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Read technologies.toml: return usual names by folded spelling, and names valid only as spelled."""
    with open(_FILE, "rb") as file:
        lists = tomllib.load(file)
    folded = {alias.casefold(): name for name, aliases in lists["any"].items() for alias in (name, *aliases)}
    return MappingProxyType(folded), MappingProxyType({name: name for name in lists["spelled"]})


_FOLDED, _SPELLED = _read_technologies()
_IDS = {alias: name.casefold() for alias, name in _FOLDED.items()}


def entity_id(name: str) -> str:
    """Return the id of an entity by one of its names; "" for a name without a letter or digit."""
    text = unicodedata.normalize("NFKC", name[: 2 * LONGEST_NAME]).casefold()
    text = " ".join(text.split()).strip(_AROUND).removeprefix("./").removesuffix("()")[:LONGEST_NAME].strip()
    if not any(map(str.isalnum, text)):
        return ""
    return _IDS.get(text, text)


def technology_name(word: str, *, begins: bool = False) -> str:
    """Return the usual name of the technology that a word names, or "".

    A word that `begins` a sentence is capitalised anyway, as in "Go on".
    """
    if found := _FOLDED.get(word.casefold()):
        return found
    return "" if begins else _SPELLED.get(word, "")
