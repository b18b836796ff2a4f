"""Lexical index of a vector map: BM25 over hashed terms, held in a few numpy arrays.

An index is a compressed sparse matrix, terms down and memories across: 10,000 memories cost 5 MB and are
assembled in tens of milliseconds. Terms are 32-bit hashes; a collision makes two words one. Document
frequency and average length are taken at query time over all indexes that a request sees. Statistics of each
index would favour a small unrelated one, and an edit could not splice its own postings alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from itertools import accumulate, pairwise
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.text.english import EVERYDAY_MESSAGES, EVERYDAY_WORDS
from forged.text.terms import Terms, are_stems, distinct, terms

Ints = NDArray[np.int32]
Scores = NDArray[np.float32]
_Value = TypeVar("_Value", np.int32, np.uint8)

# The usual BM25 constants; on LoCoMo every pair in 0.9-1.5 x 0.5-0.75 stays within 0.4 points of these.
_K1 = 1.2
_B = 0.75
_NO_TERMS = np.empty(0, np.uint32)
_NOWHERE = np.empty(0, np.intp)
# Weight of the beginnings of words against their stems; 0.1-0.4 are equal.
_BEGINNINGS = 0.2
RAREST = 1e-4
"""Share of a term that no everyday message has; 3e-5 to 3e-4 are equal."""
_COMMON = 5e-4  # the least share of a common word


class LexicalIndex(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Postings of one map part: `rows[offsets[i]:offsets[i + 1]]` are the memories that hold `terms[i]`.

    The arrays are those of `postings.Postings`, with `offsets` int32 (t + 1,). `gone` bool (n,) are memories
    that no longer count, None if there are none. Their postings stay, shared with the index before the edit.
    """

    terms: Terms
    offsets: Ints
    rows: Ints
    counts: NDArray[np.uint8]
    lengths: Ints
    gone: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        """Count the rows, including those without a term and those that are gone."""
        return len(self.lengths)

    @cached_property
    def size(self) -> int:
        """Number of memories that count, without those that are gone."""
        return len(self.lengths) - (int(np.count_nonzero(self.gone)) if self.gone is not None else 0)

    @cached_property
    def stems(self) -> int:
        """Total number of stems in all memories that count."""
        return int(self.lengths.sum() - (self.lengths[self.gone].sum() if self.gone is not None else 0))

    def without(self, gone: NDArray[np.bool_]) -> LexicalIndex:
        """Return the index with exactly these memories gone."""
        return msgspec.structs.replace(self, gone=gone)

    def spans(self, wanted: Terms) -> tuple[Ints, Ints]:
        """Return start and number of each wanted term's postings; an unknown term's number is 0."""
        at = find_terms(self.terms, wanted)
        start = self.offsets[at]
        return start, np.where(at < 0, 0, self.offsets[at + 1] - start)


EMPTY_INDEX = LexicalIndex(
    _NO_TERMS, np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.int32)
)
"""Index without rows, for a map without a lexical index."""


class TermHits(msgspec.Struct, frozen=True, eq=False):
    """Postings of the terms of one query in one index.

    `rows` intp are the memories with each term, term by term, including those that are gone. `lengths`
    (terms,) is the number of rows of each term. `frequency` (terms,) is the number of rows that count.
    """

    rows: NDArray[np.intp]
    lengths: Ints
    frequency: Ints

    @classmethod
    def of(cls, index: LexicalIndex, spans: Ints) -> TermHits:
        """Read the postings of a query's terms from an index; `spans` (2, t) are their starts and lengths."""
        rows, lengths = _join_spans(index.rows, spans), spans[1]
        frequency = lengths
        if index.gone is not None:
            lost = np.flatnonzero(index.gone.take(rows))
            term = np.searchsorted(np.cumsum(lengths), lost, side="right")
            frequency = lengths - np.bincount(term, minlength=len(lengths)).astype(np.int32)
        return cls(rows.astype(np.intp), lengths, frequency)


