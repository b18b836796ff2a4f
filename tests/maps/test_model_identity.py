"""When another model answers behind a name: what tells, how soon, and what may be embedded anew then."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from forged.errors import ProviderError
from forged.maps.model_identity import ModelCache, ModelIdentity
from tests.support.clock import turns
from tests.support.provider import FakeEmbedder

MINUTE, HOUR, DAY = 60.0, 3600.0, 24 * 3600.0


class Jittery(FakeEmbedder):
    """Never quite the same numbers twice: off by `jitter` in length, another way each time."""

    jitter = 0.0

    async def embed(self, texts, kind="passage", *, purpose, deadline=None):
        rows = await super().embed(texts, kind, purpose=purpose)
        noise = np.random.default_rng(self.looks).standard_normal(rows.shape)
        rows = rows + self.jitter * noise / np.linalg.norm(noise, axis=1, keepdims=True)
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


class Clocked:
    """An identity on a clock that a test puts forward."""

    def __init__(self, embedder=None, model_cache=None):
        self.now, self.obstacle, self.changes = 1e6, "", []
        self.model = embedder or Jittery(dimension=32)
        self.model_cache = model_cache or ModelCache()
        self.one = ModelIdentity(
            self.model,
            self.model_cache,
            clock=lambda: self.now,
            obstacle=lambda: self.obstacle,
            on_change=lambda: self.changes.append(self.one.kept),
        )

    async def after(self, seconds, *, dimension=None):
        """Time passes and is told of, and then a query comes back."""
        self.now += seconds
        self.one.tick()
        await turns()
        self.one.note_query(dimension or self.model.dimension)
        await turns()

    async def replaced(self, model):
        """Another model answers, and that was seen twice."""
        self.model.model = model
        await self.after(10 * MINUTE)
        await self.after(MINUTE)


@pytest.fixture
def clocked():
    clocked = Clocked()
    asyncio.run(clocked.one.check_now())
    return clocked


async def test_it_is_looked_at_every_ten_minutes_of_use_and_never_without_use(clocked):
    for _ in range(119):
        await clocked.after(5.0)
    assert clocked.model.looks == 1
    await clocked.after(5.0)
    assert clocked.model.looks == 2
    for _ in range(100):
        clocked.now += HOUR
        clocked.one.tick()
    await turns()
    assert clocked.model.looks == 2


async def test_another_dimension_is_another_model_with_the_next_query(clocked):
    clocked.model.dimension = 48
    await clocked.after(1.0)

    assert (clocked.one.dimension, clocked.model.looks) == (48, 2)
    assert clocked.changes == [clocked.one.key] != [clocked.model.key]
    assert "all memories were embedded again" in clocked.one.notice


async def test_a_single_odd_query_is_no_other_model_and_is_looked_into_once_a_minute(clocked):
    for _ in range(60):
        await clocked.after(1.0, dimension=7)
    assert (clocked.model.looks, clocked.changes) == (2, [])
    await clocked.after(1.0, dimension=7)
    assert (clocked.model.looks, clocked.changes) == (3, [])


async def test_other_vectors_are_another_model_within_twelve_minutes_of_use(clocked):
    clocked.model.model = "other"
    began = clocked.now
    while not clocked.changes and clocked.now < began + HOUR:
        await clocked.after(25.0)

    assert clocked.changes == [clocked.one.kept]
    assert clocked.one.key == clocked.one.kept != clocked.model.key
    assert 11 * MINUTE <= clocked.now - began <= 12 * MINUTE


async def test_other_vectors_that_were_seen_once_only_are_no_other_model(clocked):
    clocked.model.model = "other"
    await clocked.after(10 * MINUTE)
    await clocked.after(59.0)
    clocked.model.model = ""
    for _ in range(30):
        await clocked.after(MINUTE)

    assert (clocked.changes, clocked.one.notice) == ([], "")


async def test_a_model_of_which_one_sentence_stayed_is_the_same():
    class Partly(FakeEmbedder):
        async def embed(self, texts, kind="passage", *, purpose, deadline=None):
            rows = await super().embed(texts, kind, purpose=purpose)
            self.model, model = "", self.model
            rows[0] = (await super().embed(texts[:1], kind, purpose=purpose))[0]
            self.model = model
            return rows

    clocked = Clocked(Partly(dimension=32))
    await clocked.one.check_if_due()
    await clocked.replaced("other")
    assert clocked.changes == []


async def test_jitter_of_a_thousandth_for_an_hour_embeds_nothing_anew(clocked):
    clocked.model.jitter = 0.001
    for _ in range(720):
        await clocked.after(5.0)

    assert clocked.model.looks >= 6
    assert (clocked.changes, clocked.one.key, clocked.one.notice) == ([], clocked.model.key, "")


async def test_only_once_a_day_all_is_embedded_anew_and_then_a_person_is_asked(clocked):
    await clocked.replaced("second")
    await clocked.replaced("third")

    assert len(clocked.changes) == 1
    assert clocked.one.key != clocked.one.kept
    assert clocked.one.refusal.reason == "limit"
    assert "forgectl rebuild --full" in clocked.one.notice
    await clocked.after(DAY)
    assert clocked.changes[1:] == [clocked.one.key]
    assert clocked.one.refusal is None


async def test_beyond_the_limit_of_tokens_a_person_is_asked_until_there_are_some_again(clocked):
    clocked.obstacle = "9 of today's 9 tokens are used"
    await clocked.replaced("other")
    assert (clocked.changes, clocked.one.key != clocked.one.kept) == ([], True)
    assert "9 of today's 9 tokens" in clocked.one.notice
    assert "forgectl rebuild --full" in clocked.one.notice
    clocked.obstacle = ""
    await clocked.after(MINUTE)
    assert clocked.changes == [clocked.one.key]


async def test_a_model_that_comes_back_is_known_again_and_nothing_is_embedded_for_it(clocked):
    clocked.obstacle = "no tokens"
    await clocked.replaced("other")
    await clocked.replaced("")

    assert (clocked.one.key, clocked.one.refusal, clocked.one.notice) == (clocked.model.key, None, "")
    assert clocked.changes == []


async def test_who_rebuilds_in_full_takes_whatever_answers_without_a_limit(clocked):
    await clocked.replaced("second")
    clocked.model.model = "third"
    clocked.one.renew()
    await clocked.one.check_if_due()

    assert clocked.one.key == clocked.one.kept == f"{clocked.model.key}\n#2"
    assert clocked.one.notice == ""


async def test_a_new_configuration_knows_the_models_of_the_one_before(clocked):
    await clocked.replaced("second")
    after = Clocked(clocked.model, clocked.model_cache)
    await after.one.check_if_due()

    assert after.one.key == after.one.kept == clocked.one.key


async def test_a_look_that_fails_is_raised_to_who_begins_and_says_nothing_of_the_model(clocked):
    clocked.model.down = "server"
    clocked.now += 10 * MINUTE
    with pytest.raises(ProviderError):
        await clocked.one.check_if_due()
    clocked.model.down = ""
    await clocked.one.check_if_due()

    assert (clocked.model.looks, clocked.changes) == (3, [])


async def test_a_model_in_this_process_is_not_looked_at():
    clocked = Clocked()
    clocked.model.replaceable = False
    await clocked.one.check_if_due()
    await clocked.after(HOUR)

    assert (clocked.model.looks, clocked.one.dimension) == (0, 0)


async def test_another_engine_than_was_meant_is_another_model_from_the_first_vector_on():
    one = Clocked()
    one.model.replaceable = False
    one.model_cache.models["fake"] = {}

    async def prepare():
        one.model.key = "fake by another engine"

    one.model.prepare = prepare
    before = one.one.kept

    await one.one.check_if_due()
    await one.one.check_if_due()

    assert (before, one.one.kept, one.one.key) == ("fake", *["fake by another engine"] * 2)
    assert one.changes == ["fake by another engine"]  # whatever was known of the other one is outdated
    assert one.one.refusal is None


async def test_an_engine_that_a_query_loads_is_known_at_once_and_maps_hear_of_it_with_the_next_texts():
    one, names = Clocked(), []
    one.model.replaceable = False
    one.one.renamed = lambda: names.append((one.one.key, one.one.kept))

    one.model.key = "fake by another engine"
    one.model.renamed()
    assert (names, one.changes) == ([("fake by another engine",) * 2], [])
    await one.one.check_if_due()

    assert one.changes == ["fake by another engine"]
