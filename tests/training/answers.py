"""Trains what tells answers that settle something, and puts it into the head's file: `make linear-models`.

Learns from tests/data/answers, of each language held out in turn; the bar is the lowest at which enough of
what such a function takes is right. Prints the curve. `make linear-models` runs it last.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.capture.answers import has_value, question_in
from forged.capture.authorship import sentences
from forged.capture.linear_model import (
    FILE,
    LinearModelFile,
    StatementWeights,
    answer_features,
    form_features,
    with_question,
)
from forged_client.typed import resolved
from tests.training.data import DATA
from tests.training.fitting import Fitted, Floats, Rows, fit
from tests.training.train_linear_model import vectors_of

ANSWERS = DATA / "answers"
SETTLES = "settles"
# Of what is taken: by words alone hardly anything would be taken at the first.
PRECISION, BY_WORDS = 0.92, 0.8
_SIZE = 1 << 12
_BRACKETS = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
# What a sentence of an answer that settles nothing counts, and the least share in brackets of one that does.
_OTHERS, _SHARE = 0.5, 0.5


class Answer(NamedTuple):
    """A labelled answer: the question's sentences, its own, and which of them settle something."""

    language: str
    question: tuple[str, ...]
    text: str
    sentences: tuple[str, ...]
    settled: tuple[bool, ...]
    settles: bool

    @property
    def joint(self) -> str:
        return with_question(self.question, self.text)


def answers(folder: Path = ANSWERS) -> list[Answer]:
    """All labelled answers that have a value; others are never scored."""
    return [each for file in sorted(folder.glob("*.tsv")) for each in _of_file(file)]


def _of_file(file: Path) -> Iterator[Answer]:
    for line in file.read_text().splitlines():
        label, asked, marked = line.split("\t")
        question = question_in([*sentences(asked)]) or (asked.strip(),)
        said = tuple(sentences(marked.replace("[[", "").replace("]]", "")))
        parts = _BRACKETS.findall(marked)
        settled = tuple(_is_marked(each, parts) for each in said)
        text = " ".join(said)
        if said and has_value(text):
            yield Answer(file.stem, question, text, said, settled, label == SETTLES)


def _is_marked(sentence: str, parts: Sequence[str]) -> bool:
    """Whether at least half of a sentence stands in brackets."""
    inside = sum(len(part) for part in parts if part.strip() in sentence)
    return inside >= _SHARE * len(sentence) or any(sentence in part for part in parts)


def _fitted(
    texts: Sequence[str],
    vectors: Floats,
    form: NDArray[np.float32],
    right: Sequence[bool],
    weights: Sequence[float],
) -> Fitted:
    rows = Rows(texts, vectors, lambda _: (1.0,))
    rows.form = form
    labels = np.array([(each, not each) for each in right], np.float32)
    yes, no = fit(rows, labels, np.array(weights), size=_SIZE)
    return yes.less(no)


def _of(found: Fitted, texts: Sequence[str], vectors: Floats, form: NDArray[np.float32]) -> Floats:
    rows = Rows(texts, vectors, lambda _: (1.0,))
    rows.form = form
    return found.of(rows)


class _Table(NamedTuple):
    """Texts with vectors and form, labels and weights."""

    texts: list[str]
    vectors: Floats
    form: NDArray[np.float32]
    right: list[bool]
    weights: list[float]

    def take(self, which: Sequence[int]) -> _Table:
        at = np.array(which, np.intp)
        return _Table(
            [self.texts[each] for each in which], self.vectors[at], self.form[at],
            [self.right[each] for each in which], [self.weights[each] for each in which],
        )  # fmt: skip

    def fitted(self) -> Fitted:
        return _fitted(self.texts, self.vectors, self.form, self.right, self.weights)


