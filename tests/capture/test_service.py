"""The daemon's side of capture, over real files and with a scripted worker."""

from __future__ import annotations

import asyncio
import re

import pytest

from forged.capture import dispatcher
from forged.capture.values import (
    AskHeads,
    AskRetry,
    AskVectors,
    Classified,
    Classify,
    HeadsAnswer,
    KnownMemory,
    RetryAnswer,
    Tally,
    Usage,
    VectorsAnswer,
)
from forged.errors import ANSWERED, ProviderError, StoreError
from forged.state import CutCount, Event
from forged.state.event_values import encoded
from forged.text.forgetting import words_of
from tests.capture.pipeline import ONE_CALL, Capture, Putting, accept, captured
from tests.support.clock import later, turns, until

DURABLE = ["compaction", "explicit", "session_end"]
KNOWN = KnownMemory("mem_0", "repo", "patterns", "Builds go through make.")


def options(**given):
    """Have `one` made with these."""
    return pytest.mark.parametrize("one", [given], indirect=True, ids=[",".join(given)])


@pytest.fixture
def one(tmp_path, request):
    """A pipeline that is at work while the test runs, made with its `options`."""
    return captured(tmp_path, **getattr(request, "param", {}))


async def refused(one: Capture, event: Event) -> str:
    """Why an event is not taken."""
    outcome = await accept(one.pipeline, event)
    assert outcome.word == "rejected"
    return outcome.reason


async def in_hand(one: Capture, event: Event) -> Event:
    """An event that the worker has."""
    await one.accepted(event)
    await one.hands_over(event)
    return event


async def killed_thrice(one: Capture, event: Event) -> Event:
    """An event over which the worker died too often."""
    await one.accepted(event)
    for attempt in (1, 2, 3):
        await one.hands_over(event, attempt)
        one.worker.dies("signal SIGSEGV")
    return event


async def buried(one: Capture, event: Event, *documents) -> Event:
    if documents:
        one.events.set_decision(event.id, documents)
    await one.events.give_up(event, "it was in the way")
    return event


HARBOUR = [words_of("the harbour")]


class Ranking:
    """Finds what is known when it may, at once if it was told so before."""

    def __init__(self, *known: KnownMemory) -> None:
        self.known = known
        self.asked: list[Event] = []
        self.may_end = asyncio.Event()

    async def __call__(self, event: Event) -> tuple[KnownMemory, ...]:
        self.asked.append(event)
        await self.may_end.wait()
        return self.known


# --- what is accepted ---------------------------------------------------------------------------------


async def test_other_kinds_are_on_disk_when_they_are_acknowledged(one):
    for count, kind in enumerate(DURABLE, 1):
        event = one.event(kind=kind, session=kind)
        assert await one.accepted(event) == ["durable"]
        assert f"{event.id}.events" in one.rows()
        assert one.state.spooled == count


async def test_what_waits_is_on_disk_within_a_second_and_grows_there(one):
    first, old, new = one.event("first", session="other"), one.event("old"), one.event("new")
    await one.accepted(first, old)
    await later(1)
    await until(lambda: len(one.rows()) == 2)
    await one.accepted(new)
    await later(1)
    await until(lambda: not one.pipeline._queue.in_memory())
    assert one.rows() == sorted(f"{event.id}.events" for event in (first, old))
    await one.stop()

    async with captured(one.top, started=False) as again:
        await again.start()
        await again.finished(first)
        task = await again.hands_over(old)
        assert [each.text for each in task.event.window] == ["old", "new"]


async def test_what_cannot_be_written_is_tried_again(one):
    one.disk.failing = frozenset({"events"})
    await one.accepted(one.event())
    await later(1)
    await until(lambda: one.state.last_error)
    assert one.rows() == []

    one.disk.failing = frozenset()
    await later(1)
    await until(lambda: len(one.rows()) == 1 and not one.state.last_error)


