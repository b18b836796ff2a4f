"""The second model's maps beside those that there are: what is in them, and that they follow."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from forged.errors import ProviderError
from forged.maps import BuildEvent
from forged.models import RetryBudget
from forged.scopes import CjkSource, CjkViews, Question, View
from tests.data.maps import vector_map
from tests.data.memories import memory
from tests.support.clock import PATIENCE_S, until
from tests.support.provider import FakeEmbedder

THREAD = ThreadPoolExecutor(1)
SWAPPED = BuildEvent("swapped", "/repo")


class Roots:
    """The maps that are in use, and the second model's views of them."""

    def __init__(self, *memories) -> None:
        self.embedder = FakeEmbedder(12)
        self.now = vector_map(memories)
        self.views = CjkViews(self.embedder, None, lambda: [(("/repo",), self.now)], gated=False)

    def become(self, *memories) -> None:
        self.now = vector_map(memories)
        self.views.heard(SWAPPED)

    @property
    def view(self) -> View:
        return View((self.now,))

    def ids(self) -> list[str]:
        beside = self.views.beside(self.view)
        return [] if beside is None else [each.id for each in beside.maps[0].memories]

    async def found(self, text: str = "茶", view: View | None = None) -> list[str]:
        source = CjkSource(self.views, view or self.view, ("/repo",), THREAD)
        deadline = time.monotonic() + PATIENCE_S
        wanted = Question(texts=(text,), message=text, vectors=None, top_k=10, hop_depth=0, deadline=deadline)
        return [each.memory.id for each in (await source.search(wanted)).ranked]


@contextlib.asynccontextmanager
async def following(*memories) -> AsyncIterator[Roots]:
    roots = Roots(*memories)
    task = asyncio.create_task(roots.views.run())
    roots.views.heard(SWAPPED)
    try:
        yield roots
    finally:
        task.cancel()
        await roots.views.close()


async def test_what_the_view_has_no_more_is_not_found_though_the_map_beside_is_older():
    async with following(memory("z", "下午喝茶"), memory("y", "部署之前备份")) as roots:
        await until(lambda: len(roots.ids()) == 2)
        gone = View((vector_map([memory("y", "部署之后备份"), memory("e", "tea")]),))

        assert await roots.found(view=gone) == []


async def test_a_version_in_english_takes_the_place_of_the_chinese_one_it_replaces():
    old, new = memory("v1", "下午喝茶"), memory("v2", "no tea any more", supersedes="v1", version=2)
    async with following(old, new) as roots:
        await until(lambda: roots.ids() == ["v1", "v2"])

        assert await roots.found() == ["v2"]
        assert roots.embedder.texts.count("no tea any more") == 0


async def test_a_text_that_the_model_refuses_is_left_out_and_the_others_are_found():
    roots = Roots(memory("z", "下午喝茶"), memory("y", "部署之前备份"))
    roots.embedder.poison["部署之前备份"] = "bad_input"
    task = asyncio.create_task(roots.views.run())
    roots.views.wake()
    await until(lambda: roots.ids() == ["z"])
    task.cancel()

    assert await roots.found() == ["z"]


async def test_who_asks_the_same_query_at_once_shares_one_call_and_a_failure_is_not_kept():
    async with following(memory("z", "下午喝茶")) as roots:
        await until(lambda: roots.ids() == ["z"])
        await asyncio.gather(*(roots.found() for _ in range(5)))
        assert roots.embedder.texts.count("茶") == 1

        roots.embedder.down = "server"
        with pytest.raises(ProviderError):
            await roots.views.vector("咖啡", (), RetryBudget(time.monotonic() + PATIENCE_S))
        roots.embedder.down = ""
        assert len(await roots.views.vector("咖啡", (), RetryBudget(time.monotonic() + PATIENCE_S))) == 12
