"""The trained head: estimates which of a person's statements are worth keeping. Pure Python.

`units` makes of statements what is judged as one. A `Judge` gets a text and the local model's row of it, or
none, and gives `Leanings` in nats: above 0 is likelier than not. `chosen` gives the units above a bar: two of
a message at most, with likely neighbours. `tests/training` makes the file. Raises msgspec.MsgspecError for a
file that is none, and ValueError for a row of another size than in training.
"""

from __future__ import annotations

import functools
import math
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from forged.capture.authorship import Statement
from forged.capture.rules.requests import asks
from forged.memory import Category, Scope
from forged.text.linear import Linear, Weights, pieces

FILE = os.path.join(os.path.dirname(__file__), "head.bin")
SIGNS = 9
# Characters: of a message that is kept whole, of a sentence with its neighbour, and of the message that says
# what a sentence stands in.
SHORT, LONG, AROUND = 160, 250, 1_000
_MOST_SENTENCES = 12
# Units of a message.
_MOST_UNITS = 2
# What a message counts, and its best sentence beside it.
_MESSAGE = 0.5

_LONG = 200
_ASKS = re.compile(r"[?？]\s*$")
_QUOTES = re.compile('["“«「`]')
_MARKED = re.compile(r"\W*[->#$|+]")


class Numbers(msgspec.Struct, frozen=True):
    """What is known of texts, by rows or by words alone.

    `bar` is the least leaning of what is kept, chosen where at least 95 of 100 of it were right, and
    `asked_bar` that of a request. `kept` and `others` are the kinds of sentences that are worth keeping, and
    those that are not.
    """

    bar: float
    asked_bar: float
    keep: Weights
    asks: Weights
    kept: dict[str, Weights]
    others: dict[str, Weights]
    user: Weights


class HeadFile(msgspec.Struct, frozen=True):
    """What is shipped. `data` is a hash of all that it was trained on, `engine` what made the rows."""

    data: str
    engine: str
    by_rows: Numbers
    by_words: Numbers


class Leanings(msgspec.Struct, frozen=True):
    """How much speaks for: worth keeping, asked to be kept, about the person; and the likeliest kind.

    Two answers make the first: that of one line between all that is kept and all that is not, and that by the
    kinds, which are fourteen lines and see that a question and a quote have little in common.
    """

    keep: float
    asks: float
    user: float
    kind: str

    def category(self, scope: Scope) -> Category:
        """Return what a sentence of this kind is, about the person or the repository."""
        if self.kind == "correction":
            return Category.CORRECTIONS
        if scope is Scope.USER:
            return Category.USER_FACTS if self.kind == "fact" else Category.CODING_PREFERENCES
        is_settled = self.kind == "decision"
        return Category.ARCHITECTURAL_DECISIONS if is_settled else Category.PROJECT_CONVENTIONS


class Judge:
    """Numbers at work."""

    def __init__(self, numbers: Numbers) -> None:
        self.bar, self.asked_bar, self.sees_rows = numbers.bar, numbers.asked_bar, bool(numbers.keep.row)
        self._keep, self._asks, self._user = map(Linear, (numbers.keep, numbers.asks, numbers.user))
        self._kept = {name: Linear(weights) for name, weights in numbers.kept.items()}
        self._others = [Linear(weights) for weights in numbers.others.values()]

    def leanings(self, text: str, row: bytes = b"") -> Leanings:
        """Judge one text by itself and its row."""
        vector = array("f", row)
        places, form = pieces(text), signs(text)

        def of(line: Linear) -> float:
            return line.at(vector, places, form)

        kept = {name: of(line) for name, line in self._kept.items()}
        keep = of(self._keep) + _either(kept.values()) - _either(map(of, self._others))
        return Leanings(keep, of(self._asks), of(self._user), max(kept, key=kept.__getitem__))


class Head(msgspec.Struct, frozen=True):
    """Who judges texts with rows, and those without."""

    by_rows: Judge
    by_words: Judge


def _either(leanings: Iterable[float]) -> float:
    leanings = tuple(leanings)
    most = max(leanings)
    return most + math.log(sum(math.exp(each - most) for each in leanings))


@functools.cache
def head() -> Head:
    """Return the shipped one."""
    with open(FILE, "rb") as file:
        numbers = msgspec.msgpack.decode(file.read(), type=HeadFile)
    return Head(Judge(numbers.by_rows), Judge(numbers.by_words))


