"""What counts as a term: stems, parts of identifiers, pairs of characters, and beginnings of words."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.text.terms import are_stems, terms


def term_set(text):
    return set(terms(text).tolist())


def stems(text):
    found = terms(text)
    return set(found[are_stems(found)].tolist())


def beginnings(text):
    return term_set(text) - stems(text)


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
    assert stems(query)
    assert stems(query) & stems(identifier)


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


# --- beginnings of words --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"), [("dancer", "dance"), ("config", "configuration"), ("mentorship", "Mentor")]
)
def test_words_without_a_common_stem_meet_in_their_beginning(one, other):
    assert not stems(one) & stems(other)
    assert beginnings(one) & beginnings(other)


def test_a_beginning_is_four_letters():
    assert beginnings("dance") == beginnings("dancing") == beginnings("dancehall")
    assert not beginnings("dance") & beginnings("dandelion")


def test_a_word_that_is_its_own_beginning_has_both_kinds():
    assert (len(stems("ruff")), len(beginnings("ruff"))) == (1, 1)
    assert beginnings("ruff") == beginnings("ruffian")
    assert not stems("ruff") & term_set("ruffian")


@pytest.mark.parametrize(
    "text", ["ox cat", "sha256", "3.1415", "2023-05-07", "größe", "пример", "编程语言", "프로젝트"]
)
def test_only_words_of_four_ascii_letters_have_a_beginning(text):
    assert stems(text)
    assert not beginnings(text)


def test_a_word_said_twice_begins_twice():
    found = terms("dance dancing")

    assert np.count_nonzero(are_stems(found)) == 2
    assert len(found) == 4


def test_the_lowest_bit_tells_the_kinds_apart():
    assert are_stems(np.array([2, 3, 4, 5], np.uint32)).tolist() == [True, False, True, False]


# --- any text -------------------------------------------------------------------------------------------


@given(st.text())
@settings(deadline=None)
def test_any_text_has_terms_of_one_type(text):
    assert terms(text).dtype == np.uint32


@given(st.text(alphabet="abcdeé1_.- \n编程", max_size=40))
@settings(deadline=None)
def test_no_text_has_more_beginnings_than_stems(text):
    found = terms(text)

    assert np.count_nonzero(are_stems(found)) * 2 >= len(found)


SAMPLE = "fooBar_baz errors.As 我喜欢编程 she went to C++ naïve cafés 3.12 Größe " * 3


def test_terms_do_not_depend_on_the_hash_seed():
    code = (
        "import hashlib, sys; from forged.text.terms import terms; "
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
