"""Lists of several stores as one list, by distance or by rank, and what becomes of a missing store."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.attributes import Facts
from forged.errors import ProviderError
from forged.memory import Scope
from forged.stores import Limits, Question, Ranked, SearchResult, StoreSearch, View, matches_filters
from forged.stores.merging import merge_models, merge_ranked, merge_recalled, merge_stores
from tests.data.maps import vector_map
from tests.data.memories import memory
from tests.support.clock import PATIENCE_S


def asked(message: str = "when", within_s: float = PATIENCE_S, **fields) -> Question:
    reported = {
        "vectors": None,
        "top_k": 10,
        "hop_depth": 0,
        "deadline": time.monotonic() + within_s,
    } | fields
    return Question(texts=(message,), message=message, **reported)


def ids(ranked) -> list[str]:
    return [each.memory.id for each in ranked]


# --- by rank ---------------------------------------------------------------------------------------------


def rows(*names: str, text: str = "x") -> list[Ranked]:
    return [Ranked(memory(name, text), 1.0 / place) for place, name in enumerate(names, 1)]


def fused(lists) -> list[Ranked]:
    return [row for row, _ in merge_ranked(lists, attrgetter("key"))]


def test_what_two_stores_have_comes_before_what_one_of_them_has_first():
    assert ids(fused([rows("a", "both"), rows("b", "c", "both")])) == ["both", "a", "b", "c"]


def test_of_equal_rank_the_earlier_store_comes_first():
    assert ids(fused([rows("a1", "a2"), rows("b1", "b2")])) == ["a1", "b1", "a2", "b2"]


def test_of_two_rows_of_one_memory_the_earlier_stores_is_kept():
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


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"least_evidence": float("-inf")}, 10),
        ({"least_evidence": 2.0, "vectors": np.ones((1, 2), np.float32)}, 6),
        ({"least_evidence": 2.0, "vectors": np.ones((1, 2), np.float32), "turn": 1}, 10),
        ({"least_evidence": 2.0, "turn": 9}, 3),
        ({"least_evidence": 2.0, "turn": 9, "pinned": frozenset({("", "b0")})}, 4),
    ],
    ids=["no gate", "alone", "first turn", "late turn", "what comes anyhow"],
)
def test_several_stores_bring_no_more_than_one_might(fields, wanted):
    found = [
        SearchResult(tuple(rows(*(f"{name}{number}" for number in range(9)))), evidence=5.0) for name in "abc"
    ]

    best = merge_stores(found, asked(**fields)).ranked

    assert len(best) == wanted
    assert {each.memory.id[0] for each in best} == {"a", "b", "c"}


# --- two languages ---------------------------------------------------------------------------------------

TEXTS = {"e1": "deploy", "e2": "test", "e3": "tea", "z1": "部署", "z2": "测试", "z3": "喝茶"}


def rows_of(
    *names: str, found_by: str = "search", rejected: tuple[str, ...] = (), evidence: float = 1.0
) -> SearchResult:
    ranked = tuple(Ranked(memory(name, TEXTS[name]), 1.0, found_by=found_by, root="/r") for name in names)
    out = tuple(
        Ranked(memory(name, TEXTS[name]), 0.0, root="/r", rejected="faint", evidence=0.0) for name in rejected
    )
    return SearchResult(ranked, out, evidence)


def test_the_best_of_each_language_come_in_turn_and_of_equals_the_querys_language_first():
    own, second = rows_of("e1", "e2", "e3"), rows_of("z1", "z2")

    assert ids(merge_models(own, second, asked("when")).ranked) == ["e1", "z1", "e2", "z2", "e3"]
    assert ids(merge_models(own, second, asked("什么时候")).ranked) == ["z1", "e1", "z2", "e2", "e3"]


def test_what_words_and_vectors_both_find_counts_among_its_own_and_not_twice_against_the_others():
    own, second = rows_of("z2", "z1", "z3", "e1"), rows_of("z1", "z2", "z3")

    assert ids(merge_models(own, second, asked("when")).ranked) == ["e1", "z1", "z2", "z3"]


def test_as_many_come_as_are_wanted_and_linked_ones_on_top():
    own = rows_of("e1", "e2")
    own = SearchResult((*own.ranked, *rows_of("e3", found_by="link").ranked), (), 2.0)

    found = merge_models(own, rows_of("z1", "z2", evidence=3.0), asked(top_k=2))

    assert ids(found.ranked) == ["e1", "z1", "e3"]
    assert found.evidence == 3.0


class Says:
    """A second model that says what it is told to, fails, or never answers."""

    def __init__(self, found: SearchResult | Exception | None) -> None:
        self._found = found

    async def search(self, _: Question) -> SearchResult:
        if self._found is None:
            await asyncio.Event().wait()
        if isinstance(self._found, Exception):
            raise self._found
        assert isinstance(self._found, SearchResult)
        return self._found


@pytest.mark.parametrize(
    ("second", "found", "missing"),
    [
        (None, ["e1"], ("cjk was late",)),
        (ProviderError("down", reason="unreachable"), ["e1"], ("cjk failed",)),
        (rows_of("z1"), ["e1", "z1"], ()),
    ],
    ids=["late", "failing", "there"],
)
async def test_a_second_model_that_is_missing_is_named_and_delays_nothing(second, found, missing):
    within_s = 0.05 if second is None else PATIENCE_S
    with ThreadPoolExecutor(1) as thread:
        search = StoreSearch(lexical_weight=0.3, thread=thread, second=lambda *_: (Says(second), "key"))
        own = View((vector_map([memory("e1", "deploy")]),))
        rows_ = await search.search((), asked("deploy", within_s), own=own)

    assert (ids(rows_.ranked), rows_.missing) == (found, missing)


# --- a recall --------------------------------------------------------------------------------------------

SEED = Limits({Scope.SESSION: 10, Scope.USER: 5, Scope.AGENT: 3, Scope.ORG: 5}, 10)


def found(scope: str, *cosines: float | None, model: str = "m", names: str = "") -> list[Ranked]:
    ids = names or [f"{scope}{number:02}" for number in range(len(cosines))]
    return [
        Ranked(memory(name, "x", scope=scope), cosine or 0.0, cosine=cosine, model=model)
        for name, cosine in zip(ids, cosines, strict=True)
    ]


def combined(lists, limits) -> list[Ranked]:
    return list(limits.within(merge_recalled(lists, (), "when")))


def test_rows_of_one_model_are_ordered_by_their_distance_over_all_scopes():
    lists = [found("session", 0.9, 0.2), found("user", 0.5), found("org", 0.7, 0.1)]

    rows = combined(lists, SEED)

    assert ids(rows) == ["session00", "org00", "user00", "session01", "org01"]
    assert [each.distance for each in rows] == pytest.approx([0.1, 0.3, 0.5, 0.8, 0.9])
    assert [each.score for each in rows] == sorted((each.score for each in rows), reverse=True)


@pytest.mark.parametrize(
    "other",
    [found("user", 0.99, 0.98, model="other"), found("user", None, 0.98)],
    ids=["of another model", "without a vector"],
)
def test_where_distances_cannot_be_compared_the_places_in_the_lists_decide(other):
    rows = combined([found("session", 0.3, 0.2), other], SEED)

    assert ids(rows) == ["session00", "user00", "session01", "user01"]


def test_of_twenty_in_each_scope_come_ten_five_three_and_five_at_most_23():
    lists = [found(scope, *(0.9 - 0.01 * at for at in range(20))) for scope in SEED.of]

    rows = combined(lists, SEED)

    scopes = [each.memory.scope for each in rows]
    assert {scope: scopes.count(scope) for scope in SEED.of} == dict(SEED.of)
    assert len(rows) == 23


def test_the_users_and_the_agents_memories_are_ten_together_whatever_their_own_limits():
    limits = Limits({Scope.USER: 50, Scope.AGENT: 50, Scope.ORG: 50}, 10)
    lists = [
        found(scope, *(start - 0.01 * at for at in range(8)))
        for scope, start in (("user", 0.9), ("agent", 0.895), ("org", 0.2))
    ]

    scopes = [each.memory.scope for each in combined(lists, limits)]

    assert (scopes.count("user"), scopes.count("agent"), scopes.count("org")) == (5, 5, 8)


def test_equal_distances_keep_the_order_of_the_scopes():
    lists = [found("session", 0.5, 0.5), found("user", 0.5)]

    assert ids(combined(lists, SEED)) == ["session00", "session01", "user00"]


def test_a_memory_of_a_file_and_its_copy_on_a_server_are_one_and_the_file_is_shown():
    files, server = found("user", 0.5, names="a"), found("user", 0.5, 0.4, names="ab")

    rows = combined([files, server], SEED)

    assert ids(rows) == ["a", "b"]
    assert rows[0].memory is files[0].memory


@given(
    st.lists(st.lists(st.one_of(st.none(), st.floats(-1, 1)), max_size=12), min_size=len(SEED.of), max_size=4)
)
def test_nothing_comes_twice_and_no_limit_is_passed_whatever_was_found(cosines):
    lists = [found(scope, *rows) for scope, rows in zip(SEED.of, cosines, strict=True)]

    rows = combined(lists, SEED)

    assert len(set(ids(rows))) == len(rows)
    for scope, limit in SEED.of.items():
        own = [each for each in rows if each.memory.scope == scope]
        assert len(own) == min(limit, len(lists[list(SEED.of).index(scope)]))


@pytest.mark.parametrize(
    ("metadata", "filters", "is_meant"),
    [
        ({}, {}, True),
        ({"topic": "debug", "turn": 5}, {"topic": "debug"}, True),
        ({"topic": "debug", "turn": 5}, {"topic": "debug", "turn": 5.0}, True),
        ({"topic": "debug"}, {"topic": "debug", "turn": 5}, False),
        ({"topic": "debugging"}, {"topic": "debug"}, False),
        ({"done": True}, {"done": 1}, False),
        ({"done": None}, {"done": None}, True),
        ({}, {"done": None}, False),
        ({"tags": ["a", "b"]}, {"tags": ["a", "b"]}, True),
        ({"tags": [True]}, {"tags": [1]}, False),
        ({"at": {"line": 1}}, {"at": {"line": 1}}, True),
        ({"at": {"line": True}}, {"at": {"line": 1}}, False),
    ],
)
def test_a_filter_wants_every_key_with_that_very_value(metadata, filters, is_meant):
    assert matches_filters(Facts(metadata=metadata), filters, 0.5) is is_meant


@pytest.mark.parametrize(("importance", "is_meant"), [(0.49, False), (0.5, True), (1.0, True)])
def test_what_is_less_important_than_wanted_is_not_returned(importance, is_meant):
    assert matches_filters(Facts(importance=importance), {}, 0.5) is is_meant
