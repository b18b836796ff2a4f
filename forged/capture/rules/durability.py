"""Whether a sentence says by itself that it lasts, in seven languages: rules, decisions, corrections, facts.

Signs of different kinds are added up by weight. A veto (question, doubt, hearsay, irony, the moment) in the
sentence is final, a doubt, question or hearsay in its neighbour too. All is `durability.toml`, read in some
0.1 s; raises re.error for a bad pattern, msgspec.ValidationError for odd fields.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from forged.capture.text_patterns import any_of, plain
from forged.memory import Category

FILE = os.path.join(os.path.dirname(__file__), "durability.toml")
# The least weight that is kept, of which nineteen of twenty were right in the sentences to learn from, and
# what a sentence lacks that is too short to be understood later.
BAR, BRIEF = 5, 2
# The weight of a hint of a correction.
_HINT = 3
# Letters of a short sentence; one of Han or kana says as much as two.
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


# What speaks against a sentence from beside it, and from anywhere in the message.
_NEAR: frozenset[Veto] = frozenset({"question", "doubt", "hearsay"})
ALL_OVER: frozenset[Veto] = frozenset({"irony"})


class DurabilityEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry as it stands in the file."""

    kind: Kind | Veto
    language: Literal["", "de", "en", "es", "fr", "ja", "pt", "zh"]
    yes: str
    no: str
    words: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    @property
    def pattern(self) -> str:
        """One regular expression for all of it."""
        edge = r"\b" if self.language in _SPACED else ""
        whole = f"{edge}(?:{'|'.join(self.words)}){edge}" if self.words else ""
        return "|".join(filter(None, (whole, *self.patterns)))


class DurabilityWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    weights: dict[Kind, int]
    sign: tuple[DurabilityEntry, ...]
    veto: tuple[DurabilityEntry, ...]


def lasting_category(sentence: str, neighbours: Iterable[str] = ()) -> Category | None:
    """Return the category of a sentence that shows by itself that it lasts, or None."""
    text = plain(sentence)
    kinds = _matched("sign", text)
    if _weight(kinds) - BRIEF * (_letters(text) < _FEW) < BAR or is_vetoed(sentence):
        return None
    return None if any(is_vetoed(each, _NEAR) for each in neighbours) else _category(kinds)


def corrects(sentence: str) -> bool:
    """Whether a sentence may well correct something: enough for a model to be asked at once."""
    kinds = _matched("sign", plain(sentence))
    return bool(kinds & {"wrong", "stop", "onward"}) and _weight(kinds) >= _HINT and not is_vetoed(sentence)


def is_vetoed(sentence: str, of: frozenset[Veto] | None = None) -> bool:
    """Whether anything in a sentence, or what is `of` these kinds, speaks against its being meant to last."""
    return bool(_matched("veto", plain(sentence), of, any_is_enough=True))


def _weight(kinds: frozenset[str]) -> int:
    return sum(weight for kind, weight in signs().weights.items() if kind in kinds)


def _category(kinds: frozenset[str]) -> Category:
    if "decided" in kinds:
        return Category.ARCHITECTURAL_DECISIONS
    if "person" in kinds:
        return Category.USER_FACTS
    if kinds & {"wrong", "stop"}:
        return Category.CORRECTIONS
    return Category.CODING_PREFERENCES if "taste" in kinds else Category.PROJECT_CONVENTIONS


def _letters(text: str) -> int:
    return len(text) + len(_CJK.findall(text))


def _matched(
    table: Literal["sign", "veto"],
    text: str,
    of: frozenset[Veto] | None = None,
    *,
    any_is_enough: bool = False,
) -> frozenset[str]:
    found = set[str]()
    for kind, pattern in _compiled(table, _script(text)).items():
        if (of is None or kind in of) and pattern.search(text):
            found.add(kind)
            if any_is_enough:
                break
    return frozenset(found)


def _script(text: str) -> str:
    if _CJK.search(text) is None:
        return ""
    return "ja" if _KANA.search(text) else "zh"


@functools.cache
def signs() -> DurabilityWords:
    """Return the file."""
    with open(FILE, "rb") as file:
        return msgspec.convert(tomllib.load(file), DurabilityWords)


@functools.cache
def _compiled(table: Literal["sign", "veto"], script: str) -> Mapping[str, re.Pattern[str]]:
    languages = {"", script} if script else {"", *_SPACED}
    forms: dict[str, list[str]] = {}
    for entry in getattr(signs(), table):
        if entry.language in languages:
            forms.setdefault(entry.kind, []).append(entry.pattern)
    return {kind: re.compile(any_of(each), re.MULTILINE) for kind, each in forms.items()}
