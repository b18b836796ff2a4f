"""Rules, head and both, with the local model and by words, each judging what it has not seen.

`python -m tests.training.compare` after `make linear-models`, which leaves the heads of the parts in build/:
on the development half and on turns of agents' lives, of which nothing is to be kept. The shipped head was
trained with both too, so `make eval ARGS=tests/data/said/dev` flatters it; this does not. `said/more` was
written when all else stood, and `first words` are the plainest things that people say
(`tests/data/first_words`); of these the shipped head has learnt nothing. With `--closing` on the sealed half,
by the shipped head: a closing run, which `tests.evaluation.closing` counts and records. What the head alone
would keep is text without scope and category, whose columns say nothing there.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from forged.capture.linear_model import (
    FILE,
    LinearModel,
    LinearModelFile,
    StatementScorer,
    StatementWeights,
    linear_model,
    select_passages,
)
from forged.capture.local_classifier import LocalClassifier
from forged.capture.rules.engine import RuleClassifier
from forged.capture.values import Classified, Proposal
from forged.memory import Origin
from forged.state import Event
from tests.evaluation.closing import allowed, begin, end
from tests.training import data
from tests.training.fitting import Floats
from tests.training.train_linear_model import HELD_OUT, parts, vectors_of

_HEADINGS = ("kept", "precision", "recall", "explicit", "scope", "category", "refused", "silent")
Answer = Callable[[data.Message, LinearModel], Classified]


class Outcome(NamedTuple):
    """A message and what comes of it."""

    message: data.Message
    found: Classified

    def keeper(self, note: data.Note) -> Proposal | None:
        return next((each for each in self.found.proposals if note.is_in(each.content)), None)

    def right(self) -> int:
        return sum(
            any(note.is_in(each.content) for note in self.message.keep) for each in self.found.proposals
        )

    def is_silent(self) -> bool:
        """Whether something was asked for and neither kept nor refused."""
        asked = any(note.explicit for note in self.message.keep)
        return asked and not self.found.proposals and not self.found.refused


def answers(vectors: dict[str, Floats]) -> dict[str, Answer]:
    """The four ways."""

    def rows(_: str, texts: Sequence[str]) -> list[bytes]:
        return [vectors[text].tobytes() for text in texts]

    def no_rows(*_: object) -> tuple[bytes, ...]:
        return ()

    def by_head(message: data.Message, judge: LinearModel) -> Classified:
        passages = message.passages()
        keep = {
            text: judge.by_rows.scores(text, vectors[text].tobytes()).keep
            for passage in passages
            for text in passage.texts()
        }
        liked = select_passages(passages, keep.__getitem__, judge.by_rows.bar)
        return Classified(tuple(Proposal(passage.text) for passage in liked), author=Origin.TYPED)

    return {
        "rules alone": lambda message, _: _classified(None, message),
        "both, by words": lambda message, judge: _classified(
            LocalClassifier(no_rows, lambda: judge), message
        ),
        "head alone": by_head,
        "both": lambda message, judge: _classified(LocalClassifier(rows, lambda: judge), message),
    }


def _classified(local: LocalClassifier | None, message: data.Message) -> Classified:
    classifier = RuleClassifier(lambda *_: (), local.refine if local else None)
    event = Event(window=message.window)
    found = asyncio.run(classifier.classify(event, (), deadline=0.0, attempts=1))
    # There is nothing here yet that could be replaced.
    sure = tuple(each for each in found.proposals if not each.update_only)
    return msgspec.structs.replace(found, proposals=sure)


def asked_for(said: Iterable[data.Message]) -> list[str]:
    """All texts of messages, and all whose vectors the worker asks for."""
    asked = dict[str, None]()

    def noted(_: str, texts: Sequence[str]) -> tuple[bytes, ...]:
        asked.update(dict.fromkeys(texts))
        return ()

    for message in said:
        asked.update(dict.fromkeys(message.texts()))
        _classified(LocalClassifier(noted), message)
    return [*asked]


def row(outcomes: Sequence[Outcome]) -> Iterator[str]:
    pairs = [(note, each.keeper(note)) for each in outcomes for note in each.message.keep]
    kept = [(note, keeper) for note, keeper in pairs if keeper]
    count = sum(len(each.found.proposals) for each in outcomes)
    yield str(count)
    yield _share(sum(each.right() for each in outcomes), count)
    yield _share(len(kept), len(pairs))
    yield _share(sum(note.explicit for note, _ in kept), sum(note.explicit for note, _ in pairs))
    yield _share(sum(note.scope == keeper.scope for note, keeper in kept), len(kept))
    yield _share(sum(note.category == keeper.category for note, keeper in kept), len(kept))
    yield str(sum(bool(each.found.refused) for each in outcomes))
    yield str(sum(each.is_silent() for each in outcomes))


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def table(name: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The lines of one way: all messages, each language, each kind; then the turns of agents' lives."""
    yield _line(name, _HEADINGS)
    of_messages = [each for each in outcomes if not each.message.store]
    languages = sorted({each.message.language for each in of_messages})
    for group in ("all", *languages, *data.KEPT, *data.OTHERS):
        mine = [each for each in of_messages if group in {"all", each.message.language, each.message.kind}]
        yield _line(group, row(mine))
    yield _line("turns", row([each for each in outcomes if each.message.store]))


