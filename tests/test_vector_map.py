"""Search over the maps a request sees: both legs, all rows jointly, one total order."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.dense import DenseLeg
from forged.graph import NO_CHAINS
from forged.lexical import matched_shares, scores, terms
from forged.memory import Memory
from forged.vector_map import LEXICAL_BONUS, VectorMap, search
from tests.support.maps import lexical_leg

WORDS = ["lint", "ruff", "test", "pytest", "socket", "daemon", "rust", "cargo", "main", "branch"]


def memory(memory_id, content):
    return Memory(memory_id, content, "", "", 1, "repo", "patterns", "s", "explicit")


def map_of(texts, rows=None, *, root="/repo", key="model", with_words=True):
    """A map of texts by id, with `rows` as vectors in the order of the ids."""
    memories = tuple(memory(memory_id, texts[memory_id]) for memory_id in sorted(texts))
    return VectorMap(
        root=root,
        scope="repo",
        generation=1,
        memories=memories,
        row_of={each.id: row for row, each in enumerate(memories)},
        lexical=lexical_leg(memories) if with_words else None,
        dense=None if rows is None else DenseLeg.build(key, np.asarray(rows, np.float32)),
        chains=NO_CHAINS,
    )


def numbered(count, text="", prefix="m"):
    return {f"{prefix}{i:04d}": text for i in range(count)}


def unit_rows(n, d, seed=0):
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def found(maps, hits):
    return [maps[hit.map_index].memories[hit.row].id for hit in hits]


def cosine_search(maps, queries, k=10, **options):
    return search(maps, texts=[], vectors=np.asarray(queries, np.float32), k=k, lexical_weight=0, **options)


def union_of_top_k(maps, queries, k):
    """Design.md D10, word for word: each query's top k, union with the best score, sort, cap."""
    best = {}
    for query in queries:
        scored = [
            (float(query.astype(float) @ vector.astype(float)), each.id)
            for one in maps
            for each, vector in zip(one.memories, one.dense.rows, strict=True)
        ]
        for score, memory_id in sorted(scored, key=lambda pair: (-pair[0], pair[1]))[:k]:
            best[memory_id] = max(score, best.get(memory_id, -2))
    return sorted(((score, memory_id) for memory_id, score in best.items()), key=lambda p: (-p[0], p[1]))[:k]


@given(st.integers(1, 400), st.integers(0, 30), st.integers(1, 6), st.integers(1, 12), st.integers(0, 99))
@settings(deadline=None)
def test_one_selection_equals_the_union_of_every_querys_top_k(repo, user, queries, k, seed):
    maps = [
        map_of(numbered(repo), unit_rows(repo, 24, seed), with_words=False),
        map_of(numbered(user, prefix="u"), unit_rows(user, 24, seed + 1), with_words=False),
    ]
    asked = unit_rows(queries, 24, seed + 2)

    hits = cosine_search(maps, asked, k)

    wanted = union_of_top_k(maps, asked, k)
    assert found(maps, hits) == [memory_id for _, memory_id in wanted]
    np.testing.assert_allclose([hit.score for hit in hits], [score for score, _ in wanted], atol=1e-6)
    assert all(hit.cosine == pytest.approx(hit.score, abs=2e-6) for hit in hits)


def test_weight_zero_knows_no_words_and_no_centring():
    rows = unit_rows(100, 8) + 3
    one = map_of(numbered(100, "ruff"), rows)
    asked = unit_rows(1, 8, seed=1)

    hits = search([one], texts=["ruff"], vectors=asked, k=100, lexical_weight=0)

    np.testing.assert_allclose([h.score for h in hits], np.sort(one.dense.rows @ asked[0])[::-1], atol=1e-6)
    assert {hit.lexical for hit in hits} == {None}


def test_weight_zero_without_vectors_finds_nothing():
    one = map_of({"a": "ruff"})

    assert search([one], texts=["ruff"], vectors=None, k=5, lexical_weight=0) == []


def test_best_of_several_queries_decides():
    one = map_of({"a-weak": "", "b-strong": ""}, [[0, 1], [0.6, 0.8]])

    hits = cosine_search([one], [[1, 0], [0.8, 0.6]])

    assert [(hit.query, hit.score) for hit in hits] == [(1, pytest.approx(0.96)), (1, pytest.approx(0.6))]
    assert found([one], hits) == ["b-strong", "a-weak"]