async def test_what_is_rejected_is_counted_and_says_why(one):
    assert await refused(one, one.event("")) == "nothing_to_capture"
    full = "spool_full: 0 events wait already; `forgectl status` shows why"
    assert await refused(one, one.event("x" * (64 << 20))) == full

    one.disk.failing = frozenset({"events"})
    assert await refused(one, one.durable()) == "storage_error: cannot events: the disk is on fire"
    assert (one.state.state, one.state.last_error) == ("idle", "cannot events: the disk is on fire")
    one.disk.failing = frozenset()
    await one.accepted(one.durable("again"))
    assert one.state.last_error == ""

    one.events._max_events = 1
    for event in (one.durable(session="t"), one.event(session="u")):
        assert (await refused(one, event)).startswith("spool_full: 1 events wait already")
    assert len(one.rows()) == 1

    await one.pauses.set(one.repo.top, True)
    for event in (one.event(), one.durable()):
        assert await refused(one, event) == "paused; `forgectl resume` ends it"
    one.events._max_events = 2
    assert await one.accepted(one.event(roots=(one.user,))) == ["accepted"]

    await one.stop()
    for event in (one.event(), one.durable()):
        assert await refused(one, event) == "the daemon is stopping"
    assert one.metrics.captures_rejected == 9
    assert len(one.rows()) == 2  # what was accepted


@pytest.mark.parametrize("is_paused", [False, True])
@options(started=False)
async def test_nothing_is_accepted_before_what_its_session_left_is_taken_up(one, is_paused):
    left, new = one.durable("before"), one.event("after")
    one.leave(left)
    one.begin()
    await asyncio.sleep(0)
    accepting = asyncio.create_task(accept(one.pipeline, new))
    await asyncio.sleep(0)
    if is_paused:
        await one.pauses.set(None, True)
        assert (await accepting).word == "rejected"
    else:
        assert (await accepting).word == "accepted"
        await one.finished(left)
        await one.finished(new)
        assert len(one.given) == 2


# --- what an earlier daemon left ----------------------------------------------------------------------


@pytest.mark.parametrize("is_there", [True, False], ids=["event", "journal alone"])
async def test_event_that_was_decided_costs_no_call_and_no_ranking(tmp_path, is_there):
    rank = Ranking()
    async with captured(tmp_path, started=False, model=True, rank=rank) as one:
        event, document = one.durable(), one.document()
        one.leave(*[event] * is_there, decided={event.id: (document,)})
        await one.start()
        assert (await one.hands_over(event)).documents == (document,)
        one.done(event, written=1)
        await one.idle()

        assert (rank.asked, len(one.governor._slots), one.rows()) == ([], 0, [])


@options(started=False)
async def test_what_was_left_is_taken_up_when_the_state_can_be_opened_at_last(one):
    event = one.durable()
    one.leave(event)
    path = one.top / "state/state.db"
    path.rename(one.top / "kept")
    path.mkdir()  # nothing that could be opened
    await one.start()
    await refused(one, one.durable("another", session="t"))
    assert one.state.state == "failing"
    assert "state.db" in one.state.reason

    path.rmdir()
    (one.top / "kept").rename(path)
    await later(5)
    await one.hands_over(event)
    assert one.state.last_error == ""


@options(started=False, off="capture.enabled is false")
async def test_switched_off_it_hands_over_nothing_but_shows_and_purges_what_waits(one):
    one.leave(one.durable("the harbour"))
    await one.start()

    assert await refused(one, one.event("")) == "capture.enabled is false"
    assert (one.state.state, one.state.spooled, one.worker.pid) == ("off", 1, 0)
    assert await one.pipeline.purge(HARBOUR) == CutCount(1, 1)
    assert one.rows() == []


@options(problem="no key")
async def test_without_a_classifier_events_are_kept_for_a_daemon_that_has_one(one):
    assert await one.accepted(one.event(), one.durable(session="t")) == ["accepted", "durable"]
    assert (one.state.state, one.state.reason) == ("failing", "no key")
    assert (one.worker.wanted, one.given) == (True, [])


# --- handing over -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_found", [True, False])
async def test_a_worker_that_asks_which_memories_name_something_is_answered_by_the_keeper(one, is_found):
    """Or is told that there are none, when that cannot be found out: it waits."""
    event = await in_hand(one, one.event())
    if is_found:
        one.committer.heads_of = (KNOWN,)
    else:
        one.committer.asked = None  # the committer fails over it
    one.worker.says(AskHeads(event.id, ("make",)))
    await until(lambda: len(one.worker.given) == 2)

    assert one.worker.given[1] == HeadsAnswer(event.id, (KNOWN,) * is_found)
    assert not is_found or one.committer.asked == [("make",)]
    one.done(event)
    await one.idle()


