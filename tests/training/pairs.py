"""Fits the weights of the signs by which a newer statement replaces an older one, and prints them.

A logistic regression, ridged by 2, over tests/data/pairs, tests/data/changes and the development half of
tests/data/minds, by Newton's method: the same pairs give the same weights to the second decimal. Of a pair
the clauses count that speak for a replacement most, so it is fitted a few times, first to the whole texts.
`python -m tests.training.pairs`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forged.capture.rules.newest import compared, terms

DATA = Path(__file__).parents[1] / "data"
MINDS, CHANGES = DATA / "minds" / "dev", DATA / "changes"
_RIDGE, _STEPS, _ROUNDS = 2.0, 40, 4

# Whether the newer takes the place of the older, the newer, the older.
Pair = tuple[bool, str, str]


def written() -> Iterator[Pair]:
    """The pairs that were written to learn from."""
    for line in (DATA / "pairs" / "pairs.tsv").read_text().splitlines():
        replaces, _, older, newer = line.split("\t")
        yield replaces == "1", newer, older


def minds(of: Path = MINDS) -> Iterator[Pair]:
    """Each step of a script and the one before; of the pairs that look alike those of one scope."""
    for script in read("minds", of):
        said = [first_said(step["messages"]) for step in script["steps"]]
        yield from ((True, newer, older) for older, newer in pairwise(said))
    for pair in read("alike", of):
        if pair["first"]["scope"] == "repo":
            yield False, first_said(pair["second"]["messages"]), pair["first"]["text"]


def read(name: str, of: Path = MINDS) -> list[dict[str, Any]]:
    """The lines of a file of a set."""
    return [json.loads(line) for line in (of / f"{name}.jsonl").read_text().splitlines()]


def first_said(messages: list[dict[str, str]]) -> str:
    """What the person says first."""
    return next(each["content"] for each in messages if each["role"] == "user")


def fitted(pairs: list[Pair]) -> dict[str, float]:
    """The weights, the bias among them."""
    judged_by = [(replaces, compared(newer, older)) for replaces, newer, older in pairs]
    found = [[terms(each) for each in signs] for _, signs in judged_by if signs]
    names = (*found[0][0], "bias")
    signals = [np.array([[*each.values(), 1.0] for each in clauses]) for clauses in found]
    answers = np.array([float(replaces) for replaces, signs in judged_by if signs])
    weights, judged = np.zeros(len(names)), [each[0] for each in signals]
    for _ in range(_ROUNDS):
        weights = _newton(np.array(judged), answers)
        judged = [each[np.argmax(each @ weights)] for each in signals]
    return dict(zip(names, weights.round(2).tolist(), strict=True))


def _newton(signals: NDArray[np.float64], answers: NDArray[np.float64]) -> NDArray[np.float64]:
    ridge = np.full(signals.shape[1], _RIDGE)
    ridge[-1] = 0
    weights = np.zeros(signals.shape[1])
    for _ in range(_STEPS):
        chances = 1 / (1 + np.exp(-signals @ weights))
        slope = signals.T @ (chances - answers) + ridge * weights
        bend = (signals.T * (chances * (1 - chances))) @ signals + np.diag(ridge + 1e-9)
        weights -= np.linalg.solve(bend, slope)
    return weights


if __name__ == "__main__":
    print(
        "\n".join(
            f"{name} = {weight:.2f}"
            for name, weight in fitted([*written(), *minds(), *minds(CHANGES)]).items()
        )
    )
