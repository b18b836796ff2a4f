"""Trains the head and writes it: `make linear-models`. Prints what it reaches on messages that were held out.

The bar is chosen on five parts of the development halves, each judged by a head that was trained without it;
a store's turns are all in one part. It is the lowest at which enough of what is kept of the messages is
right, and hardly any turn is kept. Then all is trained together. The same data and engine give the same
file; vectors and the heads of the parts are kept in build/, where `python -m tests.training.compare` finds
them.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import inf, sqrt
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.capture.linear_model import (
    FILE,
    LinearModelFile,
    StatementScorer,
    StatementWeights,
    passage_score,
    request_score,
    select_passages,
)
from forged.models import Purpose
from forged.models.local import local_embedder
from forged.text.linear import SIZE, Weights
from tests.training import data
from tests.training.fitting import Fitted, Floats, Rows, fit

BUILD = Path(__file__).parents[2] / "build"
HELD_OUT = BUILD / "head-parts.msgpack"
FOLDS, PRECISION = 5, 0.96
# Of what is taken for a request: it comes on top of what is kept anyway. By words too few would be taken.
ASKED_PRECISION, ASKED_BY_WORDS = 0.98, 0.97
# Of a hundred turns that say nothing to keep: a day of two hundred leaves three memories that nobody needs.
_MOST_TURNS = 0.015
# Bars are told apart where so many are kept; what pieces say of fourteen kinds takes a smaller table.
_FEW, _SMALL = 50, 1 << 12

# The score of a unit, the notes that it keeps, and its message.
Scored = tuple[float, list[int], int]


async def vectors_of(texts: Sequence[str]) -> tuple[dict[str, Floats], str]:
    """The rows of all texts, of the model's layers, and what made them."""
    BUILD.mkdir(exist_ok=True)
    cache = BUILD / "head-vectors.pickle"
    embedder = local_embedder(BUILD / "head-model")
    await embedder.prepare()
    await embedder.embed(["begin"], "layers", purpose=Purpose("build"))
    kept = pickle.loads(cache.read_bytes()) if cache.exists() else {}
    rows: dict[str, Floats] = kept.get(embedder.key, {})
    missing = [text for text in dict.fromkeys(texts) if text not in rows]
    for first in range(0, len(missing), 64):
        some = missing[first : first + 64]
        rows.update(zip(some, await embedder.embed(some, "layers", purpose=Purpose("build")), strict=True))
    cache.write_bytes(pickle.dumps({**kept, embedder.key: rows}))
    await embedder.aclose()
    return rows, embedder.engine


def trained(
    found: Sequence[data.Example], rows: Rows, bar: float = inf, asked_bar: float = inf
) -> StatementWeights:
    """Return what these examples teach."""

    def fitted(answers: Sequence[Sequence[bool] | None], size: int) -> list[Fitted]:
        known = np.array([place for place, answer in enumerate(answers) if answer is not None], np.intp)
        right = np.array([answers[place] for place in known], np.float32)
        return fit(rows.take(known), right, np.array([found[place].weight for place in known]), size=size)

    keep, drop = fitted([None if one.keep is None else (one.keep, not one.keep) for one in found], SIZE)
    asks, asks_not = fitted([one.asks() for one in found], SIZE)
    names = (*data.KEPT, *data.OTHERS)
    kinds = fitted(
        [None if one.keep is None else [name in one.kinds() for name in names] for one in found], _SMALL
    )
    user, repo = fitted(
        [None if one.scope == "-" else (one.scope == "user", one.scope != "user") for one in found], _SMALL
    )
    by_kind = {name: each.weights() for name, each in zip(names, kinds, strict=True)}
    none = Weights(b"", 0.0, ())  # `tests.training.answers` puts these in
    return StatementWeights(
        bar=bar,
        asked_bar=asked_bar,
        settles_bar=inf,
        settles=none,
        lasts_bar=inf,
        lasts=none,
        keep=keep.less(drop).weights(),
        asks=asks.less(asks_not).weights(),
        kept={name: by_kind[name] for name in data.KEPT},
        others={name: by_kind[name] for name in data.OTHERS},
        user=user.less(repo).weights(),
    )


class Point(NamedTuple):
    """A bar, and what is kept at it: how much of it is right, how much of what is wanted, of which turns."""

    bar: float
    precision: float
    recall: float
    kept: int
    turns: float

    def is_good(self) -> bool:
        """Enough of what is kept is right, one standard error taken off, and few turns are kept."""
        error = sqrt(self.precision * (1 - self.precision) / self.kept) if self.kept else 1.0
        return self._is_reported() and self.precision - error >= PRECISION

    def is_good_to_ask(self, least: float) -> bool:
        """Hardly anything of what is taken for a request is none, and few turns are taken for one."""
        return self._is_reported() and self.precision >= least

    def _is_reported(self) -> bool:
        return self.kept >= _FEW and self.turns <= _MOST_TURNS


def parts(said: Sequence[data.Message]) -> NDArray[np.int64]:
    """Return in which part each message is."""
    by_chance = np.random.default_rng(0).integers(0, FOLDS, len(said))
    ours = [crc32(each.store.encode()) % FOLDS if each.store else -1 for each in said]
    return np.where(np.array(ours) < 0, by_chance, ours)


