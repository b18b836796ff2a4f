"""The trained head: from a text and its vector to what it probably is. Pure Python, for the worker.

In go a text and the row of float32 that the local model has for it, out come `Leanings`, each in nats: above
0 is more likely than not. The file is read once. Raises msgspec.MsgspecError for a file that is none, and
ValueError for a row of another size than that which the head was trained with.
"""

from __future__ import annotations

import functools
import math
import os
from array import array
from collections.abc import Sequence
from operator import mul

import msgspec

from forged.capture.head.features import pieces, signs
from forged.memory import Category

FILE = os.path.join(os.path.dirname(__file__), "head.bin")
# A text of many pieces says as much as one of few.
_WEIGHT = 4.0


class Output(msgspec.Struct, frozen=True):
    """The numbers of one question: int16 for the vector and int8 for the pieces, each by its step."""

    vector: bytes
    vector_step: float
    signs: tuple[float, ...]
    pieces: bytes = b""
    pieces_step: float = 0.0


class HeadFile(msgspec.Struct, frozen=True):
    """What is shipped. `data` is a hash of all that it was trained on, `engine` what made the vectors.

    `bar` is the least leaning of what is kept, chosen where 95 of 100 of it were right.
    """

    data: str
    engine: str
    bar: float
    keep: Output
    explicit: Output
    user: Output
    categories: dict[Category, Output]


class Leanings(msgspec.Struct, frozen=True):
    """How much speaks for: worth keeping, asked to be kept, about the person; and the likeliest category."""

    keep: float
    explicit: float
    user: float
    category: Category


class Head:
    """Numbers at work."""

    def __init__(self, file: HeadFile) -> None:
        self.bar = file.bar
        self._keep, self._explicit, self._user = map(_Line, (file.keep, file.explicit, file.user))
        self._categories = {name: _Line(output) for name, output in file.categories.items()}

    def leanings(self, text: str, row: bytes) -> Leanings:
        """Judge one text by itself and its vector."""
        vector = array("f", row)
        places, form = pieces(text), signs(text)

        def of(line: _Line) -> float:
            return line.at(vector, places, form)

        likeliest = max(self._categories, key=lambda name: of(self._categories[name]))
        return Leanings(of(self._keep), of(self._explicit), of(self._user), likeliest)


class _Line:
    """One linear function."""

    def __init__(self, output: Output) -> None:
        self._vector = [number * output.vector_step for number in array("h", output.vector)]
        self._signs = output.signs
        self._pieces = array("b", output.pieces)
        self._step = output.pieces_step

    def at(self, vector: Sequence[float], places: Sequence[int], form: Sequence[float]) -> float:
        """Return its value."""
        if len(vector) != len(self._vector):
            raise ValueError(f"a vector of {len(vector)} numbers for a head of {len(self._vector)}")
        found: float = sum(map(mul, self._vector, vector)) + sum(map(mul, self._signs, form))
        if self._pieces and places:
            found += sum(self._pieces[place] for place in places) * self._step * weight(len(places))
        return found


def weight(count: int) -> float:
    """Return what each of so many pieces counts."""
    return _WEIGHT / math.sqrt(count)


@functools.cache
def head() -> Head:
    """Return the shipped one."""
    with open(FILE, "rb") as file:
        return Head(msgspec.msgpack.decode(file.read(), type=HeadFile))
