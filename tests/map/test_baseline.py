"""What is learned of a model from everyday messages: means on both sides, two axes, and rows without them."""

from __future__ import annotations

import numpy as np
import pytest

from forged.map.baseline import Background
from forged.map.dense import DenseLeg

DIMENSION = 64
MESSAGES = 32


def unit(rows):
    rows = np.asarray(rows, np.float32)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def cone(seed, count=MESSAGES, dimension=DIMENSION, *, towards=0):
    """Unit rows in the narrow cone of a sentence model: a large common part and a small own one."""
    common = np.zeros(dimension)
    common[towards] = 3.0
    return unit(common + np.random.default_rng(seed).standard_normal((count, dimension)) / 3)


def learned(seed=0, dimension=DIMENSION):
    return Background.of(
        "key", cone(seed, dimension=dimension), cone(seed + 1, dimension=dimension, towards=1)
    )


def naive(rows, middle, axes):
    """The same treatment in float64, row by row."""
    done = []
    for row in np.asarray(rows, np.float64):
        rest = row - middle
        for axis in np.asarray(axes, np.float64):
            rest = rest - (rest @ axis) * axis
        done.append(rest / np.linalg.norm(rest))
    return np.array(done)


def test_the_means_are_those_of_each_side():
    asked, noted = cone(0), cone(1, towards=1)
    background = Background.of("key", asked, noted)

    np.testing.assert_allclose(background.asked, asked.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(background.noted, noted.mean(axis=0), atol=1e-6)


def test_the_axes_are_the_two_directions_of_greatest_spread():
    asked, noted = cone(2), cone(3, towards=1)
    axes = Background.of("key", asked, noted).axes
    spread = np.vstack([asked - asked.mean(axis=0), noted - noted.mean(axis=0)]).astype(np.float64)
    _, _, directions = np.linalg.svd(spread, full_matrices=False)

    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-5)
    np.testing.assert_allclose(np.abs(axes @ directions[:2].T), np.eye(2), atol=1e-3)


def test_what_separates_messages_most_is_gone_from_queries():
    """Two scripts lie apart along one axis; without it a query of one is no nearer to its own."""
    rows = cone(4)
    rows[: MESSAGES // 2, 5] += 1
    background = Background.of("key", unit(rows), unit(rows))
    shifted = unit(cone(5, 2) + np.eye(DIMENSION)[5])

    assert np.abs(background.axes[0]).argmax() == 5
    assert np.abs(background.queries(shifted) @ background.axes.T).max() < 1e-5


def test_queries_are_of_unit_length_without_mean_and_axes():
    background, rows = learned(6), cone(60, 5)

    np.testing.assert_allclose(
        background.queries(rows), naive(rows, background.asked, background.axes), atol=1e-5
    )


def test_scales_and_products_are_cosines_of_prepared_rows():
    background, rows, queries = learned(7), cone(70, 200, towards=1), cone(71, 3)
    leg = DenseLeg.build("key", rows)
    prepared = background.queries(queries)

    cosines = background.centred(prepared, prepared @ rows.T, background.scales(leg))

    expected = (
        naive(queries, background.asked, background.axes) @ naive(rows, background.noted, background.axes).T
    )
    np.testing.assert_allclose(cosines, expected, atol=1e-4)


def test_scales_of_some_rows_are_those_of_the_leg():
    background, rows = learned(8), cone(80, 130)
    leg = DenseLeg.build("key", rows)

    np.testing.assert_allclose(background.scales_of(rows), background.scales(leg), rtol=1e-5)


def test_a_row_without_a_vector_has_no_scale():
    rows = cone(9, 3)
    rows[1] = 0

    scales = learned(9).scales(DenseLeg.build("key", rows))

    assert scales[1] == 0
    assert (scales[[0, 2]] > 0).all()


def test_a_row_that_is_the_mean_itself_has_no_direction():
    middle = unit(np.ones(DIMENSION))
    background = Background.of("key", np.tile(middle, (MESSAGES, 1)), np.tile(middle, (MESSAGES, 1)))

    assert background.scales_of(middle[np.newaxis]).tolist() == [0]


@pytest.mark.parametrize("dimension", [1, 2, 3, 8, 64])
def test_equal_vectors_teach_nothing_and_break_nothing(dimension):
    same = np.tile(unit(np.ones(dimension)), (MESSAGES, 1))
    background = Background.of("key", same, same)
    leg = DenseLeg.build("key", same[:3])

    with np.errstate(all="raise", under="ignore"):
        cosines = background.centred(
            background.messages, background.messages @ same[:3].T, background.scales(leg)
        )

    assert np.isfinite(cosines).all()
    assert np.abs(cosines).max() < 1e-2


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_vectors_of_hardly_any_numbers_stay_finite(dimension):
    background = Background.of("key", cone(11, dimension=dimension), cone(12, dimension=dimension))
    rows = cone(13, 4, dimension)

    assert np.isfinite(background.queries(rows)).all()
    assert np.isfinite(background.scales_of(rows)).all()


def test_the_same_messages_teach_the_same():
    one, two = learned(14), learned(14)

    for name in ("asked", "noted", "axes", "messages"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_everything_is_float32():
    background = learned()

    assert {background.axes.dtype, background.messages.dtype, background.asked.dtype} == {
        np.dtype(np.float32)
    }
    assert background.scales_of(cone(1, 2)).dtype == np.float32
