"""Chains and hops on any graph that people can make by hand: forks, cycles, ids that lead nowhere.

The oracles are naive on purpose: chains by merging sets until nothing moves, hops by all paths of a length.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.map.chains import build_chains, follow_links
from forged.memory import Memory, Related
from tests.data.memories import memory

IDS = [f"m{n}" for n in range(8)]
STAMPS = ["2025-01-01T00:00:00Z", "2025-01-01T00:00:00.000000001Z", "2024-06-01T10:00:00+11:00", "no time"]


# --- chains ------------------------------------------------------------------------------------------


def versions(*pairs: tuple[str, str | None]) -> list[Memory]:
    """Memories `(id, supersedes)`, numbered as they come."""
    return [
        memory(name, name, supersedes=older, version=number) for number, (name, older) in enumerate(pairs, 1)
    ]


def linked(one: Memory, other: str, how: str) -> Memory:
    return msgspec.structs.replace(one, related=(Related(other, how),))


def test_the_head_of_a_fork_is_the_greatest_version_then_the_newest_then_the_last_id():
    root = memory("r", "x")
    sides = [
        memory("a", "x", supersedes="r", version=2, created_at="2025-01-02T00:00:00Z"),
        memory("b", "x", supersedes="r", version=2, created_at="2025-01-02T00:00:00+01:00"),
        memory("c", "x", supersedes="r", version=2, created_at="2025-01-02T00:00:00Z"),
    ]

    chains = build_chains([root, *sides])

    assert chains.head("r") == "c"
    assert chains.chain("c") == ("r", "b", "a", "c")
    assert chains.flags == {"c": ("fork",)}


def test_all_heads_of_a_fork_are_heads_until_one_replaces_the_other():
    """They were made without knowing of each other, so nobody has said which holds."""
    root, a, b = versions(("r", None), ("a", "r"), ("b", "r"))
    forked = build_chains([root, a, b])
    ahead = memory("a2", "x", supersedes="a", version=9)
    joined = linked(memory("b2", "x", supersedes="b", version=9), "a", "supersedes")

    assert [name for name in "rab" if forked.is_head(name)] == ["a", "b"]
    assert (forked.concurrent_with("a"), forked.concurrent_with("b"), forked.concurrent_with("r")) == (
        ("b",),
        ("a",),
        (),
    )
    assert build_chains([root, a, b, ahead]).concurrent_with("a2") == ("b",)
    assert (
        build_chains([root, a, b, joined]).concurrent_heads,
        build_chains([root, a, b, joined]).flags,
    ) == ({}, {})


@pytest.mark.parametrize(
    ("pairs", "chain", "flags"),
    [
        ([("v1", None), ("v2", "v1"), ("v3", "v2")], ("v1", "v2", "v3"), ()),
        ([("a", "b"), ("b", "a")], ("a", "b"), ("cycle",)),
        ([("a", "a")], ("a",), ("cycle",)),
        ([("v2", "gone"), ("v3", "v2")], ("v2", "v3"), ("missing:gone",)),
    ],
    ids=["in order", "of each other", "of itself", "of nothing"],
)
def test_a_chain_is_its_members_oldest_first_and_the_newest_is_the_head(pairs, chain, flags):
    chains = build_chains(versions(*pairs))

    for name in chain:
        assert (chains.head(name), chains.chain(name)) == (chain[-1], chain)
        assert chains.is_head(name) == (name == chain[-1])
    assert chains.flags == ({chain[-1]: flags} if flags else {})


def test_versions_whose_common_root_is_gone_are_still_one_chain():
    chains = build_chains(versions(("a", "gone"), ("b", "gone")))

    assert chains.head("a") == "b"
    assert chains.flags == {"b": ("missing:gone", "fork")}


def test_a_chain_of_ten_thousand_versions_ends():
    chains = build_chains([memory(f"v{n}", "x", supersedes=f"v{n - 1}", version=n) for n in range(1, 10_001)])

    assert chains.head("v1") == "v10000"


MEMORIES = st.dictionaries(
    st.sampled_from(IDS[:6]),
    st.tuples(st.one_of(st.none(), st.sampled_from([*IDS, ""])), st.integers(1, 3), st.sampled_from(STAMPS)),
).map(
    lambda found: [
        memory(name, name, supersedes=older, version=version, created_at=stamp)
        for name, (older, version, stamp) in found.items()
    ]
)


def naive_groups(memories: list[Memory]) -> list[set[str]]:
    groups = [{m.id, m.supersedes} for m in memories if m.supersedes] + [{m.id} for m in memories]
    while True:
        for group in groups:
            other = next((o for o in groups if o is not group and o & group), None)
            if other is not None:
                groups = [g for g in groups if g not in (group, other)] + [group | other]
                break
        else:
            present = {m.id for m in memories}
            return [group & present for group in groups if group & present]


@given(MEMORIES)
def test_chains_are_what_a_naive_search_finds(memories):
    chains = build_chains(memories)
    by_id = {m.id: m for m in memories}

    for group in naive_groups(memories):
        ordered = sorted(group, key=lambda name: by_id[name].age_key)
        replaced = {by_id[name].supersedes for name in group if by_id[name].supersedes != name}
        heads = {ordered[-1]} | (group - replaced if len(group - replaced) > 1 else set())
        for name in group:
            assert chains.head(name) == ordered[-1]
            assert chains.chain(name) == tuple(ordered)
            assert chains.is_head(name) == (name in heads)
            assert set(chains.concurrent_with(name)) == (heads - {name} if name in heads else set())


@given(MEMORIES, st.randoms())
def test_chains_do_not_depend_on_the_order_of_the_files(memories, random):
    shuffled = random.sample(memories, len(memories))
    one, other = build_chains(memories), build_chains(shuffled)

    assert (one.head_of, one.members, one.flags, one.concurrent_heads) == (
        other.head_of,
        other.members,
        other.flags,
        other.concurrent_heads,
    )


@given(MEMORIES)
def test_flags_name_exactly_the_links_that_are_odd(memories):
    chains, present = build_chains(memories), {m.id: m for m in memories}

    named = {flag for flags in chains.flags.values() for flag in flags if flag.startswith("missing:")}
    assert named == {
        f"missing:{m.supersedes}" for m in memories if m.supersedes and m.supersedes not in present
    }
    on_cycle = {m.id for m in memories if _comes_back(m, present)}
    assert {head for head, flags in chains.flags.items() if "cycle" in flags} == {
        chains.head(name) for name in on_cycle
    }


def _comes_back(start: Memory, present: dict[str, Memory]) -> bool:
    current: Memory | None = start
    for _ in range(len(present)):
        current = present.get(current.supersedes or "") if current is not None else None
        if current is start:
            return True
    return False


# --- hops --------------------------------------------------------------------------------------------


def test_hops_go_step_by_step_and_end_at_the_depth():
    edges = {"a": ["b"], "b": ["c"], "c": ["d"]}

    found = [follow_links(["a"], lambda i: edges.get(i, []), depth=depth, limit=9) for depth in range(4)]

    assert found == [[], ["b"], ["b", "c"], ["b", "c", "d"]]


def test_each_memory_is_looked_at_once():
    asked: list[str] = []

    def neighbours(name: str) -> list[str]:
        asked.append(name)
        return {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["a"]}[name]

    follow_links(["a"], neighbours, depth=3, limit=9)

    assert sorted(asked) == ["a", "b", "c", "d"]


EDGES = st.dictionaries(st.sampled_from(IDS), st.lists(st.sampled_from(IDS), max_size=5))


@given(EDGES, st.lists(st.sampled_from(IDS), unique=True, max_size=3), st.integers(0, 3))
def test_hops_reach_what_some_path_of_that_length_reaches_nearest_first(edges, seeds, depth):
    distance = dict.fromkeys(seeds, 0)
    paths = [[seed] for seed in seeds]
    for steps in range(1, depth + 1):
        paths = [[*path, other] for path in paths for other in set(edges.get(path[-1], []))]
        for path in paths:
            distance.setdefault(path[-1], steps)

    found = follow_links(seeds, lambda i: edges.get(i, []), depth=depth, limit=len(IDS) + 1)

    assert sorted(found) == sorted(name for name, steps in distance.items() if steps)
    assert [distance[name] for name in found] == sorted(distance[name] for name in found)


@given(EDGES, st.lists(st.sampled_from(IDS), unique=True, max_size=3), st.integers(0, 3), st.integers(1, 4))
def test_the_limit_takes_the_nearest_and_nothing_else(edges, seeds, depth, limit):
    def neighbours(name: str) -> list[str]:
        return edges.get(name, [])

    whole = follow_links(seeds, neighbours, depth=depth, limit=99)

    assert follow_links(seeds, neighbours, depth=depth, limit=limit) == whole[:limit]