async def test_a_worker_that_asks_for_vectors_gets_those_of_the_local_model(tmp_path):
    async def vectors(texts):
        return tuple(text.encode() for text in texts)

    async with captured(tmp_path, vectors=vectors) as one:
        event = await in_hand(one, one.event())
        one.worker.says(AskVectors(event.id, ("a", "b")))
        await until(lambda: len(one.worker.given) == 2)

        assert one.worker.given[1] == VectorsAnswer(event.id, (b"a", b"b"))
        one.done(event)
        await one.idle()


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
async def test_a_look_that_cannot_be_had_costs_a_moment_and_neither_the_event_nor_the_daemon(
    one, monkeypatch, error
):
    looked, failed = dispatcher._misplaced_roots, list[Exception]()

    async def look(stored):
        if not failed:
            failed.append(error)
            raise error
        return await looked(stored)

    monkeypatch.setattr(dispatcher, "_misplaced_roots", look)
    event = one.event(kind="explicit")
    await one.accepted(event)
    await until(lambda: failed)
    assert type(error).__name__ in one.state.last_error
    await later(1.0)
    await one.hands_over(event)


async def test_a_keeper_that_fails_over_an_event_costs_that_event_an_attempt_and_no_other_anything(one):
    event = await in_hand(one, one.durable())
    one.committer.tally = None
    one.worker.says(Classified(event_id=event.id))
    await until(lambda: not one.in_hand)
    assert one.state.last_error == "AttributeError; the log has the rest"

    one.committer.tally = Tally()
    other = one.durable(session="t")
    await one.accepted(other)
    await one.finished(other)


@pytest.mark.parametrize(
    "error", [StoreError("x"), ProviderError("x", reason="server"), OSError(5, "x"), KeyError(1), None]
)
async def test_ranking_that_fails_or_hangs_costs_the_event_its_list_and_nothing_else(tmp_path, error):
    async def rank(_):
        if error is None:
            await asyncio.Event().wait()
        raise error

    async with captured(tmp_path, model=True, rank=rank) as one:
        await one.accepted(one.event())
        await until(lambda: one.in_hand)
        await later(6)

        assert [task.known for task in one.given] == [()]
        assert not one.task.done()


@pytest.mark.parametrize("meanwhile", ["the worker dies", "it is paused", "it is purged"])
async def test_event_is_not_given_if_while_it_is_ranked(tmp_path, meanwhile):
    rank = Ranking()
    async with captured(tmp_path, model=True, rank=rank) as one:
        event = one.durable("the harbour")
        await one.accepted(event)
        await until(lambda: one.in_hand)
        match meanwhile:
            case "the worker dies":
                for _ in range(3):
                    one.worker.is_gone()
                    one.worker._on_death("signal SIGKILL")
            case "it is paused":
                await one.pauses.set(one.repo.top, True)
            case "it is purged":
                await one.pipeline.purge(HARBOUR)
        rank.may_end.set()
        await until(lambda: not one.in_hand)
        await turns()
        assert (one.given, one.state.dead) == ([], 0)

        match meanwhile:
            case "the worker dies":  # which counts for nothing
                one.worker.start()
                await one.hands_over(event)
                assert one.state.dead == 0
            case "it is paused":
                assert (one.state.state, one.state.reason) == ("waiting", "paused; `forgectl resume` ends it")
                await one.pauses.set(one.repo.top, False)
                one.pipeline.resume()
                await one.hands_over(event)
            case "it is purged":
                assert ((await one.idle()).spooled, one.rows()) == (0, [])


@options(started=False)
async def test_paused_repository_holds_up_its_own_events_only(one):
    here, there = one.event("here"), one.event("there", roots=(one.user,))
    await one.start()
    await one.pauses.set(one.repo.top, True)
    one.pipeline._enqueue((here,), on_disk=False)
    one.pipeline._enqueue((there,), on_disk=False)
    await one.finished(there)

    assert (len(one.given), one.state.state) == (1, "waiting")


async def test_event_that_the_worker_has_is_finished_in_spite_of_a_pause(one):
    event = await in_hand(one, one.durable())
    await one.pauses.set(None, True)
    assert (one.state.state, one.state.in_hand) == ("paused", event.id)

    one.done(event)
    await until(lambda: not one.in_hand)
    assert one.rows() == []


# --- what the worker says -----------------------------------------------------------------------------


