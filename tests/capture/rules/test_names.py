"""Names of a list are found where one pattern with an alternative for each would find them."""

from __future__ import annotations

import re
import tomllib

from hypothesis import given
from hypothesis import strategies as st

from forged.capture.rules import slots
from forged.capture.rules.slots import NameIndex
from forged.capture.text_patterns import WordIndex, are_related

with open(slots.FILE, "rb") as _file:
    _LISTS = tomllib.load(_file)
NAMES = sorted(
    {name for kind in ("values", "digits", "subjects") for names in _LISTS[kind].values() for name in names}
)
_LETTER = rf"[^\W{slots.UNSPACED}]"
_BETWEEN = [" ", "", "-", ".", ",", "\t", "\u00a0", "_", "1", "の", "。", "é", "/", "  "]


def pattern_of(names: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(form_of(name) for name in sorted(names, key=len, reverse=True)))


def form_of(name: str) -> str:
    bare = re.escape(name.rstrip("*")).replace(r"\ ", r"[\s-]")
    if re.match(rf"[{slots._PAIRED}\u30a1-\u30fe]", name):
        return bare
    ending = rf"[^\W\d{slots.UNSPACED}]*" if name.endswith("*") else rf"(?!{_LETTER})"
    return rf"(?<!{_LETTER})(?<!-){bare}{ending}"


@st.composite
def texts(draw: st.DrawFn, names: list[str]) -> str:
    """Names, cut short, spelled otherwise or with an ending, with all that may be between words."""
    text = ""
    for _ in range(draw(st.integers(1, 8))):
        name = draw(st.sampled_from(names))
        name = name[: draw(st.integers(1, len(name)))] if draw(st.booleans()) else name
        name = name.replace(" ", draw(st.sampled_from([" ", "-", "\t", "  "])))
        name = name.replace("*", draw(st.sampled_from(["", "s", "9", "-x"])))
        text += name + draw(st.sampled_from(_BETWEEN))
    return text.casefold()


@given(st.data())
def test_they_are_found_where_a_pattern_finds_them(data):
    names = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=30, unique=True))
    text = data.draw(texts(names))

    assert list(NameIndex(names).found_in(text)) == [
        (0, *each.span()) for each in pattern_of(names).finditer(text)
    ]


@given(st.data())
def test_several_lists_are_searched_at_once_and_each_finds_its_own(data):
    lists = data.draw(st.lists(st.lists(st.sampled_from(NAMES), min_size=1, unique=True), min_size=2))
    text = data.draw(texts([name for names in lists for name in names]))

    found = list(NameIndex(*lists).found_in(text))

    for place, names in enumerate(lists):
        assert [each[1:] for each in found if each[0] == place] == [
            each[1:] for each in NameIndex(names).found_in(text)
        ]


def test_names_are_replaced_and_the_text_between_them_stays():
    assert NameIndex(["two", "zwei"]).replace("two or zwei, not twofold", {"two": "2", "zwei": "2"}) == (
        "2 or 2, not twofold"
    )


WORDS = st.text("aeinrsté日本", min_size=1, max_size=12)


@given(st.lists(WORDS, max_size=12, unique=True), st.lists(WORDS, max_size=12, unique=True))
def test_an_index_finds_the_words_that_a_comparison_of_all_words_finds(words, others):
    index = WordIndex(words)
    related = {word for word in others if any(are_related(word, each) for each in words)}

    assert {word for word in others if index.has_related(word)} == related
    assert index.may_share(WordIndex(others)) or not related


@given(st.data())
def test_a_name_is_a_word_where_no_letter_is_next_to_it(data):
    name = data.draw(st.text("ab.9の", min_size=1, max_size=4))
    text = data.draw(st.text("ab.9の _-", max_size=16)) + data.draw(st.sampled_from(["", name, f"{name}b"]))

    whole = re.search(rf"(?<!{_LETTER}){re.escape(name)}(?!{_LETTER})", text)
    assert slots._is_word_in(name, text) == (whole is not None)