@pytest.mark.parametrize("count", [2, 6, 17, 130])
def test_equal_memories_come_in_the_order_of_their_ids(count):
    # Many vectors, because only some of them round differently from place to place in a block.
    for seed in range(30):
        one = map_of(numbered(count), np.repeat(unit_rows(1, 384, seed), count, axis=0), with_words=False)

        hits = cosine_search([one], unit_rows(2, 384, seed=seed + 100), k=6)

        assert found([one], hits) == [f"m{i:04d}" for i in range(min(6, count))]
        assert len({hit.score for hit in hits}) == 1


def test_k_beyond_the_store_returns_all_rows_that_have_a_vector():
    one = map_of({"a": "", "b": "", "c": ""}, [[1, 0], [0, 0], [0, 1]])

    assert found([one], cosine_search([one], [[1, 0]], k=100)) == ["a", "c"]


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_returns_nothing(k):
    assert cosine_search([map_of({"a": ""}, [[1, 0]])], [[1, 0]], k=k) == []


@pytest.mark.parametrize("maps", [[], [map_of({})], [map_of({}, np.empty((0, 2)))]])
def test_nothing_visible_finds_nothing(maps):
    vectors = np.array([[1, 0]], np.float32)

    assert search(maps, texts=["ruff"], vectors=vectors, k=5, lexical_weight=0.3) == []
    assert search(maps, texts=["ruff"], vectors=None, k=5, lexical_weight=0.3) == []


def test_no_query_finds_nothing():
    one = map_of({"a": "ruff"}, [[1, 0]])

    assert search([one], texts=[], vectors=None, k=5, lexical_weight=0.3) == []
    assert cosine_search([one], np.empty((0, 2))) == []


def test_id_in_two_maps_is_the_first_maps_memory():
    repo = map_of({"same": "", "x": ""}, [[0.6, 0.8], [0, 1]])
    user = map_of({"same": "", "y": ""}, [[1, 0], [0.8, 0.6]], root="/user")

    hits = cosine_search([repo, user], [[1, 0]], k=2)

    assert [(hit.map_index, found([repo, user], [hit])[0]) for hit in hits] == [(1, "y"), (0, "same")]


def test_shadowed_memories_do_not_use_up_the_k():
    user_rows = np.tile([1, 0], (50, 1))
    repo = map_of(numbered(50), np.tile([0, 1], (50, 1)))
    user = map_of({**numbered(50), "own": ""}, np.vstack([user_rows, [[0.6, 0.8]]]), root="/user")

    hits = cosine_search([repo, user], [[1, 0]], k=3)

    assert found([repo, user], hits) == ["own", "m0000", "m0001"]
    assert [hit.map_index for hit in hits] == [1, 0, 0]


def test_equal_scores_of_two_maps_come_in_the_order_of_their_ids():
    repo, user = map_of({"b": "", "d": ""}, [[1, 0]] * 2), map_of({"a": "", "c": ""}, [[1, 0]] * 2)

    assert found([repo, user], cosine_search([repo, user], [[1, 0]])) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("other", [{"rows": [[1, 0, 0]]}, {"rows": [[1, 0]], "key": "another model"}])
def test_vectors_of_another_model_count_as_none(other):
    repo, user = map_of({"a": "ruff"}, [[0.6, 0.8]]), map_of({"b": "ruff"}, **other)

    plain = cosine_search([repo, user], [[1, 0]], key="model")
    fused = search(
        [repo, user],
        texts=["ruff"],
        vectors=np.array([[1, 0]], np.float32),
        k=5,
        lexical_weight=0.3,
        key="model",
    )

    assert found([repo, user], plain) == ["a"]
    assert {hit.cosine is None for hit in fused if hit.map_index == 1} == {True}


def standardised(values, present):
    values = np.where(present, values, 0.0)
    mean = values[:, present].mean(axis=1, keepdims=True)
    deviation = values[:, present].std(axis=1, keepdims=True)
    result = (values - mean) / np.where(deviation > 1e-6, deviation, np.inf)
    result[:, ~present] = 0
    return result


def fused_by_hand(maps, texts, vectors, weight):
    """Design.md D18 in double precision with whole matrices: (queries, rows), -inf for no candidate."""
    rows = np.vstack([each.dense.rows for each in maps]).astype(float)
    present = rows.any(axis=1)
    if present.sum() >= 50:
        mean = rows[present].mean(axis=0)
        rows, vectors = rows - mean, vectors - mean
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    words = scores([each.lexical for each in maps], [terms(text) for text in texts]).astype(float)
    fused = standardised(vectors @ rows.T, present)
    fused += weight * standardised(words, np.ones(len(rows), bool))
    fused[:, ~present] = np.where(words[:, ~present] > 0, fused[:, ~present], -np.inf)
    return fused


