"""Calibration of a model by everyday messages: means, two axes, and missing rows."""

from __future__ import annotations

import numpy as np
import pytest

from forged.map import gate
from forged.map.baseline import Baseline, Calibration
from forged.map.packing import build_dense
from forged.map.search import search_maps
from tests.data.maps import cone, unit, vector_map
from tests.data.memories import memory

DIMENSION = 64
MESSAGES = 32
NAMES = [f"m{n:03}" for n in range(1000)]


def learned(seed=0, dimension=DIMENSION):
    return Baseline.of("key", cone(seed, dimension=dimension), cone(seed + 1, dimension=dimension, towards=1))


def naive(rows, middle, axes):
    """The same treatment in float64, row by row."""
    done = []
    for row in np.asarray(rows, np.float64):
        rest = row - middle
        for axis in np.asarray(axes, np.float64):
            rest = rest - (rest @ axis) * axis
        done.append(rest / np.linalg.norm(rest))
    return np.array(done)


def test_the_axes_are_the_two_directions_of_greatest_spread():
    queries, passages = cone(2), cone(3, towards=1)
    axes = Baseline.of("key", queries, passages).dropped_axes
    spread = np.vstack([queries - queries.mean(axis=0), passages - passages.mean(axis=0)]).astype(np.float64)
    _, _, directions = np.linalg.svd(spread, full_matrices=False)

    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-5)
    np.testing.assert_allclose(np.abs(axes @ directions[:2].T), np.eye(2), atol=1e-3)


def calibrated(baseline, rows):
    return Calibration.of(build_dense("key", rows), baseline)


def cosines(baseline, queries, rows):
    """What is left of the cosines of queries and rows when they are read against the baseline."""
    one = vector_map(
        [memory(f"m{n:03}", "text") for n in range(len(rows))], dict(zip(NAMES, rows, strict=False))
    )
    found = search_maps([one], texts=[], vectors=queries, lexical_weight=0)
    reading = gate.score_search(found, baseline)
    return reading.cosines / reading.lengths


def test_what_separates_messages_most_is_gone():
    """Two scripts lie apart along one axis; without it a query of one is no nearer to its own."""
    rows = cone(4)
    rows[: MESSAGES // 2, 5] += 1
    baseline = Baseline.of("key", unit(rows), unit(rows))
    shifted = unit(cone(5, 2) + np.eye(DIMENSION)[5])

    assert np.abs(baseline.dropped_axes[0]).argmax() == 5
    assert np.abs(baseline.messages @ baseline.dropped_axes.T).max() < 1e-5
    np.testing.assert_allclose(
        cosines(baseline, shifted, unit(rows)),
        cosines(baseline, unit(shifted - 0.3 * np.outer([1, 1], baseline.dropped_axes[0])), unit(rows)),
        atol=0.05,
    )


@pytest.mark.parametrize("queries", [1, 3])
def test_cosines_are_those_of_rows_and_queries_without_mean_and_axes(queries):
    baseline, rows, asked = learned(7), cone(70, 200, towards=1), cone(71, queries)

    expected = (
        naive(asked, baseline.query_mean, baseline.dropped_axes)
        @ naive(rows, baseline.passage_mean, baseline.dropped_axes).T
    )
    np.testing.assert_allclose(cosines(baseline, asked, rows), expected, atol=1e-4)


def test_best_is_what_each_message_reaches_in_the_index_and_holders_are_the_rows():
    baseline, rows = learned(7), cone(70, 200, towards=1)
    reached = (
        naive(cone(7), baseline.query_mean, baseline.dropped_axes)
        @ naive(rows, baseline.passage_mean, baseline.dropped_axes).T
    )

    calibration = calibrated(baseline, rows)

    np.testing.assert_allclose(calibration.best, reached.max(axis=1), atol=1e-4)
    np.testing.assert_allclose(
        reached[np.arange(MESSAGES), calibration.holders], reached.max(axis=1), atol=1e-4
    )


def test_a_row_without_a_vector_has_no_scale():
    rows = cone(9, 3)
    rows[1] = 0

    scales = calibrated(learned(9), rows).scales

    assert scales[1] == 0
    assert (scales[[0, 2]] > 0).all()
