"""HyDE: what the model is asked, and which sentences are taken from what it answers (bugs 34, 35)."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.conversation import Utterance
from forged.providers import Completion
from forged.retrieval import hyde

REPLIES = {
    "plain lines": ("one fact\nanother fact", ["one fact", "another fact"]),
    "ragged lines": ("  one fact \n\n\t\n another  ", ["one fact", "another"]),
    "windows line ends": ("one\r\ntwo\r\n", ["one", "two"]),
    "numbers": ("1. one\n2. two\n10. ten", ["one", "two", "ten"]),
    "numbers in brackets": ("1) one\n(2) two", ["one", "two"]),
    "dashes, stars and bullets": ("- one\n* two\n• three\n– four", ["one", "two", "three", "four"]),
    "a number that is no marker": ("3.12 is the newest Python", ["3.12 is the newest Python"]),
    "a letter and a dot": ("a.fact stays", ["a.fact stays"]),
    "a dash that is a sign": ("-1 is returned on failure", ["-1 is returned on failure"]),
    "stars that are emphasis": ("**Tabs** are used", ["**Tabs** are used"]),
    "a fence": ("```\none\n```", ["one"]),
    "a fence with a language": ("```text\none\n```", ["one"]),
    "tags on lines of their own": ("<facts>\none\n</facts>", ["one"]),
    "a preamble": ("Here are 5 sentences:\none", ["one"]),
    "another preamble": ("Sure, these may help:\none", ["one"]),
    "a fact that begins like a preamble": ("Here we use tabs", ["Here we use tabs"]),
    "thoughts": ("<think>\nmaybe tabs\n</think>\none", ["one"]),
    "thoughts that never end": ("<thinking>one\ntwo", []),
    "markers without a sentence": ("-\n1.\n---\n***\none", ["one"]),
    "twins": ("one\n1. one\ntwo", ["one", "two"]),
    "another script": ("- 用户喜欢制表符", ["用户喜欢制表符"]),
    "nothing": ("", []),
    "blanks": (" \n\t\n", []),
}


@pytest.mark.parametrize(("reply", "sentences"), REPLIES.values(), ids=REPLIES.keys())
def test_the_sentences_are_taken_and_the_rest_is_left(reply, sentences):
    assert list(hyde.parse(reply, 10)) == sentences


def test_no_more_than_were_asked_for_are_taken():
    assert hyde.parse("\n".join(f"fact {n}" for n in range(50)), 5) == tuple(f"fact {n}" for n in range(5))


@given(st.text(), st.integers(1, 10))
def test_whatever_a_model_writes_gives_a_few_distinct_lines_with_words_in_them(reply, count):
    found = hyde.parse(reply, count)

    assert len(found) <= count
    assert len(set(found)) == len(found)
    assert all(len(sentence.splitlines()) == 1 and sentence == sentence.strip() for sentence in found)


SENTENCE = st.from_regex(r"The [a-z]{2,8} uses [a-z]{2,8}", fullmatch=True)


@given(
    st.lists(SENTENCE, min_size=1, max_size=10, unique=True),
    st.sampled_from(["", "- ", "* ", "{}. ", "{}) "]),
)
def test_markers_never_change_the_sentences(sentences, marker):
    reply = "\n".join(marker.format(number) + s for number, s in enumerate(sentences, 1))

    assert list(hyde.parse(reply, 10)) == sentences


class Model:
    """A chat model that notes what it was asked."""

    def __init__(self, reply: str = "one\ntwo") -> None:
        self.reply = reply
        self.asked: list[tuple[str, str, float]] = []

    async def complete(self, system, user, *, deadline, schema=None):
        self.asked.append((system, user, deadline))
        return Completion(self.reply)

    async def aclose(self):
        pass


def test_the_model_gets_the_window_the_number_and_the_deadline():
    model = Model()
    window = (Utterance("user", "which indent?"), Utterance("assistant", "let me look"))

    found = asyncio.run(hyde.hypotheses(model, window, count=3, deadline=12.5))

    ((_, user, deadline),) = model.asked
    assert found == ("one", "two")
    assert "user: which indent?\n---\nassistant: let me look" in user
    assert "Write 3 " in user
    assert deadline == 12.5


def test_an_empty_window_asks_nobody():
    model = Model()

    assert asyncio.run(hyde.hypotheses(model, (), count=3, deadline=1.0)) == ()
    assert model.asked == []
