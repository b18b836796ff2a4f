"""Trains the numbers by which a newer statement replaces an older one, and writes them: `make linear-models`.

First two linear functions of a pair, with the local model's rows of both texts: whether one replaces the
other, learnt from the pairs that were written, and whether they have to do with each other at all, learnt
from these and from strangers, a newer statement beside the older ones of others. Then two small networks over
the signs of a pair: one also reads both functions, each pair by functions that had not seen it, and one reads
no rows. The bars are chosen on pairs that a network had not seen. Prints what is found at each bar, also of
tests/data/minds/more, of which nothing is learnt. The same data and engine give the same file; rows are kept
in build/.
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
    PairJudge,
    PairLine,
    PairNetwork,
    judge_features,
    shared_feature_count,
    sign_features,
    vector_features,
    word_buckets,
)
from forged.models import LAYERS
from forged.text.linear import SIZE, feature_weight
from tests.training.fitting import Table, least, small
from tests.training.pair_data import MORE, Pair, as_kept, digest, learnt_from, minds, of_other_chats
from tests.training.train_linear_model import vectors_of

_LAYERS = len(LAYERS)
# Strangers of each newer statement, half of them of the nearer fifth; the share of all that is nearest, which
# may be about the same and is left out.
_OF_ITS_LANGUAGE, _OF_ANOTHER = 2, 1
_ALIKE, _ALIKE_ELSEWHERE = 0.04, 0.01
# How simple a function should be, more so one that may not know the language.
_RIDGE, _RIDGE_RELATED, _PARTS = np.float32(3e-3), np.float32(1e-2), 5
# What each number of a layer differs by, how alike two layers are, and each sign.
_SPREAD, _SPREAD_ALIKE, _SPREAD_SIGN = 0.2, 1.0, 0.5
# Of pairs that look alike, the most that are replaced; that a model may replace; that are doubted.
_MOST, _MOST_PROPOSED, _MOST_DOUBTED = 0.04, 0.06, 0.12
# Networks that are averaged, units of each, rounds, how simple they should be, and weight of all strangers.
_NETWORKS, _UNITS, _ROUNDS, _SIMPLE, _STRANGE = 4, 16, 25, 3e-3, 0.5
_BATCH, _STEP = 64, 2e-3

Rows = dict[str, Floats]
Which = NDArray[np.bool_]
Doubles = NDArray[np.float64]


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
        self.judged = np.array([judge_features(pair.newer, pair.older) for pair in pairs], np.float32)
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

    def lines(self, both: Both, which: Which) -> Floats:
        return np.stack([self.of(function, which) for function in both], axis=1)

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
                found.append(pair._replace(replaces=False, older=pairs[place].older))
    return found


def _spread(width: int, signs: int) -> Floats:
    spread = np.full(width + signs, _SPREAD, np.float32)
    spread[: min(_LAYERS, width)], spread[-signs:] = _SPREAD_ALIKE, _SPREAD_SIGN
    return spread


class Network(NamedTuple):
    """Networks with one hidden layer each, side by side: their mean."""

    hidden: Floats
    output: Floats

    def of(self, form: Floats) -> Floats:
        return np.array(PairJudge(self.packed(0.0, 0.0, 0.0)).scores(form), np.float32)

    def packed(self, bar: float, proposed: float, doubted: float) -> PairNetwork:
        return PairNetwork(bar, proposed, doubted, self.hidden.tobytes(), self.output.tobytes())


def network(form: Floats, right: Floats, weights: Floats) -> Network:
    """Return what pairs teach: the mean of a few networks that began otherwise."""
    mean, spread = form.mean(0), form.std(0) + np.float32(1e-3)
    scaled = ((form - mean) / spread).astype(np.float64)
    every = [_one_network(scaled, right, weights, seed) for seed in range(_NETWORKS)]
    hidden = np.hstack([each[0] for each in every]) / spread[:, None]
    begins = np.concatenate([each[1] for each in every]) - mean @ hidden
    output = np.r_[np.concatenate([each[2] for each in every]), sum(each[3] for each in every)] / _NETWORKS
    return Network(np.vstack([hidden, begins]).astype(np.float32), output.astype(np.float32))


def _one_network(form: Doubles, right: Floats, weights: Floats, seed: int) -> tuple[Any, ...]:
    """Descend by Adam; a unit is 0 below 0."""
    chance, (count, width) = np.random.default_rng(seed), form.shape
    parts = [
        chance.normal(0, width**-0.5, (width, _UNITS)),
        np.zeros(_UNITS),
        chance.normal(0, _UNITS**-0.5, _UNITS),
        np.zeros(1),
    ]
    means, squares, step = [np.zeros_like(each) for each in parts], [np.zeros_like(each) for each in parts], 0
    for _ in range(_ROUNDS):
        order = chance.permutation(count)
        for first in range(0, count, _BATCH):
            some, step = order[first : first + _BATCH], step + 1
            before = form[some] @ parts[0] + parts[1]
            units = np.maximum(before, 0)
            said = 1 / (1 + np.exp(-np.clip(units @ parts[2] + parts[3], -30, 30)))
            wrong = weights[some] * (said - right[some]) / len(some)
            back = np.outer(wrong, parts[2]) * (before > 0)
            slopes = [
                form[some].T @ back + _SIMPLE * parts[0],
                back.sum(0),
                units.T @ wrong + _SIMPLE * parts[2],
                wrong.sum(keepdims=True),
            ]
            for place, slope in enumerate(slopes):
                means[place] = 0.9 * means[place] + 0.1 * slope
                squares[place] = 0.999 * squares[place] + 0.001 * slope**2
                size = np.sqrt(squares[place] / (1 - 0.999**step)) + 1e-8
                parts[place] = parts[place] - _STEP * means[place] / (1 - 0.9**step) / size
    return (*parts[:3], float(parts[3][0]))


class Judged(NamedTuple):
    """What was said of pairs that were not learnt from."""

    scores: Floats
    right: Which
    strange: Which

    def bar(self, most: float) -> float:
        """The least bar above which no more lies of what looks alike."""
        alike = np.sort(self.scores[~self.right & ~self.strange])[::-1]
        return float(alike[min(int(most * len(alike)), len(alike) - 1)])

    def taken(self, bar: float) -> tuple[float, ...]:
        """Of replacements, of look-alikes and of strangers: which share is replaced."""
        kinds = (self.right, ~self.right & ~self.strange, self.strange)
        return tuple(float((self.scores[kind] > bar).mean()) if kind.any() else 0.0 for kind in kinds)

    def told(self, name: str) -> None:
        """Print the curve."""
        for most in (0.01, 0.015, 0.02, 0.03, 0.05, 0.1):
            replaced, alike, strange = self.taken(self.bar(most))
            print(
                f"{name}: of look-alikes {alike:.3f}, of replacements {replaced:.3f}, "
                f"of strangers {strange:.5f}, bar {self.bar(most):.2f}"
            )


def parts_of(pairs: Sequence[Pair]) -> list[Which]:
    """Parts by chance; a statement, or a scenario, is in one part with all that it is compared with."""
    groups = [pair.scenario or pair.newer for pair in pairs]
    places = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    chance = np.random.default_rng(0).integers(0, _PARTS, len(places))
    by_chance = np.array([chance[places[group]] for group in groups])
    return [by_chance == each for each in range(_PARTS)]


def judge(
    name: str, form: Floats, found: Set, strange: Which, parts: Sequence[Which]
) -> tuple[Network, Judged]:
    """Return the network that all pairs teach, and what each part's pairs get from one without them."""
    weights = np.where(strange, _STRANGE * (~strange).sum() / max(1, strange.sum()), 1.0).astype(np.float32)
    scores = np.zeros(len(form), np.float32)
    for part in parts:
        scores[part] = network(form[~part], found.right[~part], weights[~part]).of(form[part])
    seen = Judged(scores, found.right > 0, strange)
    seen.told(name)
    return network(form, found.right, weights), seen