@options(model=True)
async def test_a_committed_event_is_counted_reported_and_deleted_before_capture_is_idle(one):
    event = await in_hand(one, one.durable())
    await one.decides(event, usage=ONE_CALL, tally=Tally(1, 2, 3, 4))
    one.done(event, written=1)
    assert one.state.state == "busy"
    state = await one.idle()
    assert (one.rows(), state.spooled, bool(state.last_success)) == ([], 0, True)

    (day,) = one.governor.days(1)
    counts = one.metrics
    assert (day.purpose, day.calls, day.failed, day.tokens) == ("capture", 1, 0, 110)
    assert (counts.capture_invalid, counts.capture_duplicates, counts.secrets_redacted) == (1, 2, 3)
    assert counts.captures_said_again == 4
    assert (counts.captures_finished, counts.captured) == (1, 1)


@options(model=True)
async def test_nothing_is_put_in_place_before_it_is_written_down_what_that_is(one):
    event = await in_hand(one, one.durable())
    one.disk.failing = frozenset({"journal"})
    one.says(event, one.document(), usage=ONE_CALL)
    await until(lambda: not one.in_hand)
    assert (one.state.last_error, len(one.given)) == ("cannot journal: the disk is on fire", 1)

    one.disk.failing = frozenset()
    await later(2)
    assert await one.hands_over(event, 2) == Putting(event.id, (one.document(),))
    assert one.rows() == [f"{event.id}.events", f"{event.id}.journal"]
    (day,) = one.governor.days(1)
    assert (day.calls, day.failed) == (1, 0)  # it was paid for, and is not asked again


async def test_what_was_forgotten_while_it_was_put_in_place_is_not_tried_again(one):
    event = await in_hand(one, one.durable("about the harbour. About trains."))
    await one.decides(event, one.document("The harbour opens."), one.document("Trains run.", "mem_2"))
    await one.pipeline.purge(HARBOUR)
    await one.fails(event, "storage")
    await later(2)

    task = await one.hands_over(event, 2)
    assert [document.memory.content for document in task.documents] == ["Trains run."]
    assert one.pipeline._queue.events()[0].window[0].text == "About trains."


@pytest.mark.parametrize("end", ["done", "purged", "buried"])
async def test_nothing_is_remembered_of_an_event_that_is_gone(one, end):
    """A daemon may run for months."""
    event = await in_hand(one, one.event("the harbour"))
    await one.decides(event, one.document("The harbour opens at noon."))
    assert f"{event.id}.journal" in one.rows()
    if end == "done":
        one.done(event, written=1)
    elif end == "buried":
        for attempt in range(2, 7):
            await one.fails(event, "unwritten")
            await later(61)
            if attempt < 6:
                await one.hands_over(event, attempt)
    else:
        await one.fails(event, "storage")
        await one.pipeline.purge(HARBOUR)

    await until(lambda: not one.events.holds(event.id) and one.events.documents(event.id) is None)
    await until(lambda: one.rows() == [])
    assert one.rows("dead") == [f"{event.id}.dead"] * (end == "buried")


async def test_report_about_another_event_and_a_second_end_change_nothing(one):
    event = await in_hand(one, one.durable())
    one.done(one.event(), written=1)
    await one.fails(one.event(), "server")
    assert one.in_hand == event.id
    assert (one.metrics.captures_finished, one.metrics.capture_failures) == (0, 0)

    one.done(event)
    await one.fails(event)
    one.worker.dies()
    await one.idle()
    assert (one.metrics.captures_finished, one.metrics.capture_failures, one.rows("dead")) == (1, 0, [])


# --- calls that fail ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("reason", "pauses_s"), [("internal", (4, 8)), ("storage", (2, 2, 2))])
async def test_failed_event_waits_longer_each_time_but_for_a_full_disk_and_lets_others_pass(
    one, reason, pauses_s, caplog
):
    event, other = one.event(), one.event(session="t")
    await one.accepted(event)
    for attempt, pause_s in enumerate(pauses_s, 1):
        await one.hands_over(event, attempt)
        await one.fails(event, reason)
        assert (one.state.state, one.state.reason) == ("waiting", f"it is {reason}")
        await later(pause_s / 2)
        assert len(one.given) == attempt, pause_s
        await later(pause_s / 2)
        assert len(one.given) == attempt + 1, pause_s
    await one.hands_over(event, len(pauses_s) + 1)
    await one.fails(event, reason)
    assert caplog.text.count("capture failed") == 1  # the same again is no news
    await one.accepted(other)
    await one.finished(other)


