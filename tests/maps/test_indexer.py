"""The served map: one builder per root, generations, failures, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time

import pytest

from forged.errors import ProviderError
from forged.files.roots import Root
from forged.map import baseline
from forged.maps import builds
from forged.maps.indexer import RECONCILE_S, UNLOAD_AFTER_S
from forged.maps.model_identity import ModelCache
from forged.memory import Scope
from forged.models import EndpointHealth
from forged.state import State
from forged.stores import FileStore
from forged.text.english import EVERYDAY_MESSAGES
from forged.trust import TrustRegistry
from tests.data.memories import memory, put
from tests.maps.indexing import built, embedding, indexing, opened, soon
from tests.state.conftest import a_governor
from tests.state.conftest import opened as state_in
from tests.support.clock import PATIENCE_S, turns, until
from tests.support.provider import FakeEmbedder

BOTH = pytest.mark.parametrize("lexical", [True, False], ids=["with_words", "weight_0"])


@pytest.fixture
def other(tmp_path):
    put(tmp_path / "other", memory("o", "other text"))
    return Root(str(tmp_path / "other"), Scope.REPO)


async def seen(indexer, roots, generation=0, deadline=None):
    return await FileStore(indexer, roots).view(generation, deadline or soon())


def shown(index):
    return {each.id: each.content for each in index.map.memories}


def edit(repo, text="edited", memory_id="m0"):
    put(repo, memory(memory_id, text))


def count(indexer, kind):
    return sum(event.kind == kind for event in indexer.reported)


@contextlib.asynccontextmanager
async def scanning(indexer):
    """Periodic scans, while it lasts."""
    scans = asyncio.create_task(indexer.run())
    yield
    scans.cancel()


# --- one builder per root -----------------------------------------------------------------------------


async def test_an_old_slow_build_never_replaces_a_newer_one(repo, root, embedder):
    """A task per trigger lets the build that began first end last."""
    async with indexing(embedder, lexical=False) as indexer:
        index = await opened(indexer, root)
        embedder.hold, embedder.called = asyncio.Event(), asyncio.Event()
        edit(repo, "slow")
        index.mark()
        await embedder.called.wait()
        slow, embedder.hold = embedder.hold, None
        edit(repo, "fast")
        newest = index.mark()
        await turns()
        slow.set()
        await index.until_ended(newest, soon())
        swaps = [event.generation for event in indexer.reported if event.kind == "swapped"]
        assert shown(index)["m0"] == "fast"
        assert swaps == sorted(swaps)


# --- generations --------------------------------------------------------------------------------------


@BOTH
async def test_a_generation_is_visible_only_by_a_build_that_began_after_its_mark(
    repo, root, embedder, lexical
):
    async with indexing(embedder, lexical=lexical) as indexer:
        index = await opened(indexer, root)
        embedder.hold, embedder.called = asyncio.Event(), asyncio.Event()
        edit(repo, "first edit")
        index.mark()
        await embedder.called.wait()
        edit(repo, "second edit", "m1")
        generation = index.mark()
        await turns()
        early = index.has_ended(generation)
        embedder.hold.set()
        view = await seen(indexer, [root], generation)
        await index.until_ended(generation, soon())
        assert not early
        assert view.find("m1")[0][1].content == "second edit"
        assert view.generation >= generation


async def test_generations_of_all_roots_are_one_sequence(root, other):
    async with indexing() as indexer:
        one, two = indexer.open(root), indexer.open(other)
        assert (one.generations.wanted, two.generations.wanted) == (1, 2)
        assert (one.mark(), two.mark(), one.mark()) == (3, 4, 5)


async def test_no_wait_for_a_generation_that_was_not_handed_out_or_not_asked_for(root, embedder):
    async with indexing(embedder, lexical=False) as indexer:
        index = await opened(indexer, root)
        assert (await seen(indexer, [root], 10**30)).size == 2
        embedder.hold = asyncio.Event()
        index.mark()
        assert (await asyncio.wait_for(seen(indexer, [root]), PATIENCE_S)).size == 2


async def test_a_first_build_that_is_late_is_waited_for_until_the_deadline(root, embedder):
    async with embedding(embedder, root, lexical=False) as (indexer, _):
        late = await seen(indexer, [root], 0, time.monotonic() + 0.02)
        embedder.hold.set()
        there = await seen(indexer, [root])
        assert (late.maps, late.waiting) == ((), True)
        assert (there.size, there.waiting) == (2, False)


# --- words first, vectors later -----------------------------------------------------------------------


async def test_words_serve_before_the_vectors_arrive_and_one_more_swap_brings_those(root, embedder):
    async with indexing(embedder) as indexer:
        embedder.hold = asyncio.Event()
        index = indexer.open(root)
        assert index.progress.state == "loading"
        early = await seen(indexer, [root])
        await turns()
        assert (early.indexes, index.progress.state) == (("lexical",), "building")
        embedder.hold.set()
        await index.until_ended(index.generations.wanted, soon())
        await until(lambda: index.progress.state == "ready")
        assert index.map.parts[0].dense is not None
        assert count(indexer, "swapped") == 2


# --- failures -----------------------------------------------------------------------------------------


@BOTH
async def test_a_failed_build_swaps_in_the_words_alone_and_without_words_keeps_what_is_still_there(
    repo, root, embedder, lexical
):
    shows = "edited" if lexical else "text 0"
    async with indexing(embedder, lexical=lexical) as indexer:
        index = await opened(indexer, root)
        embedder.down = "unreachable"
        edit(repo)
        view = await seen(indexer, [root], index.mark())
        assert (shown(index)["m0"], index.progress.state) == (shows, "failed")
        assert index.map.parts[0].dense.missing.tolist() == [lexical, False]
        assert lexical or (view.indexes, view.problem) == (
            ("dense",),
            "stale: unreachable: scripted unreachable",
        )
        (repo / ".forge/memory/m1.md").unlink()
        await index.until_tried(index.mark(), soon())
        assert shown(index) == {"m0": shows}


@BOTH
async def test_a_failed_build_heals_after_the_back_off_without_a_mark(root, embedder, lexical):
    embedder.down = "unreachable"
    async with indexing(embedder, lexical=lexical) as indexer:
        index = await opened(indexer, root)
        assert (index.progress.state, index.builder.problems) == ("failed", ())
        embedder.down = ""
        await until(lambda: index.progress.state == "ready")
        assert (index.map.parts[0].dense.vector_count, index.progress.error) == (2, "")


class Limiting(FakeEmbedder):
    """Refuses calls as too many, and names `asked_s` as the time to wait, as long as there is one."""

    asked_s: float | None = 120.0

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.health = EndpointHealth()

    async def embed(self, texts, kind="passage", *, purpose, deadline=None):
        if self.asked_s is None:
            return await super().embed(texts, kind, purpose=purpose)
        self.calls.append(tuple(texts))
        error = ProviderError("too many", reason="rate_limited", status=429, retry_after_s=self.asked_s)
        self.health.record_failure(error)
        raise error


def limited(asked_s):
    return ProviderError("no", reason="rate_limited", retry_after_s=asked_s)


@pytest.mark.parametrize(
    ("error", "before", "pause"),
    [
        (limited(None), None, 1.0),
        (limited(None), 1.0, 2.0),
        (limited(None), 50.0, 60.0),
        (limited(30.0), None, 30.0),
        (limited(2.0), 60.0, 2.0),
        (limited(0.0), 4.0, 1.0),
        (limited(1e9), None, 300.0),
        (OSError("of no endpoint"), 4.0, 8.0),
    ],
)
def test_the_next_attempt_is_when_the_endpoint_wants_it_within_limits_else_twice_as_late(
    error, before, pause
):
    assert builds.retry_after(error, before) == pause


@BOTH
async def test_an_endpoint_that_asks_for_patience_is_left_alone_whatever_happens_meanwhile(
    repo, root, other, lexical
):
    """An edit, a scan and another root come sooner than its time is up."""
    limiting = Limiting()
    async with indexing(limiting, lexical=lexical) as indexer:
        index = await opened(indexer, root)
        edit(repo)
        await built(index)
        await built(index)
        next_to = await opened(indexer, other)
        assert len(limiting.calls) == 1
        assert [each.progress.state for each in (index, next_to)] == ["failed", "failed"]
        assert not lexical or shown(index)["m0"] == "edited"
        assert index.progress.error == "rate_limited: too many"


@pytest.mark.parametrize("ended", ["by its own word", "by a person"])
async def test_when_its_time_is_up_or_a_person_rebuilds_an_endpoint_is_asked_again(root, ended):
    limiting = Limiting()
    limiting.asked_s = 0.001 if ended == "by its own word" else 120.0
    async with indexing(limiting) as indexer:
        index = await opened(indexer, root)
        limiting.asked_s = None
        if ended == "by a person":
            limiting.health.reset()
            await built(index)
        else:
            await until(lambda: index.progress.state == "ready")
        assert (index.progress.state, index.map.parts[0].dense.vector_count) == ("ready", 2)


async def test_a_build_that_breaks_in_an_unforeseen_way_is_a_failure_like_any_other(
    repo, root, embedder, caplog
):
    class Broken(FakeEmbedder):
        async def embed(self, texts, kind="passage", *, purpose, deadline=None):
            raise ZeroDivisionError("broken adapter")

    async with indexing(Broken(), lexical=False) as indexer:
        index = await opened(indexer, root)
        assert index.progress.state == "failed"
        assert index.progress.error == "broken adapter"
        assert not index.task.done()
    assert "build broke" in caplog.text


# --- long runs do not stand in the way ----------------------------------------------------------------


@BOTH
async def test_a_forgotten_memory_is_gone_although_vectors_of_others_are_still_on_their_way(
    repo, root, embedder, lexical
):
    """A first build against a slow model takes minutes; `forget` cannot wait for that."""
    async with indexing(embedder, lexical=lexical) as indexer:
        index = await opened(indexer, root)
        embedder.hold, embedder.called = asyncio.Event(), asyncio.Event()
        put(repo, *(memory(f"n{number}", f"new {number}") for number in range(100)))
        index.mark()
        await embedder.called.wait()
        (repo / ".forge/memory/m1.md").unlink()
        index.mark()
        await until(lambda: "m1" not in shown(index))
        embedder.hold.set()


async def test_with_words_what_happens_during_a_long_run_is_visible_at_once_and_gets_its_vector_too(
    repo, root, embedder
):
    async with embedding(embedder, root) as (indexer, index):
        for _ in range(3):
            await index.until_tried(index.mark(), soon())
        assert count(indexer, "swapped") == 1, "a mark without a change is reached, and swaps nothing"
        edit(repo)
        generation = index.mark()
        view = await seen(indexer, [root], generation)
        assert (view.find("m0")[0][1].content, index.has_ended(generation)) == ("edited", False)
        embedder.hold.set()
        await index.until_ended(generation, soon())
        assert sorted(embedder.texts) == ["edited", "text 0", "text 1"]
        assert index.map.parts[0].dense.vector_count == 2


# --- unloading and the end ----------------------------------------------------------------------------


async def test_the_periodic_scan_finds_what_the_watcher_missed(repo, root):
    async with indexing(reconcile_s=0.01) as indexer:
        index = await opened(indexer, root)
        async with scanning(indexer):
            edit(repo)
            await until(lambda: shown(index)["m0"] == "edited")


async def test_what_a_killed_writer_left_is_swept_within_a_minute(repo, root):
    """It may be too young when the root is opened, so the periodic scan looks again."""
    temps = [repo / f".forge/memory/.forged-{age}.tmp" for age in ("young", "old")]
    for temp in temps:
        temp.write_text("half")
    past = time.time() - (60 - RECONCILE_S)
    async with indexing(reconcile_s=0.01) as indexer:
        await opened(indexer, root)
        os.utime(temps[1], (past, past))
        async with scanning(indexer):
            await until(lambda: not temps[1].exists())
    assert temps[0].exists()


async def test_a_root_unused_for_a_day_is_unloaded_and_unwatched_until_it_is_asked_for(root, other):
    watched = []
    async with indexing(reconcile_s=0.01, on_roots=watched.append) as indexer:
        idle, used = await opened(indexer, root), await opened(indexer, other)
        idle.used_at -= UNLOAD_AFTER_S + 1
        used.used_at -= UNLOAD_AFTER_S - 60
        async with scanning(indexer):
            await until(idle.task.done)
        assert [index.root for index in indexer.indexes()] == [other]
        assert watched[-1] == frozenset({other})
        view = await seen(indexer, [root], idle.generations.visible)
        assert view.size == 2
        assert view.generation > idle.generations.visible


async def test_asking_for_a_root_counts_as_use_and_a_mark_does_not(root):
    async with indexing() as indexer:
        index = await opened(indexer, root)
        index.used_at = 0.0
        indexer.mark(root.top)
        assert index.used_at == 0.0
        await seen(indexer, [root])
        assert index.used_at > 0


async def test_a_change_under_a_top_marks_its_roots_and_no_others(root, other):
    async with indexing() as indexer:
        one, two = await opened(indexer, root), await opened(indexer, other)
        before = one.generations.wanted, two.generations.wanted
        indexer.mark(root.top)
        indexer.mark("/nowhere")
        assert one.generations.wanted > before[0]
        assert two.generations.wanted == before[1]


@pytest.mark.parametrize("at_work", [True, False])
async def test_close_ends_all_tasks(root, embedder, at_work):
    async with embedding(embedder, root) as (indexer, index):
        if not at_work:
            embedder.hold.set()
            await index.until_ended(index.generations.wanted, soon())
        await indexer.close()
        await turns()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert indexer.indexes() == ()


# --- the background of a model (`gate`) ---------------------------------------------------------------


@pytest.fixture
def model():
    return FakeEmbedder(dimension=64)


def everyday(embedder):
    """How many everyday messages were asked for; 128 are one background."""
    return sum(text in EVERYDAY_MESSAGES for text in embedder.texts)


@contextlib.asynccontextmanager
async def learning(model, root, **options):
    """An indexer whose gate wants a background, and the index of a root that is built."""
    async with indexing(model, gated=True, **options) as indexer:
        yield indexer, await opened(indexer, root)


async def learned(indexer, root):
    """The background, once it is there."""
    await until(lambda: indexer.learner.baseline)
    return (await seen(indexer, [root])).baseline


async def test_everyday_messages_are_not_sent_to_an_endpoint_that_asks_for_patience(repo, root):
    """Its answer to one of them is heeded by the memories too."""

    class Picky(Limiting):
        async def embed(self, texts, kind="passage", *, purpose, deadline=None):
            self.asked_s = 120.0 if texts[0] in EVERYDAY_MESSAGES else None
            return await super().embed(texts, kind, purpose=purpose)

    picky = Picky(dimension=64)
    async with learning(picky, root, reconcile_s=0.001) as (indexer, index):
        await until(indexer.learner._learning.done)
        async with scanning(indexer):
            before = count(indexer, "scanning")
            await until(lambda: count(indexer, "scanning") > before + 3)
        edit(repo)
        await built(index)
        assert everyday(picky) == 32
        assert "edited" not in picky.texts
        assert indexer.learner.state == ("failing", "rate_limited")


async def test_roots_that_are_built_at_once_and_edits_share_one_background(repo, root, other, model):
    async with indexing(model, gated=True) as indexer:
        index, _ = await asyncio.gather(*(opened(indexer, each) for each in (root, other)))
        before = await learned(indexer, root)
        edit(repo)
        await built(index)
        assert await learned(indexer, root) is before
        assert everyday(model) == 128


async def test_a_background_that_was_refused_is_warned_of_once_and_tried_again_by_the_next_build(
    repo, root, model, caplog
):
    model.poison = dict.fromkeys(EVERYDAY_MESSAGES, "bad_input")
    async with learning(model, root) as (indexer, index):
        for number in range(3):
            await until(indexer.learner._learning.done)
            edit(repo, f"edit {number}")
            await built(index)
        await until(indexer.learner._learning.done)
        assert caplog.text.count("background not embedded") == 1
        assert index.map.parts[0].dense.vector_count == 2
        model.poison = {}
        edit(repo, "last edit")
        await built(index)
        assert await learned(indexer, root) is not None
        assert index.progress.error == ""


async def test_a_background_that_was_refused_as_a_build_began_is_learned_as_the_build_ends(root):
    refused = asyncio.Event()

    class Recovering(FakeEmbedder):
        async def embed(self, texts, kind="passage", *, purpose, deadline=None):
            if purpose.name == "build":
                await refused.wait()
            elif purpose.name == "gate" and not refused.is_set():
                refused.set()
                raise ProviderError("not yet", reason="unreachable")
            return await super().embed(texts, kind, purpose=purpose)

    async with learning(Recovering(dimension=64), root, reconcile_s=3600) as (indexer, _):
        assert await learned(indexer, root) is not None


async def test_vectors_of_hardly_any_numbers_have_no_background_and_are_not_asked_for_twice(repo, root):
    tiny = FakeEmbedder(dimension=8)
    async with learning(tiny, root) as (indexer, index):
        await until(indexer.learner._learning.done)
        edit(repo)
        await built(index)
        await turns()
        assert everyday(tiny) == 128
        assert (await seen(indexer, [root])).baseline is None


async def test_a_new_configuration_of_the_same_model_embeds_no_everyday_message_again(root, model):
    model_cache = ModelCache()
    async with learning(model, root, model_cache=model_cache) as (indexer, _):
        before = await learned(indexer, root)
    async with learning(model, root, model_cache=model_cache) as (indexer, _):
        assert await learned(indexer, root) is before
        assert everyday(model) == 128


async def test_a_full_rebuild_by_another_model_learns_the_background_anew_and_serves_the_old_one_until_then(
    root, model
):
    async with learning(model, root) as (indexer, index):
        before = await learned(indexer, root)
        model.model = "other"
        indexer.forget_vectors(index)
        model.hold, model.called = asyncio.Event(), asyncio.Event()
        index.mark()
        await model.called.wait()
        assert await learned(indexer, root) is before
        model.hold.set()
        await until(lambda: indexer.learner.baseline is not before)
        assert everyday(model) == 256


async def test_a_map_is_calibrated_before_it_is_served(repo, root, model):
    """No search waits for it: an edit hands on what its map has."""
    async with learning(model, root) as (indexer, index):
        background = await learned(indexer, root)
        edit(repo)
        await built(index)
        assert baseline.kept_calibrations[index.map.parts[0].dense].baseline is background


async def test_what_was_held_back_gets_its_vectors_when_text_may_leave_again(root, embedder):
    embedder.down = "held"
    async with indexing(embedder) as indexer:
        index = indexer.open(root)
        await until(lambda: index.progress.state == "held")
        assert (index.map.parts[0].dense, index.progress.error) == (None, "")

        embedder.down = ""
        indexer.mark_all()

        await until(lambda: index.map.parts[0].dense is not None)
        assert (index.progress.state, index.progress.held) == ("ready", "")


# --- what does not count --------------------------------------------------------------------------------


async def test_the_first_build_waits_until_it_is_known_who_is_trusted(root, tmp_path):
    async with state_in(tmp_path / "state") as earlier:
        await TrustRegistry(earlier).trust(root.top)
    state = State(str(tmp_path / "state"), a_governor())
    async with indexing(trust=TrustRegistry(state)) as indexer:
        index = indexer.open(root)
        await turns(50)
        assert (index.map, index.builder.snapshot) == (None, None)
        keeping = asyncio.create_task(state.run())
        await index.until_ended(0, soon())
        assert [each.id for each in index.map.memories] == ["m0", "m1"]
        keeping.cancel()
        await state.close()


async def test_what_large_rows_took_is_given_back_when_they_are_laid_out_anew(repo, root, monkeypatch):
    returned = threading.Event()
    monkeypatch.setattr(builds, "LARGE", 1)
    async with indexing(None) as indexer:
        index = await opened(indexer, root)
        monkeypatch.setattr(builds, "trim_memory", returned.set)
        edit(repo)
        await built(index)
        await until(returned.is_set)
