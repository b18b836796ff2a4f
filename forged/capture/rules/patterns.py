"""The patterns of `rules.toml`, and the scope of a sentence.

`patterns()` takes some 70 ms when it is called first. Raises KeyError for a `{word}` without a list, re.error
for a bad pattern, msgspec.ValidationError for a table with missing or wrong fields.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from forged.capture.forms import fill_in, without_accents, word_patterns
from forged.memory import Category, Scope

FILE = os.path.join(os.path.dirname(__file__), "rules.toml")  # a Path is 0.6 MB more in the worker

# Characters of a sentence whose scope is asked; none that is kept in a person's words is longer.
_MOST_SCOPED = 2_000
# Words that something is in use, right before its name.
_AFFIRMS = (
    r"(?:\b(?:use[sd]?|using|prefers?|preferred|is|are|with|via|in|on|chose|to|by|through)|用|使用|喜欢|是)"
    r"\s*(?:the |a |an |only )?"
)

# What a lead-in says about the statement after it: `firm` makes any statement worth keeping, `correcting`
# makes one about the project a correction.
Flag = Literal["", "firm", "correcting"]


class LeadIn(msgspec.Struct, frozen=True):
    """What is stripped from the start of a sentence."""

    pattern: re.Pattern[str]
    flag: Flag = ""


class StatementForm(msgspec.Struct, frozen=True):
    """A form of statement. `is_order` tells the agent what to do, so that a mishap in it is no bug report.

    The pattern is text: `statement_in` looks for all of them at once.
    """

    name: str
    pattern: str
    category: Category
    is_order: bool = False


class Replacement(msgspec.Struct, frozen=True):
    """A form of giving something up; the group `old` is what."""

    pattern: re.Pattern[str]


class ScopeWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words that speak for all projects, for this repository, and for the person; without accents."""

    everywhere: re.Pattern[str]
    here: re.Pattern[str]
    person: re.Pattern[str]


class Patterns(msgspec.Struct, frozen=True):
    """The file. Of a table whose entries differ in nothing but their pattern, one pattern for any of them."""

    lead_ins: tuple[LeadIn, ...] = msgspec.field(name="lead_in")
    statements: tuple[StatementForm, ...] = msgspec.field(name="statement")
    replacements: tuple[Replacement, ...] = msgspec.field(name="replaces")
    trailing: re.Pattern[str]
    corrected: re.Pattern[str]
    firm: re.Pattern[str]
    project: re.Pattern[str]
    local: re.Pattern[str]
    personal: re.Pattern[str]
    speech: re.Pattern[str]
    veto: re.Pattern[str]
    private: re.Pattern[str]
    mishap: re.Pattern[str]
    asks_for_it: re.Pattern[str]
    takes_back: re.Pattern[str]
    denies: re.Pattern[str]
    scope: ScopeWords


def statement_in(text: str) -> StatementForm | None:
    """Return the first form of the file that a text begins with, or nothing."""
    found = _any_statement().match(text)
    return None if found is None else patterns().statements[int((found.lastgroup or "")[1:])]


@functools.cache
def _any_statement() -> re.Pattern[str]:
    """One pattern, in which each form is a group by its place: most sentences are none of a hundred forms."""
    forms = (f"(?P<s{place}>{each.pattern})" for place, each in enumerate(patterns().statements))
    return re.compile("|".join(forms), re.IGNORECASE)


@functools.cache
def patterns() -> Patterns:
    """Return all of them; read once."""
    with open(FILE, "rb") as text:
        file = tomllib.load(text)
    words = word_patterns(file["words"])

    def compiled(_: type, found: str | Sequence[Mapping[str, str]] | re.Pattern[str]) -> re.Pattern[str]:
        if isinstance(found, re.Pattern):
            return found
        texts = [found] if isinstance(found, str) else [entry["pattern"] for entry in found]
        return re.compile("|".join(f"(?:{fill_in(text, words)})" for text in texts), re.IGNORECASE)

    for statement in file["statement"]:
        statement["pattern"] = fill_in(statement["pattern"], words)
    for name, found in file["scope"].items():
        file["scope"][name] = re.compile(without_accents("|".join(found)), re.IGNORECASE)
    return msgspec.convert(file, Patterns, dec_hook=compiled)


def scope_of(sentence: str, otherwise: Scope = Scope.REPO) -> Scope:
    """Return the scope that the words of a sentence speak for, `otherwise` where they say nothing.

    A statement is the repository's unless it says that it holds in all projects, or is about the person and
    nothing of the repository stands in it. The words are `[scope]` of `rules.toml`, in seven languages.
    """
    words, text = patterns().scope, without_accents(sentence[:_MOST_SCOPED].replace("’", "'"))
    if words.everywhere.search(text):
        return Scope.USER
    if words.here.search(text):
        return Scope.REPO
    return Scope.USER if words.person.search(text) else otherwise


def replaced(content: str, lines: Sequence[str]) -> int | None:
    """Return the index of the only line that says what `content` does away with.

    None when there is no such line, or a choice of them: a link that is missing does little harm, and a wrong
    one hides a memory that still holds.
    """
    found = {index for old in given_up(content) for index, line in enumerate(lines) if _affirms(line, old)}
    return found.pop() if len(found) == 1 else None


def given_up(content: str) -> list[str]:
    """Return what a statement says is used no more, as it names it."""
    matches = (form.pattern.search(content) for form in patterns().replacements)
    return [match["old"].strip("`") for match in matches if match is not None]


def _affirms(line: str, old: str) -> bool:
    """Whether a line says that `old` is in use, and nothing against anything."""
    named = rf"(?<![\w-])`?{re.escape(old)}`?(?![\w-])"
    return not patterns().denies.search(line) and re.search(_AFFIRMS + named, line, re.IGNORECASE) is not None
