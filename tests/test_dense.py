"""The dense leg: unit rows, products in blocks, and centring as algebra."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.dense import DenseLeg, cosines_into, joint_centre


def unit_rows(n, d, seed=0, offset=0.0):
    rows = np.random.default_rng(seed).standard_normal((n, d)) + offset
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def centred_cosines(rows, queries, mean):
    """The obvious way, with a second matrix in double precision."""
    rows, queries = rows - mean, queries - mean
    return (queries @ rows.T) / np.linalg.norm(rows, axis=1)


@given(st.integers(1, 9), st.integers(0, 300), st.sampled_from([1, 3, 16, 100]))
def test_blocks_equal_the_plain_product(queries, n, d):
    rows, asked = unit_rows(n, d), unit_rows(queries, d, seed=1)
    out = np.full((queries, n + 2), 7, np.float32)

    cosines_into(out[:, 1:-1], DenseLeg.build("key", rows), asked)

    np.testing.assert_allclose(out[:, 1:-1], asked.astype(float) @ rows.T.astype(float), atol=1e-6)
    assert (out[:, [0, -1]] == 7).all()


@given(st.integers(0, 200))
def test_rows_come_out_as_they_were_packed(n):
    rows = unit_rows(n, 5)
    leg = DenseLeg.build("key", rows)

    assert (leg.rows == rows).all()
    assert all((leg.row(i) == rows[i]).all() for i in range(n))


@given(st.data())
def test_an_edit_equals_a_leg_built_from_scratch(data):
    n = data.draw(st.integers(0, 150))
    leg = DenseLeg.build("key", np.vstack([unit_rows(n, 4), np.zeros((1, 4), np.float32)]))
    kept = data.draw(st.sets(st.integers(0, n)))
    places = np.array([i if i in kept else -1 for i in range(n + 1)], np.int64)
    if data.draw(st.booleans()):  # rows move, come and go as well
        places = np.array(data.draw(st.permutations([*sorted(kept), -1, -1])), np.int64)
    unknown = np.flatnonzero(places < 0).tolist()
    fresh = {row: unit_rows(1, 4, seed=row + 1)[0] for row in unknown if data.draw(st.booleans())}
    wanted = [leg.row(at) if at >= 0 else fresh.get(row, np.zeros(4)) for row, at in enumerate(places)]

    edited = leg.edited(places, fresh)
    built = DenseLeg.build("key", np.array(wanted, np.float32).reshape(-1, 4))

    assert (edited.rows == built.rows).all()
    assert (edited.missing == built.missing).all()
    np.testing.assert_allclose(edited.total, built.total, atol=1e-6)
    assert (edited.blocks == built.blocks).all()


def test_an_edit_leaves_the_leg_before_alone():
    rows = unit_rows(100, 4)
    leg = DenseLeg.build("key", rows)
    places = np.arange(100)
    places[70] = -1

    leg.edited(places, {70: unit_rows(1, 4, seed=9)[0]})

    assert (leg.rows == rows).all()


def test_rows_of_any_length_become_unit_rows_and_zero_stays_zero():
    leg = DenseLeg.build("key", np.array([[3, 4], [0, 0], [0, 0.5]], np.float32))

    np.testing.assert_allclose(leg.rows, [[0.6, 0.8], [0, 0], [0, 1]], atol=1e-7)
    assert leg.missing.tolist() == [False, True, False]
    assert leg.present == 2


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_row_that_is_not_finite_counts_as_missing(bad):
    leg = DenseLeg.build("key", np.array([[1, 0], [bad, 1]], np.float32))

    assert leg.rows.tolist() == [[1, 0], [0, 0]]
    assert leg.missing.tolist() == [False, True]


def test_centring_equals_subtracting_the_joint_mean_from_every_row():
    first, second = unit_rows(200, 32, offset=0.5), unit_rows(30, 32, seed=1, offset=-0.2)
    second[7] = 0
    legs = [DenseLeg.build("key", first), DenseLeg.build("key", second)]
    queries = unit_rows(3, 32, seed=2, offset=0.5)
    present = np.vstack([first, np.delete(second, 7, axis=0)]).astype(float)

    centre = joint_centre(legs)
    for i, leg in enumerate(legs):
        raw, out = np.empty((3, len(leg)), np.float32), np.empty((3, len(leg)), np.float32)
        cosines_into(raw, leg, queries)
        centre.apply(i, raw, queries, out=out)
        wanted = centred_cosines(leg.rows.astype(float), queries.astype(float), present.mean(axis=0))
        wanted[:, leg.missing] = 0
        np.testing.assert_allclose(out, wanted, atol=1e-5)


def test_row_at_the_mean_has_no_direction_and_scores_zero():
    leg = DenseLeg.build("key", np.repeat(unit_rows(1, 16), 60, axis=0))
    raw, out = np.empty((2, 60), np.float32), np.empty((2, 60), np.float32)
    queries = unit_rows(2, 16, seed=1)
    cosines_into(raw, leg, queries)

    joint_centre([leg]).apply(0, raw, queries, out=out)

    assert not out.any()


@pytest.mark.parametrize(("vectors", "is_centred"), [(49, False), (50, True)])
def test_fewer_than_fifty_vectors_are_not_centred(vectors, is_centred):
    rows = np.vstack([unit_rows(vectors, 8), np.zeros((10, 8), np.float32)])
    half = len(rows) // 2
    legs = [DenseLeg.build("key", rows[:half]), DenseLeg.build("key", rows[half:])]

    assert (joint_centre(legs) is not None) == is_centred


def test_centre_is_kept_for_the_same_legs_and_made_anew_for_others():
    repo, user, other = (DenseLeg.build("key", unit_rows(60, 8, seed=i)) for i in range(3))

    known = joint_centre([repo, user])

    assert joint_centre([repo, user]) is known
    assert joint_centre([repo, other]) is not known
    assert joint_centre([repo]) is not known


def test_kept_centre_does_not_keep_a_replaced_leg_alive():
    repo, user = (DenseLeg.build("key", unit_rows(60, 8, seed=i)) for i in range(2))
    joint_centre([repo, user])
    gone = weakref.ref(repo), weakref.ref(user)

    del repo, user
    gc.collect()

    assert [leg() for leg in gone] == [None, None]
