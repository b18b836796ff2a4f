"""Postings of terms, and lexical indexes built from them, from scratch or by an edit.

Postings are made of some thousand memories at a time, so that memory use stays near the size of the result.
Numpy sorts numbers of 16 bits by radix, in a fifth of the time of longer ones: terms are sorted by halves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map.lexical import Ints, LexicalIndex, find_terms
from forged.text.terms import Terms, are_stems, distinct

_Value = TypeVar("_Value", np.int32, np.uint8)

_NO_TERMS = np.empty(0, np.uint32)
# Terms that are sorted at once: they fit the processor's cache.
_SORTED_AT_ONCE = 1 << 18
_MAX_TF = 255
# Rows that are renumbered at once: their indices, 8 bytes each, fit the processor's cache.
_RENUMBERED_AT_ONCE = 1 << 17
# With fewer cuts than one in so many postings, whole stretches are copied, in a quarter of the time.
_STRETCH = 64


class Postings(msgspec.Struct, frozen=True, eq=False):
    """Postings of some memories: `frequency[i]` of `rows` and `counts` in turn belong to `terms[i]`.

    `terms` uint32 (t,) are ascending and unique. `frequency` int32 (t,) is at least 1. `rows` int32 (p,)
    ascend within a term. `counts` uint8 (p,) are occurrences up to 255. `lengths` int32 (n,) are the stems of
    each memory.
    """

    terms: Terms
    frequency: Ints
    rows: Ints
    counts: NDArray[np.uint8]
    lengths: Ints

    @classmethod
    def of(cls, docs: Iterable[Terms]) -> Postings:
        """Build postings from the terms of memories 0 to n - 1, in batches; `docs` is consumed one by one."""
        parts: list[Postings] = []
        row = 0
        for some in _batches(docs):
            parts.append(_build_few(row, some))
            row += len(some)
        return _merge(parts)


def _batches(docs: Iterable[Terms]) -> Iterator[list[Terms]]:
    """Yield the memories' terms in batches that can be sorted at once."""
    some: list[Terms] = []
    size = 0
    for doc in docs:
        some.append(doc)
        size += len(doc)
        if size >= _SORTED_AT_ONCE:
            yield some
            some, size = [], 0
    yield some


def _build_few(first_row: int, docs: Sequence[Terms]) -> Postings:
    """Build the postings of memories that can be sorted at once; the first of them is row `first_row`."""
    found = np.concatenate([*docs, _NO_TERMS])
    sizes = np.fromiter(map(len, docs), np.int32, len(docs))
    holders = np.repeat(np.arange(first_row, first_row + len(docs), dtype=np.int32), sizes)
    stems = np.append(0, np.cumsum(are_stems(found), dtype=np.int32))
    lengths = np.diff(stems[np.append(0, np.cumsum(sizes))]).astype(np.int32)

    order = _sort_order(found)
    found, holders = found[order], holders[order]
    first = np.flatnonzero(_run_starts(found) | _run_starts(holders))
    counts = np.minimum(np.diff(first, append=len(found)), _MAX_TF).astype(np.uint8)
    found, holders = found[first], holders[first]
    term = np.flatnonzero(_run_starts(found))
    frequency = np.diff(term, append=len(found)).astype(np.int32)
    return Postings(found[term], frequency, holders, counts, lengths)


def _sort_order(found: Terms) -> NDArray[np.intp]:
    """Return the stable sort order of terms, by two radix sorts of 16 bits."""
    by_low = np.argsort((found & np.uint32(0xFFFF)).astype(np.uint16), kind="stable")
    by_high = np.argsort((found >> np.uint32(16)).astype(np.uint16)[by_low], kind="stable")
    return by_low[by_high]


def _run_starts(values: NDArray[np.uint32] | Ints) -> NDArray[np.bool_]:
    """Return True for the first element of each run of equal values."""
    begins = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return begins


def _merge(parts: Sequence[Postings]) -> Postings:
    """Merge the postings of all parts; the rows of each part are greater than those before."""
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


# --- lexical indexes ------------------------------------------------------------------------------------


def build_lexical(docs: Iterable[Terms]) -> LexicalIndex:
    """Build a lexical index of memories 0 to n - 1 from their terms; `docs` is consumed one by one."""
    of = Postings.of(docs)
    return LexicalIndex(of.terms, _offsets(of.frequency), of.rows, of.counts, of.lengths)


