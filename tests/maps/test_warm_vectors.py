"""Vectors from one daemon's indexer to the next: no text is embedded twice."""

from __future__ import annotations

import asyncio
import gc
import os

import numpy as np
import pytest

from forged.files.roots import Root
from forged.maps.embedding import text_hash
from forged.maps.model_identity import ModelCache
from forged.maps.vector_pack import KEPT_S, MOST_PACKS, PackLabel, PackSource, VectorPacks, pack
from forged.memory import Scope
from tests.data.maps import rows_of
from tests.data.memories import memory, put
from tests.maps.indexing import built, embedding, indexing, opened
from tests.support.clock import Clock, until
from tests.support.provider import FakeEmbedder, vector

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no sealed memory here")
TEXTS = {f"m{at}": f"text {at}" for at in range(5)}


class Local(FakeEmbedder):
    """A model of this process: what its key says is what it is."""

    key = "local"
    replaceable = False


@pytest.fixture(params=[FakeEmbedder, Local], ids=["endpoint", "local"])
def model(request):
    """Makes embedders of one kind, with as many numbers as a gate needs."""
    return lambda **options: request.param(**{"dimension": 64, **options})


@pytest.fixture
def root(repo):
    put(repo, *(memory(name, text) for name, text in TEXTS.items()))
    return Root(str(repo), Scope.REPO)


async def packed(indexer):
    """What another process gets of an indexer: descriptors alone."""
    await indexer.pack()
    return handed(indexer._remembered)


def handed(before):
    after = ModelCache()
    after.receive([os.dup(each) for each in before.vector_packs.descriptors])
    return after


async def left_by(embedder, root, **options):
    """What an indexer leaves that has built one root."""
    async with indexing(embedder, **options) as indexer:
        await opened(indexer, root)
        if options.get("gated"):
            await until(lambda: indexer.learner.state[0] == "vectors")
        return await packed(indexer)


def read(model_cache, root):
    """The reader of a root's parcel, which stays where it is."""
    vector_pack = model_cache.vector_packs.take(root)
    model_cache.vector_packs.put(vector_pack)
    return vector_pack.read(vector_pack.label.key)[0]


# --- what a successor has to embed ----------------------------------------------------------------------


async def test_a_successor_embeds_nothing_not_even_what_the_gate_needs(root, model):
    model_cache, embedder = await left_by(model(), root, gated=True), model()

    async with indexing(embedder, model_cache=model_cache, gated=True) as indexer:
        index = await opened(indexer, root)
        await until(lambda: indexer.learner.state[0] == "vectors")

        assert embedder.texts == []
        (dense,) = index.map.dense
        np.testing.assert_allclose(rows_of(dense), [vector(text, 64) for text in TEXTS.values()], atol=1e-6)
        assert index.builder.complete


@pytest.mark.parametrize(
    "other",
    [
        lambda: type("Other", (FakeEmbedder,), {"key": "another"})(64),
        lambda: FakeEmbedder(32),
        lambda: replaced(FakeEmbedder(64)),
    ],
    ids=["another_key", "another_dimension", "another_model_behind_the_name"],
)
async def test_vectors_of_another_model_are_of_no_use(root, other):
    model_cache, embedder = await left_by(FakeEmbedder(64), root), other()

    async with indexing(embedder, model_cache=model_cache) as indexer:
        index = await opened(indexer, root)

        assert sorted(embedder.texts) == sorted(TEXTS.values())
        (dense,) = index.map.dense
        rows = [vector(embedder.model + text, embedder.dimension) for text in TEXTS.values()]
        np.testing.assert_allclose(rows_of(dense), rows, atol=1e-6)


def replaced(embedder):
    embedder.model = "another "
    return embedder


async def test_a_model_that_comes_back_finds_its_vectors(root):
    """Of two models behind one name the second made the vectors; its sentences tell that it answers again."""
    first, again = FakeEmbedder(64), replaced(FakeEmbedder(64))
    async with indexing(first, gated=True) as indexer:
        index = await opened(indexer, root)
        replaced(first)
        indexer.identity._doubted_at = -1e9
        await indexer.identity.check_now()
        await until(lambda: index.builder.complete and index.map.parts[0].dense.key == indexer.identity.kept)
        assert indexer.identity.kept.endswith("#1")
        model_cache = await packed(indexer)

    async with indexing(again, model_cache=model_cache) as indexer:
        await opened(indexer, root)

        assert again.texts == []


