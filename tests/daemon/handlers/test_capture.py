"""The verbs of capture as a client asks for them: what is kept of a turn, undo, pause, the dead, and cost."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from forged.config import Config
from forged.conversation import Utterance
from forged.errors import StoreError
from forged.files.roots import Root
from forged.memory import Scope
from forged.state import Event, digest
from forged_client import protocol as wire
from forged_client.messages import capture_request
from tests.daemon.parts import assembled
from tests.data.memories import memory, put
from tests.state.flaky import FlakyDatabase
from tests.support.clock import run, until

KEY = "AKIA" + "QWERTYUIOPASDFGH"


def talk(home, work, **options):
    """Run `work(parts)` over real parts; nothing is handed to any worker."""

    async def body():
        async with assembled(home, **options) as parts:
            return await work(parts)

    return run(body())


def turn(top, *texts, **fields):
    roles = ("user", "assistant")
    messages = tuple(wire.Message(roles[at % 2], text) for at, text in enumerate(texts))
    return wire.Capture(workspace=str(top), session_id="s", messages=messages, **fields)


def waiting(parts):
    """Events that wait, oldest first."""
    return parts.capture._queue.events()


def taken(home, request, **options):
    """The one event that a request leaves waiting, and the reply to it."""

    async def work(parts):
        reply = await parts.ask(request)
        return (waiting(parts) or (None,))[0], reply, parts.daemon.metrics

    return talk(home, work, **options)


# --- capture ------------------------------------------------------------------------------------------


def test_turn_waits_with_what_was_said_and_the_roots_it_belongs_to(home, repo):
    event, reply, _ = taken(home, turn(repo, "hello", "good day", id=7, window_id="w"))

    assert (reply.id, reply.status, reply.outcome) == (7, "ok", "accepted")
    assert (event.kind, event.session_id, event.window_id) == ("turn", "s", "w")
    assert event.window == (Utterance("user", "hello"), Utterance("assistant", "good day"))
    assert event.roots == (Root(str(repo), Scope.REPO), Root(str(home), Scope.USER))


@pytest.mark.parametrize("start", [0, 1])
def test_a_window_that_its_client_left_unnamed_has_the_name_that_our_client_gives_it(home, repo, start):
    """Older names may lie on disk for one release; names are only ever compared."""
    request = turn(repo, "hello <private>x</private>", "good day", last_summary_index=start)
    named = capture_request(str(repo), "s", request.messages, last_summary_index=start).window_id

    event, _, _ = taken(home, request)

    assert event.window_id == named


@pytest.mark.parametrize("kind", ["compaction", "explicit", "session_end"])
def test_other_kinds_are_durable(home, repo, kind):
    event, reply, _ = taken(home, turn(repo, "hello", kind=kind))

    assert (event.kind, reply.outcome) == (kind, "durable")


def test_unknown_kind_is_refused_with_those_that_there_are(home, repo):
    async def work(parts):
        return await parts.refusal(turn(repo, "hello", kind="thought")), waiting(parts)

    (code, told), left = talk(home, work)

    assert (code, left) == ("invalid", ())
    assert "turn, compaction, explicit, session_end" in told


def test_only_what_follows_the_summary_is_kept(home, repo):
    event, *_ = taken(home, turn(repo, "long ago", "yes", "now", last_summary_index=2))

    assert event.window == (Utterance("user", "now"),)


def test_windows_that_begin_alike_are_one_though_the_client_names_none(home, repo):
    async def work(parts):
        replies = [await parts.ask(turn(repo, *said)) for said in (("a",), ("a", "b", "c"), ("c",))]
        return [reply.outcome for reply in replies], len(waiting(parts))

    assert talk(home, work) == (["accepted", "coalesced", "accepted"], 2)


@pytest.mark.parametrize("length", [0, 20_000])
def test_secrets_are_cut_out_and_counted_before_anything_waits(home, repo, length):
    event, _, metrics = taken(
        home, turn(repo, f"the key is {KEY} {'word ' * (length // 5)}", kind="explicit")
    )

    assert KEY not in event.window[0].text
    assert metrics.secrets_redacted == 1
    assert not any(KEY in path.read_text() for path in home.rglob("*.event"))


def test_private_text_is_cut_out_of_what_any_client_sends(home, repo):
    event, *_ = taken(home, turn(repo, "one <private>two</private> three"))

    assert "two" not in event.window[0].text


@pytest.mark.parametrize("marked", [True, False])
def test_what_was_injected_is_cut_out_and_counted(home, repo, marked):
    """As a block with its marks, or repeated as a paragraph."""
    fact = "The harbour opens at noon, and closes at six in the evening."
    put(repo, memory("mem_1", fact))

    async def work(parts):
        await parts.loaded(repo)
        asked = wire.Retrieve(
            workspace=str(repo),
            session_id="s",
            turn_id="1",
            messages=(wire.Message("user", "When does the harbour open?"),),
        )
        injected = (await parts.ask(asked)).text
        assert "noon" in injected
        echo = injected if marked else fact
        await parts.ask(turn(repo, "When does the harbour open?", f"I was told:\n\n{echo}\n\nSo there."))
        return waiting(parts)[0].window, parts.daemon.metrics.echoes_removed

    window, echoes = talk(home, work)

    assert not any("noon" in utterance.text for utterance in window)
    assert echoes > 0


def test_turn_of_nothing_but_secrets_and_silence_is_rejected(home, repo):
    event, reply, _ = taken(home, turn(repo, "  "))

    assert (event, reply.status, reply.outcome, reply.reason) == (
        None,
        "ok",
        "rejected",
        "nothing_to_capture",
    )


def test_where_memory_is_off_nothing_is_captured(home, repo):
    (repo / ".forge").mkdir()
    (repo / ".forge/config.toml").write_text("[memory]\nenabled = false\n")

    event, reply, metrics = taken(home, turn(repo, "hello"))

    assert (event, reply.status, reply.outcome) == (None, "disabled", "rejected")
    assert metrics.captures_rejected == 1


def test_long_turns_are_looked_through_beside_the_loop(home, repo):
    async def work(parts):
        await parts.resolver.resolve(str(repo))
        answer = parts.handlers.handle(turn(repo, "word " * 20_000))
        task = asyncio.create_task(answer)
        await asyncio.sleep(0)  # one step: what is short would be over
        early = len(waiting(parts))
        await task
        return early, len(waiting(parts))

    assert talk(home, work) == (0, 1)


def test_short_turns_wait_for_no_thread(home, repo):
    async def work(parts):
        await parts.resolver.resolve(str(repo))
        task = asyncio.create_task(parts.handlers.handle(turn(repo, "hello")))
        await asyncio.sleep(0)
        early = len(waiting(parts))
        await task
        return early

    assert talk(home, work) == 1


# --- undo ---------------------------------------------------------------------------------------------


def at(number):
    return f"2026-01-{number:02}T00:00:00.000001Z"


def captured(memory_id, content, day, *, session="s", trigger="cadence", **fields):
    found = memory(memory_id, content, created_at=at(day), **fields)
    return msgspec.structs.replace(found, session_id=session, trigger=trigger)


def undone(home, repo, **fields):
    """Ids that are taken back, and those that are still there."""

    async def work(parts):
        await parts.loaded(repo)
        reply = await parts.ask(wire.Undo(workspace=str(repo), **fields))
        asked = wire.ListMemories(workspace=str(repo), all_versions=True, min_generation=reply.generation)
        return reply, sorted(found.id for found in (await parts.ask(asked)).memories), parts

    return talk(home, work)


def ids(reply):
    return sorted(found.id for found in reply.memories)


def test_newest_batch_is_taken_back_from_both_roots(home, repo):
    put(repo, captured("mem_0", "Before.", 1), captured("mem_1", "One.", 2), captured("mem_2", "Two.", 2))
    put(home, captured("mem_3", "Three.", 2, scope="user"))

    reply, left, parts = undone(home, repo)

    assert (reply.status, ids(reply), left) == ("ok", ["mem_1", "mem_2", "mem_3"], ["mem_0"])
    assert parts.daemon.metrics.undone == 3
    assert len(list((home / "state/trash").rglob("*.md"))) == 3


def test_what_was_taken_back_is_not_captured_again(home, repo):
    put(repo, captured("mem_1", "One.", 2))
    put(home, captured("mem_2", "Two.", 2, scope="user"))

    _, _, parts = undone(home, repo)

    assert parts.state.forgotten.digests() == {digest(str(repo), "One."), digest(str(home), "Two.")}


def test_what_was_said_in_another_session_or_explicitly_is_no_part_of_a_batch(home, repo):
    put(
        repo,
        captured("mem_1", "One.", 2),
        captured("mem_2", "Two.", 2, session="t"),
        captured("mem_3", "Three.", 2, trigger="explicit"),
    )

    reply, left, _ = undone(home, repo, session_id="s")

    assert (ids(reply), left) == (["mem_1"], ["mem_2", "mem_3"])


def test_what_two_sessions_left_at_one_moment_are_two_batches(home, repo):
    put(repo, captured("mem_1", "One.", 2), captured("mem_2", "Two.", 2, session="t"))

    reply, left, _ = undone(home, repo)

    assert (ids(reply), left) == (["mem_2"], ["mem_1"])


def test_newest_batch_of_a_session_is_taken_back_though_another_has_a_newer_one(home, repo):
    put(repo, captured("mem_1", "One.", 2), captured("mem_2", "Two.", 3, session="t"))

    reply, left, _ = undone(home, repo, session_id="s")

    assert (ids(reply), left) == (["mem_1"], ["mem_2"])


def test_version_that_is_taken_back_leaves_the_one_before_it_at_the_head(home, repo):
    put(
        repo,
        captured("mem_1", "On Friday.", 1, trigger="explicit"),
        captured("mem_2", "On Monday.", 2, supersedes="mem_1", version=2),
    )

    async def work(parts):
        await parts.loaded(repo)
        reply = await parts.ask(wire.Undo(workspace=str(repo)))
        asked = wire.ListMemories(workspace=str(repo), min_generation=reply.generation)
        return [(found.id, found.is_head) for found in (await parts.ask(asked)).memories]

    assert talk(home, work) == [("mem_1", True)]


def test_version_that_was_replaced_meanwhile_stays(home, repo):
    """Without it the first would be true again beside the last."""
    put(
        repo,
        captured("mem_1", "On Friday.", 1, trigger="explicit"),
        captured("mem_2", "On Monday.", 2, supersedes="mem_1", version=2),
        captured("mem_3", "On Tuesday.", 3, supersedes="mem_2", version=3, trigger="explicit"),
        captured("mem_4", "Boats are red.", 2),
    )

    reply, left, _ = undone(home, repo)

    assert (ids(reply), left) == (["mem_4"], ["mem_1", "mem_2", "mem_3"])


def test_batch_that_replaced_its_own_memory_is_taken_back_whole(home, repo):
    put(
        repo,
        captured("mem_1", "On Friday.", 2),
        captured("mem_2", "On Monday.", 2, supersedes="mem_1", version=2),
    )

    reply, left, _ = undone(home, repo)

    assert (ids(reply), left) == (["mem_1", "mem_2"], [])


def test_preview_takes_nothing(home, repo):
    put(repo, captured("mem_1", "One.", 2))

    reply, left, parts = undone(home, repo, preview=True)

    assert (reply.status, ids(reply), left) == ("ok", ["mem_1"], ["mem_1"])
    assert parts.daemon.metrics.undone == 0


def test_batch_that_was_shown_is_taken_back_and_no_other(home, repo):
    put(repo, captured("mem_1", "One.", 2), captured("mem_2", "Two.", 3))

    async def work(parts):
        await parts.loaded(repo)
        refused = await parts.refusal(wire.Undo(workspace=str(repo), ids=("mem_1",)))
        return refused, await parts.ask(wire.Undo(workspace=str(repo), ids=("mem_2",)))

    (code, told), reply = talk(home, work)

    assert (code, ids(reply)) == ("invalid", ["mem_2"])
    assert "captured meanwhile" in told


def test_with_nothing_captured_there_is_nothing_to_take_back(home, repo):
    put(repo, captured("mem_1", "One.", 2, trigger="explicit"))

    reply, left, _ = undone(home, repo)

    assert (reply.status, reply.memories, left) == ("empty", (), ["mem_1"])


# --- forget -------------------------------------------------------------------------------------------


def told(home, repo, text, **fields):
    return Event(
        kind="explicit",
        session_id="s",
        roots=(Root(str(repo), Scope.REPO), Root(str(home), Scope.USER)),
        window=(Utterance("user", text),),
        **fields,
    )


def test_forgotten_text_leaves_what_waits_and_what_was_given_up(home, repo):
    put(repo, memory("mem_1", "The harbour opens at noon."))

    async def work(parts):
        await parts.loaded(repo)
        noted = told(home, repo, "Note: the Harbour opens at noon!")
        await parts.state.events.give_up(noted, "five calls failed")
        await parts.ask(turn(repo, "well, the harbour opens at *noon*", kind="explicit"))
        await parts.ask(turn(repo, "trains run late", kind="compaction"))
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        return [event.kind for event in waiting(parts)], len(await parts.state.events.dead())

    assert talk(home, work) == (["compaction"], 0)


def test_forgotten_word_leaves_events_alone_that_have_it_in_another_word(home, repo):
    put(repo, memory("mem_1", "go"))

    async def work(parts):
        await parts.loaded(repo)
        await parts.ask(turn(repo, "we are going", kind="explicit"))
        await parts.ask(turn(repo, "we use Go.", kind="compaction"))
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        return [event.kind for event in waiting(parts)]

    assert talk(home, work) == ["explicit"]


@pytest.mark.parametrize("failing", ["drop_unwanted", "change"])
def test_what_was_forgotten_cannot_be_found_though_something_else_could_not_be_done(home, repo, failing):
    put(repo, memory("mem_1", "The harbour opens at noon."))
    asked = wire.Retrieve(
        workspace=str(repo), session_id="s", turn_id="1", messages=(wire.Message("user", "The harbour?"),)
    )

    async def work(parts):
        await parts.loaded(repo)
        assert "noon" in (await parts.ask(asked)).text
        parts.state._database.__class__ = FlakyDatabase
        parts.state._database.failing = frozenset({failing})
        with pytest.raises(StoreError):
            await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        return (await parts.ask(asked)).text

    assert talk(home, work) == ""


# --- pause --------------------------------------------------------------------------------------------


def test_pause_of_a_repository_holds_until_it_is_resumed(home, repo):
    async def work(parts):
        paused = await parts.ask(wire.Pause(workspace=str(repo)))
        during = await parts.ask(turn(repo, "hello"))
        resumed = await parts.ask(wire.Pause(workspace=str(repo), paused=False))
        after = await parts.ask(turn(repo, "hello"))
        return paused.paused, during.outcome, resumed.paused, after.outcome

    assert talk(home, work) == ((str(repo),), "rejected", (), "accepted")


def test_without_a_repository_only_everything_can_be_paused(home):
    async def work(parts):
        refused = await parts.refusal(wire.Pause(workspace=str(home)))
        return refused, (await parts.ask(wire.Pause(everywhere=True))).paused

    (code, said), paused = talk(home, work)

    assert (code, paused) == ("invalid", ("*",))
    assert "--all" in said


# --- the dead -----------------------------------------------------------------------------------------


@pytest.fixture
def graves(home, repo):
    """Run `work(parts, events)` with two events among the dead."""

    def graves(work):
        async def with_dead(parts):
            events = [told(home, repo, text, received_at=at(1)) for text in ("first", "second")]
            for event in events:
                await parts.state.events.give_up(event, "five calls failed")
            return await work(parts, events)

        return talk(home, with_dead)

    return graves


def test_the_dead_are_listed_without_and_shown_with_their_text(graves, repo):
    async def work(parts, events):
        listed = await parts.ask(wire.Dead())
        shown = await parts.ask(wire.Dead(action="show", ids=(events[1].id, "ev_none")))
        return events, listed, shown

    events, listed, shown = graves(work)

    assert [event.id for event in listed.events] == [event.id for event in events]
    assert {event.text for event in listed.events} == {""}
    (one,) = shown.events
    assert (one.kind, one.session_id, one.root, one.reason) == (
        "explicit",
        "s",
        str(repo),
        "five calls failed",
    )
    assert (one.received_at, one.text) == (at(1), "user: second")
    assert one.died_at
    assert one.bytes
    assert shown.missing == ("ev_none",)


def test_dead_events_are_taken_back_or_erased_by_id(graves):
    async def work(parts, events):
        retried = await parts.ask(wire.Dead(action="retry", ids=(events[0].id, events[0].id, "ev_none")))
        dropped = await parts.ask(wire.Dead(action="drop", ids=(events[1].id,)))
        again = await parts.ask(wire.Dead(action="drop", ids=(events[1].id,)))
        left = await parts.ask(wire.Dead())
        assert [event.id for event in waiting(parts)] == [events[0].id]
        return len(retried.events), retried.missing, len(dropped.events), again.status, left.status

    assert graves(work) == (1, ("ev_none",), 1, "empty", "empty")


def test_no_ids_mean_all_of_the_dead(graves):
    async def work(parts, events):
        reply = await parts.ask(wire.Dead(action="retry"))
        return len(reply.events), [event.id for event in waiting(parts)] == [event.id for event in events]

    assert graves(work) == (2, True)


def test_unknown_action_is_refused_and_does_nothing(graves):
    async def work(parts, _):
        return await parts.refusal(wire.Dead(action="burn")), len((await parts.ask(wire.Dead())).events)

    (code, said), left = graves(work)

    assert (code, left) == ("invalid", 2)
    assert "list, show, retry or drop" in said


# --- cost and status ----------------------------------------------------------------------------------


def test_cost_tells_days_and_limits(home):
    config = Config()

    async def work(parts):
        parts.governor.spend("capture", calls=2, failed=1, prompt_tokens=10, completion_tokens=5)
        return await parts.ask(wire.Cost(days=0)), await parts.ask(wire.Cost(days=10**9))

    reply, long = talk(home, work, config=config)

    (day,) = reply.days
    assert (day.purpose, day.calls, day.failed, day.prompt_tokens, day.completion_tokens) == (
        "capture",
        2,
        1,
        10,
        5,
    )
    assert (reply.tokens_today, reply.token_limit) == (15, config.memory.daily_token_limit)
    assert reply.calls_per_minute == config.llm.calls_per_minute
    assert reply.resets_at.endswith("T00:00:00Z")
    assert long.days == reply.days


def test_status_tells_of_capture(home, repo):
    async def work(parts):
        await parts.ask(turn(repo, "hello"))
        await parts.ask(turn(repo, "hello", kind="session_end"))
        await parts.state.pauses.set(str(repo), True)
        await parts.ask(turn(repo, "hello"))
        await until(lambda: parts.capture.state().turns == 0)
        return (await parts.ask(wire.Status())).capture

    report = talk(home, work)

    assert (report.state, report.classifier) == ("waiting", "builtin:rules")
    assert (report.accepted, report.durable, report.rejected) == (1, 1, 1)
    assert (report.turns, report.spooled, report.paused) == (0, 1, (str(repo),))
    assert report.reason == "paused; `forgectl resume` ends it"
