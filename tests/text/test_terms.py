"""Terms of a text: stems, parts of identifiers, pairs of characters, and prefixes."""

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

from forged.text.terms import are_stems, names, terms


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


# --- any text -------------------------------------------------------------------------------------------


@given(st.text())
@settings(deadline=None)
def test_any_text_has_terms_of_one_type(text):
    assert terms(text).dtype == np.uint32


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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What did Tomas Berg say?", ["Tomas", "Berg"]),
        ("Tomas said so. Then Priya left: RabbitMQ is down", ["Priya", "RabbitMQ"]),
        ("Ask Lena whether GitHub is up on Monday", ["Lena", "GitHub"]),
        ("Was sagt Tomas Berg zur Erstattung und wer ist das?", ["Tomas", "Berg"]),
        ("その件は Kafka と MongoDB ですか", ["Kafka", "MongoDB"]),
        ("APIs, TODOs, the README of src/Main.java and foo.Bar or Foo()", []),
        ("Review All Open Pull Requests Today", []),
        ("", []),
    ],
)
def test_names_are_the_large_words_of_prose(text, found):
    assert names(text) == found


@given(st.text())
def test_any_text_may_be_looked_at_for_names(text):
    assert all(each in text for each in names(text))
