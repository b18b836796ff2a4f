"""Recognise requests to remember, not to remember, and to forget, in seven languages.

A request is read with what is before and behind it: "don't remember that" asks for nothing. The wordings are
`requests.toml`, read with the first text in some 50 ms; raises re.error for a bad pattern there,
msgspec.ValidationError for odd fields.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from typing import Literal

import msgspec

from forged.capture.text_patterns import any_of, fill_in, plain, without_accents, word_patterns, words_said
from forged.text.linear import CJK

FILE = os.path.join(os.path.dirname(__file__), "requests.toml")
# A request stands at the beginning of what is long, or at its end.
_ENDS = 600
# Characters of a request that leads in what it is about.
_LEAD, _COLON = 60, re.compile(r"[:：]")
# What parts a sentence, and characters of a clause that says something.
_CLAUSES, _CLAUSE = re.compile(r"[,:;–—，：；、]| - "), 12
_LETTERS = re.compile(r"[^\W_]")
_LITERALS = re.compile(r"(\\.)|[^\\]+")
_SENTENCES = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n")

# Letters before a clause's request: "and please remember ...".
_BEGINNING = 16

Kind = Literal[
    "asks",
    "polite",
    "question",
    "not",
    "refuses",
    "forgets",
    "drops",
    "goes_on",
    "states",
    "all",
    "follows",
    "empty",
]


_FORGETTING: tuple[Kind, ...] = ("forgets", "drops")


class Wording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry as it stands in the file."""

    kind: Kind
    language: str
    name: str
    pattern: str
    yes: str
    no: str

    def is_in(self, sentence: str) -> bool:
        """Return whether it matches a sentence."""
        form = _compiled(self.pattern)
        look = form.match if self.kind in {"goes_on", "states"} else form.search
        return look(plain(sentence)) is not None


def asks(text: str) -> bool:
    """Whether a sentence of a text asks to remember something, and nothing in it speaks against that."""
    text = text if len(text) <= 2 * _ENDS else f"{text[:_ENDS]}\n{text[-_ENDS:]}"
    return any(_asks(plain(sentence)) for sentence in _SENTENCES.split(text) if sentence)


@functools.lru_cache(256)  # the rules, who looks for requests, and the head ask about the same sentences
def _asks(sentence: str) -> bool:
    is_asked = _is_in("asks", sentence) and not _is_in("question", sentence)
    # Few sentences come as far as what speaks against it.
    return (is_asked or _is_in("polite", sentence)) and not any(
        _is_in(each, sentence) for each in ("not", "refuses", "forgets")
    )


def _is_in(kind: Kind, sentence: str) -> bool:
    return form_of(kind).search(sentence) is not None


def begins_with_request(clause: str) -> bool:
    """Return whether a clause asks to remember something with its first words."""
    found = form_of("asks").search(said := plain(clause))
    return found is not None and found.start() <= _BEGINNING and _asks(said)


def without_request(text: str) -> str:
    """Return the plain text without the words that ask."""
    return form_of("asks").sub(" ", plain(text))


def outside_request(text: str) -> str:
    """Return the plain text without the clauses that ask, unless nothing is left then."""
    clauses = [each for each in _CLAUSES.split(plain(text)) if each and not form_of("asks").search(each)]
    return ", ".join(clauses) if sum(map(len, clauses)) >= _CLAUSE else without_request(text)


def behind_request(text: str) -> str:
    """Return what a request says behind its colon ("note this down: ..."), or the whole text."""
    asked, *told = _COLON.split(text, maxsplit=1)
    if not told or len(asked) > _LEAD or len(told[0].encode()) < _CLAUSE or not asks(asked):
        return text
    return text if len(without_request(asked).strip()) >= _CLAUSE else told[0].strip()


def words_to_forget(sentence: str) -> frozenset[str]:
    """Return the words by which the memory is found that a sentence asks to forget."""
    return words_said((form_of("empty").sub(" ", plain(sentence)),))


def names_memory(sentence: str) -> bool:
    """Return whether a sentence asks memory to forget for sure: "forget that", not "forget vitest"."""
    return form_of("forgets").search(plain(sentence)) is not None


def forgets(said: str) -> bool:
    """Return whether a plain sentence asks to forget, or gives something up."""
    return any(form_of(kind).search(said) for kind in _FORGETTING)


@functools.cache
def wordings() -> tuple[Wording, ...]:
    """Return all wordings of the file."""
    with open(FILE, "rb") as text:
        file = tomllib.load(text)
    words = word_patterns(file["words"])
    found = [each | {"pattern": fill_in(each["pattern"], words)} for each in file["wording"]]
    return msgspec.convert(found, tuple[Wording, ...])


@functools.cache
def form_of(kind: Kind) -> re.Pattern[str]:
    """Return the pattern of all wordings of a kind, for plain texts."""
    return _compiled(any_of(each.pattern for each in wordings() if each.kind == kind))


def _compiled(pattern: str) -> re.Pattern[str]:
    """Plain texts have no capitals, and what ignores case takes twice the time."""
    return re.compile(_LITERALS.sub(lambda found: found[1] or found[0].lower(), without_accents(pattern)))


def letters(text: str) -> int:
    """Return how much a text says, one of Han or kana as much as two letters."""
    return len(_LETTERS.findall(text)) + len(CJK.findall(text))