def splice_lexical(
    index: LexicalIndex,
    *,
    kept_old: Ints,
    kept_new: Ints,
    added_new: Ints,
    added: Sequence[Terms],
    size: int,
) -> LexicalIndex:
    """Return a lexical index after rows moved, came or went, equal by array to one from scratch.

    Rows `kept_old` of the index go to `kept_new`, both strictly ascending. `added_new` are the rows of new
    and changed memories, in any order, `added` their terms. `size` is the number of rows afterwards.
    """
    ascending = np.argsort(added_new)
    new = Postings.of([added[number] for number in ascending.tolist()])
    found, fresh = np.repeat(new.terms, new.frequency), added_new[ascending][new.rows]
    names, frequency, rows, counts = _renumber_rows(index, kept_old, kept_new)
    unknown = new.terms[find_terms(names, new.terms) < 0]
    place = np.searchsorted(names, unknown)
    names, frequency = np.insert(names, place, unknown), np.insert(frequency, place, 0)

    term = np.searchsorted(names, found)
    ends = np.cumsum(frequency)
    at = _insertion_points(rows, ends[term] - frequency[term], ends[term], fresh)
    frequency += np.bincount(term, minlength=len(names))
    used = frequency > 0

    lengths = np.zeros(size, np.int32)
    lengths[kept_new] = index.lengths[kept_old]
    lengths[added_new[ascending]] = new.lengths
    return LexicalIndex(
        names[used],
        _offsets(frequency[used]),
        _insert_at(rows, at, fresh),
        _insert_at(counts, at, new.counts),
        lengths,
    )


def _renumber_rows(
    index: LexicalIndex, kept_old: Ints, kept_new: Ints
) -> tuple[Terms, NDArray[np.int64], Ints, NDArray[np.uint8]]:
    """Return terms, frequencies, rows and counts of the memories that stay, with their new rows."""
    target = np.full(len(index.lengths), -1, np.int32)
    target[kept_old] = kept_new
    rows = np.empty_like(index.rows)
    for start in range(0, len(rows), _RENUMBERED_AT_ONCE):
        part = slice(start, start + _RENUMBERED_AT_ONCE)
        target.take(index.rows[part], out=rows[part], mode="wrap")  # "raise" would buffer
    frequency = np.diff(index.offsets).astype(np.int64)
    gone = np.flatnonzero(rows < 0)
    term = np.searchsorted(index.offsets, gone, side="right") - 1
    frequency -= np.bincount(term, minlength=len(index.terms))
    return index.terms, frequency, _delete_at(rows, gone), _delete_at(index.counts, gone)


def _offsets(frequency: NDArray[np.integer]) -> Ints:
    """Return the start of the postings of each term, and the end of the last."""
    return np.append(0, np.cumsum(frequency)).astype(np.int32)


def _insertion_points(
    rows: Ints, low: NDArray[np.int64], high: NDArray[np.int64], wanted: Ints
) -> NDArray[np.int64]:
    """Return the insertion point of each wanted row in its ascending stretch `rows[low:high]`."""
    low, high = low.copy(), high.copy()
    while len(unsure := np.flatnonzero(low < high)):
        middle = (low[unsure] + high[unsure]) // 2
        after = rows[middle] < wanted[unsure]
        low[unsure[after]] = middle[after] + 1
        high[unsure[~after]] = middle[~after]
    return low


def _delete_at(postings: NDArray[_Value], gone: NDArray[np.intp]) -> NDArray[_Value]:
    """Return postings without the elements at ascending places, like `np.delete`."""
    if _STRETCH * len(gone) > len(postings):
        return np.delete(postings, gone)
    gaps: list[int] = gone.tolist()
    stretches = zip([0, *(gap + 1 for gap in gaps)], [*gaps, len(postings)], strict=True)
    return np.concatenate([postings[start:stop] for start, stop in stretches])


def _insert_at(postings: NDArray[_Value], at: NDArray[np.int64], fresh: NDArray[_Value]) -> NDArray[_Value]:
    """Return postings with elements inserted at ascending places, like `np.insert`."""
    if _STRETCH * len(at) > len(postings):
        return np.insert(postings, at, fresh)
    cuts = pairwise([0, *at.tolist(), len(postings)])
    pieces = ((postings[start:stop], fresh[i : i + 1]) for i, (start, stop) in enumerate(cuts))
    return np.concatenate(list(chain.from_iterable(pieces)))
