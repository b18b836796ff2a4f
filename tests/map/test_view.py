"""A view over the maps of a request: repo before user, and nothing that leads nowhere."""

from __future__ import annotations

from forged.map.vector_map import View
from tests.support.maps import vector_map
from tests.support.scene import memory

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
