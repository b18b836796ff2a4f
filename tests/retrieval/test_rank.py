"""Lists of several sources as one list, by rank alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forged.retrieval.rank import fused
from forged.scopes import Ranked
from tests.data.memories import memory


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