def signs(text: str) -> tuple[float, ...]:
    """Return what the form of a text says, in numbers from 0 to 2; the last is always 1.

    One is a rule's answer: whether it asks by itself that something be remembered. What a text is made of is
    `forged.text.linear`.
    """
    return (
        bool(_ASKS.search(text)),
        "?" in text or "？" in text,
        min(len(text), _LONG) / (_LONG / 2),
        text[:1].isupper(),
        bool(_QUOTES.search(text)),
        "\n" in text,
        bool(_MARKED.match(text)),
        asks(text),
        1.0,
    )


class Unit(msgspec.Struct, frozen=True):
    """`text` is what would be kept, `sentences` what is judged, `around` the message that it stands in."""

    text: str
    sentences: tuple[Statement, ...]
    around: str

    @property
    def message(self) -> int:
        return self.sentences[0].message

    def texts(self) -> tuple[str, ...]:
        """All whose vectors are needed."""
        return (self.around, *(each.text for each in self.sentences))


def units(said: Sequence[Statement]) -> tuple[Unit, ...]:
    """Return the units of all messages."""
    messages = groupby(said, key=attrgetter("message"))
    return tuple(unit for _, each in messages for unit in _of_message(tuple(each)))


def around_of(said: Sequence[Statement]) -> str:
    """Return the message that statements stand in, as far as it is judged."""
    return said[0].around.strip()[:AROUND]


def _of_message(said: tuple[Statement, ...]) -> Iterator[Unit]:
    message, around = said[0].around, around_of(said)
    if len(message) <= SHORT and "\n" not in message.strip():
        yield Unit(_whole(said), said, around)
        return
    ends = (*said[: _MOST_SENTENCES // 2], *said[-_MOST_SENTENCES // 2 :])
    for each in said if len(said) <= _MOST_SENTENCES else ends:
        yield Unit(each.whole if len(each.whole) <= LONG else each.text, (each,), around)


def _whole(said: Sequence[Statement]) -> str:
    """All sentences but a mere request to keep them, behind what the first one agrees to."""
    agreed = said[0].whole.partition(said[0].text)[0]
    told = [each.text for each in said if not each.asks_alone]
    return agreed + " ".join(told or ([] if agreed else [said[0].text]))


def score(unit: Unit, says: Callable[[str], float]) -> float:
    """Return how much speaks for a unit: half its best sentence, half the message that it stands in.

    A sentence that is likelier not to be meant is not helped by its message.
    """
    best = max(says(each.text) for each in unit.sentences)
    return _MESSAGE * says(unit.around) + (1 - _MESSAGE) * best if best >= 0 else best


def asking(here: Sequence[Unit], judged: Mapping[str, Leanings]) -> float:
    """Return how much speaks for it that the units of one message ask for something to be remembered."""
    return max(score(unit, lambda text: judged[text].asks) for unit in here)


def best_of(here: Sequence[Unit], keep: Callable[[str], float]) -> Unit:
    """Return what of one message is most likely to be worth keeping, whatever its bar."""
    place = max(range(len(here)), key=lambda each: score(here[each], keep))
    return _together(here[max(0, place - 1) : place + 2], here[place], keep)


def chosen(found: Sequence[Unit], keep: Callable[[str], float], bar: float) -> list[Unit]:
    """Return the units to keep."""
    scores = [score(unit, keep) for unit in found]
    taken: dict[int, Unit] = {}
    for place in sorted(range(len(found)), key=lambda each: -scores[each]):
        unit = found[place]
        rivals = [other for other in taken.values() if other.message == unit.message]
        if scores[place] >= bar and len(rivals) < _MOST_UNITS and not _is_said(unit, rivals):
            beside = found[max(0, place - 1) : place + 2]
            taken[place] = _together([each for each in beside if not _is_said(each, rivals)], unit, keep)
    return [taken[place] for place in sorted(taken)]


def _together(beside: Sequence[Unit], unit: Unit, keep: Callable[[str], float]) -> Unit:
    mine = [each for each in beside if each.message == unit.message]
    likely = [each for each in mine if each is unit or keep(each.sentences[0].text) > 0]
    sentences = tuple(sentence for each in likely for sentence in each.sentences)
    text = " ".join(each.text for each in sentences)
    return Unit(text, sentences, unit.around) if len(likely) > 1 and len(text) <= LONG else unit


def _is_said(unit: Unit, rivals: Sequence[Unit]) -> bool:
    return any(_has(unit, rival) or _has(rival, unit) for rival in rivals)


def _has(unit: Unit, other: Unit) -> bool:
    return any(each.text in unit.text for each in other.sentences)
