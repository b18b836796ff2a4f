"""Search over the maps a request sees: both indexes, all rows jointly, one total order."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st

from forged.map.chains import NO_CHAINS
from forged.map.lexical import bm25_scores, match_terms
from forged.map.packing import build_dense
from forged.map.parts import MapPart, Traits
from forged.map.search import search_maps
from forged.map.vector_map import VectorMap
from forged.memory import Memory
from tests.data.maps import lexical_index, rows_of, unit_rows
from tests.faults.amount import times

WORDS = ["lint", "ruff", "test", "pytest", "socket", "daemon", "rust", "cargo", "main", "branch"]


def memory(memory_id, content, created_at=""):
    return Memory(memory_id, content, created_at, "", 1, "repo", "patterns", "s", "explicit")


def map_of(texts, rows=None, *, root="/repo", key="model", with_words=True, times=()):
    """A map of texts by id, with `rows` as vectors and `times` of creation in the order of the ids."""
    times = times or [""] * len(texts)
    memories = tuple(
        memory(memory_id, texts[memory_id], time)
        for memory_id, time in zip(sorted(texts), times, strict=True)
    )
    words = lexical_index(memories) if with_words else None
    dense = None if rows is None else build_dense(key, np.asarray(rows, np.float32))
    return VectorMap(
        root=root,
        scope="repo",
        generation=1,
        memories=memories,
        parts=(MapPart(memories, words, dense, Traits.of(memories)),),
        chains=NO_CHAINS,
    )


def numbered(count, text="", prefix="m"):
    return {f"{prefix}{i:04d}": text for i in range(count)}


def found(maps, hits):
    return [maps[hit.map_index].memories[hit.row].id for hit in hits]


def search(maps, texts, vectors=None, *, k=5, lexical_weight=0.3, **options):
    vectors = None if vectors is None else np.asarray(vectors, np.float32)
    return search_maps(maps, texts=texts, vectors=vectors, lexical_weight=lexical_weight, **options).best(k)


def cosine_search(maps, queries, k=10, **options):
    return search(maps, [], queries, k=k, lexical_weight=0, **options)


def union_of_top_k(maps, queries, k):
    """ADR-0047, word for word: each query's top k, union with the best score, sort, cap."""
    best = {}
    for query in queries:
        scored = [
            (float(query.astype(float) @ vector.astype(float)), each.id)
            for one in maps
            for each, vector in zip(one.memories, rows_of(one.parts[0].dense), strict=True)
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


_MANY = 2_013  # 64 groups of 31 rows, and 29 rows behind them


@pytest.mark.parametrize(
    "places",
    [range(10), range(0, 310, 31), range(0, 2_000, 200), range(_MANY - 10, _MANY)],
    ids=["side by side", "in one group", "anywhere", "behind the last group"],
)
def test_of_many_rows_the_best_are_those_of_a_full_sort(places):
    angles = np.full(_MANY, 1.5)
    angles[np.array(places)] = np.linspace(0.1, 1, 10)
    names = numbered(_MANY)

    hits = cosine_search(
        [map_of(names, np.stack((np.cos(angles), np.sin(angles)), axis=1), with_words=False)], [[1, 0]], 10
    )

    order = sorted(zip(angles.tolist(), sorted(names), strict=True))
    assert [hit.score for hit in hits] == pytest.approx([np.cos(angle) for angle, _ in order[:10]], abs=1e-6)
    assert [sorted(names)[hit.row] for hit in hits] == [name for _, name in order[:10]]


JUNE, AUGUST = "2023-06-15T10:00:00Z", "2023-08-15T10:00:00Z"


def test_id_in_two_maps_is_two_memories():
    repo = map_of({"same": "", "x": ""}, [[0.6, 0.8], [0, 1]])
    user = map_of({"same": "", "y": ""}, [[1, 0], [0.8, 0.6]], root="/user")

    hits = cosine_search([repo, user], [[1, 0]], k=3)

    places = [(hit.map_index, found([repo, user], [hit])[0]) for hit in hits]
    assert places == [(1, "same"), (1, "y"), (0, "same")]


def test_copies_of_all_ids_in_a_repository_hide_none_of_the_users():
    user = map_of(numbered(50), np.tile([1, 0], (50, 1)), root="/user")
    repo = map_of(numbered(50), np.tile([0, 1], (50, 1)))

    hits = cosine_search([repo, user], [[1, 0]], k=3)

    assert found([repo, user], hits) == ["m0000", "m0001", "m0002"]
    assert [hit.map_index for hit in hits] == [1, 1, 1]


@pytest.mark.parametrize("other", [{"rows": [[1, 0, 0]]}, {"rows": [[1, 0]], "key": "another model"}])
def test_vectors_of_another_model_count_as_none(other):
    repo, user = map_of({"a": "ruff"}, [[0.6, 0.8]]), map_of({"b": "ruff"}, **other)

    plain = cosine_search([repo, user], [[1, 0]], key="model")
    fused = search([repo, user], ["ruff"], [[1, 0]], k=5, key="model")

    assert found([repo, user], plain) == ["a"]
    assert {hit.cosine is None for hit in fused if hit.map_index == 1} == {True}


# --- the whole of it, one memory at a time ------------------------------------------------------------

# Times of creation: the occasion each is of, None if of none, and whether "in June 2023" or "六月" name it.
TIMES = {
    "2023-06-15T10:00:00Z": ("june", True),
    "2023-06-15T12:40:00+02:00": ("june", True),
    "2023-07-07T09:00:00Z": ("a week later", True),
    "2023-07-08T09:00:00Z": ("too late", False),
    "": (None, False),
}
NAMED = " in June 2023"


def deviations(values, present):
    """Values in deviations from the mean of those that are present; 0 for the others."""
    known = [value for value, there in zip(values, present, strict=True) if there]
    mean, deviation = np.mean(known), np.std(known)
    return [
        (value - mean) / deviation if there and deviation > 1e-6 else 0.0
        for value, there in zip(values, present, strict=True)
    ]


def is_wide(text):
    return sum("\u4e00" <= character <= "\u9fff" for character in text) > 0.2 * len(text)


def centred(rows, scripts, vectors, asked_scripts):
    """Unit rows and queries without the mean of their script; as they are when there are fewer than 50."""
    there = [row.any() for row in rows]
    if sum(there) < 50:
        return rows, vectors
    common = np.mean(rows[there], axis=0)
    means = {}
    for script in {s for s, known in zip(scripts, there, strict=True) if known}:
        own = [row for row, s, known in zip(rows, scripts, there, strict=True) if known and s == script]
        means[script] = (np.sum(own, axis=0) + 10 * common) / (len(own) + 10)
    if len(means) == 1:
        means = {True: common, False: common}
    moved = [row - means[s] if known else row for row, s, known in zip(rows, scripts, there, strict=True)]
    moved = [row / (np.linalg.norm(row) or 1) for row in moved]
    return np.array(moved), np.array([v - means[s] for v, s in zip(vectors, asked_scripts, strict=True)])


class UndecidedError(Exception):
    """Which of two is nearer cannot be said in single precision."""


def over_neighbours(scores, rows):
    """Each candidate with 0.4 of the weighted mean of its five nearest others, over 1.4."""
    result = []
    for i, score in enumerate(scores):
        near = sorted(((max(0, row @ rows[i]), j) for j, row in enumerate(rows) if j != i), reverse=True)
        if len(near) > 5 and 0 < near[4][0] < near[5][0] + 1e-5:
            raise UndecidedError
        near = near[:5]
        total = sum(weight for weight, _ in near)
        mean = sum(weight * scores[j] for weight, j in near) / total if total > 1e-6 else score
        result.append((score + 0.4 * mean) / 1.4)
    return result


def over_occasions(scores, occasions):
    """Each candidate with 0.3 of the best of its occasion, over 1.3."""
    return [
        (score + 0.3 * max(other for other, its in zip(scores, occasions, strict=True) if its == own)) / 1.3
        for score, own in zip(scores, occasions, strict=True)
    ]


def ranking_by_hand(maps, texts, vectors, *, message=None, candidates=10**9):
    """Score by (map, row) of all that is found, in double precision; no two equal rows, please."""
    places = [(i, row) for i, each in enumerate(maps) for row in range(len(each))]
    memories = [maps[i].memories[row] for i, row in places]
    raw = np.vstack([rows_of(each.parts[0].dense) for each in maps]).astype(float)
    words = np.hstack(bm25_scores(match_terms([each.parts[0].lexical for each in maps], texts))).astype(float)
    scripts, asked_scripts = [is_wide(m.content) for m in memories], [is_wide(text) for text in texts]
    rows, moved = centred(raw, scripts, vectors.astype(float), asked_scripts)
    there = [row.any() for row in raw]
    fused = []
    for query, (text, vector) in enumerate(zip(texts, moved, strict=True)):
        cosines = deviations([row @ vector for row in rows], there)
        nearest = max(0, *cosines)
        cosines = [
            cosine if known else nearest * share
            for cosine, known, share in zip(cosines, there, words[query], strict=True)
        ]
        matches = deviations(words[query], [True] * len(rows))
        named = [NAMED in text and TIMES[m.created_at][1] for m in memories]
        fused.append([c + 0.3 * w + n for c, w, n in zip(cosines, matches, named, strict=True)])
    best = [max(column) for column in zip(*fused, strict=True)]
    if message is not None:
        best = [(score + own) / 2 for score, own in zip(best, fused[message], strict=True)]
    found = [i for i in range(len(best)) if there[i] or words[:, i].any()]
    found = sorted(found, key=lambda i: -best[i])[:candidates]
    sizes = Counter((places[i][0], TIMES[memories[i].created_at][0]) for i in range(len(best)))
    occasions = []
    for i in found:
        own = (places[i][0], TIMES[memories[i].created_at][0])
        occasions.append(own if own[1] and sizes[own] <= 50 else places[i])
    smooth = over_neighbours([best[i] for i in found], rows[found])
    return dict(zip((places[i] for i in found), over_occasions(smooth, occasions), strict=True))


def by_place(hits):
    return {(hit.map_index, hit.row): hit.score for hit in hits}


def assert_scores(hits, wanted):
    found = by_place(hits)
    assert set(found) == set(wanted)
    np.testing.assert_allclose([found[place] for place in wanted], list(wanted.values()), atol=1e-3)


@given(st.data(), st.integers(0, 80), st.integers(1, 30), st.integers(1, 4), st.integers(0, 99))
@settings(
    deadline=None,
    max_examples=times(60, 15),
    phases=(Phase.explicit, Phase.generate),  # shrinking takes minutes
)
def test_ranking_is_the_whole_formula(data, repo, user, queries, seed):
    texts = st.lists(st.sampled_from([*WORDS, "编程语言", "测试脚本"]), max_size=5).map(" ".join)
    maps = []
    for count, prefix, offset in ((repo, "r", 0.4), (user, "u", 0.1)):
        rows = unit_rows(count, 12, seed + ord(prefix)) + offset
        rows[data.draw(st.lists(st.integers(0, count - 1), max_size=3)) if count else []] = 0
        times = data.draw(st.lists(st.sampled_from(list(TIMES)), min_size=count, max_size=count))
        contents = {i: data.draw(texts) for i in numbered(count, prefix=prefix)}
        maps.append(map_of(contents, rows, times=times))
    asked = [data.draw(texts) + data.draw(st.sampled_from(["", NAMED])) for _ in range(queries)]
    vectors = unit_rows(queries, 12, seed + 1)
    message = data.draw(st.none() | st.integers(0, queries - 1))
    if not any(each.parts[0].dense.vector_count for each in maps):
        return

    hits = search(maps, asked, vectors, k=500, message=message)

    try:
        wanted = ranking_by_hand(maps, asked, vectors, message=message)
    except UndecidedError:
        reject()
    assert_scores(hits, wanted)


def big_store(seed=0, count=300):
    """Two maps with a bit of everything, and four queries."""
    source, maps = np.random.default_rng(seed), []
    for prefix, size in (("r", count), ("u", count // 5)):
        contents = [" ".join(source.choice(WORDS, 4)) for _ in range(size)]
        times = [list(TIMES)[i] for i in source.choice(len(TIMES), size, p=[0.05, 0.05, 0.05, 0.05, 0.8])]
        rows = unit_rows(size, 24, seed + ord(prefix)) + 0.3
        maps.append(
            map_of(dict(zip(numbered(size, prefix=prefix), contents, strict=True)), rows, times=times)
        )
    return maps, ["ruff daemon", "pytest", "cargo main" + NAMED, "socket"], unit_rows(4, 24, seed + 1)


@pytest.mark.parametrize(
    ("k", "candidates"), [(1, 64), (10, 64), (32, 64), (33, 66), (100, 200), (500, 1000)]
)
def test_the_best_64_are_smoothed_or_twice_as_many_as_are_wanted(k, candidates):
    maps, texts, vectors = big_store()
    wanted = ranking_by_hand(maps, texts, vectors, message=2, candidates=candidates)

    hits = search(maps, texts, vectors, k=k, message=2)

    first = sorted(wanted, key=wanted.get, reverse=True)[:k]
    assert [(hit.map_index, hit.row) for hit in hits] == first
    np.testing.assert_allclose([hit.score for hit in hits], [wanted[place] for place in first], atol=1e-3)


@pytest.mark.parametrize("vectors", [True, False], ids=["with_vectors", "words_only"])
def test_ranking_does_not_depend_on_where_rows_lie(vectors):
    texts = [f"{WORDS[i % 7]} {WORDS[i % 4]}" for i in range(150)]
    rows, asked = np.repeat(unit_rows(75, 384, 1), 2, axis=0) + 0.1, unit_rows(2, 384, 2)
    asked = asked if vectors else None
    times = [list(TIMES)[i % 5] for i in range(150)]
    query = {"texts": ["ruff" + NAMED, "pytest"], "vectors": asked, "k": 150}

    def scored(order):
        place = {f"m{i:03}": original for i, original in enumerate(order)}
        one = map_of(
            {name: texts[original] for name, original in place.items()},
            rows[order],
            times=[times[original] for original in order],
        )
        return {place[found([one], [hit])[0]]: hit.score for hit in search([one], **query, message=0)}

    here, elsewhere = scored(list(range(150))), scored(np.random.default_rng(3).permutation(150).tolist())

    assert here.keys() == elsewhere.keys()
    assert [elsewhere[i] for i in here] == pytest.approx(list(here.values()), abs=1e-4)


def test_a_memory_without_a_vector_ranks_before_strangers_and_behind_what_answers_in_both_ways():
    """Its vector is unknown, which is not the same as being about something else."""
    texts = numbered(60, "a stranger") | {"m0007": "ruff lint daemon", "m0008": "ruff lint daemon socket"}
    rows = unit_rows(60, 16)
    rows[8], rows[7] = unit_rows(1, 16, seed=5)[0], 0
    strangers = rows[9:] @ rows[8]
    assert strangers.max() > 0.4  # by chance near
    one = map_of(texts, rows)

    hits = search([one], ["ruff lint daemon socket"], rows[8:9], k=3, lexical_weight=0.1)

    assert found([one], hits)[:2] == ["m0008", "m0007"]


def test_a_single_common_word_does_not_carry_a_memory_without_a_vector_to_the_top():
    texts = numbered(60, "a stranger") | {"m0007": "socket of another kind", "m0008": "ruff lint daemon"}
    rows = unit_rows(60, 16)
    rows[8], rows[7] = unit_rows(1, 16, seed=5)[0], 0
    one = map_of(texts, rows)

    hits = search([one], ["ruff lint daemon socket"], rows[8:9], k=3, lexical_weight=0.1)

    assert found([one], hits)[0] == "m0008"


def test_equal_rows_leave_the_decision_to_the_words():
    one = map_of({"a": "pytest", "b": "ruff", "c": "cargo"}, [[1, 0]] * 3)

    hits = search([one], ["ruff"], [[0.6, 0.8]], k=3)

    assert found([one], hits) == ["b", "a", "c"]
    assert hits[1].score == hits[2].score


def test_words_that_match_everything_leave_the_decision_to_the_vectors():
    one = map_of({"a": "ruff", "b": "ruff"}, [[0, 1], [1, 0]])

    hits = search([one], ["ruff"], [[1, 0]], k=3, lexical_weight=2)

    assert found([one], hits) == ["b", "a"]
    assert [hit.score for hit in hits] == [pytest.approx(1), pytest.approx(-1)]


def recall_of_targets(maps, texts, vectors, find):
    """Share of the queries whose own repo memory is among the ten found."""
    hits = [find(maps, [text], vector[None]) for text, vector in zip(texts, vectors, strict=True)]
    return np.mean([any((hit.map_index, hit.row) == (0, i) for hit in each) for i, each in enumerate(hits)])


def jointly(maps, texts, vectors):
    return search(maps, texts, vectors, k=10)


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


def crowded(seed):
    """A repo, a small map about something else, and noisy questions about each memory of the repo."""
    # As models do it: all texts in one cone, and what has nothing to do with the repo in another corner.
    cone, corner = unit_rows(2, 64, seed)
    targets = noisy(cone + unit_rows(254, 64, seed + 1), 0.1, seed + 2)
    others = noisy(cone + corner + np.zeros((60, 64)), 0.8, seed + 3)
    words = [f"subject{i % 5} detail{i % 7}" for i in range(254)]
    repo = map_of(dict(zip(numbered(254), words, strict=True)), targets)
    user = map_of(numbered(60, "habit", prefix="u"), others, root="/user")
    return [repo, user], [f"subject{i % 5}" for i in range(254)], noisy(targets, 3, seed + 4)


def intruders(maps, asked, vectors, find):
    """How many of the ten found are of the other map, on average."""
    hits = [find(maps, [text], vector[None]) for text, vector in zip(asked, vectors, strict=True)]
    return np.mean([sum(hit.map_index == 1 for hit in each) for each in hits])


@pytest.mark.long
def test_small_unrelated_map_does_not_crowd_out_the_repo():
    # Recall of one draw moves by a hundredth either way, so three of them; what intrudes tells more.
    draws = [crowded(seed) for seed in (1, 11, 21)]

    alone = np.mean([recall_of_targets(maps[:1], *asked, jointly) for maps, *asked in draws])
    together = np.mean([recall_of_targets(maps, *asked, jointly) for maps, *asked in draws])
    jointly_seen, apart = (
        np.mean([intruders(maps, *asked, find) for maps, *asked in draws]) for find in (jointly, map_by_map)
    )

    assert 0.5 < alone < 0.95
    assert together > alone - 0.02
    assert jointly_seen < 0.4
    assert apart > 1.5 * jointly_seen


def test_long_query_does_not_outweigh_a_short_one():
    one = map_of({"a": "ruff lint", "b": "pytest", "c": "socket daemon"})
    asked = ["ruff", "pytest rust cargo main branch socket"]

    hits = search([one], asked)

    assert found([one], hits)[0] in {"a", "b"}
    assert next(hit.score for hit in hits if found([one], [hit]) == ["a"]) > 0.3


# --- times that are named, the message, occasions -----------------------------------------------------


@pytest.mark.parametrize("with_vectors", [True, False], ids=["with_vectors", "words_only"])
def test_a_memory_of_a_named_time_comes_first(with_vectors):
    texts = {"a": "ruff", "b": "ruff daemon socket main", "c": "ruff daemon socket", "d": "cargo"}
    one = map_of(texts, np.repeat([[0.6, 0.8]], 4, axis=0), times=[AUGUST, JUNE, AUGUST, AUGUST])
    vectors = np.array([[1, 0]], np.float32) if with_vectors else None

    def first(text):
        return found([one], search([one], [text], vectors, k=1))

    assert first("ruff daemon socket") == ["c"]
    assert first("ruff daemon socket in June 2023") == ["b"]


@pytest.mark.parametrize("vectors", [None, [[0.6, 0.8]]], ids=["words_only", "with_vectors"])
def test_a_named_time_brings_in_nothing_without_vector_and_word(vectors):
    rows = None if vectors is None else [[0, 0], [1, 0], [0, 0]]
    one = map_of({"a": "cargo", "b": "ruff", "c": "ruff"}, rows, times=[JUNE] * 3)
    asked = None if vectors is None else np.array(vectors, np.float32)

    hits = search([one], ["ruff in June 2023"], asked)

    assert sorted(found([one], hits)) == ["b", "c"]


def test_a_stray_hypothesis_does_not_push_out_what_the_message_finds():
    # The stray one is far surer of itself: most rows are alike to it, and three are its very words.
    rows = np.vstack([unit_rows(60, 16, 1) * [0, *[1] * 15], np.tile([1, *[0] * 15], (3, 1))])
    aim = rows[7] + 0.8 * unit_rows(1, 16, 2)[0]
    one, vectors = map_of(numbered(63), rows), [rows[61], aim / np.linalg.norm(aim)]

    assert found([one], search([one], ["", ""], vectors, k=1, message=1)) == ["m0007"]
    assert found([one], search([one], ["", ""], vectors, k=1)) == ["m0060"]


def test_a_good_hypothesis_still_finds_what_the_message_does_not():
    rows = unit_rows(60, 16, 1)
    aim, said = rows[7], unit_rows(1, 16, 2)[0]
    said = said - (said @ aim) * aim  # nothing of the hypothesis in it
    one = map_of(numbered(60), rows)

    heard = search([one], ["", ""], [aim, said / np.linalg.norm(said)], k=10, message=1)

    assert "m0007" in found([one], heard)
    assert "m0007" not in found([one], search([one], [""], said[None], k=10))


def test_what_was_learned_with_the_best_passes_a_stranger():
    # The three words weigh alike; "c" matches a little more than "b", which was made with "a".
    texts = {"a": "ruff daemon socket", "b": "ruff daemon branch", "c": "ruff daemon main"}
    apart = map_of(texts, times=[JUNE, AUGUST, AUGUST[:5] + "09" + AUGUST[7:]])
    next_to = map_of(texts, times=[JUNE, AUGUST, JUNE])

    assert found([apart], search([apart], ["ruff daemon socket"])) == ["a", "b", "c"]
    assert found([next_to], search([next_to], ["ruff daemon socket"])) == ["a", "c", "b"]


def test_occasions_of_two_maps_are_two():
    repo = map_of({"a": "ruff daemon socket", "c": "ruff daemon branch"}, times=[JUNE, AUGUST])
    user = map_of({"b": "ruff daemon main"}, times=[JUNE], root="/user")

    hits = search([repo, user], ["ruff daemon socket"])

    assert found([repo, user], hits) == ["a", "b", "c"]
    assert hits[1].score == hits[2].score


def test_equal_scores_come_in_the_order_of_their_ids_after_all_steps():
    texts = numbered(40, "ruff daemon")
    one = map_of(texts, np.repeat(unit_rows(1, 384, 5), 40, axis=0), times=[JUNE] * 40)
    asked = unit_rows(2, 384, 6)

    hits = search([one], ["ruff in June 2023", "daemon"], asked, k=40, message=0)

    assert found([one], hits) == sorted(texts)
    assert len({hit.score for hit in hits}) == 1
