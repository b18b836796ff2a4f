"""Read one statement: its topics, values, numbers, purposes, and the phrases of change in it.

The lists are data, `slots.toml`. Pure, raises nothing; the time grows with the text.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

FILE = os.path.join(os.path.dirname(__file__), "slots.toml")
_PAIRED = "\u3005-\u3007\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff"
_UNSPACED = "\u3005-\u3007\u3041-\u30fe\u3400-\u4dbf\u4e00-\u9fff"
WORD = re.compile(rf"[{_PAIRED}]+|--?[a-z][\w-]*|\.?[^\W{_PAIRED}]+(?:[-._/'][^\W{_PAIRED}]+)*/?\+*")
_NUMBER = re.compile(
    rf"(?:(?<![\w.])|(?<=[{_UNSPACED}]))(?P<named>[^\W\d{_PAIRED}]{{2,}}[ -])?"
    r"v?(?P<number>\d+(?:[.,:]\d+)*)(?!\w*[-_]\w)\s?(?P<unit>%|[^\W\d_]+)?"
)
# Begins at no part of a longer name: from each part to the end of "a.a.a..." is the square of its length.
_HOST = re.compile(
    r"(?<!\w)(?<!\w[.-])[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|de|es|fr|io|dev|local|internal|test|example)\b"
)
_PERSON = re.compile(
    r"\b(?:herrn?|frau|mrs?|ms|sra?|señora?|mme|monsieur|madame)\.? ([^\W\d]{2,})|([^\W\d]{1,4})さん"
)
_SHAPE = re.compile(r"(?P<clock>\d{1,2}:\d\d$)|(?P<version>\d+\.\d+)")
_PURPOSE = re.compile(
    r"\b(?:for|für|fürs|para|pour|pra)\s+(?:(?:the|our|die|den|das|el|la|los|las|le|les|o|a|os|as)\s+)?([^\W\d]+)"
)
# "The port of the gateway": what a thing belongs to, where a language says it behind the thing.
_BELONGS = re.compile(
    r"\b([^\W\d]{4,})(?= (?:of|de|del|do|da|dos|das|des|du|d')\s?"
    r"(?:(?:the|our|el|la|los|las|le|les|l')\s?)?([^\W\d]{3,}))"
)
# Digits of a number that is a port where nothing names its kind.
_PORT_DIGITS = 4
_LETTER = rf"[^\W{_UNSPACED}]"
_IS_LETTER, _ENDING = re.compile(_LETTER), re.compile(rf"[^\W\d{_UNSPACED}]*")
_IS_UNSPACED, _BLANK = re.compile(rf"[{_PAIRED}\u30a1-\u30fe]"), re.compile(r"\s")


class Names:
    """Names of some lists, looked up where a word begins, of each list the longest first.

    `node*` may have any ending, and a blank in a name may be a hyphen in the text. A name in Chinese or
    Japanese begins anywhere. A text costs one look-up a word for all lists together; the same as one pattern
    of a thousand alternatives takes seconds to compile.
    """

    def __init__(self, *lists: Sequence[str]) -> None:
        # Of each spelling: whose list it is of, its rank there, and if it has any ending.
        self._names: dict[str, dict[int, tuple[int, bool]]] = {}
        for place, names in enumerate(lists):
            for rank, name in enumerate(sorted(names, key=len, reverse=True)):
                is_open = name.endswith("*") and not _is_unspaced(name)
                for spelled in _spellings(name.rstrip("*")):
                    self._names.setdefault(spelled, {}).setdefault(place, (rank, is_open))
        self._count = len(lists)
        self._lengths = _lengths(self._names)
        firsts = dict.fromkeys(name[0] for name in self._names)
        spaced = [each for each in firsts if not _is_unspaced(each)]
        unspaced = [each for each in firsts if _is_unspaced(each)]
        starts = [f"(?<!{_LETTER})(?<!-){_class(spaced)}"] if spaced else []
        self._start = re.compile("|".join([*starts, *([_class(unspaced)] if unspaced else [])]))

    def found_in(self, low: str) -> Iterator[tuple[int, int, int]]:
        """Yield list, start and end of each name in a casefolded text, from the left.

        Of one list none is over another.
        """
        even, ends = _BLANK.sub(" ", low), [0] * self._count
        for begins in self._start.finditer(low):
            start = begins.start()
            lengths = self._lengths.get(even[start : start + 2]) or self._lengths.get(even[start])
            for place, (_, end) in self._at(low, even, start, lengths).items() if lengths else ():
                if start >= ends[place]:
                    ends[place] = end
                    yield place, start, end

    def replace(self, low: str, by: Mapping[str, str]) -> str:
        """The text with something else in place of each name."""
        parts, at = list[str](), 0
        for _, start, end in self.found_in(low):
            parts += [low[at:start], by[low[start:end]]]
            at = end
        return "".join([*parts, low[at:]]) if parts else low

    def _at(self, low: str, even: str, start: int, lengths: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Of each list the rank and the end of the first of its names that begins here."""
        best = dict[int, tuple[int, int]]()
        for length in lengths:
            end = start + length
            if end > len(low) or (named := self._names.get(even[start:end])) is None:
                continue
            for place, (rank, is_open) in named.items():
                if place in best and best[place][0] < rank:
                    continue
                if is_open:
                    best[place] = rank, _ENDING.match(low, end).end()  # type: ignore[union-attr]
                elif _is_unspaced(low[start]) or not _IS_LETTER.match(low, end):
                    best[place] = rank, end
        return best


