"""The dense index: unit rows, products in blocks, and centring as algebra."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.map import packing
from forged.map.dense import joint_centre, write_cosines
from forged.map.packing import build_dense, edit_dense
from tests.data.maps import rows_of


def unit_rows(n, d, seed=0, offset=0.0):
    rows = np.random.default_rng(seed).standard_normal((n, d)) + offset
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def centred_cosines(rows, queries, mean):
    """The obvious way, with a second matrix in double precision."""
    rows, queries = rows - mean, queries - mean
    return (queries @ rows.T) / np.linalg.norm(rows, axis=1)


@given(st.integers(1, 9), st.integers(0, 300), st.sampled_from([1, 3, 16, 100]))
@settings(deadline=None)
def test_blocks_equal_the_plain_product(queries, n, d):
    rows, asked = unit_rows(n, d), unit_rows(queries, d, seed=1)
    out = np.full((queries, n + 2), 7, np.float32)

    write_cosines(out[:, 1:-1], build_dense("key", rows), asked)

    np.testing.assert_allclose(out[:, 1:-1], asked.astype(float) @ rows.T.astype(float), atol=1e-6)
    assert (out[:, [0, -1]] == 7).all()


@given(st.data())
@settings(deadline=None)
def test_an_edit_equals_a_index_built_from_scratch(data):
    n = data.draw(st.integers(0, 150))
    index = build_dense("key", np.vstack([unit_rows(n, 4), np.zeros((1, 4), np.float32)]))
    kept = data.draw(st.sets(st.integers(0, n)))
    places = np.array([i if i in kept else -1 for i in range(n + 1)], np.int64)
    if data.draw(st.booleans()):  # rows move, come and go as well
        twice = sorted(kept)[:2]  # another memory has the same text
        places = np.array(data.draw(st.permutations([*sorted(kept), *twice, -1, -1])), np.int64)
    unknown = np.flatnonzero(places < 0).tolist()
    fresh = {row: unit_rows(1, 4, seed=row + 1)[0] for row in unknown if data.draw(st.booleans())}
    wanted = [index.row(at) if at >= 0 else fresh.get(row, np.zeros(4)) for row, at in enumerate(places)]

    edited = edit_dense(index, places, fresh)
    built = build_dense("key", np.array(wanted, np.float32).reshape(-1, 4))

    assert (rows_of(edited) == rows_of(built)).all()
    assert (edited.missing == built.missing).all()
    np.testing.assert_allclose(edited.total, built.total, atol=1e-6)
    assert (edited.blocks == built.blocks).all()


def test_new_rows_are_packed_a_few_at_a_time_and_every_one_of_them(monkeypatch):
    monkeypatch.setattr(packing, "_PACKED_AT_ONCE", 7)
    rows = unit_rows(200, 4) * 3
    rows[11] = np.nan
    new = np.setdiff1d(np.arange(200), [0, 60, 199])
    places = np.where(np.isin(np.arange(200), new), -1, 0)
    rows[[0, 60, 199]] = rows[0]

    edited = edit_dense(build_dense("key", rows[:1]), places, {row: rows[row] for row in new.tolist()})

    built = build_dense("key", rows)
    np.testing.assert_allclose(edited.blocks, built.blocks, atol=1e-6)
    assert np.flatnonzero(edited.missing).tolist() == [11]
    np.testing.assert_allclose(edited.total, built.total, atol=1e-5)


def test_rows_of_any_length_become_unit_rows_and_zero_stays_zero():
    index = build_dense("key", np.array([[3, 4], [0, 0], [0, 0.5]], np.float32))

    np.testing.assert_allclose(rows_of(index), [[0.6, 0.8], [0, 0], [0, 1]], atol=1e-7)
    assert index.missing.tolist() == [False, True, False]
    assert index.vector_count == 2


def narrow(indexes):
    return [np.zeros(len(index), np.bool_) for index in indexes]


def applied(indexes, cjk, queries, cjk_queries):
    """Centred cosines of all indexes, (q, n), as a search gets them."""
    centre, result = joint_centre(indexes, cjk), []
    for i, index in enumerate(indexes):
        raw, out = np.empty((2, len(queries), len(index)), np.float32)
        write_cosines(raw, index, queries)
        centre.apply(i, raw, queries, np.array(cjk_queries), out=out)
        result.append(out)
    return np.hstack(result)


def test_centring_equals_subtracting_the_joint_mean_from_every_row():
    first, second = unit_rows(200, 32, offset=0.5), unit_rows(30, 32, seed=1, offset=-0.2)
    second[7] = 0
    indexes = [build_dense("key", first), build_dense("key", second)]
    queries = unit_rows(3, 32, seed=2, offset=0.5)
    present = np.vstack([first, np.delete(second, 7, axis=0)]).astype(float)

    centre = joint_centre(indexes, narrow(indexes))
    for i, index in enumerate(indexes):
        raw, out = np.empty((3, len(index)), np.float32), np.empty((3, len(index)), np.float32)
        write_cosines(raw, index, queries)
        centre.apply(i, raw, queries, np.zeros(3, np.bool_), out=out)
        wanted = centred_cosines(rows_of(index).astype(float), queries.astype(float), present.mean(axis=0))
        wanted[:, index.missing] = 0
        np.testing.assert_allclose(out, wanted, atol=1e-5)


def test_centre_is_kept_for_the_same_indexes_and_made_anew_for_others():
    repo, user, other = (build_dense("key", unit_rows(60, 8, seed=i)) for i in range(3))

    known = joint_centre([repo, user], narrow([repo, user]))

    assert joint_centre([repo, user], narrow([repo, user])) is known
    assert joint_centre([repo, other], narrow([repo, other])) is not known
    assert joint_centre([repo], narrow([repo])) is not known


# --- a mean of its own for each script --------------------------------------------------------------------


def script_means(rows, cjk):
    """Means of other and of CJK rows, each drawn to the common one as by ten rows, in double precision."""
    rows, common = rows.astype(float), rows.astype(float).mean(axis=0)
    return [(rows[cjk == own].sum(axis=0) + 10 * common) / ((cjk == own).sum() + 10) for own in (False, True)]


def of_two_scripts(seed=0):
    """Two indexes of rows, some CJK texts and one without a vector; then all rows, scripts, presence."""
    source = np.random.default_rng(seed)
    first, second = unit_rows(150, 32, seed, offset=0.3), unit_rows(40, 32, seed + 1, offset=-0.2)
    first[7] = 0
    cjk = [source.random(150) < 0.3, source.random(40) < 0.7]
    cjk[0][7] = True
    rows, all_cjk = np.vstack([first, second]), np.concatenate(cjk)
    there = rows.any(axis=1)
    return [build_dense("key", first), build_dense("key", second)], cjk, rows, all_cjk, there


def test_rows_and_queries_lose_the_mean_of_their_own_script():
    indexes, cjk, rows, all_cjk, there = of_two_scripts()
    queries, cjk_queries = unit_rows(4, 32, seed=5, offset=0.3), [False, True, True, False]
    means = script_means(rows[there], all_cjk[there])
    own = np.where(all_cjk[:, None], means[1], means[0])

    found = applied(indexes, cjk, queries, cjk_queries)

    wanted = np.zeros((4, len(rows)))
    for number, (query, is_cjk) in enumerate(zip(queries, cjk_queries, strict=True)):
        for row in np.flatnonzero(there):
            centred = rows[row] - own[row]
            wanted[number, row] = centred @ (query - means[is_cjk]) / np.linalg.norm(centred)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("script", [False, True], ids=["other", "cjk"])
@pytest.mark.parametrize("query", [False, True], ids=["other_query", "cjk_query"])
def test_one_script_has_the_common_mean_whatever_the_query_is_in(script, query):
    rows = unit_rows(80, 16, offset=0.4)
    rows[3] = 0
    asked, index = unit_rows(2, 16, seed=1, offset=0.4), build_dense("key", rows)
    cjk = np.full(80, script)
    cjk[3] = not script  # a text without a vector is of no script

    found = applied([index], [cjk], asked, [query] * 2)

    there = rows.any(axis=1)
    wanted = centred_cosines(
        rows[there].astype(float), asked.astype(float), rows[there].astype(float).mean(axis=0)
    )
    np.testing.assert_allclose(found[:, there], wanted, atol=1e-5)
    assert not found[:, ~there].any()


def test_a_mean_of_its_own_lets_a_question_find_its_answer_in_another_script():
    # To the model CJK texts are first of all CJK; what they say is the smaller part.
    topics, cjk = unit_rows(60, 64, seed=3), np.arange(120) >= 60
    accent = 3 * unit_rows(1, 64, seed=4)
    rows = np.vstack([topics, topics + accent]) + 0.05 * unit_rows(120, 64, seed=6)
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    index, asked = build_dense("key", rows), topics.astype(np.float32)

    apart = applied([index], [cjk], asked, [False] * 60)
    together = applied([build_dense("key", rows)], [np.zeros(120, np.bool_)], asked, [False] * 60)

    def second_place(found):
        return np.mean([60 + i in np.argsort(-row)[:2] for i, row in enumerate(found)])

    assert second_place(apart) == 1
    assert second_place(together) < 0.5


def test_centred_rows_are_unit_rows_about_their_own_mean_and_zero_without_a_vector():
    indexes, cjk, rows, all_cjk, there = of_two_scripts()
    centre, numbers = joint_centre(indexes, cjk), np.array([9, 7, 0, 149, 9])
    own = np.where(all_cjk[:, None], *reversed(script_means(rows[there], all_cjk[there])))[numbers]

    found = centre.rows(0, indexes[0], numbers)

    wanted = rows[numbers] - own
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    wanted[1] = 0
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_products_of_centred_rows_and_queries_are_what_apply_writes():
    indexes, cjk, *_ = of_two_scripts()
    centre, query = joint_centre(indexes, cjk), unit_rows(1, 32, seed=5)

    found = applied(indexes, cjk, query, [True])[0, 150:]

    rows = centre.rows(1, indexes[1], np.arange(40))
    np.testing.assert_allclose(rows @ (query[0] - centre.means[1]), found, atol=1e-5)
