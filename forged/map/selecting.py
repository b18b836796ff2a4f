"""Scores put on one scale, and the best of them, where those that differ by rounding alone are equal.

Nothing is raised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Columns = NDArray[np.intp]

# Equal rows differ in the last bits, according to where they lie in a block; this near, scores are equal.
_SAME = 1e-6
_NONE = np.empty(0, np.int64)
_LOWEST = float(np.finfo(np.float32).min)
# Selecting among the maxima of groups of so many first takes a quarter of the time of one partition.
_GROUP = 64


def standardised(scores: Scores, missing: NDArray[np.int64] = _NONE) -> Scores:
    """Each query's scores in deviations from their mean; 0 where all are equal.

    Scores of `missing` columns are 0, before and after, and do not count.
    """
    present = max(1, scores.shape[1] - len(missing))
    result: Scores = scores - scores.sum(axis=1, keepdims=True) / present
    result[:, missing] = 0
    deviation = np.sqrt(np.einsum("ij,ij->i", result, result) / present)
    result *= np.where(deviation > _SAME, 1 / np.maximum(deviation, _SAME), 0)[:, None]
    return result


def reaching(scores: Scores, k: int) -> Columns:
    """The columns whose scores the k best reach, and those that are equal to the last; never of -inf."""
    count = len(scores)
    groups = scores[: count // _GROUP * _GROUP].reshape(_GROUP, -1).max(axis=0)
    if len(groups) <= k:
        return np.flatnonzero(scores >= _bar(scores, k))
    # The k-th best group's maximum is reached by at least k scores.
    columns = np.flatnonzero(scores >= _bar(groups, k))
    few = scores[columns]
    return columns[few >= _bar(few, k)]


def _bar(scores: Scores, k: int) -> float:
    """What is equal to the k-th best score or better; all that are not -inf, where there are fewer."""
    if k >= len(scores):
        return _LOWEST
    kth = float(np.partition(scores, len(scores) - k)[len(scores) - k])
    return max(_LOWEST, kth - _SAME * max(1.0, abs(kth)))


def without_noise(descending: Scores) -> Scores:
    """Scores, best first, in which each takes the value of the one before when they differ by rounding."""
    if np.all(descending[:-1] - descending[1:] > 2 * _SAME * np.maximum(1, np.abs(descending[1:]))):
        return descending
    values: list[float] = descending.tolist()
    for i in range(1, len(values)):
        if values[i - 1] - values[i] <= _SAME * max(1.0, abs(values[i])):
            values[i] = values[i - 1]
    return np.array(values, np.float32)
