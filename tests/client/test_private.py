from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged_client.messages import without_private


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <private>b</private> c", "a  c"),
        ("a <private>b", "a "),
        ("a <PRIVATE>b</Private> c", "a  c"),
        ('a <private reason="x">b</private> c', "a  c"),
        (r'{"t": "a <private>b<\/private> c"}', '{"t": "a  c"}'),
        (r"a \u003cprivate\u003eb\u003c/private\u003e c", "a  c"),
        ("a <private>b<private>c</private>d</private> e", "a  e"),
        ("a <private>\n\nb\n</private>\nc", "a \nc"),
        ("a </private> b", "a  b"),
        ("the private part of <privates>", "the private part of <privates>"),
    ],
)
def test_private_spans_are_cut(text, left):
    assert without_private(text)[0] == left


def test_an_open_span_goes_on_in_the_next_part():
    first, depth = without_private("a <private>b")
    second, depth = without_private("c</private> d", depth)

    assert (first, second, depth) == ("a ", " d", 0)


@given(st.lists(st.sampled_from(["<private>", "</private>", r"<\/private>", "x", "secret"])))
def test_nothing_inside_an_open_span_is_left(pieces):
    depth, public = 0, ""
    for piece in pieces:
        if piece == "<private>":
            depth += 1
        elif piece.startswith("<"):
            depth = max(depth - 1, 0)
        elif depth == 0:
            public += piece

    assert without_private("".join(pieces)) == (public, depth)
