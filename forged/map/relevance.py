"""The gate: decides from the results of a search whether a store holds anything relevant to a message.

`weigh` takes what a search found, its cosines and postings, and the baseline of the model; nothing is
compared anew. Out come `Reading.evidence`, one number for the request, and `Reading.evidence_of`, the same of
each row; `admission` makes of them what is let in.

An agent asks before every turn, and most turns ("ok, next") concern no memory at all. Ranking cannot tell:
the best of many is always there. So the evidence is in the same unit for every model and every size of store:
how far the best row stands above what everyday messages reach *in this store*, in standard deviations.
`retrieval_min_score` is the share of unrelated messages that are not strong; what lets a memory in lies so
many deviations below that (`admission`).

With vectors it is the best cosine after the baseline is taken away, standardised by what the 64 messages of
the baseline reach, whatever the model, the number of rows (the best of more is higher) and its hubs. Words
add to it: the log odds that the message was written with a row in mind rather than without. A likelihood
ratio exceeds x by chance with a probability of at most exp(-x), in a store of one row as in one of a
thousand, so alone it needs no statistics of the store, which say nothing while it is small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map.baseline import LEAST_DIMENSION, Baseline, Calibration
from forged.map.calibrations import calibrated
from forged.map.odds import LEAST, Odds, limited
from forged.map.search import Found
from forged.models import Vectors

UNGATED = float("inf")
"""Evidence where there is nothing to compare with: everything passes."""

# By so many nats the bound on chance is loose: at most 5 % of unrelated messages reach 0.75 nats in stores of
# 1, 5, 30 and 170 to 330 rows of LoCoMo's development half and of our own set.
_SLACK = 2.25
# Deviations that one nat of words is worth beside vectors (0.1-0.3 are alike), and its limits: more than 10
# nats is a text quoted in another, and other words or another language prove nothing. Counted from the lower
# limit, so that words only ever add; then 5 % of unrelated messages reach 1.46 to 1.65 in stores of 1, 5, 30
# and 160 to 330 rows of both sets, where chance alone would put them at 1.645.
_NAT_WEIGHT = 0.15
_SAME = 1e-6
_NORMAL = NormalDist()


def threshold(min_score: float) -> float:
    """Evidence that lets a request pass when this share of unrelated ones must not; -inf for 0 or less."""
    return _NORMAL.inv_cdf(min(min_score, 1 - 1e-9)) if min_score > 0 else -np.inf


class Reading(msgspec.Struct, frozen=True, eq=False, dict=True):
    """How much one search has to do with its queries.

    `evidence` is in standard deviations above an everyday message, the mean of all queries; `UNGATED` where
    there is nothing to compare with. `cosines` float32 (queries, rows) are those without the baseline, each
    query's times its own of `lengths` (queries, 1), -inf for a row that cannot be held against it, None if
    none can; `usual` is the mean of what everyday messages reach, `spread` its standard deviation.
    """

    found: Found
    evidence: float
    cosines: Vectors | None = None
    lengths: Vectors | None = None
    usual: float = 0.0
    spread: float = 0.0
    odds: Odds | None = None

    def evidence_of(self, map_index: int, row: int) -> float:
        """How much speaks for one row, in the unit of `evidence`; `UNGATED` where nothing can be compared.

        Of several queries the mean of the best and of the user's own message counts, as in the ranking.
        """
        return self.evidences([(map_index, row)])[0]

    def evidences(self, rows: Sequence[tuple[int, int]]) -> list[float]:
        """The same of some rows, each by its map and place there, at once."""
        if self.evidence == UNGATED:
            return [UNGATED] * len(rows)
        fresh = [each for each in rows if each not in self._known]
        if fresh:
            self._known.update(zip(fresh, self._looked_at(fresh), strict=True))
        return [self._known[each] for each in rows]

    @cached_property
    def _known(self) -> dict[tuple[int, int], float]:
        """Of rows that were looked at: links lead from and to many of them."""
        return {}

    def _looked_at(self, rows: Sequence[tuple[int, int]]) -> list[float]:
        columns = np.array([self.found.column(*each) for each in rows], np.intp)
        odds = None if self.odds is None else _weighed_rows(self.found, self._odds_of(self.odds, columns))
        if self.cosines is None or self.lengths is None:
            return self._by_words(odds, len(rows))
        heights = (self.cosines[:, columns] / self.lengths - self.usual) / self.spread
        found = self._typical(heights if odds is None else heights + _NAT_WEIGHT * (odds - LEAST))
        bare = self.cosines[0, columns] == -np.inf
        if not bare.any():
            return found
        by_words = self._by_words(odds, len(rows))
        return [other if alone else own for own, other, alone in zip(found, by_words, bare, strict=True)]

    def _odds_of(self, odds: Odds, columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """Of columns, (queries, n)."""
        found = np.empty((odds.queries, len(columns)))
        for part, own in enumerate(self.found.columns):
            here = np.flatnonzero((columns >= own.start) & (columns < own.stop))
            if len(here):
                found[:, here] = odds.of_rows(part, columns[here] - own.start)
        return found

    def _by_words(self, odds: NDArray[np.float64] | None, count: int) -> list[float]:
        return [UNGATED] * count if odds is None else list(map(_standard, self._typical(odds)))

    def _typical(self, values: NDArray[np.floating]) -> list[float]:
        best, message = values.max(axis=0).astype(np.float64), self.found.message
        typical = best if message is None or len(values) == 1 else (best + values[message]) / 2
        result: list[float] = typical.tolist()
        return result


def weigh(found: Found, baseline: Baseline | None) -> Reading:
    """Weigh what a search found; until there is a baseline of its model, only the words are used.

    The mean of the queries counts, and not the best: one lucky guess among five hypotheses let a third of the
    unrelated in.
    """
    if found.vectors is not None and found.vectors.shape[1] < LEAST_DIMENSION:
        return Reading(found, UNGATED)
    odds = None if found.matches is None else Odds.of(found.matches)
    calibrations = _calibrations_of(found, baseline)
    if baseline is None or not calibrations:
        return Reading(found, _of_words(found, odds), odds=odds)
    cosines, lengths = _without_baseline(found, baseline, calibrations)
    if (shares := found.shares) is not None:
        cosines, lengths = (shares @ (cosines / lengths))[None], np.ones((1, 1), np.float32)
    usual = reduce(np.maximum, (each.best for each in calibrations.values()))
    mean = usual.sum() / len(usual)
    above = usual - mean
    spread = max(float(above @ above / len(usual)) ** 0.5, _SAME)
    heights = (cosines.max(axis=1) / lengths[:, 0] - mean) / spread
    evidence = _of_both(found, odds, heights, calibrations)
    return Reading(found, evidence, cosines, lengths, float(mean), spread, odds)


def _of_both(
    found: Found, odds: Odds | None, heights: NDArray[np.float64], calibrations: Mapping[int, Calibration]
) -> float:
    """Evidence of vectors, by how far each query's best row stands above everyday messages, and of words."""
    if odds is None:
        return float(heights.sum() / len(heights))
    words = _weighed(found, limited(odds.best()))
    evidence = float((heights + _NAT_WEIGHT * (words - LEAST)).mean())
    homes = [place for place, _ in found.homes]
    known = {homes[number] for number in calibrations}
    # A map whose vectors are still on their way has words to say, and no height to be held against it.
    bare = [number for number, home in enumerate(homes) if home not in known]
    return evidence if len(known) == len(found.maps) else max(evidence, _of_words(found, odds, bare))


