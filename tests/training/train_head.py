"""Trains the head and writes it: `make head`. Prints what it reaches on messages that were held out.

The bar is chosen on five parts of the development half, each judged by a head that was trained without it;
then all is trained together. The same data and engine give the same file; vectors are kept in build/.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.capture.head.choosing import score
from forged.capture.head.head import FILE, HeadFile
from forged.capture.head.units import Unit
from forged.memory import Category
from forged.models import Purpose
from forged.models.local import local_embedder
from tests.training import data
from tests.training.fitting import Fitted, Floats, Rows, fit

BUILD = Path(__file__).parents[2] / "build"
FOLDS, PRECISION = 5, 0.95


async def vectors_of(texts: Sequence[str]) -> tuple[dict[str, NDArray[np.float32]], str]:
    """The rows of all texts, as queries, and what made them."""
    cache = BUILD / "head-vectors.pickle"
    embedder = local_embedder(BUILD / "head-model")
    await embedder.prepare()
    await embedder.embed(["begin"], purpose=Purpose("build"))
    kept = pickle.loads(cache.read_bytes()) if cache.exists() else {}
    rows: dict[str, NDArray[np.float32]] = kept.get(embedder.key, {})
    missing = [text for text in dict.fromkeys(texts) if text not in rows]
    for first in range(0, len(missing), 64):
        some = missing[first : first + 64]
        rows.update(zip(some, await embedder.embed(some, "query", purpose=Purpose("build")), strict=True))
    cache.write_bytes(pickle.dumps({**kept, embedder.key: rows}))
    await embedder.aclose()
    return rows, embedder.engine


def question(
    found: Sequence[data.Example], answer: Callable[[data.Example], bool | None]
) -> tuple[Floats, Floats]:
    """What is right, and what each counts; nothing where it is not known."""
    answers = [answer(each) for each in found]
    weights = [0.0 if told is None else each.weight for each, told in zip(found, answers, strict=True)]
    return np.array([bool(told) for told in answers], float), np.array(weights)


def held_out(
    found: Sequence[data.Example], rows: Rows, said: Sequence[data.Message], of: Callable[[str], Floats]
) -> list[tuple[float, int, Unit]]:
    """The units of all messages with the score by a head that has not seen them, best first."""
    right, weights = question(found, lambda each: each.keep)
    fold = np.random.default_rng(0).integers(0, FOLDS, len(said))
    places = np.array([each.message for each in found])
    scored: list[tuple[float, int, Unit]] = []
    for one in range(FOLDS):
        train = np.flatnonzero((weights > 0) & ((places < 0) | (fold[places] != one)))
        keep = fit(rows.take(train), right[train], weights[train])
        texts = [
            each.text for each, place in zip(found, places, strict=True) if place >= 0 and fold[place] == one
        ]
        values = dict(zip(texts, keep.of(Rows(texts, np.array([of(text) for text in texts]))), strict=True))
        for place in np.flatnonzero(fold == one):
            scored += [(score(unit, values.__getitem__), int(place), unit) for unit in said[place].units()]
    return sorted(scored, key=lambda each: -each[0])


def bar_of(scored: Sequence[tuple[float, int, Unit]], said: Sequence[data.Message]) -> float:
    """The lowest bar at which enough of what is kept is right."""
    bar, right, hit, wanted = np.inf, 0, set[tuple[int, int]](), sum(len(each.keep) for each in said)
    for count, (value, place, unit) in enumerate(scored, 1):
        notes = [number for number, note in enumerate(said[place].keep) if note.is_in(unit.text)]
        right += bool(notes)
        hit |= {(place, number) for number in notes}
        if right >= PRECISION * count:
            bar, told = (
                value,
                f"recall {len(hit) / wanted:.3f} at precision {right / count:.3f}, {count} kept",
            )
    print(f"held out: {told}, bar {bar:.3f}")
    return float(bar)


def main() -> None:
    BUILD.mkdir(exist_ok=True)
    said = data.messages()
    found = data.examples(said)
    vectors, engine = asyncio.run(vectors_of([each.text for each in found]))
    rows = Rows([each.text for each in found], np.array([vectors[each.text] for each in found]))
    bar = bar_of(held_out(found, rows, said, vectors.__getitem__), said)

    def fitted(answer: Callable[[data.Example], bool | None], *, with_pieces: bool = True) -> Fitted:
        right, weights = question(found, answer)
        known = np.flatnonzero(weights > 0)
        return fit(rows.take(known), right[known], weights[known], with_pieces=with_pieces)

    def scope(each: data.Example) -> bool | None:
        return None if each.scope == "-" else each.scope == "user"

    def of_category(name: str) -> Callable[[data.Example], bool | None]:
        return lambda each: None if each.category == "-" else each.category == name

    file = HeadFile(
        data=data.digest(),
        engine=engine,
        bar=bar,
        keep=fitted(lambda each: each.keep).output(),
        explicit=fitted(lambda each: each.explicit).output(),
        user=fitted(scope, with_pieces=False).output(with_pieces=False),
        categories={
            name: fitted(of_category(name), with_pieces=False).output(with_pieces=False)
            for name in Category
            if any(each.category == name for each in found)
        },
    )
    written = msgspec.msgpack.encode(file)
    Path(sys.argv[1] if len(sys.argv) > 1 else FILE).write_bytes(written)
    print(f"{len(written)} bytes, {len(found)} texts, {engine}")


if __name__ == "__main__":
    main()
