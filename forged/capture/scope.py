"""Whom a sentence is about, by the evidence in its words: the person, or the repository.

The one place that decides. A statement is the repository's unless it says that it holds in all projects, or
is about the person and nothing of the repository stands in it; whoever knows its kind may say what it is
otherwise. Goes in: a sentence in any of seven languages. The patterns are data,
`scope.toml`, read at the first question. Nothing is raised.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib

import msgspec

from forged.capture.plain import without_accents
from forged.memory import Scope

FILE = os.path.join(os.path.dirname(__file__), "scope.toml")
# Characters of a sentence that are looked at; none that is kept in a person's words is longer.
_MOST = 2_000


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file, one pattern of each table."""

    everywhere: re.Pattern[str]
    here: re.Pattern[str]
    person: re.Pattern[str]


@functools.cache
def _evidence() -> Evidence:
    with open(FILE, "rb") as text:
        file = tomllib.load(text)
    return msgspec.convert(
        file,
        Evidence,
        dec_hook=lambda _, found: re.compile(without_accents("|".join(found)), re.IGNORECASE),
    )


def scope_of(sentence: str, otherwise: Scope = Scope.REPO) -> Scope:
    """The scope that the words of a sentence speak for, and where they say nothing the other one."""
    text, evidence = _bare(sentence), _evidence()
    if evidence.everywhere.search(text):
        return Scope.USER
    if evidence.here.search(text):
        return Scope.REPO
    return Scope.USER if evidence.person.search(text) else otherwise


def _bare(sentence: str) -> str:
    return without_accents(sentence[:_MOST].replace("’", "'"))