class TermMatches(msgspec.Struct, frozen=True, eq=False):
    """Postings of the terms of all queries in all indexes, read once for every scorer.

    `terms` uint32 (t,) are the distinct terms of each query in turn, its stems first. The terms of a query
    begin at `begins` (queries + 1,), its stems end at `stem_ends` (queries,). `spans` int32 (indexes, 2, t)
    are the starts and lengths of a term's postings in an index. `hits[index][query]` are the rows.
    """

    indexes: tuple[LexicalIndex, ...]
    terms: Terms
    begins: tuple[int, ...]
    stem_ends: tuple[int, ...]
    spans: Ints
    hits: tuple[tuple[TermHits, ...], ...]

    @property
    def frequency(self) -> NDArray[np.intp]:
        """Number of memories that hold each of `terms`."""
        indexes = [np.concatenate([_NOWHERE, *(each.frequency for each in own)]) for own in self.hits]
        return np.sum(indexes, axis=0, dtype=np.intp) if indexes else np.zeros(len(self.terms), np.intp)


def match_terms(indexes: Sequence[LexicalIndex], queries: Sequence[str]) -> TermMatches:
    """Look up the distinct terms of all queries in all indexes; return their postings."""
    ordered = list[Terms]()
    for query in queries:
        found = distinct(terms(query))
        stems = are_stems(found)
        ordered += found[stems], found[~stems]
    ends = tuple(accumulate(map(len, ordered), initial=0))
    return _look_up(indexes, np.concatenate([*ordered, _NO_TERMS]), ends[::2], ends[1::2])


def match_cues(matches: TermMatches, cues: Sequence[LexicalIndex]) -> TermMatches:
    """Look up the terms of a search in the indexes of the cues, one for each index of the search."""
    return _look_up(cues, matches.terms, matches.begins, matches.stem_ends)


def join_cues(matches: TermMatches, cues: TermMatches, owners: Sequence[NDArray[np.intp]]) -> TermMatches:
    """Return matches as if each memory's text went on with its cues.

    `owners` are for each index the rows of the memories that the cues belong to, (c,).
    """
    indexes, joined = [*matches.indexes], [*matches.hits]
    for number, rows in enumerate(owners):
        if len(rows):
            index, own = indexes[number], cues.indexes[number]
            more = np.bincount(rows, own.lengths, len(index)).astype(np.int32)
            pairs = zip(matches.hits[number], cues.hits[number], strict=True)
            joined[number] = tuple(_join_hits(index, each, cued, rows) for each, cued in pairs)
            indexes[number] = msgspec.structs.replace(index, lengths=index.lengths + more)
    return msgspec.structs.replace(matches, indexes=tuple(indexes), hits=tuple(joined))


def _join_hits(index: LexicalIndex, hits: TermHits, cued: TermHits, owners: NDArray[np.intp]) -> TermHits:
    """Return for each term the rows with it in their text or in a cue, each once."""
    if not len(cued.rows):
        return hits
    terms, size = np.arange(len(hits.lengths)), len(index)
    in_text = np.repeat(terms, hits.lengths) * size + hits.rows
    in_cues = np.repeat(terms, cued.lengths) * size + owners[cued.rows]
    term, rows = np.divmod(distinct(np.concatenate((in_text, in_cues))), max(size, 1))
    known = term if index.gone is None else term[~index.gone[rows]]
    lengths, frequency = (np.bincount(each, minlength=len(terms)).astype(np.int32) for each in (term, known))
    return TermHits(rows, lengths, frequency)


def _look_up(
    indexes: Sequence[LexicalIndex], wanted: Terms, begins: tuple[int, ...], stem_ends: tuple[int, ...]
) -> TermMatches:
    """Read the postings of the wanted terms, grouped by query, from all indexes."""
    spans = np.array([index.spans(wanted) for index in indexes], np.int32).reshape(
        len(indexes), 2, len(wanted)
    )
    hits = tuple(
        tuple(TermHits.of(index, own[:, first:last]) for first, last in pairwise(begins))
        for index, own in zip(indexes, spans, strict=True)
    )
    return TermMatches(tuple(indexes), wanted, begins, stem_ends, spans, hits)


def _join_spans(postings: NDArray[_Value], spans: Ints) -> NDArray[_Value]:
    """Join stretches of postings; `spans` (2, t) are their starts and lengths."""
    return np.concatenate([postings[:0], *(postings[at : at + length] for at, length in spans.T.tolist())])


