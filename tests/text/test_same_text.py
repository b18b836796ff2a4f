"""Equal statements. A fact taken for another is lost, so rules of difference come first."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.text.same_text import TextIndex, content_words, normalised


def alike(one: str, other: str) -> bool:
    """Whether they are alike, which must not depend on which one was there first."""
    there, back = TextIndex([one]).has_like(other), TextIndex([other]).has_like(one)
    assert there == back
    return there


# --- normalised --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "use tabs",
        "  Use\n\ttabs ",
        "USE TABS!",
        "Use **tabs**.",
        "*Use tabs.*",
        "_Use_ `tabs`",
        "“Use tabs”",
        "\"Use 'tabs'\"...",
        "- Use tabs",
        "**Use `tabs`**",
        "`use tabs`",
        "ｕｓｅ　ｔａｂｓ。",
    ],
)
def test_typography_is_no_difference(text):
    assert normalised(text) == "use tabs"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pass *args and **kwargs", "pass args and kwargs"),
        ("define __init__ there", "define init there"),
        ("2*3*4", "234"),
        ("prefer \" over '", "prefer ' over \""),
        ("the separator is :", "the separator is ;"),
        ("match *.py and *.pyi", "match .py and .pyi"),
        ("don't", "dont"),
        ("- 5 degrees", "5 degrees"),
        ("use C", "use C++"),
        ('take `"` here and `"` there', "take `'` here and `'` there"),
        ("a\tb", "ab"),
    ],
)
def test_marks_that_mean_something_stay(one, other):
    assert normalised(one) != normalised(other)


# --- alike -------------------------------------------------------------------------------------------

SAME = [
    ("User prefers `errors.As` over type assertions.", "Prefer errors.As over type assertions."),
    ("Please remember that we should wrap errors with context.", "We prefer to wrap errors with context"),
    ("From now on, use tabs.", "Remember: use tabs"),
    ("For future reference: CI runs on Jenkins", "Note that CI runs on Jenkins."),
    ("I work in Sydney", "The user works in Sydney."),
    ("I'm based in Sydney.", "User is based in Sydney"),
    ("Don't use tabs", "Do not use tabs."),
    ("We cannot deploy on Fridays.", "we can't deploy on Fridays"),
    ("The API returns errors as JSON.", "API return errors as JSON"),
    ("The policies live in a cache.", "Policy lives in the caches"),
    ("Use spaces (not tabs).", "Use spaces, not tabs"),
    ("**Remember** to run `go test ./...` first", "run go test ./... first."),
    ("Use spaces - not tabs", "use spaces, not tabs"),
    ("请使用制表符缩进", "记住：使用制表符缩进。"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_in_a_few_other_words_is_alike(one, other):
    assert alike(one, other)


SOME = "goose atlas deploys stores caches retry budget cluster queue table branch"
WORDS = st.sampled_from(SOME.split())


@given(st.lists(WORDS, min_size=1, max_size=30), st.data())
def test_a_word_replaced_is_never_alike(words, data):
    place = data.draw(st.integers(0, len(words) - 1))
    replaced = [*words[:place], "walrus", *words[place + 1 :]]

    assert alike(" ".join(words), " ".join(words))
    assert not alike(" ".join(words), " ".join(replaced))


@given(st.lists(WORDS, min_size=6, max_size=40), st.data())
def test_additions_up_to_a_fifth_are_found_among_many_texts(words, data):
    count = data.draw(st.integers(1, len(words) // 5))
    longer = list(words)
    for _ in range(count):
        longer.insert(data.draw(st.integers(0, len(longer))), data.draw(st.sampled_from(["walrus", *words])))
    others = [" ".join(order) for order in itertools.islice(itertools.permutations(words[:5]), 20)]

    assert TextIndex([*others, " ".join(words)]).has_like(" ".join(longer))
    assert TextIndex([*others, " ".join(longer)]).has_like(" ".join(words))


@given(st.lists(st.text(max_size=60), max_size=6), st.text(max_size=60))
def test_every_text_is_like_itself_and_nothing_raises(texts, question):
    known = TextIndex(texts)

    known.has_like(question)
    assert all(map(known.has_like, texts))
    assert not TextIndex().has_like(question)


def test_the_same_text_is_kept_once():
    texts = TextIndex(["use tabs", "Use tabs."])

    assert len(texts) == 1


def test_content_words_are_those_that_carry_something():
    assert content_words("Remember that the user's caches are not in /srv, ok?") == (
        "user's",
        "cach",
        "/srv",
        "ok",
    )