@given(st.data(), st.integers(0, 80), st.integers(1, 30), st.integers(1, 4), st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_fused_scores_are_the_sum_of_standardised_legs(data, repo, user, queries, seed):
    texts = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
    maps = []
    for count, prefix, offset in ((repo, "r", 0.4), (user, "u", 0.1)):
        rows = unit_rows(count, 12, seed) + offset
        rows[data.draw(st.lists(st.integers(0, count - 1), max_size=3)) if count else []] = 0
        maps.append(map_of({i: data.draw(texts) for i in numbered(count, prefix=prefix)}, rows))
    asked = [data.draw(texts) for _ in range(queries)]
    vectors = unit_rows(queries, 12, seed + 1)

    hits = search(maps, texts=asked, vectors=vectors, k=500, lexical_weight=0.3)

    if not any(each.dense.present for each in maps):
        return
    best = fused_by_hand(maps, asked, vectors.astype(float), 0.3).max(axis=0)
    wanted = {divmod_row(maps, column): score for column, score in enumerate(best) if score > -np.inf}
    assert {(hit.map_index, hit.row) for hit in hits} == set(wanted)
    for hit in hits:
        assert hit.score == pytest.approx(wanted[hit.map_index, hit.row], abs=2e-4)


def divmod_row(maps, column):
    return (0, column) if column < len(maps[0]) else (1, column - len(maps[0]))


def test_row_without_vector_and_without_matching_word_is_no_candidate():
    one = map_of({"a": "ruff", "b": "ruff", "c": "pytest"}, [[1, 0], [0, 0], [0, 0]])

    hits = search([one], texts=["ruff"], vectors=np.array([[1, 0]], np.float32), k=5, lexical_weight=0.3)

    assert sorted(found([one], hits)) == ["a", "b"]
    assert [hit.cosine for hit in sorted(hits, key=lambda hit: hit.row)] == [pytest.approx(1), None]


def test_equal_rows_leave_the_decision_to_the_words():
    one = map_of({"a": "pytest", "b": "ruff", "c": "cargo"}, [[1, 0]] * 3)

    hits = search([one], texts=["ruff"], vectors=np.array([[0.6, 0.8]], np.float32), k=3, lexical_weight=0.3)

    assert found([one], hits) == ["b", "a", "c"]
    assert hits[1].score == hits[2].score


def test_words_that_match_everything_leave_the_decision_to_the_vectors():
    one = map_of({"a": "ruff", "b": "ruff"}, [[0, 1], [1, 0]])

    hits = search([one], texts=["ruff"], vectors=np.array([[1, 0]], np.float32), k=3, lexical_weight=2)

    assert found([one], hits) == ["b", "a"]
    assert [hit.score for hit in hits] == [pytest.approx(1), pytest.approx(-1)]


def test_texts_and_vectors_of_different_number_are_refused():
    one = map_of({"a": "ruff"}, [[1, 0]])

    with pytest.raises(ValueError, match="2 texts, but 1 vectors"):
        search([one], texts=["a", "b"], vectors=np.array([[1, 0]], np.float32), k=1, lexical_weight=0.3)


def recall_of_targets(maps, texts, vectors, find):
    """Share of the queries whose own repo memory is among the ten found."""
    hits = [find(maps, [text], vector[None]) for text, vector in zip(texts, vectors, strict=True)]
    return np.mean([any((hit.map_index, hit.row) == (0, i) for hit in each) for i, each in enumerate(hits)])


def jointly(maps, texts, vectors):
    return search(maps, texts=texts, vectors=vectors, k=10, lexical_weight=0.3)


def map_by_map(maps, texts, vectors):
    """The rejected way: each map by its own mean and deviation."""
    apart = [
        msgspec.structs.replace(hit, map_index=i)
        for i, each in enumerate(maps)
        for hit in jointly([each], texts, vectors)
    ]
    return sorted(apart, key=lambda hit: -hit.score)[:10]


def noisy(rows, amount, seed):
    rows = rows + amount * unit_rows(len(rows), rows.shape[1], seed)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_small_unrelated_map_does_not_crowd_out_the_repo():
    # As models do it: all texts in one cone, and what has nothing to do with the repo in another corner.
    cone, corner = unit_rows(2, 64, seed=1)
    targets = noisy(cone + unit_rows(254, 64, seed=2), 0.1, seed=3)
    others = noisy(cone + corner + np.zeros((60, 64)), 0.8, seed=4)
    words = [f"subject{i % 5} detail{i % 7}" for i in range(254)]
    repo = map_of(dict(zip(numbered(254), words, strict=True)), targets)
    user = map_of(numbered(60, "habit", prefix="u"), others, root="/user")
    asked, vectors = [f"subject{i % 5}" for i in range(254)], noisy(targets, 3, seed=5)

    alone = recall_of_targets([repo], asked, vectors, jointly)
    together = recall_of_targets([repo, user], asked, vectors, jointly)

    assert 0.5 < alone < 0.95
    assert together > alone - 0.005
    assert recall_of_targets([repo, user], asked, vectors, map_by_map) < alone - 0.02


def test_without_vectors_the_words_rank_alone():
    one = map_of({"a": "pytest socket", "b": "ruff and socket", "c": "daemon"})

    hits = search([one], texts=["ruff socket"], vectors=None, k=5, lexical_weight=0.3)

    assert found([one], hits) == ["b", "a"]
    assert hits[0].score == hits[0].lexical > 0
    assert hits[0].cosine is None


def test_vectors_do_not_help_before_a_dense_leg_is_built():
    one = map_of({"a": "pytest", "b": "ruff"})

    hits = search([one], texts=["ruff"], vectors=np.array([[1, 0]], np.float32), k=5, lexical_weight=0.3)

    assert found([one], hits) == ["b"]


def test_long_query_does_not_outweigh_a_short_one():
    one = map_of({"a": "ruff lint", "b": "pytest", "c": "socket daemon"})
    asked = ["ruff", "pytest rust cargo main branch socket"]

    hits = search([one], texts=asked, vectors=None, k=5, lexical_weight=0.3)

    assert found([one], hits)[0] in {"a", "b"}
    assert {found([one], [hit])[0]: hit.query for hit in hits} == {"a": 0, "b": 1, "c": 1}
    assert max(hits, key=lambda hit: hit.query == 0).score > 0.3


def test_map_without_words_does_not_stop_the_others():
    one, other = map_of({"a": "ruff"}), map_of({"b": "ruff"}, with_words=False)

    hits = search([one, other], texts=["ruff"], vectors=None, k=5, lexical_weight=0.3)

    assert found([one, other], hits) == ["a"]


def test_min_score_gates_on_the_raw_cosine():
    one = map_of({"far": "", "near": ""}, [[0.6, 0.8], [0.8, 0.6]])

    assert found([one], cosine_search([one], [[1, 0]], min_score=0.7)) == ["near"]
    assert found([one], cosine_search([one], [[1, 0]], min_score=0.8)) == ["near"]


def test_matching_word_lifts_a_cosine_over_the_gate():
    one = map_of({"a": "ruff", "b": "cargo"}, [[0.6, 0.8], [0.6, 0.8]])
    query = {"texts": ["ruff"], "vectors": np.array([[1, 0]], np.float32), "k": 5, "lexical_weight": 0.3}

    assert found([one], search([one], **query, min_score=0.6 + LEXICAL_BONUS)) == ["a"]
    assert search([one], **query, min_score=0.61 + LEXICAL_BONUS) == []


def test_min_score_without_vectors_gates_on_the_share_of_rare_terms():
    one = map_of({"all": "ruff daemon", "half": "ruff", "other": "pytest"})
    query = {"texts": ["ruff daemon"], "vectors": None, "k": 5, "lexical_weight": 0.3}
    (shares,) = matched_shares([one.lexical], [terms("ruff daemon")])

    assert found([one], search([one], **query, min_score=1.0)) == ["all"]
    assert found([one], search([one], **query, min_score=float(shares[1]))) == ["all", "half"]


def test_row_without_vector_passes_by_its_words():
    one = map_of({"a": "ruff", "b": "ruff daemon"}, [[0, 0], [0.6, 0.8]])
    query = {"texts": ["ruff"], "vectors": np.array([[1, 0]], np.float32), "k": 5, "lexical_weight": 0.3}

    assert found([one], search([one], **query, min_score=0.9)) == ["a"]


def test_gate_comes_before_the_cap():
    one = map_of({"a": "ruff", "b": ""}, [[0.6, 0.8], [0.8, 0.6]])
    query = {"texts": ["ruff"], "vectors": np.array([[1, 0]], np.float32), "k": 1, "lexical_weight": 2}

    assert found([one], search([one], **query)) == ["a"]
    assert found([one], search([one], **query, min_score=0.7)) == ["b"]
