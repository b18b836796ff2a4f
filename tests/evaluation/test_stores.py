from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.files import frontmatter
from tests.evaluation import loading, stores
from tests.evaluation.dataset import labels_of

SMALL = loading.load(Path(__file__).parents[1] / "data" / "eval_small")
sizes = st.integers(1, 12)


def test_a_whole_world_asks_every_message_in_every_repository():
    world = stores.whole(SMALL)

    assert world.stores == SMALL.repositories
    assert world.user == SMALL.user
    assert [len(messages) for messages in world.off_topic] == [3, 3]
    assert world.questions == 6 + 2 * 3


@given(sizes)
def test_small_stores_hold_as_many_memories_as_asked_for_and_none_twice(size):
    for store in stores.small(SMALL, size).stores:
        visible = 6 if store.name.startswith("mill") else 5
        ids = [item.memory.id for item in store.items]

        assert len(ids) == len(set(ids)) == min(size, visible)


@given(sizes)
def test_every_query_is_asked_once_next_to_an_answer_and_owes_no_other(size):
    world = stores.small(SMALL, size)

    asked = sorted(query.id for store in world.stores for query in store.queries)
    assert asked == sorted(query.id for r in SMALL.repositories for query in r.queries)
    for store in world.stores:
        for query in store.queries:
            assert query.evidence
            assert query.evidence <= labels_of(store.items)


@given(sizes)
def test_every_message_is_asked_once_for_each_repository(size):
    world = stores.small(SMALL, size)

    asked = sorted(text for messages in world.off_topic for text in messages)
    assert asked == sorted(2 * [message.text for message in SMALL.off_topic])


def test_replaced_versions_are_in_no_small_store():
    ids = {item.memory.id for store in stores.small(SMALL, 30).stores for item in store.items}

    assert "mem_mill_03" in ids
    assert "mem_mill_02" not in ids


def test_the_user_is_part_of_the_small_stores_and_has_nothing_next_to_them():
    world = stores.small(SMALL, 30)

    assert world.user == ()
    assert all({"mem_self_01", "mem_self_02"} <= labels_of(store.items) for store in world.stores)


@given(sizes)
def test_small_stores_are_the_same_each_time(size):
    assert stores.small(SMALL, size) == stores.small(SMALL, size)


@pytest.mark.parametrize("world", [stores.whole(SMALL), stores.small(SMALL, 2)], ids=["whole", "small"])
def test_memories_are_files_that_read_back_the_same(tmp_path, world):
    workspaces = stores.settle(world, tmp_path / "home", tmp_path / "repos")

    places = [(tmp_path / "home", "user", world.user)]
    places += [(Path(w), "repo", store.items) for w, store in zip(workspaces, world.stores, strict=True)]
    for top, scope, items in places:
        files = (top / ".forge/memory").iterdir()
        read = [frontmatter.read(file.read_bytes(), scope, file.stem) for file in files]
        assert {reading.memory.id: reading.memory for reading in read} == {
            item.memory.id: item.memory for item in items
        }
        assert not any(reading.notes for reading in read)