def bm25_scores(matches: TermMatches) -> list[Scores]:
    """Return the BM25 score of every row for every query, float32 (queries, rows) for each index.

    Scores are divided by the weight of the query's known terms, so that queries of any length can be
    compared. A memory with each stem once reaches about 1; the beginnings of its words add a fifth.
    """
    weight = _term_weights(matches, matches.frequency)
    size = sum(index.size for index in matches.indexes)
    average = max(1.0, sum(index.stems for index in matches.indexes) / max(1, size))
    return [_index_scores(matches, number, weight, average) for number in range(len(matches.indexes))]


def cue_bm25_scores(matches: TermMatches, cue_matches: TermMatches) -> list[Scores]:
    """Return the BM25 scores of cues; a term's rarity is that among memories, not among cues."""
    indexes = cue_matches.indexes
    known = np.maximum(matches.frequency, cue_matches.frequency > 0)
    weight = _term_weights(matches, known)
    average = max(1.0, sum(index.stems for index in indexes) / max(1, sum(index.size for index in indexes)))
    return [_index_scores(cue_matches, number, weight, average) for number in range(len(indexes))]


def _term_weights(matches: TermMatches, frequency: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return each term's BM25 weight by rarity, (t,), divided by that of its query's known terms."""
    size = max(sum(index.size for index in matches.indexes), 1)
    rarity = np.log1p((size - frequency + 0.5) / (frequency + 0.5))
    known = rarity * (frequency > 0)
    weight: NDArray[np.float64] = rarity * (_K1 + 1)
    for first, middle, last in zip(matches.begins, matches.stem_ends, matches.begins[1:], strict=False):
        weight[first:middle] /= known[first:middle].sum() or 1
        weight[middle:last] *= _BEGINNINGS / (known[middle:last].sum() or 1)
    return weight


def _index_scores(matches: TermMatches, number: int, weight: NDArray[np.float64], average: float) -> Scores:
    """Return one index's BM25: weights of matching terms, damped by count and length, (queries, rows)."""
    index = matches.indexes[number]
    norm = (_K1 * (1 - _B + _B / average * index.lengths)).astype(np.float32)
    sums = np.zeros((len(matches.stem_ends), len(index.lengths)), np.float32)
    for query, (first, last) in enumerate(pairwise(matches.begins)):
        hits, spans = matches.hits[number][query], matches.spans[number, :, first:last]
        if not len(hits.rows):
            continue
        tf = _join_spans(index.counts, spans).astype(np.float32)
        value = np.repeat(weight[first:last].astype(np.float32), hits.lengths)
        value *= tf
        tf += norm.take(hits.rows)
        value /= tf
        sums[query] = np.bincount(hits.rows, value, len(norm))
    if index.gone is not None:
        sums[:, index.gone] = 0
    return sums


def find_terms(names: Terms, wanted: Terms) -> NDArray[np.int64]:
    """Return the position of each wanted term in the ascending `names`, -1 for an unknown one."""
    if not len(names):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return np.where(names[at] == wanted, at, -1)


def everyday_shares(wanted: Terms) -> NDArray[np.float64]:
    """Return the share of each term in everyday messages; rare terms get `RAREST`."""
    known, share = _shares_of_everyday_terms()
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, np.maximum(share[at], RAREST), RAREST)


@cache
def _shares_of_everyday_terms() -> tuple[Terms, NDArray[np.float64]]:
    """Return all terms of everyday texts, ascending, and the share of each; computed once."""
    said, counts = np.unique(_stems(EVERYDAY_MESSAGES), return_counts=True)
    common = _stems(EVERYDAY_WORDS)
    known = distinct(np.concatenate((said, common)))
    share = np.zeros(len(known))
    share[np.searchsorted(known, common)] = _COMMON
    at = np.searchsorted(known, said)
    share[at] = np.maximum(share[at], counts / counts.sum())
    return known, share


def _stems(texts: Sequence[str]) -> Terms:
    found = np.concatenate([terms(text) for text in texts])
    return found[are_stems(found)]
