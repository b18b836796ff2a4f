"""The verbs of capture for a client: submit, undo, pause, dead events, and cost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.capture.committer import Committer
from forged.capture.values import Classified, Proposal
from forged.conversation import Utterance
from forged.errors import StoreError
from forged.files.roots import Root
from forged.memory import Scope
from forged.sessions import messages
from forged.state import Event
from forged_client import protocol as wire
from tests.daemon.handlers.test_hook import Session
from tests.daemon.parts import assembled
from tests.data.memories import memory, put
from tests.faults.amount import times
from tests.state.flaky import FlakyDatabase
from tests.support.clock import run

KEY = "AKIA" + "QWERTYUIOPASDFGH"


def turn(top, *texts, **fields):
    roles = ("user", "assistant")
    messages = tuple(wire.Message(roles[at % 2], text) for at, text in enumerate(texts))
    return wire.Capture(workspace=str(top), session_id="s", messages=messages, **fields)


def waiting(parts):
    """Events that wait, oldest first."""
    return parts.capture._queue.events()


async def taken(home, request):
    """The one event that a request leaves waiting, and the reply to it."""
    async with assembled(home) as parts:
        reply = await parts.ask(request)
        return (waiting(parts) or (None,))[0], reply, parts.daemon.metrics


# --- capture ------------------------------------------------------------------------------------------


async def test_unknown_kind_is_refused_with_those_that_there_are(home, repo):
    async with assembled(home) as parts:
        code, reported = await parts.refusal(turn(repo, "hello", kind="thought"))
        assert code == "invalid"
        assert "turn, compaction, explicit, session_end" in reported
        assert waiting(parts) == ()


async def test_of_a_growing_window_only_what_is_new_is_added_to_what_waits(home, repo):
    """An older window that comes late and the same one again change nothing."""
    async with assembled(home) as parts:
        said = ["a", "b", "c"], ["a"], ["a", "b", "c"], ["a", "b", "c", "d", "e"]
        replies = [await parts.ask(turn(repo, *texts)) for texts in said]
        (event,) = waiting(parts)

    assert [reply.outcome for reply in replies] == ["accepted", *["coalesced"] * 3]
    assert [reply.slices for reply in replies] == [1, 0, 0, 1]
    assert [utterance.text for utterance in event.window] == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("length", [0, 20_000])
async def test_secrets_are_cut_out_and_counted_before_anything_waits(home, repo, length):
    said = f"the key is {KEY} {'word ' * (length // 5)}"
    event, _, metrics = await taken(home, turn(repo, said, kind="explicit"))

    assert KEY not in event.window[0].text
    assert metrics.secrets_redacted == 1
    kept = b"".join(path.read_bytes() for path in (home / "state").rglob("*") if path.is_file())
    assert b"the key is" in kept
    assert KEY.encode() not in kept


async def test_short_turns_wait_for_no_thread_but_the_look_at_their_roots(home, repo, monkeypatch):
    works = []

    async def in_thread(work, *args):
        works.append(work)
        return work(*args)

    async with assembled(home) as parts:
        await parts.resolver.resolve(str(repo))
        monkeypatch.setattr(asyncio, "to_thread", in_thread)
        task = asyncio.create_task(parts.handlers.handle(turn(repo, "hello")))
        await asyncio.sleep(0)
        assert len(waiting(parts)) == 1
        await task
        monkeypatch.undo()
    assert len(works) == 1
    assert all(waiting(parts)[0].identities)


FACT = "The harbour opens at noon on every working day."
ASKED = "When does the harbour open?"


def of(role: str, *texts: str, **fields: object) -> wire.Message:
    return wire.Message(role, parts=tuple(wire.ContentPart(text=text, **fields) for text in texts))


async def test_what_is_said_in_the_form_of_gemini_is_captured_by_whom_it_was_said(home, repo):
    said = (of("user", "we use pnpm", "not npm"), of("model", "Noted."), of("model", "hm", thought=True))
    async with assembled(home) as parts:
        reply = await parts.ask(wire.Capture(workspace=str(repo), session_id="s", messages=said))
        assert reply.outcome == "accepted"
        (event,) = waiting(parts)
        assert event.window == (Utterance("user", "we use pnpm\nnot npm"), Utterance("assistant", "Noted."))


@pytest.mark.parametrize("form", ["block", "escaped", "sentence"])
async def test_an_echo_of_what_was_injected_is_not_learnt_from_it(home, repo, form):
    put(repo, memory("mem_1", FACT))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        asked = wire.Retrieve(workspace=str(repo), session_id="s", messages=(of("user", ASKED),))
        text = (await parts.ask(asked)).text
        assert FACT in text
        echo = {
            "block": text,
            "escaped": text.replace("<", "&lt;").replace(">", "&gt;"),
            "sentence": f"As noted: {FACT} So there.",
        }[form]
        said = (of("user", ASKED), of("model", f"I know it.\n\n{echo}", "And more."))
        await parts.ask(wire.Capture(workspace=str(repo), session_id="s", messages=said))
        ((_, answer),) = [event.window for event in waiting(parts)]
        assert parts.daemon.metrics.echoes_removed > 0
    assert answer.role == "assistant"
    assert "noon" not in answer.text
    assert "And more." in answer.text


# --- undo ---------------------------------------------------------------------------------------------


def at(number):
    return f"2026-01-{number:02}T00:00:00.000001Z"


def captured(memory_id, content, day, *, session="s", trigger="cadence", **fields):
    found = memory(memory_id, content, created_at=at(day), **fields)
    return msgspec.structs.replace(found, session_id=session, trigger=trigger)


FRIDAY = captured("mem_1", "On Friday.", 1, trigger="explicit")
MONDAY = captured("mem_2", "On Monday.", 2, supersedes="mem_1", version=2)
TUESDAY = captured("mem_3", "On Tuesday.", 3, supersedes="mem_2", version=3, trigger="explicit")
ONE = captured("mem_1", "One.", 2)
SAME_DAY = (ONE, captured("mem_2", "Two.", 2, session="t"))
EXPLICIT = captured("mem_3", "Three.", 2, trigger="explicit")
# What lies in the repository and at home, what is asked, what is taken back and what stays.
UNDONE = {
    "both roots": (
        (captured("mem_0", "Before.", 1), ONE, captured("mem_2", "Two.", 2)),
        (captured("mem_3", "Three.", 2, scope="user"),),
        {},
        (["mem_1", "mem_2", "mem_3"], ["mem_0"]),
    ),
    "nothing of another session, nor what was told": (
        (*SAME_DAY, EXPLICIT),
        (),
        {"session_id": "s"},
        (["mem_1"], ["mem_2", "mem_3"]),
    ),
    "of two sessions at one moment the last": (SAME_DAY, (), {}, (["mem_2"], ["mem_1"])),
    "of a session though another has a newer one": (
        (ONE, captured("mem_2", "Two.", 3, session="t")),
        (),
        {"session_id": "s"},
        (["mem_1"], ["mem_2"]),
    ),
    "the version before is the head again": ((FRIDAY, MONDAY), (), {}, (["mem_2"], ["mem_1"])),
    # Without it the first would be true again beside the last.
    "not a version that was replaced meanwhile": (
        (FRIDAY, MONDAY, TUESDAY, captured("mem_4", "Boats are red.", 2)),
        (),
        {},
        (["mem_4"], ["mem_1", "mem_2", "mem_3"]),
    ),
    "a batch that replaced its own memory": ((ONE, MONDAY), (), {}, (["mem_1", "mem_2"], [])),
    "nothing was captured": ((EXPLICIT,), (), {}, ([], ["mem_3"])),
}


def ids(reply):
    return sorted(found.id for found in reply.memories)


async def undone(parts, repo, **fields):
    """What is taken back, and what is still there."""
    await parts.loaded(repo)
    reply = await parts.ask(wire.Undo(workspace=str(repo), **fields))
    asked = wire.ListMemories(workspace=str(repo), all_versions=True, min_generation=reply.generation)
    return reply, (await parts.ask(asked)).memories


@pytest.mark.parametrize("case", UNDONE.values(), ids=UNDONE)
async def test_the_newest_batch_is_taken_back_and_nothing_else(home, repo, case):
    in_repo, in_home, fields, (gone, stays) = case
    put(repo, *in_repo)
    put(home, *in_home)
    async with assembled(home) as parts:
        reply, left = await undone(parts, repo, **fields)
        assert (reply.status, ids(reply)) == ("ok" if gone else "empty", gone)
        assert sorted(found.id for found in left) == stays
        assert left == () or left[0].is_head
        assert parts.daemon.metrics.undone == len(gone)


async def test_preview_takes_nothing(home, repo):
    put(repo, ONE)
    async with assembled(home) as parts:
        reply, left = await undone(parts, repo, preview=True)
        assert (reply.status, ids(reply), [found.id for found in left]) == ("ok", ["mem_1"], ["mem_1"])
        assert parts.daemon.metrics.undone == 0


async def test_batch_that_was_shown_is_taken_back_and_no_other(home, repo):
    put(repo, ONE, captured("mem_2", "Two.", 3))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        code, reported = await parts.refusal(wire.Undo(workspace=str(repo), ids=("mem_1",)))
        assert code == "invalid"
        assert "captured meanwhile" in reported
        assert ids(await parts.ask(wire.Undo(workspace=str(repo), ids=("mem_2",)))) == ["mem_2"]


WORDS = ("goose", "redis", "nginx", "kafka", "sqlite", "gradle", "pytest", "terraform", "celery", "flask")
SAYINGS = [f"We use {word} for part {at}." for at, word in enumerate(WORDS)]


async def judged(parts, contents):
    """Write what a classifier would propose of every event that waits, and end the events."""
    committer = Committer(parts.indexer, parts.memories.writer, parts.state)
    for event in waiting(parts):
        said = " ".join(each.text for each in event.window)
        proposals = tuple(Proposal(each, category="patterns") for each in contents if each in said)
        documents, _ = await committer.decide(event, Classified(proposals))
        assert (await committer.put(documents, event.tops)).written == len(documents)
        await parts.capture.drop(event.id)


@given(
    counts=st.lists(st.integers(1, 3), min_size=2, max_size=3),
    at_once=st.lists(st.booleans(), min_size=3, max_size=3),
)
@settings(max_examples=times(20, 5))
def test_undo_takes_back_one_turn_however_the_turns_came(counts, at_once):
    """In captures of their own, which wait as one event, or several in one capture."""

    async def scenario(home, repo):
        left = iter(SAYINGS)
        turns = [[next(left) for _ in range(count)] for count in counts]
        window = []
        async with assembled(home) as parts:
            for said, waits in zip(turns, at_once, strict=False):
                window += [" ".join(said), "Noted."]
                if not waits or said is turns[-1]:
                    await parts.ask(turn(repo, *window))
            assert len(waiting(parts)) == 1
            await judged(parts, SAYINGS)
            for said in reversed(turns):
                done = await parts.ask(wire.Undo(workspace=str(repo)))
                assert sorted(each.content for each in done.memories) == sorted(said)
            assert (await parts.ask(wire.Undo(workspace=str(repo)))).status == "empty"

    with tempfile.TemporaryDirectory() as folder:
        home, repo = Path(folder, "home"), Path(folder, "repo")
        (repo / ".git").mkdir(parents=True)
        home.mkdir()
        run(scenario(home, repo))


@pytest.mark.parametrize(
    "clock", [time.time, lambda: 1e9, itertools.count(2e9, -60).__next__], ids=["runs", "rests", "back"]
)
@pytest.mark.parametrize("ends", list(itertools.product([True, False], repeat=3)), ids=str)
async def test_undo_takes_back_one_turn_of_a_harness_though_some_were_interrupted(
    home, repo, ends, clock, monkeypatch
):
    """A prompt without an end is captured with the next turn, or with the one after it."""
    monkeypatch.setattr(messages, "time", SimpleNamespace(time=clock))
    async with assembled(home) as parts:
        claude = Session(parts, repo)
        said = SAYINGS[: len(ends) + 1]
        for number, (text, is_ended) in enumerate(zip(said, (*ends, True), strict=True)):
            await claude.asks(text, str(number))
            if is_ended:
                await claude.ends("Noted.", str(number))
        await judged(parts, SAYINGS)
        taken = [(await parts.ask(wire.Undo(workspace=str(repo)))).memories for _ in said]
        assert [[each.content for each in memories] for memories in taken] == [
            [each] for each in reversed(said)
        ]


async def test_undo_takes_back_a_turn_classified_in_several_events(home, repo):
    """A turn that is too long for one window is one turn all the same."""
    filler = "\n" + "Nothing to see here. " * 1_700
    async with assembled(home) as parts:
        await parts.ask(turn(repo, SAYINGS[0] + filler, SAYINGS[1] + filler))
        assert len(waiting(parts)) == 2
        await judged(parts, SAYINGS)
        done = await parts.ask(wire.Undo(workspace=str(repo)))

    assert sorted(each.content for each in done.memories) == SAYINGS[:2]


# --- forget -------------------------------------------------------------------------------------------


def reported(home, repo, text, **fields):
    return Event(
        kind="explicit",
        session_id="s",
        roots=(Root(str(repo), Scope.REPO), Root(str(home), Scope.USER)),
        window=(Utterance("user", text),),
        **fields,
    )


async def test_forgotten_text_leaves_what_waits_and_what_was_given_up(home, repo):
    put(repo, memory("mem_1", "The harbour opens at noon."))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        noted = reported(home, repo, "Note: the Harbour opens at noon!")
        await parts.state.events.give_up(noted, "five calls failed")
        await parts.ask(turn(repo, "well, the harbour opens at *noon*", kind="explicit"))
        await parts.ask(turn(repo, "trains run late", kind="compaction"))
        await parts.ask(turn(repo, "It rains. The harbour opens, at noon. Bye.", kind="session_end"))
        gone = await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        assert (gone.cut_sentences, gone.cut_events) == (3, 3)
        assert [event.kind for event in waiting(parts)] == ["compaction", "session_end"]
        assert waiting(parts)[1].window[0].text == "It rains. Bye."
        assert len(await parts.state.events.dead()) == 0


async def test_what_is_about_to_be_forgotten_is_known_before_its_file_is_gone(home, repo, monkeypatch):
    """A capture that comes between the two would find no file with that text, and write it again."""
    put(repo, memory("mem_1", "The harbour opens at noon."))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        known, remove = [], parts.memories.writer.remove

        async def removed(*args, **kwargs):
            known.append(parts.state.forgotten.forgotten_at((str(repo),), "the harbour, opens at noon"))
            return await remove(*args, **kwargs)

        monkeypatch.setattr(parts.memories.writer, "remove", removed)
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))

    assert known == [pytest.approx(time.time(), abs=60)]


@pytest.mark.parametrize("failing", ["cut_dead", "forgotten"])
async def test_what_was_forgotten_cannot_be_found_though_something_else_could_not_be_done(
    home, repo, failing
):
    put(repo, memory("mem_1", "The harbour opens at noon."))
    asked = wire.Retrieve(
        workspace=str(repo), session_id="s", turn_id="1", messages=(wire.Message("user", "The harbour?"),)
    )
    async with assembled(home) as parts:
        await parts.loaded(repo)
        assert "noon" in (await parts.ask(asked)).text
        parts.state._database.__class__ = FlakyDatabase
        parts.state._database.failing = frozenset({failing})
        with pytest.raises(StoreError):
            await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        assert (await parts.ask(asked)).text == ""


# --- pause --------------------------------------------------------------------------------------------


async def test_pause_of_a_repository_holds_until_it_is_resumed(home, repo):
    async with assembled(home) as parts:
        for paused, roots, outcome in ((True, (str(repo),), "rejected"), (False, (), "accepted")):
            assert (await parts.ask(wire.Pause(workspace=str(repo), paused=paused))).paused == roots
            assert (await parts.ask(turn(repo, f"hello {outcome}"))).outcome == outcome


async def test_without_a_repository_only_everything_can_be_paused(home):
    async with assembled(home) as parts:
        code, said = await parts.refusal(wire.Pause(workspace=str(home)))
        assert code == "invalid"
        assert "--all" in said
        assert (await parts.ask(wire.Pause(everywhere=True))).paused == ("*",)


# --- the dead -----------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def graves(home, repo):
    """Parts, and two events among the dead."""
    async with assembled(home) as parts:
        events = [reported(home, repo, text, received_at=at(1)) for text in ("first", "second")]
        for event in events:
            await parts.state.events.give_up(event, "five calls failed")
        yield parts, events


async def test_no_ids_mean_all_of_the_dead_and_an_unknown_action_none(home, repo):
    async with graves(home, repo) as (parts, events):
        code, said = await parts.refusal(wire.Dead(action="burn"))
        assert code == "invalid"
        assert "list, show, retry or drop" in said
        assert len((await parts.ask(wire.Dead(action="retry"))).events) == 2
        assert [event.id for event in waiting(parts)] == [event.id for event in events]


# --- cost and status ----------------------------------------------------------------------------------


async def test_an_agent_remembers_nothing_that_a_captured_message_refuses(home, repo):
    """Though no hook hears of the session; to others it says nothing."""
    reported = wire.Remember(workspace=str(repo), content="The user's manager is Zoltan.", session_id="s")
    async with assembled(home) as parts:
        await parts.ask(turn(repo, "Please don't remember this: my manager is called Zoltan.", "Fine."))
        code, reason = await parts.refusal(reported)
        assert (code, "Zoltan" in reason) == ("forgotten", False)
        another = msgspec.structs.replace(reported, session_id="another")
        assert (await parts.ask(another)).status == "ok"
