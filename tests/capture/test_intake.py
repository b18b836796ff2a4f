"""The first gate: what waits, is spooled or leaves for a model holds no echo and no secret, and it fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.capture.intake import WINDOW_LIMIT, Intake, take_in
from forged.conversation import Utterance
from forged.retrieval.injection import render
from forged.scopes import Ranked
from tests.data.memories import memory

# Put together here, so that no scanner takes this file for a leak.
AWS_KEY = "AKIA" + "Z7QX2MB4WJ9KD3RT"
PRIVATE_KEY = "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----".format("Q7xV" * 3000)
BLOCK = render([Ranked(memory("mem_1", "The walrus sings."), 0.5)]).text


def user(text):
    return Utterance("user", text)


def assistant(text):
    return Utterance("assistant", text)


@pytest.mark.parametrize("said", [(), (user("a question"), assistant("an answer"), user("thanks"))])
def test_a_conversation_without_anything_to_cut_is_taken_in_as_it_is(said):
    assert take_in(said, ()) == Intake(said)


def test_echoes_are_cut_and_counted():
    said = (user(f"{BLOCK}a question"), assistant("The walrus\nsings.\n\nAn answer."))

    taken = take_in(said, ["The walrus sings."])

    assert [each.text.strip() for each in taken.window] == ["a question", "An answer."]
    assert taken.echoes == 2


def test_a_message_that_is_nothing_but_an_echo_is_left_out():
    taken = take_in((user("a"), assistant(BLOCK), user("b")), ())

    assert (taken.window, taken.echoes) == ((user("a"), user("b")), 1)


def test_echoes_take_up_no_room():
    long = "x" * (WINDOW_LIMIT - 10)
    block = BLOCK.replace("sings.", "sings. " * 10_000)

    taken = take_in((user("first"), assistant(block), user(long)), ())

    assert taken.window == (user("first"), user(long))


def test_secrets_are_cut_and_counted():
    taken = take_in((user(f"the key is {AWS_KEY}"), assistant("ok"), user(f"and {AWS_KEY} {AWS_KEY}")), ())

    assert AWS_KEY not in str(taken)
    assert (len(taken.window), taken.redacted) == (3, 3)


def test_of_more_than_fits_the_newest_whole_messages_are_kept():
    said = tuple(user(letter * (WINDOW_LIMIT // 3)) for letter in "abcde")

    assert take_in(said, ()).window == said[2:]


def test_secrets_of_messages_that_do_not_fit_are_not_counted():
    said = (user(AWS_KEY), user(f"{AWS_KEY} " + "x " * (WINDOW_LIMIT // 2 - 20)), user("y" * 100))

    assert take_in(said, ()) == Intake((user("y" * 100),))


def test_what_comes_before_a_window_that_is_full_is_not_looked_at():
    newest = user("x" * WINDOW_LIMIT)

    assert take_in((user(f"{BLOCK}a question"), newest), ()) == Intake((newest,))


def test_a_newest_message_that_is_too_long_alone_is_kept_as_its_end():
    words = " ".join(str(number) for number in range(100_000))

    (only,) = take_in((user("before"), user(words)), ()).window

    assert len(only.text) == WINDOW_LIMIT
    assert words.endswith(only.text)


def test_a_window_is_never_blank():
    taken = take_in((user("said"), user("x" + " \n" * WINDOW_LIMIT)), ())

    assert [each.text for each in taken.window] == ["said", "x"]


@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.5, 0.9, 0.999, 1.0])
@pytest.mark.parametrize(
    ("secret", "cut_at"),
    [(AWS_KEY, WINDOW_LIMIT), (PRIVATE_KEY, WINDOW_LIMIT), (PRIVATE_KEY, WINDOW_LIMIT + 16_000)],
    ids=["short", "long", "long where the look ahead ends"],
)
def test_no_half_of_a_secret_that_a_cut_goes_through_is_left(secret, cut_at, part):
    behind = "y " * ((cut_at - int(part * len(secret))) // 2)
    for before in ("x " * 5, "x " * 10_000, "x " * 100_000):
        taken = take_in((user(before + secret + "\n" + behind),), ())

        assert secret[-12:] not in taken.window[0].text.replace("-----END RSA PRIVATE KEY-----", "")
        assert "Q7xV" not in taken.window[0].text


def test_no_half_of_a_secret_is_left_where_others_behind_it_made_room():
    """So much behind the cut is taken out that the window reaches back to the half that stands at it."""
    behind = f"\n{PRIVATE_KEY}\n{PRIVATE_KEY}\n"
    behind += "y " * ((WINDOW_LIMIT + 16_000 - len(PRIVATE_KEY) // 2 - len(behind)) // 2)

    taken = take_in((user("x " * 100_000 + PRIVATE_KEY + behind),), ())

    assert "y y y" in taken.window[0].text
    assert "Q7xV" not in taken.window[0].text


@given(st.lists(st.tuples(st.sampled_from("ua"), st.integers(0, 40_000))))
def test_a_window_never_exceeds_its_limit_and_is_the_conversations_end(lengths):
    said = tuple(
        (user if who == "u" else assistant)(f"{number}" + "z" * length)
        for number, (who, length) in enumerate(lengths)
    )

    taken = take_in(said, ()).window

    assert sum(len(each.text) for each in taken) <= WINDOW_LIMIT
    assert taken == said[len(said) - len(taken) :]
    assert taken or not said
