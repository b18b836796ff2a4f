"""A request that is sent again is done once: by its key, by its text, and by the id of what it writes."""

from __future__ import annotations

import asyncio

import pytest

from forged.errors import Conflict, MemoryExists, NoLongerWanted
from forged.files import NewFile
from forged.writing import RemovalTerms
from tests.data.memories import memory, put
from tests.writing.conftest import bench_at, draft


async def test_a_request_that_comes_again_with_its_key_is_answered_as_the_first_time(bench, repo):
    put(repo, draft("mem_1"), memory("mem_2", "two", supersedes="mem_1", version=2))
    first = await bench.writer.add(bench.index, draft("mem_3", "mem_1", "three"), key="k")
    await bench.writer.add(bench.index, draft("mem_4", "mem_3", "four"))

    again = await bench.writer.add(bench.index, draft("mem_5", "mem_1", "three"), key="k")

    for reported in (first, again):
        assert (reported.memory.id, reported.replaced, reported.base_moved, reported.existed) == (
            "mem_3",
            "mem_2",
            True,
            False,
        )
    assert set(bench.versions()) == {"mem_1", "mem_2", "mem_3", "mem_4"}


async def test_the_same_key_at_the_same_time_is_written_once(bench):
    drafts = [draft(f"mem_{number}", content="once") for number in range(8)]
    reported = await asyncio.gather(*(bench.writer.add(bench.index, each, key="k") for each in drafts))

    assert len({each.memory.id for each in reported}) == 1
    assert {each.existed for each in reported} == {False}
    assert bench.contents() == ["once"]


@pytest.mark.parametrize("other", [draft("mem_2", content="other"), draft("mem_2", "mem_0", "text of mem_1")])
async def test_a_key_of_something_else_is_a_conflict_and_writes_nothing(bench, repo, other):
    put(repo, draft("mem_0"))
    await bench.writer.add(bench.index, draft("mem_1"), key="k")

    with pytest.raises(Conflict, match="another request"):
        await bench.writer.add(bench.index, other, key="k")
    assert set(bench.versions()) == {"mem_0", "mem_1"}


async def test_an_edit_that_insists_on_its_base_may_be_sent_again(bench, repo):
    """Its own first attempt has moved the base."""
    put(repo, draft("mem_1"))
    await bench.writer.add(bench.index, draft("mem_2", "mem_1", "two"), key="k", base="mem_1")

    again = await bench.writer.add(bench.index, draft("mem_3", "mem_1", "two"), key="k", base="mem_1")
    assert (again.memory.id, again.replaced, again.base_moved) == ("mem_2", "mem_1", False)


async def test_a_key_whose_file_is_missing_is_linked_again_on_the_head_of_that_moment(
    repo, tmp_path, monkeypatch
):
    """As a kill between the record and the link leaves it."""
    put(repo, draft("mem_1"))
    async with bench_at(repo, tmp_path / "state") as bench:
        with monkeypatch.context() as patched:
            patched.setattr(NewFile, "link", _killed)
            with pytest.raises(RuntimeError):
                await bench.writer.add(bench.index, draft("mem_2", "mem_1", "two"), key="k")
        assert set(bench.versions()) == {"mem_1"}
    async with bench_at(repo, tmp_path / "state") as bench:
        await bench.writer.add(bench.index, draft("mem_3", "mem_1", "three"))

        again = await bench.writer.add(bench.index, draft("mem_4", "mem_1", "two"), key="k")

        assert (again.memory.id, again.replaced, again.base_moved) == ("mem_2", "mem_3", True)
        assert bench.versions() == {"mem_1": (1, None), "mem_3": (2, "mem_1"), "mem_2": (3, "mem_3")}
        assert {each.id for each in bench.index.map.memories} <= set(bench.versions())


