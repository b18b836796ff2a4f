"""The window: whole messages, the newest first to stay, never more than its limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forged.conversation import Utterance, as_text, last_user_text, window

SAID = st.lists(
    st.builds(Utterance, st.sampled_from(["user", "assistant"]), st.text(min_size=1, max_size=40)),
    max_size=12,
)


@given(SAID, st.integers(1, 200))
def test_a_window_is_the_longest_end_of_the_conversation_that_fits(said, limit):
    kept = window(said, limit)

    assert sum(len(u.text) for u in kept) <= limit
    if not said:
        assert kept == ()
    elif len(said[-1].text) > limit:
        assert kept[0].role == said[-1].role
        assert said[-1].text[-limit:].endswith(kept[0].text)
    else:
        assert kept == tuple(said[len(said) - len(kept) :])
        assert len(kept) == len(said) or sum(len(u.text) for u in said[-len(kept) - 1 :]) > limit


def test_text_is_role_and_words_and_the_last_of_the_user_can_be_asked_for():
    said = [Utterance("user", "old"), Utterance("user", "a\nb"), Utterance("assistant", "c")]

    assert as_text(said[1:]) == "user: a\nb\n---\nassistant: c"
    assert last_user_text(said) == "a\nb"
    assert last_user_text(said[2:]) == ""


def test_the_end_of_a_long_text_begins_with_a_whole_word_so_that_no_secret_is_cut_in_two():
    token = "ghp_" + "x1Y2" * 9
    said = [Utterance("user", f"{token} " + "word " * 3_197)]

    for end in (window(said)[0].text, last_user_text(said)):
        assert len(end) <= 16_000
        assert end.startswith("word word")
    assert window([Utterance("user", "漢" * 20_000)])[0].text == "漢" * 16_000
    assert window([Utterance("user", "harbour ")], 4)[0].text == "our "
