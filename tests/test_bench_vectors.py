"""Data of the engine's bench: the same every time, and as hard as documented."""

from __future__ import annotations

import docstrings
import numpy as np
import pytest
import stores
import vectors
from processes import Missing

SOURCE = np.random.default_rng(1)


def units(count: int, dimension: int = 384) -> vectors.Vectors:
    rows = SOURCE.standard_normal((count, dimension), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.long
def test_sentences_are_real_each_once_and_the_same_in_every_process():
    texts = docstrings.texts(10_500)

    assert len(set(texts)) == 10_500
    assert texts == docstrings.texts(10_500)
    assert all(30 <= len(text) <= 400 and "\n" not in text for text in texts)


@pytest.mark.long
def test_more_sentences_than_there_are_is_a_gap_and_not_a_smaller_set():
    with pytest.raises(Missing, match="not 10000000"):
        docstrings.texts(10_000_000)


def test_copies_lie_about_their_row_at_the_distance_of_its_real_neighbours():
    real = units(500)
    away = vectors.neighbour_distance(real)

    rows = vectors.noisy(real, 1_700)

    assert np.array_equal(rows[:500], real)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    copies = 1 - (rows[500:1000] * real).sum(axis=1)
    assert np.allclose(copies, away, atol=1e-3)
    assert not np.array_equal(rows[500:700], rows[1500:1700])  # each copy goes its own way
    assert np.array_equal(rows, vectors.noisy(real, 1_700))


def test_mixed_rows_have_no_other_directions_than_the_real_rows():
    real = np.zeros((300, 384), np.float32)
    real[:, :6] = units(300, 6)

    rows = vectors.mixed(real, 1_000)

    assert np.array_equal(rows[:300], real)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert not rows[:, 6:].any()
    assert (rows[300:] @ real.T).max(axis=1).min() > 0.5
    assert not np.array_equal(rows[300:600], rows[600:900])
    assert np.array_equal(rows, vectors.mixed(real, 1_000))


def test_generated_rows_crowd_about_subjects():
    rows = vectors.clustered(3_000, 64)
    best = [np.sort(similar)[-2] for similar in rows[:100] @ rows.T]

    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert 0.4 < np.median(best) < 0.9
    assert abs(float((rows @ rows[0]).mean())) < 0.2


def test_an_exact_search_finds_what_sorting_all_would():
    rows, queries = units(2_000), units(7)

    found = vectors.nearest(rows, queries, 10)

    assert np.array_equal(found, np.argsort(-(queries @ rows.T), axis=1)[:, :10])


def test_recall_is_the_share_of_the_right_rows():
    right = np.array([[1, 2], [3, 4]])

    assert vectors.recall([{1, 2}, {3, 4}], right) == 1.0
    assert vectors.recall([{1, 9}, {3, 8}], right) == 0.5


def test_a_store_gives_each_scope_its_quarter_unequal_owners_and_twenty_marked_pieces():
    store = stores.store(4_000, asked=5)

    assert [part.scope for part in store.parts] == ["session", "user", "agent", "org"]
    assert {len(part.vectors) for part in store.parts} == {1_000}
    rows = list(store.parts[-1].rows())
    assert sum(metadata == stores.RARE_FILTER for _, _, _, metadata, _ in rows) == stores.RARE
    assert len({id_ for _, id_, *_ in rows}) == 1_000
    shares = np.bincount(store.parts[1].owners)
    assert shares.max() > 3 * np.median(shares)


def test_recalls_ask_for_owners_that_have_rows_and_about_things_that_are_there():
    store = stores.store(4_000, asked=5)
    owners = {part.scope: {owner for owner, *_ in part.rows()} for part in store.parts}

    for asked in store.asked:
        assert all(owner in owners[scope] for scope, owner in asked.owners.items())
        assert 1 - (store.parts[-1].vectors @ asked.vector).max() < 0.11
