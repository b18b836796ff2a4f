"""Scores raised by more than words and vector: a date that the message names, good neighbours, one occasion.

A memory made on a day that the query names is preferred. Then the best candidates are smoothed over their
nearest neighbours: one that is close to other good candidates is more likely right than one that stands alone
with the same score. So is one that was made on the same occasion as a good one. Only the best 64 take part,
so there is no graph to keep and the cost is the same in every store. Smoothing takes weighted means, so a
score keeps its unit.

Measured on LoCoMo's development half, 631 questions, e5, recall@10 / nDCG@10 in points, each added alone and
left out of everything (own set in brackets): neighbours +1.2/+0.9 and 0.6/0.3 (+0.2/+0.8, 1.1/1.0); occasion
+1.9/+1.6 and 1.8/1.4 (0/0, 0/0).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from forged.models import Vectors
from forged.text.dates import A_TIME, Seconds, of_named_time

Scores = NDArray[np.float32]

CANDIDATES = 64  # 32-100 are alike
# Standard deviations that a memory of a named date is ahead; 0.5-1.5 are alike. Worth 2.2 points of recall@10
# and 1.6 of nDCG@10 on LoCoMo's development half, where 74 of 631 questions name a date, and none is lost.
_NAMED_DATE = 1.0
_NEIGHBOUR_WEIGHT = 0.4  # of the neighbours' mean, beside 1 of the candidate's own score; 0.2-0.5 are alike
_NEIGHBOURS = 5
_OCCASION_WEIGHT = 0.3  # of the best score of the occasion; 0.2-0.5 are alike
# Equal rows differ in the last bits, according to where they lie in a block.
_SAME = 1e-6


def prefer_named_dates(
    scores: Scores, texts: Sequence[str], created: Sequence[Seconds], *, words_only: bool
) -> None:
    """Raise, in `scores` (queries, rows), the memories of a date that a query names.

    Args:
        scores: in standard deviations; with `words_only` BM25, 0 for a row that matches no word.
        texts: the queries.
        created: when the memories were made, one array for each map.
        words_only: a deviation is then that of the matching rows, and only those are raised.
    """
    for own, text in zip(scores, texts, strict=True):
        named = of_named_time(text, np.concatenate(created)) if A_TIME.search(text) else None
        if named is None:
            continue
        if not words_only:
            own[named] += _NAMED_DATE
        elif (matching := own > 0).any():
            own[named & matching] += _NAMED_DATE * own[matching].std()


def smoothed(scores: Scores, rows: Vectors | None, occasion: NDArray[np.int64]) -> Scores:
    """New scores of some candidates, from one another's.

    Args:
        scores: (c,), what they were found by.
        rows: (c, d), their centred unit rows, zero where there is none; None without vectors.
        occasion: (c,), equal for those that were made on one occasion.
    """
    if rows is not None and len(scores) > 1:
        neighbours = _NEIGHBOUR_WEIGHT * _of_neighbours(scores, rows)
        scores = ((scores + neighbours) / (1 + _NEIGHBOUR_WEIGHT)).astype(np.float32)
    _, group = np.unique(occasion, return_inverse=True)
    peaks = np.full(len(scores), -np.inf, np.float32)
    np.maximum.at(peaks, group, scores)
    best: Scores = ((scores + _OCCASION_WEIGHT * peaks[group]) / (1 + _OCCASION_WEIGHT)).astype(np.float32)
    return best


def _of_neighbours(scores: Scores, rows: Vectors) -> Scores:
    """Mean score of each candidate's nearest others, weighted by their cosine; its own where none is near."""
    near = np.maximum(rows @ rows.T, 0)
    np.fill_diagonal(near, 0)
    most = min(_NEIGHBOURS, len(scores) - 1)
    least = np.partition(near, -most, axis=1)[:, -most, None]
    near = np.where(near >= least - _SAME, near, 0)
    total = near.sum(axis=1)
    means: Scores = np.where(total > _SAME, near @ scores / np.maximum(total, _SAME), scores)
    return means
