"""Token cost of a long session: its text once a pass, and few instructions."""

from __future__ import annotations

import json

import msgspec
import pytest

from forged import conversation
from forged.capture.intake import Submission
from forged.capture.llm import SCHEMA, SYSTEM, user_prompt
from forged.capture.values import Classify, KnownMemory, Usage
from forged.conversation import Utterance
from forged.memory import new_id
from forged.text.tokens import estimate
from tests.capture.pipeline import Capture, captured
from tests.support.clock import until

TURNS, BYTES = 30, 46_000
MOST_TIMES_SENT, MOST_TOKENS, MOST_IN_ALL = 1.1, 1_500, 3.5
# As long as lines of memories are, and many enough for the longest list.
KNOWN = tuple(KnownMemory(new_id(), "repo", "project-conventions", "A line. " * 12) for _ in range(60))


def turn(number: int) -> tuple[Utterance, ...]:
    size = BYTES // TURNS
    asked = f"Please look at handler number {number}, it answers too late. ".ljust(300, "a")
    return Utterance("user", asked), Utterance(
        "assistant", f"Handler {number} waits. ".ljust(size - 300, "b")
    )


async def answered(one: Capture) -> None:
    """The next call is made and answered: there is nothing to keep."""
    event_id = await until(lambda: one.in_hand)
    task = await one.hands_over(event_id)
    assert isinstance(task, Classify)
    one.done(task.event, usage=Usage(1, sum(sent(task)), 20))
    await until(lambda: one.in_hand != event_id)


def sent(task: Classify) -> tuple[int, int]:
    """Tokens of instructions and lists, and of what was said, of one call."""
    whole = estimate(SYSTEM, json.dumps(SCHEMA), user_prompt(task.event.window, KNOWN))
    text = estimate(conversation.as_text(task.event.window))
    return whole - text, text


@pytest.fixture
def one(tmp_path):
    return captured(tmp_path, model=True, batch_turns=4)


async def test_a_session_of_30_turns_is_sent_once_a_pass_and_costs_3_5_times_its_size_at_most(one):
    said: list[Utterance] = []
    for number in range(TURNS):
        said += turn(number)
        await hear(one, said, "turn")
        if number % 4 == 3:
            await answered(one)
    await hear(one, said, "compaction")
    while one.state.state != "idle":
        await answered(one)

    size = estimate(*(each.text for each in said))
    calls = [task for task in one.given if isinstance(task, Classify)]
    passes = {
        kind: [sent(task) for task in calls if task.event.kind == kind] for kind in ("turn", "compaction")
    }
    for each in passes.values():
        assert sum(text for _, text in each) <= MOST_TIMES_SENT * size
        assert max(reported for reported, _ in each) <= MOST_TOKENS
    (day,) = one.governor.days(1)
    assert day.calls == len(calls)
    assert day.tokens <= MOST_IN_ALL * size
    assert size <= day.said_tokens <= 2 * MOST_TIMES_SENT * size


async def hear(one: Capture, said: list[Utterance], kind: str) -> None:
    """An agent hands over all that was said so far."""
    spoken = Submission(kind="turn", session_id="s", roots=(one.repo, one.user), messages=tuple(said))
    outcome = await one.pipeline.submit(msgspec.structs.replace(spoken, kind=kind))
    assert outcome.word in ("accepted", "coalesced", "durable")
