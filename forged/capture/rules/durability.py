"""Find sentences that show by themselves that they last: rules, decisions, corrections, facts.

Weights of different kinds of signs are added. A veto (question, doubt, hearsay, irony, the moment) in the
sentence is final; so is a doubt, question or hearsay in its neighbour. The signs are in `durability.toml`, in
seven languages, read in some 0.1 s. Raises re.error for a bad pattern, msgspec.ValidationError for odd
fields.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

import msgspec

from forged.capture.text_patterns import any_of, plain
from forged.memory import Category
from forged_client.typed import resolved

FILE = os.path.join(os.path.dirname(__file__), "durability.toml")
# Least weight that is kept, at which 19 of 20 training sentences were right; and the weight that a sentence
# loses that is too short to be understood later.
BAR, BRIEF = 5, 2
# Least weight of a possible correction.
_HINT = 3
# Letters of a short sentence; a character of Han or kana counts twice.
_FEW = 40
_CJK, _KANA = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]"), re.compile(r"[\u3040-\u30ff]")
_SPACED = ("de", "en", "es", "fr", "pt")

Kind = Literal[
    "decided",
    "person",
    "taste",
    "contrast",
    "ours",
    "owed",
    "state",
    "stop",
    "onward",
    "all",
    "wrong",
    "always",
    "settles",
]
Veto = Literal["question", "doubt", "hearsay", "moment", "pointing", "report", "irony", "order", "life"]


SIGNS: tuple[Kind, ...] = get_args(Kind)
VETOES: tuple[Veto, ...] = get_args(Veto)
# Vetoes that count in a neighbour of a sentence, and vetoes that count anywhere in the message.
_NEAR: frozenset[Veto] = frozenset({"question", "doubt", "hearsay"})
ALL_OVER: frozenset[Veto] = frozenset({"irony"})


class DurabilityEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Entry of durability.toml: a kind of sign or veto, with words, patterns and two examples."""

    kind: Kind | Veto
    language: Literal["", "de", "en", "es", "fr", "ja", "pt", "zh"]
    yes: str
    no: str
    words: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    @property
    def pattern(self) -> str:
        """Return one regular expression for the entry's words and patterns."""
        edge = r"\b" if self.language in _SPACED else ""
        whole = f"{edge}(?:{'|'.join(self.words)}){edge}" if self.words else ""
        return "|".join(filter(None, (whole, *self.patterns)))


class DurabilityWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Contents of durability.toml: signs that a sentence lasts, their weights, and signs against it."""

    weights: dict[Kind, int]
    sign: tuple[DurabilityEntry, ...]
    veto: tuple[DurabilityEntry, ...]


def lasting_category(sentence: str, neighbours: Iterable[str] = ()) -> Category | None:
    """Return the category of a sentence that shows by itself that it lasts, or None.

    `neighbours` are the sentences next to it.
    """
    text = plain(sentence)
    kinds = _matched_kinds("sign", text)
    if _weight(kinds) - BRIEF * (_count_letters(text) < _FEW) < BAR or is_vetoed(sentence):
        return None
    return None if any(is_vetoed(each, _NEAR) for each in neighbours) else _category(kinds)


def may_correct(sentence: str) -> bool:
    """Return True if a sentence may be a correction, so that a model should be asked at once."""
    kinds = _matched_kinds("sign", plain(sentence))
    return bool(kinds & {"wrong", "stop", "onward"}) and _weight(kinds) >= _HINT and not is_vetoed(sentence)


@functools.lru_cache(maxsize=256)  # a sentence is read by each step of a turn
def is_vetoed(sentence: str, of: frozenset[Veto] | None = None) -> bool:
    """Return True if a sentence has a sign against keeping it; with `of`, one of these kinds."""
    return bool(_matched_kinds("veto", plain(sentence), of, any_is_enough=True))


@functools.lru_cache(maxsize=256)
def kinds_in(table: Literal["sign", "veto"], sentence: str) -> frozenset[str]:
    """Return the kinds of signs for keeping a sentence, or of vetoes against it."""
    return _matched_kinds(table, plain(sentence))


def _weight(kinds: frozenset[str]) -> int:
    """Return the total weight of some kinds of signs."""
    return sum(weight for kind, weight in durability_words().weights.items() if kind in kinds)


def _category(kinds: frozenset[str]) -> Category:
    """Return the category for some kinds of signs."""
    if "decided" in kinds:
        return Category.ARCHITECTURAL_DECISIONS
    if "person" in kinds:
        return Category.USER_FACTS
    if kinds & {"wrong", "stop"}:
        return Category.CORRECTIONS
    return Category.CODING_PREFERENCES if "taste" in kinds else Category.PROJECT_CONVENTIONS


def _count_letters(text: str) -> int:
    """Return the count of all characters in a text; Han and kana count twice."""
    return len(text) + len(_CJK.findall(text))


def _matched_kinds(
    table: Literal["sign", "veto"],
    text: str,
    of: frozenset[Veto] | None = None,
    *,
    any_is_enough: bool = False,
) -> frozenset[str]:
    """Return the kinds of signs or vetoes that a text has; with `any_is_enough`, only the first."""
    found = set[str]()
    for kind, pattern in _compiled(table, _script(text)).items():
        if (of is None or kind in of) and pattern.search(text):
            found.add(kind)
            if any_is_enough:
                break
    return frozenset(found)


def _script(text: str) -> str:
    """Return `ja` for a text with kana, `zh` for one with other ideographs, else ""."""
    if _CJK.search(text) is None:
        return ""
    return "ja" if _KANA.search(text) else "zh"


@functools.cache
def durability_words() -> DurabilityWords:
    """Return the contents of durability.toml, read once."""
    with open(FILE, "rb") as file:
        return msgspec.convert(tomllib.load(file), resolved(DurabilityWords))


@functools.cache
def _compiled(table: Literal["sign", "veto"], script: str) -> Mapping[str, re.Pattern[str]]:
    """Compile one pattern for each kind of sign or veto, with the words of a script's languages."""
    languages = {"", script} if script else {"", *_SPACED}
    forms: dict[str, list[str]] = {}
    for entry in getattr(durability_words(), table):
        if entry.language in languages:
            forms.setdefault(entry.kind, []).append(entry.pattern)
    return {kind: re.compile(any_of(each), re.MULTILINE) for kind, each in forms.items()}
