"""The gate: decides from the results of a search whether a store holds anything relevant to a message.

`weigh` takes what a search found, its cosines and postings, and the baseline of the model; nothing is
compared anew. Out come `Reading.evidence`, one number for the request, and `Reading.near_best`, which leaves
out the candidates that lie far below the best.

An agent asks before every turn, and most turns ("ok, next") concern no memory at all. Ranking cannot tell:
the best of many is always there. So the evidence is in the same unit for every model and every size of store:
how far the best row stands above what everyday messages reach *in this store*, in standard deviations.
`retrieval_min_score` is the share of unrelated messages that must stay out; a request that falls short
injects nothing. An absolute bar for each candidate was measured and costs recall (own set 0.785 -> 0.766 at
-1 deviation, 0.711 at 0), so of a request that passes only what lies far below its own best is left out: a
small store has not ten memories about anything.

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
from forged.map.odds import LEAST, Odds, limited, rare
from forged.map.search import Candidate, Found
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
# What is kept of the candidates: so many deviations below the best, or such a share of the attainable BM25.
# Own set and LoCoMo's development half, e5: stores of 5, 10 and 30 inject 3, 5-6 and 7-9 memories and not 5,
# 10 and 10, and lose 0-0.3, 0.3-1.0 and no points of recall@10, whole stores 0.2. At 3 deviations they inject
# 2.5, 4 and 6-8 for 0.6-0.8, 0.3-1.0 and 0.2 points, but whole stores of LoCoMo lose 0.8.
_KEEP_WITHIN_SD, _KEEP_LEXICAL_SHARE = 4.0, 0.3
# Times what is needed: chosen before it was measured, and not tuned.
_STRONG = 2.0
# Versions of one memory that are looked at to see whether it alone has a word.
_MOST_VERSIONS = 64
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
        if self.evidence == UNGATED:
            return UNGATED
        column = self.found.column(map_index, row)
        odds: NDArray[np.floating] | None = None
        if self.odds is not None:
            odds = _weighed(self.found, self.odds.of_row(*self.found.place(column)))
        if self.cosines is None or self.lengths is None or self.cosines[0, column] == -np.inf:
            return UNGATED if odds is None else _standard(self._typical(odds))
        heights = (self.cosines[:, column] / self.lengths[:, 0] - self.usual) / self.spread
        return self._typical(heights if odds is None else heights + _NAT_WEIGHT * (odds - LEAST))

    def _typical(self, values: NDArray[np.floating]) -> float:
        best, message = float(values.max()), self.found.message
        return best if message is None or len(values) == 1 else (best + float(values[message])) / 2

    def near_best(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates that, to one query at least, are not far below the best of them.

        Kept as well: candidates with a high lexical score, the only holder of a rare word of the user's own
        message (which may be the only name in it), and whatever has no vector: a row that shares no word
        either is no candidate. All of them where there is nothing to compare with.
        """
        if self.cosines is None or self.lengths is None:
            return list(candidates)
        columns = [self.found.column(each.map_index, each.row) for each in candidates]
        cosines = self.cosines[:, columns] / self.lengths
        bar = cosines.max(axis=1, initial=-np.inf) - _KEEP_WITHIN_SD * self.spread
        near = (cosines >= bar[:, None]).any(axis=0) | (cosines[0] == -np.inf)
        return [
            each
            for each, is_near in zip(candidates, near.tolist(), strict=True)
            if is_near or self.is_named(each)
        ]

    def is_named(self, candidate: Candidate) -> bool:
        """Whether a memory shares many words with a query, or alone has one of the user's own."""
        if (candidate.lexical or 0) > _KEEP_LEXICAL_SHARE:
            return True
        return _chain_of(self.found, candidate.map_index, candidate.row) in self._holders

    @cached_property
    def _holders(self) -> set[tuple[int, str]]:
        return _only_holders(self.found)

    def concerns(self, map_index: int, row: int, least_evidence: float) -> bool:
        """Whether a row to which only a link leads has evidence of its own.

        Alone it lets one of the queries pass, by its vector, or it has a high lexical score. Where there is
        nothing to compare with, every row has.
        """
        if self.cosines is None and self.evidence == UNGATED:
            return True
        return self._stands(map_index, row, least_evidence, _KEEP_LEXICAL_SHARE)

    def is_strong(self, map_index: int, row: int, least_evidence: float) -> bool:
        """Whether so much speaks for a row that what it is linked to may come without evidence of its own."""
        return self._stands(map_index, row, _STRONG * least_evidence, _STRONG * _KEEP_LEXICAL_SHARE)

    def _stands(self, map_index: int, row: int, evidence: float, share: float) -> bool:
        column = self.found.column(map_index, row)
        if self.cosines is not None and self.lengths is not None:
            height = float((self.cosines[:, column] / self.lengths[:, 0]).max()) - self.usual
            if height >= evidence * self.spread:
                return True
        return self.found.share_of_words(column) > share


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


def _standard(odds: float) -> float:
    return _NORMAL.inv_cdf(1 - float(np.exp(-odds - _SLACK)))


def _chain_of(found: Found, map_index: int, row: int) -> tuple[int, str]:
    """What stands for all versions of a memory: its map, and the id of the newest."""
    home = found.maps[map_index]
    return map_index, home.chains.head(home.at(row).id)


def _only_holders(found: Found) -> set[tuple[int, str]]:
    """Memories that alone have one of the message's words; everyday words do not count."""
    matches, message = found.matches, found.message
    if matches is None or message is None:
        return set()
    first, last = matches.begins[message], matches.stem_ends[message]
    named = rare(matches.terms[first:last])
    holders: dict[int, set[tuple[int, str]]] = {}
    for number, ((place, start), hits) in enumerate(zip(found.homes, matches.hits, strict=True)):
        ends = np.cumsum(hits[message].lengths)
        for term in named[hits[message].frequency[named] > 0].tolist():
            rows = hits[message].rows[ends[term] - hits[message].lengths[term] : ends[term]]
            having = holders.setdefault(term, set())
            for row in found.parts[number].remaining(rows, _MOST_VERSIONS):
                having.add(_chain_of(found, place, start + row))
                if len(having) > 1:  # two are enough to know
                    break
    return {chain for chains in holders.values() if len(chains) == 1 for chain in chains}


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
