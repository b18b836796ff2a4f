"""A new scope is one class: any `Store` is found by the one search, and named when it is late."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from forged.attributes import Facts
from forged.stores import Limits, Question, RecallSearch, StoreSearch, View
from tests.data.maps import vector_map
from tests.data.memories import memory


class Team:
    scope, owner, name = "team", "platform", "team"

    def maps(self):
        return (vector_map([memory("mem_t", "deploy on tuesdays", scope="team")], root="team:platform"),)

    async def view(self, generation, deadline):
        await asyncio.sleep(3600 if generation else 0)
        return View(self.maps())

    def attributes(self, found):
        return Facts(importance=0.9) if found.root == "team:platform" else None

    def use(self, found): ...


@pytest.mark.parametrize("limits", [None, Limits({"team": 2})], ids=["retrieve", "recall"])
@pytest.mark.parametrize(("newer", "expected"), [(0, (["mem_t"], ())), (1, ([], ("team was late",)))])
async def test_a_new_scope_is_searched_and_missed_like_any_other(newer, expected, limits):
    until = time.monotonic() + (0.1 if newer else 60)
    fields = {"vectors": None, "top_k": 3, "hop_depth": 0, "generation": newer, "limits": limits}
    question = Question(texts=("deploy",), message="deploy", deadline=until, **fields)
    with ThreadPoolExecutor(1) as thread:
        search = StoreSearch(lexical_weight=0.3, thread=thread)
        if limits is None:
            found = await search.search((Team(),), question)
        else:
            found = await RecallSearch(search, thread).search((Team(),), question, until=until)
    assert ([each.memory.id for each in found.ranked], found.missing) == expected
