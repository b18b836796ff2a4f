import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.memory import Memory
from tests.evaluation import scores
from tests.evaluation.dataset import Item, Query
from tests.evaluation.scores import Score


def item(*labels):
    name = "mem_" + "_".join(labels)
    return Item(Memory(name, "text", "", "", 1, "repo", "patterns", "s", "explicit"), frozenset(labels))


def query(*evidence, kind="direct"):
    return Query("q1", "what?", kind, frozenset(evidence))


A, B, AB, NOTHING = item("a"), item("b"), item("a", "b"), item("other")
FILLER = tuple(item(f"filler{number}") for number in range(30))


def test_recall_is_the_share_of_labels_and_not_of_memories():
    assert scores.recall(query("a", "b"), (A, NOTHING)) == 0.5
    assert scores.recall(query("a", "b"), (NOTHING, AB)) == 1.0
    assert scores.recall(query("a"), (A, AB)) == 1.0
    assert scores.recall(query("a"), ()) == 0.0


def test_each_depth_sees_its_first_memories_only():
    ranked = (*FILLER[:5], A, *FILLER[5:10], B)

    score = scores.judge(query("a", "b"), ranked, (), (*ranked, *FILLER[10:]))

    assert (score.recall_at_5, score.recall_at_10, score.recall_at_20) == (0.0, 0.5, 1.0)
    assert score.memories_at_10 == 10


def test_what_came_by_a_hop_counts_in_a_figure_of_its_own():
    score = scores.judge(query("a"), FILLER[:3], (A,), (*FILLER, A))

    assert (score.recall_at_20, score.ndcg_at_10, score.reciprocal_rank) == (0.0, 0.0, 0.0)
    assert score.recall_with_hops == 1.0
    assert score.memories_at_10 == 3


def test_ndcg_discounts_by_the_logarithm_of_the_rank():
    found = scores.ndcg(query("a", "b"), (NOTHING, A, *FILLER[:3], B), (A, B, NOTHING, *FILLER))

    best = 1 + 1 / math.log2(3)
    assert found == pytest.approx((1 / math.log2(3) + 1 / math.log2(7)) / best)


def test_ndcg_looks_at_ten_memories_and_expects_no_more_than_ten():
    many = tuple(item("a", str(number)) for number in range(15))

    assert scores.ndcg(query("a"), many, many) == pytest.approx(1.0)
    assert scores.ndcg(query("a"), (*FILLER[:10], A), (A, *FILLER)) == 0.0


@given(st.permutations(range(14)), st.sets(st.integers(0, 13), min_size=1))
def test_the_best_order_has_ndcg_1_and_no_order_has_more(order, relevant):
    items = tuple(item("a", str(n)) if n in relevant else item(str(n)) for n in range(14))
    best = tuple(sorted(items, key=lambda i: "a" not in i.labels))

    assert scores.ndcg(query("a"), best, items) == pytest.approx(1.0)
    assert 0.0 <= scores.ndcg(query("a"), [items[n] for n in order], items) <= 1.0 + 1e-12


def test_the_reciprocal_rank_is_that_of_the_first_answer():
    assert scores.reciprocal_rank(query("a", "b"), (NOTHING, B, A)) == 0.5
    assert scores.reciprocal_rank(query("a"), (NOTHING,)) == 0.0


def test_a_summary_is_the_mean_over_queries():
    found = scores.summary("all", [Score("1", "x", recall_at_10=1.0, ndcg_at_10=0.5), Score("2", "y")])

    assert (found.kind, found.queries, found.recall_at_10, found.ndcg_at_10) == ("all", 2, 0.5, 0.25)


def test_kinds_are_summed_up_apart():
    marks = [Score("1", "task", recall_at_5=1.0), Score("2", "direct"), Score("3", "task")]

    found = scores.by_kind(marks)

    assert [(kind.kind, kind.queries, kind.recall_at_5) for kind in found] == [
        ("direct", 1, 0.0),
        ("task", 2, 0.5),
    ]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_the_interval_is_ordered_inside_the_values_and_the_same_each_time(values):
    low, high = scores.interval(values)

    assert min(values) - 1e-12 <= low <= high <= max(values) + 1e-12
    assert scores.interval(values) == (low, high)


def test_more_queries_make_the_interval_narrower():
    few_low, few_high = scores.interval([0.0, 1.0] * 10)
    many_low, many_high = scores.interval([0.0, 1.0] * 200)

    assert few_low < many_low < 0.5 < many_high < few_high
