"""Concurrent native calls: their number, their order, and calls whose caller has gone."""

from __future__ import annotations

import asyncio
import gc
import os
import threading

import pytest

from forged.fair_queue import Activity
from forged.models.in_process import ConcurrencyLimit, InProcessEmbedder, LoadedModel
from tests.models.test_in_process import Model
from tests.support.clock import PATIENCE_S, Clock, turns, until
from tests.support.provider.embedders import QUERY

LONG = "long " * 150  # one of these is a call


class Embedding:
    """An embedder on so many cores whose calls stand still until `end` ends one; `out` are under way."""

    def __init__(self, monkeypatch, cores, each=1):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
        self.clock = Clock()
        self.activity = Activity(self.clock)
        self.model = Model()
        self.model.encode = self._encode
        self.out = 0
        self._ends, self._counting = threading.Semaphore(0), threading.Lock()
        load = lambda: LoadedModel(self._encode, threads=each)  # noqa: E731
        self.embedder = InProcessEmbedder("key", load, activity=self.activity)

    def _encode(self, texts, kind):
        with self._counting:
            self.out += 1
        assert self._ends.acquire(timeout=PATIENCE_S)
        with self._counting:
            self.out -= 1
        return Model.encode(self.model, texts, kind)

    async def begun(self, count):
        await until(lambda: self.out == count)
        await turns()
        assert self.out == count

    async def end(self, *, leaving):
        """End one call, after which so many are under way; more would have begun by the end of it."""
        done = len(self.model.calls)
        self._ends.release()
        await until(lambda: len(self.model.calls) == done + 1)
        await self.begun(leaving)

    def embed(self, count):
        return [asyncio.create_task(self.embedder.embed([LONG], purpose=QUERY)) for _ in range(count)]

    async def close(self, *tasks):
        self._ends.release(1000)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.embedder.aclose()


@pytest.mark.parametrize(
    ("cores", "each", "quiet", "asked"),
    [(1, 1, 1, 1), (2, 1, 2, 1), (4, 2, 2, 1), (4, 1, 4, 2), (8, 4, 2, 1), (64, 1, 4, 2)],
)
async def test_passages_have_all_cores_while_no_one_asks_and_half_of_them_otherwise(
    monkeypatch, cores, each, quiet, asked
):
    at = Embedding(monkeypatch, cores, each)
    first = at.embed(1)
    await at.begun(1)  # the model is loaded, and says how many threads a call takes
    tasks = first + at.embed(9)
    await at.begun(quiet)
    at.activity.note_request()
    for left in range(quiet, asked, -1):
        await at.end(leaving=left - 1)
    await at.end(leaving=asked)
    at.clock.now += 5.1
    await at.end(leaving=quiet)
    await at.close(*tasks)


async def test_within_one_call_of_each_thread_half_of_the_cores_are_free_when_someone_asks(monkeypatch):
    at = Embedding(monkeypatch, 2)
    tasks = at.embed(6)
    await at.begun(2)
    at.clock.now += 60
    at.activity.note_request()
    at.clock.now += 4.9
    await at.end(leaving=1)
    assert len(at.model.calls) == 1
    await at.close(*tasks)


async def test_a_call_that_was_given_up_keeps_its_place_until_it_has_ended():
    release, begun = threading.Event(), []

    def call(name):
        begun.append(name)
        assert release.wait(PATIENCE_S)
        return name

    limit = ConcurrencyLimit("test", 2, lambda: 1)
    given_up = asyncio.create_task(limit.run(lambda: call("given up")))
    await until(lambda: begun)
    names = ("never", "after")
    never, after = (asyncio.create_task(limit.run(lambda name=name: call(name))) for name in names)
    await turns()
    for task in (given_up, never):
        task.cancel()
    await asyncio.gather(given_up, never, return_exceptions=True)
    await turns()
    assert begun == ["given up"]
    release.set()
    assert await after == "after"
    assert begun == ["given up", "after"]
    limit.close()


async def test_what_a_call_fails_with_that_was_given_up_is_not_reported_as_an_error_of_ours(caplog):
    release, begun = threading.Event(), threading.Event()

    def call():
        begun.set()
        assert release.wait(PATIENCE_S)
        raise OSError("too late to matter")

    limit = ConcurrencyLimit("test", 1, lambda: 1)
    given_up = asyncio.create_task(limit.run(call))
    await asyncio.to_thread(begun.wait, 30)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    release.set()
    await limit.run(lambda: None)
    del given_up
    gc.collect()
    limit.close()
    assert "never retrieved" not in caplog.text


async def test_a_closed_lane_lets_go_of_those_who_wait():
    release, begun = threading.Event(), threading.Event()

    def call():
        begun.set()
        assert release.wait(PATIENCE_S)

    limit = ConcurrencyLimit("test", 1, lambda: 1)
    running = asyncio.create_task(limit.run(call))
    waiting = asyncio.create_task(limit.run(call))
    await asyncio.to_thread(begun.wait, 30)
    limit.close()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    release.set()
    await running
