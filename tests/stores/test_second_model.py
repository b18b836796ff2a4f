"""The second model's vectors in the maps that there are: of which memories, and that they follow."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from forged.counters import Metrics
from forged.errors import ProviderError
from forged.files import Root
from forged.maps import Indexer
from forged.memory import Scope
from forged.models import RetryBudget
from forged.stores import CjkSearcher, FileStore, Question, SecondModel, View
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, until
from tests.support.provider import FakeEmbedder, vector

THREAD = ThreadPoolExecutor(1)


class Store:
    """A repository under two models, and the second one's searches of it."""

    def __init__(self, repo, *memories, lexical=True) -> None:
        self.repo, self.ids_there = repo, set()
        self.first, self.embedder = FakeEmbedder(8), FakeEmbedder(12)
        self.indexer = Indexer(embedder=self.first, second=self.embedder, lexical=lexical, metrics=Metrics())
        self.model = SecondModel(self.indexer.second)
        self.become(*memories)
        self.root = Root(str(repo), Scope.REPO)

    def become(self, *memories) -> None:
        for each in self.ids_there - {each.id for each in memories}:
            (self.repo / f".forge/memory/{each}.md").unlink()
        put(self.repo, *memories)
        self.ids_there = {each.id for each in memories}
        self.indexer.mark_all()

    @property
    def index(self):
        return self.indexer.open(self.root)

    async def view(self) -> View:
        return await FileStore(self.indexer, [self.root]).view(0, time.monotonic() + PATIENCE_S)

    def ids(self) -> list[str]:
        """Ids of the memories that have a vector of the second model."""
        parts = self.index.map.parts if self.index.map is not None else ()
        return [
            each.id
            for part in parts
            for row, each in part.numbered()
            if part.second is not None and not part.second.missing[row]
        ]

    async def found(self, text: str = "茶", view: View | None = None, **wanted) -> list[str]:
        source = CjkSearcher(self.model, view or await self.view(), (str(self.repo),), THREAD)
        question = Question(
            texts=(text,),
            message=text,
            vectors=None,
            top_k=10,
            deadline=time.monotonic() + PATIENCE_S,
            **{"hop_depth": 0, **wanted},
        )
        return [each.memory.id for each in (await source.search(question)).ranked]


@contextlib.asynccontextmanager
async def following(repo, *memories, **options) -> AsyncIterator[Store]:
    store = Store(repo, *memories, **options)
    _ = store.index
    try:
        yield store
    finally:
        await store.indexer.close()


async def test_only_memories_in_these_languages_are_embedded_and_found(repo):
    async with following(
        repo, memory("e", "tea at five"), memory("z", "下午喝茶"), memory("k", "차를 마신다")
    ) as store:
        await until(lambda: len(store.ids()) == 2)

        assert set(await store.found()) == {"k", "z"}
        assert set(store.embedder.texts) == {"下午喝茶", "차를 마신다", "茶"}
        assert set(store.first.texts) == {"tea at five"}
        assert [part.second.dimension for part in store.index.map.parts if part.second is not None] == [12]


async def test_without_texts_in_these_languages_the_model_is_not_asked(repo):
    async with following(repo, memory("e", "tea at five")) as store:
        assert store.model.second_view(await store.view()) is None
        assert await store.found() == []
        assert store.embedder.texts == []


async def test_an_edit_embeds_what_is_new_and_nothing_twice(repo):
    async with following(repo, memory("z", "下午喝茶"), memory("y", "部署之前备份")) as store:
        await until(lambda: len(store.ids()) == 2)
        store.become(memory("z", "下午喝茶"), memory("x", "测试必须通过"))
        await until(lambda: set(store.ids()) == {"x", "z"})

        assert sorted(store.embedder.texts) == sorted(["下午喝茶", "部署之前备份", "测试必须通过"])


