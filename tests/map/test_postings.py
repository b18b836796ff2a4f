"""Postings: every term of every memory, counted, however many of them are sorted at a time."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from unittest import mock

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from forged.map import postings
from forged.map.postings import Postings

TERMS = st.sampled_from([0, 1, 2, 0xFFFF, 0x10000, 0x10001, 0x1FFFF, 0xFFFFFFFF, 0xFFFFFFFE])
DOCS = st.lists(st.lists(TERMS | st.integers(0, 2**32 - 1), max_size=8), max_size=12)


def counted_one_by_one(docs):
    """Terms, and for each its (row, count) pairs: the same by dictionaries."""
    held = {}
    for row, doc in enumerate(docs):
        for term, count in Counter(doc).items():
            held.setdefault(term, []).append((row, min(count, 255)))
    return {term: sorted(held[term]) for term in sorted(held)}


def as_pairs(found):
    pairs = iter(zip(found.rows.tolist(), found.counts.tolist(), strict=True))
    of_each = zip(found.terms.tolist(), found.frequency.tolist(), strict=True)
    return {term: list(islice(pairs, count)) for term, count in of_each}


@given(DOCS, st.integers(1, 20))
@example([[7] * 300, [], [7] * 3], 4)
def test_postings_are_those_counted_one_by_one_however_many_terms_are_sorted_at_a_time(docs, at_once):
    with mock.patch.object(postings, "_SORTED_AT_ONCE", at_once):
        found = Postings.of(np.array(doc, np.uint32) for doc in docs)

    wanted = counted_one_by_one(docs)
    assert as_pairs(found) == wanted
    assert len(found.rows) == sum(map(len, wanted.values()))
    assert found.terms.tolist() == list(wanted)  # ascending
    assert found.lengths.tolist() == [sum(term % 2 == 0 for term in doc) for doc in docs]
    names = ("terms", "frequency", "rows", "counts", "lengths")
    kinds = {name: getattr(found, name).dtype for name in names}
    assert kinds == dict(zip(names, (np.uint32, np.int32, np.int32, np.uint8, np.int32), strict=True))


def test_terms_are_asked_for_no_sooner_than_they_can_be_sorted():
    ahead = 0

    def docs():
        nonlocal ahead
        for _ in range(2_000):
            ahead += 1
            yield np.arange(200, dtype=np.uint32) * 2

    given_at = []
    real = postings._build_few

    def noting(first_row, some):
        given_at.append((first_row, len(some), ahead))
        return real(first_row, some)

    with mock.patch.object(postings, "_build_few", noting):
        assert len(Postings.of(docs()).lengths) == 2_000

    assert len(given_at) == 2
    assert all(first_row + count == asked for first_row, count, asked in given_at)
