"""forged's injections are cut out of a conversation, and no other text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forged.retrieval import Answer
from forged.sessions.block import render
from forged.sessions.injected_set import TurnContent, compose
from forged.state import InjectedSet
from forged.stores import Ranked
from forged.text.injected_text import InjectedText
from tests.data.maps import vector_map
from tests.data.memories import memory

HTML = "&lt;{}forged-memories {}&gt;"
A, B = "0123456789abcdef", "fedcba9876543210"
CONTENT = "Always use errors.As.\n\nIt sees through wrapping,\nwhich == does not."
BLOCK = render([Ranked(memory("mem_1", CONTENT), 0.5), Ranked(memory("mem_2", "WALRUS"), 0.5)]).text


def session_block():
    """Return the block of a session that has a memory and gets the one that replaces it."""
    old = memory("mem_1", CONTENT)
    store = old, replace(memory("mem_2", "WALRUS"), supersedes="mem_1", version=2)
    before = InjectedSet("0123abcd", 1.0)
    for maps, found in (((old,), (Ranked(old, 0.5, root="/repo"),)), (store, ())):
        turn = TurnContent(
            has_pinned=False, found=Answer(status="ok", ranked=found), limit=16_000, whole=True
        )
        reply = compose(before, (vector_map(maps, lexical=False),), turn)
        before = reply.after
    return reply.block.text


SHORT = session_block()
FORMS = pytest.mark.parametrize("block", [BLOCK, SHORT], ids=["plain", "session"])


def cut(text, injected):
    return InjectedText(injected).cut(text)


def opener(digest=A):
    return f"<forged-memories {digest}>"


def closer(digest=A):
    return f"</forged-memories {digest}>"


@FORMS
def test_an_injection_as_it_is_rendered_is_cut(block):
    assert "WALRUS" in block
    assert cut(f"before\n{block}after", ()) == ("before\n\nafter", 1)


@FORMS
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("escape", [False, True])
def test_an_injection_inside_json_is_cut(block, levels, escape):
    quoted = block
    for _ in range(levels):
        quoted = json.dumps({"prompt": quoted})
    if escape:
        quoted = quoted.replace("<", "\\u003c").replace(">", "\\u003E").replace("/forged", "\\/forged")

    left, count = cut(f"before {quoted} after", ())

    assert count == 1
    assert "WALRUS" not in left
    assert left.startswith("before ")
    assert left.endswith(" after")


@pytest.mark.parametrize(
    ("text", "left", "count"),
    [
        (f"a {opener()}x{closer()} b {opener(B)}y{closer(B)} c", "a  b  c", 2),
        (f"a {opener()}x{opener(B)}y{closer(B)}z{closer()} b", "a  b", 1),
        (f"a {opener()}x{opener()}y{closer()} b", "a  b", 1),
        (f"a {opener()}x", "a ", 1),
        (f"a {opener()}x{closer(B)} y", "a ", 1),
        # A window that was cut in the middle of a block begins with its rest.
        (f"a {closer()} b", " b", 1),
        (f"a {opener()}x{closer()} b {closer(B)} c", "a  c", 2),
        (f"a {HTML.format('', A)}x{HTML.format('/', A)} b", "a  b", 1),
        (f"a &amp;lt;forged-memories {A}&amp;gt;x{closer()} b", "a  b", 1),
        (f"a {HTML.format('', A)}x", "a ", 1),
        (f"a {opener(A.upper())}x{closer()} b", "a  b", 1),
    ],
)
def test_a_block_ends_at_its_own_closer_or_at_the_end(text, left, count):
    assert cut(text, ()) == (left, count)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Use tabs.", ""),
        ("before\n\nUse   tabs.\n\nafter", "before\n\n\n\nafter"),
        ("before\n \t\n  Use\ntabs. \n\nafter", "before\n \t\n\n\nafter"),
        ("Use tabs.\n\nUse tabs.", "\n\n"),
    ],
)
def test_a_paragraph_that_is_an_injected_memory_is_cut(text, left):
    found, count = cut(text, ["Use tabs."])

    assert found == left
    assert count == text.count("Use")


def test_a_memory_of_several_paragraphs_is_cut_as_a_whole():
    text = f"before\n\n{CONTENT}\n\nafter"

    assert cut(text, [CONTENT]) == ("before\n\n\n\nafter", 1)


@given(st.text(), st.text(), st.text())
def test_nothing_between_the_markers_is_left(before, inside, after):
    left, count = cut(f"{before}{opener()}{inside} WALRUS{closer()}{after}", ())

    assert "WALRUS" not in left
    assert count >= 1


@pytest.mark.parametrize("piece", [opener(), closer(), "<", "\\", "\n ", "\n\n", "a\n\n", " ", "\\u003c"])
def test_hostile_text_takes_linear_time(piece):
    """A quadratic search would take minutes here; no clock is needed to notice."""
    cut(piece * ((1 << 18) // len(piece)) + "x", ["a", "a\n\nb"])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("As you said, use tabs in Go files. So I did.", "As you said, . So I did."),
        ("I know: USE tabs\n in  Go files", "I know: "),
        ("Use tabs in Go files, and use tabs in Go filesystems.", ", and use tabs in Go filesystems."),
        ("I use spaces in Go files.", "I use spaces in Go files."),
        ("I ran `go vet` as you like it: gofmt.", "I ran `go vet` as you like it: gofmt."),
    ],
)
def test_a_memory_that_the_assistant_repeats_within_a_paragraph_is_cut(text, left):
    ours = InjectedText(["Use tabs in Go files.", "gofmt"])

    assert ours.cut(text, inline=True)[0] == left
    assert ours.cut(text) == (text, 0)  # a person's own words


def test_a_memory_without_blanks_is_found_within_a_paragraph_too():
    ours = InjectedText(["所有日期都用世界协调时保存。"])

    assert ours.cut("如前所述，所有日期都用世界协调时保存，好吗", inline=True) == ("如前所述，，好吗", 1)
