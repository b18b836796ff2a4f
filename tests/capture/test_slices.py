"""A conversation in slices: each fits, and together they are all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.capture.slices import WINDOW_LIMIT, TimedMessage, slices
from forged.conversation import Utterance


def said(text: str, at: int = 0, **fields: bool) -> TimedMessage:
    return TimedMessage(Utterance("user", text), at, **fields)


def texts(found) -> list[list[str]]:
    return [[each.utterance.text for each in window] for window in found]


def test_a_message_that_is_too_long_is_a_beginning_pieces_and_a_rest():
    long = "word " * (WINDOW_LIMIT // 2)
    before, first, second, rest = slices([said("a"), said(long, 7), said("b")])

    assert [each.utterance.text for each in before] == ["a"]
    assert [(each.begun, each.goes_on) for each in (*first, *second)] == [(False, True), (True, True)]
    assert [(each.begun, each.goes_on) for each in rest] == [(True, False), (False, False)]
    assert "".join(window[0].utterance.text for window in (first, second, rest)) == long
    assert {window[0].said_at for window in (first, second, rest)} == {7}


def test_the_rest_of_a_message_begins_a_slice_and_a_beginning_ends_one():
    found = slices([said("a"), said("b", goes_on=True), said("c", begun=True), said("d")])

    assert texts(found) == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize(
    ("end", "unit"),
    [
        ("\n\n", "line one.\nline two.\n\n"),
        ("\n", "one sentence. another.\n"),
        (".", "one sentence."),
        ("\u3002", "\u6211\u4eec\u7528\u5236\u8868\u7b26\u3002"),
        (" ", "word "),
        ("x", "x"),
    ],
)
def test_a_cut_is_where_most_ends(end, unit):
    text = (unit if unit != "one sentence." else "one sentence. ") * (2 * WINDOW_LIMIT // len(unit))

    for window in list(slices([said(text)]))[:-1]:
        assert window[0].utterance.text.endswith(end)


@given(st.lists(st.tuples(st.integers(1, 150_000), st.booleans())))
def test_nothing_is_left_out_and_no_slice_is_too_long(lengths):
    messages = [said(("ab " if spaced else "\u6f22") * size) for size, spaced in lengths if size]
    found = list(slices(messages))

    assert all(sum(len(each.utterance.text) for each in window) <= WINDOW_LIMIT for window in found)
    whole = "".join(each.utterance.text for window in found for each in window)
    assert whole.split() == "".join(each.utterance.text for each in messages).split()
