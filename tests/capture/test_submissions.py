"""Submissions of an agent: all new text is queued, once, in chunks."""

from __future__ import annotations

import pytest

from forged.capture.intake import Submission
from forged.capture.queue import IDLE_S, session_key
from forged.capture.slices import WINDOW_LIMIT
from forged.conversation import Utterance
from forged.state import CutCount
from forged.text.forgetting import words_of
from tests.capture.pipeline import Capture, captured
from tests.support.clock import later, until

REFUSED = "Don't remember that my boss is Zoltan.\n\nIndent with tabs."
LONG = "word " * (WINDOW_LIMIT // 10)  # half a slice


def spoken(one: Capture, *texts: str, session: str = "s", **fields) -> Submission:
    roles = ("user", "assistant")
    said = tuple(Utterance(roles[at % 2], text) for at, text in enumerate(texts))
    return Submission(
        **{"kind": "turn", "session_id": session, "roots": (one.repo, one.user), "messages": said} | fields
    )


async def hear(one: Capture, *texts: str, **fields) -> tuple[str, int]:
    """Word and slices of the answer."""
    outcome = await one.pipeline.submit(spoken(one, *texts, **fields))
    return outcome.word, outcome.slices


def waiting(one: Capture) -> list[list[str]]:
    """The texts of each event that waits."""
    return [[each.text for each in event.window] for event in one.pipeline._queue.events()]


@pytest.fixture
def one(tmp_path):
    """A pipeline with a model, which reads four turns at once."""
    return captured(tmp_path, model=True, batch_turns=4)


# --- what is new ----------------------------------------------------------------------------------------


async def test_a_message_lost_in_a_kill_does_not_count_as_seen(one):
    """Both are on disk with one transaction or neither is."""
    one.disk.failing = frozenset({"events"})
    await hear(one, "a", "b")
    await later(1)
    await one.stop()

    async with captured(one.top, model=True, batch_turns=4) as again:
        await hear(again, "a", "b", "c")
        assert waiting(again) == [["a", "b", "c"]]


@pytest.mark.parametrize(
    ("said", "kind", "asked"),
    [
        (
            ("Fix it.", "How long do we keep the rows?", "Ninety days."),
            "turn",
            "How long do we keep the rows?",
        ),
        (("Fix it.", "How long do we keep the rows?", "Ninety days."), "compaction", ""),
        (("Fix it.", f"{LONG * 2}How long?", "Ninety days."), "turn", f"{LONG * 2}How long?"[-2_000:]),
        (("Fix it.", "The key is sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "Use it."), "turn", "[redacted]"),
        (("Hello.", "Your boss is Zoltan. Shall I go on?", REFUSED), "turn", "Shall I go on?"),
    ],
    ids=["turn", "compaction", "long", "secret", "off the record"],
)
async def test_an_event_has_the_question_that_its_first_message_may_answer(one, said, kind, asked):
    await hear(one, *said[:2])
    submission = spoken(one, *said, kind=kind)

    taken = await one.pipeline._intake.take(submission, "ev_2", session_key("s", submission.roots))

    (event,) = taken.events
    assert asked in event.asked if asked else not event.asked
    assert "4eC39HqLyjWDarjtT1zdp7dc" not in event.asked
    assert "Zoltan" not in event.asked
    assert len(event.asked) <= 2_000


async def test_a_message_keeps_the_time_when_it_was_first_sent(one):
    one.pipeline._intake._clock = iter([100, 200, 300]).__next__
    await hear(one, "a", "b")
    await hear(one, "a", "b", "c")
    await hear(one, "a", "b", "c", "d", kind="compaction")

    turns, arc = one.pipeline._queue.events()
    assert (turns.times, arc.times) == ((100, 100, 200), (100, 100, 200, 300))


@pytest.mark.parametrize("clock", [(100, 100, 100), (100, 100.0004, 100.0009), (100, 90, 95)], ids=str)
async def test_turns_are_in_order_whatever_the_clock_says(one, clock):
    """It may be read twice in a millisecond, or step back: `undo` knows the last turn by its time."""
    one.pipeline._intake._clock = iter(clock).__next__
    await hear(one, "a", "b", "c", "d")
    await hear(one, "c", "d", "e", "f")
    await hear(one, "c", "d", "e", "f", "g", "h")

    (turns,) = one.pipeline._queue.events()
    assert [each.text for each in turns.window] == list("abcdefgh")
    of_prompts = turns.times[::2]
    assert of_prompts[0] == clock[0]
    assert sorted(set(of_prompts)) == list(of_prompts)


async def test_while_the_endpoint_is_down_nothing_of_twelve_turns_is_lost(one):
    said: list[str] = []
    for number in range(12):
        said += [f"question {number} {LONG}", f"answer {number}"]
        assert (await hear(one, *said[-8:]))[0] != "rejected"  # a window that slides
        while one.in_hand:
            await one.fails(one.pipeline._queue.in_hand.event, "unreachable")
        await later(70)
    heard: list[str] = []
    while one.state.state != "idle":
        event = await one.asked()
        heard += [each.text for each in event.window]
        one.done(event)
        await until(lambda done=event: one.in_hand != done.id)
        await later(70)

    assert [text.strip() for text in heard] == [text.strip() for text in said]


async def test_a_session_costs_its_own_size_and_not_its_size_every_turn(one):
    """30 turns, each with the whole window: what models are given is the conversation, once."""
    said: list[str] = []
    for number in range(30):
        said += [f"question {number} {'x' * 700}", f"answer {number} {'y' * 700}"]
        await hear(one, *said)
    await hear(one, *said, kind="session_end")
    given = 0
    while one.state.state != "idle":
        event = await one.asked()
        given += event.length
        one.done(event)
        await until(lambda done=event: one.in_hand != done.id)

    assert given == sum(map(len, said))
    assert len(one.given) <= 8


# --- when it goes ---------------------------------------------------------------------------------------


async def test_a_session_is_classified_after_a_silent_minute(one):
    await hear(one, "question", "answer")
    await later(IDLE_S - 2)
    assert one.given == []
    await later(3)
    await until(lambda: one.given)


@pytest.mark.parametrize(
    "text",
    ["Remember that we deploy on Fridays.", "No, we use tabs here.", "We always use tabs here."],
)
async def test_a_statement_that_the_rules_recognise_is_classified_at_once(one, text):
    await hear(one, "question", "answer")
    await hear(one, "question", "answer", text)
    await until(lambda: one.given)

    assert len(one.given[0].event.window) == 3


# --- whole ----------------------------------------------------------------------------------------------


async def test_a_compaction_is_classified_again_as_a_whole_and_in_slices(one):
    said = [f"{number} {LONG}" for number in range(5)]
    await hear(one, *said[:4])
    assert await hear(one, *said, kind="compaction") == ("durable", 5)

    arc = [event for event in one.pipeline._queue.events() if event.kind == "compaction"]
    assert [each.text.strip() for event in arc for each in event.window] == [text.strip() for text in said]
    assert [event.id for event in arc] == sorted(event.id for event in arc)
    assert all(f"{event.id}.events" in one.rows() for event in arc)


async def test_a_capture_without_room_is_refused_whole_and_accepted_the_next_time(one):
    one.events._max_events = 2
    refused = await one.pipeline.submit(spoken(one, *["x" * WINDOW_LIMIT] * 3, kind="compaction"))
    assert (refused.word, refused.reason.partition(":")[0]) == ("rejected", "spool_full")
    assert (await hear(one, *["x" * WINDOW_LIMIT] * 3))[0] == "rejected"
    assert (waiting(one), one.rows()) == ([], [])

    one.events._max_events = 9
    assert await hear(one, *["x" * WINDOW_LIMIT] * 3) == ("accepted", 3)


# --- sent again, and in parts ---------------------------------------------------------------------------


def parts(one: Capture, *texts: str, event_id: str = "e1", **fields) -> list[Submission]:
    """A compaction in parts of one message each."""
    given = {"kind": "compaction", "event_id": event_id, "parts": len(texts)} | fields
    return [spoken(one, text, part=at, **given) for at, text in enumerate(texts)]


async def test_a_capture_that_is_sent_again_under_its_id_is_answered_and_not_done_again(one):
    for kind in ("compaction", "explicit", "session_end"):
        for _ in range(3):
            assert await hear(one, f"this {kind}", kind=kind, event_id=kind) == ("durable", 1)
    assert len(one.rows()) == 3
    await one.stop()

    async with captured(one.top, model=True) as again:
        assert await hear(again, "this compaction", kind="compaction", event_id="compaction") == (
            "durable",
            1,
        )
        assert len(again.rows()) == 3


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 0, 1, 1, 2)])
async def test_parts_are_classified_in_order_when_all_are_there(one, order):
    sent = parts(one, "a", "b", "c")
    words = [(await one.pipeline.submit(sent[number])).word for number in order]

    assert words == ["accepted"] * (len(order) - 1) + ["durable"]
    assert waiting(one) == [["a", "b", "c"]]
    assert [(await one.pipeline.submit(each)).word for each in sent] == ["durable"] * 3
    assert waiting(one) == [["a", "b", "c"]]


