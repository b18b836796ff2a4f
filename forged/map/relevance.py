"""The gate, which decides whether a store has anything to say about a message.

An agent asks before every turn, and most turns ("ok, next") concern no memory at all. Ranking cannot tell:
the best of many is always there. So one number is found per request, in the same unit for every model and
every size of store: how far the evidence for the best row stands above what everyday messages reach *in this
store*, in standard deviations. `retrieval_min_score` is the share of unrelated messages that must stay out; a
request that falls short injects nothing. An absolute bar for each candidate was measured and costs recall
(own set 0.785 -> 0.766 at -1 deviation, 0.711 at 0), so of one that passes only what lies far below its own
best is left out (`near_best`): a small store has not ten memories about anything.

With vectors it is the best cosine after the background is taken away, standardised by what the 64 messages of
the background reach, whatever the model, the number of rows (the best of more is higher) and its hubs. Words
add to it: the log odds that the message was written with a row in mind rather than without. A likelihood
ratio exceeds x by chance with a probability of at most exp(-x), in a store of one row as in one of a
thousand, so alone it needs no statistics of the store, which say nothing while it is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from statistics import NormalDist
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map.baseline import LEAST_DIMENSION, Background
from forged.map.dense import DenseLeg, cosines_into
from forged.map.lexical import LexicalLeg
from forged.map.vector_map import Candidate, VectorMap
from forged.models import Vectors
from forged.text.everyday import MESSAGES, WORDS
from forged.text.terms import Terms, are_stems, distinct, terms

UNGATED = float("inf")
"""Evidence where there is no yardstick: everything passes."""

# A term of the message comes from the row with this share, else from the prior; 0.25-0.6 are alike. Of a long
# message only so many terms speak of a memory: a pasted log must not drown them.
_SPEAKS, _SPEAKING = 0.4, 5.0
# Share of a term that no everyday message has (3e-5 to 3e-4 are alike), the least share of a common word, and
# what a short row counts as.
_RAREST, _COMMON = 1e-4, 5e-4
_SHORTEST = 8
# By so many nats the bound on chance is loose: at most 5 % of unrelated messages reach 0.75 nats in stores of
# 1, 5, 30 and 170 to 330 rows of LoCoMo's development half and of our own set.
_SLACK = 2.25
# Deviations that one nat of words is worth beside vectors (0.1-0.3 are alike), and its limits: more than 10
# nats is a text quoted in another, and other words or another language prove nothing. Counted from the lower
# limit, so that words only ever add; then 5 % of unrelated messages reach 1.46 to 1.65 in stores of 1, 5, 30
# and 160 to 330 rows of both sets, where chance alone would put them at 1.645.
_WEIGHT, _LEAST, _MOST = 0.15, -2.0, 10.0
# What is kept of the candidates: so many deviations below the best, or such a share of the attainable BM25.
# Own set and LoCoMo's development half, e5: stores of 5, 10 and 30 inject 3, 5-6 and 7-9 memories and not 5,
# 10 and 10, and lose 0-0.3, 0.3-1.0 and no points of recall@10, whole stores 0.2. At 3 deviations they inject
# 2.5, 4 and 6-8 for 0.6-0.8, 0.3-1.0 and 0.2 points, but whole stores of LoCoMo lose 0.8.
_REACH, _WORDED = 4.0, 0.3
# Versions of one memory that are looked at to see whether it alone has a word.
_MOST_VERSIONS = 64
_SAME = 1e-6
_NORMAL = NormalDist()


def threshold(min_score: float) -> float:
    """Evidence that lets a request pass when this share of unrelated ones must not; -inf for 0 or less."""
    return _NORMAL.inv_cdf(min(min_score, 1 - 1e-9)) if min_score > 0 else -np.inf


def evidence(
    maps: Sequence[VectorMap],
    *,
    texts: Sequence[str],
    vectors: Vectors | None,
    background: Background | None,
    words: bool,
) -> float:
    """Standard deviations above an everyday message, the mean of all queries.

    The mean, and not the best: one lucky guess among five hypotheses let a third of the unrelated in.

    Args:
        maps: what the request sees.
        texts: the queries in words.
        vectors: the same as unit rows, or None: the words alone are asked.
        background: of the model that made `vectors`; while it is not known the words decide.
        words: whether the lexical leg takes part.
    """
    if vectors is not None and vectors.shape[1] < LEAST_DIMENSION:
        return UNGATED
    odds = _odds(maps, texts) if words else None
    legs = _legs(maps, vectors, background)
    if vectors is None or background is None or not legs:
        return UNGATED if odds is None else _from_odds(float(odds.mean()))
    heights = _heights(legs, vectors, background)
    if odds is None:
        return float(heights.mean())
    # A map whose vectors are still on their way has words to say, and no height to be held against it.
    bare = [each for each in maps if each.dense not in legs]
    said = _from_odds(float(_odds(bare, texts).mean())) if bare else -np.inf
    return max(float((heights + _WEIGHT * (odds - _LEAST)).mean()), said)


def near_best(
    maps: Sequence[VectorMap],
    candidates: Sequence[Candidate],
    *,
    message: str,
    vectors: Vectors | None,
    background: Background | None,
) -> list[Candidate]:
    """Return the candidates that, to one query at least, are not far below the best of them.

    Those too that words speak for: much of what can be shared, or a word of the user's own `message` that
    nobody says every day and no other memory has, which may be the only name in it. All of them where there
    is no yardstick, and whatever has no vector: a row that shares no word either is no candidate.
    """
    legs = _legs(maps, vectors, background)
    if vectors is None or background is None or not legs:
        return list(candidates)
    found = _reached(maps, candidates, legs, background.queries(vectors), background)
    bar = found.max(axis=1, initial=-np.inf) - _REACH * _spread([calibrated(leg, background) for leg in legs])
    near = (found >= bar[:, None]).any(axis=0) | np.isneginf(found).all(axis=0)
    named = _alone_with_a_word(maps, message)
    return [
        each
        for each, is_near in zip(candidates, near.tolist(), strict=True)
        if is_near or (each.lexical or 0) > _WORDED or _chain_of(maps, each.map_index, each.row) in named
    ]


def _alone_with_a_word(maps: Sequence[VectorMap], message: str) -> set[tuple[int, str]]:
    """Chains, by map and head, that alone have one of the message's words; everyday words do not count."""
    found = terms(message)
    wanted = distinct(found[are_stems(found)])
    wanted = wanted[_prior_of(wanted) <= _RAREST]
    holders: dict[int, set[tuple[int, str]]] = {}
    for number, each in enumerate(maps):
        if each.lexical is None:
            continue
        start, stop = each.lexical.spans(wanted)
        for term in np.flatnonzero(stop > start).tolist():
            rows = each.lexical.rows[start[term] : min(stop[term], start[term] + _MOST_VERSIONS)]
            chains = {_chain_of(maps, number, row) for row in rows.tolist()}
            holders.setdefault(term, set()).update(chains)
    return {chain for chains in holders.values() if len(chains) == 1 for chain in chains}


