"""The lexical leg: what counts as a term, what an edit may touch, and how words are scored."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.lexical import LexicalLeg, matched_shares, scores, terms

ARRAYS = ("terms", "offsets", "rows", "counts", "lengths")


def term_set(text):
    return set(terms(text).tolist())


def leg_of(*texts):
    return LexicalLeg.build([terms(text) for text in texts])


def ranked(texts, query):
    (row,) = scores([leg_of(*texts)], [terms(query)])
    return [i for i in np.argsort(-row, kind="stable").tolist() if row[i] > 0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Tests", "testing"),
        ("She went home", "go home"),
        ("Caroline’s children", "caroline child"),
        ("naïve CAFÉ", "naïve café"),
        ("cafe\u0301", "café"),
        ("ＦＵＬＬ", "full"),
        ("foo_bar", "fooBar"),
        ("foo-bar", "FooBar"),
        ("`errors.As`!", "(errors.as)"),
        ("don't we'll it's", ""),
    ],
)
def test_texts_that_say_the_same_have_the_same_terms(one, other):
    assert term_set(one) == term_set(other)


@pytest.mark.parametrize(
    ("identifier", "query"),
    [
        ("errors.As", "errors"),
        ("errors.As", "errors.as"),
        ("fooBar_baz", "foo"),
        ("fooBar_baz", "bar"),
        ("fooBar_baz", "baz"),
        ("fooBar_baz", "foobar_baz"),
        ("HTTPServer", "http"),
        ("HTTPServer", "server"),
        ("APIs", "api"),
        ("sha256", "SHA-256"),
        ("__init__", "init"),
        ("Python 3.12", "3.12"),
        ("2023-05-07", "2023"),
        ("C++", "c++"),
        ("Größe_neu", "größe"),
    ],
)
def test_identifier_is_found_by_its_parts_and_whole(identifier, query):
    assert term_set(query)
    assert term_set(query) & term_set(identifier)


def test_whole_identifier_ranks_before_its_scattered_parts():
    texts = ["The errors of others, as such", "Wrap it with errors.As", "nothing here"]

    assert ranked(texts, "errors.As")[0] == 1


def test_version_numbers_are_not_glued_together():
    assert not term_set("3.1") & term_set("31")


@pytest.mark.parametrize(
    ("memory", "query"),
    [
        ("我喜欢用 Python 编程", "编程语言"),
        ("東京タワーに行きました", "タワー"),
        ("프로젝트에서 한국어를 사용", "한국어"),
        ("猫", "猫"),
        ("ภาษาไทยง่าย", "ภาษา"),
        ("हिन्दी भाषा।", "भाषा"),
    ],
)
def test_scripts_without_spaces_are_found_by_part_of_a_run(memory, query):
    assert term_set(query) & term_set(memory)


def test_chinese_pairs_do_not_match_a_text_with_other_neighbours():
    assert not term_set("编程") & term_set("程编")


def test_a_latin_word_inside_chinese_is_a_word():
    assert term_set("python") <= term_set("我喜欢python编程")


def test_stop_words_are_no_terms():
    assert not len(terms("What is it that you would have of them?"))


@pytest.mark.parametrize("text", ["", " \n", "!?", "\ud800", "…—«»", "\x00"])
def test_text_without_words_has_no_terms(text):
    assert not len(terms(text))


def test_long_run_without_spaces_is_cut_into_terms():
    assert 0 < len(terms("x" * 10_000)) < 1000


@given(st.text())
def test_any_text_has_terms_of_one_type(text):
    assert terms(text).dtype == np.uint32


SAMPLE = "fooBar_baz errors.As 我喜欢编程 she went to C++ naïve cafés 3.12 Größe " * 3


def test_terms_do_not_depend_on_the_hash_seed():
    code = (
        "import hashlib, sys; from forged.lexical import terms; "
        "print(hashlib.sha256(terms(sys.argv[1]).tobytes()).hexdigest())"
    )
    here = hashlib.sha256(terms(SAMPLE).tobytes()).hexdigest()

    for seed in ("1", "2"):
        env = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONUTF8": "1",
        }
        done = subprocess.run([sys.executable, "-c", code, SAMPLE], env=env, capture_output=True, text=True)
        assert done.stdout.strip() == here, done.stderr


def test_threads_agree_on_terms():
    texts = [f"word{i}s running-{i} went{i} Sätze{i}" for i in range(400)]
    alone = [terms(text).tolist() for text in texts]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda text: terms(text).tolist(), texts * 3))

    assert together == alone * 3


WORDS = ["lint", "ruff", "test", "pytest", "socket", "daemon", "rust", "cargo", "main", "branch"]
DOCS = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), max_size=12)


@st.composite
def edits(draw):
    """Old texts by id, and new ones: some removed, some changed, some added."""
    ids = st.integers(0, 30)
    texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
    old = draw(st.dictionaries(ids, texts, max_size=15))
    kept = {i: text for i, text in old.items() if draw(st.booleans())}
    return old, {**kept, **draw(st.dictionaries(ids, texts, max_size=6))}


@given(edits())
@settings(max_examples=200)
def test_spliced_leg_equals_one_built_from_scratch(edit):
    old, new = edit
    old_ids, new_ids = sorted(old), sorted(new)
    kept = [i for i in new_ids if old.get(i) == new[i]]
    added = [i for i in new_ids if i not in kept]

    spliced = leg_of(*(old[i] for i in old_ids)).splice(
        kept_old=np.array([old_ids.index(i) for i in kept], np.int32),
        kept_new=np.array([new_ids.index(i) for i in kept], np.int32),
        added_new=np.array([new_ids.index(i) for i in added], np.int32),
        added=[terms(new[i]) for i in added],
        size=len(new),
    )

    built = leg_of(*(new[i] for i in new_ids))
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(spliced, name), getattr(built, name), err_msg=name)
        assert getattr(spliced, name).dtype == getattr(built, name).dtype


def test_splice_leaves_the_old_leg_alone():
    leg = leg_of("ruff lints", "pytest tests")
    before = [getattr(leg, name).copy() for name in ARRAYS]

    leg.splice(
        kept_old=np.array([1], np.int32),
        kept_new=np.array([0], np.int32),
        added_new=np.array([1], np.int32),
        added=[terms("cargo tests")],
        size=2,
    )

    for name, array in zip(ARRAYS, before, strict=True):
        np.testing.assert_array_equal(getattr(leg, name), array)


def test_a_word_repeated_without_end_is_counted_up_to_255():
    leg = leg_of("ruff " * 1000)

    assert leg.counts.tolist() == [255]
    assert leg.lengths.tolist() == [1000]


def bm25(texts, query, k1=1.2, b=0.75):
    """The textbook formula, one memory and one term at a time, over the weight of the known terms."""
    docs = [terms(text).tolist() for text in texts]
    average = max(1.0, sum(map(len, docs)) / max(1, len(docs)))
    result, best = [0.0] * len(docs), 0.0
    for term in set(terms(query).tolist()):
        holders = [doc for doc in docs if term in doc]
        idf = math.log(1 + (len(docs) - len(holders) + 0.5) / (len(holders) + 0.5))
        best += idf if holders else 0
        for i, doc in enumerate(docs):
            tf = doc.count(term)
            result[i] += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(doc) / average))
    return [value / (best or 1) for value in result]


@given(DOCS, st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=5).map(" ".join))
def test_scores_are_the_textbook_formula(texts, query):
    (row,) = scores([leg_of(*texts)], [terms(query)])

    np.testing.assert_allclose(row, bm25(texts, query), rtol=1e-5, atol=1e-6)


@given(DOCS, DOCS, st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join))
def test_legs_are_scored_as_if_they_were_one(first, second, query):
    apart = scores([leg_of(*first), leg_of(*second)], [terms(query)])
    together = scores([leg_of(*first, *second)], [terms(query)])

    np.testing.assert_allclose(apart, together, rtol=1e-5, atol=1e-6)


@given(DOCS, st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), min_size=1, max_size=4))
def test_queries_do_not_influence_one_another(texts, queries):
    leg = leg_of(*texts)
    together = scores([leg], [terms(query) for query in queries])

    for row, query in zip(together, queries, strict=True):
        np.testing.assert_allclose(row, scores([leg], [terms(query)])[0], rtol=1e-6)


def test_no_memories_or_no_words_score_nothing():
    assert scores([leg_of()], [terms("ruff")]).shape == (1, 0)
    assert scores([leg_of("ruff")], [terms("")]).tolist() == [[0.0]]
    assert scores([LexicalLeg.empty(2)], [terms("ruff")]).tolist() == [[0.0, 0.0]]


def test_share_counts_rare_terms_more_and_unknown_ones_most():
    texts = ["ruff daemon", "ruff", "ruff", "ruff", "nothing"]
    leg = leg_of(*texts)

    common, rare = matched_shares([leg], [terms("ruff daemon")])[0][[1, 0]]
    (with_unknown,) = matched_shares([leg], [terms("ruff daemon zebra")])

    assert 0 < common < 0.5
    assert rare == pytest.approx(1)
    assert 0 < with_unknown[0] < 0.7
    assert with_unknown[4] == 0