@options(model=True)
async def test_an_event_with_a_cut_answer_is_dead_with_its_documents_and_is_classified_again(one):
    event = await in_hand(one, one.durable())
    await one.decides(event, usage=ONE_CALL, cut="the reply was cut")
    assert one.rows() == [f"{event.id}.events"]  # a daemon that is killed now asks again
    one.done(event, written=1)
    state = await one.idle()

    assert (state.dead, state.spooled, state.last_error) == (1, 0, "the reply was cut")
    counts = one.metrics
    assert (counts.captured, counts.captures_finished, counts.capture_failures) == (1, 0, 1)
    (dead,) = await one.events.dead()
    assert dead.reason == "the reply was cut; memories saved from it: 1"
    assert await one.pipeline.retry(event.id)
    assert isinstance(await one.hands_over(event, 2), Classify)


@pytest.mark.parametrize("reason", sorted(ANSWERED))
@options(model=True)
async def test_answers_of_no_use_keep_no_other_event_from_the_model_and_give_up_their_own(one, reason):
    """The endpoint is alive, however many of them come in a row."""
    event = await in_hand(one, one.durable())
    for attempt in range(1, 6):
        await one.hands_over(event, attempt)
        await one.fails(event, reason, usage=ONE_CALL)
        if attempt < 5:
            await later(60)
    state = await one.idle()

    assert (state.dead, state.last_error) == (1, f"it is {reason}")
    (day,) = one.governor.days(1)
    assert (day.calls, day.failed, day.tokens) == (5, 5, 550)
    other = await in_hand(one, one.event(session="t"))
    assert one.given[-1].event.id == other.id
    assert one.given[-1].attempts == 2  # no probe


MODEL = {"model": True}
ANY_WOULD_MEET = ["unreachable", "rate_limited", "auth", "limit", "storage"]


# --- calls that may not be made -----------------------------------------------------------------------


async def failed_twice(one: Capture) -> None:
    """Two events, each of a session of its own, fail in a row."""
    for number in range(2):
        event = await in_hand(one, one.durable(session=f"failed {number}"))
        await one.fails(event, "server")


@options(model=True)
async def test_after_two_failures_calls_wait_a_minute_and_the_first_is_a_probe(one):
    await failed_twice(one)
    assert one.state.state == "waiting"
    assert re.fullmatch("calls fail, next attempt in (59|60) s: it is server", one.state.reason)
    await later(50)
    assert len(one.given) == 2

    await later(11)
    event, probe = await one.asked(), one.given[-1]
    one.done(event, usage=ONE_CALL)
    await until(lambda: one.given[-1] is not probe)
    assert (probe.attempts, one.given[-1].attempts) == (1, 2)


@pytest.mark.parametrize(
    ("end", "calls", "failed", "tokens"),
    [
        ("failed", 2, 2, (200, 200)),
        # nothing was heard of the call: an estimate
        ("killed", 1, 1, (1500, 2000)),
        ("timeout", 1, 1, (1500, 2000)),
        # the endpoint has answered
        ("killed after the answer", 1, 0, (110, 110)),
        ("answer not written down", 1, 0, (110, 110)),
    ],
)
@options(model=True)
async def test_calls_are_counted_however_they_end(one, end, calls, failed, tokens):
    event = await in_hand(one, one.event())
    match end:
        case "failed":
            await one.fails(event, "server", usage=Usage(2, 200, 0))
        case "killed":
            one.worker.dies()
        case "timeout":
            await one.fails(event, "timeout")
        case "killed after the answer":
            await one.decides(event, usage=ONE_CALL)
            one.worker.dies()
            one.done(event, written=1)
        case "answer not written down":
            one.disk.failing = frozenset({"journal"})
            one.says(event, one.document(), usage=ONE_CALL)
            await until(lambda: not one.in_hand)
    await turns()

    (day,) = one.governor.days(1)
    assert (day.calls, day.failed) == (calls, failed)
    assert tokens[0] <= day.tokens <= tokens[1]


@options(model=True, limits=(0, 2))
async def test_each_event_takes_one_of_the_calls_of_a_minute(one):
    events = [one.durable(session=f"s{number}") for number in range(3)]
    await one.accepted(*events)
    for event in events[:2]:
        await one.hands_over(event)
        one.done(event, usage=ONE_CALL)
    await until(lambda: not one.in_hand)
    await turns()

    assert (len(one.given), one.state.state) == (2, "waiting")
    assert "the calls of the last minute reach the limit" in one.state.reason


