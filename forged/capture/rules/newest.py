"""Which earlier statement a newer one takes the place of, if any: the newest word wins, and only then.

In go the texts, all of one scope, with the local model's rows of them where there are any; out comes the
place of the one that holds no more, or None. What speaks for it was learnt from pairs of statements, with
rows and, for machines without the local model, by words alone (`make head`): a wrong replacement hides a
memory that still holds and a missed one leaves two side by side, of which the newer is shown as such; so the
bar lies where hardly any of those are taken that only look alike. Raises msgspec.MsgspecError for a file that
is none, and ValueError for rows of another size than those it was trained with.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from forged.capture.rules.pair import Floats, places_of, rows_of, signs_of

FILE = os.path.join(os.path.dirname(__file__), "newest.bin")
# A pair of many pieces says as much as one of few.
_WEIGHT = 4.0

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
    """What is known of pairs, by rows or words: which is a replacement, of those that are `related` at all.

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
    by_rows: Numbers
    by_words: Numbers


class Judge:
    """Numbers at work."""

    def __init__(self, numbers: Numbers) -> None:
        self.bar, self.proposed, self.doubted = numbers.bar, numbers.proposed, numbers.doubted
        self._near, self._replaces, self._related = (
            numbers.near,
            *map(_Line, (numbers.replaces, numbers.related)),
        )

    def leanings(self, newer: str, older: Sequence[str], rows: Sequence[bytes] = ()) -> Floats:
        """How much speaks for a replacement of each, in nats; nothing where they have nothing to do with it.

        `rows` are those of the older ones, and then the newer one's.
        """
        form = np.array([signs_of(newer, each) for each in older], np.float32)
        dense = form
        if rows:
            table = np.frombuffer(b"".join(rows), np.float32).reshape(len(rows), -1)
            of_rows = rows_of(np.broadcast_to(table[-1], table[:-1].shape), table[:-1])
            dense = np.hstack([of_rows, form])
        pieces = [places_of(newer, each) for each in older]
        is_near = self._related.of(dense, form.shape[1], pieces) > self._near
        return np.where(is_near, self._replaces.of(dense, form.shape[1], pieces), -np.inf).astype(np.float32)


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
        return float(self._pieces[list(places)].sum()) * _WEIGHT / math.sqrt(len(places))


class Pairs(msgspec.Struct, frozen=True):
    """Who judges pairs with rows, and those without."""

    by_rows: Judge
    by_words: Judge


def replaced_by(
    newer: str,
    older: Sequence[str],
    *,
    rows: RowsOf = NO_ROWS,
    doubt: float = 0.0,
    doubts: Sequence[float] = (),
) -> int | None:
    """Return the place of the one of `older` texts that `newer` replaces.

    So much more must speak for it as there is `doubt`, and `doubts` of each older one.
    """
    judge, places, leanings = _judged(newer, older, rows)
    against = [judge.bar + doubt + (doubts[place] if doubts else 0.0) for place in places]
    return _best(places, [each - least for each, least in zip(leanings, against, strict=True)])


def differs_from(newer: str, older: Sequence[str], *, rows: RowsOf = NO_ROWS) -> int | None:
    """Return the place of the one of `older` texts that `newer` may not hold together with."""
    judge, places, leanings = _judged(newer, older, rows)
    return _best(places, [each - judge.doubted for each in leanings])


def may_replace(newer: str, older: str, *, rows: RowsOf = NO_ROWS) -> bool:
    """Whether a replacement that a model proposes is borne out by the texts."""
    judge, _, leanings = _judged(newer, [older], rows)
    return any(each > judge.proposed for each in leanings)


def _best(places: Sequence[int], above: Sequence[float]) -> int | None:
    """The place with most above its bar, of equals the first; None where nothing is."""
    most = max(above, default=-math.inf)
    return places[above.index(most)] if most > 0 else None


def _judged(newer: str, older: Sequence[str], rows: RowsOf) -> tuple[Judge, list[int], list[float]]:
    """Who judges, which of the older texts, and what is said of these.

    Where rows are known, the texts without one are too far from the newer one to be replaced.
    """
    places = list(range(len(older)))
    if newer in rows:
        places = [place for place in places if older[place] in rows]
    judge = pairs().by_rows if newer in rows else pairs().by_words
    if not places:
        return judge, [], []
    texts = [older[place] for place in places]
    known = [rows[text] for text in (*texts, newer)] if newer in rows else []
    return judge, places, judge.leanings(newer, texts, known).tolist()


@functools.cache
def pairs() -> Pairs:
    """Return those shipped."""
    with open(FILE, "rb") as file:
        numbers = msgspec.msgpack.decode(file.read(), type=NumbersFile)
    return Pairs(Judge(numbers.by_rows), Judge(numbers.by_words))
