"""By which name two memories are known to speak of one thing, and which names are those of technologies.

`entity_id` folds a name: width and case do not tell two things apart, nor do quotes, backticks or brackets
around it, blanks, a leading `./` or the `()` of a call. `Postgres` and `PostgreSQL` are one technology, by
the list in `technologies.toml`. The same name has the same id in every root, process and database.
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


def _read() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Names by how they are written: folded, and as spelled where another spelling is another word."""
    with open(_FILE, "rb") as file:
        lists = tomllib.load(file)
    folded = {alias.casefold(): name for name, aliases in lists["any"].items() for alias in (name, *aliases)}
    return MappingProxyType(folded), MappingProxyType({name: name for name in lists["spelled"]})


_FOLDED, _SPELLED = _read()
_IDS = {alias: name.casefold() for alias, name in _FOLDED.items()}


def entity_id(name: str) -> str:
    """The id of the thing that a name is of; "" of a name without a letter or digit."""
    text = unicodedata.normalize("NFKC", name[: 2 * LONGEST_NAME]).casefold()
    text = " ".join(text.split()).strip(_AROUND).removeprefix("./").removesuffix("()")[:LONGEST_NAME].strip()
    if not any(map(str.isalnum, text)):
        return ""
    return _IDS.get(text, text)


def technology(word: str, *, begins: bool = False) -> str:
    """The usual name of the technology that a word stands for, or nothing.

    A word that `begins` a sentence is written large whatever it means: "Go on" speaks of no language.
    """
    if found := _FOLDED.get(word.casefold()):
        return found
    return "" if begins else _SPELLED.get(word, "")
