"""Trains the numbers by which a newer statement replaces an older one, and writes them: `make linear-models`.

Two linear functions of a pair, with the local model's rows of both texts: whether one replaces the other,
learnt from the pairs that were written, and whether they have to do with each other at all, learnt from these
and from strangers, a newer statement beside the older ones of others. The bars are chosen on pairs that a
function had not seen: each language held out, and five parts by chance. Prints what is found at each bar,
also of tests/data/minds/more, of which nothing is learnt. The same data and engine give the same file; rows
are kept in build/. What judges without rows is fitted by `slot_weights`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.capture.rules.pair_model import (
    FILE,
    Floats,
    PairFile,
    PairLine,
    PairNumbers,
    shared_feature_count,
    sign_features,
    vector_features,
    word_buckets,
)
from forged.models import LAYERS
from forged.text.linear import SIZE, feature_weight
from tests.training.fitting import Table, least, small
from tests.training.pair_data import MORE, Pair, as_kept, blind, digest, learnt_from, minds
from tests.training.train_linear_model import vectors_of

_LAYERS = len(LAYERS)
# Strangers of each newer statement, half of them of the nearer fifth; the share of all that is nearest, which
# may be about the same and is left out.
_OF_ITS_LANGUAGE, _OF_ANOTHER = 4, 3
_ALIKE, _ALIKE_ELSEWHERE = 0.04, 0.01
# How simple a function should be, more so one that may not know the language.
_RIDGE, _RIDGE_RELATED, _PARTS = np.float32(3e-3), np.float32(1e-2), 5
# What each number of a layer differs by, how alike two layers are, and each sign.
_SPREAD, _SPREAD_ALIKE, _SPREAD_SIGN = 0.2, 1.0, 0.5
# Of pairs that look alike, the most that are replaced; that a model may replace; that are doubted. Of
# strangers the most that are replaced.
_MOST, _MOST_PROPOSED, _MOST_DOUBTED, _MOST_STRANGE = 0.015, 0.05, 0.1, 0.0005

Rows = dict[str, Floats]
Which = NDArray[np.bool_]


class Function(NamedTuple):
    """One linear function: of the first columns of rows, of the signs, and of the pieces if of any."""

    rows: Floats
    signs: Floats
    pieces: Floats

    def line(self) -> PairLine:
        places, places_step = small(self.rows[_LAYERS:], np.int16)
        pieces, pieces_step = small(self.pieces, np.int8)
        alike, form = (tuple(part.tolist()) for part in (self.rows[:_LAYERS], self.signs))
        return PairLine(form, alike, places, places_step, pieces, pieces_step)


class Both(NamedTuple):
    """Whether a pair is one of a replacement, and whether it is one at all."""

    replaces: Function
    related: Function


class Set:
    """Pairs as numbers. The last sign is always 1."""

    def __init__(self, pairs: Sequence[Pair], rows: Rows) -> None:
        self.right = np.array([pair.replaces for pair in pairs], np.float32)
        self.form = np.array([sign_features(pair.newer, pair.older) for pair in pairs], np.float32)
        newer, older = (
            np.array([rows[text] for text in texts]) for texts in zip(*_texts(pairs), strict=True)
        )
        self.rows, self.related = vector_features(newer, older), shared_feature_count(newer.shape[1])
        self.places = [np.array(word_buckets(pair.newer, pair.older), np.intp) for pair in pairs]

    def table(self, which: NDArray[np.intp]) -> Table:
        places = [self.places[each] for each in which]
        counts = np.array([len(each) for each in places])
        weights = np.array([[feature_weight(count)] for count in counts], np.float32)
        begins, owners = np.r_[0, np.cumsum(counts)[:-1]], np.repeat(np.arange(len(places)), counts)
        return Table(np.concatenate(places), begins, owners, weights, SIZE)

    def of(self, function: Function, which: Which) -> Floats:
        places = np.flatnonzero(which)
        found: Floats = self.rows[places, : len(function.rows)] @ function.rows
        found += self.form[places] @ function.signs
        if len(function.pieces):
            found += self.table(places).times(function.pieces[:, None])[:, 0]
        return found

    def both(self, which: Which, strange: Which) -> Both:
        """Return the functions that those `which` teach; some of them are strangers."""
        known = which & ~strange
        replaces = self._fit(
            known, self.right, np.ones(len(known)), self.rows.shape[1], _RIDGE, with_pieces=True
        )
        shares = np.where(strange, known.sum() / max(1, (which & strange).sum()), 1.0)
        related = self._fit(which, ~strange, shares, self.related, _RIDGE_RELATED, with_pieces=False)
        return Both(replaces, related)

    def _fit(
        self,
        which: Which,
        right: NDArray[Any],
        weights: NDArray[Any],
        width: int,
        ridge: np.float32,
        *,
        with_pieces: bool,
    ) -> Function:
        seen, form = np.flatnonzero(which), self.form.shape[1]
        dense = np.hstack([self.rows[seen, :width], self.form[seen]])
        mean, scale = dense.mean(0), _spread(width, form) / (dense.std(0) + np.float32(1e-6))
        mean[-1], scale[-1] = 0.0, 1.0
        dense = (dense - mean) * scale
        shares = (weights[seen] / weights[seen].sum()).astype(np.float32)
        numbers = _least(
            dense, self.table(seen) if with_pieces else None, right[seen].astype(np.float32), shares, ridge
        )
        columns, pieces = numbers[: width + form] * scale, numbers[width + form :]
        columns[-1] -= columns @ mean
        return Function(columns[:width], columns[width:], pieces)


def _least(dense: Floats, table: Table | None, right: Floats, shares: Floats, ridge: np.float32) -> Floats:
    """Return the numbers of columns, and of pieces if there is a table of them."""
    width = dense.shape[1]

    def told(numbers: Floats) -> tuple[float, Floats]:
        scores = dense @ numbers[:width] + (table.times(numbers[width:, None])[:, 0] if table else 0)
        wrong = shares * (np.exp(-np.logaddexp(0, -scores)) - right)
        loss = float(shares @ (np.logaddexp(0, scores) - right * scores))
        slope = np.r_[dense.T @ wrong, table.back(wrong[:, None])[:, 0] if table else wrong[:0]]
        return loss + float(ridge) / 2 * float(numbers @ numbers), slope + ridge * numbers

    return least(told, np.zeros(width + (SIZE if table else 0), np.float32))


def _texts(pairs: Sequence[Pair]) -> Iterator[tuple[str, str]]:
    return ((pair.newer, pair.older) for pair in pairs)


def strangers(pairs: Sequence[Pair], rows: Rows) -> list[Pair]:
    """Each newer statement with older ones of others, in its language and in another."""
    chance, found = np.random.default_rng(1), list[Pair]()
    last = np.array([rows[pair.older][-len(rows[pair.older]) // _LAYERS :] for pair in pairs])
    languages = np.array([pair.language for pair in pairs])
    for pair in pairs:
        near, same = last @ rows[pair.newer][-last.shape[1] :], languages == pair.language
        for kind, count, alike in ((same, _OF_ITS_LANGUAGE, _ALIKE), (~same, _OF_ANOTHER, _ALIKE_ELSEWHERE)):
            there = np.flatnonzero(kind)
            far = there[np.argsort(-near[there], kind="stable")][int(len(there) * alike) :]
            nearer = chance.choice(far[: len(far) // 5], count - count // 2, replace=False)
            for place in (*nearer, *chance.choice(far, count // 2, replace=False)):
                found.append(Pair(False, pair.newer, pairs[place].older, pair.language))
    return found


def _spread(width: int, signs: int) -> Floats:
    spread = np.full(width + signs, _SPREAD, np.float32)
    spread[: min(_LAYERS, width)], spread[-signs:] = _SPREAD_ALIKE, _SPREAD_SIGN
    return spread


class Bars(NamedTuple):
    """The least of what is replaced, proposed, doubted, and related at all."""

    sure: float
    proposed: float
    doubted: float
    near: float


class Judged(NamedTuple):
    """What was said of pairs: how much speaks for a replacement, and for having to do with each other."""

    replaces: Floats
    related: Floats
    right: Which
    strange: Which

    def bars(self, most: float = _MOST) -> Bars:
        """The least bars above which no more lies of what looks alike, or of strangers."""
        near = -np.inf
        for _ in range(3):  # each depends on the other
            alike = np.sort(self.replaces[~self.right & ~self.strange & (self.related > near)])[::-1]
            count = (~self.right & ~self.strange).sum()
            sure, proposed, doubted = (
                float(alike[min(int(share * count), len(alike) - 1)])
                for share in (most, _MOST_PROPOSED, _MOST_DOUBTED)
            )
            strange = np.sort(self.related[self.strange & (self.replaces > sure)])[::-1]
            allowed = int(_MOST_STRANGE * self.strange.sum())
            near = float(strange[allowed]) if len(strange) > allowed else -np.inf
        return Bars(sure, proposed, doubted, near)

    def taken(self, bars: Bars) -> tuple[float, float, float]:
        """Of replacements, of look-alikes and of strangers: which share is replaced."""
        taken = (self.replaces > bars.sure) & (self.related > bars.near)
        kinds = (self.right, ~self.right & ~self.strange, self.strange)
        replaced, alike, strange = (float(taken[kind].mean()) if kind.any() else 0.0 for kind in kinds)
        return replaced, alike, strange

    def told(self, name: str) -> None:
        """Print the curve."""
        for most in (0.01, 0.015, 0.02, 0.03, 0.05):
            replaced, alike, strange = self.taken(self.bars(most))
            print(
                f"{name}: of look-alikes {alike:.3f}, of replacements {replaced:.3f}, "
                f"of strangers {strange:.5f}"
            )


def held_out(found: Set, judged: Which, strange: Which, parts: Sequence[Which]) -> Judged:
    """What is said of each part by functions trained without it; of `judged` and strangers alone."""
    replaces, related = np.zeros((2, len(judged)), np.float32)
    for part in parts:
        both = found.both(~part, strange)
        replaces[part], related[part] = (found.of(function, part) for function in both)
    kept = judged | strange
    return Judged(replaces[kept], related[kept], found.right[kept] > 0, strange[kept])


def parts_of(pairs: Sequence[Pair]) -> list[list[Which]]:
    """Each language, and parts by chance; a statement is in one part with all that stands beside it."""
    languages = np.array([pair.language for pair in pairs])
    texts = {text: place for place, text in enumerate(dict.fromkeys(pair.newer for pair in pairs))}
    chance = np.random.default_rng(0).integers(0, _PARTS, len(texts))
    by_chance = np.array([chance[texts[pair.newer]] for pair in pairs])
    return [
        [languages == each for each in sorted({pair.language for pair in blind()})],
        [by_chance == each for each in range(_PARTS)],
    ]


def numbers(pairs: Sequence[Pair], strange: Which, rows: Rows) -> PairNumbers:
    """Return what the pairs teach."""
    found, judged = Set(pairs, rows), np.arange(len(pairs)) < len(list(blind()))
    every = list[Bars]()
    for name, parts in zip(("by language", "by chance"), parts_of(pairs), strict=True):
        seen = held_out(found, judged, strange, parts)
        seen.told(name)
        every.append(seen.bars())
    bars = Bars(*(max(each) for each in zip(*every, strict=True)))
    both = found.both(np.ones(len(pairs), np.bool_), strange)
    more = as_kept(minds(MORE))
    unseen, all_of_it = Set(more, rows), np.ones(len(more), np.bool_)
    of_more = Judged(
        unseen.of(both.replaces, all_of_it), unseen.of(both.related, all_of_it), unseen.right > 0, ~all_of_it
    )
    of_more.told("more")
    print(f"bars {bars}: of more {of_more.taken(bars)}")
    return PairNumbers(
        bars.sure, bars.proposed, bars.doubted, bars.near, both.replaces.line(), both.related.line()
    )


def main() -> None:
    known = learnt_from()
    texts = [text for pair in (*known, *as_kept(minds(MORE))) for text in (pair.newer, pair.older)]
    rows, engine = asyncio.run(vectors_of(texts))
    pairs = [*known, *strangers(known, rows)]
    strange = np.arange(len(pairs)) >= len(known)
    written = msgspec.msgpack.encode(PairFile(digest(), engine, numbers(pairs, strange, rows)))
    Path(sys.argv[1] if len(sys.argv) > 1 else FILE).write_bytes(written)
    print(f"{len(written)} bytes, {len(known)} pairs, {engine}")


if __name__ == "__main__":
    main()
