"""Tentative statements: likely to last, confirmed by the next statement on the subject."""

from __future__ import annotations

import pytest

from forged.capture.existing import TentativeStatement, TentativeStatements
from forged.files import Root
from forged.memory import Scope

ROOT, OTHER = Root("/r", Scope.REPO), Root("/s", Scope.REPO)
NPM, PNPM = "We use npm in this repo.", "We use pnpm in this repo, npm is out."


@pytest.fixture
def likely() -> TentativeStatements:
    held = TentativeStatements()
    held.add(ROOT, NPM)
    return held


def test_a_second_statement_supersedes_the_first_and_becomes_current(likely) -> None:
    held = likely.find_replaced([ROOT], PNPM)
    assert held is not None
    assert held.current == NPM

    likely.supersede(held, PNPM)
    assert likely.find_replaced([ROOT], PNPM) == TentativeStatement(ROOT, NPM, current=PNPM)


def test_what_was_taken_for_another_root_of_the_same_place_is_found_there(
    likely: TentativeStatements,
) -> None:
    assert likely.find_replaced([OTHER, ROOT], PNPM) == TentativeStatement(ROOT, NPM, current=NPM)


def test_what_spoke_against_the_first_must_be_outweighed_too() -> None:
    held = TentativeStatements()
    held.add(ROOT, NPM, penalty=1.0)
    held.add(OTHER, NPM, penalty=20.0)

    assert held.find_replaced([ROOT], PNPM) == TentativeStatement(ROOT, NPM, 1.0, NPM)
    assert held.find_replaced([OTHER], PNPM) is None


def test_of_a_root_the_newest_forty_are_held(likely: TentativeStatements) -> None:
    for number in range(40):
        assert likely.find_replaced([ROOT], PNPM) == TentativeStatement(ROOT, NPM, current=NPM)
        likely.add(ROOT, f"Module number {number} belongs to team {number}.")
        for doubted in range(3):
            likely.add(ROOT, f"Row {number} of {doubted} is empty.", penalty=1.0)

    assert likely.find_replaced([ROOT], PNPM) is None


def test_of_many_roots_those_that_were_spoken_of_last_are_held(likely: TentativeStatements) -> None:
    for number in range(63):
        likely.add(Root(f"/{number}", Scope.REPO), NPM)
    assert likely.find_replaced([ROOT], PNPM) == TentativeStatement(ROOT, NPM, current=NPM)

    likely.add(ROOT, NPM)
    for number in range(64):
        likely.add(Root(f"/{number}/x", Scope.REPO), NPM)
    assert likely.find_replaced([ROOT], PNPM) is None
