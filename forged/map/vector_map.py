"""A root's memories, frozen together with what finds them, and the search over the maps a request sees.

Readers keep the map they got: a rebuild makes a new one and swaps it in by one assignment, so no search ever
waits or meets half a map. All maps of a request are searched as if they were one: both legs are scored over
all visible rows, standardised by the mean and deviation of all of them, and added (design.md D18).

Search is "each query's top k, union by id with the best score, sort by (-score, id), cap at k" (design.md
D10), done as one selection over each row's best score. It is the same: take a row of the final k and the
query that gave it its score; whatever beats it under that query has a best score that beats it too, so fewer
than k rows do, so it is in that query's top k.

With a lexical leg more than D10 goes on: the user's own message is heard with every hypothesis, a memory of a
time that is named is preferred, and the best candidates hear one another (`reranking`). A lexical weight of 0
is ADR-0047 to the letter, and has none of this.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map import lexical
from forged.map.chains import Chains
from forged.map.dense import Centre, DenseLeg, cosines_into, joint_centre
from forged.map.lexical import LexicalLeg
from forged.map.reranking import CANDIDATES, reranked
from forged.map.traits import Traits, are_wide
from forged.memory import Memory
from forged.models import Vectors
from forged.text.dates import of_named_time
from forged.text.terms import Terms, terms

# Equal rows differ in the last bits, according to where they lie in a block; this near, scores are equal.
_SAME = 1e-6
_NONE = np.empty(0, np.int64)
_ID = operator.attrgetter("id")
# Deviations that a memory of a named time is ahead; 0.5-1.5 are alike. Worth 2.2 points of recall@10 and 1.6
# of nDCG@10 on LoCoMo's development half, where 74 of 631 questions name a time, and none is lost.
_NAMED_TIME = 1.0
# Selecting among the maxima of such blocks first takes a quarter of the time of one partition.
_BLOCK = 64


class VectorMap(msgspec.Struct, frozen=True, eq=False):
    """Everything one root can answer with.

    `memories` are sorted by id, and no id is twice among them; a memory's place among them is its row
    in both legs and in the traits. A leg is None until it is built.
    """

    root: str
    scope: str
    generation: int
    memories: tuple[Memory, ...]
    lexical: LexicalLeg | None
    dense: DenseLeg | None
    chains: Chains
    traits: Traits

    def __len__(self) -> int:
        return len(self.memories)

    def find(self, memory_id: str) -> Memory | None:
        """The memory of an id, by bisection: a dict of all of them would make an edit a fifth slower."""
        row = bisect_left(self.memories, memory_id, key=_ID)
        found = self.memories[row] if row < len(self.memories) else None
        return found if found is not None and found.id == memory_id else None


class Candidate(msgspec.Struct, frozen=True):
    """A row of one of the maps searched.

    `score` is what it was ranked by; `cosine` its best raw cosine, None without a vector; `lexical` its best
    BM25 as a share of what is attainable, None where no word matches; `query` the query that found it.
    """

    map_index: int
    row: int
    score: float
    cosine: float | None
    lexical: float | None
    query: int


def search(
    maps: Sequence[VectorMap],
    *,
    texts: Sequence[str],
    vectors: Vectors | None,
    k: int,
    lexical_weight: float,
    message: int | None = None,
    key: str | None = None,
) -> list[Candidate]:
    """Return the best k memories of all maps, best first, equal scores by id.

    Args:
        maps: what the request sees. Where two hold one id, only the first map's memory counts.
        texts: the queries in words; unused with `lexical_weight` 0.
        vectors: the same queries as unit float32 rows, or None: then the words decide alone.
        k: at most so many.
        lexical_weight: share of the lexical leg in the score; 0 is plain cosine without centring, and finds
            nothing where there are no vectors (design.md D18).
        message: which of the queries is the user's own words, if any is.
        key: the embedder that made `vectors`; dense legs of any other are ignored.

    Raises ValueError when texts and vectors are both needed and differ in number.
    """
    visible = _Visible.of(maps)
    if not visible.size or k < 1:
        return []
    dense = None if vectors is None else _Dense.of(visible, vectors, texts, key)
    words = None if lexical_weight == 0 else _Words.of(visible, texts)
    scores = _scores(dense, words, lexical_weight)
    if scores is None or not len(scores):
        return []
    if words is not None:
        _prefer_named_time(scores, texts, visible, words if dense is None else None)
    best = scores.max(axis=0)
    if words is not None and message is not None:
        # Hypotheses that miss the point cost 14 points less of recall@10 so, and good ones lose 0.7.
        best = (best + scores[message]) / 2
    best[~_findable(dense, words)] = -np.inf
    hits = visible.selected(best, k if words is None else max(CANDIDATES, 2 * k))
    if words is not None:
        hits = _reranked(hits, dense, visible)
    return [_candidate(hit, scores, dense, words) for hit in hits[:k]]


class _Hit(msgspec.Struct, frozen=True):
    """A row that was selected, by its place among the maps and by its column among all rows."""

    place: int
    row: int
    column: int
    score: float


def _candidate(
    hit: _Hit, scores: NDArray[np.float32], dense: _Dense | None, words: _Words | None
) -> Candidate:
    return Candidate(
        hit.place,
        hit.row,
        hit.score,
        dense.best_cosine(hit.column) if dense is not None else None,
        words.best_score(hit.column) if words is not None else None,
        int(scores[:, hit.column].argmax()),
    )


class _Visible(msgspec.Struct, frozen=True, eq=False):
    """All rows a request sees, in one numbering: the columns of every score matrix."""

    maps: tuple[VectorMap, ...]
    columns: tuple[slice, ...]
    size: int

    @classmethod
    def of(cls, maps: Sequence[VectorMap]) -> _Visible:
        ends = list(accumulate(map(len, maps), initial=0))
        return cls(tuple(maps), tuple(map(slice, ends[:-1], ends[1:])), ends[-1])

    def selected(self, best: NDArray[np.float32], k: int) -> list[_Hit]:
        """The k best columns that are not -inf, no id twice."""
        wanted = k
        while True:
            found = [hit for hit in self._ranked(best, wanted) if not self._is_shadowed(hit)]
            if len(found) >= k or wanted >= self.size:
                return found[:k]
            wanted *= 2

    def ordered(self, columns: NDArray[np.intp], scores: NDArray[np.float32]) -> list[_Hit]:
        """Columns sorted by (-score, id)."""
        order = np.argsort(-scores, kind="stable")
        columns, values = columns[order], _without_noise(scores[order])
        starts = np.array([own.start for own in self.columns])
        places = np.searchsorted(starts, columns, side="right") - 1
        rows = columns - starts[places]
        hits = map(_Hit, places.tolist(), rows.tolist(), columns.tolist(), values)
        return sorted(hits, key=lambda hit: (-hit.score, self._memory(hit).id, hit.place))

    def _ranked(self, best: NDArray[np.float32], k: int) -> list[_Hit]:
        """Sort the k best columns, and all that equal the last of them."""
        columns = np.flatnonzero(best >= _cut(best, k))
        return self.ordered(columns, best[columns])

    def _memory(self, hit: _Hit) -> Memory:
        return self.maps[hit.place].memories[hit.row]

    def _is_shadowed(self, hit: _Hit) -> bool:
        """Whether an earlier map holds a memory of the same id."""
        memory_id = self._memory(hit).id
        return any(earlier.find(memory_id) is not None for earlier in self.maps[: hit.place])


class _Words(msgspec.Struct, frozen=True, eq=False):
    """The lexical half of one search: BM25 (queries, columns), 0 where no word matches."""

    scores: lexical.Scores
    queries: tuple[Terms, ...]

    @classmethod
    def of(cls, visible: _Visible, texts: Sequence[str]) -> _Words:
        queries = tuple(map(terms, texts))
        return cls(lexical.scores(_lexical_legs(visible), queries), queries)

    def best_score(self, column: int) -> float | None:
        return float(self.scores[:, column].max()) or None


class _Dense(msgspec.Struct, frozen=True, eq=False):
    """The dense half of one search: raw cosines (queries, columns), 0 where `missing`: no vector there.

    `wide` (queries,) says which queries are in wide characters; `centre` is None for a few vectors.
    """

    cosines: Vectors
    missing: NDArray[np.bool_]
    queries: Vectors
    wide: NDArray[np.bool_]
    legs: tuple[DenseLeg, ...]
    columns: tuple[slice, ...]
    centre: Centre | None

    @classmethod
    def of(cls, visible: _Visible, queries: Vectors, texts: Sequence[str], key: str | None) -> _Dense | None:
        """Compare every query with every row, or return None when no map has vectors to compare with."""
        usable = [
            (each.dense, columns, each.traits.wide)
            for each, columns in zip(visible.maps, visible.columns, strict=True)
            if each.dense is not None
            and each.dense.dimension == queries.shape[1]
            and key in {None, each.dense.key}
        ]
        if not usable:
            return None
        queries = np.ascontiguousarray(queries, np.float32)  # float64 would cast every block
        legs, columns, wide = zip(*usable, strict=True)
        cosines = np.empty((len(queries), visible.size), np.float32)
        missing = np.ones(visible.size, np.bool_)
        if sum(map(len, legs)) < visible.size:
            cosines.fill(0)
        for leg, own in zip(legs, columns, strict=True):
            cosines_into(cosines[:, own], leg, queries)
            missing[own] = leg.missing
        return cls(cosines, missing, queries, are_wide(texts), legs, columns, joint_centre(legs, wide))

    def standardised(self) -> Vectors:
        """Cosines, centred if there are enough of them, in deviations from their mean; 0 where missing."""
        if self.centre is None:
            return _standardised(self.cosines, np.flatnonzero(self.missing))
        centred = np.zeros_like(self.cosines)
        for leg, own in enumerate(self.columns):
            self.centre.apply(leg, self.cosines[:, own], self.queries, self.wide, out=centred[:, own])
        return _standardised(centred, np.flatnonzero(self.missing))

    def rows(self, columns: NDArray[np.intp]) -> Vectors:
        """Unit rows of some columns, (c, d), centred if all are; zero where there is no vector."""
        found = np.zeros((len(columns), self.queries.shape[1]), np.float32)
        for number, (leg, own) in enumerate(zip(self.legs, self.columns, strict=True)):
            here = np.flatnonzero((columns >= own.start) & (columns < own.stop))
            rows = columns[here] - own.start
            found[here] = leg.some(rows) if self.centre is None else self.centre.rows(number, leg, rows)
        return found

    def best_cosine(self, column: int) -> float | None:
        return None if self.missing[column] else float(self.cosines[:, column].max())


def _scores(dense: _Dense | None, words: _Words | None, weight: float) -> NDArray[np.float32] | None:
    """Score of every column under every query; None where nothing can be compared."""
    if dense is None:
        return None if words is None else words.scores.copy()
    if words is None:
        return dense.cosines
    if words.scores.shape != dense.cosines.shape:
        raise ValueError(f"{len(words.queries)} texts, but {len(dense.queries)} vectors")
    return dense.standardised() + np.float32(weight) * _standardised(words.scores)


def _findable(dense: _Dense | None, words: _Words | None) -> NDArray[np.bool_]:
    """Which columns have a vector or a matching word."""
    matched = np.False_ if words is None else (words.scores > 0).any(axis=0)
    return np.asarray(matched if dense is None else ~dense.missing | matched)


def _prefer_named_time(
    scores: NDArray[np.float32], texts: Sequence[str], visible: _Visible, words: _Words | None
) -> None:
    """Add to the scores of memories of a time that a query names. `words` decide alone, if they are given.

    Without vectors a deviation is that of the matching rows, as most rows match nothing at all.
    """
    created = np.concatenate([each.traits.created for each in visible.maps])
    for row, text in enumerate(texts):
        named = of_named_time(text, created)
        if named is None:
            continue
        if words is None:
            scores[row, named] += _NAMED_TIME
        else:
            matching = words.scores[row] > 0
            deviation = words.scores[row, matching].std() if matching.any() else 0
            scores[row, named & matching] += _NAMED_TIME * deviation


def _reranked(hits: list[_Hit], dense: _Dense | None, visible: _Visible) -> list[_Hit]:
    """Let the candidates hear one another, and sort them again. Occasions of two maps are two occasions."""
    if not hits:
        return []
    columns = np.array([hit.column for hit in hits])
    occasion = [
        len(visible.maps) * int(visible.maps[hit.place].traits.occasion[hit.row]) + hit.place for hit in hits
    ]
    rows = None if dense is None else dense.rows(columns)
    scores = np.array([hit.score for hit in hits], np.float32)
    return visible.ordered(columns, reranked(scores, rows, np.array(occasion)))


def _standardised(scores: NDArray[np.float32], missing: NDArray[np.int64] = _NONE) -> NDArray[np.float32]:
    """Each query's scores in deviations from their mean; 0 where all are equal.

    Scores of `missing` columns are 0, before and after, and do not count.
    """
    present = max(1, scores.shape[1] - len(missing))
    result: NDArray[np.float32] = scores - scores.sum(axis=1, keepdims=True) / present
    result[:, missing] = 0
    deviation = np.sqrt(np.einsum("ij,ij->i", result, result) / present)
    result *= np.where(deviation > _SAME, 1 / np.maximum(deviation, _SAME), 0)[:, None]
    return result


def _cut(best: NDArray[np.float32], k: int) -> np.float32:
    """Find a score that the k best reach, and whatever is equal to the last of them."""
    lowest = np.float32(np.finfo(np.float32).min)
    if k >= len(best):
        return lowest
    blocks = best[: len(best) // _BLOCK * _BLOCK].reshape(-1, _BLOCK).max(axis=1)
    if len(blocks) > k:  # at least k scores reach the k-th best block's maximum
        best = best[best >= _kth(blocks, k)]
    last = _kth(best, k)
    return max(lowest, last - np.float32(_SAME) * max(np.float32(1), abs(last)))


def _kth(scores: NDArray[np.float32], k: int) -> np.float32:
    kth: np.float32 = np.partition(scores, len(scores) - k)[len(scores) - k]
    return kth


def _without_noise(descending: NDArray[np.float32]) -> list[float]:
    """Scores, best first, in which each takes the value of the one before when they differ by rounding."""
    values: list[float] = descending.tolist()
    for i in range(1, len(values)):
        if values[i - 1] - values[i] <= _SAME * max(1.0, abs(values[i])):
            values[i] = values[i - 1]
    return values


def _lexical_legs(visible: _Visible) -> list[LexicalLeg]:
    return [each.lexical or LexicalLeg.empty(len(each)) for each in visible.maps]
