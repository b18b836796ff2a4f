"""The trained head: from a text and what the local model says of it to what it probably is. Pure Python.

In go a text and the row of float32 that the local model has for it (its layers), or none; out come
`Leanings`, each in nats: above 0 is more likely than not. There are numbers of their own for each of the two:
words alone say less. The file is read once. Raises msgspec.MsgspecError for a file that is none, and
ValueError for a row of another size than that which the head was trained with.
"""

from __future__ import annotations

import functools
import math
import os
import re
from array import array
from collections.abc import Iterable

import msgspec

from forged.capture.rules.requests import asks
from forged.memory import Category, Scope
from forged.text.linear import Linear, Weights
from forged.text.pieces import pieces

FILE = os.path.join(os.path.dirname(__file__), "head.bin")
SIGNS = 9

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
    """Return how much speaks for any one of them."""
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
    `forged.text.pieces`.
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