def _tables(found: Sequence[Answer], rows: dict[str, Floats]) -> tuple[_Table, _Table, list[int]]:
    """The answers as a table, their sentences as another, and whose each sentence is."""

    def vectors(texts: Sequence[str]) -> Floats:
        return np.array([rows[each] for each in texts]) if rows else np.zeros((len(texts), 0), np.float32)

    whole = _Table(
        [each.text for each in found],
        vectors([each.joint for each in found]),
        np.array([answer_features(each.question, each.text) for each in found], np.float32),
        [each.settles for each in found],
        [1.0] * len(found),
    )
    parts = [(at, text, settled) for at, each in enumerate(found)
             for text, settled in zip(each.sentences, each.settled, strict=True)]  # fmt: skip
    texts = [text for _, text, _ in parts]
    split = _Table(
        texts,
        vectors(texts),
        np.array([form_features(each) for each in texts], np.float32),
        [settled for *_, settled in parts],
        [1.0 if found[at].settles else _OTHERS for at, *_ in parts],
    )
    return whole, split, [at for at, *_ in parts]


def _bar(scores: Floats, right: Sequence[bool], name: str, wanted: float) -> float:
    """The lowest bar at which enough is right; prints the curve."""
    order = np.argsort(-scores)
    hits = np.cumsum(np.array(right)[order])
    precision = hits / np.arange(1, len(order) + 1)
    best = 0
    for least in (0.98, 0.95, PRECISION, 0.85, BY_WORDS):
        good = np.nonzero(precision >= least)[0]
        if len(good):
            at = int(good[-1])
            print(
                f"{name}: precision {precision[at]:.3f} recall {hits[at] / sum(right):.3f} "
                f"bar {scores[order[at]]:.2f} ({at + 1})",
                flush=True,
            )
            best = at if least == wanted else best
    return float(scores[order[best]])


def _parts(found: Sequence[Answer], *, by_language: bool) -> list[str]:
    """In which part each answer is that another part's function judges: words are of one language."""
    if by_language:
        return [each.language for each in found]
    return [str(crc32(each.text.encode()) % 5) for each in found]


def trained(
    found: Sequence[Answer], rows: dict[str, Floats], old: StatementWeights, name: str
) -> StatementWeights:
    """Return the weights with those of answers."""
    whole, split, owners = _tables(found, rows)
    scores, of_split = np.zeros(len(found), np.float32), np.zeros(len(owners), np.float32)
    for part in sorted(set(parts := _parts(found, by_language=bool(rows)))):
        mine = [at for at, each in enumerate(parts) if each == part]
        others = [at for at, each in enumerate(parts) if each != part]
        tested = whole.take(mine)
        scores[mine] = _of(whole.take(others).fitted(), tested.texts, tested.vectors, tested.form)
        inside = [at for at, owner in enumerate(owners) if parts[owner] == part]
        outside = [at for at, owner in enumerate(owners) if parts[owner] != part]
        tested = split.take(inside)
        of_split[inside] = _of(split.take(outside).fitted(), tested.texts, tested.vectors, tested.form)
    wanted = PRECISION if rows else BY_WORDS
    bar = _bar(scores, whole.right, f"{name}, answers", wanted)
    own = [at for at, owner in enumerate(owners) if found[owner].settles]
    _bar(of_split[own], [split.right[at] for at in own], f"{name}, sentences", wanted)
    return msgspec.structs.replace(
        old, settles_bar=bar, settles=whole.fitted().weights(), settled=split.fitted().weights()
    )


def main() -> None:
    found = answers()
    texts = [each.joint for each in found] + [text for each in found for text in each.sentences]
    rows, engine = asyncio.run(vectors_of(texts))
    head = msgspec.msgpack.decode(Path(FILE).read_bytes(), type=resolved(LinearModelFile))
    assert head.engine == engine, "the head was trained with another engine"
    head = msgspec.structs.replace(
        head,
        by_rows=trained(found, rows, head.by_rows, "by rows"),
        by_words=trained(found, {}, head.by_words, "by words"),
    )
    Path(FILE).write_bytes(msgspec.msgpack.encode(head))


if __name__ == "__main__":
    main()
