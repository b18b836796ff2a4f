"""Intermediate results and progress of a long embedding."""

from __future__ import annotations

import asyncio

import pytest

from forged.maps import builds
from tests.data.memories import memory, put
from tests.maps.indexing import embedding, indexing, opened, soon
from tests.support.clock import turns, until


def vectors(index):
    """How many the map shows."""
    return sum(dense.vector_count for dense in index.map.dense)


def swaps(indexer):
    return sum(event.kind == "swapped" for event in indexer.reported)


async def test_vectors_of_a_long_run_are_shown_when_there_are_twice_as_many_and_not_too_often(
    repo, root, embedder, monkeypatch
):
    monkeypatch.setattr(builds, "_RICHER_S", 0.0)
    put(repo, *(memory(f"n{number}", f"new {number}") for number in range(16 * embedder.chunk)))
    async with embedding(embedder, root) as (indexer, index):
        await until(lambda: index.map is not None)
        assert vectors(index) == 0

        async def some_are_done(calls):
            held, embedder.hold = embedder.hold, asyncio.Event()
            held.set()
            await until(lambda: len(embedder.calls) == calls)

        for calls, shown in ((5, 1), (9, 4), (13, 8)):  # 1, 5 and 9 of the 17 chunks are done then
            await some_are_done(calls)
            await until(lambda least=shown * embedder.chunk: vectors(index) >= least)
        count = swaps(indexer)
        await some_are_done(17)
        await turns(100)
        assert swaps(indexer) == count <= 5, "13 chunks are not twice as many as 8"
        embedder.hold.set()
        await index.until_ended(index.generations.wanted, soon())
    assert vectors(index) == 16 * embedder.chunk + 2


async def test_a_full_rebuild_shows_its_vectors_when_the_last_of_them_is_there(
    repo, root, embedder, monkeypatch
):
    monkeypatch.setattr(builds, "_RICHER_S", 0.0)
    put(repo, *(memory(f"n{number}", f"new {number}") for number in range(9 * embedder.chunk)))
    async with indexing(embedder) as indexer:
        index = await opened(indexer, root)
        before, indexer.reported[:] = index.map.dense, []
        embedder.hold = asyncio.Event()
        index.builder.forget_vectors()
        goal = index.mark()
        await until(lambda: swaps(indexer) == 1)
        first, embedder.hold = embedder.hold, asyncio.Event()
        first.set()
        await until(lambda: index.progress.embedded and not index.richer.is_set())
        assert index.progress.embedded == embedder.chunk
        embedder.hold.set()
        await index.until_ended(goal, soon())
        assert index.map.dense != before
        assert swaps(indexer) == 2, "words, and then all vectors"


async def test_a_full_rebuild_ends_the_run_of_useless_vectors(repo, root, embedder):
    put(repo, *(memory(f"n{number}", f"new {number}") for number in range(9 * embedder.chunk)))
    async with embedding(embedder, root) as (_, index):
        out = len(embedder.texts)
        index.builder.forget_vectors()
        goal = index.mark()
        embedder.called.clear()
        await embedder.called.wait()
        assert len(embedder.texts) == 2 * out, "the new run has begun, and what was out never came back"
        embedder.hold.set()
        await index.until_ended(goal, soon())
        assert len(embedder.texts) == out + 9 * embedder.chunk + 2
        assert sum(dense.vector_count for dense in index.map.dense) == 9 * embedder.chunk + 2


async def test_status_and_events_tell_how_fast_texts_are_embedded_and_how_long_it_takes(repo, root, embedder):
    put(repo, *(memory(f"n{number}", f"new {number}") for number in range(9 * embedder.chunk)))
    async with embedding(embedder, root) as (indexer, index):
        assert (index.run.rate, index.run.left_s) == (0.0, None)
        release, embedder.hold = embedder.hold, asyncio.Event()
        release.set()
        await until(lambda: len(embedder.calls) == 5)
        first, embedder.hold = embedder.hold, asyncio.Event()
        first.set()
        await until(lambda: len(embedder.calls) == 9)
        event = [event for event in indexer.reported if event.kind == "embedding"][-1]
        left = event.total - event.done
        assert left == 4 * embedder.chunk + 2
        assert event.rate > 0
        assert event.left_s == pytest.approx(left / event.rate, rel=0.5, abs=0.2)
        assert index.run.left == left
        embedder.hold.set()
        await index.until_ended(index.generations.wanted, soon())
        assert index.run is None
