"""The lexical half of a vector map: BM25 over hashed terms, held in a few numpy arrays.

A leg is a compressed sparse matrix, terms down and memories across: no vocabulary strings and no Python
object per posting, so ten thousand memories cost five megabytes and assemble in tens of milliseconds. Terms
are 32-bit hashes; a collision makes two words one, which costs less than the strings would. What depends on
the whole collection (document frequency, average length) is not in a leg: it is taken at query time over all
legs the request sees, because per-leg statistics let a small unrelated leg crowd in. That is also why an edit
can splice its own postings and leave the rest alone.

`Postings` are made of some thousand memories at a time, so that little is held beside what comes out. Numpy
sorts numbers of sixteen bits by radix, in a fifth of the time that it takes for longer ones; so terms are
sorted by their halves. Rows ascend from part to part: the parts are laid beside one another, term by term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.text.terms import Terms, are_stems, distinct

Scores = NDArray[np.float32]
Ints = NDArray[np.int32]
_Value = TypeVar("_Value", np.int32, np.uint8)

# The usual BM25 constants; on LoCoMo every pair in 0.9-1.5 x 0.5-0.75 stays within 0.4 points of these.
_K1 = 1.2
_B = 0.75
# Rows that are renumbered at once: their indices, 8 bytes each, fit the processor's cache.
_RENUMBERED_AT_ONCE = 1 << 17
# Between fewer cuts than one in so many postings whole stretches are copied, in a quarter of the time.
_STRETCH = 64
_NO_TERMS = np.empty(0, np.uint32)
_NOWHERE = np.empty(0, np.intp)
# What the beginnings of words count beside their stems; 0.1-0.4 are alike.
_BEGINNINGS = 0.2
# Terms that are sorted at once: what that takes fits the processor's cache.
_SORTED_AT_ONCE = 1 << 18
_MAX_TF = 255


class Postings(msgspec.Struct, frozen=True, eq=False):
    """Which rows hold which terms: `frequency[i]` of `rows` and `counts` in turn belong to `terms[i]`.

    `terms` uint32 (t,) ascending and unique; `frequency` int32 (t,), at least 1; `rows` int32 (p,) ascending
    within a term; `counts` uint8 (p,), occurrences up to 255; `lengths` int32 (n,), stems of each memory.
    """

    terms: Terms
    frequency: Ints
    rows: Ints
    counts: NDArray[np.uint8]
    lengths: Ints

    @classmethod
    def of(cls, docs: Iterable[Terms]) -> Postings:
        """Those of memories 0 to n - 1, which are asked for one after the other."""
        parts: list[Postings] = []
        row = 0
        for some in _parted(docs):
            parts.append(_of_few(row, some))
            row += len(some)
        return _joined(parts)


def _parted(docs: Iterable[Terms]) -> Iterator[list[Terms]]:
    some: list[Terms] = []
    size = 0
    for doc in docs:
        some.append(doc)
        size += len(doc)
        if size >= _SORTED_AT_ONCE:
            yield some
            some, size = [], 0
    yield some


def _of_few(first_row: int, docs: Sequence[Terms]) -> Postings:
    """Postings of memories that can be sorted at once; the first of them is row `first_row`."""
    found = np.concatenate([*docs, _NO_TERMS])
    sizes = np.fromiter(map(len, docs), np.int32, len(docs))
    holders = np.repeat(np.arange(first_row, first_row + len(docs), dtype=np.int32), sizes)
    stems = np.append(0, np.cumsum(are_stems(found), dtype=np.int32))
    lengths = np.diff(stems[np.append(0, np.cumsum(sizes))]).astype(np.int32)

    order = _order(found)
    found, holders = found[order], holders[order]
    first = np.flatnonzero(_begins(found) | _begins(holders))
    counts = np.minimum(np.diff(first, append=len(found)), _MAX_TF).astype(np.uint8)
    found, holders = found[first], holders[first]
    term = np.flatnonzero(_begins(found))
    frequency = np.diff(term, append=len(found)).astype(np.int32)
    return Postings(found[term], frequency, holders, counts, lengths)


def _order(found: Terms) -> NDArray[np.intp]:
    """What puts terms in order, and leaves equal ones in theirs."""
    by_low = np.argsort((found & np.uint32(0xFFFF)).astype(np.uint16), kind="stable")
    by_high = np.argsort((found >> np.uint32(16)).astype(np.uint16)[by_low], kind="stable")
    return by_low[by_high]


def _begins(values: NDArray[np.uint32] | Ints) -> NDArray[np.bool_]:
    """Where a new value begins."""
    begins = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return begins


def _joined(parts: Sequence[Postings]) -> Postings:
    """The postings of all parts; the rows of each are greater than those of the parts before."""
    terms = distinct(np.concatenate([part.terms for part in parts]))
    places = [np.searchsorted(terms, part.terms) for part in parts]
    frequency = np.zeros(len(terms), np.int32)
    for part, place in zip(parts, places, strict=True):
        frequency[place] += part.frequency
    free = np.cumsum(frequency, dtype=np.int64) - frequency  # where the next posting of each term goes
    rows = np.empty(int(frequency.sum()), np.int32)
    counts = np.empty(len(rows), np.uint8)
    for part, place in zip(parts, places, strict=True):
        begin = np.cumsum(part.frequency, dtype=np.int64) - part.frequency
        at = np.arange(len(part.rows)) + np.repeat(free[place] - begin, part.frequency)
        rows[at], counts[at] = part.rows, part.counts
        free[place] += part.frequency
    return Postings(terms, frequency, rows, counts, np.concatenate([part.lengths for part in parts]))


class LexicalLeg(msgspec.Struct, frozen=True, eq=False):
    """Postings of one map: `rows[offsets[i]:offsets[i + 1]]` are the memories that hold `terms[i]`.

    `terms` uint32 (t,) ascending and unique; `offsets` int32 (t + 1,); `rows` int32 (p,) ascending within a
    term; `counts` uint8 (p,), occurrences up to 255; `lengths` int32 (n,), number of stems of each memory.
    `gone` bool (n,) are memories that count nowhere any more, None if there are none; their postings stay, as
    this leg shares them with the one that it came of.
    """

    terms: Terms
    offsets: Ints
    rows: Ints
    counts: NDArray[np.uint8]
    lengths: Ints
    gone: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        """Count the rows, those without a single term and those that are gone included."""
        return len(self.lengths)

    @property
    def size(self) -> int:
        """Number of memories that count."""
        return len(self) - (int(np.count_nonzero(self.gone)) if self.gone is not None else 0)

    @property
    def stems(self) -> int:
        """Number of stems of all memories that count."""
        return int(self.lengths.sum() - (self.lengths[self.gone].sum() if self.gone is not None else 0))

    def without(self, gone: NDArray[np.bool_]) -> LexicalLeg:
        """The leg without these memories, and without no others."""
        return msgspec.structs.replace(self, gone=gone)

    @classmethod
    def build(cls, docs: Iterable[Terms]) -> LexicalLeg:
        """Assemble the leg of memories 0 to n - 1 from their terms, which are asked for one by one."""
        of = Postings.of(docs)
        return cls(of.terms, _offsets(of.frequency), of.rows, of.counts, of.lengths)

    def splice(
        self, *, kept_old: Ints, kept_new: Ints, added_new: Ints, added: Sequence[Terms], size: int
    ) -> LexicalLeg:
        """Return the leg after an edit; equal, array by array, to one built from scratch.

        Args:
            kept_old: rows of this leg that stay, strictly ascending.
            kept_new: where each of them goes, strictly ascending: memories keep their order.
            added_new: rows of new and changed memories, in any order.
            added: their terms.
            size: memories afterwards; every row is in `kept_new` or `added_new`.
        """
        ascending = np.argsort(added_new)
        new = Postings.of([added[number] for number in ascending.tolist()])
        found, fresh = np.repeat(new.terms, new.frequency), added_new[ascending][new.rows]
        names, frequency, rows, counts = self._renumbered(kept_old, kept_new)
        unknown = new.terms[_find(names, new.terms) < 0]
        place = np.searchsorted(names, unknown)
        names, frequency = np.insert(names, place, unknown), np.insert(frequency, place, 0)

        term = np.searchsorted(names, found)
        ends = np.cumsum(frequency)
        at = _insertion_points(rows, ends[term] - frequency[term], ends[term], fresh)
        frequency += np.bincount(term, minlength=len(names))
        used = frequency > 0

        lengths = np.zeros(size, np.int32)
        lengths[kept_new] = self.lengths[kept_old]
        lengths[added_new[ascending]] = new.lengths
        return LexicalLeg(
            names[used],
            _offsets(frequency[used]),
            _with(rows, at, fresh),
            _with(counts, at, new.counts),
            lengths,
        )

    def spans(self, wanted: Terms) -> tuple[Ints, Ints]:
        """Where the postings of each wanted term start, and how many they are; none of an unknown term."""
        at = _find(self.terms, wanted)
        start = self.offsets[at]
        return start, np.where(at < 0, 0, self.offsets[at + 1] - start)

    def _renumbered(
        self, kept_old: Ints, kept_new: Ints
    ) -> tuple[Terms, NDArray[np.int64], Ints, NDArray[np.uint8]]:
        """Terms, their number of postings, rows and counts, of the memories that stay."""
        target = np.full(len(self), -1, np.int32)
        target[kept_old] = kept_new
        rows = np.empty_like(self.rows)
        for start in range(0, len(rows), _RENUMBERED_AT_ONCE):
            part = slice(start, start + _RENUMBERED_AT_ONCE)
            target.take(self.rows[part], out=rows[part], mode="wrap")  # "raise" would buffer
        frequency = np.diff(self.offsets).astype(np.int64)
        gone = np.flatnonzero(rows < 0)
        term = np.searchsorted(self.offsets, gone, side="right") - 1
        frequency -= np.bincount(term, minlength=len(self.terms))
        return self.terms, frequency, _without(rows, gone), _without(self.counts, gone)


NO_WORDS = LexicalLeg(
    _NO_TERMS, np.zeros(1, np.int32), np.empty(0, np.int32), np.empty(0, np.uint8), np.empty(0, np.int32)
)
"""Stands in for the leg of a map that has none: nothing matches."""


class Hits(msgspec.Struct, frozen=True, eq=False):
    """Where the terms of one query stand in one leg.

    `rows`, intp, are the memories that hold them, term by term, also those that are gone; `lengths` (terms,)
    says how many those of each are, and `frequency` (terms,) how many of these count.
    """

    rows: NDArray[np.intp]
    lengths: Ints
    frequency: Ints

    @classmethod
    def of(cls, leg: LexicalLeg, spans: Ints) -> Hits:
        """These stretches of postings; `spans` (2, t) are their starts and lengths."""
        rows, lengths = _gathered(leg.rows, spans), spans[1]
        frequency = lengths
        if leg.gone is not None:
            lost = np.flatnonzero(leg.gone.take(rows))
            term = np.searchsorted(np.cumsum(lengths), lost, side="right")
            frequency = lengths - np.bincount(term, minlength=len(lengths)).astype(np.int32)
        return cls(rows.astype(np.intp), lengths, frequency)


class Matches(msgspec.Struct, frozen=True, eq=False):
    """Where the terms of some queries stand in some legs: one walk over the postings, for every reader.

    `terms` uint32 (t,) are each query's distinct terms in turn, its stems first. `begins` (queries + 1,) and
    `stem_ends` (queries,) say where among them a query's terms begin, and where its stems end. `spans`
    int32 (legs, 2, t) is where the postings of a term start in a leg, and how many they are;
    `hits[leg][query]` are the rows there.
    """

    legs: tuple[LexicalLeg, ...]
    terms: Terms
    begins: tuple[int, ...]
    stem_ends: tuple[int, ...]
    spans: Ints
    hits: tuple[tuple[Hits, ...], ...]

    @property
    def frequency(self) -> NDArray[np.intp]:
        """How many memories hold each of `terms`."""
        legs = [np.concatenate([_NOWHERE, *(each.frequency for each in own)]) for own in self.hits]
        return np.sum(legs, axis=0, dtype=np.intp) if legs else np.zeros(len(self.terms), np.intp)


def match(legs: Sequence[LexicalLeg], queries: Sequence[Terms]) -> Matches:
    """Look up the distinct terms of all queries in all legs."""
    unique = [distinct(query) for query in queries]
    stems = [are_stems(query) for query in unique]
    ordered = [part for query, own in zip(unique, stems, strict=True) for part in (query[own], query[~own])]
    ends = tuple(accumulate(map(len, ordered), initial=0))
    wanted = np.concatenate([*ordered, _NO_TERMS])
    spans = np.array([leg.spans(wanted) for leg in legs], np.int32).reshape(len(legs), 2, len(wanted))
    hits = tuple(
        tuple(Hits.of(leg, own[:, first:last]) for first, last in pairwise(ends[::2]))
        for leg, own in zip(legs, spans, strict=True)
    )
    return Matches(tuple(legs), wanted, ends[::2], ends[1::2], spans, hits)


def _gathered(postings: NDArray[_Value], spans: Ints) -> NDArray[_Value]:
    """Stretches of postings one after the other; `spans` (2, t) are their starts and lengths."""
    return np.concatenate([postings[:0], *(postings[at : at + length] for at, length in spans.T.tolist())])


def scores(matches: Matches) -> list[Scores]:
    """BM25 of every row for every query, float32 (queries, rows) for each leg; 0 where no term matches.

    Scores are divided by the weight of the query's known terms, so that a long and a short query can be
    compared: 1 is about what a memory with each of its stems once reaches, to which the beginnings of its
    words add a fifth.
    """
    weight = _weights(matches, matches.frequency)
    size = sum(leg.size for leg in matches.legs)
    average = max(1.0, sum(leg.stems for leg in matches.legs) / max(1, size))
    return [_leg_scores(matches, number, weight, average) for number in range(len(matches.legs))]


def scores_beside(matches: Matches, legs: Sequence[LexicalLeg], queries: Sequence[Terms]) -> list[Scores]:
    """The same for the rows of legs that are beside those searched: how rare a term is, these alone say.

    A term that none of them holds is as rare as one that a single memory holds.
    """
    beside = match(legs, queries)
    known = np.maximum(matches.frequency, beside.frequency > 0)
    weight = _weights(matches, known)
    average = max(1.0, sum(leg.stems for leg in legs) / max(1, sum(leg.size for leg in legs)))
    return [_leg_scores(beside, number, weight, average) for number in range(len(legs))]


def _weights(matches: Matches, frequency: NDArray[np.intp]) -> NDArray[np.float64]:
    """What each term adds to a row that holds it once, (t,)."""
    size = max(sum(leg.size for leg in matches.legs), 1)
    rarity = np.log1p((size - frequency + 0.5) / (frequency + 0.5))
    known = rarity * (frequency > 0)
    weight: NDArray[np.float64] = rarity * (_K1 + 1)
    for first, middle, last in zip(matches.begins, matches.stem_ends, matches.begins[1:], strict=False):
        weight[first:middle] /= known[first:middle].sum() or 1
        weight[middle:last] *= _BEGINNINGS / (known[middle:last].sum() or 1)
    return weight


def _leg_scores(matches: Matches, number: int, weight: NDArray[np.float64], average: float) -> Scores:
    """Add the weights of the terms that match, damped by occurrences and length, (queries, rows).

    Query by query: what one of them touches fits the processor's cache, which halves the time.
    """
    leg = matches.legs[number]
    norm = (_K1 * (1 - _B + _B / average * leg.lengths)).astype(np.float32)
    sums = np.zeros((len(matches.stem_ends), len(leg.lengths)), np.float32)
    for query, (first, last) in enumerate(pairwise(matches.begins)):
        hits, spans = matches.hits[number][query], matches.spans[number, :, first:last]
        if not len(hits.rows):
            continue
        tf = _gathered(leg.counts, spans).astype(np.float32)
        value = np.repeat(weight[first:last].astype(np.float32), hits.lengths)
        value *= tf
        tf += norm.take(hits.rows)
        value /= tf
        sums[query] = np.bincount(hits.rows, value, len(norm))
    if leg.gone is not None:
        sums[:, leg.gone] = 0
    return sums


def _find(names: Terms, wanted: Terms) -> NDArray[np.int64]:
    """Position of each wanted term in the ascending `names`, -1 where it is unknown."""
    if not len(names):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return np.where(names[at] == wanted, at, -1)


def _offsets(frequency: NDArray[np.integer]) -> Ints:
    """Where the postings of each term begin, and behind the last of them."""
    return np.append(0, np.cumsum(frequency)).astype(np.int32)


def _insertion_points(
    rows: Ints, low: NDArray[np.int64], high: NDArray[np.int64], wanted: Ints
) -> NDArray[np.int64]:
    """Bisect many ascending stretches `rows[low:high]` at once, each for its own wanted row."""
    low, high = low.copy(), high.copy()
    while len(unsure := np.flatnonzero(low < high)):
        middle = (low[unsure] + high[unsure]) // 2
        after = rows[middle] < wanted[unsure]
        low[unsure[after]] = middle[after] + 1
        high[unsure[~after]] = middle[~after]
    return low


def _without(postings: NDArray[_Value], gone: NDArray[np.intp]) -> NDArray[_Value]:
    """`np.delete`, for ascending places."""
    if _STRETCH * len(gone) > len(postings):
        return np.delete(postings, gone)
    gaps: list[int] = gone.tolist()
    stretches = zip([0, *(gap + 1 for gap in gaps)], [*gaps, len(postings)], strict=True)
    return np.concatenate([postings[start:stop] for start, stop in stretches])


def _with(postings: NDArray[_Value], at: NDArray[np.int64], fresh: NDArray[_Value]) -> NDArray[_Value]:
    """`np.insert`, for ascending places."""
    if _STRETCH * len(at) > len(postings):
        return np.insert(postings, at, fresh)
    cuts = pairwise([0, *at.tolist(), len(postings)])
    pieces = ((postings[start:stop], fresh[i : i + 1]) for i, (start, stop) in enumerate(cuts))
    return np.concatenate(list(chain.from_iterable(pieces)))
