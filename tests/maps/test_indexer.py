"""Which map is served when: one builder per root, generations, failures, and the end of it."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from forged.counters import Metrics
from forged.errors import ProviderError
from forged.files.roots import Root
from forged.map import relevance
from forged.maps.indexer import UNLOAD_AFTER_S, Indexer, retry_after
from forged.memory import Scope
from forged.scopes import FileRoots
from forged.text.everyday import MESSAGES
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, run, turns, until
from tests.support.provider import FakeEmbedder

BOTH = pytest.mark.parametrize("lexical", [True, False], ids=["with_words", "weight_0"])


@pytest.fixture
def embedder():
    return FakeEmbedder()


@pytest.fixture
def root(repo):
    put(repo, memory("m0", "text 0"), memory("m1", "text 1"))
    return Root(str(repo), Scope.REPO)


@contextlib.asynccontextmanager
async def indexing(embedder=None, *, lexical=True, **options):
    """An indexer, and the events it tells."""
    indexer = Indexer(embedder=embedder, lexical=lexical, metrics=Metrics(), **options)
    indexer.told = []
    indexer.listen(indexer.told.append)
    try:
        yield indexer
    finally:
        await indexer.close()


def seen(indexer, roots, generation, deadline):
    return FileRoots(indexer, roots).see(generation, deadline)


def soon():
    return time.monotonic() + PATIENCE_S


async def built(index):
    """Wait for a build that began after now."""
    await index.until_ended(index.mark(), soon())
    return index


async def opened(indexer, root):
    index = indexer.open(root)
    await index.until_ended(index.generations.wanted, soon())
    return index


def shown(index):
    return {each.id: each.content for each in index.map.memories}


def builds(indexer):
    return sum(event.kind == "scanning" for event in indexer.told)


# --- one builder per root -----------------------------------------------------------------------------


def test_an_old_slow_build_never_replaces_a_newer_one(repo, root, embedder):
    """A task per trigger lets the build that began first end last."""

    async def body():
        async with indexing(embedder, lexical=False) as indexer:
            index = await opened(indexer, root)
            embedder.hold, embedder.called = asyncio.Event(), asyncio.Event()
            put(repo, memory("m0", "slow"))
            index.mark()
            await embedder.called.wait()
            slow, embedder.hold = embedder.hold, None
            put(repo, memory("m0", "fast"))
            newest = index.mark()
            await turns()
            slow.set()
            await index.until_ended(newest, soon())
            swaps = [event.generation for event in indexer.told if event.kind == "swapped"]
            return shown(index)["m0"], swaps == sorted(swaps)

    assert run(body()) == ("fast", True)


def test_marks_during_a_build_are_one_more_build(root, embedder):
    async def body():
        async with indexing(embedder, lexical=False) as indexer:
            embedder.hold = asyncio.Event()
            index = indexer.open(root)
            await embedder.called.wait()
            last = [index.mark() for _ in range(50)][-1]
            embedder.hold.set()
            await index.until_ended(last, soon())
            await turns()
            return builds(indexer)

    assert run(body()) == 2


def test_roots_are_built_independently(repo, root, embedder, tmp_path):
    other = tmp_path / "other"
    put(other, memory("o", "other text"))

    async def body():
        async with indexing(embedder, lexical=False) as indexer:
            embedder.hold = asyncio.Event()
            stuck = indexer.open(root)
            await embedder.called.wait()
            held, embedder.hold = embedder.hold, None
            index = await opened(indexer, Root(str(other), Scope.REPO))
            first = (stuck.map, shown(index))
            held.set()
            return first

    assert run(body()) == (None, {"o": "other text"})


def test_opening_a_root_again_is_no_new_build(root):
    async def body():
        async with indexing() as indexer:
            index = await opened(indexer, root)
            same = indexer.open(root) is index
            await turns()
            return same, builds(indexer)

    assert run(body()) == (True, 1)


def test_readers_keep_the_view_they_took(repo, root):
    async def body():
        async with indexing() as indexer:
            before = await seen(indexer, [root], 0, soon())
            put(repo, memory("m0", "edited"))
            await built(indexer.open(root))
            after = await seen(indexer, [root], 0, soon())
            return before.find("m0")[1].content, after.find("m0")[1].content

    assert run(body()) == ("text 0", "edited")


# --- generations --------------------------------------------------------------------------------------


@BOTH
def test_a_generation_is_visible_only_by_a_build_that_began_after_its_mark(repo, root, embedder, lexical):
    async def body():
        async with indexing(embedder, lexical=lexical) as indexer:
            index = await opened(indexer, root)
            embedder.hold, embedder.called = asyncio.Event(), asyncio.Event()
            put(repo, memory("m0", "first edit"))
            index.mark()
            await embedder.called.wait()
            put(repo, memory("m1", "second edit"))
            generation = index.mark()
            await turns()
            early = index.has_ended(generation)
            embedder.hold.set()
            view = await seen(indexer, [root], generation, soon())
            await index.until_ended(generation, soon())
            return early, view.find("m1")[1].content, view.generation >= generation

    assert run(body()) == (False, "second edit", True)


def test_generations_of_all_roots_are_one_sequence(root, tmp_path):
    (tmp_path / "other").mkdir()

    async def body():
        async with indexing() as indexer:
            one, two = indexer.open(root), indexer.open(Root(str(tmp_path / "other"), Scope.REPO))
            return [one.generations.wanted, two.generations.wanted, one.mark(), two.mark(), one.mark()]

    assert run(body()) == [1, 2, 3, 4, 5]


def test_a_generation_nobody_handed_out_is_not_waited_for(root):
    async def body():
        async with indexing() as indexer:
            await opened(indexer, root)
            return await seen(indexer, [root], 10**30, soon())

    assert len(run(body())) == 2


def test_a_view_of_several_roots_is_as_old_as_the_one_that_lags(repo, root, embedder, tmp_path):
    put(tmp_path / "other", memory("o", "other text"))
    other = Root(str(tmp_path / "other"), Scope.REPO)

    async def body():
        async with indexing(embedder, lexical=False) as indexer:
            await opened(indexer, root)
            await opened(indexer, other)
            embedder.down = "unreachable"
            put(repo, memory("m0", "edited"))
            lagging = indexer.open(root)
            before = lagging.generations.visible
            failed = lagging.mark()
            await built(indexer.open(other))
            await lagging.until_ended(failed, soon())
            view = await seen(indexer, [root, other], 0, soon())
            return before <= view.generation < failed

    assert run(body())


def test_without_a_mark_a_view_waits_for_nothing(root, embedder):
    async def body():
        async with indexing(embedder, lexical=False) as indexer:
            await opened(indexer, root)
            embedder.hold = asyncio.Event()
            indexer.open(root).mark()
            return await asyncio.wait_for(seen(indexer, [root], 0, soon()), 1)

    assert len(run(body())) == 2


def test_a_first_build_that_is_late_is_waited_for_until_the_deadline(root, embedder):
    async def body():
        async with indexing(embedder, lexical=False) as indexer:
            embedder.hold = asyncio.Event()
            late = await seen(indexer, [root], 0, time.monotonic() + 0.02)
            embedder.hold.set()
            there = await seen(indexer, [root], 0, soon())
            return (late.maps, late.waiting), (len(there), there.waiting)

    assert run(body()) == (((), True), (2, False))


# --- words first, vectors later -----------------------------------------------------------------------


def test_words_serve_before_the_vectors_arrive_and_one_more_swap_brings_those(root, embedder):
    async def body():
        async with indexing(embedder) as indexer:
            embedder.hold = asyncio.Event()
            early = await seen(indexer, [root], 0, soon())
            embedder.hold.set()
            index = await opened(indexer, root)
            swaps = sum(event.kind == "swapped" for event in indexer.told)
            return early.legs, index.map.dense is not None, swaps

    assert run(body()) == (("lexical",), True, 2)


def test_a_root_is_loading_until_its_words_answer_and_then_building(root, embedder):
    async def body():
        async with indexing(embedder) as indexer:
            embedder.hold = asyncio.Event()
            index = indexer.open(root)
            states = [index.progress.state]
            await seen(indexer, [root], 0, soon())
            await turns()
            states.append(index.progress.state)
            embedder.hold.set()
            await until(lambda: index.progress.state == "ready")
            return states

    assert run(body()) == ["loading", "building"]


def test_an_edit_whose_vector_comes_quickly_is_swapped_in_once(repo, root, embedder):
    async def body():
        async with indexing(embedder) as indexer:
            index = await opened(indexer, root)
            before = len(indexer.told)
            put(repo, memory("m0", "edited"))
            await built(index)
            return [event.kind for event in indexer.told[before:]].count("swapped")

    assert run(body()) == 1


def test_events_come_in_order(root, embedder):
    async def body():
        async with indexing(embedder, lexical=False) as indexer:
            index = await opened(indexer, root)
            return [
                (e.kind, e.done, e.total, e.generation == index.generations.visible) for e in indexer.told
            ]

    assert run(body()) == [
        ("scanning", 0, 0, True),
        ("embedding", 2, 2, True),
        ("swapped", 2, 2, True),
    ]


def test_a_failed_build_ends_its_events_with_failed(root, embedder):
    embedder.down = "unreachable"

    async def body():
        async with indexing(embedder, lexical=False) as indexer:
            await opened(indexer, root)
            return [event.kind for event in indexer.told]

    assert run(body()) == ["scanning", "failed"]


def test_a_listener_that_left_hears_nothing_more(root):
    async def body():
        async with indexing() as indexer:
            heard = []
            leave = indexer.listen(heard.append)
            leave()
            await opened(indexer, root)
            return heard

    assert run(body()) == []


# --- failures -----------------------------------------------------------------------------------------


def test_reach_returns_when_the_build_failed(root, embedder):
    embedder.down = "unreachable"

    async def body():
        async with indexing(embedder, lexical=False) as indexer:
            view = await seen(indexer, [root], 0, soon())
            return view.maps, view.waiting, view.problem

    assert run(body()) == ((), False, "unreachable: scripted unreachable")


def test_at_weight_0_a_failed_build_keeps_the_old_map_and_says_so(repo, root, embedder):
    async def body():
        async with indexing(embedder, lexical=False) as indexer:
            index = await opened(indexer, root)
            embedder.down = "unreachable"
            put(repo, memory("m0", "edited"))
            view = await seen(indexer, [root], index.mark(), soon())
            return view.find("m0")[1].content, view.legs, view.problem, index.progress.state

    assert run(body()) == ("text 0", ("dense",), "stale: unreachable: scripted unreachable", "failed")


def test_at_weight_0_a_forgotten_memory_is_not_served_while_the_provider_is_down(repo, root, embedder):
    async def body():
        async with indexing(embedder, lexical=False) as indexer:
            index = await opened(indexer, root)
            embedder.down = "unreachable"
            put(repo, memory("m0", "edited"))
            (repo / ".forge/memory/m1.md").unlink()
            await index.until_tried(index.mark(), soon())
            return shown(index)

    assert run(body()) == {"m0": "text 0"}


def test_with_words_a_failed_build_swaps_in_the_words_alone(repo, root, embedder):
    async def body():
        async with indexing(embedder) as indexer:
            index = await opened(indexer, root)
            embedder.down = "unreachable"
            put(repo, memory("m0", "edited"))
            await built(index)
            return shown(index)["m0"], index.map.dense.missing.tolist(), index.progress.state

    assert run(body()) == ("edited", [True, False], "failed")


@BOTH
def test_a_failed_build_heals_after_the_back_off_without_a_mark(root, embedder, lexical):
    embedder.down = "unreachable"

    async def body():
        async with indexing(embedder, lexical=lexical) as indexer:
            index = await opened(indexer, root)
            failed = (index.progress.state, index.builder.problems)
            embedder.down = ""
            await until(lambda: index.progress.state == "ready")
            return failed, index.map.dense.present, index.progress.error

    assert run(body()) == (("failed", ()), 2, "")


class Limiting(FakeEmbedder):
    """Refuses calls as too many, and names `asked_s` as the time to wait, as long as there is one."""

    asked_s: float | None = 120.0

    async def embed(self, texts, kind="passage", *, deadline=None):
        if self.asked_s is None:
            return await super().embed(texts, kind)
        self.calls.append(tuple(texts))
        raise ProviderError("too many", reason="rate_limited", status=429, retry_after_s=self.asked_s)


@pytest.mark.parametrize(
    ("asked_s", "before", "pause"),
    [
        (None, None, 1.0),
        (None, 1.0, 2.0),
        (None, 50.0, 60.0),
        (30.0, None, 30.0),
        (2.0, 60.0, 2.0),
        (0.0, 4.0, 1.0),
        (1e9, None, 300.0),
    ],
)
def test_the_next_attempt_is_when_the_endpoint_wants_it_within_limits_else_twice_as_late(
    asked_s, before, pause
):
    assert retry_after(ProviderError("no", reason="rate_limited", retry_after_s=asked_s), before) == pause


def test_a_failure_of_no_endpoint_backs_off_like_any_other():
    assert retry_after(OSError("disk"), 4.0) == 8.0


@BOTH
def test_an_endpoint_that_asks_for_patience_is_left_alone_whatever_happens_meanwhile(repo, root, lexical):
    """An edit, a scan and another root come sooner than its time is up."""
    put(repo.parent / "other", memory("o", "other text"))
    limiting = Limiting()

    async def body():
        async with indexing(limiting, lexical=lexical) as indexer:
            index = await opened(indexer, root)
            put(repo, memory("m0", "edited"))
            await built(index)
            await built(index)
            other = await opened(indexer, Root(str(repo.parent / "other"), Scope.REPO))
            states = [each.progress.state for each in (index, other)]
            words = shown(index)["m0"] if lexical else "edited"
            return len(limiting.calls), states, words, index.progress.error

    assert run(body()) == (1, ["failed", "failed"], "edited", "rate_limited: too many")


def test_when_its_time_is_up_an_endpoint_is_asked_again(root):
    limiting = Limiting()
    limiting.asked_s = 0.001

    async def body():
        async with indexing(limiting) as indexer:
            index = await opened(indexer, root)
            limiting.asked_s = None
            await until(lambda: index.progress.state == "ready")
            return index.map.dense.present

    assert run(body()) == 2


def test_a_person_who_rebuilds_is_not_kept_waiting_by_what_an_endpoint_wanted(root):
    limiting = Limiting()

    async def body():
        async with indexing(limiting) as indexer:
            index = await opened(indexer, root)
            limiting.asked_s = None
            indexer.pause.end()
            await built(index)
            return index.progress.state, index.map.dense.present

    assert run(body()) == ("ready", 2)


def test_a_build_that_breaks_in_an_unforeseen_way_is_a_failure_like_any_other(repo, root, embedder, caplog):
    class Broken(FakeEmbedder):
        async def embed(self, texts, kind="passage", *, deadline=None):
            raise ZeroDivisionError("broken adapter")

    async def body():
        async with indexing(Broken(), lexical=False) as indexer:
            index = await opened(indexer, root)
            return index.progress.state, index.progress.error, index.task.done()

    assert run(body()) == ("failed", "broken adapter", False)
    assert "build broke" in caplog.text


def test_a_failure_is_logged_once_and_not_at_every_retry(root, embedder, caplog):
    embedder.down = "unreachable"

    async def body():
        async with indexing(embedder, lexical=False) as indexer:
            index = await opened(indexer, root)
            for _ in range(3):
                await built(index)

    run(body())

    assert caplog.text.count("build failed") == 1


def test_poison_in_a_root_is_a_problem_and_no_failure(repo, root, embedder):
    embedder.poison = {"text 1": "bad_input"}

    async def body():
        async with indexing(embedder) as indexer:
            index = await opened(indexer, root)
            return index.progress.state, [problem.path for problem in index.builder.problems]

    assert run(body()) == ("ready", ["m1"])


def test_a_full_rebuild_in_the_middle_of_a_build_breaks_nothing(root, embedder, caplog):
    async def body():
        async with indexing(embedder) as indexer:
            embedder.hold = asyncio.Event()
            index = indexer.open(root)
            await embedder.called.wait()
            index.builder.forget_vectors()
            goal = index.mark()
            embedder.hold.set()
            await index.until_ended(goal, soon())
            return index.progress.state, len(embedder.texts), index.map.dense.present

    assert run(body()) == ("ready", 4, 2)
    assert "Traceback" not in caplog.text


# --- long runs do not stand in the way ----------------------------------------------------------------


@BOTH
def test_a_forgotten_memory_is_gone_although_vectors_of_others_are_still_on_their_way(
    repo, root, embedder, lexical
):
    """A first build against a slow model takes minutes; `forget` cannot wait for that."""

    async def body():
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

    run(body())


def test_with_words_an_edit_is_visible_although_vectors_of_others_are_still_on_their_way(
    repo, root, embedder
):
    async def body():
        async with indexing(embedder) as indexer:
            embedder.hold = asyncio.Event()
            index = indexer.open(root)
            await embedder.called.wait()
            put(repo, memory("m0", "edited"))
            generation = index.mark()
            view = await seen(indexer, [root], generation, soon())
            early = view.find("m0")[1].content, index.has_ended(generation)
            embedder.hold.set()
            return early

    assert run(body()) == ("edited", False)


def test_with_words_a_mark_without_a_change_is_reached_during_a_long_run_too(repo, root, embedder):
    async def body():
        async with indexing(embedder) as indexer:
            embedder.hold = asyncio.Event()
            index = indexer.open(root)
            await embedder.called.wait()
            for _ in range(3):
                await index.until_tried(index.mark(), soon())
            swaps = sum(event.kind == "swapped" for event in indexer.told)
            embedder.hold.set()
            return swaps

    assert run(body()) == 1


def test_what_was_edited_during_a_long_run_gets_its_vector_too(repo, root, embedder):
    async def body():
        async with indexing(embedder) as indexer:
            embedder.hold = asyncio.Event()
            index = indexer.open(root)
            await embedder.called.wait()
            put(repo, memory("m0", "edited"))
            goal = index.mark()
            await until(lambda: index.map and shown(index)["m0"] == "edited")
            embedder.hold.set()
            await index.until_ended(goal, soon())
            return sorted(embedder.texts), index.map.dense.present

    assert run(body()) == (["edited", "text 0", "text 1"], 2)


# --- unloading and the end ----------------------------------------------------------------------------


def test_the_periodic_scan_finds_what_the_watcher_missed(repo, root):
    async def body():
        async with indexing(reconcile_s=0.01) as indexer:
            index = await opened(indexer, root)
            reconciling = asyncio.create_task(indexer.run())
            put(repo, memory("m0", "edited"))
            await until(lambda: shown(index)["m0"] == "edited")
            reconciling.cancel()

    run(body())


def test_a_root_unused_for_a_day_is_unloaded_and_unwatched(root, tmp_path):
    put(tmp_path / "other", memory("o", "other text"))
    other, watched = Root(str(tmp_path / "other"), Scope.REPO), []

    async def body():
        async with indexing(reconcile_s=0.01, on_roots=watched.append) as indexer:
            idle, used = await opened(indexer, root), await opened(indexer, other)
            idle.used_at -= UNLOAD_AFTER_S + 1
            used.used_at -= UNLOAD_AFTER_S - 60
            reconciling = asyncio.create_task(indexer.run())
            await until(idle.task.done)
            reconciling.cancel()
            return [index.root for index in indexer.indexes()], watched[-1]

    assert run(body()) == ([other], frozenset({other}))


def test_an_unloaded_root_is_loaded_again_when_it_is_asked_for(root):
    async def body():
        async with indexing(reconcile_s=0.01) as indexer:
            idle = await opened(indexer, root)
            idle.used_at -= UNLOAD_AFTER_S + 1
            reconciling = asyncio.create_task(indexer.run())
            await until(lambda: not indexer.indexes())
            reconciling.cancel()
            view = await seen(indexer, [root], idle.generations.visible, soon())
            return len(view), view.generation > idle.generations.visible

    assert run(body()) == (2, True)


def test_asking_for_a_root_counts_as_use_and_a_mark_does_not(root):
    async def body():
        async with indexing() as indexer:
            index = await opened(indexer, root)
            index.used_at = 0.0
            indexer.mark(root.top)
            marked = index.used_at
            await seen(indexer, [root], 0, soon())
            return marked, index.used_at > 0

    assert run(body()) == (0.0, True)


def test_a_change_under_a_top_marks_its_roots_and_no_others(root, tmp_path):
    put(tmp_path / "other", memory("o", "other text"))
    other = Root(str(tmp_path / "other"), Scope.REPO)

    async def body():
        async with indexing() as indexer:
            one, two = await opened(indexer, root), await opened(indexer, other)
            before = one.generations.wanted, two.generations.wanted
            indexer.mark(root.top)
            indexer.mark("/nowhere")
            return one.generations.wanted > before[0], two.generations.wanted == before[1]

    assert run(body()) == (True, True)


@pytest.mark.parametrize("at_work", [True, False])
def test_close_ends_all_tasks(root, embedder, at_work):
    async def body():
        async with indexing(embedder) as indexer:
            if at_work:
                embedder.hold = asyncio.Event()
                indexer.open(root)
                await embedder.called.wait()
            else:
                await opened(indexer, root)
            await indexer.close()
            await turns()
            return asyncio.all_tasks() - {asyncio.current_task()}, indexer.indexes()

    assert run(body()) == (set(), ())


def test_named_files_do_not_narrow_a_rescan_of_everything(repo, root):
    async def body():
        async with indexing() as indexer:
            index = await opened(indexer, root)
            put(repo, memory("m0", "first edit"))
            put(repo, memory("m1", "second edit"))
            index.mark()
            index.mark(frozenset({f"{repo}/.forge/memory/m0.md"}))
            view = await seen(indexer, [root], index.generations.wanted, soon())
            return view.find("m0")[1].content, view.find("m1")[1].content

    assert run(body()) == ("first edit", "second edit")


# --- the background of a model (`gate`) ---------------------------------------------------------------


@pytest.fixture
def model():
    return FakeEmbedder(dimension=64)


def everyday(embedder):
    """How many everyday messages were asked for; 128 are one background."""
    return sum(text in MESSAGES for text in embedder.texts)


async def learned(indexer, root):
    """The background, once it is there."""
    await until(lambda: indexer.learner.baseline)
    return (await seen(indexer, [root], 0, soon())).baseline


def test_everyday_messages_are_embedded_on_both_sides_beside_the_first_texts(root, model):
    async def body():
        async with indexing(model, gated=True) as indexer:
            await opened(indexer, root)
            background = await learned(indexer, root)
            return (
                everyday(model),
                sorted(set(model.texts) - set(MESSAGES)),
                background.key,
                max(map(len, model.calls)),
            )

    assert run(body()) == (128, ["text 0", "text 1"], "fake", 4)


def test_it_is_told_by_what_requests_are_judged(repo, root, model):
    async def body():
        async with indexing(model, gated=True) as indexer:
            told = [indexer.learner.state]
            model.hold = asyncio.Event()
            index = indexer.open(root)
            await model.called.wait()
            told.append(indexer.learner.state)
            model.poison = dict.fromkeys(MESSAGES, "auth")
            model.hold.set()
            await until(indexer.learner._learning.done)
            told.append(indexer.learner.state)
            model.poison = {}
            put(repo, memory("m0", "edited"))
            await built(index)
            await learned(indexer, root)
            return [*told, indexer.learner.state]

    assert run(body()) == [("words", ""), ("learning", ""), ("failing", "auth"), ("vectors", "")]


def test_without_a_gate_nothing_judges(root, model):
    async def body():
        async with indexing(model) as indexer:
            await opened(indexer, root)
            return indexer.learner.state

    assert run(body()) == ("off", "")


def test_everyday_messages_are_not_sent_to_an_endpoint_that_asks_for_patience(repo, root):
    """Its answer to one of them is heeded by the memories too."""

    class Picky(Limiting):
        async def embed(self, texts, kind="passage", *, deadline=None):
            self.asked_s = 120.0 if texts[0] in MESSAGES else None
            return await super().embed(texts, kind)

    picky = Picky(dimension=64)

    async def body():
        async with indexing(picky, gated=True, reconcile_s=0.001) as indexer:
            index = await opened(indexer, root)
            await until(indexer.learner._learning.done)
            scans = asyncio.create_task(indexer.run())
            before = builds(indexer)
            await until(lambda: builds(indexer) > before + 3)
            scans.cancel()
            put(repo, memory("m0", "edited"))
            await built(index)
            return everyday(picky), "edited" in picky.texts, indexer.learner.state

    assert run(body()) == (4, False, ("failing", "rate_limited"))


def test_an_edit_and_another_root_learn_nothing_again(repo, root, model, tmp_path):
    put(tmp_path / "other", memory("o", "other text"))

    async def body():
        async with indexing(model, gated=True) as indexer:
            index = await opened(indexer, root)
            before = await learned(indexer, root)
            await opened(indexer, Root(str(tmp_path / "other"), Scope.REPO))
            put(repo, memory("m0", "edited"))
            await built(index)
            return everyday(model), await learned(indexer, root) is before

    assert run(body()) == (128, True)


def test_two_roots_that_are_built_at_once_share_one_background(root, model, tmp_path):
    put(tmp_path / "other", memory("o", "other text"))

    async def body():
        async with indexing(model, gated=True) as indexer:
            roots = (root, Root(str(tmp_path / "other"), Scope.REPO))
            await asyncio.gather(*(opened(indexer, each) for each in roots))
            await learned(indexer, root)
            return everyday(model)

    assert run(body()) == 128


@pytest.mark.parametrize("case", ["no gate", "nothing to embed", "no model"])
def test_where_nobody_needs_it_no_background_is_embedded(repo, root, model, case):
    if case == "nothing to embed":
        for file in (repo / ".forge/memory").iterdir():
            file.unlink()

    async def body():
        async with indexing(model if case != "no model" else None, gated=case != "no gate") as indexer:
            index = await opened(indexer, root)
            await built(index)
            return everyday(model), (await seen(indexer, [root], 0, soon())).baseline

    assert run(body()) == (0, None)


def test_a_background_that_was_refused_is_warned_of_once_and_tried_again_by_the_next_build(
    repo, root, model, caplog
):
    model.poison = dict.fromkeys(MESSAGES, "bad_input")

    async def body():
        async with indexing(model, gated=True) as indexer:
            index = await opened(indexer, root)
            for number in range(3):
                await until(indexer.learner._learning.done)
                put(repo, memory("m0", f"edit {number}"))
                await built(index)
            await until(indexer.learner._learning.done)
            refused, open_ = caplog.text.count("background not embedded"), index.map.dense.present
            model.poison = {}
            put(repo, memory("m0", "last edit"))
            await built(index)
            return refused, open_, (await learned(indexer, root)) is not None, index.progress.error

    assert run(body()) == (1, 2, True, "")


def test_vectors_of_hardly_any_numbers_have_no_background_and_are_not_asked_for_twice(repo, root):
    tiny = FakeEmbedder(dimension=8)

    async def body():
        async with indexing(tiny, gated=True) as indexer:
            index = await opened(indexer, root)
            await until(indexer.learner._learning.done)
            put(repo, memory("m0", "edited"))
            await built(index)
            await turns()
            return everyday(tiny), (await seen(indexer, [root], 0, soon())).baseline

    assert run(body()) == (128, None)


def test_a_model_replaced_behind_its_name_is_learned_anew(repo, root, model):
    async def body():
        async with indexing(model, gated=True) as indexer:
            index = await opened(indexer, root)
            await learned(indexer, root)
            model.dimension = 96
            put(repo, memory("m0", "edited"))
            await built(index)
            await until(lambda: index.map.dense.dimension == 96)
            await until(lambda: indexer.learner.baseline.messages.shape[1] == 96)
            await built(index)
            return index.progress.error, everyday(model)

    assert run(body()) == ("", 256)


def test_a_full_rebuild_learns_the_background_anew_and_serves_the_old_one_until_then(root, model):
    async def body():
        async with indexing(model, gated=True) as indexer:
            index = await opened(indexer, root)
            before = await learned(indexer, root)
            indexer.forget_vectors(index)
            model.hold, model.called = asyncio.Event(), asyncio.Event()
            index.mark()
            await model.called.wait()
            meanwhile = await learned(indexer, root)
            model.hold.set()
            await until(lambda: indexer.learner.baseline is not before)
            return meanwhile is before, everyday(model)

    assert run(body()) == (True, 256)


def test_a_map_is_calibrated_before_it_is_served(repo, root, model):
    """No search waits for it: an edit hands on what its map has."""

    async def body():
        async with indexing(model, gated=True) as indexer:
            index = await opened(indexer, root)
            background = await learned(indexer, root)
            put(repo, memory("m0", "edited"))
            await built(index)
            leg = index.map.dense
            return leg in relevance._calibrations, relevance._calibrations[leg].baseline is background

    assert run(body()) == (True, True)


def test_closing_ends_the_learning(root, model):
    async def body():
        async with indexing(model, gated=True) as indexer:
            indexer.open(root)
            model.hold = asyncio.Event()
            await model.called.wait()
            learning = indexer.learner._learning
        return learning.done()

    assert run(body())


# --- what does not count --------------------------------------------------------------------------------


def test_withheld_memories_are_counted_and_not_shown(root):
    async def body():
        async with indexing(accepts=lambda _, each: each.id != "m1") as indexer:
            index = await opened(indexer, root)
            return index.builder.withheld, [each.id for each in index.map.memories]

    assert run(body()) == (1, ["m0"])
