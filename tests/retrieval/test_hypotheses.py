"""Which sentences are taken from what a model writes; every form here was seen from a real one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.retrieval.hypotheses import sentences


@pytest.mark.parametrize(
    ("sentence", "known", "found"),
    [
        ("Use tabs", "house tabs", ("Use tabs",)),
        ("Redis caches", "we say that Redis caches", ("Redis caches",)),  # 11 letters
        ("Redis is fast", "we say that Redis is fast", ("Redis is fast",)),
        ("Redis is quick", "we say that Redis is quick", ()),  # 12
    ],
)
def test_a_short_sentence_is_not_an_echo_because_its_letters_are_found_somewhere(sentence, known, found):
    assert sentences(sentence, 5, known=known) == found


def test_a_sentence_without_end_is_cut_at_a_word():
    (found,) = sentences("word " * 1_000, 5)

    assert 350 < len(found) <= 400
    assert found.endswith("word")


def test_what_a_model_that_never_stops_writes_is_not_read_to_its_end():
    assert sentences("\n" * 20_000 + "one", 5) == ()


@given(st.text(), st.integers(1, 10), st.text())
def test_whatever_a_model_writes_gives_a_few_distinct_lines_with_words_in_them(reply, count, known):
    found = sentences(reply, count, known=known)

    assert len(found) <= count
    assert len(set(found)) == len(found)
    assert all(len(sentence.splitlines()) == 1 and sentence == sentence.strip() for sentence in found)


SENTENCE = st.from_regex(r"The [a-z]{2,8} uses [a-z]{2,8}", fullmatch=True)
SENTENCES = st.lists(SENTENCE, min_size=1, max_size=10, unique=True)


@given(SENTENCES, st.sampled_from(["", "- ", "* ", "{}. ", "{}) ", "Memory {}: ", "**{}.** "]))
def test_markers_never_change_the_sentences(expected, marker):
    reply = "\n".join(marker.format(number) + s for number, s in enumerate(expected, 1))

    assert list(sentences(reply, 10)) == expected
