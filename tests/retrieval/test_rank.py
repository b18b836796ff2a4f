"""Lists of several sources as one list, by rank alone."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.retrieval.rank import fused, search_all
from forged.scopes import Question, Ranked, Rows
from tests.data.memories import memory
from tests.support.clock import PATIENCE_S


def rows(*names: str, text: str = "x") -> list[Ranked]:
    return [Ranked(memory(name, text), 1.0 / place) for place, name in enumerate(names, 1)]


def ids(ranked: list[Ranked]) -> list[str]:
    return [each.memory.id for each in ranked]


def test_what_two_sources_have_comes_before_what_one_of_them_has_first():
    assert ids(fused([rows("a", "both"), rows("b", "c", "both")])) == ["both", "a", "b", "c"]


def test_of_equal_rank_the_earlier_source_comes_first():
    assert ids(fused([rows("a1", "a2"), rows("b1", "b2")])) == ["a1", "b1", "a2", "b2"]


def test_of_two_rows_of_one_memory_the_earlier_sources_is_kept():
    (row,) = fused([rows("a", text="of the files"), rows("a", text="of the replica")])

    assert row.memory.content == "of the files"


def test_one_list_stays_as_it_is():
    assert ids(fused([rows("a", "b", "c")])) == ["a", "b", "c"]


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True), max_size=4))
def test_every_memory_is_there_once_and_each_list_keeps_its_order_against_the_unlisted(lists):
    found = ids(fused([rows(*names) for names in lists]))

    assert sorted(found) == sorted({name for names in lists for name in names})
    for names in lists:
        lone = [name for name in names if sum(name in other for other in lists) == 1]
        assert [name for name in found if name in lone] == lone


class Known:
    """A source that has these rows."""

    def __init__(self, name: str, *names: str) -> None:
        self.name = name
        self._rows = Rows(tuple(rows(*names)), evidence=5.0)

    async def search(self, question: Question) -> Rows:
        del question
        return self._rows


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"least_evidence": float("-inf")}, 10),
        ({"least_evidence": 2.0, "vectors": np.ones((1, 2), np.float32)}, 5),
        ({"least_evidence": 2.0, "vectors": np.ones((1, 2), np.float32), "turn": 1}, 10),
        ({"least_evidence": 2.0, "turn": 9}, 3),
        ({"least_evidence": 2.0, "turn": 9, "beside": frozenset({("", "b0")})}, 4),
    ],
    ids=["no gate", "alone", "first turn", "late turn", "what comes anyhow"],
)
async def test_several_sources_bring_no_more_than_one_might(fields, wanted):
    question = Question(
        texts=("q",),
        message="q",
        top_k=10,
        hop_depth=0,
        deadline=time.monotonic() + PATIENCE_S,
        **{"vectors": None} | fields,
    )
    sources = [Known(name, *(f"{name}{number}" for number in range(9))) for name in "abc"]

    found, missing = await search_all(sources[0], sources[1:], question)

    assert (len(found.ranked), missing) == (wanted, ())
    assert {each.memory.id[0] for each in found.ranked} == {"a", "b", "c"}
