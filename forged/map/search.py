"""Search over the maps that a request sees, as if they were one.

In: maps, and queries as texts and vectors. Out: `MapSearch`, the cosines and postings that the gate reads
too, and `MapSearch.best`, the candidates in one total order. Dense and lexical scores are standardised over
all visible rows and added: statistics of each map would move a small unrelated map to the front. The best of
several queries counts, which equals ADR-0047's union of each query's top k. A lexical weight of 0 is plain
cosine. Otherwise the message counts next to every hypothesis, a day that a query names is preferred, and the
best 64 are smoothed.

Smoothing measured on LoCoMo's development half, 631 questions, e5, recall@10 / nDCG@10 in points, each added
alone and left out of everything (own set in brackets): neighbours +1.2/+0.9 and 0.6/0.3 (+0.2/+0.8, 1.1/1.0);
occasion +1.9/+1.6 and 1.8/1.4 (0/0, 0/0). Eight searches compared together take less than half the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map import lexical
from forged.map.dense import Centre, DenseIndex, joint_centre, write_cosines
from forged.map.lexical import EMPTY_INDEX, TermMatches
from forged.map.parts import Cues, MapPart, are_cjk
from forged.map.vector_map import VectorMap
from forged.memory import Memory
from forged.models import Vectors
from forged.text.dates import A_TIME, Seconds, named_time_mask

Scores = NDArray[np.float32]
Columns = NDArray[np.intp]

_NONE = np.empty(0, np.int64)
_NO_SCORES = np.empty((1, 0), np.float32)
# Share of the continued text in the score of a message; 0.4 to 0.6 are equal.
_CONTINUED = 0.5


class CueCosines(msgspec.Struct, frozen=True, eq=False):
    """Cosines of the queries with the cues of a part: `raw` (queries, c); `columns` are the part's rows."""

    cues: Cues
    index: DenseIndex
    columns: slice
    raw: Vectors


class Cosines(msgspec.Struct, frozen=True, eq=False):
    """Cosines of the queries with all rows that have a vector: `raw` (queries, rows), 0 if `missing`.

    `places` are the numbers of the parts whose `indexes` were compared, `columns` their rows, `cued` the
    cosines with the cues of some of them.
    """

    raw: Vectors
    missing: NDArray[np.bool_]
    queries: Vectors
    places: tuple[int, ...]
    indexes: tuple[DenseIndex, ...]
    columns: tuple[slice, ...]
    cued: tuple[CueCosines, ...] = ()

    @classmethod
    def of(cls, maps: Sequence[VectorMap], queries: Vectors, key: str | None) -> Cosines | None:
        """Compute the cosines of queries with all rows and cues of maps; None without comparable vectors."""
        parts, columns = _parts_of(maps)
        usable = [
            (place, index, own)
            for place, (each, own) in enumerate(zip(parts, columns, strict=True))
            if (index := _dense_index_of(each, key)) is not None
            and each.memories
            and index.dimension == queries.shape[1]
        ]
        if not usable:
            return None
        queries = np.ascontiguousarray(queries, np.float32)  # float64 would cast every block
        size = columns[-1].stop
        raw = np.empty((len(queries), size), np.float32)
        missing = np.ones(size, np.bool_)
        if len(usable) < len(parts):
            raw.fill(0)
        for _, index, own in usable:
            write_cosines(raw[:, own], index, queries)
            raw[:, own.start + index.gone] = 0
            missing[own] = index.missing
        places, indexes, of_indexes = zip(*usable, strict=True)
        cued = (_cue_cosines(parts[place].cues, dense, own, queries) for place, dense, own in usable)
        there = tuple(each for each in cued if each is not None)
        return cls(raw, missing, queries, places, indexes, of_indexes, there)

    def of_queries(self, first: int, last: int) -> Cosines:
        """Return the cosines of the queries from number `first` to before `last`."""
        return msgspec.structs.replace(
            self,
            raw=self.raw[first:last],
            queries=self.queries[first:last],
            cued=tuple(msgspec.structs.replace(each, raw=each.raw[first:last]) for each in self.cued),
        )


def _dense_index_of(part: MapPart, key: str | None) -> DenseIndex | None:
    """Return a part's index of the model `key` (None: the map's own model); None without one."""
    indexes = (part.dense,) if key is None else (part.dense, part.second)
    return next((each for each in indexes if each is not None and key in {None, each.key}), None)