class _Lists(msgspec.Struct, frozen=True):
    """The file; the first list of `named` are all values, those behind it are the subjects of `kinds`."""

    values: Mapping[str, str]
    open_values: tuple[tuple[str, str], ...]
    named: Names
    kinds: tuple[str, ...]
    units: Mapping[str, str]
    digits: Mapping[str, str]
    number_words: Names
    phrases: Mapping[str, re.Pattern[str]]
    given_up: re.Pattern[str]
    stop: frozenset[str]
    weights: Mapping[str, float]


class Reading(msgspec.Struct, frozen=True):
    text: str
    topics: tuple[str, ...]
    values: Mapping[str, frozenset[str]]
    numbers: Mapping[str, frozenset[str]]
    subjects: Mapping[str, frozenset[str]]
    purposes: tuple[str, ...]
    belongs: tuple[tuple[str, str], ...]
    change: bool
    adds: bool
    denies: bool
    leaves: bool


@functools.lru_cache(maxsize=256)
def reading_of(text: str) -> Reading:
    lists, low = word_lists(), _in_digits(text.casefold().replace("’", "'"))
    values, subjects = _named(low)
    taken = {word for found in values.values() for word in found}
    phrases = {name: bool(form.search(low)) for name, form in lists.phrases.items()}
    return Reading(
        text=low,
        topics=tuple(dict.fromkeys(w for w in words_in(low) if w not in lists.stop and w not in taken)),
        values=values,
        numbers=_numbers(low),
        subjects=subjects,
        purposes=tuple(_PURPOSE.findall(low)),
        belongs=tuple(_BELONGS.findall(low)),
        change=phrases["change"],
        adds=phrases["addition"],
        denies=phrases["denial"],
        leaves=phrases["leave"],
    )


def _in_digits(low: str) -> str:
    lists = word_lists()
    return lists.number_words.replace(low, lists.digits)


def words_in(low: str) -> Iterable[str]:
    """Words that are no numbers; where no blanks stand, pairs of characters."""
    for word in WORD.findall(low):
        if re.match(rf"[{_PAIRED}]", word):
            yield from (a + b for a, b in pairwise(word)) if len(word) > 1 else ()
        elif not word[0].isdigit() and len(word) > 1:
            yield word


