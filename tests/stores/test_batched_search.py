"""Concurrent searches share one product per map, and each gets its own result."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from forged.fair_queue import FairQueue, QueueClient
from forged.map import compare_batch
from forged.stores import Question, View
from forged.stores.search import BatchedSearch, ViewSearcher
from tests.data.maps import vector_map
from tests.data.memories import memory

NAMES = [f"m{number:02}" for number in range(40)]


def held():
    angles = np.linspace(0, 3, len(NAMES))
    vectors = {name: (float(np.cos(a)), float(np.sin(a))) for name, a in zip(NAMES, angles, strict=True)}
    return vector_map([memory(name, f"text {name}") for name in NAMES], vectors, lexical=False)


def question(angle):
    vector = np.array([[np.cos(angle), np.sin(angle)]], np.float32)
    return Question(texts=("q",), message="q", vectors=vector, top_k=3, hop_depth=0, deadline=0.0)


@pytest.fixture
def products(monkeypatch):
    """How many queries each product had."""
    sizes = []

    def counting(maps, asked, key):
        sizes.append(sum(map(len, asked)))
        return compare_batch(maps, asked, key)

    monkeypatch.setattr("forged.stores.search.compare_batch", counting)
    return sizes


class Searches:
    """Searches of as many clients, begun while somebody else has the turn."""

    def __init__(self) -> None:
        self.batch: list[BatchedSearch] = []
        self._line = FairQueue()
        QueueClient(self._line).begin(lambda: None)

    def begin(self, view, angle):
        source = ViewSearcher(view, lexical_weight=0.0, thread=ThreadPoolExecutor(1), batch=self.batch)
        context = QueueClient(self._line).context
        return asyncio.get_running_loop().create_task(source.search(question(angle)), context=context)


def ids(rows):
    return [each.memory.id for each in rows.ranked]


async def alone(view, angle):
    return await ViewSearcher(view, lexical_weight=0.0, thread=ThreadPoolExecutor(1)).search(question(angle))


async def test_searches_that_wait_together_are_one_product_and_each_finds_its_own(products):
    view, searches = View((held(),)), Searches()
    angles = [0.1 * number for number in range(12)]
    found = await asyncio.gather(*(searches.begin(view, angle) for angle in angles))
    assert max(products) >= 11
    assert sum(products) == 12
    assert searches.batch == []
    assert [ids(rows) for rows in found] == [ids(await alone(view, angle)) for angle in angles]


async def test_a_product_has_a_limit(products):
    view, searches = View((held(),)), Searches()
    await asyncio.gather(*(searches.begin(view, 0.05 * number) for number in range(40)))
    assert (max(products), sum(products)) == (16, 40)


async def test_searches_of_other_maps_are_not_mixed(products):
    mine, theirs, searches = View((held(),)), View((held(),)), Searches()
    tasks = [searches.begin((mine, theirs)[number % 2], 0.1 * number) for number in range(8)]
    found = await asyncio.gather(*tasks)
    assert max(products) <= 4
    right = [ids(await alone(mine, 0.1 * number)) for number in range(8)]
    assert [ids(rows) for rows in found] == right
