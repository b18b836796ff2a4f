"""Whether somebody asks that something be kept, in seven languages; the wordings are data, `requests.toml`.

In goes a text, out comes whether one of its sentences asks; not what is to be kept. The file is read with the
first text, in some 50 ms; raises re.error for a pattern that is none, msgspec.ValidationError for odd fields.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from typing import Literal

import msgspec

from forged.capture.plain import any_of, plain, without_accents

FILE = os.path.join(os.path.dirname(__file__), "requests.toml")
# A request stands at the beginning of what is long, or at its end.
_ENDS = 600
# Characters of a request that leads in what it is about.
_LEAD, _COLON = 60, re.compile(r"[:：]")
# What parts a sentence, and characters of a clause that says something.
_CLAUSES, _CLAUSE = re.compile(r"[,:;–—，：；、]| - "), 12
_LITERALS = re.compile(r"(\\.)|[^\\]+")
_SENTENCES = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n")

Kind = Literal["asks", "polite", "question", "not"]


class Wording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry as it stands in the file."""

    kind: Kind
    language: str
    name: str
    pattern: str
    yes: str
    no: str

    def is_in(self, sentence: str) -> bool:
        """Whether it matches a sentence."""
        return _compiled(self.pattern).search(plain(sentence)) is not None


def asks(text: str) -> bool:
    """Whether a sentence of a text asks to remember something, and nothing in it speaks against that."""
    text = text if len(text) <= 2 * _ENDS else f"{text[:_ENDS]}\n{text[-_ENDS:]}"
    return any(_asks(plain(sentence)) for sentence in _SENTENCES.split(text) if sentence)


@functools.lru_cache(256)  # the rules, who looks for requests, and the head ask about the same sentences
def _asks(sentence: str) -> bool:
    is_asked = _is_in("asks", sentence) and not _is_in("question", sentence)
    # Few sentences come as far as what speaks against it.
    return (is_asked or _is_in("polite", sentence)) and not _is_in("not", sentence)


def _is_in(kind: Kind, sentence: str) -> bool:
    return _any_of(kind).search(sentence) is not None


def without_request(text: str) -> str:
    """Return the plain text without the words that ask."""
    return _any_of("asks").sub(" ", plain(text))


def beside_request(text: str) -> str:
    """Return the plain text without the clauses that ask, unless nothing is left then."""
    clauses = [each for each in _CLAUSES.split(plain(text)) if each and not _any_of("asks").search(each)]
    return ", ".join(clauses) if sum(map(len, clauses)) >= _CLAUSE else without_request(text)


def behind_request(text: str) -> str:
    """Return what a request says behind its colon ("note this down: ..."), or the whole text."""
    asked, *told = _COLON.split(text, maxsplit=1)
    if not told or len(asked) > _LEAD or len(told[0].encode()) < _CLAUSE or not asks(asked):
        return text
    return text if len(without_request(asked).strip()) >= _CLAUSE else told[0].strip()


@functools.cache
def wordings() -> tuple[Wording, ...]:
    """Return the file."""
    with open(FILE, "rb") as file:
        return msgspec.convert(tomllib.load(file)["wording"], tuple[Wording, ...])


@functools.cache
def _any_of(kind: Kind) -> re.Pattern[str]:
    return _compiled(any_of(each.pattern for each in wordings() if each.kind == kind))


def _compiled(pattern: str) -> re.Pattern[str]:
    """Plain texts have no capitals, and what ignores case takes twice the time."""
    return re.compile(_LITERALS.sub(lambda found: found[1] or found[0].lower(), without_accents(pattern)))
