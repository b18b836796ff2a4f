"""Fits the weights of the signs by which a newer statement replaces an older one, and prints them.

A logistic regression, ridged by 2, over tests/data/pairs, tests/data/changes and the development half of
tests/data/minds, by Newton's method: the same pairs give the same weights to the second decimal. Of a pair
the clauses count that speak for a replacement most, so it is fitted a few times, first to the whole texts.
`python -m tests.training.slot_weights`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from forged.capture.rules.replacement import pair_features
from forged.capture.rules.slots import signs_of_clauses
from tests.training.pair_data import CHANGES, Pair, minds, written

_RIDGE, _STEPS, _ROUNDS = 2.0, 40, 4


def fitted(pairs: Sequence[Pair]) -> dict[str, float]:
    """The weights, the bias among them."""
    judged_by = [(replaces, signs_of_clauses(newer, older)) for replaces, newer, older, _ in pairs]
    found = [[pair_features(each) for each in signs] for _, signs in judged_by if signs]
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