async def test_parts_outlive_a_daemon_and_take_no_room_when_they_are_done(one):
    first, second = parts(one, "a", "b")
    await one.pipeline.submit(first)
    await one.stop()

    async with captured(one.top, model=True) as again:
        assert (await again.pipeline.submit(second)).word == "durable"
        assert waiting(again) == [["a", "b"]]
        kept = again.daemon_state.parts
        assert (kept.finished_slices("e1"), kept.of("e1"), kept.bytes) == (1, {}, 0)


async def test_a_turn_in_parts_adds_what_is_new(one):
    await hear(one, "a", "b")
    sent = parts(one, "a", "x", "c", kind="turn")
    words = [(await one.pipeline.submit(part)).word for part in (*sent, sent[2])]
    assert words == ["accepted", "accepted", "coalesced", "coalesced"]
    await later(1)
    await until(lambda: not one.pipeline._flusher.is_due)
    await one.stop()

    async with captured(one.top, model=True, batch_turns=4) as again:
        assert waiting(again) == [["a", "b", "x", "c"]]
        assert (again.daemon_state.parts.finished_slices("e1"), again.daemon_state.parts.of("e1")) == (1, {})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"event_id": "../x"}, "event_id"),
        ({"event_id": "e", "parts": 2, "part": 2}, "part 2 of 2"),
        ({"event_id": "e", "parts": 0}, "part 0 of 0"),
        ({"parts": 2}, "needs an event_id"),
    ],
)
async def test_numbers_that_make_no_sense_are_refused_with_a_sentence(one, fields, why):
    outcome = await one.pipeline.submit(spoken(one, "a", **fields))

    assert outcome.word == "rejected"
    assert why in outcome.reason


