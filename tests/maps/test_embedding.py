"""One bad text never sinks the rest, and an endpoint that is down is not asked once per text."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from forged.errors import ProviderError
from forged.map import Baseline
from forged.maps.embedding import AT_ONCE, EmbeddingQueue
from forged.models import Purpose
from tests.support.clock import Clock, run, turns, until
from tests.support.provider import FakeEmbedder, vector

COUNT = 300
BUILD = Purpose("build", ("/repo",))
CHUNK = FakeEmbedder.chunk
CHUNKS = -(-COUNT // CHUNK)


def texts_of(count=COUNT):
    return {f"{number}".encode(): f"text {number}" for number in range(count)}


def poisoned(numbers, reason="bad_input"):
    embedder = FakeEmbedder()
    embedder.poison = {f"text {number}": reason for number in numbers}
    return embedder


async def _replaced_meanwhile(queue, embedder, work):
    """Another model is recognised while texts are being embedded."""
    embedder.hold = asyncio.Event()
    task = asyncio.create_task(work)
    await embedder.called.wait()
    embedder.model = queue.identity.key = "another"
    queue.get(b"")
    embedder.hold.set()
    embedder.hold = None
    return task


async def test_vectors_of_a_model_that_was_replaced_meanwhile_are_not_kept():
    """Of a holder's texts they are embedded anew; urgent ones have none."""
    embedder = FakeEmbedder()
    queue = EmbeddingQueue(embedder)
    queue.add_holder(lambda: [((), texts_of(2))])
    queue.wake()
    task = await _replaced_meanwhile(queue, embedder, queue.run())
    await until(lambda: not queue.runs)
    queue.wake()
    await until(lambda: queue.get(b"0") is not None)
    assert (queue.get(b"0") == vector("anothertext 0", embedder.dimension)).all()
    task.cancel()

    embedder.called.clear()
    soon = asyncio.get_running_loop().time() + 60
    urgent = await _replaced_meanwhile(queue, embedder, queue.embed_now(["now"], soon))
    queue.identity.key = "a third"
    assert await urgent == [None]
    await queue.close()


def embedded(embedder, texts):
    """A finished run over `texts`, and the error that it ended with."""
    counted = []
    work = EmbeddingQueue(embedder).begin_run(BUILD, progress=counted.append)

    async def body():
        try:
            await work.run(texts)
        except ProviderError as error:
            return error
        return None

    error = run(body())
    work.counted = sum(counted)
    return work, error


async def test_at_most_four_chunks_are_out_at_once_after_the_first():
    embedder = FakeEmbedder()
    embedder.hold = asyncio.Event()
    task = asyncio.create_task(EmbeddingQueue(embedder).begin_run(BUILD).run(texts_of(CHUNK * 9)))
    await embedder.called.wait()
    first = len(embedder.calls)
    embedder.hold.set()
    embedder.hold = hold = asyncio.Event()
    await until(lambda: len(embedder.calls) >= 5)
    await turns()
    out = len(embedder.calls) - first
    hold.set()
    await task
    assert (first, out) == (1, 4)


@pytest.mark.parametrize("reason", ["bad_input", "server", "bad_reply"])
@pytest.mark.parametrize("culprit", [0, 63, 64, 177, 299])
def test_one_poison_among_300_texts_costs_at_most_14_calls_and_no_other_vector(reason, culprit):
    embedder = poisoned([culprit], reason)

    work, error = embedded(embedder, texts_of())

    assert error is None
    assert work.culprits == {f"{culprit}".encode(): f"{reason}: scripted {reason}"}
    assert (len(work.vectors), work.counted) == (COUNT - 1, COUNT)
    assert len(embedder.calls) <= CHUNKS + 14


@pytest.mark.parametrize("reason", ["unreachable", "timeout", "auth", "rate_limited"])
def test_a_failure_that_halving_cannot_cure_ends_the_run_after_one_call(reason):
    embedder = FakeEmbedder()
    embedder.down = reason

    work, error = embedded(embedder, texts_of())

    assert error.reason == reason
    assert len(embedder.calls) == 1
    assert work.culprits == {}


@pytest.mark.parametrize("reason", ["server", "bad_reply", "bad_input"])
@pytest.mark.parametrize("count", [1, 2, 5, COUNT])
def test_a_total_outage_blames_no_text_and_ends_after_few_calls(reason, count):
    embedder = FakeEmbedder()
    embedder.down = reason

    work, error = embedded(embedder, texts_of(count))

    assert error.reason == reason
    assert work.culprits == {}
    assert len(embedder.calls) <= 14