async def test_who_leans_on_a_request_that_is_completed_is_there_too(repo, tmp_path, monkeypatch):
    """It is decided on twice, and is on record from the first time: that is not its file."""
    put(repo, draft("mem_1"))
    async with bench_at(repo, tmp_path / "state") as bench:
        with monkeypatch.context() as patched:
            patched.setattr(NewFile, "link", _killed)
            with pytest.raises(RuntimeError):
                await bench.writer.add(bench.index, draft("mem_2", "mem_1", "two"), key="a")
    async with bench_at(repo, tmp_path / "state") as bench:
        repeated, other, twin, both = await asyncio.gather(
            bench.writer.add(bench.index, draft("mem_x", "mem_1", "two"), key="a"),
            bench.writer.add(bench.index, draft("mem_3", "mem_1", "three"), key="b"),
            bench.writer.add(bench.index, draft("mem_4", None, "three"), key="c"),
            bench.writer.add(bench.index, draft("mem_y", "mem_1", "two"), key="a"),
        )
        assert bench.versions() == {"mem_1": (1, None), "mem_2": (2, "mem_1"), "mem_3": (3, "mem_2")}
        assert await bench.trust.withheld([bench.index.root]) == ()

    assert [each.memory.id for each in (repeated, other, twin, both)] == ["mem_2", "mem_3", "mem_3", "mem_2"]
    assert [each.existed for each in (repeated, other, twin, both)] == [False, False, True, False]
    assert (other.replaced, other.base_moved) == ("mem_2", True)


def _killed(*_: object) -> None:
    raise RuntimeError("killed")


async def test_what_was_forgotten_does_not_come_back_by_a_late_repetition(bench):
    await bench.writer.add(bench.index, draft("mem_1", content="secret plan"), key="k")
    await bench.writer.remove(bench.index, ("mem_1",), RemovalTerms(erase=True))

    with pytest.raises(NoLongerWanted, match="forgotten since"):
        await bench.writer.add(bench.index, draft("mem_2", content="secret plan"), key="k")
    assert bench.contents() == []

    said_anew = await bench.writer.add(bench.index, draft("mem_3", content="secret plan"), key="k2")
    assert not said_anew.existed


# --- the same text ------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["Use tabs", "use  tabs.", "**Use tabs**", "Ｕse tabs"])
async def test_the_same_text_twice_is_the_memory_that_is_there(bench, said):
    first = await bench.writer.add(bench.index, draft("mem_1", content="Use tabs."))
    again = await bench.writer.add(bench.index, draft("mem_2", content=said))

    assert (again.memory.id, again.existed, again.replaced) == ("mem_1", True, "")
    assert again.path == first.path
    assert set(bench.versions()) == {"mem_1"}


async def test_the_same_text_at_the_same_moment_is_one_memory(bench):
    reported = await asyncio.gather(
        *(bench.writer.add(bench.index, draft(f"mem_{number}", content="Use tabs")) for number in range(8))
    )

    assert len({each.memory.id for each in reported}) == 1
    assert sorted(each.existed for each in reported) == [False] + [True] * 7
    assert bench.contents() == ["Use tabs"]


async def test_what_an_editor_wrote_a_moment_ago_is_there_already(bench, repo):
    await bench.writer.add(bench.index, draft("mem_1"))
    put(repo, memory("mem_hand", "Use tabs"))
    await bench.trust.approve(
        str(repo), [each.sha256 for each in await bench.trust.withheld([bench.index.root])]
    )

    assert (await bench.writer.add(bench.index, draft("mem_2", content="use tabs."))).memory.id == "mem_hand"


async def test_a_text_that_was_replaced_is_news_when_it_is_said_again(bench):
    await bench.writer.add(bench.index, draft("mem_1", content="Use tabs"))
    await bench.writer.add(bench.index, draft("mem_2", "mem_1", "Use spaces"))

    assert not (await bench.writer.add(bench.index, draft("mem_3", content="Use tabs"))).existed


# --- the same id --------------------------------------------------------------------------------------


async def test_a_draft_whose_file_is_there_and_ours_is_done_already(bench):
    """A capture that is done again after a kill."""
    await bench.writer.add(bench.index, draft("mem_1", content="first"))
    again = await bench.writer.add(bench.index, draft("mem_1", content="first"))

    assert (again.memory.id, again.existed) == ("mem_1", True)


async def test_an_id_that_someone_else_took_is_refused(bench, repo):
    put(repo, draft("mem_1"))
    await bench.trust.approve(
        str(repo), [each.sha256 for each in await bench.trust.withheld([bench.index.root])]
    )

    with pytest.raises(MemoryExists):
        await bench.writer.add(bench.index, draft("mem_1", content="other"))
    assert bench.contents() == ["text of mem_1"]
