"""Remains of a forgotten sentence, and a person who states it again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.text.forgetting import says_again, without_sentences, words_of


def left(text: str, *unwanted: str) -> tuple[str, int]:
    return without_sentences(text, [words_of(each) for each in unwanted])


@pytest.mark.parametrize(
    ("text", "expected", "count"),
    [
        ("It rains. The harbour opens at noon. Bye.", "It rains. Bye.", 1),
        ("It rains. the **Harbour**, opens at noon! Bye.", "It rains. Bye.", 1),
        ("As I said: the harbour opens at noon, so hurry. Bye.", "Bye.", 1),
        ("One line\nthe harbour opens at noon\nanother", "One line\nanother", 1),
        ("The harbour opens at noon.", "", 1),
        ("The harbour opens at noon", "", 1),
        ("The harbour opens. At noon it rains. Bye.", "Bye.", 2),
        ("The harbour opens at noontide.", "The harbour opens at noontide.", 0),
        ("Version 3.5 of `a. b` runs. The harbour opens at noon.", "Version 3.5 of `a. b` runs. ", 1),
        ("", "", 0),
    ],
)
def test_sentences_that_hold_what_was_forgotten_go_and_the_others_stay(text, expected, count):
    assert left(text, "The harbour opens at noon.") == (expected, count)


def test_a_chinese_sentence_goes_with_or_without_its_comma():
    assert left("今天下雨。我们用制表符不用空格。再见。", "我们用制表符，不用空格") == ("今天下雨。再见。", 1)


@pytest.mark.parametrize(
    ("said", "other"), [("We use C#.", "We use C++."), ("use tabs", "never mind"), ("going", "go")]
)
def test_words_that_differ_tell_texts_apart(said, other):
    assert left(said, other) == (said, 0)


@given(st.text(max_size=80), st.text(max_size=20))
def test_any_text_is_cut_without_a_word_of_what_was_forgotten_staying(text, unwanted):
    words = words_of(unwanted)
    rest, count = left(text, unwanted)

    assert (rest == text) == (count == 0)
    assert count or not words or left(rest, unwanted)[1] == 0


@pytest.mark.parametrize(
    ("message", "text", "again"),
    [
        ("Well: indent Go code with tabs, please.", "Indent Go code with tabs.", True),
        ("I prefer tabs in Go code for indentation", "The user prefers tabs in Go code.", True),
        ("I like trains.", "Indent Go code with tabs.", False),
        ("Indent nothing.", "Indent Go code with tabs.", False),
        ("", "Indent Go code with tabs.", False),
        ("anything", "", False),
    ],
)
def test_a_person_says_a_text_again_in_its_words_or_as_a_model_puts_it(message, text, again):
    assert says_again(message, text) == again
