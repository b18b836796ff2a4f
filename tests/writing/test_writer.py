"""Writing on request: versions follow the disk, one after another, and removals take what is asked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time

import pytest

from forged.counters import Metrics
from forged.errors import StoreError
from forged.files.roots import Root
from forged.maps.indexer import Indexer
from forged.memory import Scope
from forged.trust import TrustRegistry
from forged.writing import RemovalTerms, Writer
from forged.writing.trash import TRASH_S
from tests.data.memories import memory, put
from tests.state.conftest import opened as state_in
from tests.support.clock import PATIENCE_S


@pytest.fixture
def trash(tmp_path):
    return tmp_path / "state/trash"


@pytest.fixture
def writer(trash, repo):
    """A writer in a daemon that trusts the repository."""

    @contextlib.asynccontextmanager
    async def trusting():
        async with state_in(trash.parent) as state:
            trust = TrustRegistry(state)
            await trust.trust(str(repo))
            yield Writer(str(trash), trust, state.requests, state.intents, state.removal_marks)

    return trusting()


@contextlib.asynccontextmanager
async def opened(top, embedder=None, *, lexical=True):
    """The index of a repo root after its first build."""
    indexer = Indexer(embedder=embedder, lexical=lexical, metrics=Metrics())
    try:
        index = indexer.open(Root(str(top), Scope.REPO))
        await index.until_ended(index.generations.wanted, time.monotonic() + PATIENCE_S)
        yield index
    finally:
        await indexer.close()


def draft(memory_id, supersedes=None):
    return memory(memory_id, f"text of {memory_id}", supersedes=supersedes)


def on_disk(repo):
    return sorted(file.stem for file in (repo / ".forge/memory").iterdir())


def versions(repo):
    """(version, supersedes) of every file, by id."""
    from forged.files.scan import scan

    found = scan(Root(str(repo), Scope.REPO)).memories
    return {each.id: (each.version, each.supersedes) for each in found}


# --- versions -----------------------------------------------------------------------------------------


VERSIONS = (draft("mem_1"), memory("mem_2", "two", supersedes="mem_1", version=2))


@pytest.mark.parametrize(
    ("before", "meanwhile", "removed"),
    [
        (VERSIONS, (), ()),
        (VERSIONS[:1], VERSIONS[1:], ()),
        ((draft("mem_1", "mem_2"), VERSIONS[1]), (), ()),
        (VERSIONS, (), ("mem_2",)),
    ],
    ids=["the head", "an editor's of a moment ago", "a cycle by hand", "the head was removed"],
)
async def test_superseding_an_old_version_is_based_on_the_head_of_its_chain(
    repo, writer, before, meanwhile, removed
):
    """An agent that still knows version 1 must not fork the chain."""
    put(repo, *before)
    async with opened(repo) as index:
        put(repo, *meanwhile)
        await writer.remove(index, removed, RemovalTerms())
        found = (await writer.add(index, draft("mem_3", "mem_1"))).memory
        assert (found.version, found.supersedes) == ((2, "mem_1") if removed else (3, "mem_2"))


@pytest.mark.parametrize("supersedes", [None, "mem_1"], ids=["new", "next version"])
async def test_what_was_written_is_durable_marked_once_and_visible_in_its_generation(
    repo, writer, supersedes
):
    put(repo, draft("mem_1"))
    async with opened(repo) as index:
        before = index.generations.wanted
        written = await writer.add(index, draft("mem_2", supersedes))
        assert (written.memory.version, written.memory.supersedes) == (1 + bool(supersedes), supersedes)
        assert os.path.exists(written.path)
        await index.until_ended(written.generation, time.monotonic() + PATIENCE_S)
        assert written.generation == before + 1
        assert index.map.find("mem_2") is not None


async def test_a_failed_write_is_a_store_error_and_the_next_goes_through(repo, writer):
    put(repo, draft("mem_1"))
    async with opened(repo) as index:
        with pytest.raises(StoreError):
            await writer.add(index, draft("mem_1", "mem_1"))
        assert (await writer.add(index, draft("mem_2", "mem_1"))).memory.version == 2


# --- removal ------------------------------------------------------------------------------------------


async def test_a_chain_is_looked_up_on_disk(repo, writer):
    put(repo, draft("mem_1"))
    async with opened(repo) as index:
        put(repo, memory("mem_2", "two", supersedes="mem_1", version=2), draft("mem_x"))
        assert [await writer.chain(index, each) for each in ("mem_1", "mem_2", "mem_x", "mem_no")] == [
            ("mem_1", "mem_2"),
            ("mem_1", "mem_2"),
            ("mem_x",),
            (),
        ]


async def test_removed_memories_wait_in_the_trash(repo, writer, trash):
    put(repo, draft("mem_2"))
    async with opened(repo) as index:
        await writer.add(index, draft("mem_1"))  # a memory of a moment ago
        gone = await writer.remove(index, ("mem_1",), RemovalTerms())

    assert gone.ids == ("mem_1",)
    assert on_disk(repo) == ["mem_2"]
    assert [file.name for file in trash.rglob("*.md")] == ["mem_1.md"]


# --- the trash ----------------------------------------------------------------------------------------


async def test_the_trash_is_emptied_after_seven_days(repo, writer, trash):
    put(repo, draft("mem_1"))
    async with opened(repo) as index:
        await writer.remove(index, ("mem_1",), RemovalTerms())
    now = time.time()

    writer.trash.erase_expired(now + TRASH_S - 3600)
    assert len(list(trash.rglob("*.md"))) == 1
    writer.trash.erase_expired(now + TRASH_S + 3600)
    assert list(trash.iterdir()) == []


async def test_emptying_the_trash_follows_no_link(writer, trash, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    trash.mkdir(parents=True)
    (trash / "link").symlink_to(precious)

    writer.trash.erase_expired(time.time() + 2 * TRASH_S)

    assert (precious / "file").read_text() == "keep"


# --- who is answered first ------------------------------------------------------------------------------


async def test_who_writes_is_answered_before_a_build_begins_and_who_waits_for_it_need_not(
    repo, writer, monkeypatch
):
    async with opened(repo) as index:
        monkeypatch.setattr("forged.writing.writer._UNASKED_S", 2 * PATIENCE_S)

        done = await writer.add(index, draft("mem_new"))

        assert index.generations.building < done.generation
        assert await index.until_tried(done.generation, time.monotonic() + PATIENCE_S)
        assert index.map.find("mem_new")


async def test_a_late_mark_that_a_build_has_shown_meanwhile_begins_no_other(repo, monkeypatch):
    async with opened(repo) as index:
        looked, draft_of = [], index.builder.draft
        monkeypatch.setattr(index.builder, "draft", lambda files: looked.append(files) or draft_of(files))
        late = index.mark(frozenset({str(repo / ".forge/memory/mem_new.md")}), after_s=0.05)
        shown = index.mark()
        assert await index.until_ended(shown, time.monotonic() + PATIENCE_S)
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, later.set)

        await later.wait()

        assert index.has_ended(late)
        assert looked == [frozenset()]


async def test_what_the_watcher_says_of_a_file_that_was_just_written_hurries_no_build(
    repo, writer, monkeypatch
):
    async with opened(repo) as index:
        monkeypatch.setattr("forged.writing.writer._UNASKED_S", 2 * PATIENCE_S)
        done = await writer.add(index, draft("mem_new"))

        assert index.mark(frozenset({done.path})) == done.generation
        assert not index.marked.is_set()
        other = index.mark(frozenset({done.path, str(repo / ".forge/memory/other.md")}))

        assert other > done.generation
        assert await index.until_tried(other, time.monotonic() + PATIENCE_S)