def held_out(
    said: Sequence[data.Message], numbers: Sequence[StatementWeights], rows: dict[str, Floats]
) -> tuple[list[Scored], list[Scored]]:
    """What would be kept of all messages at no bar, and which ask, by who has not seen them; best first."""
    kept, asked = list[Scored](), list[Scored]()
    judges, part = [StatementScorer(each) for each in numbers], parts(said)
    for place, message in enumerate(said):
        found_here, judge = message.passages(), judges[part[place]]
        texts = {text for passage in found_here for text in passage.texts()}
        judged = {text: judge.scores(text, rows[text].tobytes() if rows else b"") for text in texts}
        keep = {text: each.keep for text, each in judged.items()}.__getitem__
        for passage in select_passages(found_here, keep, -inf):
            notes = [number for number, note in enumerate(message.keep) if note.is_in(passage.text)]
            kept.append((passage_score(passage, keep), notes, place))
        if found_here:
            asked.append((request_score(found_here, judged), [*range(len(message.keep))], place))
    return sorted(kept, key=lambda each: -each[0]), sorted(asked, key=lambda each: -each[0])


def bar_of(
    found: Sequence[Scored], said: Sequence[data.Message], is_good: Callable[[Point], bool] = Point.is_good
) -> float:
    """The lowest bar that is good."""
    return min(point.bar for point in curve(found, said) if is_good(point))


def curve(found: Sequence[Scored], said: Sequence[data.Message]) -> Iterator[Point]:
    """Every bar, from the highest."""
    right, count, hit, turns = 0, 0, set[tuple[int, int]](), set[int]()
    wanted, all_turns = sum(len(each.keep) for each in said), sum(bool(each.store) for each in said)
    for (value, notes, place), (after, *_) in pairwise([*found, (-inf, [], -1)]):
        if said[place].store:
            turns.add(place)
        else:
            count, right = count + 1, right + bool(notes)
        hit |= {(place, number) for number in notes}
        bar = (value + max(after, value - 1)) / 2
        yield Point(bar, right / max(count, 1), len(hit) / wanted, count, len(turns) / max(all_turns, 1))


def reported(found: Sequence[Scored], said: Sequence[data.Message]) -> None:
    """Print the curve."""
    points = list(curve(found, said))
    for least in (0.98, 0.97, 0.96, 0.95, 0.92, 0.9, 0.85, 0.8, 0.7):
        best = max(
            (each for each in points if each.precision >= least), key=lambda each: each.recall, default=None
        )
        if best:
            print("precision {1:.3f} recall {2:.3f} bar {0:.2f} ({3} kept, of turns {4:.3f})".format(*best))


def main() -> None:
    said = [*data.messages(), *data.turns()]
    found = data.examples(said)
    texts = [each.text for each in found]
    vectors, engine = asyncio.run(vectors_of([*texts, *(text for each in said for text in each.texts())]))
    ways: tuple[tuple[str, dict[str, Floats], Rows], ...] = (
        ("by rows", vectors, Rows(texts, np.array([vectors[text] for text in texts]))),
        ("by words", {}, Rows(texts, np.zeros((len(texts), 0), np.float32))),
    )
    learnt = [_learnt(name, said, found, by_text, rows) for name, by_text, rows in ways]
    heads = [
        LinearModelFile(data=data.digest(), engine=engine, by_rows=by_rows, by_words=by_words)
        for by_rows, by_words in zip(*learnt, strict=True)
    ]
    HELD_OUT.write_bytes(msgspec.msgpack.encode(heads[:-1]))
    written = msgspec.msgpack.encode(heads[-1])
    Path(sys.argv[1] if len(sys.argv) > 1 else FILE).write_bytes(written)
    print(f"{len(written)} bytes, {len(found)} texts, {engine}")


def _learnt(
    name: str,
    said: Sequence[data.Message],
    found: Sequence[data.Example],
    vectors: dict[str, Floats],
    rows: Rows,
) -> list[StatementWeights]:
    """The numbers of each part, which lack what is in it, and of all, each with the bars."""
    places, part = np.array([each.message for each in found]), parts(said)
    numbers: list[StatementWeights] = []
    for one in range(FOLDS):
        seen = np.flatnonzero((places < 0) | (part[places] != one))
        numbers.append(trained([found[int(each)] for each in seen], rows.take(seen)))
        print(f"{name}: part {one + 1} of {FOLDS}", flush=True)
    kept, asked = held_out(said, numbers, vectors)
    for what, scored in (("kept", kept), ("asked", asked)):
        print(f"{name}, {what}:")
        reported(scored, said)
    least = ASKED_PRECISION if vectors else ASKED_BY_WORDS
    bar, asked_bar = bar_of(kept, said), bar_of(asked, said, lambda point: point.is_good_to_ask(least))
    print(f"{name}: bar {bar:.3f}, of requests {asked_bar:.3f}", flush=True)
    return [
        msgspec.structs.replace(each, bar=bar, asked_bar=asked_bar)
        for each in (*numbers, trained(found, rows))
    ]


if __name__ == "__main__":
    main()