def _chain_of(maps: Sequence[VectorMap], map_index: int, row: int) -> tuple[int, str]:
    home = maps[map_index]
    return map_index, home.chains.head(home.memories[row].id)


def _reached(
    maps: Sequence[VectorMap],
    candidates: Sequence[Candidate],
    legs: Sequence[DenseLeg],
    prepared: Vectors,
    background: Background,
) -> Vectors:
    """Centred cosines of queries and candidates, (q, c); -inf for one without a vector."""
    found = np.full((len(prepared), len(candidates)), -np.inf, np.float32)
    for number, each in enumerate(maps):
        leg = each.dense
        if leg is None or leg not in legs:
            continue
        here = [at for at, c in enumerate(candidates) if c.map_index == number and not leg.missing[c.row]]
        rows = np.array([candidates[at].row for at in here], np.intp)
        scales = calibrated(leg, background).scales[rows]
        found[:, here] = background.centred(prepared, prepared @ leg.some(rows).T, scales)
    return found


def _legs(
    maps: Sequence[VectorMap], vectors: Vectors | None, background: Background | None
) -> list[DenseLeg]:
    """Legs that the queries can be held against by this background; not those of another model."""
    if vectors is None or background is None:
        return []
    fitting = (each.dense for each in maps if each.dense is not None and background.fits(each.dense))
    return [leg for leg in fitting if leg.dimension == vectors.shape[1] and leg.present]


# --- vectors -----------------------------------------------------------------------------------------


class Calibration(msgspec.Struct, frozen=True, eq=False):
    """A leg seen against a background: `scales` (n,) of its rows; what each message reaches in it, and where.

    `best` float32 (b,), `holders` intp (b,) the rows that reach it.
    """

    background: Background
    scales: NDArray[np.float32]
    best: NDArray[np.float32]
    holders: NDArray[np.intp]


# Weak: a calibration goes with its leg.
_known: WeakKeyDictionary[DenseLeg, Calibration] = WeakKeyDictionary()


def calibrated(leg: DenseLeg, background: Background) -> Calibration:
    """Calibrate a leg, once: 64 products a row, 15 ms at 10,000 rows. `leg` has at least one vector."""
    known = _known.get(leg)
    if known is None or known.background is not background:
        scales = background.scales(leg)
        cosines = _cosines(leg, background, background.messages, scales)
        holders = cosines.argmax(axis=1)
        known = Calibration(background, scales, cosines.max(axis=1), holders)
        _known[leg] = known
    return known


