"""What the daemon's side of capture promises, over real files and with a worker that does as it is told."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from functools import partial

import pytest

from forged.capture.supervisor import Patience, Supervisor
from forged.capture.values import Decided, KnownMemory, Link, Tally, Usage
from forged.errors import ProviderError, StoreError
from forged.files.scan import scan
from forged.state import digest
from tests.capture.pipeline import ONE_CALL, Capture, captured
from tests.support.clock import later, run, turns, until

DURABLE = ["compaction", "explicit", "session_end"]
KNOWN = KnownMemory("mem_0", "repo", "patterns", "Builds go through make.")


@pytest.fixture
def play(tmp_path):
    """Run a scene with a pipeline at work; what it returns is returned."""

    def play(scene, **options):
        async def played_scene():
            async with captured(tmp_path, **options) as one:
                return await scene(one)

        return run(played_scene())

    return play


# --- what is accepted ---------------------------------------------------------------------------------


def test_turn_is_accepted_and_only_in_memory(play):
    async def scene(one):
        event = one.event()
        outcome = await one.pipeline.accept(event)
        return outcome.word, one.state.turns, one.rows()

    assert play(scene) == ("accepted", 1, [])


@pytest.mark.parametrize("kind", DURABLE)
def test_other_kinds_are_on_disk_when_they_are_acknowledged(play, kind):
    async def scene(one):
        event = one.event(kind=kind)
        words = await one.accepted(event)
        return words, one.rows() == [f"{event.id}.events"], one.state.spooled

    assert play(scene) == (["durable"], True, 1)


def test_without_a_spool_nothing_is_durable_and_nothing_is_on_disk(play):
    async def scene(one):
        words = await one.accepted(*(one.event(kind=kind, session=kind) for kind in DURABLE))
        await one.stop()
        return words, one.rows()

    assert play(scene, keeps=False) == (["accepted"] * 3, [])


def test_waiting_turn_gives_way_to_a_newer_one_of_its_window(play):
    async def scene(one):
        first, old, new = one.event("first", session="other"), one.event("old"), one.event("old and new")
        words = await one.accepted(first, old, new)
        await one.finished(first)
        await one.finished(new)
        return words, [task.event_id for task in one.given] == [first.id, new.id], one.metrics

    words, handed_over, metrics = play(scene)

    assert words == ["accepted", "accepted", "coalesced"]
    assert handed_over
    assert (metrics.captures_accepted, metrics.captures_coalesced) == (2, 1)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"off": "capture.enabled is false"}, "capture.enabled is false"), ({}, "nothing_to_capture")],
)
def test_what_is_rejected_is_counted_and_says_why(play, fields, reason):
    async def scene(one):
        outcome = await one.pipeline.accept(one.event(""))
        return outcome.word, outcome.reason, one.metrics.captures_rejected

    assert play(scene, **fields) == ("rejected", reason, 1)


def test_paused_repository_accepts_nothing(play):
    async def scene(one):
        await one.pauses.set(one.repo.top, True)
        outcome = await one.pipeline.accept(one.durable())
        elsewhere = await one.pipeline.accept(one.event(roots=(one.user,)))
        return outcome.word, outcome.reason, elsewhere.word, one.rows()

    assert play(scene) == ("rejected", "paused; `forgectl resume` ends it", "accepted", [])


def test_full_spool_rejects(play, tmp_path):
    async def scene(one):
        one.events._max_events = 1
        await one.accepted(one.durable())
        outcome = await one.pipeline.accept(one.durable(session="t"))
        return outcome.reason, len(one.rows())

    assert play(scene) == ("spool_full", 1)


def test_event_that_cannot_be_stored_is_rejected_and_not_queued(play):
    async def scene(one):
        one.disk.failing = frozenset({"put"})
        outcome = await one.pipeline.accept(one.durable())
        failing = one.state
        one.disk.failing = frozenset()
        await one.accepted(one.durable("again"))
        return outcome.reason, failing.state, failing.last_error, one.state.last_error

    reason, state, error, afterwards = play(scene)

    assert reason == "storage_error: cannot put: the disk is on fire"
    assert (state, error, afterwards) == ("idle", "cannot put: the disk is on fire", "")


def test_turn_for_which_there_is_no_room_is_rejected_and_replaced_nobody(play):
    async def scene(one):
        outcome = await one.pipeline.accept(one.event("x" * (64 << 20)))
        return outcome.reason, one.metrics.captures_replaced, one.metrics.captures_rejected

    assert play(scene) == ("queue_full", 0, 1)


def test_oldest_session_beyond_the_limit_is_replaced_and_counted(play):
    async def scene(one):
        await one.accepted(*(one.event(session=f"s{number}") for number in range(66)))
        return one.state.turns, one.metrics.captures_replaced

    assert play(scene) == (64, 2)


def test_nothing_is_accepted_before_what_its_session_left_is_taken_up(play):
    async def scene(one):
        left, new = one.durable("before"), one.event("after", window_id="another")
        one.leave(left)
        one.begin()
        await asyncio.sleep(0)
        await one.accepted(new)
        await one.finished(left)
        await one.finished(new)
        return len(one.given)

    assert play(scene, started=False) == 2


def test_pause_counts_for_events_that_came_while_the_spool_was_read(play):
    async def scene(one):
        one.leave(one.durable("before"))
        one.begin()
        await asyncio.sleep(0)
        accepting = asyncio.create_task(one.pipeline.accept(one.event()))
        await asyncio.sleep(0)
        await one.pauses.set(None, True)
        return (await accepting).word

    assert play(scene, started=False) == "rejected"


# --- what an earlier daemon left ----------------------------------------------------------------------


def test_what_was_left_is_handed_over_in_its_order(play):
    async def scene(one):
        events = [one.durable(f"number {number}", session=f"s{number % 2}") for number in range(4)]
        one.leave(*events[::-1])
        await one.start()
        for event in events:
            await one.finished(event)
        state = await one.idle()
        return state.spooled, one.rows()

    assert play(scene, started=False) == (0, [])


def test_spooled_turn_gives_way_to_a_newer_one_and_leaves_the_disk(play):
    async def scene(one):
        old, new = one.event("old"), one.event("old and new")
        one.leave(old, new)
        await one.start()
        await one.hands_over(new)
        await until(lambda: one.rows() == [f"{new.id}.events"])
        return len(one.given)

    assert play(scene, started=False) == 1


def test_event_that_was_decided_costs_no_call_and_no_ranking(play):
    async def scene(one):
        event, ranked = one.durable(), len(asked)
        one.leave(event, decided={event.id: (one.document(),)})
        await one.start()
        return await one.hands_over(event), one.document(), len(asked) - ranked, one.governor._slots

    asked = []

    async def rank(event):
        asked.append(event)
        return (KNOWN,)

    task, document, ranked, slots = play(scene, started=False, model=True, rank=rank)

    assert (task.documents, ranked, len(slots)) == ((document,), 0, 0)


def test_journal_without_its_event_is_linked_and_then_gone(play):
    async def scene(one):
        event = one.event()
        one.leave(decided={event.id: (one.document(),)})
        await one.start()
        task = await one.hands_over(event)
        one.done(event, written=1)
        await one.idle()
        return task.documents == (one.document(),), one.rows(), len(one.governor._slots)

    assert play(scene, started=False, model=True) == (True, [], 0)


def test_what_was_left_is_taken_up_when_the_state_can_be_opened_at_last(play):
    async def scene(one):
        event = one.durable()
        one.leave(event)
        path = one.top / "state/state.db"
        path.rename(one.top / "kept")
        path.mkdir()  # nothing that could be opened
        await one.start()
        refused = await one.pipeline.accept(one.durable("another", session="t"))
        before = one.state
        path.rmdir()
        (one.top / "kept").rename(path)
        await later(5)
        await one.hands_over(event)
        return refused.word, before.state, "state.db" in before.last_error, one.state.last_error

    assert play(scene, started=False) == ("rejected", "paused", True, "")


def test_switched_off_it_hands_over_nothing_but_shows_and_purges_what_waits(play):
    async def scene(one):
        one.leave(one.durable("the harbour"))
        await one.start()
        waiting = one.state
        purged = await one.pipeline.purge(lambda texts: "the harbour" in texts)
        return waiting.state, waiting.spooled, one.worker.pid, purged, one.rows()

    assert play(scene, started=False, off="it is off") == ("off", 1, 0, 1, [])


def test_without_a_classifier_events_are_kept_for_a_daemon_that_has_one(play):
    async def scene(one):
        words = await one.accepted(one.durable())
        return words, one.state.state, one.state.reason, one.worker.wanted, one.given

    assert play(scene, problem="no key") == (["durable"], "failing", "no key", True, [])


# --- handing over -------------------------------------------------------------------------------------


def test_worker_has_one_event_at_a_time(play):
    async def scene(one):
        first, second = one.durable(), one.durable(session="t")
        await one.accepted(first, second)
        await one.hands_over(first)
        await turns()
        alone = len(one.given)
        one.done(first)
        await one.hands_over(second)
        return alone, one.worker.limits[0]

    assert play(scene) == (1, 67.0)


def test_finished_event_leaves_the_disk_before_the_state_is_idle(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        await one.hands_over(event)
        one.done(event, written=1)
        assert one.state.state == "busy"
        state = await one.idle()
        return one.rows(), state.spooled, bool(state.last_success)

    assert play(scene) == ([], 0, True)


def test_heads_go_with_an_event(play):
    async def rank(_):
        return (KNOWN,)

    async def scene(one):
        event = one.event()
        await one.accepted(event)
        return (await one.hands_over(event)).known

    assert play(scene, model=True, rank=rank) == (KNOWN,)


@pytest.mark.parametrize(
    "error", [StoreError("x"), ProviderError("x", reason="server"), OSError(5, "x"), KeyError(1)]
)
def test_ranking_that_fails_costs_the_event_its_list_and_nothing_else(play, error):
    async def rank(_):
        raise error

    async def scene(one):
        event = one.event()
        await one.accepted(event)
        return (await one.hands_over(event)).known, one.task.done()

    assert play(scene, model=True, rank=rank) == ((), False)


def test_ranking_that_hangs_is_not_waited_for(play):
    async def rank(_):
        await asyncio.Event().wait()

    async def scene(one):
        event = one.event()
        await one.accepted(event)
        await until(lambda: one.in_hand)
        await later(6)
        return (await one.hands_over(event)).known

    assert play(scene, model=True, rank=rank) == ()


def test_event_whose_worker_dies_while_it_is_ranked_goes_to_the_next_one_uncounted(play):
    ranked = asyncio.Event()

    async def rank(_):
        await ranked.wait()
        return ()

    async def scene(one):
        event = one.event()
        await one.accepted(event)
        await until(lambda: one.in_hand)
        for _ in range(3):
            one.worker.is_gone()
            one.worker._on_death("signal SIGKILL")
        ranked.set()
        await until(lambda: not one.in_hand)
        nobody = list(one.given)
        one.worker.start()
        await one.hands_over(event)
        return nobody, one.state.dead

    assert play(scene, model=True, rank=rank) == ([], 0)


def test_event_that_is_paused_while_it_is_ranked_is_not_given(play):
    ranked = asyncio.Event()

    async def rank(_):
        await ranked.wait()
        return ()

    async def scene(one):
        event = one.event()
        await one.accepted(event)
        await until(lambda: one.in_hand)
        await one.pauses.set(one.repo.top, True)
        ranked.set()
        await until(lambda: not one.in_hand)
        await turns()
        held, state = list(one.given), one.state
        await one.pauses.set(one.repo.top, False)
        one.pipeline.resumed()
        await one.hands_over(event)
        return held, state.state, state.reason

    assert play(scene, model=True, rank=rank) == ([], "waiting", "paused; `forgectl resume` ends it")


def test_paused_repository_holds_up_its_own_events_only(play):
    async def scene(one):
        here, there = one.event("here"), one.event("there", roots=(one.user,))
        await one.start()
        await one.pauses.set(one.repo.top, True)
        one.pipeline._add(here, on_disk=False)
        one.pipeline._add(there, on_disk=False)
        await one.finished(there)
        return len(one.given), one.state.state

    assert play(scene, started=False) == (1, "waiting")


def test_event_that_the_worker_has_is_finished_in_spite_of_a_pause(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        await one.hands_over(event)
        await one.pauses.set(None, True)
        paused = one.state
        one.done(event)
        await until(lambda: not one.in_hand)
        return paused.state, paused.in_hand == event.id, one.rows()

    assert play(scene) == ("paused", True, [])


def test_worker_that_cannot_run_shows_as_failing_and_events_are_accepted(play):
    async def scene(one):
        one.worker.is_gone()
        one.worker.problem = "the capture worker cannot run: exit code 3"
        words = await one.accepted(one.event(), one.durable(session="t"))
        return words, one.state.state, one.state.reason

    assert play(scene) == (["accepted", "durable"], "failing", "the capture worker cannot run: exit code 3")


# --- what the worker says -----------------------------------------------------------------------------


def test_calls_and_tally_and_what_was_written_are_counted(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        await one.hands_over(event)
        await one.decides(event, usage=ONE_CALL, tally=Tally(1, 2, 3))
        one.links(event)
        one.done(event, written=1)
        await one.idle()
        (day,) = one.governor.days(1)
        counts = one.metrics
        return (
            (day.purpose, day.calls, day.failed, day.tokens),
            (counts.capture_invalid, counts.capture_duplicates, counts.secrets_redacted),
            (counts.captures_finished, counts.captured),
        )

    assert play(scene, model=True) == (("capture", 1, 0, 110), (1, 2, 3), (1, 1))


def test_rules_cost_nothing(play):
    async def scene(one):
        event = one.event()
        await one.accepted(event)
        await one.hands_over(event)
        one.worker.dies()
        await one.hands_over(event, 2)
        one.fails(event, "internal")
        return one.governor.days(1)

    assert play(scene, limits=(1, 1)) == ()


def test_the_map_hears_of_each_file(play):
    async def scene(one):
        event = one.event()
        await one.accepted(event)
        await one.hands_over(event)
        await one.decides(event)
        one.links(event)
        return one.written == [(one.repo.top, frozenset({f"{one.repo.top}/mem_1.md"}))]

    assert play(scene)


def test_turn_that_came_to_nothing_costs_no_write(play):
    async def scene(one):
        event = one.event()
        await one.accepted(event)
        await one.finished(event)
        return [name for name in one.disk.asked if name != "contents"], one.state.state  # the daily copy

    assert play(scene) == ([], "idle")


def test_nothing_is_put_in_place_before_it_is_written_down_what_that_is(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        await one.hands_over(event)
        one.disk.failing = frozenset({"journal"})
        one.worker.says(Decided(event.id, (one.document(),), ONE_CALL))
        await until(lambda: not one.in_hand)
        waiting, given = one.state, len(one.given)
        one.disk.failing = frozenset()
        await later(2)
        task = await one.hands_over(event, 2)
        (day,) = one.governor.days(1)
        return waiting.last_error, given, task, one.rows(), (day.calls, day.failed), event, one.document()

    error, given, task, rows, calls, event, document = play(scene, model=True)

    assert (error, given) == ("cannot journal: the disk is on fire", 1)
    assert task == Link(event.id, (document,))
    assert rows == [f"{event.id}.events", f"{event.id}.journal"]
    assert calls == (1, 0)  # it was paid for, and is not asked again


def test_what_was_forgotten_since_it_was_decided_is_not_put_in_place(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        await one.hands_over(event)
        await one.decides(event, one.document("Boats."), one.document("Trains.", "mem_2"))
        await one.daemon_state.forgotten.add(one.repo.top, ["boats"])
        one.worker.dies()
        task = await one.hands_over(event, 2)
        return [document.memory.content for document in task.documents]

    assert play(scene) == ["Trains."]


def test_what_was_forgotten_goes_with_every_event(play):
    async def scene(one):
        await one.daemon_state.forgotten.add(one.repo.top, ["boats"])
        event = one.event()
        await one.accepted(event)
        return (await one.hands_over(event)).forgotten == {digest(one.repo.top, "Boats.")}

    assert play(scene)


def test_journal_of_a_turn_goes_when_it_is_done(play):
    async def scene(one):
        event = one.event()
        await one.accepted(event)
        await one.hands_over(event)
        await one.decides(event)
        assert one.rows()
        one.done(event, written=1)
        await one.idle()
        return one.rows()

    assert play(scene) == []


@pytest.mark.parametrize("end", ["done", "replaced", "purged", "buried"])
def test_nothing_is_remembered_of_an_event_that_is_gone(play, end):
    """A daemon may run for months."""

    async def scene(one):
        event = one.event("the harbour")
        await one.accepted(event)
        await one.hands_over(event)
        await one.decides(event)
        if end == "done":
            one.done(event)
        elif end == "buried":
            for attempt in range(2, 5):
                one.worker.dies()
                await one.hands_over(event, attempt)
            one.worker.dies()
        else:
            one.fails(event, "storage")
            await turns()
            await (one.pipeline.purge(_harbour) if end == "purged" else one.accepted(one.event("newer")))
        events = one.events
        await until(lambda: not events.holds(event.id) and events.documents(event.id) is None)
        return one.rows("dead") == [f"{event.id}.dead"] * (end == "buried")

    assert play(scene)


def test_journal_of_an_attempt_that_failed_goes_with_its_turn_when_that_is_replaced(play):
    async def scene(one):
        event, newer = one.event("old"), one.event("old and new")
        await one.accepted(event)
        await one.hands_over(event)
        await one.decides(event)
        one.fails(event, "storage")
        await turns()
        assert await one.accepted(newer) == ["coalesced"]
        await until(lambda: one.rows() == [])

    play(scene)


def test_report_about_another_event_changes_nothing(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        await one.hands_over(event)
        one.done(one.event(), written=1)
        one.fails(one.event(), "server")
        return one.in_hand == event.id, one.metrics.captures_finished, one.metrics.capture_failures

    assert play(scene) == (True, 0, 0)


def test_second_end_of_an_event_changes_nothing(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        await one.hands_over(event)
        one.done(event)
        one.fails(event)
        one.worker.dies()
        await one.idle()
        return one.metrics.captures_finished, one.metrics.capture_failures, one.rows("dead")

    assert play(scene) == (1, 0, [])


# --- calls that fail ----------------------------------------------------------------------------------


def test_failed_event_waits_longer_each_time_and_lets_others_pass(play):
    async def scene(one):
        event, other = one.event(), one.event(session="t")
        await one.accepted(event)
        for attempt, pause_s in enumerate((4, 8), 1):
            await one.hands_over(event, attempt)
            one.fails(event, "internal")
            await later(pause_s - 2)
            assert len(one.given) == attempt, pause_s
            await later(2)
        await one.hands_over(event, 3)
        one.fails(event, "internal")
        await one.accepted(other)
        await one.finished(other)

    play(scene)


def test_event_that_failed_five_times_is_among_the_dead_with_the_reason(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        for attempt in range(1, 6):
            await one.hands_over(event, attempt)
            one.fails(event, "internal")
            await later(60)
        state = await one.idle()
        (buried,) = await one.events.dead()
        return one.rows(), state.dead, buried.event == event, buried.reason

    assert play(scene) == ([], 1, True, "5 calls failed, the last: it is internal")


@pytest.mark.parametrize("reason", ["unreachable", "rate_limited", "auth", "limit", "storage"])
def test_failures_that_any_event_would_meet_are_not_counted(play, reason):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        for attempt in range(1, 8):
            await one.hands_over(event, attempt)
            one.fails(event, reason)
            await later(61)
        return one.state.dead

    assert play(scene, model=True) == 0


def test_event_that_has_no_root_any_more_is_given_up(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        for attempt in range(1, 6):
            await one.hands_over(event, attempt)
            one.fails(event, "gone")
            await later(60)
        await one.idle()
        (buried,) = await one.events.dead()
        return buried.reason

    assert play(scene, model=True) == "5 attempts failed, the last: it is gone"


def test_full_disk_is_looked_at_every_two_seconds(play):
    async def scene(one):
        event = one.event()
        await one.accepted(event)
        for attempt in range(1, 5):
            await one.hands_over(event, attempt)
            one.fails(event, "storage")
            await turns()
            assert (one.state.state, one.state.reason) == ("waiting", "it is storage")
            await later(2)

    play(scene)


@pytest.mark.parametrize(("asked_s", "least_s", "most_s"), [(1.0, 1.0, 3.5), (86400.0, 300.0, 345.0)])
def test_what_an_endpoint_asks_for_is_waited_for_within_reason(play, asked_s, least_s, most_s):
    async def scene(one):
        event = one.event()
        await one.accepted(event)
        await one.hands_over(event)
        one.fails(event, "server", retry_after_s=asked_s)
        since = asyncio.get_running_loop().time()
        while len(one.given) < 2:
            await later(0.5 if asked_s < 60 else 20)
            await turns()
        return asyncio.get_running_loop().time() - since

    assert least_s <= play(scene, model=True) < most_s


# --- calls that may not be made -----------------------------------------------------------------------


async def _failed_five_times(one: Capture) -> None:
    """Five events, each of a session of its own, fail in a row."""
    for number in range(5):
        event = one.durable(session=f"failed {number}")
        await one.accepted(event)
        await one.hands_over(event)
        one.fails(event, "server")


def test_after_five_failures_calls_wait_and_the_first_is_a_probe(play):
    async def scene(one):
        await _failed_five_times(one)
        await turns()
        shut = one.state
        await later(11)
        asked = len(one.given)
        await later(5)
        await until(lambda: one.in_hand)
        probe = one.given[-1]
        one.done(next(e for e in one.pipeline._queue.events() if e.id == probe.event_id), usage=ONE_CALL)
        await until(lambda: one.in_hand not in ("", probe.event_id))
        return asked, shut.state, shut.reason, probe.attempts, one.given[-1].attempts

    asked, state, reason, *attempts = play(scene, model=True)

    assert (asked, state, reason) == (5, "waiting", "calls fail, next attempt in 15 s: it is server")
    assert attempts == [1, 2]


def test_what_needs_no_call_goes_while_calls_wait_and_does_not_end_that(play):
    async def scene(one):
        decided = one.durable("decided", session="decided")
        await one.accepted(decided)
        await one.hands_over(decided)
        await one.decides(decided)
        one.fails(decided, "storage")
        await _failed_five_times(one)
        await later(3)
        await one.hands_over(decided, 2)
        one.done(decided, written=1)
        await until(lambda: not one.in_hand)
        await turns()
        return len(one.given), one.state.reason

    given, reason = play(scene, model=True)

    assert given == 7
    assert reason.startswith("calls fail")


def test_answer_that_could_not_be_written_down_is_no_failure_of_the_endpoint(play):
    async def scene(one):
        event = one.event()
        await one.accepted(event)
        await one.hands_over(event)
        one.disk.failing = frozenset({"journal"})
        one.worker.says(Decided(event.id, (one.document(),), ONE_CALL))
        await until(lambda: not one.in_hand)
        (day,) = one.governor.days(1)
        return day.calls, day.failed

    assert play(scene, model=True) == (1, 0)


def test_failed_calls_are_counted_as_such(play):
    async def scene(one):
        event = one.event()
        await one.accepted(event)
        await one.hands_over(event)
        one.fails(event, "server", usage=Usage(2, 200, 0))
        await turns()
        (day,) = one.governor.days(1)
        return day.calls, day.failed, day.tokens

    assert play(scene, model=True) == (2, 2, 200)


@pytest.mark.parametrize("how", ["killed", "timeout"])
def test_call_of_which_nothing_was_heard_is_counted_by_its_estimate(play, how):
    async def scene(one):
        event = one.event()
        await one.accepted(event)
        await one.hands_over(event)
        if how == "killed":
            one.worker.dies()
        else:
            one.fails(event, "timeout")
        await turns()
        (day,) = one.governor.days(1)
        return day.calls, day.failed, day.prompt_tokens

    calls, failed, tokens = play(scene, model=True)

    assert (calls, failed) == (1, 1)
    assert 1500 < tokens < 2000


def test_worker_that_dies_after_the_answer_costs_no_second_call(play):
    async def scene(one):
        event = one.event()
        await one.accepted(event)
        await one.hands_over(event)
        await one.decides(event, usage=ONE_CALL)
        one.worker.dies()
        (day,) = one.governor.days(1)
        return day.calls

    assert play(scene, model=True) == 1


def test_each_event_takes_one_of_the_calls_of_a_minute(play):
    async def scene(one):
        events = [one.durable(session=f"s{number}") for number in range(3)]
        await one.accepted(*events)
        for event in events[:2]:
            await one.hands_over(event)
            one.done(event, usage=ONE_CALL)
        await until(lambda: not one.in_hand)
        await turns()
        return len(one.given), one.state.state, one.state.reason

    given, state, reason = play(scene, model=True, limits=(0, 2))

    assert (given, state) == (2, "waiting")
    assert "`llm.calls_per_minute` sets it" in reason


def test_event_beyond_the_tokens_of_a_day_waits_and_is_looked_at_every_minute(play):
    """The limit is asked again and not slept until: a suspended machine's clock stands still."""

    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        await turns()
        waiting = one.state
        one.governor._token_limit = 0  # midnight
        await later(55)
        early = len(one.given)
        await later(6)
        await one.hands_over(event)
        return waiting.state, waiting.reason, early

    state, reason, early = play(scene, model=True, limits=(1000, 0))

    assert (state, early) == ("waiting", 0)
    assert "`memory.daily_token_limit` sets it" in reason


