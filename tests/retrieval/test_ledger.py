"""The ledger keeps the last answer of each session, for who may see the same roots."""

from __future__ import annotations

import pytest

from forged.retrieval.ledger import SESSIONS, Ledger
from forged.retrieval.values import Answer

ROOTS, OTHERS = ("/repo", "/home"), ("/other", "/home")


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def answer(text: str) -> Answer:
    return Answer(status="ok", reason=text)


def test_the_newest_answer_of_a_session_is_kept(ledger):
    ledger.note("s", "t1", ROOTS, answer("old"))
    ledger.note("s", "t2", ROOTS, answer("new"))

    found = ledger.last("s", ROOTS)

    assert found is not None
    assert (found.session_id, found.turn_id, found.answer.reason) == ("s", "t2", "new")
    assert found.at.endswith("Z")


def test_without_a_session_the_newest_of_the_same_roots_is_meant(ledger):
    ledger.note("a", "t", ROOTS, answer("older"))
    ledger.note("b", "t", ROOTS, answer("newer"))
    ledger.note("c", "t", OTHERS, answer("elsewhere"))

    found = ledger.last("", ROOTS)

    assert found is not None
    assert found.answer.reason == "newer"


def test_another_workspace_does_not_see_a_session(ledger):
    ledger.note("s", "t", ROOTS, answer("x"))

    assert ledger.last("s", OTHERS) is None
    assert ledger.last("", OTHERS) is None


def test_an_unknown_session_has_nothing(ledger):
    ledger.note("s", "t", ROOTS, answer("x"))

    assert ledger.last("who", ROOTS) is None


def test_the_session_that_was_silent_longest_is_dropped_first(ledger):
    for number in range(SESSIONS):
        ledger.note(f"s{number}", "t", ROOTS, answer("x"))
    ledger.note("s0", "t2", ROOTS, answer("again"))
    ledger.note("one more", "t", ROOTS, answer("x"))

    assert ledger.last("s1", ROOTS) is None
    assert ledger.last("s0", ROOTS) is not None
    assert ledger.last("s2", ROOTS) is not None


def test_purging_leaves_nothing_to_explain(ledger):
    ledger.note("s", "t", ROOTS, answer("x"))
    ledger.purge()

    assert ledger.last("s", ROOTS) is None
