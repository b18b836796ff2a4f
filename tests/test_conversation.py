"""The window: whole messages, the newest first to stay, never more than its limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forged.conversation import Utterance, as_text, last_user_text, window

SAID = st.lists(
    st.builds(Utterance, st.sampled_from(["user", "assistant"]), st.text(min_size=1, max_size=40)),
    max_size=12,
)


def test_a_short_conversation_is_its_own_window():
    said = (Utterance("user", "a"), Utterance("assistant", "b"))

    assert window(said) == said


def test_the_oldest_messages_are_left_out_whole():
    said = [Utterance("user", "x" * 4), Utterance("assistant", "y" * 4), Utterance("user", "z" * 4)]

    assert window(said, 11) == tuple(said[1:])


def test_a_newest_message_that_is_too_long_is_kept_as_its_end():
    assert window([Utterance("user", "a"), Utterance("user", "log log question")], 8) == (
        Utterance("user", "question"),
    )


@given(SAID, st.integers(1, 200))
def test_a_window_is_the_longest_end_of_the_conversation_that_fits(said, limit):
    kept = window(said, limit)

    assert sum(len(u.text) for u in kept) <= limit
    if not said:
        assert kept == ()
    elif len(said[-1].text) > limit:
        assert kept == (Utterance(said[-1].role, said[-1].text[-limit:]),)
    else:
        assert kept == tuple(said[len(said) - len(kept) :])
        assert len(kept) == len(said) or sum(len(u.text) for u in said[-len(kept) - 1 :]) > limit


def test_text_is_role_and_words():
    assert (
        as_text([Utterance("user", "a\nb"), Utterance("assistant", "c")]) == "user: a\nb\n---\nassistant: c"
    )


def test_the_last_user_text_is_the_newest_of_the_user():
    said = [Utterance("user", "old"), Utterance("user", "new"), Utterance("assistant", "x")]

    assert last_user_text(said) == "new"
    assert last_user_text(said[2:]) == ""
