"""Existing memories in a classifier's prompt, over real files and maps."""

from __future__ import annotations

import asyncio
import threading

import msgspec
import pytest

from forged.conversation import Utterance
from forged.daemon import nearest_memories
from forged.files.roots import Root
from forged.memory import Scope
from forged.state import Event
from tests.daemon.parts import assembled
from tests.data.memories import memory, put
from tests.support.clock import later, run, until
from tests.support.provider import FakeEmbedder


@pytest.fixture
def roots(home, repo):
    return (Root(str(repo), Scope.REPO), Root(str(home), Scope.USER))


@pytest.fixture
def nearest(roots, home, repo):
    """Heads for what was said, once all that is on disk is in the maps; `before` may change that."""

    def nearest(said="hello", embedder=None, role="user", before=lambda _: None):
        async def body():
            async with assembled(home, embedder) as parts:
                await parts.loaded(repo)
                before(parts)
                event = Event(roots=roots, window=(Utterance(role, said),))
                return await nearest_memories.nearest(event, parts.indexer, parts.retriever)

        return run(body())

    return nearest


def ids(found):
    return [head.id for head in found]


def day(number):
    return f"2025-01-{number:02}T00:00:00Z"


def test_nearest_come_first_and_then_the_newest(nearest, home, repo):
    put(repo, memory("mem_old", "The harbour opens at noon.", created_at=day(1)))
    put(repo, memory("mem_mid", "Trains run late.", created_at=day(2)))
    put(home, memory("mem_new", "Buses are red.", scope="user", created_at=day(3)))

    assert ids(nearest("When does the harbour open?")) == ["mem_old", "mem_new", "mem_mid"]


def test_secret_in_a_file_is_not_listed(nearest, repo):
    put(repo, memory("mem_1", "The key is AKIA" + "QWERTYUIOPASDFGH" + "."))

    (head,) = nearest()

    assert "AKIA" not in head.first_line
    assert "[redacted]" in head.first_line


def test_endpoint_that_fails_costs_the_order_only(nearest, repo):
    put(repo, memory("mem_1", "The harbour opens at noon."))
    embedder = FakeEmbedder()

    def fail(_):
        embedder.down = "server"

    assert ids(nearest("The harbour?", embedder=embedder, before=fail)) == ["mem_1"]
    assert embedder.texts[-1] == "The harbour?"


def test_endpoint_that_hangs_is_waited_for_two_seconds_at_most(roots, home, repo):
    put(repo, memory("mem_1", "The harbour opens at noon."))
    embedder = FakeEmbedder()

    async def body():
        async with assembled(home, embedder) as parts:
            await parts.loaded(repo)
            embedder.hold, asked = asyncio.Event(), len(embedder.calls)
            event = Event(roots=roots, window=(Utterance("user", "The harbour?"),))
            listing = asyncio.create_task(nearest_memories.nearest(event, parts.indexer, parts.retriever))
            await until(lambda: len(embedder.calls) > asked)
            await later(2)
            return await listing

    assert ids(run(body())) == ["mem_1"]


async def test_thousands_are_read_in_a_thread(roots, home, repo):
    """25 ms for ten thousand would be 25 ms without an answer to anybody."""
    put(repo, *(memory(f"mem_{n}", f"Fact {n}.") for n in range(3)))
    seen = set()

    class Watched(tuple):
        __slots__ = ()

        def __iter__(self):
            seen.add(threading.current_thread())
            return super().__iter__()

    class Indexer:
        def __init__(self, indexer):
            self.learner, self.identity, self._indexer = indexer.learner, indexer.identity, indexer

        def open(self, root):
            index = self._indexer.open(root)
            watched = Watched(index.map.memories)
            bare = tuple(msgspec.structs.replace(part, lexical=None) for part in index.map.parts)
            index.map = msgspec.structs.replace(index.map, memories=watched, parts=bare)
            return index

    async with assembled(home) as parts:
        await parts.loaded(repo)
        event = Event(roots=roots, window=(Utterance("user", "hello"),))
        assert len(await nearest_memories.nearest(event, Indexer(parts.indexer), parts.retriever)) == 3
    assert seen
    assert threading.main_thread() not in seen