# --- what is forgotten meanwhile ------------------------------------------------------------------------


async def test_a_forgotten_sentence_is_cut_from_stored_parts_and_the_rest_is_classified(one):
    numbered = {"event_id": "c", "parts": 2, "kind": "compaction"}
    first = await hear(one, "Boats float. The harbour opens.", "noted", **numbered)
    cut = await one.pipeline.purge([words_of("the harbour opens")])
    assert b"harbour" not in await one.bytes_on_disk()
    last = await hear(one, "Trains run.", part=1, **numbered)
    await one.asked()

    assert (first, cut, last) == (("accepted", 0), CutCount(1, 1), ("durable", 1))
    (task,) = one.given
    assert [each.text.strip() for each in task.event.window] == ["Boats float.", "noted", "Trains run."]


# --- when it was said -----------------------------------------------------------------------------------


def times(one: Capture) -> list[tuple[float, ...]]:
    """Return the times of the messages of each waiting event."""
    return [event.said_at for event in one.pipeline._queue.events()]


OLD = ("use tabs", "noted", "use ruff", "fine")


async def forgets(one: Capture) -> float:
    """Something is forgotten; when that was."""
    await one.pipeline._state.forgotten.add(one.repo.top, ["use tabs"])
    return one.pipeline._state.forgotten.newest_at