async def test_until_an_endpoint_says_which_model_it_is_no_vector_is_used_and_none_is_lost(root):
    model_cache, down = await left_by(FakeEmbedder(64), root), FakeEmbedder(64)
    down.down = "unreachable"
    async with indexing(down, model_cache=model_cache) as indexer:
        index = await opened(indexer, root)
        assert (index.progress.state, index.map.dense) == ("failed", ())
        model_cache = await packed(indexer)

    up = FakeEmbedder(64)
    async with indexing(up, model_cache=model_cache) as indexer:
        index = await opened(indexer, root)

        assert (up.texts, len(index.map.dense)) == ([], 1)


async def test_of_a_run_under_way_nothing_is_lost(repo, root):
    put(repo, *(memory(f"n{at:03}", f"more {at}") for at in range(2 * Local.chunk)))
    async with embedding(Local(), root) as (indexer, index):
        first, indexer.identity.embedder.hold = indexer.identity.embedder.hold, asyncio.Event()
        first.set()
        await until(lambda: index.progress.embedded)
        model_cache = await packed(indexer)
        indexer.identity.embedder.hold.set()

    embedder = Local()
    async with indexing(embedder, model_cache=model_cache) as indexer:
        await opened(indexer, root)

        assert len(embedder.texts) == Local.chunk + 5, "all but the first chunk"


async def test_a_full_rebuild_that_was_interrupted_goes_on_with_the_new_vectors_alone(root):
    async with indexing(Local()) as indexer:
        index = await opened(indexer, root)
        embedder = indexer.identity.embedder
        embedder.hold, embedder.called = asyncio.Event(), asyncio.Event()
        index.builder.forget_vectors()
        index.mark()
        await embedder.called.wait()
        model_cache = await packed(indexer)
        embedder.hold.set()

    embedder = Local()
    async with indexing(embedder, model_cache=model_cache) as indexer:
        await opened(indexer, root)

        assert sorted(embedder.texts) == sorted(TEXTS.values())


async def test_what_was_cut_is_known_to_be_cut(root):
    embedder = Local()
    embedder.cut = {"text 3"}
    model_cache = await left_by(embedder, root)

    async with indexing(Local(), model_cache=model_cache) as indexer:
        index = await opened(indexer, root)

        assert index.builder.cut == ("m3",)


# --- what is packed ---------------------------------------------------------------------------------------


async def test_of_a_large_map_too_a_text_that_went_is_not_packed(repo, root):
    """There an edit leaves the large rows where they are, and what went is masked."""
    put(repo, *(memory(f"n{at:03}", f"more {at}") for at in range(300)))
    async with indexing(Local()) as indexer:
        index = await opened(indexer, root)
        (repo / ".forge/memory/m1.md").unlink()
        put(repo, memory("m2", "another text"))
        await built(index)
        assert len(index.map.parts) == 2

        model_cache = await packed(indexer)
        get = read(model_cache, root)

    assert get(text_hash("text 1")) is get(text_hash("text 2")) is None
    np.testing.assert_array_equal(get(text_hash("another text")), vector("another text"))
    np.testing.assert_array_equal(get(text_hash("more 299")), vector("more 299"))


async def test_what_is_no_parcel_costs_its_texts_and_one_line(root, caplog):
    model_cache = await left_by(Local(), root)
    (descriptor,) = model_cache.vector_packs.descriptors
    broken = os.memfd_create("broken", os.MFD_ALLOW_SEALING)
    os.write(broken, os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    after = ModelCache()

    after.receive([broken])

    assert [line.getMessage() for line in caplog.records] == [
        "vectors not taken over, their texts are embedded anew error=it is not sealed"
    ]
    async with indexing(Local(), model_cache=after) as indexer:
        await opened(indexer, root)
        assert sorted(indexer.identity.embedder.texts) == sorted(TEXTS.values())


# --- how long they wait -----------------------------------------------------------------------------------


async def test_what_no_root_took_for_a_day_is_dropped(root):
    clock = Clock()
    waiting = VectorPacks(clock)
    waiting.put((await left_by(Local(), root)).vector_packs.take(root))
    clock.now += KEPT_S - 1
    waiting.drop_old()
    assert len(waiting.descriptors) == 1

    clock.now += 2
    waiting.drop_old()

    assert waiting.descriptors == ()


def test_of_too_many_the_oldest_go_and_their_memory_with_them():
    before = sealed_memory()
    waiting = VectorPacks()
    for number in range(MOST_PACKS + 3):
        waiting.put(pack(PackSource(PackLabel(f"repo:/{number}", "model"), (), {}, frozenset())))

    assert len(waiting.descriptors) == MOST_PACKS <= sealed_memory()
    assert waiting.take(Root("/2", Scope.REPO)) is None
    assert waiting.take(Root("/3", Scope.REPO)) is not None
    del waiting
    assert sealed_memory() == before


def sealed_memory():
    """Descriptors of parcels that are open in this process."""
    gc.collect()
    found = (os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd"))
    return sum("memfd:forged-vectors" in each for each in found)
