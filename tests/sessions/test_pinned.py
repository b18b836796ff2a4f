"""Pinned memories of a session, and their order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forged.memory import Memory
from forged.sessions.pinned import choose_pinned
from tests.data.maps import vector_map
from tests.data.memories import memory

TRUSTED = {"/repo", "/home"}
KINDS = ("corrections", "coding-preferences", "project-conventions", "patterns")


def one(name: str, category: str, *, origin: str = "", scope: str = "repo", at: str = "2025") -> Memory:
    return replace(
        memory(name, f"text of {name}", scope=scope, created_at=at), category=category, origin=origin
    )


def chosen(
    repo: tuple[Memory, ...],
    user: tuple[Memory, ...] = (),
    *,
    budget: int = 1_000,
    trusted=TRUSTED,
    uses=None,
) -> list[str]:
    maps = vector_map(repo), vector_map(user, root="/home", scope="user")
    used = uses or {}
    heads = choose_pinned(maps, trusted, budget, lambda _: used, lambda _: 10)
    return [each.id for _, each in heads]


REPO = (
    one("convention-a", "project-conventions", at="2025-01"),
    one("convention-b", "project-conventions", at="2025-02"),
    one("correction", "corrections"),
    one("fact", "patterns"),
    one("preference-of-repo", "coding-preferences"),
)
USER = (one("preference", "coding-preferences", scope="user"), one("who", "user-facts", scope="user"))


def test_corrections_come_first_then_the_users_preferences_then_conventions_newest_first():
    assert chosen(REPO, USER, budget=69) == ["correction", "preference", "convention-b", "convention-a"]


def test_what_most_sessions_searched_for_comes_before_what_is_newer():
    found = chosen(REPO, USER, budget=69, uses={"convention-a": 2, "convention-b": 1})

    assert found == ["correction", "preference", "convention-a", "convention-b"]


def test_the_budget_is_never_exceeded():
    assert [len(chosen(REPO, USER, budget=budget)) for budget in (0, 9, 34, 44, 69)] == [0, 0, 2, 3, 4]


@pytest.mark.parametrize("most", ["corrections", "coding-preferences", "project-conventions"])
def test_no_kind_takes_the_room_of_another(most):
    """A store has many of one kind, and three of each other one."""
    counts = {kind: 40 if kind == most else 3 for kind in KINDS[:3]}
    repo = tuple(
        one(f"{kind}{n:02}", kind, scope="user" if kind == "coding-preferences" else "repo")
        for kind, count in counts.items()
        for n in range(count)
    )
    user = tuple(each for each in repo if each.scope == "user")

    found = chosen(tuple(each for each in repo if each.scope == "repo"), user, budget=150)

    kinds = Counter(name.rstrip("0123456789") for name in found)
    assert {kind: kinds[kind] for kind in counts if kind != most} == {k: 3 for k in counts if k != most}
    assert kinds[most] >= 7, "more than its share: the others leave theirs"


def test_two_memories_of_one_text_are_pinned_once_however_they_are_written():
    rule = one("rule", "corrections")
    twice = [rule, replace(rule, id="again"), replace(rule, id="spelled", content="  Text of  RULE. ")]

    for budget in (1_000, 34):
        assert len(chosen(tuple(twice), (one("who", "user-facts"),), budget=budget)) <= 2
        assert len({"rule", "again", "spelled"}.intersection(chosen(tuple(twice), budget=budget))) == 1


def test_texts_of_programs_models_and_imports_are_never_pinned():
    for origin in ("model", "agent", "import"):
        assert chosen((one("rule", "corrections", origin=origin),)) == []


def test_a_file_without_a_known_author_is_pinned_only_in_a_trusted_root():
    rule, typed = one("rule", "corrections"), one("typed", "corrections", origin="typed")

    assert chosen((rule, typed), trusted=set()) == ["typed"]
    assert chosen((rule, typed)) == ["rule", "typed"]


STORES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from(("", "typed", "model")), st.integers(0, 3)), max_size=12
)


def stored(place: str, drawn: list[tuple[str, str, int]]) -> tuple[Memory, ...]:
    return tuple(
        one(f"{place}{n:02}", kind, origin=origin, scope=place, at=f"202{year}")
        for n, (kind, origin, year) in enumerate(drawn)
    )


@given(STORES, STORES, st.integers(20, 120), st.dictionaries(st.integers(0, 11), st.integers(1, 3)))
def test_pinned_memories_equal_those_of_a_naive_choice(in_repo, of_user, budget, drawn):
    repo, user = stored("repo", in_repo), stored("user", of_user)
    used = {f"{place}{n:02}": count for n, count in drawn.items() for place in ("repo", "user")}

    assert chosen(repo, user, budget=budget, trusted={"/home"}, uses=used) == one_by_one(
        [*repo, *user], budget, used
    )


def one_by_one(memories: list[Memory], budget: int, used: dict[str, int]) -> list[str]:
    """The rule as it is told, each memory asked for its use and its cost."""
    may = [each for each in memories if each.origin == "typed" or (not each.origin and each.scope == "user")]
    if 10 * len(memories) <= budget:
        return [each.id for each in may]
    found, left = [], budget
    kinds = [("corrections", ""), ("coding-preferences", "user"), ("project-conventions", "repo")]
    for share in (budget // 3, budget):
        for kind, scope in kinds:
            of_kind = [each for each in may if each.category == kind and scope in {"", each.scope}]
            newest = sorted(of_kind, key=lambda each: each.created_at, reverse=True)
            room = min(share, left)
            for each in sorted(newest, key=lambda each: -used.get(each.id, 0)):
                if room >= 24 and each not in found:
                    found, room, left = [*found, each], room - 10, left - 10
    order = [kind for kind, _ in kinds]
    return [each.id for each in sorted(found, key=lambda each: order.index(each.category))]
