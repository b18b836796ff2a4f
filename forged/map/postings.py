"""Postings of terms, made of some thousand memories at a time, so that little is held beside the result.

Numpy sorts numbers of 16 bits by radix, in a fifth of the time of longer ones: terms are sorted by halves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.text.terms import Terms, are_stems, distinct

Ints = NDArray[np.int32]

_NO_TERMS = np.empty(0, np.uint32)
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