def _named(low: str) -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    values, subjects = dict[str, set[str]](), dict[str, set[str]]()
    for place, start, end in word_lists().named.found_in(low):
        said = low[start:end]
        if place:
            subjects.setdefault(word_lists().kinds[place - 1], set()).add(said.strip())
        elif name := _value_list(said):
            values.setdefault(name, set()).add(said)
    for match in _PERSON.finditer(low):
        values.setdefault("person", set()).add(match[1] or match[2][-2:])
    if hosts := _HOST.findall(low):
        values["host name"] = set(hosts)
    return _frozen(values), _frozen(subjects)


def _frozen(found: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(each) for name, each in found.items()}


def _value_list(word: str) -> str:
    lists = word_lists()
    if word in lists.values:
        return lists.values[word]
    return next((name for start, name in lists.open_values if word.startswith(start)), "")


def _numbers(low: str) -> dict[str, frozenset[str]]:
    """Numbers by kind: their unit, or the word before them, or that they are a port."""
    found: dict[str, set[str]] = {}
    for match in _NUMBER.finditer(_HOST.sub(" ", low)):
        number, unit, named = match["number"], match["unit"] or "", (match["named"] or "").strip(" -")
        kind = _unit(unit)
        said = f"{number} {unit}" if kind else number
        if not kind and number.isdigit() and len(number.lstrip("0")) >= _PORT_DIGITS:
            kind = "port"
        if not kind and named and named not in word_lists().stop:
            kind = f"named {named}"
        if not kind and (mark := _SHAPE.match(number)):
            kind = str(mark.lastgroup)
        found.setdefault(kind or "bare", set()).add(said)
    return _frozen(found)


def _unit(word: str) -> str:
    """What a word behind a number counts; without blanks it is the first letters of what follows."""
    units = word_lists().units
    starts = (word, word[:2], word[:1]) if re.match(f"[{_UNSPACED}]", word) else (word,)
    return next((units[each] for each in starts if each in units), "")


@functools.cache
def word_lists() -> _Lists:
    with open(FILE, "rb") as text:
        file = tomllib.load(text)
    values = {name: kind for kind, names in file["values"].items() for name in names}
    digits = {word: digit for digit, words in file["digits"].items() for word in words}
    return _Lists(
        digits=digits,
        number_words=Names(tuple(digits)),
        values=values,
        open_values=tuple((name[:-1], kind) for name, kind in values.items() if name.endswith("*")),
        named=Names(tuple(values), *file["subjects"].values()),
        kinds=tuple(file["subjects"]),
        units={unit: kind for kind, units in file["units"].items() for unit in units},
        phrases={name: _phrase(forms) for name, forms in file["phrases"].items()},
        given_up=re.compile("|".join(file["given_up"]["patterns"]), re.IGNORECASE),
        stop=frozenset(file["stop"]["words"].split()),
        weights=file["weights"],
    )


def _is_unspaced(name: str) -> bool:
    """Whether it begins with a character of a language that writes no blanks."""
    return _IS_UNSPACED.match(name) is not None


def _spellings(name: str) -> Iterator[str]:
    parts = name.split(" ")
    for gaps in itertools.product(" -", repeat=len(parts) - 1):
        yield "".join(itertools.chain(*zip(parts, (*gaps, ""), strict=True)))


def _lengths(names: Iterable[str]) -> Mapping[str, tuple[int, ...]]:
    found: dict[str, set[int]] = {}
    for name in names:
        found.setdefault(name[:2], set()).add(len(name))
    return {
        start: tuple(sorted(lengths | ({1} & found.get(start[0], set())), reverse=True))
        for start, lengths in found.items()
    }


def _class(characters: Iterable[str]) -> str:
    return f"[{re.escape(''.join(characters))}]"


def _phrase(forms: Sequence[str]) -> re.Pattern[str]:
    paired = [form for form in forms if re.match(rf"[{_PAIRED}\u30a1-\u30fe]", form)]
    spaced = [form for form in forms if form not in paired]
    return re.compile(rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)" + "".join(f"|{form}" for form in paired))