def main() -> None:
    known = learnt_from()
    more = as_kept(minds(MORE))
    others = of_other_chats()
    texts = [text for pair in (*known, *others, *more) for text in (pair.newer, pair.older)]
    rows, engine = asyncio.run(vectors_of(texts))
    pairs = [*known, *strangers(known, rows), *others]
    strange, found = np.arange(len(pairs)) >= len(known), Set(pairs, rows)
    parts, lines = parts_of(pairs), np.zeros((len(pairs), 2), np.float32)
    for part in parts:
        lines[part] = found.lines(found.both(~part, strange), part)
    both = found.both(np.ones(len(pairs), np.bool_), strange)
    unseen, all_of_it = Set(more, rows), np.ones(len(more), np.bool_)
    of_more = unseen.lines(both, all_of_it)
    packed = list[PairNetwork]()
    for name, form, new in (
        ("by rows", np.hstack([found.judged, lines]), np.hstack([unseen.judged, of_more])),
        ("by words", found.judged, unseen.judged),
    ):
        one, seen = judge(name, form, found, strange, parts)
        bars = [seen.bar(most) for most in (_MOST, _MOST_PROPOSED, _MOST_DOUBTED)]
        told = Judged(one.of(new), unseen.right > 0, ~all_of_it)
        print(f"{name}, bars {bars}: of more {[told.taken(bar) for bar in bars]}")
        packed.append(one.packed(*bars))
    file = PairFile(digest(), engine, both.replaces.line(), both.related.line(), *packed)
    written = msgspec.msgpack.encode(file)
    Path(sys.argv[1] if len(sys.argv) > 1 else FILE).write_bytes(written)
    print(f"{len(written)} bytes, {len(known)} pairs, {engine}")


if __name__ == "__main__":
    main()