# --- a worker that dies -------------------------------------------------------------------------------


@options(model=True)
async def test_a_worker_that_dies_while_files_are_put_in_place_costs_that_event_nothing(one):
    event = await in_hand(one, one.durable())
    await one.decides(event, usage=ONE_CALL)
    one.worker.dies()
    one.done(event, written=1)
    await one.idle()

    (day,) = one.governor.days(1)
    assert (day.calls, day.failed, one.metrics.captures_finished, len(one.given)) == (1, 0, 1, 1)


# --- ends that the disk does not allow ----------------------------------------------------------------


async def test_event_that_cannot_be_buried_is_buried_later_and_not_given_again(tmp_path):
    rank = Ranking()
    rank.may_end.set()
    async with captured(tmp_path, model=True, rank=rank) as one:
        one.disk.failing = frozenset({"give_up"})
        await killed_thrice(one, one.durable())
        await until(lambda: not one.in_hand)
        assert (one.state.state, one.state.last_error) == ("waiting", "cannot give_up: the disk is on fire")
        other = one.durable(session="t")
        await one.accepted(other)
        await one.finished(other)

        one.disk.failing = frozenset()
        await later(55)
        assert one.state.dead == 0
        await later(6)
        assert (await one.idle()).dead == 1
        assert (len(one.given), len(rank.asked), one.rows()) == (4, 4, [])


async def test_an_event_that_cannot_be_deleted_blocks_no_other_and_is_deleted_later(one):
    event, other = one.durable(), one.durable("next")
    one.disk.failing = frozenset({"remove"})
    await one.accepted(event, other)
    await one.finished(event)
    await one.hands_over(other)
    assert one.state.spooled == 2

    one.disk.failing = frozenset()
    await later(2.1)
    await until(lambda: one.state.spooled == 1 and not one.state.last_error)
    assert one.rows() == [f"{other.id}.events"]


# --- what a person asks -------------------------------------------------------------------------------


async def test_what_is_purged_is_nowhere(one):
    """In memory, on disk, decided, and among the dead; what says nothing of it stays, of an event as well."""
    first, kept = one.durable("in hand", session="0"), one.durable("kept", session="1")
    await in_hand(one, first)
    said = [one.event("the harbour", session="2"), one.durable("the harbour", session="3")]
    both = one.durable("Boats float. The harbour, it opens at noon. Trains run.", session="4")
    await one.accepted(*said, kept, both)
    await buried(one, one.durable("the harbour"))
    await buried(one, one.durable("boats"), one.document("The harbour opens at noon."))
    await buried(one, one.durable("trains"))

    assert await one.pipeline.purge(HARBOUR) == CutCount(5, 5)
    assert one.rows() == sorted(f"{event.id}.events" for event in (first, kept, both))
    assert (one.state.turns, one.state.dead) == (0, 2)
    dead = [(each.event.window[0].text, each.documents) for each in await one.events.dead()]
    assert dead == [("boats", ()), ("trains", None)]
    left = next(event for event in one.pipeline._queue.events() if event.id == both.id)
    assert left.window[0].text == "Boats float. Trains run."
    assert one.state.spool_bytes == sum(len(encoded(event)) for event in (first, kept, left))
    assert b"harbour" not in await one.bytes_on_disk()


async def test_an_event_in_hand_is_classified_again_after_a_sentence_of_it_is_purged(one):
    """What the worker makes of the whole event may hold what was forgotten."""
    event = await in_hand(one, one.durable("Boats float. The harbour opens at noon."))
    assert await one.pipeline.purge(HARBOUR) == CutCount(1, 1)
    one.says(event, one.document("The harbour opens at noon, and boats float."))

    task = await one.hands_over(event, 2)
    assert [utterance.text for utterance in task.event.window] == ["Boats float. "]
    assert one.committer.putting is None


@pytest.mark.parametrize("said", ["Boats float. The harbour opens at noon.", "The harbour opens."])
async def test_a_worker_may_send_an_event_once_more_until_something_of_it_is_purged(one, said):
    event = await in_hand(one, one.durable(said))
    one.worker.says(AskRetry(event.id))
    await one.pipeline.purge([words_of("something else")])
    one.worker.says(AskRetry(event.id))
    await one.pipeline.purge(HARBOUR)
    one.worker.says(AskRetry(event.id))

    assert [reported.may for reported in one.worker.given if isinstance(reported, RetryAnswer)] == [
        True,
        True,
        False,
    ]


