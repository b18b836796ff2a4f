"""Which earlier statement a newer one takes the place of, if any: the newest word wins, and only then.

In go the texts, all of one scope, with the local model's rows of them where there are any; out comes the
place of the one that holds no more, or None. Of a long text its `opening` is judged, which has the row. What
speaks for it was learnt from pairs of statements (`make head`): a wrong replacement hides a memory that still
holds and a missed one leaves two side by side, of which the newer is shown as such; so the bar lies where
hardly any of those are taken that only look alike. Without rows `by_words` judges. Raises
msgspec.MsgspecError for a file that is none, and ValueError for rows of another size than those it was
trained with.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from forged.capture.rules import by_words
from forged.capture.rules.pair import Floats, places_of, rows_of, signs_of
from forged.capture.rules.slots import opening
from forged.text.pieces import weight

FILE = os.path.join(os.path.dirname(__file__), "newest.bin")

# What the local model says of texts, float32 as bytes.
RowsOf = Mapping[str, bytes]
NO_ROWS: RowsOf = {}


class Line(msgspec.Struct, frozen=True):
    """One linear function of pairs: int16 for places of rows and int8 for pieces, each by its step."""

    signs: tuple[float, ...]
    alike: tuple[float, ...] = ()
    places: bytes = b""
    places_step: float = 0.0
    pieces: bytes = b""
    pieces_step: float = 0.0


class Numbers(msgspec.Struct, frozen=True):
    """What is known of pairs: which is a replacement, of those that are `related` at all.

    `bar` is the least of what is replaced, `proposed` of what a model says is, and `doubted` of what may be
    as well as not: somebody should see both, and which is newer. `near` is the least of what is related.
    """

    bar: float
    proposed: float
    doubted: float
    near: float
    replaces: Line
    related: Line


class NumbersFile(msgspec.Struct, frozen=True):
    """What is shipped. `data` is a hash of all that it was trained on, `engine` what made the rows."""

    data: str
    engine: str
    numbers: Numbers


class Judge:
    """Numbers at work."""

    def __init__(self, numbers: Numbers) -> None:
        self.bar, self.proposed, self.doubted = numbers.bar, numbers.proposed, numbers.doubted
        self._near, self._replaces, self._related = (
            numbers.near,
            *map(_Line, (numbers.replaces, numbers.related)),
        )

    def leanings(self, newer: str, older: Sequence[str], rows: RowsOf) -> list[float]:
        """How much speaks for a replacement of each, in nats; nothing where it is about something else."""
        if not older:
            return []
        form = np.array([signs_of(newer, each) for each in older], np.float32)
        table = np.frombuffer(b"".join(rows[each] for each in (*older, newer)), np.float32)
        table = table.reshape(len(older) + 1, -1)
        dense = np.hstack([rows_of(np.broadcast_to(table[-1], table[:-1].shape), table[:-1]), form])
        pieces = [places_of(newer, each) for each in older]
        is_near = self._related.of(dense, form.shape[1], pieces) > self._near
        found: list[float] = np.where(
            is_near, self._replaces.of(dense, form.shape[1], pieces), -np.inf
        ).tolist()
        return found


class _Line:
    """One linear function, of the columns that it was made for."""

    def __init__(self, line: Line) -> None:
        self._signs = np.array(line.signs, np.float32)
        places = np.frombuffer(line.places, np.int16) * np.float32(line.places_step)
        self._rows = np.concatenate([np.array(line.alike, np.float32), places])
        self._pieces = np.frombuffer(line.pieces, np.int8) * np.float32(line.pieces_step)

    def of(self, dense: Floats, signs: int, pieces: Sequence[Sequence[int]]) -> Floats:
        """Return its values; the last columns are `signs`."""
        width = len(self._rows)
        if width > dense.shape[1] - signs:
            raise ValueError(f"{dense.shape[1] - signs} numbers of rows for a line of {width}")
        found: Floats = dense[:, :width] @ self._rows + dense[:, -signs:] @ self._signs
        return found + np.array([self._said(each) for each in pieces], np.float32)

    def _said(self, places: Sequence[int]) -> float:
        if not len(self._pieces) or not places:
            return 0.0
        return float(self._pieces[list(places)].sum()) * weight(len(places))


def replaced_by(
    newer: str,
    older: Sequence[str],
    *,
    rows: RowsOf = NO_ROWS,
    doubt: float = 0.0,
    among: float = 0.0,
    doubts: Sequence[float] = (),
    plainly: bool = False,
) -> int | None:
    """Return the place of the one of `older` texts that `newer` replaces.

    The texts must show it (`by_words.is_evident`, `plainly` or not): sentences of one form are alike whatever
    they are about ("from now on ... with X, not with Y"). So much more must speak for it as there is `doubt`,
    and `doubts` of each older one. They are `among` memories, if not each one of its own: the more there are,
    the likelier one is like the newer text by accident. One without a row is too far from the others.
    """
    newer, older = opening(newer), [*map(opening, older)]
    if newer not in rows:
        return by_words.replaced_by(newer, older, doubt=doubt, among=among, doubts=doubts, plainly=plainly)
    bar = judge().bar + doubt + math.log(among or max(1, len(older)))
    least = [bar + more for more in doubts or [0.0] * len(older)]
    for place in _above(newer, older, rows, least):
        if by_words.is_evident(newer, older[place], plainly=plainly):
            return place
    return by_words.given_up(newer, older)


def differs_from(newer: str, older: Sequence[str], *, rows: RowsOf = NO_ROWS) -> int | None:
    """Return the place of the one of `older` texts that `newer` may not hold together with."""
    newer, older = opening(newer), [*map(opening, older)]
    if newer not in rows:
        return by_words.differs_from(newer, older)
    return next(iter(_above(newer, older, rows, [judge().doubted] * len(older))), None)


def may_replace(newer: str, older: str, *, rows: RowsOf = NO_ROWS) -> bool:
    """Return whether the texts bear out a replacement that a model proposes: they show it, as of others'."""
    newer, older = opening(newer), opening(older)
    if newer not in rows or older not in rows:
        return by_words.may_replace(newer, older)
    return by_words.may_be_one(newer, older) and judge().leanings(newer, [older], rows)[0] > judge().proposed


def _above(newer: str, older: Sequence[str], rows: RowsOf, least: Sequence[float]) -> list[int]:
    """Return the places of those for which more speaks than the least that must, most first."""
    places = [place for place, text in enumerate(older) if text in rows]
    leanings = judge().leanings(newer, [older[place] for place in places], rows)
    above = {place: leaning - least[place] for place, leaning in zip(places, leanings, strict=True)}
    return sorted((place for place in places if above[place] > 0), key=lambda place: -above[place])


@functools.cache
def judge() -> Judge:
    """Return the shipped one."""
    with open(FILE, "rb") as file:
        return Judge(msgspec.msgpack.decode(file.read(), type=NumbersFile).numbers)
