"""The lexical index: what it holds, what an edit may touch, and how words are scored."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.map import lexical
from forged.map.postings import build_lexical, splice_lexical
from forged.text.terms import terms
from tests.faults.amount import times

ARRAYS = ("terms", "offsets", "rows", "counts", "lengths")


def scores(indexes, queries):
    """BM25 of all rows of all indexes in turn."""
    return np.hstack(lexical.bm25_scores(lexical.match_terms(indexes, queries)))


def index_of(*texts):
    return build_lexical([terms(text) for text in texts])


WORDS = ["lint", "ruff", "test", "pytest", "socket", "daemon", "config", "configuration", "main", "branch"]
DOCS = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), max_size=12)


def assert_same(index, other):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(index, name), getattr(other, name), err_msg=name)
        assert getattr(index, name).dtype == getattr(other, name).dtype


@st.composite
def edits(draw):
    """Old texts by id, and new ones: some removed, some changed, some added."""
    ids = st.integers(0, 30)
    texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
    old = draw(st.dictionaries(ids, texts, max_size=15))
    kept = {i: text for i, text in old.items() if draw(st.booleans())}
    return old, {**kept, **draw(st.dictionaries(ids, texts, max_size=6))}


@given(edits())
@settings(deadline=None, max_examples=times(200, 50))
def test_spliced_index_equals_one_built_from_scratch(edit):
    old, new = edit
    old_ids, new_ids = sorted(old), sorted(new)
    kept = [i for i in new_ids if old.get(i) == new[i]]
    added = [i for i in new_ids if i not in kept]

    spliced = splice_lexical(
        index_of(*(old[i] for i in old_ids)),
        kept_old=np.array([old_ids.index(i) for i in kept], np.int32),
        kept_new=np.array([new_ids.index(i) for i in kept], np.int32),
        added_new=np.array([new_ids.index(i) for i in added], np.int32),
        added=[terms(new[i]) for i in added],
        size=len(new),
    )

    assert_same(spliced, index_of(*(new[i] for i in new_ids)))


@pytest.mark.parametrize(
    ("gone", "new_at"), [([], [200]), ([0, 399], []), ([7], [7]), ([5, 6, 350], [0, 1, 180, 398, 399])]
)
def test_an_edit_of_a_few_among_many_equals_a_index_built_from_scratch(gone, new_at):
    source = np.random.default_rng(2)
    docs = list(source.choice(source.integers(0, 2**32, 500, np.uint32), (400, 60)))
    fresh = list(source.choice(source.integers(0, 2**32, 500, np.uint32), (len(new_at), 60)))
    size = len(docs) - len(gone) + len(new_at)
    kept_old = np.setdiff1d(np.arange(400), gone).astype(np.int32)
    kept_new = np.setdiff1d(np.arange(size), new_at).astype(np.int32)
    after = dict(zip(kept_new.tolist(), [docs[row] for row in kept_old], strict=True))
    after |= dict(zip(new_at, fresh, strict=True))

    spliced = splice_lexical(
        build_lexical(docs),
        kept_old=kept_old,
        kept_new=kept_new,
        added_new=np.array(new_at[::-1], np.int32),
        added=fresh[::-1],
        size=size,
    )

    assert_same(spliced, build_lexical([after[row] for row in range(size)]))


def test_splice_leaves_the_old_index_alone():
    index = index_of("ruff lints", "pytest tests")
    before = [getattr(index, name).copy() for name in ARRAYS]

    splice_lexical(
        index,
        kept_old=np.array([1], np.int32),
        kept_new=np.array([0], np.int32),
        added_new=np.array([1], np.int32),
        added=[terms("cargo tests")],
        size=2,
    )

    for name, array in zip(ARRAYS, before, strict=True):
        np.testing.assert_array_equal(getattr(index, name), array)


def test_a_word_repeated_without_end_is_counted_up_to_255():
    index = index_of("ruff " * 1000)

    assert index.counts.tolist() == [255, 255]  # the stem and its beginning
    assert index.lengths.tolist() == [1000]


def test_a_index_of_half_a_million_words_holds_every_one_of_them():
    source = np.random.default_rng(1)
    docs = list(source.choice(source.integers(0, 2**32, 3000, np.uint32), (5000, 100)))
    pairs, wanted = np.unique(
        np.stack([np.concatenate(docs), np.repeat(np.arange(5000), 100)]), axis=1, return_counts=True
    )

    index = build_lexical(docs)

    np.testing.assert_array_equal(np.repeat(index.terms, np.diff(index.offsets)), pairs[0])
    np.testing.assert_array_equal(index.rows, pairs[1])
    np.testing.assert_array_equal(index.counts, wanted)


def bm25(docs, asked, lengths, k1=1.2, b=0.75):
    """The textbook formula, one memory and one term at a time, over the weight of the known terms."""
    average = max(1.0, sum(lengths) / max(1, len(lengths)))
    result, best = [0.0] * len(docs), 0.0
    for term in set(asked):
        holders = [doc for doc in docs if term in doc]
        idf = math.log(1 + (len(docs) - len(holders) + 0.5) / (len(holders) + 0.5))
        best += idf if holders else 0
        for i, (doc, length) in enumerate(zip(docs, lengths, strict=True)):
            tf = doc.count(term)
            result[i] += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))
    return np.array(result) / (best or 1)


def of_kind(text, lowest_bit):
    return [term for term in terms(text).tolist() if term & 1 == lowest_bit]


@given(DOCS, st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=5).map(" ".join))
@settings(deadline=None)
def test_scores_are_the_textbook_formula_of_stems_and_a_fifth_of_that_of_beginnings(texts, query):
    lengths = [len(of_kind(text, 0)) for text in texts]
    of_stems, of_beginnings = (
        bm25([of_kind(text, kind) for text in texts], of_kind(query, kind), lengths) for kind in (0, 1)
    )

    (row,) = scores([index_of(*texts)], [query])

    np.testing.assert_allclose(row, of_stems + 0.2 * of_beginnings, rtol=1e-5, atol=1e-6)


@given(DOCS, DOCS, st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join))
@settings(deadline=None)
def test_indexes_are_scored_as_if_they_were_one(first, second, query):
    apart = scores([index_of(*first), index_of(*second)], [query])
    together = scores([index_of(*first, *second)], [query])

    np.testing.assert_allclose(apart, together, rtol=1e-5, atol=1e-6)
