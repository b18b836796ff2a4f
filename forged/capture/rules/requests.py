"""Recognise requests to remember, not to remember, and to forget, in seven languages.

A request is read with the words around it: "don't remember that" asks for nothing. The wordings are in
`requests.toml`, read with the first text in some 50 ms. Raises re.error for a bad pattern there,
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
from forged_client.typed import resolved

FILE = os.path.join(os.path.dirname(__file__), "requests.toml")
# A request is at the beginning or the end of a long text.
_ENDS = 600
# Most characters of a request before its content, and the colon between.
_LEAD, _COLON = 60, re.compile(r"[:：]")
# Marks between clauses, and characters of a clause that says something.
_CLAUSES, _CLAUSE = re.compile(r"[,:;–—，：；、]| - "), 12
_LETTERS = re.compile(r"[^\W_]")
_LITERALS = re.compile(r"(\\.)|[^\\]+")
_SENTENCES = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n")

# Letters before a clause's request: "and please remember ...".
_BEGINNING = 16

Asking = Literal["asks", "polite", "question", "not", "refuses", "all", "follows", "empty"]
Forgetting = Literal["forgets", "drops", "goes_on", "states", "unlearns", "forget", "holds", "fact", "erase"]
Naming = Literal[
    "kept", "known", "mentioned", "prefers", "recalls", "looks_up", "here", "job", "frame", "speaks"
]
Pointing = Literal["points", "shown", "nth", "it", "outdated"]
Working = Literal["for_now", "told_to", "machine", "cuts"]
Kind = Asking | Forgetting | Naming | Pointing | Working


_FORGETTING: tuple[Kind, ...] = ("forgets", "drops")


class Wording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Entry of requests.toml: a kind of request with its pattern and two examples."""

    kind: Kind
    language: str
    name: str
    pattern: str
    yes: str
    no: str

    def is_in(self, sentence: str) -> bool:
        """Return True if the wording's pattern matches a sentence."""
        form = _compiled(self.pattern)
        look = form.match if self.kind in {"goes_on", "states"} else form.search
        return look(plain(sentence)) is not None


def asks(text: str) -> bool:
    """Return True if a sentence of a text asks to remember something and does not negate it."""
    text = text if len(text) <= 2 * _ENDS else f"{text[:_ENDS]}\n{text[-_ENDS:]}"
    return any(_asks_plain(plain(sentence)) for sentence in _SENTENCES.split(text) if sentence)


@functools.lru_cache(256)  # several callers ask about the same sentences
def _asks_plain(sentence: str) -> bool:
    """Return True if a plain sentence asks to remember something and does not negate it."""
    is_asked = _has_kind("asks", sentence) and not _has_kind("question", sentence)
    # Negations are slow, so they are checked last.
    return (
        (is_asked or _has_kind("polite", sentence))
        and not any(_has_kind(each, sentence) for each in ("not", "refuses", "forgets"))
        and not _is_forget(sentence)
    )


@functools.lru_cache(512)
def _has_kind(kind: Kind, sentence: str) -> bool:
    """Return True if a plain sentence matches a wording of a kind."""
    return form_of(kind).search(sentence) is not None


def matches(kind: Kind, sentence: str) -> bool:
    """Return True if a sentence, in any form, matches a wording of a kind."""
    return _has_kind(kind, plain(sentence))


def begins_by_asking(clause: str) -> bool:
    """Return True if a clause begins with a request to remember."""
    found = form_of("asks").search(said := plain(clause))
    return found is not None and found.start() <= _BEGINNING and _asks_plain(said)


def without_request(text: str) -> str:
    """Return a text in plain form without the words that ask to remember."""
    return form_of("asks").sub(" ", said) if _has_kind("asks", said := plain(text)) else said


def outside_request(text: str) -> str:
    """Return a text in plain form without clauses that ask to remember, unless nothing is left."""
    clauses = [each for each in _CLAUSES.split(plain(text)) if each and not _has_kind("asks", each)]
    return ", ".join(clauses) if sum(map(len, clauses)) >= _CLAUSE else without_request(text)


def behind_request(text: str) -> str:
    """Return the text after a request's colon ("note this down: ..."), or the whole text."""
    asked, *content = _COLON.split(text, maxsplit=1)
    if not content or len(asked) > _LEAD or len(content[0].encode()) < _CLAUSE or not asks(asked):
        return text
    return text if len(without_request(asked).strip()) >= _CLAUSE else content[0].strip()


