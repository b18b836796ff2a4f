"""Where documents are cut: exactly, unless a sentence or a section ends nearby."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.documents.pieces import cut
from forged.text import tokens
from tests.faults.amount import times

quick = settings(deadline=None, max_examples=times(200, 50))


def units(count: int) -> str:
    """A text of so many tokens without any end of a sentence."""
    return "".join(f"{number:04d}" for number in range(count))


def test_a_text_of_1200_tokens_without_sentences_has_the_pieces_0_512_462_974_and_924_1200():
    text = units(1200)

    pieces = cut(text, 512, 50)

    assert [(each.start / 4, each.end / 4) for each in pieces] == [(0, 512), (462, 974), (924, 1200)]
    assert [each.text for each in pieces] == [units(1200)[a * 4 : b * 4] for a, b in
                                             ((0, 512), (462, 974), (924, 1200))]  # fmt: skip


def ended(sentence: str, behind: str = " And so on") -> str:
    """The end of the first piece of a text that has one sentence shortly before it is full."""
    room = 512 * 4 - 60 - len(sentence.encode())
    return cut("x" * (room - 1) + " " + sentence + behind + "y" * 4000, 512, 50)[0].text.lstrip("x ")


@pytest.mark.parametrize(
    "sentence",
    ["It is done.", "Ist es fertig?", "¡Qué bien!", "C’est fini…", "Disse: «è vero.»", "Het is (bijna) af.)",
     "Está pronto!", '"He said so."'],
)  # fmt: skip
def test_a_piece_ends_with_a_sentence_in_any_language_that_parts_words(sentence):
    assert ended(sentence) == sentence


def test_a_piece_of_markdown_ends_rather_before_a_heading_than_with_a_sentence():
    before = "a" * (512 * 4 - 150) + ".\n\n"
    text = f"{before}# Install\n\nIt is easy. Really. {'B' * 4000}"

    assert cut(text, 512, 50, markdown=True)[0].text == before
    assert cut(text, 512, 50)[0].text.endswith("Really.")


def test_a_piece_has_the_headings_above_what_it_says_first():
    part = "It is so. " * 150
    text = f"# Guide\n\n{part}\n## Install ##\n\n{part}{part}\n## Use\n\n```\n# no heading\n```\n{part}"

    paths = [each.path for each in cut(text, 512, 50, markdown=True)]

    assert list(dict.fromkeys(paths)) == ["Guide", "Guide > Install", "Guide > Use"]
    assert cut(text, 512, 50)[0].headings == ()


def test_what_a_reader_sees_as_one_character_is_in_one_piece():
    family = "👩\u200d👩\u200d👧"

    for shift in range(12):
        text = "a" * (512 * 4 - 12 + shift) + family + "e\u0301" * 3000
        first = cut(text, 512, 50)[0].text
        assert first.endswith(("a", family, "\u0301"))


characters = st.sampled_from(
    ["a", "é", "语", "😀", " ", "\n", ". ", "。", "# x\n", "\n\n", "e\u0301", "\r\n", "```\n"]
)
texts = st.lists(st.tuples(characters, st.integers(1, 300)), max_size=12).map(
    lambda parts: "".join(text * count for text, count in parts)
)


@quick
@given(texts, st.integers(64, 200), st.integers(0, 512), st.booleans())
def test_nothing_is_lost_and_no_piece_is_too_large_whatever_the_text(text, size, overlap, markdown):
    pieces = cut(text, size, overlap, markdown=markdown)

    reached = 0
    for each in pieces:
        assert each.text == text[each.start : each.end]
        assert text[reached : each.start].strip() == ""  # but for blank pieces all of it is there
        assert tokens.estimate(each.text) <= size
        assert each.end > reached
        reached = each.end
    assert text[reached:].strip() == ""


@quick
@given(texts, st.integers(64, 200), st.integers(0, 32))
def test_a_piece_repeats_as_much_as_it_is_to_and_a_character_more_at_the_most(text, size, overlap):
    pieces = cut(text.replace("\n", "x").replace(" ", "y"), size, overlap)

    for before, after in pairwise(pieces):
        shared = before.text[after.start - before.start :]
        assert overlap * 4 - 8 <= len(shared.encode()) <= overlap * 4 + 32


@pytest.mark.speed
@pytest.mark.parametrize(
    "text",
    ["# a" + " " * 900_000 + "x", "\n" * 900_000, "." * 900_000, "#" * 900_000, "```\n" * 200_000,
     "a\u0301" * 200_000, "！」" * 150_000, ") " * 400_000, "1." * 400_000, " \n" * 450_000],
    ids=range(10),
)  # fmt: skip
def test_no_text_takes_long(text):
    started = time.process_time()
    cut(text, 512, 50, markdown=True)

    assert time.process_time() - started < 3