def _cue_cosines(cues: Cues | None, own: DenseIndex, columns: slice, queries: Vectors) -> CueCosines | None:
    """Return the cosines of the queries with a part's cues; None without cues of the same model."""
    index = cues.dense if cues is not None else None
    if cues is None or index is None or (index.key, index.dimension) != (own.key, own.dimension):
        return None
    raw = np.empty((len(queries), len(index)), np.float32)
    write_cosines(raw, index, queries)
    return CueCosines(cues, index, columns, raw)


def compare_batch(
    maps: Sequence[VectorMap], asked: Sequence[Vectors], key: str | None
) -> tuple[Cosines | None, ...]:
    """Compare the query vectors of several callers by one product; return the cosines of each caller.

    `key` is their embedder's.
    """
    together = asked[0] if len(asked) == 1 else np.concatenate(asked)
    found = Cosines.of(maps, together, key)
    if found is None or len(asked) == 1:
        return (found,) * len(asked)
    ends = accumulate(map(len, asked), initial=0)
    return tuple(found.of_queries(first, last) for first, last in pairwise(ends))


def _parts_of(maps: Sequence[VectorMap]) -> tuple[tuple[MapPart, ...], tuple[slice, ...]]:
    """Return the parts of all maps, and the columns of each part in one numbering of all rows."""
    parts = tuple(part for each in maps for part in each.parts)
    sizes = accumulate((len(part.memories) for part in parts), initial=0)
    return parts, tuple(slice(*own) for own in pairwise(sizes))


class Ranked(msgspec.Struct, frozen=True):
    """One search result: the head of a found chain, its older versions, scores, gate decision.

    `cosine` is the best raw one, None without a vector. `lexical` is the best BM25 as a share of the
    attainable, None if no word matches. Both and `score` are of the best version, which is `row` of a map.
    Scores of two stores are in different units. `root` is the top of its file root; an id is unique only
    there. `concurrent_heads` are the other heads of a forked chain.

    `found_by` is the way it was found: "search", "link", "entity", or in a session "pinned", "injected",
    "correction". `admitted_as` is the gate rule that admitted it: strong, near, weak (best of a weak
    request), link, pinned. `rejected` is the reason of the gate against it: faint (too little evidence), far
    (too little next to the best), full (others came first), given (already in context). Both are "" without a
    decision. `evidence` is its gate score, infinite without a baseline.
    """

    memory: Memory
    score: float
    cosine: float | None = None
    lexical: float | None = None
    found_by: str = "search"
    older: tuple[Memory, ...] = ()
    root: str = ""
    concurrent_heads: tuple[Memory, ...] = ()
    admitted_as: str = ""
    model: str = ""
    path: str = ""
    rejected: str = ""
    evidence: float = float("inf")
    map_index: int = 0
    row: int = 0

    @property
    def distance(self) -> float | None:
        """Cosine distance to the query, smaller is nearer; None without a vector."""
        return None if self.cosine is None else 1.0 - self.cosine

    @property
    def same(self) -> tuple[str, str]:
        """Scope and id: equal for one memory found in a file and on a server."""
        return self.memory.scope, self.memory.id

    @property
    def key(self) -> tuple[str, str]:
        """Root and id, unique for each memory: two roots may hold one id."""
        return self.root, self.memory.id


def search_maps(
    maps: Sequence[VectorMap],
    *,
    texts: Sequence[str],
    vectors: Vectors | None,
    lexical_weight: float,
    message: int | None = None,
    key: str | None = None,
    cosines: Cosines | None = None,
    continued: int | None = None,
) -> MapSearch:
    """Search maps by vectors and words; return a search whose `best` ranks the memories of all maps.

    `vectors` are the queries as unit float32 rows by the embedder of `key`; with None only words count.
    `lexical_weight` is the share of words in the score; 0 is plain cosine without centring. `message` and
    `continued` are the numbers of two queries: the user's own words, and the text that they continue. With
    `continued` a score is the mean of the two. `cosines` are those of `vectors`, if already computed. Raises
    ValueError when texts and vectors are both needed and differ in number.
    """
    if cosines is None and vectors is not None:
        (cosines,) = compare_batch(maps, [vectors], key)
    if lexical_weight and cosines is not None and len(texts) != len(cosines.queries):
        raise ValueError(f"{len(texts)} texts, but {len(cosines.queries)} vectors")
    parts, columns = _parts_of(maps)
    indexes = [each.lexical if each.lexical is not None else EMPTY_INDEX for each in parts]
    return MapSearch(
        maps=tuple(maps),
        parts=parts,
        columns=columns,
        texts=tuple(texts),
        vectors=vectors,
        message=message,
        lexical_weight=lexical_weight,
        cosines=cosines,
        matches=lexical.match_terms(indexes, texts) if lexical_weight else None,
        shares=_shares(len(texts), message, continued),
    )


