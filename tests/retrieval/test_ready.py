"""Replies that may be sent again: whose they are, and how many there are at most."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forged.retrieval.ready import Ready, ReadyReplies
from forged.retrieval.values import Answer

ANSWER = Answer(status="ok")


def ready(size: int = 10, answer: Answer = ANSWER) -> Ready:
    return Ready(answer, "ok", 1, "d", b"t" * (size // 2), b"r" * (size - size // 2))


def test_a_reply_is_given_for_the_answer_that_it_was_made_of_alone():
    replies, reply = ReadyReplies(), ready()
    replies.put("turn", reply)

    assert replies.get("turn", ANSWER) is reply
    assert replies.get("turn", Answer(status="ok")) is None
    assert replies.get("other", ANSWER) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 120)), max_size=60))
def test_they_never_have_more_bytes_than_they_may_and_the_newest_stay(puts):
    replies = ReadyReplies(100)
    held: dict[int, int] = {}
    for key, size in puts:
        replies.put(key, ready(size))
        held.pop(key, None)
        if size <= 100:
            held[key] = size
        while sum(held.values()) > 100:
            held.pop(next(iter(held)))

        assert replies._held == sum(held.values())
        assert list(replies._replies) == list(held)


def test_what_was_sent_last_is_the_last_to_go():
    replies = ReadyReplies(100)
    for key in "ab":
        replies.put(key, ready(40))
    replies.get("a", ANSWER)
    replies.put("c", ready(40))

    assert [replies.get(key, ANSWER) is not None for key in "abc"] == [True, False, True]
