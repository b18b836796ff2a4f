"""Maps: the attributes of each memory besides its words and its vector."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.map.parts import Traits
from forged.map.vector_map import occasions
from forged.memory import Memory

START = 1_715_083_200  # noon of 7 May 2024


def written(content="text", created_at=""):
    return Memory("m", content, created_at, "", 1, "repo", "patterns", "s", "explicit")


@pytest.mark.parametrize(
    ("created_at", "seconds"),
    [
        ("1970-01-02T00:00:00Z", 86_400),
        ("1970-01-02", 86_400),
        ("1970-01-02T01:00:00+01:00", 86_400),
        ("1970-01-01T19:00:00-05:00", 86_400),
        ("1970-01-02T00:00:00.999999999Z", 86_400),
        ("9999-12-31T23:59:59-12:00", 253_402_343_999),
        ("0001-01-01T00:00:00+12:00", 0),
        ("1969-12-31T23:59:59Z", 0),
        ("yesterday", 0),
        ("", 0),
    ],
)
def test_created_is_seconds_since_the_epoch_in_utc_and_0_if_unknown(created_at, seconds):
    assert Traits.of([written(created_at=created_at)]).created.tolist() == [seconds]


@given(st.data())
@settings(deadline=None)
def test_traits_after_an_edit_equal_those_of_all_memories(data):
    texts, times = st.sampled_from(["words", "迁移脚本"]), st.sampled_from(["", "2024-05-07", "2024-05-08"])
    memories = st.builds(written, texts, times)
    old = data.draw(st.lists(memories, max_size=8))
    kept = sorted(data.draw(st.sets(st.integers(0, len(old) - 1)))) if old else []
    new: list[Memory] = [old[row] for row in kept]
    for _ in range(data.draw(st.integers(0, 3))):
        new.insert(data.draw(st.integers(0, len(new))), data.draw(memories))
    places = [next((i for i in kept if old[i] is each), -1) for each in new]
    fresh = [row for row, place in enumerate(places) if place < 0]
    if new and data.draw(st.booleans()):  # its text stays
        new[0] = written(new[0].content, "2020-01-01")
        fresh.append(0)

    edited = Traits.of(old).after_edit(
        new,
        np.array([place for place in places if place >= 0], np.int32),
        np.array([row for row, place in enumerate(places) if place >= 0], np.int32),
        np.array(fresh, np.int32),
    )

    whole = Traits.of(new)
    assert edited.created.tolist() == whole.created.tolist()
    assert edited.is_cjk.tolist() == whole.is_cjk.tolist()


# --- occasions ------------------------------------------------------------------------------------------


def groups(seconds):
    """Memories by place, in groups of one occasion."""
    found = occasions(np.array(seconds, np.int64))
    return {frozenset(np.flatnonzero(found == number).tolist()) for number in found.tolist()}


def test_memories_within_an_hour_of_one_another_are_one_occasion_in_a_chain():
    assert groups([START, START + 3600, START + 2 * 3600]) == {frozenset({0, 1, 2})}


@pytest.mark.parametrize(("count", "occasions_found"), [(50, 1), (51, 51)])
def test_more_than_fifty_in_a_row_are_an_import_and_stand_alone(count, occasions_found):
    assert len(groups(range(START, START + count))) == occasions_found


TIMES = st.lists(
    st.sampled_from([0, 1, 100_000, 103_600, 103_601, 107_300, 200_000]), min_size=1, max_size=70
)


@given(TIMES, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_occasions_do_not_depend_on_the_order_of_memories(seconds, random):
    order = list(range(len(seconds)))
    random.shuffle(order)

    moved = groups([seconds[place] for place in order])

    assert {frozenset(order[place] for place in group) for group in moved} == groups(seconds)


@given(TIMES)
@settings(deadline=None)
def test_a_group_is_all_of_a_chain_or_one_alone(seconds):
    for group in groups(seconds):
        times = sorted(seconds[place] for place in group)
        assert len(group) <= 50
        assert all(after - before <= 3600 for before, after in pairwise(times))
        assert len(group) == 1 or times[0] > 0
