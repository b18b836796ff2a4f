"""What several scopes found, as one list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.memory import Scope
from forged.retrieval import Facts, Limits, Recollection, combined, is_asked_for
from forged.scopes import Ranked
from tests.data.memories import memory

SEED = Limits({Scope.SESSION: 10, Scope.USER: 5, Scope.AGENT: 3, Scope.ORG: 5}, 10)


def found(scope: str, *cosines: float | None, model: str = "m", names: str = "") -> list[Recollection]:
    ids = names or [f"{scope}{number:02}" for number in range(len(cosines))]
    return [
        Recollection(Ranked(memory(name, "x", scope=scope), cosine or 0.0, cosine=cosine), model=model)
        for name, cosine in zip(ids, cosines, strict=True)
    ]


def ids(rows) -> list[str]:
    return [each.ranked.memory.id for each in rows]


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

    scopes = [each.ranked.memory.scope for each in rows]
    assert {scope: scopes.count(scope) for scope in SEED.of} == dict(SEED.of)
    assert len(rows) == 23


def test_the_users_and_the_agents_memories_are_ten_together_whatever_their_own_limits():
    limits = Limits({Scope.USER: 50, Scope.AGENT: 50, Scope.ORG: 50}, 10)
    lists = [
        found(scope, *(start - 0.01 * at for at in range(8)))
        for scope, start in (("user", 0.9), ("agent", 0.895), ("org", 0.2))
    ]

    scopes = [each.ranked.memory.scope for each in combined(lists, limits)]

    assert (scopes.count("user"), scopes.count("agent"), scopes.count("org")) == (5, 5, 8)


def test_equal_distances_keep_the_order_of_the_scopes():
    lists = [found("session", 0.5, 0.5), found("user", 0.5)]

    assert ids(combined(lists, SEED)) == ["session00", "session01", "user00"]


def test_a_memory_of_a_file_and_its_copy_on_a_server_are_one_and_the_file_is_shown():
    files, server = found("user", 0.5, names="a"), found("user", 0.5, 0.4, names="ab")

    rows = combined([files, server], SEED)

    assert ids(rows) == ["a", "b"]
    assert rows[0].ranked is files[0].ranked


@given(
    st.lists(st.lists(st.one_of(st.none(), st.floats(-1, 1)), max_size=12), min_size=len(SEED.of), max_size=4)
)
def test_nothing_comes_twice_and_no_limit_is_passed_whatever_was_found(cosines):
    lists = [found(scope, *rows) for scope, rows in zip(SEED.of, cosines, strict=True)]

    rows = combined(lists, SEED)

    assert len(set(ids(rows))) == len(rows)
    for scope, limit in SEED.of.items():
        own = [each for each in rows if each.ranked.memory.scope == scope]
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
    assert is_asked_for(Facts(metadata=metadata), filters, 0.5) is is_meant


@pytest.mark.parametrize(("importance", "is_meant"), [(0.49, False), (0.5, True), (1.0, True)])
def test_what_is_less_important_than_wanted_is_not_returned(importance, is_meant):
    assert is_asked_for(Facts(importance=importance), {}, 0.5) is is_meant
