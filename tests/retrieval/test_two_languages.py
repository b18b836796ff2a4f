"""What two models found, each in its own languages, as one list."""

from __future__ import annotations

import asyncio
import time

import pytest

from forged.errors import ProviderError
from forged.retrieval.two_languages import TwoLanguages, merged
from forged.scopes import Question, Ranked, Rows, Stayed
from tests.data.memories import memory
from tests.support.clock import PATIENCE_S

TEXTS = {"e1": "deploy", "e2": "test", "e3": "tea", "z1": "部署", "z2": "测试", "z3": "喝茶"}


def rows(*names: str, via: str = "search", stayed: tuple[str, ...] = (), evidence: float = 1.0) -> Rows:
    ranked = tuple(Ranked(memory(name, TEXTS[name]), 1.0, via=via, root="/r") for name in names)
    out = tuple(Stayed(memory(name, TEXTS[name]), "/r", "faint", 0.0) for name in stayed)
    return Rows(ranked, out, evidence)


def question(message: str = "when", top_k: int = 10, within_s: float = PATIENCE_S) -> Question:
    deadline = time.monotonic() + within_s
    return Question(
        texts=(message,), message=message, vectors=None, top_k=top_k, hop_depth=0, deadline=deadline
    )


def ids(found: Rows) -> list[str]:
    return [each.memory.id for each in found.ranked]


def test_the_best_of_each_language_come_in_turn_and_of_equals_the_querys_language_first():
    own, second = rows("e1", "e2", "e3"), rows("z1", "z2")

    assert ids(merged(own, second, question("when"))) == ["e1", "z1", "e2", "z2", "e3"]
    assert ids(merged(own, second, question("什么时候"))) == ["z1", "e1", "z2", "e2", "e3"]


def test_what_words_and_vectors_both_find_counts_among_its_own_and_not_twice_against_the_others():
    own, second = rows("z2", "z1", "z3", "e1"), rows("z1", "z2", "z3")

    assert ids(merged(own, second, question("when"))) == ["e1", "z1", "z2", "z3"]


def test_as_many_come_as_are_wanted_and_hops_on_top():
    own = rows("e1", "e2")
    own = Rows((*own.ranked, *rows("e3", via="hop").ranked), (), 2.0)

    found = merged(own, rows("z1", "z2", evidence=3.0), question(top_k=2))

    assert ids(found) == ["e1", "z1", "e3"]
    assert found.evidence == 3.0


def test_what_one_model_holds_back_and_the_other_finds_is_not_among_what_stayed():
    found = merged(rows("e1", stayed=("z1", "z2")), rows("z1"), question())

    assert [each.memory.id for each in found.stayed] == ["z2"]


class Says:
    """A source that says what it is told to, fails, or never answers."""

    name = "cjk"

    def __init__(self, found: Rows | Exception | None) -> None:
        self._found = found

    async def search(self, _: Question) -> Rows:
        if self._found is None:
            await asyncio.Event().wait()
        if isinstance(self._found, Exception):
            raise self._found
        assert isinstance(self._found, Rows)
        return self._found


@pytest.mark.parametrize(
    ("second", "late"),
    [(None, "cjk was late"), (ProviderError("down", reason="unreachable"), "cjk failed")],
    ids=["late", "failing"],
)
async def test_a_second_model_that_is_missing_is_named_and_delays_nothing(second, late):
    both = TwoLanguages(Says(rows("e1")), Says(second))

    found = await both.search(question(within_s=0.05))

    assert (ids(found), both.late) == (["e1"], (late,))


async def test_both_are_asked_at_once():
    both = TwoLanguages(Says(rows("e1")), Says(rows("z1")))

    assert (ids(await both.search(question())), both.late) == (["e1", "z1"], ())