async def test_a_version_in_english_takes_the_place_of_the_chinese_one_it_replaces(repo):
    old, new = memory("v1", "下午喝茶"), memory("v2", "no tea any more", supersedes="v1", version=2)
    async with following(repo, old, new) as store:
        await until(lambda: store.ids() == ["v1"])

        assert await store.found() == ["v2"]
        assert store.embedder.texts.count("no tea any more") == 0


async def test_a_link_leads_to_memories_in_these_languages_alone(repo):
    linked = memory("z", "下午喝茶", related=["e", "y"])
    async with following(repo, linked, memory("e", "tea at five"), memory("y", "部署之前备份")) as store:
        await until(lambda: len(store.ids()) == 2)

        assert set(await store.found(hop_depth=1)) == {"z", "y"}


async def test_another_model_behind_the_name_embeds_everything_anew(repo):
    async with following(repo, memory("z", "下午喝茶")) as store:
        await until(lambda: store.ids() == ["z"])
        store.embedder.model = "other"
        store.indexer.forget_vectors(store.index)
        store.become(memory("z", "下午喝茶"), memory("y", "部署之前备份"))
        await until(lambda: len(store.ids()) == 2)

        assert store.embedder.texts.count("下午喝茶") == 2
        row = store.index.map.parts[1].second.row(1)
        assert row.tolist() == pytest.approx(vector("other下午喝茶", 12).tolist())


async def test_a_text_that_the_model_refuses_is_left_out_and_the_others_are_found(repo):
    store = Store(repo, memory("z", "下午喝茶"), memory("y", "部署之前备份"))
    store.embedder.poison["部署之前备份"] = "bad_input"
    await until(lambda: store.ids() == ["z"])

    assert await store.found() == ["z"]
    await store.indexer.close()


@pytest.mark.parametrize("lexical", [True, False])
async def test_a_second_model_that_fails_keeps_no_root_from_being_ready_and_is_asked_again(repo, lexical):
    store = Store(repo, memory("z", "下午喝茶"), memory("e", "tea at five"), lexical=lexical)
    store.embedder.down = "unreachable"
    index = store.index
    await index.until_ended(index.generations.wanted, time.monotonic() + PATIENCE_S)
    assert (index.progress.state, index.progress.error) == ("ready", "")
    assert [dense.vector_count for dense in index.map.dense] == [1]

    store.embedder.down = ""
    await until(lambda: store.ids() == ["z"])
    await store.indexer.close()


@pytest.mark.parametrize("lexical", [True, False])
async def test_a_second_model_that_hangs_keeps_nothing_of_the_first_from_being_shown(repo, lexical):
    store = Store(repo, memory("z", "下午喝茶"), memory("e", "tea at five"), lexical=lexical)
    store.embedder.hold = asyncio.Event()
    _ = store.index
    await store.embedder.called.wait()

    assert not (await store.view()).waiting
    await until(lambda: [dense.vector_count for dense in store.index.map.dense] == [1])
    store.embedder.hold.set()
    await until(lambda: store.ids() == ["z"])
    await store.indexer.close()


async def test_a_first_model_that_fails_holds_nothing_of_the_second_up(repo):
    store = Store(repo, memory("z", "下午喝茶"), memory("e", "tea at five"))
    store.first.down = "unreachable"
    await until(lambda: store.ids() == ["z"])
    await until(lambda: store.index.progress.state == "failed")

    assert await store.found() == ["z"]
    await store.indexer.close()


async def test_who_asks_the_same_query_at_once_shares_one_call_and_a_failure_is_not_kept(repo):
    async with following(repo, memory("z", "下午喝茶")) as store:
        await until(lambda: store.ids() == ["z"])
        view = await store.view()
        await asyncio.gather(*(store.found(view=view) for _ in range(5)))
        assert store.embedder.texts.count("茶") == 1

        store.embedder.down = "server"
        with pytest.raises(ProviderError):
            await store.model.vector("咖啡", (), RetryBudget(time.monotonic() + PATIENCE_S))
        store.embedder.down = ""
        assert len(await store.model.vector("咖啡", (), RetryBudget(time.monotonic() + PATIENCE_S))) == 12