def _shares(count: int, message: int | None, continued: int | None) -> Vectors | None:
    """Return query weights: half each for message and continued text; None if either is missing."""
    if continued is None or message is None:
        return None
    shares = np.zeros(count, np.float32)
    shares[[message, continued]] = 1 - _CONTINUED, _CONTINUED
    return shares


class MapSearch(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """One search of all rows of maps, numbered as columns: cosines and word matches, ranked by `best`.

    `columns` are the rows of each of `parts`. `cosines` is None without vectors to compare. `matches`, one
    index for each part, is None without a lexical weight. Most searches only need the gate, so scores are
    computed at the first call of `best`.
    """

    maps: tuple[VectorMap, ...]
    parts: tuple[MapPart, ...]
    columns: tuple[slice, ...]
    texts: tuple[str, ...]
    vectors: Vectors | None
    message: int | None
    lexical_weight: float
    cosines: Cosines | None
    matches: TermMatches | None
    shares: Vectors | None = None

    def best(self, k: int) -> list[Ranked]:
        """Return the best k memories of all maps, best first; of equal ones the stale last, then by id."""
        if k < 1 or not len(self._row_scores):
            return []
        if self.matches is None:
            columns = top_columns(self._row_scores, k)
            columns, scores = self._sort_columns(columns, self._row_scores[columns])
            return self._to_results(columns[:k], scores[:k])
        columns = self._top_columns(max(CANDIDATES, 2 * k))
        scores = self._row_scores[columns]
        scores = smoothed(scores, self._unit_rows(columns), self._occasions(columns))
        columns, scores = self._sort_columns(columns, scores)
        return self._to_results(columns[:k], scores[:k])

    def column(self, map_index: int, row: int) -> int:
        """Return the column, in the numbering of all maps, of a row of one map."""
        return int(self._starts[map_index]) + row

    @property
    def message_text(self) -> str:
        """The user's message, or the first query without one."""
        return self.texts[self.message or 0]

    @cached_property
    def _bm25(self) -> Scores | None:
        """BM25 of every row, (queries, rows), 0 if no word matches."""
        if self.matches is None:
            return None
        scores = np.zeros((len(self.texts), int(self._starts[-1])), np.float32)
        for columns, own in zip(self.columns, lexical.bm25_scores(self.matches), strict=True):
            scores[:, columns] = own if own.size else 0
        return scores

    @cached_property
    def _cue_matches(self) -> TermMatches | None:
        """Postings of the same terms in the cues, an index for each part; None without cues."""
        indexes = [part.cue_words for part in self.parts]
        if self.matches is None or not any(map(len, indexes)):
            return None
        return lexical.match_cues(self.matches, indexes)

    @cached_property
    def joined_matches(self) -> TermMatches | None:
        """Postings in the memories with their cues, as one text each: evidence for the gate."""
        if self.matches is None or self._cue_matches is None:
            return self.matches
        return lexical.join_cues(self.matches, self._cue_matches, [part.cue_owners for part in self.parts])

    @cached_property
    def _cued_bm25(self) -> Scores | None:
        """Best BM25 of every row or one of its cues, for the ranking."""
        if self.matches is None or self._bm25 is None or self._cue_matches is None:
            return self._bm25
        best = self._bm25.copy()
        found = lexical.cue_bm25_scores(self.matches, self._cue_matches)
        for part, own, ours in zip(self.parts, self.columns, found, strict=True):
            if part.cues is not None and ours.size:
                part.cues.lift(best[:, own], ours)
        return best

    @cached_property
    def _centre(self) -> Centre | None:
        """Centre of all compared indexes together, None for few vectors."""
        if self.cosines is None:
            return None
        is_cjk = [self.parts[place].traits.is_cjk for place in self.cosines.places]
        cued = [(each.index, each.cues.is_cjk) for each in self.cosines.cued]
        return joint_centre(self.cosines.indexes, is_cjk, cued)

    @cached_property
    def _scores(self) -> Scores:
        """Score of each row by query: plain cosines or, with words, raised for dates it names."""
        bm25 = self._cued_bm25
        if bm25 is None:
            return _NO_SCORES if self.cosines is None else self.cosines.raw
        if self.cosines is None:
            scores = bm25.copy()
        else:
            scores = self._standard_cosines(self.cosines)
            self._score_missing_by_words(scores, bm25, np.flatnonzero(self.cosines.missing))
            pairs = zip(self.parts, self.columns, strict=True)
            gone = [own.start + np.flatnonzero(part.gone) for part, own in pairs if part.gone is not None]
            words = standardised(bm25, np.concatenate([_NONE, *gone]))
            scores += np.float32(self.lexical_weight) * words
        created = [each.traits.created for each in self.parts]
        prefer_named_dates(scores, self.texts, created, words_only=self.cosines is None)
        return scores

    def _score_missing_by_words(self, cosines: Scores, bm25: Scores, missing: NDArray[np.int64]) -> None:
        """Set the scores of rows without a vector: the best cosine times their BM25."""
        if len(missing):
            nearest = cosines.max(axis=1, initial=0, keepdims=True)
            cosines[:, missing] = nearest * bm25[:, missing]

    @cached_property
    def _row_scores(self) -> Scores:
        """Score of each row over all queries, (rows,); -inf without a vector or a matching word."""
        if not self.maps or not self._scores.size:
            return np.empty(0, np.float32)
        shares = self.shares
        best: Scores = self._scores.max(axis=0) if shares is None else shares @ self._scores
        absent = np.ones(len(best), np.bool_) if self.cosines is None else self.cosines.missing
        if self._cued_bm25 is not None:
            absent = absent & ~(self._cued_bm25 > 0).any(axis=0)
            if self.message is not None and shares is None:
                # With this mean, wrong hypotheses cost 14 points less of recall@10, and good ones lose 0.7.
                best = (best + self._scores[self.message]) / 2
        best[absent] = -np.inf
        return best

    def _standard_cosines(self, cosines: Cosines) -> Scores:
        """Return centred cosines in standard deviations, 0 if missing; a better cue raises its memory."""
        best, cued = self._centred_cosines(cosines)
        for each, ours in zip(cosines.cued, cued, strict=True):
            known = np.where(each.index.missing, np.float32(-np.inf), ours)
            each.cues.lift(best[:, each.columns], known, cosines.missing[each.columns])
        return standardised(best, np.flatnonzero(cosines.missing))

    def _centred_cosines(self, cosines: Cosines) -> tuple[Scores, list[Scores]]:
        """Return cosines of rows and of cues, centred if there are enough vectors for a centre."""
        of_cues = [each.raw for each in cosines.cued]
        if self._centre is None:
            return cosines.raw.copy() if of_cues else cosines.raw, of_cues
        asked = are_cjk(self.texts)
        centred, cued = np.zeros_like(cosines.raw), [np.empty_like(each) for each in of_cues]
        given = [*(cosines.raw[:, own] for own in cosines.columns), *of_cues]
        taken = [*(centred[:, own] for own in cosines.columns), *cued]
        for index, (raw, out) in enumerate(zip(given, taken, strict=True)):
            self._centre.apply(index, raw, cosines.queries, asked, out=out)
        return centred, cued

    def _unit_rows(self, columns: Columns) -> Vectors | None:
        """Return unit vectors of columns, (c, d), centred if a centre is known; zero if missing."""
        if self.cosines is None:
            return None
        rows = np.zeros((len(columns), self.cosines.queries.shape[1]), np.float32)
        for number, (index, own) in enumerate(zip(self.cosines.indexes, self.cosines.columns, strict=True)):
            here = np.flatnonzero((columns >= own.start) & (columns < own.stop))
            wanted, centre = columns[here] - own.start, self._centre
            found = index.rows_at(wanted) if centre is None else centre.rows(number, index, wanted)
            if len(here) == len(columns):
                return found
            rows[here] = found
        return rows

    def _occasions(self, columns: Columns) -> NDArray[np.int64]:
        """Return the occasion number of each column, (c,); occasions of two maps differ."""
        found = np.empty(len(columns), np.int64)
        for place, each in enumerate(self.maps):
            rows = columns - self._starts[place]
            here = (rows >= 0) & (rows < each.starts[-1])
            found[here] = len(self.maps) * each.occasions[rows[here]].astype(np.int64) + place
        return found

    def _top_columns(self, k: int) -> Columns:
        """Return the k best columns that are not -inf, ordered only if more than k reach the last score."""
        columns = top_columns(self._row_scores, k)
        return columns if len(columns) <= k else self._sort_columns(columns, self._row_scores[columns])[0][:k]

    def _sort_columns(self, columns: Columns, scores: Scores) -> tuple[Columns, Scores]:
        """Return columns and scores sorted by (-score, stale, id), the first map first."""
        order = np.argsort(-scores, kind="stable")
        columns, scores = columns[order], without_noise(scores[order])
        # The scores are in descending order; only equal ones may change places.
        if np.all(scores[:-1] > scores[1:]):
            return columns, scores
        memories = [self.maps[place].at(row) for place, row in self.where(columns)]
        ties = [(bool(each.stale), each.id) for each in memories]
        ranked = sorted(zip((-scores).tolist(), ties, columns.tolist(), strict=True))
        return np.array([column for *_, column in ranked], np.intp), scores

    def where(self, columns: Columns) -> list[tuple[int, int]]:
        """Return the map number and the row in it of each column."""
        starts = self._starts
        places = np.searchsorted(starts[:-1], columns, side="right") - 1
        return list(zip(places.tolist(), (columns - starts[places]).tolist(), strict=True))

    @cached_property
    def _starts(self) -> Columns:
        """First column of each map, and the number of columns."""
        return np.cumsum([0, *(each.starts[-1] for each in self.maps)])

    def _to_results(self, columns: Columns, scores: Scores) -> list[Ranked]:
        """Return a result for each column: the head of its chain, with scores, cosine and BM25."""
        cosines, bm25 = self.cosines, self._bm25
        nothing: list[None] = [None] * len(columns)
        best = nothing if cosines is None else cosines.raw[:, columns].max(axis=0).tolist()
        missing = nothing if cosines is None else cosines.missing[columns].tolist()
        if bm25 is not None and self.shares is not None:
            bm25 = bm25[[self.message or 0]]  # the other query is the continued text
        words = nothing if bm25 is None else bm25[:, columns].max(axis=0).tolist()
        rows = self.where(columns)
        heads = [
            iter(home.heads_of([row for at, row in rows if at == n])) for n, home in enumerate(self.maps)
        ]
        return [
            Ranked(
                next(heads[place]),
                score,
                None if absent else cosine,
                match or None,
                root=self.maps[place].root,
                map_index=place,
                row=row,
            )
            for (place, row), score, cosine, absent, match in zip(
                rows, scores.tolist(), best, missing, words, strict=True
            )
        ]


# --- scores on one scale, and the best of them --------------------------------------------------------

# Equal rows differ in the last bits, by their place in a block: scores this near are equal.
_SAME = 1e-6
_LOWEST = float(np.finfo(np.float32).min)
# Selecting among the maxima of groups of this size takes a quarter of the time of one partition.
_GROUP = 64


def standardised(scores: Scores, missing: NDArray[np.int64] = _NONE) -> Scores:
    """Return each query's scores in standard deviations from their mean; 0 if all are equal.

    Scores of `missing` columns are 0, before and after, and do not count.
    """
    present = max(1, scores.shape[1] - len(missing))
    result: Scores = scores - scores.sum(axis=1, keepdims=True) / present
    result[:, missing] = 0
    deviation = np.sqrt(np.einsum("ij,ij->i", result, result) / present)
    result *= np.where(deviation > _SAME, 1 / np.maximum(deviation, _SAME), 0)[:, None]
    return result


def top_columns(scores: Scores, k: int) -> Columns:
    """Return the columns of the k best scores and of those equal to the last; never of -inf."""
    count = len(scores)
    groups = scores[: count // _GROUP * _GROUP].reshape(_GROUP, -1).max(axis=0)
    if len(groups) <= k:
        return np.flatnonzero(scores >= _cutoff(scores, k))
    # The k-th best group's maximum is reached by at least k scores.
    columns = np.flatnonzero(scores >= _cutoff(groups, k))
    few = scores[columns]
    return columns[few >= _cutoff(few, k)]


def _cutoff(scores: Scores, k: int) -> float:
    """Return the k-th best score less rounding errors; the lowest number for fewer scores."""
    if k >= len(scores):
        return _LOWEST
    kth = float(np.partition(scores, len(scores) - k)[len(scores) - k])
    return max(_LOWEST, kth - _SAME * max(1.0, abs(kth)))


def without_noise(descending: Scores) -> Scores:
    """Return descending scores in which values that differ only by rounding are equal."""
    if np.all(descending[:-1] - descending[1:] > 2 * _SAME * np.maximum(1, np.abs(descending[1:]))):
        return descending
    values: list[float] = descending.tolist()
    for i in range(1, len(values)):
        if values[i - 1] - values[i] <= _SAME * max(1.0, abs(values[i])):
            values[i] = values[i - 1]
    return np.array(values, np.float32)


# --- dates, neighbours and occasions ------------------------------------------------------------------

CANDIDATES = 64  # 32-100 are equal
# Bonus of a memory of a named date, in standard deviations; 0.5-1.5 are equal. Worth 2.2 points of recall@10
# and 1.6 of nDCG@10 on LoCoMo's development half, where 74 of 631 questions name a date, and none is lost.
_NAMED_DATE = 1.0
_NEIGHBOUR_WEIGHT = 0.4  # of the neighbours' mean, against 1 of the own score; 0.2-0.5 are equal
_NEIGHBOURS = 5
_OCCASION_WEIGHT = 0.3  # of the best score of the occasion; 0.2-0.5 are equal


def prefer_named_dates(
    scores: Scores, texts: Sequence[str], created: Sequence[Seconds], *, words_only: bool
) -> None:
    """Raise in place, in `scores` (queries, rows), the memories of a date that a query names.

    `scores` are in standard deviations. With `words_only` they are BM25: a deviation is then that of the
    matching rows, and only those are raised. `created` is one array for each part.
    """
    for own, text in zip(scores, texts, strict=True):
        named = named_time_mask(text, np.concatenate(created)) if A_TIME.search(text) else None
        if named is None:
            continue
        if not words_only:
            own[named] += _NAMED_DATE
        elif (matching := own > 0).any():
            own[named & matching] += _NAMED_DATE * own[matching].std()


def smoothed(scores: Scores, rows: Vectors | None, occasion: NDArray[np.int64]) -> Scores:
    """Return candidates' scores (c,) averaged with similar candidates and the best of their occasion.

    `rows` (c, d) are their centred unit rows, zero for a missing one; None without vectors. `occasion` (c,)
    is equal for memories of one occasion.
    """
    if rows is not None and len(scores) > 1:
        neighbours = _NEIGHBOUR_WEIGHT * _neighbour_means(scores, rows)
        scores = ((scores + neighbours) / (1 + _NEIGHBOUR_WEIGHT)).astype(np.float32)
    _, group = np.unique(occasion, return_inverse=True)
    peaks = np.full(len(scores), -np.inf, np.float32)
    np.maximum.at(peaks, group, scores)
    best: Scores = ((scores + _OCCASION_WEIGHT * peaks[group]) / (1 + _OCCASION_WEIGHT)).astype(np.float32)
    return best


def _neighbour_means(scores: Scores, rows: Vectors) -> Scores:
    """Return the mean score of each candidate's nearest others, weighted by cosine; its own without any."""
    near = np.maximum(rows @ rows.T, 0)
    np.fill_diagonal(near, 0)
    most = min(_NEIGHBOURS, len(scores) - 1)
    least = np.partition(near, -most, axis=1)[:, -most, None]
    near = np.where(near >= least - _SAME, near, 0)
    total = near.sum(axis=1)
    means: Scores = np.where(total > _SAME, near @ scores / np.maximum(total, _SAME), scores)
    return means
