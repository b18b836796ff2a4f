"""Trains what tells settling answers and lasting clauses, and puts both into the head's file.

`make linear-models` runs it. It learns from tests/data/answers and tests/data/clauses. With vectors each
language is judged by a function that has not seen it, else each fifth; the bar is the lowest at which enough
of what such a function takes is right. Prints the curves.
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
from forged.capture.authorship import clauses_of, sentences, without_joins
from forged.capture.linear_model import (
    FILE,
    MESSAGE_CHARS,
    LinearModelFile,
    StatementWeights,
    answer_features,
    clause_features,
)
from forged.text.linear import Weights
from forged_client.typed import resolved
from tests.training import data
from tests.training.data import DATA
from tests.training.fitting import Fitted, Floats, Rows, fit
from tests.training.train_linear_model import vectors_of

ANSWERS, CLAUSES = DATA / "answers", DATA / "clauses"
SETTLES = "settles"
# Of the answers that are taken: by words alone hardly any would be taken at the first. Of the clauses, too.
PRECISION, BY_WORDS, OF_CLAUSES = 0.88, 0.75, 0.9
_SIZE, _PARTS = 1 << 12, 5
_BRACKETS = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
# What a sentence of an answer that settles nothing counts, and the least share in brackets of one that does.
_OTHERS, _SHARE = 0.7, 0.5
_ENDS = " .!?。"
# The vector of a text, of no numbers by words alone.
_Vectors = dict[str, Floats]


class Example(NamedTuple):
    """A labelled sentence or clause, with the text around it, its form, its weight, and its language.

    Of all examples of an owner the best one is taken or not; a tab ends what several have in common.
    """

    owner: str
    language: str
    text: str
    context: str
    form: tuple[float, ...]
    is_right: bool
    weight: float = 1.0

    def part(self, *, by_language: bool) -> str:
        """The part that is judged by a function of the others: words are of one language."""
        return self.language if by_language else str(crc32(self.owner.split("\t")[0].encode()) % _PARTS)


class Labelled(NamedTuple):
    """A labelled answer, and which of its sentences settle something."""

    language: str
    answer: AnsweredQuestion
    settled: tuple[bool, ...]

    def examples(self) -> Iterator[Example]:
        """Each sentence of the answer."""
        answer, weight = self.answer, 1.0 if any(self.settled) else _OTHERS
        for text, is_right in zip(answer.sentences, self.settled, strict=True):
            form = answer_features(answer, text)
            yield Example(answer.text, self.language, text, answer.joint, form, is_right, weight)


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


def clauses(folder: Path = CLAUSES) -> Iterator[Example]:
    """The clauses and sentences of messages in which one clause at most lasts, in brackets."""
    for file in sorted(folder.glob("*.tsv")):
        for marked in file.read_text().splitlines():
            text, parts = marked.replace("[[", "").replace("]]", ""), _BRACKETS.findall(marked)
            parts = [part.strip(_ENDS) for part in parts]
            said = [*sentences(text)]
            apart = [clause for each in said for clause in clauses_of(each)]
            if len(apart) > 1:
                yield from _beside(file.stem, text, [without_joins(each) for each in apart], parts)


def _beside(language: str, message: str, apart: Sequence[str], parts: Sequence[str]) -> Iterator[Example]:
    """Each clause of a message, right if most of it is in one of the parts."""
    for text in dict.fromkeys(apart):
        is_right = any(text.strip(_ENDS) in part or _is_marked(text, (part,)) for part in parts)
        yield _clause(message, language, text, message, is_right)


def _clause(owner: str, language: str, text: str, message: str, is_right: bool) -> Example:
    context = message.strip()[:MESSAGE_CHARS]
    owner = f"{owner}\t{text}"
    return Example(owner, language, text, context, clause_features(text, context), is_right)


def sentences_beside() -> Iterator[Example]:
    """The sentences of labelled messages that have several, and of the turns of agents' lives."""
    for message in (*data.messages(), *data.turns()):
        said = [each for passage in message.passages() for each in passage.sentences]
        texts = dict.fromkeys(each.text for each in said)
        if len(texts) > 1:
            for text in texts:
                is_right = data.is_kept(text, message.keep)
                if is_right is not None:
                    language = message.language or message.store
                    yield _clause(message.id, language, text, said[0].message_text, is_right)


