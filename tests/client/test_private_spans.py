from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged_client.private_spans import cut_private, without_private
from forged_client.protocol import Retrieve, Search, Why
from tests.support.daemon import answering, any_answer


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
        ("a < private >b</ private > c", "a  c"),
        ("a <\n private\n>b< / private> c", "a  c"),
        ("a &lt;private&gt;b&lt;/private&gt; c", "a  c"),
        ("a &amp;lt;private reason=&quot;x&quot;&amp;gt;b&#60;/private&#62; c", "a  c"),
        ("a &#x3c;private&#x3E;b&lt; / private &gt; c", "a  c"),
        ("a <private>b&lt;/private&gt; c", "a  c"),
        (r'{"t": "a <private>b<\\\/private> c"}', '{"t": "a  c"}'),
        # Talk about tags, and what looks like it but has a closer behind it.
        ("wrap it in `<private>` tags", "wrap it in `<private>` tags"),
        ("`</private>` ends it", "`</private>` ends it"),
        ("`<private>` b `</private>` c", "`` c"),
        ("`<private>b</private>` c", "`` c"),
        ("`<private>` b", "`<private>` b"),
        ("`<private> b", "`"),
    ],
)
def test_private_spans_are_cut(text, left):
    assert without_private(text) == left


def test_an_open_span_goes_on_in_the_next_part():
    first, depth = cut_private("a <private>b")
    second, depth = cut_private("c</private> d", depth)

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

    assert cut_private("".join(pieces)) == (public, depth)


@pytest.mark.parametrize(
    "piece", ["<private>", "</private>", "&amp;", "&lt;private ", "< ", "`<private>`", "<private "]
)
def test_hostile_text_takes_linear_time(piece):
    """A quadratic search would take minutes here; no clock is needed to notice."""
    without_private(piece * ((1 << 20) // len(piece)) + "private</private>")


def test_queries_and_hypotheses_leave_the_agent_without_private_spans(serve, ask):
    peer = serve(answering(any_answer))

    ask("search", "/w", "a <private>b</private> c")
    ask("retrieve", "/w", [{"role": "user", "content": "a < private >b"}], hypotheses=["a <private>b"])
    ask("why", "/w", query="a &lt;private&gt;b")

    assert peer.requests_of(Search)[0].query == "a  c"
    assert peer.requests_of(Why)[0].query == "a "
    (asked,) = peer.requests_of(Retrieve)
    assert (asked.hypotheses, asked.messages[0].content) == (("a ",), "a ")