def _of_words(found: Found, odds: Odds | None, legs: Sequence[int] | None = None) -> float:
    """Evidence of words alone: the standard score of an unrelated message that has such odds by chance."""
    return UNGATED if odds is None else _standard(float(_weighed(found, limited(odds.best(legs))).mean()))


def _weighed(found: Found, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of queries, (queries,); of a message and what it goes on from their weighed mean, (1,)."""
    return values if found.shares is None else np.array([found.shares @ values])


def _weighed_rows(found: Found, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same of several rows, (queries, n): each for itself, so that no sum depends on its neighbours."""
    if found.shares is None:
        return values
    return np.array([[found.shares @ each for each in np.ascontiguousarray(values.T)]])


def _standard(odds: float) -> float:
    return _NORMAL.inv_cdf(1 - float(np.exp(-odds - _SLACK)))


# --- vectors -----------------------------------------------------------------------------------------


def _calibrations_of(found: Found, baseline: Baseline | None) -> dict[int, Calibration]:
    """By part, for those whose vectors were compared with the queries and are of the baseline's model."""
    if found.cosines is None or baseline is None:
        return {}
    dimension = baseline.messages.shape[1]
    return {
        place: calibrated(leg, baseline)
        for place, leg in zip(found.cosines.places, found.cosines.legs, strict=True)
        if leg.key == baseline.key and leg.dimension == dimension and leg.present
    }


def _without_baseline(
    found: Found, baseline: Baseline, calibrations: Mapping[int, Calibration]
) -> tuple[Vectors, Vectors]:
    """Cosines of queries and rows with mean and axes taken away, (queries, rows), -inf where there are none.

    Each query's are multiplied by what is left of its length, which is returned beside them, (queries, 1).

    Derived from the raw ones: a query without its mean m and its shares s of the axes a has the product
    q @ row - m @ row - s @ (a @ row) with a row, and what does not depend on the query is kept.
    """
    compared = found.cosines
    assert compared is not None, "there are calibrations of what was compared"
    rest = compared.queries - baseline.query_mean
    along = rest @ baseline.dropped_axes.T
    rest -= along @ baseline.dropped_axes
    lengths = np.maximum(np.sqrt((rest * rest).sum(axis=1, keepdims=True)), _SAME)
    weights = np.ones((len(rest), along.shape[1] + 2), np.float32)
    weights[:, :-2], weights[:, -1] = along, rest @ baseline.passage_mean
    result = np.empty_like(compared.raw)
    if len(calibrations) < len(compared.places):
        result.fill(-np.inf)
    for place, calibration in calibrations.items():
        columns = found.columns[place]
        cosines = np.matmul(weights, calibration.products, out=result[:, columns])
        np.subtract(compared.raw[:, columns], cosines, out=cosines)
        cosines *= calibration.scales
    if compared.missing.any():
        result[:, compared.missing] = -np.inf
    return result, lengths