@pytest.mark.parametrize("kind", ["turn", "compaction", "session_end", "explicit"])
@pytest.mark.parametrize("window", [OLD, OLD[:2], OLD[:1], (*OLD[2:], "go on", "yes")])
async def test_an_old_window_of_a_new_session_is_as_old_as_it_was_in_the_other(one, kind, window):
    await hear(one, *OLD)
    since = await forgets(one)
    await hear(one, *window, session="fork", kind=kind)

    old, *fresh = times(one)
    (fork,) = fresh
    assert all(at <= since for at in old)
    assert all(at in {0.0, *old} for text, at in zip(window, fork, strict=True) if text in OLD)
    assert all(at >= since for text, at in zip(window, fork, strict=True) if text not in OLD)
    if kind != "explicit":  # it comes again whole, and is no younger then
        await hear(one, *window, "and now", session="fork", kind="compaction")
        assert times(one)[-1][: len(fork)] == fork
        assert times(one)[-1][-1] >= since


async def test_in_an_unknown_window_only_the_newest_prompt_is_surely_new(one):
    since = await forgets(one)
    await hear(one, "a", "b", "c", "d")
    await hear(one, "a", "b", "c", "d", "e", "f")

    (first, *rest) = times(one)
    heard = (*first, *(at for each in rest for at in each))
    assert heard[:2] == (0.0, 0.0)
    assert len(heard) == 6
    assert all(at >= since for at in heard[2:])


async def test_who_says_the_same_in_another_session_and_is_answered_otherwise_says_it_again(one):
    await hear(one, "use tabs", "noted")
    since = await forgets(one)
    await hear(one, "use tabs", "once more, noted", session="another")

    assert all(at >= since for at in times(one)[-1])


async def test_given_times_count_and_without_them_a_past_session_has_none(one):
    await hear(one, "a", "b", session="live", said_at=(7.0, 0.0))
    await hear(one, "c", "d", session="past", kind="learned")
    await hear(one, "e", "f", session="dated", kind="learned", said_at=(7.0, 8.0))

    assert times(one) == [(7.0, 0.0), (0.0, 0.0), (7.0, 8.0)]


@pytest.mark.parametrize("everywhere", [True, False])
async def test_what_is_said_under_a_pause_is_known_after_it(one, everywhere):
    top = None if everywhere else one.repo.top
    await hear(one, "a", "b")
    await one.pipeline._state.pauses.set(top, True)
    refused = await hear(one, "a", "b", "c", "d")
    await one.pipeline._state.pauses.set(top, False)
    await hear(one, "a", "b", "c", "d", "e", "f")

    assert refused == ("rejected", 0)
    assert waiting(one) == [["a", "b", "e", "f"]]


async def test_a_session_that_was_learned_is_as_old_as_it_was_said_also_when_it_goes_on(one):
    """So what was forgotten before it was learned stays forgotten: its time is not that of learning."""
    one.pipeline._intake._clock = iter([100, 200]).__next__
    await hear(one, "a", "b", kind="learned", said_at=(7.0, 8.0))
    await hear(one, "a", "b", "c", kind="compaction")

    assert times(one)[-1] == (7.0, 8.0, 200)


async def test_submissions_without_a_session_do_not_wait_for_each_other(one):
    for text in ("a", "b"):
        await hear(one, text, session="", kind="explicit")
    first, second = one.pipeline._queue._line

    assert first.session != second.session