# --- a worker that dies -------------------------------------------------------------------------------


def test_event_in_hand_is_given_to_the_next_worker_at_once(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        await one.hands_over(event)
        one.worker.dies()
        await one.hands_over(event, 2)
        return one.state.dead

    assert play(scene) == 0


def test_event_that_killed_three_workers_is_among_the_dead(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        for attempt in (1, 2, 3):
            await one.hands_over(event, attempt)
            one.worker.dies("signal SIGSEGV")
        state = await one.idle()
        (buried,) = await one.events.dead()
        return state.dead, buried.reason, one.rows()

    assert play(scene) == (1, "the worker died 3 times over it: signal SIGSEGV", [])


def test_without_a_spool_an_event_that_is_given_up_is_nowhere_on_disk(play):
    async def scene(one):
        event = one.event(kind="explicit")
        await _killed_thrice(one, event)
        await one.idle()
        return one.rows(), one.rows("dead"), one.state.dead

    assert play(scene, keeps=False) == ([], [], 0)


def test_kill_after_progress_is_not_counted(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        await one.hands_over(event)
        await one.decides(event)
        one.worker.dies()
        for attempt in range(2, 7):  # each gets one document further
            await one.hands_over(event, attempt)
            for number in range(attempt):
                one.links(event, f"mem_{number}")
            one.worker.dies()
        await one.hands_over(event, 7)
        return one.state.dead

    assert play(scene) == 0


def test_document_that_was_there_already_is_no_progress(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        for attempt in range(1, 5):
            await one.hands_over(event, attempt)
            one.links(event)
            one.worker.dies()
        return (await one.idle()).dead

    assert play(scene) == 1


def test_worker_that_dies_without_an_event_costs_nobody_anything(play):
    async def scene(one):
        one.worker.dies()
        return one.state.state, one.governor.days(1)

    assert play(scene, model=True) == ("idle", ())


# --- ends that the disk does not allow ----------------------------------------------------------------


async def _killed_thrice(one: Capture, event) -> None:
    await one.accepted(event)
    for attempt in (1, 2, 3):
        await one.hands_over(event, attempt)
        one.worker.dies()


def test_event_that_cannot_be_buried_is_buried_later_and_not_given_again(play):
    ranked = []

    async def rank(event):
        ranked.append(event)
        return ()

    async def scene(one):
        event, other = one.durable(), one.durable(session="t")
        one.disk.failing = frozenset({"give_up"})
        await _killed_thrice(one, event)
        await until(lambda: not one.in_hand)
        assert (one.state.state, one.state.last_error) == ("waiting", "cannot give_up: the disk is on fire")
        await one.accepted(other)
        await one.finished(other)
        one.disk.failing = frozenset()
        await later(55)
        assert one.state.dead == 0
        await later(6)
        state = await one.idle()
        return len(one.given), len(ranked), state.dead, one.rows()

    assert play(scene, model=True, rank=rank) == (4, 4, 1, [])


def test_event_that_cannot_be_removed_holds_up_nobody_and_is_removed_later(play):
    async def scene(one):
        event, other = one.durable(), one.durable("next")
        one.disk.failing = frozenset({"remove"})
        await one.accepted(event, other)
        await one.finished(event)
        await one.hands_over(other)
        assert one.state.spooled == 2
        one.disk.failing = frozenset()
        await later(2.1)
        await until(lambda: one.state.spooled == 1 and not one.state.last_error)
        return one.rows() == [f"{other.id}.events"]

    assert play(scene)


# --- what a person asks -------------------------------------------------------------------------------


async def _buried(one: Capture, event, *documents) -> None:
    if documents:
        one.events.decided(event.id, documents)
    await one.events.give_up(event, "it was in the way")


def test_dead_event_is_taken_back(play):
    async def scene(one):
        event = one.durable()
        await _buried(one, event)
        counted = len(await one.events.dead())
        assert await one.pipeline.retry(event.id)
        left, back = one.rows("dead"), one.rows() == [f"{event.id}.events"]
        await one.finished(event)
        return counted, left, back, (await one.idle()).dead

    assert play(scene) == (1, [], True, 0)


def test_dead_event_that_was_decided_costs_no_call_when_it_is_taken_back(play):
    async def scene(one):
        event = one.durable()
        await _buried(one, event, one.document())
        await one.pipeline.retry(event.id)
        task = await one.hands_over(event)
        return task.documents == (one.document(),), len(one.governor._slots)

    assert play(scene, model=True) == (True, 0)


def test_of_two_who_take_an_event_back_one_does(play):
    async def scene(one):
        event = one.durable()
        await _buried(one, event)
        both = await asyncio.gather(one.pipeline.retry(event.id), one.pipeline.retry(event.id))
        return sorted(both), len(one.pipeline._queue)

    assert play(scene) == ([False, True], 1)


def test_dead_event_is_erased(play):
    async def scene(one):
        event = one.durable()
        await _buried(one, event)
        found = await one.events.drop(event.id), await one.events.drop(event.id)
        return found, one.rows("dead"), one.state.dead

    assert play(scene) == ((True, False), [], 0)


def _harbour(texts) -> bool:
    return any("harbour" in text for text in texts)


def test_what_is_purged_is_nowhere(play):
    """In memory, on disk, decided, and among the dead; what says nothing of it stays."""

    async def scene(one):
        first, kept = one.durable("in hand", session="0"), one.durable("kept", session="1")
        await one.accepted(first)
        await one.hands_over(first)
        said = [one.event("the harbour", session="2"), one.durable("the harbour", session="3")]
        await one.accepted(*said, kept)
        await _buried(one, one.durable("the harbour"))
        await _buried(one, one.durable("boats"), one.document("The harbour opens at noon."))
        await _buried(one, one.durable("trains"))
        purged = await one.pipeline.purge(_harbour)
        left = one.rows() == sorted([f"{first.id}.events", f"{kept.id}.events"])
        return purged, left, one.state.turns, one.state.dead

    assert play(scene) == (4, True, 0, 1)


def test_event_that_was_decided_is_purged_for_what_was_decided(play):
    async def scene(one):
        event = one.event("boats")
        await one.accepted(event)
        await one.hands_over(event)
        await one.decides(event, one.document("The harbour opens at noon."))
        one.fails(event, "storage")
        return await one.pipeline.purge(_harbour), one.rows(), one.state.state

    assert play(scene) == (1, [], "idle")


@pytest.mark.parametrize("end", ["fails", "dies", "done"])
def test_event_in_hand_that_is_purged_leaves_the_disk_at_once_and_is_not_tried_again(play, end):
    async def scene(one):
        event = one.durable("the harbour")
        await one.accepted(event)
        await one.hands_over(event)
        purged = await one.pipeline.purge(_harbour), one.rows()
        if end == "dies":
            one.worker.dies()
        elif end == "fails":
            one.fails(event, "storage")
        else:
            one.worker.says(Decided(event.id, (one.document(),)))  # the worker knew nothing of it
        await one.idle()
        await later(61)
        return purged, len(one.given), one.rows()

    assert play(scene) == ((1, []), 1, [])


def test_event_that_is_purged_while_it_is_ranked_is_not_given(play):
    ranked = asyncio.Event()

    async def rank(_):
        await ranked.wait()
        return ()

    async def scene(one):
        await one.accepted(one.durable("the harbour"))
        await until(lambda: one.in_hand)
        await one.pipeline.purge(_harbour)
        ranked.set()
        await one.idle()
        return one.given, one.rows()

    assert play(scene, model=True, rank=rank) == ([], [])


def test_turn_in_hand_that_is_purged_is_not_spooled_at_the_end(play):
    async def scene(one):
        event, other = one.event("the harbour"), one.event("kept", session="t")
        await one.accepted(event, other)
        await one.hands_over(event)
        await one.pipeline.purge(_harbour)
        await one.stop()
        return one.rows() == [f"{other.id}.events"]

    assert play(scene)


def test_event_that_is_purged_while_it_cannot_be_buried_is_gone(play):
    async def scene(one):
        event = one.durable("the harbour")
        one.disk.failing = frozenset({"give_up"})
        await _killed_thrice(one, event)
        await until(lambda: not one.in_hand)
        purged = await one.pipeline.purge(_harbour)
        await later(61)
        return purged, one.state.state, one.rows(), one.rows("dead")

    assert play(scene) == (1, "idle", [], [])


def test_texts_are_looked_through_beside_the_loop(play):
    async def scene(one):
        threads = set()
        await one.accepted(one.event())
        await one.pipeline.purge(lambda _: threads.add(threading.current_thread()))
        return threads

    assert threading.main_thread() not in play(scene)


def test_purge_says_so_when_the_dead_cannot_be_looked_through_and_has_purged_the_rest(play):
    async def scene(one):
        await one.accepted(one.durable("in hand", session="0"), one.durable("the harbour"))
        one.disk.failing = frozenset({"drop_unwanted"})
        with pytest.raises(StoreError):
            await one.pipeline.purge(_harbour)
        return len(one.rows()), one.state.spooled

    assert play(scene) == (1, 1)


# --- the end ------------------------------------------------------------------------------------------


def test_turns_that_wait_or_are_in_hand_are_spooled_at_the_end(play):
    async def scene(one):
        events = [one.event(session="a"), one.event(session="b"), one.durable(session="c")]
        await one.accepted(*events)
        await one.hands_over(events[0])
        await one.stop()
        return one.rows() == sorted(f"{event.id}.events" for event in events), one.worker.stopped

    assert play(scene) == (True, True)


def test_turn_that_was_decided_is_not_decided_anew_after_a_restart(tmp_path):
    async def before(one):
        event = one.event()
        await one.accepted(event)
        await one.hands_over(event)
        await one.decides(event)

    async def scene():
        async with captured(tmp_path, model=True) as one:
            await before(one)
        async with captured(tmp_path, model=True) as one:
            await until(lambda: one.given)
            return len(one.governor._slots), [name.partition(".")[2] for name in one.rows()]

    assert run(scene()) == (0, ["events", "journal"])


def test_after_the_end_nothing_is_accepted(play):
    async def scene(one):
        await one.stop()
        outcomes = [await one.pipeline.accept(event) for event in (one.event(), one.durable())]
        return [outcome.reason for outcome in outcomes], one.rows()

    assert play(scene) == (["the daemon is stopping"] * 2, [])


def test_end_waits_for_a_burial_that_is_under_way(play):
    async def scene(one):
        event = one.durable()
        await one.accepted(event)
        for attempt in (1, 2, 3):
            await one.hands_over(event, attempt)
            one.worker.dies()
        await one.stop()
        return one.rows(), one.rows("dead") == [f"{event.id}.dead"]

    assert play(scene) == ([], True)


def test_end_does_not_wait_for_a_disk_that_fails(play):
    async def scene(one):
        event = one.durable()
        one.disk.failing = frozenset({"remove"})
        await one.accepted(event)
        await one.finished(event)
        await one.stop()
        return one.rows() == [f"{event.id}.events"]

    assert play(scene)


def test_end_while_the_spool_is_read_lets_those_who_wait_for_that_go(play):
    async def scene(one):
        one.begin()
        await asyncio.sleep(0)
        accepting = asyncio.create_task(one.pipeline.accept(one.event()))
        await asyncio.sleep(0)
        one.task.cancel()
        outcome = await accepting
        await one.stop()
        return outcome.word, len(one.rows())

    assert play(scene, started=False) == ("rejected", 0)  # nobody knows yet what is paused


def test_turns_that_cannot_be_spooled_at_the_end_are_told_of(play, caplog):
    async def scene(one):
        await one.accepted(one.event())
        one.disk.failing = frozenset({"put"})
        await one.stop()

    play(scene)

    assert "waiting turns are lost events=1" in caplog.text


# --- with a worker of its own -------------------------------------------------------------------------


@pytest.fixture
def real(tmp_path):
    """Run a scene with a worker process that follows the built-in rules."""

    async def played_scene(scene):
        supervisor = partial(Supervisor, patience=Patience(first_start_s=0))
        one = Capture(tmp_path, supervisor=supervisor)
        await one.start()
        try:
            return await scene(one)
        finally:
            await one.stop()

    return lambda scene: run(played_scene(scene))


SAID = "Remember that {} is built with bazel."


def kept(one: Capture) -> list[str]:
    return sorted(memory.content for memory in scan(one.repo).memories)


def test_what_was_said_becomes_a_file_and_the_event_goes(real):
    async def scene(one):
        await one.accepted(one.durable(SAID.format("the gateway")))
        state = await one.idle()
        return len(kept(one)), one.rows(), state.dead, len(one.written)

    assert real(scene) == (1, [], 0, 1)


def test_events_whose_worker_is_killed_are_kept_once(real):
    async def scene(one):
        await until(lambda: one.state.worker_pid)
        for name in ("the gateway", "the billing service", "the scheduler"):
            await one.accepted(one.durable(SAID.format(name), session=name))
        await until(lambda: one.in_hand)
        os.kill(one.state.worker_pid, signal.SIGKILL)
        state = await one.idle()
        return len(kept(one)), one.metrics.captures_finished, state.worker_restarts, state.dead, one.rows()

    assert real(scene) == (3, 3, 1, 0, [])
