"""Maps and views: what is known of each memory, and what one request sees of several maps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.map.vector_map import Traits, View
from forged.memory import Memory
from tests.data.maps import vector_map
from tests.data.memories import memory


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


def test_offsets_do_not_tear_an_occasion_apart():
    times = ["2024-05-07T12:00:00Z", "2024-05-07T21:10:00+09:00", "2024-05-07T12:20:00+02:00"]

    first, same, other = Traits.of([written(created_at=time) for time in times]).occasion.tolist()

    assert first == same != other


def test_of_looks_at_every_memory():
    traits = Traits.of([written("words"), written("迁移脚本")])

    assert traits.is_cjk.tolist() == [False, True]


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

    edited = Traits.of(old).edited(
        new,
        np.array([place for place in places if place >= 0], np.int32),
        np.array([row for row, place in enumerate(places) if place >= 0], np.int32),
        np.array(fresh, np.int32),
    )

    whole = Traits.of(new)
    assert edited.created.tolist() == whole.created.tolist()
    assert edited.occasion.tolist() == whole.occasion.tolist()
    assert edited.is_cjk.tolist() == whole.is_cjk.tolist()


def test_no_memories_have_empty_traits():
    traits = Traits.of([])

    assert [len(traits.created), len(traits.occasion), len(traits.is_cjk)] == [0, 0, 0]


# --- views --------------------------------------------------------------------------------------------


REPO = vector_map(
    [
        memory("both", "of the repo", related=["gone", "u1", "v1"]),
        memory("v1", "old"),
        memory("v2", "new", supersedes="v1", version=2),
    ]
)
USER = vector_map(
    [memory("both", "of the user"), memory("u1", "x", related=["v1"])],
    {"u1": (1, 0)},
    lexical=False,
    root="/home",
    scope="user",
)
VIEW = View((REPO, USER))


def test_a_memory_that_two_maps_hold_is_the_first_maps():
    found = VIEW.find("both")

    assert found is not None
    assert (found[0].root, found[1].content) == ("/repo", "of the repo")


def test_a_memory_of_no_map_is_not_found():
    assert VIEW.find("gone") is None


def test_edges_lead_across_maps_to_heads_and_never_into_nothing():
    assert list(VIEW.heads_led_to("both")) == ["u1", "v2"]
    assert list(VIEW.heads_led_to("u1")) == ["v2"]
    assert list(VIEW.heads_led_to("gone")) == []


def test_a_chain_is_memories_oldest_first():
    assert [m.id for m in VIEW.chain(REPO, "v1")] == ["v1", "v2"]


def test_a_leg_is_there_if_one_map_has_it():
    assert VIEW.legs == ("lexical", "dense")
    assert View((REPO,)).legs == ("lexical",)
    assert View(()).legs == ()


def test_a_view_counts_all_rows():
    assert len(VIEW) == 5
    assert len(View(())) == 0
