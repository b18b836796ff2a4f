"""What counts as said: the statements of a window."""

from __future__ import annotations

from forged.capture.statements import Statement, statements
from forged.conversation import Utterance


def said(text: str) -> tuple[Statement, ...]:
    return statements((Utterance("user", text),))


def test_each_sentence_has_the_one_before_it_beside_it():
    found = said("You used npm again. We use pnpm here.")
    assert [(each.text, each.before) for each in found] == [
        ("You used npm again.", ""),
        ("We use pnpm here.", "You used npm again."),
    ]


def test_a_message_knows_what_it_answers_and_nothing_of_the_assistants_is_a_statement():
    window = (
        Utterance("user", "Which runner?"),
        Utterance("assistant", "There are two. I would take pytest."),
        Utterance("user", "Yes, pytest. Remember that."),
    )
    found = statements(window)
    assert [(each.text, each.answers, each.message) for each in found] == [
        ("Which runner?", "", 0),
        ("Yes, pytest.", "I would take pytest.", 2),
        ("Remember that.", "", 2),
    ]