class Table(NamedTuple):
    """Examples as numbers: text, vectors, form, label, weight, and the place of the owner."""

    texts: list[str]
    vectors: Floats
    form: NDArray[np.float32]
    right: NDArray[np.bool_]
    weights: Floats
    owners: NDArray[np.intp]

    @classmethod
    def of(cls, found: Sequence[Example], vectors: _Vectors) -> Table:
        rows = [np.concatenate([vectors[each.text], vectors[each.context]]) for each in found if vectors]
        places = {owner: place for place, owner in enumerate(dict.fromkeys(each.owner for each in found))}
        return cls(
            [each.text for each in found],
            np.array(rows) if vectors else np.zeros((len(found), 0), np.float32),
            np.array([each.form for each in found], np.float32),
            np.array([each.is_right for each in found]),
            np.array([each.weight for each in found], np.float32),
            np.array([places[each.owner] for each in found], np.intp),
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


def trained(found: Sequence[Example], vectors: _Vectors, name: str, wanted: float) -> tuple[float, Weights]:
    """Return the bar and the function of examples; each owner counts by its best example."""
    table = Table.of(found, vectors)
    parts = np.array([each.part(by_language=bool(vectors)) for each in found])
    scores = np.zeros(len(table.texts), np.float32)
    for part in sorted(set(parts)):
        scores[parts == part] = table.take(parts != part).fitted().of(table.take(parts == part).rows())
    best = np.full(table.owners.max() + 1, -np.inf, np.float32)
    np.maximum.at(best, table.owners, scores)
    right = np.zeros(len(best), np.bool_)
    np.logical_or.at(right, table.owners, table.right)
    return _bar(best, right, name, wanted), table.fitted().weights()


def _bar(scores: Floats, right: NDArray[np.bool_], name: str, wanted: float) -> float:
    """The lowest bar at which enough is right; prints the curve."""
    order = np.argsort(-scores)
    hits = np.cumsum(right[order])
    precision = hits / np.arange(1, len(order) + 1)
    bar = np.inf
    for least in sorted({0.95, 0.85, 0.8, wanted}, reverse=True):
        good = np.nonzero(precision >= least)[0]
        if len(good):
            at, recall = int(good[-1]), hits[good[-1]] / right.sum()
            value = float(scores[order[at]])
            print(f"{name}: precision {precision[at]:.3f} recall {recall:.3f} bar {value:.2f}", flush=True)
            bar = value if least == wanted else bar
    return float(bar)


def main() -> None:
    found = [example for each in answers() for example in each.examples()]
    lasting = [*clauses(), *sentences_beside()]
    texts = [text for each in (*found, *lasting) for text in (each.text, each.context)]
    vectors, engine = asyncio.run(vectors_of(texts))
    head = msgspec.msgpack.decode(Path(FILE).read_bytes(), type=resolved(LinearModelFile))
    assert head.engine == engine, "the head was trained with another engine"

    def learnt(old: StatementWeights, vectors: _Vectors, name: str, of_answers: float) -> StatementWeights:
        settles_bar, settles = trained(found, vectors, f"{name}, answers", of_answers)
        lasts_bar, lasts = trained(lasting, vectors, f"{name}, clauses", OF_CLAUSES)
        return msgspec.structs.replace(
            old, settles_bar=settles_bar, settles=settles, lasts_bar=lasts_bar, lasts=lasts
        )

    by_rows = learnt(head.by_rows, vectors, "by rows", PRECISION)
    by_words = learnt(head.by_words, {}, "by words", BY_WORDS)
    head = msgspec.structs.replace(head, by_rows=by_rows, by_words=by_words)
    Path(FILE).write_bytes(msgspec.msgpack.encode(head))


if __name__ == "__main__":
    main()