async def test_cancelling_a_run_leaves_no_task_behind():
    before = asyncio.all_tasks()
    embedder = FakeEmbedder()
    embedder.hold = asyncio.Event()
    embedder.hold.set()
    task = asyncio.create_task(EmbeddingQueue(embedder).begin_run(BUILD).run(texts_of()))
    await embedder.called.wait()
    embedder.hold = asyncio.Event()
    await until(lambda: len(embedder.calls) >= 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert asyncio.all_tasks() - before == set()


async def test_an_embedder_that_never_waits_leaves_others_a_turn_after_each_chunk():
    class AtOnce(FakeEmbedder):
        async def embed(self, texts, *_, **__):
            done.append(ticks)
            return np.array([vector(text) for text in texts])

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticks, done = 0, []
    ticking = asyncio.create_task(tick())
    await EmbeddingQueue(AtOnce()).begin_run(BUILD).run(texts_of(8 * CHUNK))
    ticking.cancel()
    assert len(done) == 8
    assert len(set(done)) >= 3


# --- in one line with other runs ----------------------------------------------------------------------


async def test_the_texts_of_a_root_that_is_asked_for_go_ahead_of_those_that_began_before():
    embedder, asked = FakeEmbedder(), {"old": 1.0, "new": 1.0}
    embedder.hold, queue = asyncio.Event(), EmbeddingQueue(embedder)

    def embedding(name, chunks):
        texts = {f"{name} {n}".encode(): f"{name} {n}" for n in range(chunks * CHUNK)}
        work = queue.begin_run(BUILD, texts=len(texts), used_at=lambda: asked[name])
        return asyncio.create_task(work.run(texts))

    old = embedding("old", 12)
    await embedder.called.wait()
    first, embedder.hold = embedder.hold, asyncio.Event()
    first.set()
    await until(lambda: len(embedder.calls) == 5)
    asked["new"] = 9.0
    new = embedding("new", 3)
    await turns()
    embedder.hold.set()
    embedder.hold = None
    await asyncio.gather(old, new)

    whose = [texts[0].split()[0] for texts in embedder.calls]
    assert whose[:6] == ["old"] * 5 + ["new"]
    assert sorted(whose) == ["new"] * 3 + ["old"] * 12
    assert whose[-3:] == ["old"] * 3, "what was asked for is done with first"


# --- the order of runs, their rate and the time left ------------------------------------------------------


@pytest.fixture
def clock():
    return Clock(1000.0)


@pytest.fixture
def queue(clock):
    return EmbeddingQueue(FakeEmbedder(), clock=clock)


async def test_chunks_of_the_root_that_was_asked_for_last_go_next(queue):
    asked = {"old": 1.0, "new": 2.0}
    begun, hold = [], asyncio.Event()

    async def chunk(place, name):
        async with place.turn():
            begun.append(name)
            await hold.wait()

    old, new = (queue.begin_run(texts=100, used_at=lambda name=name: asked[name]) for name in ("old", "new"))
    tasks = [asyncio.create_task(chunk(old, "old")) for _ in range(AT_ONCE + 2)]
    await turns()
    tasks += [asyncio.create_task(chunk(new, "new")) for _ in range(2)]
    await turns()
    assert begun == ["old"] * AT_ONCE
    hold.set()
    await asyncio.gather(*tasks)
    assert begun[AT_ONCE:] == ["new", "new", "old", "old"]


def test_who_was_asked_for_again_while_it_waits_goes_ahead(queue):
    asked = {"a": 5.0, "b": 6.0}
    a, b = (queue.begin_run(texts=10, used_at=lambda name=name: asked[name]) for name in "ab")
    assert b.rank() > a.rank()

    asked["a"] = 9.0

    assert a.rank() > b.rank()


def test_of_roots_of_one_request_the_one_with_the_fewest_texts_left_goes_first(queue):
    large, small = (
        queue.begin_run(texts=900, used_at=lambda: 7.30),
        queue.begin_run(texts=20, used_at=lambda: 7.31),
    )

    assert small.rank() > large.rank()

    large.count_finished(890)
    assert large.rank() > small.rank()


def test_the_rate_is_that_of_the_last_minute_of_all_roots_and_of_this_embedding(queue, clock):
    first, second = queue.begin_run(texts=1000), queue.begin_run(texts=1000)
    assert (first.rate, first.left_s) == (0.0, None)
    clock.now += 200
    first.count_finished(8)
    assert (first.rate, first.left_s) == (0.0, None), "the model had to be loaded for these"
    clock.now += 10
    first.count_finished(30)
    second.count_finished(10)
    assert first.rate == second.rate == 4.0
    clock.now += 65
    first.count_finished(80)

    assert first.rate == 80 / 60, "what is more than a minute ago says nothing of now"

    first.leave()
    second.leave()
    clock.now += 5
    later = queue.begin_run(texts=50)
    later.count_finished(1)
    clock.now += 2
    later.count_finished(1)
    assert later.rate == 0.5, "nor what was embedded before"


def test_the_time_left_counts_what_goes_ahead_and_not_what_comes_behind(queue, clock):
    behind, own, ahead = (queue.begin_run(texts=100, used_at=lambda at=at: at) for at in (1.0, 2.0, 3.0))
    own.count_finished(0)
    clock.now += 10
    own.count_finished(20)

    assert (ahead.left_s, own.left_s, behind.left_s) == (50.0, 90.0, 140.0)

    ahead.leave()
    assert own.left_s == 40.0


def test_a_baseline_is_wanting_until_there_is_one_of_the_model_that_answers():
    embedder = FakeEmbedder()
    learner, rows = EmbeddingQueue(embedder, gated=True).learner, np.eye(8, dtype=np.float32)
    assert (learner.is_wanting, learner.state) == (True, ("words", ""))

    learner.set_baseline(Baseline.of(embedder.key, rows, rows))
    assert (learner.is_wanting, learner.state) == (False, ("vectors", ""))

    embedder.key = "by another engine"
    embedder.renamed()
    assert (learner.is_wanting, learner.state) == (True, ("words", ""))
