"""Candidates are smoothed over their nearest neighbours and over their occasion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.map.search import smoothed
from tests.data.maps import unit_rows


def rerank(scores, rows=None, occasion=None):
    scores = np.asarray(scores, np.float32)
    rows = None if rows is None else np.asarray(rows, np.float32)
    return smoothed(scores, rows, np.arange(len(scores)) if occasion is None else np.asarray(occasion))


def order(scores):
    return np.argsort(-scores, kind="stable").tolist()


@pytest.mark.parametrize(
    ("scores", "rows", "expected"),
    [
        ([2, 1.0, 1.1], [[1, 0, 0], [0.8, 0.6, 0], [0, 0, 1]], [0, 1, 2]),
        ([1.1, -1, -1, 1.0], [[1, 0], [1, 0], [1, 0], [0, 1]], [3, 0, 1, 2]),
    ],
    ids=["beside a good one", "beside poor ones"],
)
def test_a_candidate_near_a_good_one_passes_one_without_neighbours(scores, rows, expected):
    """And one beside poor ones falls behind it."""
    assert order(rerank(scores, rows)) == expected


def test_neighbours_count_by_a_weighted_mean():
    rows = [[1, 0], [0.6, 0.8], [0.8, 0.6]]  # products of the first: 0.6 and 0.8

    found = rerank([0, 1, 3], rows)

    assert found[0] == pytest.approx(0.4 / 1.4 * (0.6 * 1 + 0.8 * 3) / 1.4, abs=1e-6)


@pytest.mark.parametrize("copies", [2, 5, 8, 40])
def test_rounding_of_equal_rows_changes_no_score(copies):
    # Equal rows differ in the last bits, according to where they lie in a block: none may count alone.
    for seed in range(20):
        rows = np.vstack([np.repeat(unit_rows(1, 384, seed + 50), copies, axis=0), unit_rows(20, 384, seed)])
        scores = np.append(np.full(copies, 1.5), np.linspace(-1, 1, 20))
        rounded = rows * np.random.default_rng(seed).uniform(1, 1 + 3e-7, (len(rows), 1))

        found = rerank(scores, rounded)

        assert np.ptp(found[:copies]) < 1e-5
        np.testing.assert_allclose(found, rerank(scores, rows), atol=1e-5)


def test_a_candidate_of_a_good_occasion_passes_one_without_occasion():
    assert order(rerank([2, 1.0, 1.1], occasion=[7, 7, 8])) == [0, 1, 2]


SCORES = st.lists(st.floats(-5, 5, width=16), min_size=1, max_size=30)


@given(SCORES, st.data())
@settings(deadline=None)
def test_the_order_inside_an_occasion_stays(scores, data):
    occasion = data.draw(st.lists(st.integers(0, 3), min_size=len(scores), max_size=len(scores)))

    found = rerank(scores, occasion=occasion)

    for one, other in zip(*np.triu_indices(len(scores), 1), strict=True):
        if occasion[one] == occasion[other] and scores[one] > scores[other]:
            assert found[one] >= found[other]


@given(SCORES, st.integers(0, 99))
@settings(deadline=None)
def test_no_score_leaves_the_range_of_all(scores, seed):
    found = rerank(scores, unit_rows(len(scores), 6, seed), np.arange(len(scores)) // 3)

    assert min(scores) - 1e-5 <= found.min()
    assert found.max() <= max(scores) + 1e-5


@given(SCORES, st.integers(0, 99), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_candidates_does_not_matter(scores, seed, random):
    rows = unit_rows(len(scores), 6, seed)
    rows[: len(scores) // 3] = rows[-1]
    occasion = np.array([random.randrange(5) for _ in scores])
    moved = list(range(len(scores)))
    random.shuffle(moved)
    scores = np.array(scores, np.float32)

    found = rerank(scores[moved], rows[moved], occasion[moved])

    np.testing.assert_allclose(found, rerank(scores, rows, occasion)[moved], atol=1e-4)