def _line(name: str, cells: Iterator[str] | Sequence[str]) -> str:
    return f"{name:16}" + "".join(f"{cell:>10}" for cell in cells)


def compared(
    said: Sequence[data.Message], judges: Sequence[LinearModel], vectors: dict[str, Floats]
) -> Mapping[str, Sequence[Outcome]]:
    """What comes of each message by each way, judged by the head at its place."""
    return {
        name: [Outcome(message, answer(message, judge)) for message, judge in zip(said, judges, strict=True)]
        for name, answer in answers(vectors).items()
    }


def unseen(said: Sequence[data.Message]) -> list[LinearModel]:
    """For each message of the development halves the head that was trained without it.

    The functions of answers and clauses are those shipped, which learn nothing from these halves.
    """
    heads = msgspec.msgpack.decode(HELD_OUT.read_bytes(), type=list[LinearModelFile])
    shipped = msgspec.msgpack.decode(Path(FILE).read_bytes(), type=LinearModelFile)
    judges = [
        LinearModel(_completed(each.by_rows, shipped.by_rows), _completed(each.by_words, shipped.by_words))
        for each in heads
    ]
    return [judges[part] for part in parts(said)]


def _completed(weights: StatementWeights, by: StatementWeights) -> StatementScorer:
    """Return the scorer of a part's weights with the functions of answers and clauses of others."""
    return StatementScorer(
        msgspec.structs.replace(
            weights, settles=by.settles, settles_bar=by.settles_bar, lasts=by.lasts, lasts_bar=by.lasts_bar
        )
    )


def main(*, closing: bool) -> None:
    half = data.DATA / "said" / ("sealed" if closing else "dev")
    sealed = allowed([half], closing=closing)
    begin(sealed, "python -m tests.training.compare --closing")
    said = data.messages(half.name) if closing else (*data.messages(), *data.turns())
    unlearnt = {"more": data.messages("more")}
    unlearnt["first words"] = data.first_words()
    vectors, _ = asyncio.run(vectors_of(asked_for((*said, *chain(*unlearnt.values())))))
    judges = [linear_model()] * len(said) if closing else unseen(said)
    found = compared(said, judges, vectors)
    others = {of: compared(each, [linear_model()] * len(each), vectors) for of, each in unlearnt.items()}
    for name, outcomes in found.items():
        print("", *table(name, outcomes), sep="\n")
        for of, by_name in others.items():
            print(_line(of, row(by_name[name])))
    for folder in sealed:
        end(folder, "; ".join(_in_short(name, outcomes) for name, outcomes in found.items()))


def _in_short(name: str, outcomes: Sequence[Outcome]) -> str:
    """For the record."""
    return f"{name}: " + ", ".join(
        f"{linear_model} {cell}" for linear_model, cell in zip(_HEADINGS, row(outcomes), strict=True)
    )


if __name__ == "__main__":
    main(closing="--closing" in sys.argv[1:])