async def test_event_that_was_decided_is_purged_for_what_was_decided(one):
    event = await in_hand(one, one.event("boats"))
    await one.decides(event, one.document("The harbour opens at noon."))
    await one.fails(event, "storage")

    assert await one.pipeline.purge(HARBOUR) == CutCount(1, 1)
    await later(2)
    task = await one.hands_over(event, 2)
    assert task.documents == ()


@pytest.mark.parametrize("end", ["fails", "dies", "done", "turn at the end"])
async def test_event_in_hand_that_is_purged_leaves_the_disk_at_once_and_is_not_tried_again(one, end):
    event = await in_hand(
        one, one.event("the harbour", kind="turn" if end == "turn at the end" else "explicit")
    )
    assert await one.pipeline.purge(HARBOUR) == CutCount(1, 1)
    assert one.rows() == []
    match end:
        case "fails":
            await one.fails(event, "storage")
        case "dies":
            one.worker.dies()
        case "done":
            one.says(event, one.document())  # the worker knew nothing of it
        case "turn at the end":
            await one.stop()
    await until(lambda: one.state.state == "idle" or one._is_closed)
    await later(61)

    assert (len(one.given), one.rows()) == (1, [])


async def test_event_that_is_purged_while_it_cannot_be_buried_is_gone(one):
    one.disk.failing = frozenset({"give_up"})
    await killed_thrice(one, one.durable("the harbour"))
    await until(lambda: not one.in_hand)
    assert await one.pipeline.purge(HARBOUR) == CutCount(1, 1)

    await later(61)
    assert (one.state.state, one.rows(), one.rows("dead")) == ("idle", [], [])


async def test_purge_says_so_when_the_dead_cannot_be_looked_through_and_has_purged_the_rest(one):
    await one.accepted(one.durable("in hand", session="0"), one.durable("the harbour"))
    one.disk.failing = frozenset({"cut_dead"})
    with pytest.raises(StoreError):
        await one.pipeline.purge(HARBOUR)

    assert (len(one.rows()), one.state.spooled) == (1, 1)


# --- the end ------------------------------------------------------------------------------------------


async def test_turn_that_was_decided_is_not_decided_anew_after_a_restart(tmp_path):
    async with captured(tmp_path, model=True) as one:
        await one.decides(await in_hand(one, one.event()))

    async with captured(tmp_path, model=True) as one:
        await until(lambda: one.given)
        assert len(one.governor._slots) == 0
        assert [name.partition(".")[2] for name in one.rows()] == ["events", "journal"]


async def test_end_does_not_wait_for_a_disk_that_fails(one):
    event = one.durable()
    one.disk.failing = frozenset({"remove"})
    await one.accepted(event)
    await one.finished(event)
    await one.stop()

    assert one.rows() == [f"{event.id}.events"]


@options(started=False)
async def test_end_while_the_spool_is_read_lets_those_who_wait_for_that_go(one):
    with one.held_disk():
        one.begin()
        await turns()
        accepting = asyncio.create_task(accept(one.pipeline, one.event()))
        await turns()
        assert not accepting.done()
        one.task.cancel()
        assert (await accepting).word == "rejected"  # nobody knows yet what is paused

    await one.daemon_state.wait_until_open()
    await one.stop()
    assert one.rows() == []


@options(started=False)
async def test_what_is_accepted_between_the_end_of_the_run_and_of_the_daemon_is_spooled(one):
    """The state may have been opened just as the end came: then it is known what is paused."""
    left, new = one.durable(session="a"), one.event(session="b")
    one.leave(left)
    with one.held_disk():
        one.begin()
        await turns()
        accepting = asyncio.create_task(accept(one.pipeline, new))
    await one.daemon_state.wait_until_open()
    one.task.cancel()
    assert (await accepting).word == "accepted"

    await one.stop()
    assert one.rows() == sorted(f"{event.id}.events" for event in (left, new))


async def test_turns_that_cannot_be_stored_at_the_end_are_reported(one, caplog):
    await one.accepted(one.event())
    one.disk.failing = frozenset({"events"})
    await one.stop()

    assert "waiting turns are lost events=1" in caplog.text
