"""The text that a request to remember is about: its own, or the text next to it."""

from __future__ import annotations

import pytest

from forged.capture.authorship import statements
from forged.capture.local_classifier import request_in
from forged.conversation import Utterance


def asked(text: str, *, answer: str = "", before: str = "") -> str | None:
    window = (*([Utterance("assistant", answer)] if answer else ()), Utterance("user", text))
    found = request_in(statements(window), before)
    return None if found is None else found.text


TASK = "Please look at the parser and tell me why it is so slow on the big file of Monday. "


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("remember that amounts are cents", "remember that amounts are cents"),
        (
            "Kannst du dir merken, dass wir nur LTS-Versionen nehmen?",
            "Kannst du dir merken, dass wir nur LTS-Versionen nehmen?",
        ),
        (f"{TASK}Note to self: our ids are ULIDs.", "Note to self: our ids are ULIDs."),
        (f"{TASK}Our ids are ULIDs. Remember that.", "Our ids are ULIDs. Remember that."),
        (
            f"{TASK}Would you mind keeping this in mind? Our ids are ULIDs. Add a test.",
            "Would you mind keeping this in mind? Our ids are ULIDs.",
        ),
        (
            f"{TASK}Our ids are ULIDs. Put that in your notes, we get it wrong each time.",
            "Our ids are ULIDs. Put that in your notes, we get it wrong each time.",
        ),
        (
            f"{TASK}O seed assume UTC. Aliás põe isso nas suas anotações, já caímos nessa.",
            "O seed assume UTC. Aliás põe isso nas suas anotações, já caímos nessa.",
        ),
        (
            f"{TASK}El runner va en UTC. Apúntalo en tus notas, que siempre nos pasa lo mismo.",
            "El runner va en UTC. Apúntalo en tus notas, que siempre nos pasa lo mismo.",
        ),
        ("看一下为什么慢。另外记住：金额一律用分。改完告诉我", "另外记住：金额一律用分。"),
        ("anota", ""),
        ("merk dir das bitte", ""),
        ("use tabs in the example", None),
        ("do you remember the port?", None),
        ("merk dir kurz die Zeile", None),
        ("she said remember the tabs", None),
    ],
)
def test_a_request_is_kept_with_what_it_is_about(text, kept):
    assert asked(text) == kept


def test_a_request_without_content_is_about_what_was_said_before():
    assert asked("merk dir das", before="Beträge sind Cent.") == "Beträge sind Cent. merk dir das"
    assert (
        asked("merk dir das", answer="Ok.", before="Beträge sind Cent.") == "Beträge sind Cent. merk dir das"
    )
    assert asked("merk dir das", answer="Ok.") == ""
    assert (
        asked("Remember that we use scons.", before="We build it at night.") == "Remember that we use scons."
    )
    answer = "Ids are ULIDs in all of the tables here."
    assert asked("remember that", answer=answer) == f"{answer} remember that"
