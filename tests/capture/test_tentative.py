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


def test_another_word_takes_the_place_of_the_first_and_replaces_it(likely) -> None:
    held = likely.like([ROOT], PNPM)
    assert held is not None
    assert held.stands == NPM

    likely.take(held, PNPM)
    assert likely.like([ROOT], PNPM) == TentativeStatement(ROOT, NPM, stands=PNPM)


def test_what_was_taken_for_another_root_of_the_same_place_is_found_there(
    likely: TentativeStatements,
) -> None:
    assert likely.like([OTHER, ROOT], PNPM) == TentativeStatement(ROOT, NPM, stands=NPM)


def test_what_spoke_against_the_first_must_be_outweighed_too() -> None:
    held = TentativeStatements()
    held.add(ROOT, NPM, doubt=1.0)
    held.add(OTHER, NPM, doubt=20.0)

    assert held.like([ROOT], PNPM) == TentativeStatement(ROOT, NPM, 1.0, NPM)
    assert held.like([OTHER], PNPM) is None


def test_of_a_root_the_newest_forty_are_held(likely: TentativeStatements) -> None:
    for number in range(40):
        assert likely.like([ROOT], PNPM) == TentativeStatement(ROOT, NPM, stands=NPM)
        likely.add(ROOT, f"Module number {number} belongs to team {number}.")
        for doubted in range(3):
            likely.add(ROOT, f"Row {number} of {doubted} is empty.", doubt=1.0)

    assert likely.like([ROOT], PNPM) is None


def test_of_many_roots_those_that_were_spoken_of_last_are_held(likely: TentativeStatements) -> None:
    for number in range(63):
        likely.add(Root(f"/{number}", Scope.REPO), NPM)
    assert likely.like([ROOT], PNPM) == TentativeStatement(ROOT, NPM, stands=NPM)

    likely.add(ROOT, NPM)
    for number in range(64):
        likely.add(Root(f"/{number}/x", Scope.REPO), NPM)
    assert likely.like([ROOT], PNPM) is None
