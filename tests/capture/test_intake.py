"""Intake: pending, stored and sent text has no echo and no secret, and all the rest."""

from __future__ import annotations

import pytest

from forged.capture.intake import clean
from forged.conversation import Utterance
from forged.sessions.block import render
from forged.stores import Ranked
from forged_client.protocol import CONTINUED_OVERLAP
from tests.data.memories import memory

# Put together here, so that no scanner takes this file for a leak.
AWS_KEY = "AKIA" + "Z7QX2MB4WJ9KD3RT"
PRIVATE_KEY = "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----".format("Q7xV" * 2500)
BLOCK = render([Ranked(memory("mem_1", "The walrus sings."), 0.5)]).text


def user(text):
    return Utterance("user", text)


def assistant(text):
    return Utterance("assistant", text)


def test_of_a_message_that_is_nothing_but_an_echo_nothing_is_left():
    taken = clean((user("a"), assistant(BLOCK), user("b")), ())

    assert (taken.window, taken.echoes) == ((user("a"), None, user("b")), 1)


def test_secrets_are_cut_and_counted():
    taken = clean((user(f"the key is {AWS_KEY}"), assistant("ok"), user(f"and {AWS_KEY} {AWS_KEY}")), ())

    assert AWS_KEY not in str(taken)
    assert (len(taken.window), taken.redacted) == (3, 3)


@pytest.mark.parametrize(
    "at", [end + into for end in (0, CONTINUED_OVERLAP) for into in (5, 13, 18, 300, 5000, 9900)]
)
@pytest.mark.parametrize("secret", [AWS_KEY, PRIVATE_KEY], ids=["short", "long"])
def test_no_half_of_a_secret_that_a_cut_goes_through_is_left_and_nothing_else_is_lost(secret, at):
    """A message that goes on in the next part: its two pieces have so much in common."""
    words = [f"word{number}" for number in range(30_000)]
    text = " ".join(words)
    middle = len(text) // 2
    text = f"{text[: middle - at]} {secret} {text[middle - at :]}"
    first, rest = text[:middle], text[middle - CONTINUED_OVERLAP :]

    (one,) = clean((user(first),), (), goes_on=True).window
    (other,) = clean((user(rest),), (), begun=True).window

    held = one.text + other.text
    assert "Q7xV" not in held
    assert secret[-12:] not in held.replace("-----END RSA PRIVATE KEY-----", "")
    assert secret[:12] not in held.replace("-----BEGIN RSA PRIVATE KEY-----", "")
    there = {*one.text.split(), *other.text.split()}
    assert len([word for word in words if word not in there]) <= 4


def test_what_was_said_of_a_refused_thing_in_earlier_messages_goes_and_later_words_stay():
    said = (
        user("My manager is Zoltan Vimes. We indent with tabs."),
        assistant("Noted, Zoltan is your manager. The tests pass."),
        user("Please don't remember that my manager is Zoltan Vimes."),
        assistant("I forget Zoltan."),
        user("Remember that my manager is Zoltan Vimes."),
    )

    taken = clean(said, ())

    assert [each and each.text for each in taken.window] == [
        "We indent with tabs.",
        "The tests pass.",
        None,
        None,
        "Remember that my manager is Zoltan Vimes.",
    ]
    assert taken.opting_out == (2,)


def test_a_refusal_of_what_was_said_before_takes_the_message_before_it_and_the_answer():
    said = (
        user("Fix the lint."),
        user("I earn 90k."),
        assistant("Good for you."),
        user("Don't remember that."),
    )

    taken = clean(said, ())

    assert [each and each.text for each in taken.window] == ["Fix the lint.", None, None, None]
    assert not taken.points_before
    assert clean(said[3:], ()).points_before
