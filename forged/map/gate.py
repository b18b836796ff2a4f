"""Gate: decides from the results of a search which memories are injected.

`score_search` turns cosines, postings and the model's baseline into a `GateScore`: the evidence of the
request and of each row. `gate_decisions` admits memories by it. Nothing is raised. Evidence is the distance
of the best row above everyday messages *in this store*, in standard deviations, for every model and size of
store. `retrieval_min_score` is the share of unrelated messages that must not be strong.

Vectors: the best cosine without the baseline, standardised by the cosines of its 64 messages. Words add the
log odds that the message was written with a row in mind (`LexicalOdds`). A likelihood ratio exceeds x by
chance with a probability of at most exp(-x), so words alone need no statistics of the store.

A session gets more than a single message: its messages are likelier to be about the project, and memories
stay in context for later turns. So the first turn may bring most, if it is in the words of the store, and
later ones fewer and fewer. A cue counts like its memory's text; a name that no memory has counts against.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import pairwise
from math import ceil
from statistics import NormalDist

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from forged.map.baseline import LEAST_DIMENSION, Baseline, Calibration, calibration_of, kept_calibrations
from forged.map.lexical import RAREST, TermMatches, everyday_shares
from forged.map.search import CueCosines, MapSearch, Ranked
from forged.models import Vectors
from forged.text.terms import Terms, are_stems, names, terms

UNGATED = float("inf")
"""Evidence where there is nothing to compare with: everything passes."""

# Slack of the bound on chance, in nats: at most 5 % of unrelated messages reach 0.75 nats in stores of
# 1 to 330 rows of LoCoMo's development half and of our own set.
_SLACK = 2.25
# Deviations that one nat of words adds to vectors (0.1-0.3 are equal), from LEAST on, so that words only ever
# add: 5 % of unrelated messages reach 1.46 to 1.65 in stores of 1 to 330 rows of both sets (by chance 1.645).
_NAT_WEIGHT = 0.15
_SAME = 1e-6
_NO_TERMS = np.empty(0, np.uint32)
# Evidence against a memory, and against one that names another, in a message of unknown names.
_AGAINST = {"question": (0.0, 3.0), "task": (0.0, 1.0)}
# Weight of a store's words in a session's first message, in deviations for a nat, and the limits of the nats.
_FAMILIAR, _FAMILIAR_RANGE = 0.5, (-4.0, 10.0)
_NORMAL = NormalDist()


def evidence_threshold(min_score: float) -> float:
    """Return the evidence that the given share of unrelated requests does not reach; -inf for 0 or less."""
    return _NORMAL.inv_cdf(min(min_score, 1 - 1e-9)) if min_score > 0 else -np.inf


class GateScore(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Evidence that the results of one search are about its queries, for the request and for each row.

    `evidence` is in standard deviations above an everyday message, the mean of all queries; `UNGATED` without
    a baseline or odds. `cosines` float32 (queries, rows) are those without the baseline, times `lengths`
    (queries, 1); -inf for a row without a vector, None if no row has one. `usual` is the mean of the best
    cosines of everyday messages, `spread` their standard deviation.
    """

    found: MapSearch
    evidence: float
    cosines: Vectors | None = None
    lengths: Vectors | None = None
    usual: float = 0.0
    spread: float = 0.0
    odds: LexicalOdds | None = None

    def evidence_of(self, map_index: int, row: int) -> float:
        """Return the evidence of one row, in the unit of `evidence`; `UNGATED` if there is no comparison.

        Of several queries the mean of the best and of the user's own message counts, as in the ranking.
        """
        return self.evidences([(map_index, row)])[0]

    def evidences(self, rows: Sequence[tuple[int, int]]) -> list[float]:
        """Return the evidence of rows, given as pairs (map, row); `UNGATED` without comparison."""
        if self.evidence == UNGATED:
            return [UNGATED] * len(rows)
        fresh = [each for each in rows if each not in self._cached_evidence]
        if fresh:
            self._cached_evidence.update(zip(fresh, self._compute_evidence(fresh), strict=True))
        return [self._cached_evidence[each] for each in rows]

    @cached_property
    def _cached_evidence(self) -> dict[tuple[int, int], float]:
        return {}

    def _compute_evidence(self, rows: Sequence[tuple[int, int]]) -> list[float]:
        """Compute the evidence of rows, less what an unknown name says against them."""
        found = self._compute_plain(rows)
        against = _AGAINST.get(self.unknown_name)
        if against is None:
            return found
        return [own - against[self._names_another(*each)] for own, each in zip(found, rows, strict=True)]

    @cached_property
    def _known_terms(self) -> Terms:
        """Terms of the queries that a memory or cue has."""
        matches = self.found.joined_matches
        return _NO_TERMS if matches is None else matches.terms[matches.frequency > 0]

    @property
    def names_known(self) -> bool:
        """True if a rare word of the message is in a memory or cue, or begins like one that is."""
        words = (terms(word) for word in self.found.message_text.split())
        rare = (
            each for each in words if len(each) and (everyday_shares(each[are_stems(each)]) <= RAREST).all()
        )
        return any(np.isin(each, self._known_terms).any() for each in rare)

    @cached_property
    def unknown_name(self) -> str:
        """Kind of a message that has names and none that a memory or cue knows: question or task; else ""."""
        said = [terms(each) for each in names(self.found.message_text)]
        if self.found.joined_matches is None or not said:
            return ""
        if np.isin(np.concatenate(said), self._known_terms).any():
            return ""
        return "question" if self.found.message_text.rstrip().endswith(("?", "？")) else "task"

    @property
    def subjects(self) -> float:
        """Number of subjects that a message has the rare words for, at least 1."""
        matches = self.found.joined_matches
        if matches is None:
            return 1.0
        asked = self.found.message or 0
        said = matches.terms[matches.begins[asked] : matches.stem_ends[asked]]
        return max(1.0, np.count_nonzero(everyday_shares(said) <= RAREST) / _ONE_SUBJECT)

    def _names_another(self, map_index: int, row: int) -> bool:
        """Return True if a memory has names, and the message none of their words."""
        said = terms(self.found.message_text)
        others = [terms(each) for each in names(self.found.maps[map_index].at(row).content)]
        return bool(others) and not np.isin(np.concatenate(others), said).any()

    @cached_property
    def familiarity(self) -> float:
        """Log odds that the queries are written in the words of this store and not in everyday ones."""
        matches = self.found.joined_matches
        if matches is None:
            return 0.0
        return float(np.clip(_weigh_queries(self.found, _store_odds(matches)).mean(), *_FAMILIAR_RANGE))

    def _compute_plain(self, rows: Sequence[tuple[int, int]]) -> list[float]:
        """Compute the evidence of rows: by vectors and words, or by words for a row without a vector."""
        columns = np.array([self.found.column(*each) for each in rows], np.intp)
        odds = None if self.odds is None else _weigh_rows(self.found, self._odds_of(self.odds, columns))
        if self.cosines is None or self.lengths is None:
            return self._words_to_evidence(odds, len(rows))
        heights = (self.cosines[:, columns] / self.lengths - self.usual) / self.spread
        found = self._best_with_message(heights if odds is None else heights + _NAT_WEIGHT * (odds - LEAST))
        bare = self.cosines[0, columns] == -np.inf
        if not bare.any():
            return found
        by_words = self._words_to_evidence(odds, len(rows))
        return [other if alone else own for own, other, alone in zip(found, by_words, bare, strict=True)]

    def _odds_of(self, odds: LexicalOdds, columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the log odds by words of some columns of the search, (queries, n)."""
        found = np.empty((odds.queries, len(columns)))
        for part, own in enumerate(self.found.columns):
            here = np.flatnonzero((columns >= own.start) & (columns < own.stop))
            if len(here):
                found[:, here] = odds.of_rows(part, columns[here] - own.start)
        return found

    def _words_to_evidence(self, odds: NDArray[np.float64] | None, count: int) -> list[float]:
        """Turn odds by words into the evidence of each row; `UNGATED` without odds."""
        return [UNGATED] * count if odds is None else [*map(_to_deviations, self._best_with_message(odds))]

    def own_words(self, rows: Sequence[tuple[int, int]]) -> list[bool]:
        """Return for each row, best first, if it has a rare word of the queries that none before has."""
        matches = self.found.joined_matches
        if matches is None:
            return [False] * len(rows)
        columns = np.array([self.found.column(*each) for each in rows], np.intp)
        held = _rare_terms(matches, self.found.columns, columns)
        before = np.zeros_like(held)
        before[:, 1:] = np.logical_or.accumulate(held, axis=1)[:, :-1]
        found: list[bool] = np.any(held & ~before, axis=0).tolist()
        return found

    def _best_with_message(self, values: NDArray[np.floating]) -> list[float]:
        """Return each row's best value over queries, averaged with the message's value if known."""
        best, message = values.max(axis=0).astype(np.float64), self.found.message
        typical = best if message is None or len(values) == 1 else (best + values[message]) / 2
        result: list[float] = typical.tolist()
        return result


def score_search(found: MapSearch, baseline: Baseline | None) -> GateScore:
    """Compute the `GateScore` of a search; by words alone until there is a baseline of its model.

    The mean of the queries counts: one lucky guess among five hypotheses admitted a third of the unrelated.
    """
    if found.vectors is not None and found.vectors.shape[1] < LEAST_DIMENSION:
        return GateScore(found, UNGATED)
    odds = None if found.joined_matches is None else LexicalOdds.of(found.joined_matches)
    calibrations = _part_calibrations(found, baseline)
    if baseline is None or not calibrations:
        return GateScore(found, _word_evidence(found, odds), odds=odds)
    cosines, lengths = _without_baseline(found, baseline, calibrations)
    if (shares := found.shares) is not None:
        cosines, lengths = (shares @ (cosines / lengths))[None], np.ones((1, 1), np.float32)
    cued = (calibration_of(each.index, baseline) for each in _comparable_cues(found, baseline))
    usual = reduce(np.maximum, (each.best for each in (*calibrations.values(), *cued)))
    mean = usual.sum() / len(usual)
    above = usual - mean
    spread = max(float(above @ above / len(usual)) ** 0.5, _SAME)
    heights = (cosines.max(axis=1) / lengths[:, 0] - mean) / spread
    evidence = _joint_evidence(found, odds, heights, calibrations)
    return GateScore(found, evidence, cosines, lengths, float(mean), spread, odds)


def _joint_evidence(
    found: MapSearch,
    odds: LexicalOdds | None,
    heights: NDArray[np.float64],
    calibrations: Mapping[int, Calibration],
) -> float:
    """Return the evidence of a request by vectors and words; `heights` are the best rows' per query."""
    if odds is None:
        return float(heights.sum() / len(heights))
    words = _weigh_queries(found, clip_odds(odds.best()))
    evidence = float((heights + _NAT_WEIGHT * (words - LEAST)).mean())
    homes = [place for place, home in enumerate(found.maps) for _ in home.parts]
    known = {homes[number] for number in calibrations}
    # A map whose vectors are not embedded yet counts by its words alone.
    bare = [number for number, home in enumerate(homes) if home not in known]
    return evidence if len(known) == len(found.maps) else max(evidence, _word_evidence(found, odds, bare))


def _word_evidence(found: MapSearch, odds: LexicalOdds | None, indexes: Sequence[int] | None = None) -> float:
    """Return a request's evidence by words, in standard deviations; `UNGATED` without odds."""
    if odds is None:
        return UNGATED
    return _to_deviations(float(_weigh_queries(found, clip_odds(odds.best(indexes))).mean()))


def _weigh_queries(found: MapSearch, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values of queries, (queries,), or the weighted mean of a message and its context, (1,)."""
    return values if found.shares is None else np.array([found.shares @ values])


def _weigh_rows(found: MapSearch, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values (queries, n), or for each row the weighted mean of a message and its context, (1, n)."""
    if found.shares is None:
        return values
    return np.array([[found.shares @ each for each in np.ascontiguousarray(values.T)]])


def _to_deviations(odds: float) -> float:
    """Convert log odds to standard deviations above unrelated messages, by the bound on chance."""
    return _NORMAL.inv_cdf(1 - float(np.exp(-odds - _SLACK)))


# --- vectors -----------------------------------------------------------------------------------------


def _part_calibrations(found: MapSearch, baseline: Baseline | None) -> dict[int, Calibration]:
    """Return the calibration of each compared part, by its number, if its model is the baseline's."""
    if found.cosines is None or baseline is None:
        return {}
    dimension = baseline.messages.shape[1]
    indexes = zip(found.cosines.places, found.cosines.indexes, strict=True)
    fit = ((n, index) for n, index in indexes if index.key == baseline.key and index.dimension == dimension)
    return {
        n: known
        if (known := kept_calibrations.get(index)) is not None and known.baseline is baseline
        else calibration_of(index, baseline)
        for n, index in fit
        if index.vector_count
    }


def _without_baseline(
    found: MapSearch, baseline: Baseline, calibrations: Mapping[int, Calibration]
) -> tuple[Vectors, Vectors]:
    """Return cosines without mean and axes, (queries, rows), and the lengths of the queries, (queries, 1)."""
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

    def write(raw: Vectors, calibration: Calibration, out: Vectors) -> None:
        np.subtract(raw, np.matmul(weights, calibration.products, out=out), out=out)
        out *= calibration.scales

    for place, calibration in calibrations.items():
        columns = found.columns[place]
        write(compared.raw[:, columns], calibration, result[:, columns])
    if compared.missing.any():
        result[:, compared.missing] = -np.inf
    for each in _comparable_cues(found, baseline):
        cosines = np.empty_like(each.raw)
        write(each.raw, calibration_of(each.index, baseline), cosines)
        cosines[:, each.index.missing] = -np.inf
        each.cues.lift(result[:, each.columns], cosines, compared.missing[each.columns])
    return result, lengths


def _comparable_cues(found: MapSearch, baseline: Baseline) -> Iterator[CueCosines]:
    """Yield the cosines with cues that have a vector of the baseline's model."""
    cued = () if found.cosines is None else found.cosines.cued
    return (each for each in cued if each.index.vector_count and baseline.fits(each.index))


# --- words ------------------------------------------------------------------------------------------

# A term of the message comes from the row with this share, else from the prior; 0.25-0.6 are equal. Of a long
# message, as of a pasted log, only so many terms speak of a memory.
_TERM_SHARE, _MAX_TERMS = 0.4, 5.0
_SHORTEST = 8  # least length of a row, in terms
LEAST, MOST = -2.0, 10.0
"""Limits of the odds: more than 10 nats is a text quoted in another, and other words prove nothing."""


class LexicalOdds(msgspec.Struct, frozen=True, eq=False):
    """Log odds by words that a query was written with a row in mind: a table for each index."""

    rows: tuple[NDArray[np.float64], ...]
    sizes: tuple[int, ...]
    queries: int

    @classmethod
    def of(cls, matches: TermMatches) -> LexicalOdds:
        """Compute the log odds of every row of the matched indexes for every query."""
        prior = everyday_shares(matches.terms)
        rows = tuple(_index_odds(matches, number, prior) for number in range(len(matches.indexes)))
        return cls(rows, tuple(index.size for index in matches.indexes), len(matches.stem_ends))

    def best(self, indexes: Sequence[int] | None = None) -> NDArray[np.float64]:
        """Return the log odds, (queries,), that a query was written with the best row of indexes in mind."""
        numbers = range(len(self.rows)) if indexes is None else indexes
        size = sum(self.sizes[number] for number in numbers)
        if not size:
            return np.full(self.queries, LEAST)
        best = [self.rows[number].max(axis=1, initial=-np.inf) for number in numbers]
        odds: NDArray[np.float64] = np.max(best, axis=0)
        return odds - float(np.log(size))

    def of_rows(self, index: int, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the log odds by words of some rows of an index, (queries, n), from LEAST to MOST."""
        known = self.rows[index]
        found, there = np.full((self.queries, len(rows)), LEAST), rows < known.shape[1]
        found[:, there] = clip_odds(known[:, rows[there]] - float(np.log(max(sum(self.sizes), 1))))
        return found


def _store_odds(matches: TermMatches) -> NDArray[np.float64]:
    """Return the log odds, (queries,), that queries are in the words of all memories, not everyday ones."""
    size = max(1, sum(index.stems for index in matches.indexes))
    gains = matches.frequency / (size * everyday_shares(matches.terms))
    odds = np.log1p(gains * _TERM_SHARE / (1 - _TERM_SHARE)) + np.log1p(-_TERM_SHARE)
    spans = zip(matches.begins, matches.stem_ends, strict=False)
    return np.array([odds[first:last].sum() for first, last in spans])


def _rare_terms(matches: TermMatches, parts: Sequence[slice], columns: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which rare terms of the queries each of some columns has, (terms, columns)."""
    rare = everyday_shares(matches.terms) <= RAREST
    held = np.zeros((len(matches.terms), len(columns)), np.bool_)
    for own, hits in zip(parts, matches.hits, strict=True):
        here = np.flatnonzero((columns >= own.start) & (columns < own.stop))
        if not len(here):
            continue
        wanted = columns[here] - own.start
        for first, last, found in zip(matches.begins, matches.stem_ends, hits, strict=False):
            ends = np.cumsum(found.lengths[: last - first])
            for term, (begin, end) in enumerate(pairwise([0, *ends.tolist()]), first):
                if rare[term] and end > begin:
                    held[term, here] = np.isin(wanted, found.rows[begin:end])
    return held


def clip_odds(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Limit odds to the range from LEAST to MOST."""
    within: NDArray[np.float64] = np.clip(odds, LEAST, MOST)
    return within


def _index_odds(matches: TermMatches, number: int, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log likelihood ratios of an index's rows for all queries, (queries, rows)."""
    index = matches.indexes[number]
    in_row = 1 / np.maximum(index.lengths, _SHORTEST)
    odds = np.zeros((len(matches.stem_ends), len(in_row)))
    for query in range(len(odds)):
        odds[query] = _query_odds(matches, number, query, prior, in_row)
    return odds


def _query_odds(
    matches: TermMatches, number: int, query: int, prior: NDArray[np.float64], in_row: NDArray[np.float64]
) -> NDArray[np.float64] | float:
    """Return the log likelihood ratio of each row for one query; `in_row` is a term's share of a row."""
    first, last = matches.begins[query], matches.stem_ends[query]
    if first == last:
        return 0.0
    share = min(_TERM_SHARE, _MAX_TERMS / (last - first))
    lengths = matches.hits[number][query].lengths[: last - first]
    rows = matches.hits[number][query].rows[: lengths.sum()]
    gains = in_row.take(rows)
    gains /= np.repeat(prior[first:last], lengths)
    np.maximum(gains, 1, out=gains)
    gains *= share / (1 - share)
    sums = np.bincount(rows, np.log1p(gains, out=gains), len(in_row))
    gone = matches.indexes[number].gone
    if gone is not None:
        sums[gone] = 0
    return np.asarray(sums + (last - first) * np.log1p(-share), np.float64)


# --- decisions ---------------------------------------------------------------------------------------


class Margins(msgspec.Struct, frozen=True):
    """Gate limits: margins below a strong request, in standard deviations, and the most admissions.

    A `weak` request and a `short` memory may be lower by so many. A memory also needs `part` of the best
    one's evidence for each subject, and without a rare word of its own `neighbour_part`; 0 for none. At most
    `most` are admitted.
    """

    weak: float
    short: float
    part: float = 0.0
    neighbour_part: float = 0.0
    most: int = 100

    def lowest(self, least: float, best: float, *, has_own: bool) -> float:
        """Return the evidence that a memory needs, from a strong request's `least` and the best memory's.

        `has_own`: it has a rare word of the message that no better memory has.
        """
        part = self.part if has_own else self.neighbour_part
        return max(least - self.short, min(best, part * best)) if part else least - self.short


# Rare words of one subject: a bug report of several sentences asks for more than its one best memory. 8 to 14
# are equal there, and from 12 on the short questions keep theirs.
_ONE_SUBJECT = 12
# A source is beyond doubt at so many times the threshold of a strong request.
_DOUBTLESS = 1.5
# By vectors, on the development halves. Alone 1.25 to 1.4 trade recall for memories per unrelated message,
# and parts of 0.3 to 0.6 for the share that answers. In a session 2.1 to 2.6 trade recall for tokens.
_SIX = 6
_ALONE, _SESSION = Margins(1.25, 1.25, 0.35, 0.45, _SIX), Margins(1.65, 2.4)
# By words alone one common word is chance: without a session nothing is admitted for it.
_ALONE_WORDS, _SESSION_WORDS = Margins(0.0, 9.0, 0.0, 0.5, _SIX), Margins(2.4, 9.0, most=_SIX)
# The least limit of a turn, however many memories came before it.
_FEWEST = 3
# Margin of a session's first message, and the most memories for each deviation above it. With 1.3 and 4 an
# unrelated message brings a tenth more memories, and recall is the same.
_FIRST, _FOR_EACH = 0.8, 5
FAINT, FAR, FULL = "faint", "far", "full"


def is_hopeless(gate_score: GateScore, least: float, *, turn: int = 0) -> bool:
    """Return True if a request's evidence is too low to admit any memory: no candidates are needed."""
    return _above_bar(gate_score, least, turn) < 0


def _above_bar(gate_score: GateScore, least: float, turn: int) -> float:
    """Return how far a request is above what any admission needs, in standard deviations."""
    if turn == 1 and gate_score.evidence != UNGATED:  # it may be about anything: the store's words count
        return gate_score.evidence + _FAMILIAR * gate_score.familiarity - (least - _FIRST)
    return gate_score.evidence - (least - _margins_for(gate_score, turn).weak)


def gate_decisions(
    gate_score: GateScore, candidates: Sequence[Ranked], least: float, *, turn: int = 0, most: int
) -> list[Ranked]:
    """Return the candidates with their evidence and the rule that admitted or rejected each.

    At most `most` are admitted. `least` is the evidence of a strong request. `turn` is the number of a
    session's turn, 0 without a session.
    """
    if gate_score.evidence == UNGATED:
        return [each if n < most else replace(each, rejected=FULL) for n, each in enumerate(candidates)]
    judged = list(_decide_each(gate_score, candidates, least, turn))
    enough = [n for n, each in enumerate(judged) if not each.rejected]
    enough.sort(key=lambda n: -judged[n].evidence)
    above = _above_bar(gate_score, least, turn)
    for n in enough[_most_admitted(_margins_for(gate_score, turn), turn, most, above) :]:
        judged[n] = replace(judged[n], admitted_as="", rejected=FULL)
    return judged


def admission_limit(*, turn: int, most: int, by_vectors: bool) -> int:
    """Return the most memories that a request may admit in a turn (0: no session), however strong."""
    if turn:
        return _most_admitted(_SESSION if by_vectors else _SESSION_WORDS, turn, most)
    return _most_admitted(_ALONE if by_vectors else _ALONE_WORDS, turn, most)


def _most_admitted(margins: Margins, turn: int, most: int, above: float = UNGATED) -> int:
    """Return how many memories a request may admit; in a first turn by how far it is `above` the bar."""
    if turn == 1 and above < most:
        return min(most, margins.most, ceil(_FOR_EACH * above))
    return min(most, margins.most, max(_FEWEST, 5 * most // (2 * turn + 2)) if turn else margins.most)


def _decide_each(
    gate_score: GateScore, candidates: Sequence[Ranked], least: float, turn: int
) -> Iterator[Ranked]:
    """Yield each candidate with the decision on it alone, without a limit on their number."""
    margins = _margins_for(gate_score, turn)
    rows = [(each.map_index, each.row) for each in candidates]
    evidence = gate_score.evidences(rows)
    best, hopeless = max(evidence, default=0.0), is_hopeless(gate_score, least, turn=turn)
    if gate_score.unknown_name == "question":
        best = max(best, gate_score.evidence)  # what speaks of another name is still what is nearest
    best /= gate_score.subjects
    lowest = dict.fromkeys(rows, margins.lowest(least, best, has_own=True))
    if margins.neighbour_part:
        order = sorted(range(len(rows)), key=lambda n: -evidence[n])
        for n, has_own in zip(order, gate_score.own_words([rows[n] for n in order]), strict=True):
            lowest[rows[n]] = margins.lowest(least, best, has_own=has_own)
    for each, row, own in zip(candidates, rows, evidence, strict=True):
        came = stayed = ""
        if hopeless or own < least - margins.short:
            stayed = FAINT
        elif own < lowest[row]:
            stayed = FAR
        else:
            came = "strong" if own >= least else "near" if gate_score.evidence >= least else "weak"
        yield replace(each, evidence=own, admitted_as=came, rejected=stayed)


def label_confidence(gate_score: GateScore, candidates: Sequence[Ranked], strong: float) -> list[Ranked]:
    """Return candidates with their evidence's label in `admitted_as`; unchanged if `UNGATED`."""
    if gate_score.evidence == UNGATED:
        return list(candidates)
    evidence = gate_score.evidences([(each.map_index, each.row) for each in candidates])
    return [
        replace(each, admitted_as=confidence_label(own, strong))
        for each, own in zip(candidates, evidence, strict=True)
    ]


def confidence_label(evidence: float, strong: float) -> str:
    """Return evidence as a label for people: strong, near or weak."""
    if evidence >= strong:
        return "strong"
    return "near" if _is_near(evidence, strong) else "weak"


def _is_near(evidence: float, least: float) -> bool:
    """Return True if evidence is enough for a memory of a weak request without a session."""
    return evidence >= least - _ALONE.short


def may_follow(gate_score: GateScore, source: tuple[int, int], target: tuple[int, int], least: float) -> bool:
    """Return True to follow a link: its target has enough evidence, its source much, or no gate."""
    if gate_score.evidence == UNGATED:
        return True
    has_some = _is_near(gate_score.evidence_of(*target), least)
    return has_some or gate_score.evidence_of(*source) >= _DOUBTLESS * least


def _margins_for(gate_score: GateScore, turn: int) -> Margins:
    """Return the margins of a session's turn or of a single request, by vectors or by words alone."""
    if gate_score.cosines is None:
        return _SESSION_WORDS if turn else _ALONE_WORDS
    return _SESSION if turn else _ALONE
