"""Descriptors that a service manager stores, and that are removed again."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from forged.daemon.handover import STORED_EVERY_S, FdStore
from forged.files import Root
from forged.maps.embedding import text_hash
from forged.maps.model_identity import ModelCache
from forged.maps.vector_pack import VectorPack
from forged.memory import Scope
from tests.data.memories import memory, put
from tests.maps.indexing import built, indexing, opened
from tests.support.clock import later, until
from tests.support.provider import FakeEmbedder

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no sealed memory here")


class Manager:
    """The receiving end: `held` are parcels by name."""

    def __init__(self, path):
        self.env = {"NOTIFY_SOCKET": path, "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "0"}
        self.held, self.received = {}, []
        self._receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._receiver.bind(path)
        self._receiver.setblocking(False)

    def hear(self):
        """Do as was said since the last time; the first words of each."""
        received = []
        while (message := self._next()) is not None:
            said, descriptors = message
            what, name = (line.split("=", 1) for line in said.decode().splitlines())
            received.append(what[0])
            if what[0] == "FDSTORE":
                (self.held[name[1]],) = map(VectorPack, descriptors)
            else:
                del self.held[name[1]]
        return received

    def _next(self):
        try:
            return socket.recv_fds(self._receiver, 4096, 4)[:2]
        except BlockingIOError:
            return None

    def knows(self, text):
        """Whether a vector of this text is held."""
        return any(
            vector_pack.read("fake")[0](text_hash(text)) is not None for vector_pack in self.held.values()
        )

    def close(self):
        self._receiver.close()


@pytest.fixture
def manager(tmp_path):
    manager = Manager(str(tmp_path / "notify"))
    yield manager
    manager.close()


@pytest.fixture
def root(repo):
    put(repo, memory("m1", "text 1"), memory("m2", "text 2"))
    return Root(str(repo), Scope.REPO)


async def test_only_what_has_changed_is_stored_again_and_what_was_forgotten_is_gone(repo, root, manager):
    store, model_cache = FdStore(manager.env), ModelCache()
    async with indexing(FakeEmbedder(), model_cache=model_cache) as indexer:
        index = await opened(indexer, root)
        await store.keep(indexer, model_cache)
        assert (manager.hear(), manager.knows("text 1"), manager.knows("text 2")) == (["FDSTORE"], True, True)
        await store.keep(indexer, model_cache)
        assert manager.hear() == []

        (repo / ".forge/memory/m1.md").unlink()
        await built(index)
        await store.keep(indexer, model_cache)

        assert manager.hear() == ["FDSTOREREMOVE", "FDSTORE"]
        assert (manager.knows("text 1"), manager.knows("text 2"), len(manager.held)) == (False, True, 1)


async def test_it_is_brought_up_to_date_once_a_minute(root, manager):
    store, model_cache = FdStore(manager.env), ModelCache()
    async with indexing(FakeEmbedder(), model_cache=model_cache) as indexer:
        await opened(indexer, root)
        keeping = asyncio.create_task(store.run(indexer, model_cache))
        await later(STORED_EVERY_S - 1)
        assert manager.hear() == []
        await later(1)
        await until(manager.hear)
        keeping.cancel()

    assert manager.knows("text 1")


async def test_of_a_root_that_is_unloaded_and_of_one_that_is_embedded_anew_nothing_is_kept(root, manager):
    store, model_cache, embedder = FdStore(manager.env), ModelCache(), FakeEmbedder()
    async with indexing(embedder, model_cache=model_cache) as indexer:
        index = await opened(indexer, root)
        await store.keep(indexer, model_cache)
        embedder.hold, embedder.called = asyncio.Event(), asyncio.Event()
        index.builder.forget_vectors()
        index.mark()
        await embedder.called.wait()
        manager.hear()
        await store.keep(indexer, model_cache)
        assert (manager.hear(), manager.held) == (["FDSTOREREMOVE"], {})

        embedder.hold.set()
        await built(index)
        await store.keep(indexer, model_cache)
        assert manager.hear() == ["FDSTORE"]
    await store.keep(indexer, model_cache)

    assert (manager.hear(), manager.held) == (["FDSTOREREMOVE"], {})


async def test_the_pack_of_an_unused_root_stays_stored(root, manager):
    store, model_cache = FdStore(manager.env), ModelCache()
    async with indexing(FakeEmbedder(), model_cache=model_cache) as indexer:
        await opened(indexer, root)
        await store.keep(indexer, model_cache)
        await indexer.pack()
    async with indexing(FakeEmbedder(), model_cache=model_cache) as unopened:
        await store.keep(unopened, model_cache)
        assert manager.hear() == ["FDSTORE"]

        model_cache.vector_packs.take(root)
        await store.keep(unopened, model_cache)

    assert manager.hear() == ["FDSTOREREMOVE"]


async def test_nothing_is_given_to_a_manager_of_another_process(root, manager):
    """A daemon that a service starts by itself has the variables, and is not the service."""
    store, model_cache = FdStore({**manager.env, "LISTEN_PID": "1"}), ModelCache()
    async with indexing(FakeEmbedder(), model_cache=model_cache) as indexer:
        await opened(indexer, root)
        await store.keep(indexer, model_cache)

    assert manager.hear() == []
