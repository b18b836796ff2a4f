"""Training of the classifier's linear model: choice of the threshold, and selection of turns."""

from __future__ import annotations

import pytest

from tests.training import data
from tests.training.train_linear_model import bar_of, curve, parts

NOTE = data.Note(("pnpm",), "repo", "project-conventions", False)
MESSAGES, TURNS = 100, 100


def message(keep: tuple[data.Note, ...] = (), store: str = "") -> data.Message:
    return data.Message("m", "en", "rule", ({"role": "user", "content": "pnpm"},), keep, store)


SAID = [*[message((NOTE,))] * MESSAGES, *[message(store=f"s{place % 7}") for place in range(TURNS)]]
ALL_RIGHT = [(9.0 - place / 50, [0], place) for place in range(MESSAGES)]


def test_the_bar_is_above_all_but_a_few_turns_even_where_every_message_is_right():
    assert bar_of(ALL_RIGHT, SAID) < 9.0 - (MESSAGES - 1) / 50
    turns = [(8.5, [], MESSAGES), (7.5, [], MESSAGES + 1), (7.5, [], MESSAGES + 1), (1.0, [], MESSAGES + 2)]
    assert bar_of(sorted([*ALL_RIGHT, *turns], key=lambda each: -each[0]), SAID) == pytest.approx(
        7.5, abs=0.02
    )


def test_turns_are_no_wrong_messages():
    found = [(9.5, [], MESSAGES), *ALL_RIGHT]
    last = list(curve(found, SAID))[-1]
    assert (last.precision, last.recall, last.kept, last.turns) == (1.0, 1.0, MESSAGES, 1 / TURNS)


def test_turns_of_a_store_are_all_in_one_part():
    found = parts(SAID)
    of_store = {each.store: found[place] for place, each in enumerate(SAID) if each.store}
    assert all(found[place] == of_store[each.store] for place, each in enumerate(SAID) if each.store)
    assert len(set(of_store.values())) > 1


def test_turns_that_may_be_worth_keeping_are_left_out_and_nothing_of_the_others_is_kept():
    lasting = data.LASTING.read_text().splitlines()
    turns = data.turns()
    assert len(turns) == 420 - len(lasting)
    assert not {each.id for each in turns} & {"\t".join(line.split("\t")[:2]) for line in lasting}
    found = [each for each in data.examples(turns) if each.message >= 0]
    assert {each.message for each in found} == set(range(len(turns)))
    assert not any(each.keep for each in found)


def test_a_turn_is_scored_after_the_agents_message_before_it():
    first, second = data.turns()[:2]
    assert [each.role for each in first.window] == ["user"]
    assert [each.role for each in second.window] == ["assistant", "user"]
