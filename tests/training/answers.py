"""Trains what tells answers that settle something, and puts it into the head's file: `make linear-models`.

Learns from tests/data/answers. With vectors each language is judged by a function that has not seen it, else
each fifth; the bar is the lowest at which enough of the answers that such a function takes are right. Prints
the curve.
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

from forged.capture.answers import AnsweredQuestion, has_value, question_in
from forged.capture.authorship import sentences
from forged.capture.linear_model import FILE, LinearModelFile, StatementWeights, answer_features
from forged_client.typed import resolved
from tests.training.data import DATA
from tests.training.fitting import Fitted, Floats, Rows, fit
from tests.training.train_linear_model import vectors_of

ANSWERS = DATA / "answers"
SETTLES = "settles"
# Of the answers that are taken: by words alone hardly any would be taken at the first.
PRECISION, BY_WORDS = 0.88, 0.75
_SIZE, _PARTS = 1 << 12, 5
_BRACKETS = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
# What a sentence of an answer that settles nothing counts, and the least share in brackets of one that does.
_OTHERS, _SHARE = 0.7, 0.5
# The vector of a text, of no numbers by words alone.
_Vectors = dict[str, Floats]


class Labelled(NamedTuple):
    """A labelled answer, and which of its sentences settle something."""

    language: str
    answer: AnsweredQuestion
    settled: tuple[bool, ...]

    def part(self, *, by_language: bool) -> str:
        """The part that is judged by a function of the others: words are of one language."""
        return self.language if by_language else str(crc32(self.answer.text.encode()) % _PARTS)


def answers(folder: Path = ANSWERS) -> list[Labelled]:
    """All labelled answers that have a value; others are never scored."""
    return [each for file in sorted(folder.glob("*.tsv")) for each in _of_file(file)]


def _of_file(file: Path) -> Iterator[Labelled]:
    for line in file.read_text().splitlines():
        label, asked, marked = line.split("\t")
        question = question_in([*sentences(asked)]) or (asked.strip(),)
        said = tuple(sentences(marked.replace("[[", "").replace("]]", "")))
        parts = _BRACKETS.findall(marked)
        assert (label == SETTLES) == bool(parts), line
        if said and has_value(" ".join(said)):
            yield Labelled(
                file.stem, AnsweredQuestion(question, said), tuple(_is_marked(each, parts) for each in said)
            )


def _is_marked(sentence: str, parts: Sequence[str]) -> bool:
    """Whether at least half of a sentence stands in brackets."""
    inside = sum(len(part) for part in parts if part.strip() in sentence)
    return inside >= _SHARE * len(sentence) or any(sentence in part for part in parts)


class Table(NamedTuple):
    """The sentences of answers: text, vectors, form, label, weight, and the place of the answer."""

    texts: list[str]
    vectors: Floats
    form: NDArray[np.float32]
    right: NDArray[np.bool_]
    weights: Floats
    owners: NDArray[np.intp]

    @classmethod
    def of(cls, found: Sequence[Labelled], vectors: _Vectors) -> Table:
        every = [(at, each.answer, text, is_right) for at, each in enumerate(found)
                 for text, is_right in zip(each.answer.sentences, each.settled, strict=True)]  # fmt: skip
        rows = [
            np.concatenate([vectors[text], vectors[answer.joint]]) for _, answer, text, _ in every if vectors
        ]
        return cls(
            [text for _, _, text, _ in every],
            np.array(rows) if vectors else np.zeros((len(every), 0), np.float32),
            np.array([answer_features(answer, text) for _, answer, text, _ in every], np.float32),
            np.array([is_right for *_, is_right in every]),
            np.array([1.0 if any(found[at].settled) else _OTHERS for at, *_ in every], np.float32),
            np.array([at for at, *_ in every], np.intp),
        )

    def take(self, which: NDArray[np.bool_]) -> Table:
        texts = [text for text, is_taken in zip(self.texts, which, strict=True) if is_taken]
        return Table(texts, *(column[which] for column in self[1:]))

    def rows(self) -> Rows:
        found = Rows(self.texts, self.vectors)
        found.form = self.form
        return found

    def fitted(self) -> Fitted:
        labels = np.stack([self.right, ~self.right], 1).astype(np.float32)
        yes, no = fit(self.rows(), labels, self.weights, size=_SIZE)
        return yes.less(no)


def trained(
    found: Sequence[Labelled], vectors: _Vectors, old: StatementWeights, name: str
) -> StatementWeights:
    """Return the weights with those of answers."""
    table = Table.of(found, vectors)
    parts = np.array([each.part(by_language=bool(vectors)) for each in found])[table.owners]
    scores = np.zeros(len(table.texts), np.float32)
    for part in sorted(set(parts)):
        scores[parts == part] = table.take(parts != part).fitted().of(table.take(parts == part).rows())
    best = np.full(len(found), -np.inf, np.float32)
    np.maximum.at(best, table.owners, scores)
    right = np.array([any(each.settled) for each in found])
    bar = _bar(best, right, name, PRECISION if vectors else BY_WORDS)
    return msgspec.structs.replace(old, settles_bar=bar, settles=table.fitted().weights())


def _bar(scores: Floats, right: NDArray[np.bool_], name: str, wanted: float) -> float:
    """The lowest bar at which enough is right; prints the curve."""
    order = np.argsort(-scores)
    hits = np.cumsum(right[order])
    precision = hits / np.arange(1, len(order) + 1)
    bar = np.inf
    for least in sorted({0.95, 0.85, PRECISION, BY_WORDS}, reverse=True):
        good = np.nonzero(precision >= least)[0]
        if len(good):
            at, recall = int(good[-1]), hits[good[-1]] / right.sum()
            value = float(scores[order[at]])
            print(f"{name}: precision {precision[at]:.3f} recall {recall:.3f} bar {value:.2f}", flush=True)
            bar = value if least == wanted else bar
    return float(bar)


def main() -> None:
    found = answers()
    texts = [text for each in found for text in (each.answer.joint, *each.answer.sentences)]
    vectors, engine = asyncio.run(vectors_of(texts))
    head = msgspec.msgpack.decode(Path(FILE).read_bytes(), type=resolved(LinearModelFile))
    assert head.engine == engine, "the head was trained with another engine"
    by_rows = trained(found, vectors, head.by_rows, "by rows")
    by_words = trained(found, {}, head.by_words, "by words")
    head = msgspec.structs.replace(head, by_rows=by_rows, by_words=by_words)
    Path(FILE).write_bytes(msgspec.msgpack.encode(head))


if __name__ == "__main__":
    main()
