"""Compare two statements: the subject they share, and the place that both fill.

In: the texts of a newer and an older statement. Out: signs between 0 and 1. Pure, raises nothing, some 0.2 ms
a pair of short texts; of a long text callers hand in the `opening`, since the time grows with the text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

import msgspec

from forged.capture.rules.reading import WORD, Reading, reading_of, word_lists, words_in

# Characters of a text that are compared; of a longer one the beginning, up to the end of a line, a sentence
# or a word within the last quarter.
MOST_COMPARED = 2048
_CUTS = tuple(re.compile(rf"(?s:.*){end}") for end in (r"\n", r"(?:[.!?…](?=\s)|[。！？])", r"\s"))
# Letters of the shortest beginning, and of the shortest part of a compound, that make two words one.
_BEGINNING, _PART = 4, 5
# Of the words of the longer of two statements of one form, what both have in one order.
_FORM = 0.3
# How a name is written that no list knows, and a day since which something holds.
_NAME = re.compile(r"[A-Z\d]")
_SINCE = re.compile(
    r"\b(?:since|seit|desde|depuis)(?: (?:last|letztem|letzter|el|la|le|o|a|this|diesem))? [^\W\d]+"
    r"|[^\W\d]{1,4}(?:から|以来)",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,40}\b|[(`]\d{7,40}[)`]", re.IGNORECASE)


def opening(text: str, most: int = MOST_COMPARED) -> str:
    """Return as much of a text as is compared: all of it, or its beginning of at most so many characters."""
    if len(text) <= most or len(text := text.strip()) <= most:
        return text
    cuts = (cut.match(text, 3 * most // 4, most) for cut in _CUTS)
    return text[: next((found.end() for found in cuts if found), most)].rstrip()


class Signs(msgspec.Struct, frozen=True):
    """Each between 0 and 1; all 0 where two texts have nothing to do with each other."""

    shared: float = 0.0  # of the older one's words that say what it is about, how many the newer one has
    led: float = 0.0  # the first of these is among them
    value: float = 0.0  # another value of one list
    number: float = 0.0  # another number of one kind
    version: float = 0.0  # another number behind the same name, as of "node 16" and "node 22"
    strange: float = 0.0  # of the words that the newer one begins with, how many the older one has not
    given_up: float = 0.0  # the older one's value is named beside a change
    change: float = 0.0
    adds: float = 0.0
    flips: float = 0.0  # one forbids, the other does not
    leaves: float = 0.0  # what was forbidden is allowed
    apart: float = 0.0  # of two neighbouring things each speaks of one


def weights() -> Mapping[str, float]:
    """What each sign is worth to a replacement, and two of them together."""
    return word_lists().weights


def signs(newer: str, older: str) -> Signs:
    """Compare two statements."""
    new, old = reading_of(newer), reading_of(older)
    common = [any(_related(word, other) for other in new.topics) for word in old.topics]
    values = _replaced(new.values, old.values)
    numbers = _replaced(new.numbers, old.numbers)
    named = any(each in new.text for found in old.values.values() for each in found)
    named = (named and bool(values)) or _names_number(new.numbers, old.numbers)
    return Signs(
        shared=sum(common) / max(1, len(common)),
        led=float(bool(common) and common[0]),
        value=values,
        number=numbers,
        version=float(_is_new_version(new.numbers, old.numbers)),
        strange=_strange(new.topics[:3], old),
        given_up=float(named and new.change),
        change=float(new.change),
        adds=float(new.adds),
        flips=float(new.denies != old.denies),
        leaves=float(old.denies and new.leaves),
        apart=float(
            _is_apart(new.subjects, old.subjects) or _is_for_another(new, old) or _is_of_another(new, old)
        ),
    )


def gives_up(newer: str, older: str) -> bool | None:
    """Return whether the newer text names as given up what the older one says; None if it names nothing.

    "Not with black": only names count, which are values, numbers, or written with a capital or a digit.
    """
    read, was = reading_of(newer), reading_of(older)
    known = {word for each in (*read.values.values(), *read.numbers.values()) for word in each}
    named = {
        name.casefold()
        for found in word_lists().given_up.finditer(newer)
        if (name := next(filter(None, found.groups())).rstrip(".,;:!-/"))
        and (name.casefold() in known or _NAME.search(name))
    }
    return any(name in was.text for name in named) if named else None


def is_about_the_same(newer: str, older: str, *, least: int = 1) -> bool:
    """Return whether two texts share so many words that are none of change."""
    ours, theirs = (_subject(reading_of(text)) for text in (newer, older))
    return sum(any(_related(one, other) for one in ours) for other in theirs) >= least


def _subject(read: Reading) -> list[str]:
    change = word_lists().phrases["change"]
    said = {word for found in change.finditer(read.text) for word in words_in(found[0])}
    return [word for word in read.topics if word not in said]


def without_marks(text: str) -> str:
    """Return a text without what is in no slot: days since which something holds, and names of commits."""
    return _COMMIT.sub(" ", _SINCE.sub(" ", text))


def are_parallel(newer: str, older: str) -> bool:
    """Return whether two statements have one form and are about two things ("the gateway", "the worker").

    Or they are one order for two things ("keep functions", "keep files"), and nothing says that it changed.
    """
    new, old = (WORD.findall(text.casefold().replace("’", "'")) for text in (newer, older))
    blocks = difflib.SequenceMatcher(None, new, old, autojunk=False).get_opcodes()
    same = sum(end - begin for kind, begin, end, _, _ in blocks if kind == "equal")
    if same < _FORM * max(len(new), len(old)):
        return False
    read, was = reading_of(newer), reading_of(older)
    is_led = bool(was.topics) and any(_related(was.topics[0], each) for each in read.topics)
    places = [
        place
        for place, (kind, a, b, c, d) in enumerate(blocks)
        if kind == "replace" and _are_others(new[a:b], old[c:d], read.topics, was.topics)
    ]
    is_order = bool(places) and places[0] == 1 and blocks[0][0] == "equal" and blocks[0][2] == 1
    return bool(places) and (not is_led or (is_order and not read.change))


def _are_others(new: Sequence[str], old: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> bool:
    said, was = ([w for w in run if w in topics] for run, topics in ((new, ours), (old, theirs)))
    return (
        bool(said and was)
        and not any(_related(one, other) for one in said for other in theirs)
        and not any(_related(one, other) for one in was for other in ours)
    )


def says_something(text: str) -> bool:
    """Whether there is anything in a text to compare it by."""
    read = reading_of(text)
    return bool(read.topics or read.values or read.numbers)


def _related(one: str, other: str) -> bool:
    if one == other:
        return True
    short, long = (one, other) if len(one) <= len(other) else (other, one)
    letters = len(short)
    if letters < _BEGINNING:
        return False
    if letters >= _PART and short[: max(_PART, letters - 2)] in long:
        return True
    start = max(_BEGINNING, (2 * letters + 2) // 3)
    return short[:start] == long[:start]


def _replaced(new: Mapping[str, frozenset[str]], old: Mapping[str, frozenset[str]]) -> float:
    for kind, values in old.items():
        fresh = new.get(kind, frozenset())
        if fresh - values and kind != "bare":
            return 1.0
    bare = new.get("bare", frozenset()) - old.get("bare", frozenset())
    return 0.5 if (bare and old) or ("bare" in old and new) else 0.0


def _names_number(new: Mapping[str, frozenset[str]], old: Mapping[str, frozenset[str]]) -> bool:
    said, was = (
        {each.split()[0] for values in numbers.values() for each in values} for numbers in (new, old)
    )
    return bool(said & was) and len(said) > 1


def _is_new_version(new: Mapping[str, frozenset[str]], old: Mapping[str, frozenset[str]]) -> bool:
    named = (kind for kind in old if kind.startswith("named "))
    return any(kind in new and new[kind].isdisjoint(old[kind]) for kind in named)


def _strange(words: Sequence[str], old: Reading) -> float:
    strange = sum(not any(_related(word, other) for other in old.topics) for word in words)
    return strange / max(1, len(words))


def _is_apart(new: Mapping[str, frozenset[str]], old: Mapping[str, frozenset[str]]) -> bool:
    return any(
        kind in new and not any(a.startswith(b) or b.startswith(a) for a in found for b in new[kind])
        for kind, found in old.items()
    )


def _is_for_another(new: Reading, old: Reading) -> bool:
    """Whether both say what they are for, and it is not the same."""
    ours, theirs = ([w for w in found.purposes if w in found.topics] for found in (new, old))
    return bool(ours and theirs) and not any(_related(one, other) for one in ours for other in theirs)


def _is_of_another(new: Reading, old: Reading) -> bool:
    """Whether both speak of one kind of thing, and it belongs to something else in each."""
    for thing, owner in old.belongs:
        theirs = [each for same, each in new.belongs if _related(thing, same) and each in new.topics]
        if theirs and owner in old.topics and owner not in new.text:
            return not any(_related(owner, each) or each in old.text for each in theirs)
    return False