def words_to_forget(sentence: str) -> frozenset[str]:
    """Return the words that identify the memory which a sentence asks to forget."""
    return words_said((form_of("empty").sub(" ", plain(sentence)),))


def names_memory(sentence: str) -> bool:
    """Return True if a request to forget surely means memory: "forget that", not "forget vitest"."""
    said = plain(sentence)
    return _has_kind("forgets", said) or _is_forget(said)


Verb = Literal["forget", "ask"]
LANGUAGES = ("en", "de", "es", "fr", "pt", "zh", "ja")
# Signs that the memory is meant, and that a question is put to it.
NAMING: tuple[Kind, ...] = ("kept", "known", "mentioned", "prefers")
_HELD: tuple[Kind, ...] = ("kept", "known")
_ASKING: tuple[Kind, ...] = ("recalls", "kept")


@functools.lru_cache(256)  # a message is read at its prompt and at the end of its turn
def read_request(said: str) -> tuple[Verb, int, int, tuple[Kind, ...]] | None:
    """Return a request's verb, begin, end, and the kinds of its signs, which have one language."""
    for language in LANGUAGES:
        signs = Signs(said, language)
        if kinds := signs.request():
            verb: Verb = "ask" if kinds[0] in _ASKING else "forget"
            spans = list(filter(None, map(signs.span, kinds)))
            return verb, min(start for start, _ in spans), max(end for _, end in spans), kinds
    return None


class Signs:
    """Signs of one language in a plain sentence, by which a request to the memory is recognised."""

    def __init__(self, said: str, language: str) -> None:
        self._said, self._language = said, language
        self._spans: dict[Kind, tuple[int, int] | None] = {}

    def span(self, kind: Kind) -> tuple[int, int] | None:
        """Return the place of the first sign of a kind, or None."""
        if kind not in self._spans:
            found = form_of(kind, self._language).search(self._said)
            self._spans[kind] = None if found is None else found.span()
        return self._spans[kind]

    def request(self) -> tuple[Kind, ...]:
        """Return the kinds of signs that make a request, or nothing."""
        is_forget = self.span("forget") is not None and self.span("holds") is None
        verb: Kind = "unlearns" if self.span("unlearns") else "forget"
        named = tuple(each for each in NAMING if self.span(each)) if is_forget or verb == "unlearns" else ()
        if named or verb == "unlearns":
            return (verb, *named)
        if is_forget and self.span("fact"):
            return "forget", "fact"
        if self.span("shown") and self.span("holds") is None:
            return ("shown",)
        held = tuple(each for each in _HELD if self.span(each)) if self.span("erase") else ()
        if held:
            return ("erase", *held)
        if self.span("looks_up") and not is_forget:
            return tuple(each for each in _ASKING if self.span(each))
        return ()


def forgets(said: str) -> bool:
    """Return True if a plain sentence asks to forget, or gives something up."""
    return any(form_of(kind).search(said) for kind in _FORGETTING) or _is_forget(said)


def _is_forget(said: str) -> bool:
    """Return True if a plain sentence asks the memory to forget."""
    return (read_request(said) or ("",))[0] == "forget"


@functools.cache
def wordings() -> tuple[Wording, ...]:
    """Return all wordings of requests.toml, read once."""
    with open(FILE, "rb") as text:
        file = tomllib.load(text)
    words = word_patterns(file["words"])
    found = [each | {"pattern": fill_in(each["pattern"], words)} for each in file["wording"]]
    return msgspec.convert(found, resolved(tuple[Wording, ...]))


@functools.cache
def form_of(kind: Kind, language: str = "") -> re.Pattern[str]:
    """Return one pattern for all wordings of a kind, or of a language; it matches plain texts."""
    wanted = (each for each in wordings() if each.kind == kind and language in {"", each.language})
    return _compiled(any_of(each.pattern for each in wanted))


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in lower case without accents, as plain texts are; IGNORECASE would be slower."""
    return re.compile(_LITERALS.sub(lambda found: found[1] or found[0].lower(), without_accents(pattern)))


def letters_in(text: str) -> int:
    """Return the count of letters and digits in a text; a character of Han or kana counts twice."""
    return len(_LETTERS.findall(text)) + len(CJK.findall(text))