def carried(before: DenseLeg, places: NDArray[np.int64], leg: DenseLeg, background: Background) -> None:
    """Calibrate a leg that came of `before` by an edit; row i was `places[i]` there, or is new at -1.

    Costs as much as the rows that are new, unless one went that a message held to.
    """
    known = _known.get(before)
    fresh = np.flatnonzero((places < 0) & ~leg.missing)
    if known is None or known.background is not background or len(fresh) > len(leg) // 2:
        calibrated(leg, background)
        return
    kept = np.flatnonzero(places >= 0)
    now_at = np.full(len(before), -1)
    now_at[places[kept]] = kept
    holders = now_at[known.holders]
    if (holders < 0).any():
        calibrated(leg, background)
        return
    scales = np.zeros(len(leg), np.float32)
    scales[kept] = known.scales[places[kept]]
    best = known.best
    if len(fresh):
        rows = leg.some(fresh)
        scales[fresh] = background.scales_of(rows)
        cosines = background.centred(background.messages, background.messages @ rows.T, scales[fresh])
        higher = cosines.max(axis=1) > best
        holders = np.where(higher, fresh[cosines.argmax(axis=1)], holders)
        best = np.maximum(best, cosines.max(axis=1))
    _known[leg] = Calibration(background, scales, best, holders)


def _heights(legs: Sequence[DenseLeg], vectors: Vectors, background: Background) -> NDArray[np.float64]:
    """How far each query's best row stands above those of the background, in deviations, (q,)."""
    calibrations = [calibrated(leg, background) for leg in legs]
    usual = np.max([each.best for each in calibrations], axis=0)
    queries = background.queries(vectors)
    found = [
        _cosines(leg, background, queries, each.scales).max(axis=1)
        for leg, each in zip(legs, calibrations, strict=True)
    ]
    heights: NDArray[np.float64] = (np.max(found, axis=0) - usual.mean()) / _spread(calibrations)
    return heights


def _spread(calibrations: Sequence[Calibration]) -> float:
    """Standard deviation of what everyday messages reach in all of the legs."""
    return max(float(np.max([each.best for each in calibrations], axis=0).std()), _SAME)


def _cosines(
    leg: DenseLeg, background: Background, prepared: Vectors, scales: NDArray[np.float32]
) -> Vectors:
    products = np.empty((len(prepared), len(leg)), np.float32)
    cosines_into(products, leg, prepared)
    cosines = background.centred(prepared, products, scales)
    cosines[:, leg.missing] = -np.inf
    return cosines


# --- words -------------------------------------------------------------------------------------------


def _odds(maps: Sequence[VectorMap], texts: Sequence[str]) -> NDArray[np.float64]:
    """Log odds of each query, (q,): the best row's, within limits."""
    legs = [each.lexical for each in maps if each.lexical is not None and len(each)]
    odds = [log_odds(legs, terms(text)) for text in texts] if legs else [_LEAST] * len(texts)
    return np.clip(np.array(odds, np.float64), _LEAST, _MOST)


def log_odds(legs: Sequence[LexicalLeg], message: Terms) -> float:
    """Log odds that a message was written with the best of the rows in mind, in nats.

    For each of its stems the row speaks with some share, or the prior of everyday messages does; the number
    of rows is taken off, as the best of them was looked for.
    """
    wanted = distinct(message[are_stems(message)])
    rows = sum(map(len, legs))
    if not len(wanted):
        return -float(np.log(rows))
    speaks = min(_SPEAKS, _SPEAKING / len(wanted))
    share = _prior_of(wanted)
    best = max(_best_of(leg, wanted, share, speaks) for leg in legs)
    return best + len(wanted) * float(np.log1p(-speaks)) - float(np.log(rows))


def _best_of(leg: LexicalLeg, wanted: Terms, share: NDArray[np.float64], speaks: float) -> float:
    start, stop = leg.spans(wanted)
    rows = np.concatenate([leg.rows[a:b] for a, b in zip(start.tolist(), stop.tolist(), strict=True)])
    in_row = 1 / np.maximum(leg.lengths, _SHORTEST)
    ratio = np.maximum(in_row[rows] / np.repeat(share, stop - start), 1)
    return float(np.bincount(rows, np.log1p(speaks / (1 - speaks) * ratio), len(leg)).max())


def _prior_of(wanted: Terms) -> NDArray[np.float64]:
    """Share of each term in what is said every day."""
    known, share = _prior()
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, np.maximum(share[at], _RAREST), _RAREST)


@cache
def _prior() -> tuple[Terms, NDArray[np.float64]]:
    said, counts = np.unique(_stems(MESSAGES), return_counts=True)
    common = _stems(WORDS)
    known = distinct(np.concatenate((said, common)))
    share = np.zeros(len(known))
    share[np.searchsorted(known, common)] = _COMMON
    at = np.searchsorted(known, said)
    share[at] = np.maximum(share[at], counts / counts.sum())
    return known, share


def _stems(texts: Sequence[str]) -> Terms:
    found = np.concatenate([terms(text) for text in texts])
    return found[are_stems(found)]


def _from_odds(odds: float) -> float:
    """Standard score of an unrelated message that reaches such odds by chance; `odds` is -2 or more."""
    return _NORMAL.inv_cdf(1 - float(np.exp(-odds - _SLACK)))
