"""Concurrent work by rank in a few slots; a cancelled caller keeps no slot."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import gc
import time
from pathlib import Path

import pytest

from forged.errors import ProviderError
from forged.fair_queue import PrioritySemaphore, ignore_failure, log_failure
from forged.files.watcher import Watcher
from forged.maps import EmbeddingQueue
from forged.models import RetryBudget
from forged.models.in_process import ConcurrencyLimit
from forged.stores import resolver, search
from forged.stores.second_model import SecondModel
from forged.writing.writer import GroupCommit
from tests.support.clock import PATIENCE_S, turns
from tests.support.provider import FakeEmbedder

REPO = Path(__file__).parents[1]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BEGINS = ("asyncio.create_task(", "loop.create_task(", "ensure_future(")


class Line:
    """Pieces of work over slots: `begun` are those that have one or had one, in order."""

    def __init__(self, most=1):
        self.most = most
        self.semaphore = PrioritySemaphore(lambda: self.most)
        self.begun = []

    def wait(self, name, rank=0):
        async def piece():
            await self.semaphore.take(lambda: (rank,))
            self.begun.append(name)

        return asyncio.create_task(piece())


async def test_of_those_who_wait_the_highest_rank_is_next_and_of_equals_who_came_first():
    line = Line()
    for name, rank in (("first", 0), ("a", 1), ("b", 2), ("c", 2), ("d", 0)):
        line.wait(name, rank)
    await turns()
    assert line.begun == ["first"]
    for _ in range(4):
        line.semaphore.release()
        await turns()
    assert line.begun == ["first", "b", "c", "a", "d"]


async def test_fewer_slots_hold_as_soon_as_what_was_begun_has_ended_and_more_at_the_next_give_back():
    line = Line(most=2)
    for name in "abcde":
        line.wait(name)
    await turns()
    line.most = 1
    line.semaphore.release()
    await turns()
    assert line.begun == ["a", "b"]
    line.semaphore.release()
    await turns()
    assert line.begun == ["a", "b", "c"]
    line.most = 2
    line.semaphore.release()
    await turns()
    assert line.begun == ["a", "b", "c", "d", "e"]


async def test_who_is_cancelled_takes_no_slot_whether_it_was_given_one_or_not():
    line = Line()
    line.wait("a")
    given, waiting, last = line.wait("given"), line.wait("waiting"), line.wait("last")
    await turns()
    waiting.cancel()
    line.semaphore.release()
    given.cancel()  # the slot is its own, and it has not run since
    await asyncio.gather(given, waiting, return_exceptions=True)
    await last
    assert line.begun == ["a", "last"]


def _unguarded():
    """Calls that start a task which neither is awaited there, nor is a group's, nor gets a callback."""
    for path in sorted([*REPO.glob("forged/**/*.py"), *REPO.glob("client/**/*.py")]):
        source = path.read_text()
        if not any(word in source for word in (*BEGINS, "run_in_executor(")):
            continue
        functions = (each for each in ast.walk(ast.parse(source)) if isinstance(each, FUNCTIONS))
        for function in functions:
            text = ast.unparse(function)
            begun = [each for each in BEGINS if each in text]
            begun += ["run_in_executor("] if "= asyncio.get_running_loop().run_in_executor(" in text else []
            if begun and ".add_done_callback(" not in text and "await working" not in text:
                yield f"{path.relative_to(REPO)}: {function.name}"


def test_each_started_task_has_a_callback_for_its_exception():
    assert list(_unguarded()) == []


class _Failing:
    """A source, embedder and call that fails some turns of the loop after it was asked, given up or not."""

    name = "failing"
    top_k = 3

    def __init__(self, turns):
        self.turns = turns
        self.deadline = time.monotonic() + 60

    async def fail(self, *_, **__):
        for _ in range(self.turns):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        raise ProviderError("no", reason="unreachable")

    search = fail

    async def in_all_stores(self):
        searches = {"one": self.fail(), "other": self.fail()}
        await search.gather_results(self.deadline, searches, says_why=True)

    async def during_a_search(self):
        await search.gather_results(self.deadline, {"one": self.fail()}, self.fail())

    async def together(self):
        await GroupCommit(self.fail, 9).submit(1)

    async def one_look_for_all(self):
        await resolver._LookupCache(self.fail, time.monotonic).find("key")

    async def in_a_lane(self):
        def call():
            raise ProviderError("no", reason="unreachable")

        limit = ConcurrencyLimit("failing", 1, lambda: 1)
        try:
            await limit.run(call)
        finally:
            limit._threads.shutdown()

    async def in_the_watcher(self):
        watcher = Watcher(lambda *_: None)

        def failed(_loop):
            watcher._look_now.wait()
            raise OSError("no")

        watcher._watch_in_thread = failed
        await watcher.run()

    async def query(self):
        model = SecondModel(EmbeddingQueue(FakeEmbedder()))
        model._embed_query = self.fail
        await model.vector("text", (), RetryBudget(time.monotonic() + PATIENCE_S))


@pytest.mark.parametrize("cancelled_after", range(6))
@pytest.mark.parametrize(
    "way",
    [
        "in_all_stores",
        "during_a_search",
        "together",
        "one_look_for_all",
        "in_a_lane",
        "in_the_watcher",
        "query",
    ],
)
async def test_work_that_fails_after_its_caller_left_is_never_said_to_be_unretrieved(way, cancelled_after):
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    for left in range(6):
        caller = asyncio.create_task(getattr(_Failing(left), way)())
        caller.add_done_callback(ignore_failure)
        for _ in range(cancelled_after):
            await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        await turns(12)
        del caller
        gc.collect(1)  # what is as young as that

    assert reported == []


async def test_failure_in_the_background_is_logged_and_one_that_was_stopped_is_not(caplog):
    async def fails():
        raise ValueError("no")

    for work, end in ((fails(), lambda _: None), (asyncio.sleep(60), asyncio.Task.cancel)):
        task = asyncio.create_task(work, name="a piece")
        task.add_done_callback(log_failure)
        end(task)
        await asyncio.wait([task])
        await turns(2)

    assert [each.message for each in caplog.records] == ["background work failed work=a piece"]
