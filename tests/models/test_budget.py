"""Limits hold whoever asks, and every call is counted once."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.errors import ProviderError
from forged.models import Completion, Prompt
from forged.models.budget import GovernedChat, Governor
from forged_client.protocol import DayCost
from tests.support.clock import PATIENCE_S, Clock, run, turns
from tests.support.provider.embedders import QUERY

NOON = 1_777_636_800.0  # 2026-05-01T12:00:00Z
DAY_S = 86_400


class Model:
    """A chat model that answers what it was given, or waits for ever."""

    health = None

    def __init__(self, answer=None):
        self.answer = answer
        self.asked = []

    async def complete(self, prompt, *, deadline):
        self.asked.append(prompt)
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def aclose(self):
        self.asked.append("closed")


@pytest.fixture
def clock():
    return Clock(NOON)


@pytest.fixture
def governor(clock):
    def make(*, tokens=0, calls=0, before=None):
        made = Governor(daily_token_limit=tokens, calls_per_minute=calls, clock=clock)
        made.restore(before.accounts() if before is not None else ())
        return made

    return make


# --- limits -------------------------------------------------------------------------------------------


def test_a_call_that_would_pass_the_daily_limit_of_all_purposes_waits_for_midnight_utc(governor, clock):
    limited = governor(tokens=1000)
    limited.spend("hyde", prompt_tokens=600)
    limited.spend("capture", completion_tokens=300)

    assert limited.admit(100) is None
    refusal = limited.admit(101)
    assert (refusal.reason, refusal.wait_s) == ("daily_token_limit", DAY_S / 2)
    assert "900 of today's 1,000 tokens" in refusal.message
    assert "2026-05-02T00:00:00Z" in refusal.message
    assert "`memory.daily_token_limit`" in refusal.message

    limited.spend("hyde", prompt_tokens=100)
    assert limited.tokens_today == 1000
    clock.now += limited.admit(1).wait_s
    assert limited.tokens_today == 0
    assert limited.admit(1000) is None
    assert limited.resets_at == "2026-05-03T00:00:00Z"


def test_of_a_minute_so_many_calls_are_admitted_and_the_next_waits_for_the_oldest(governor, clock):
    limited = governor(calls=2)
    assert limited.admit(1) is None
    clock.now += 20
    assert limited.admit(1) is None

    refusal = limited.admit(1)

    assert (refusal.reason, refusal.wait_s) == ("calls_per_minute", 40)
    assert "the next may go in 40 s" in refusal.message
    clock.now += refusal.wait_s
    assert limited.admit(1) is None
    assert limited.admit(1).wait_s == 20  # and a refused call has taken no slot


def test_a_clock_that_is_set_back_blocks_nothing(governor, clock):
    limited = governor(calls=1)
    limited.admit(1)
    clock.now -= 3 * DAY_S

    assert limited.admit(1) is None


@given(st.lists(st.floats(0, 30), max_size=60), st.integers(1, 5))
def test_in_no_minute_there_are_more_calls_than_allowed(steps, most):
    clock = Clock(NOON)
    limited = Governor(daily_token_limit=0, calls_per_minute=most, clock=clock)
    admitted = []
    for step in steps:
        clock.now += step
        refusal = limited.admit(1)
        assert refusal is None or refusal.wait_s > 0
        if refusal is None:
            admitted.append(clock.now)

    assert all(sum(start <= at < start + 60 for at in admitted) <= most for start in admitted)


# --- a governed model ---------------------------------------------------------------------------------


def ask(model, system="s" * 40, user="u" * 4):
    return model.complete(
        Prompt(system, user, QUERY, {"type": "array"}), deadline=time.monotonic() + PATIENCE_S
    )


def test_a_governed_call_is_passed_on_and_counted_as_the_completion_says(governor):
    counting, model = governor(), Model(Completion("text", prompt_tokens=17, completion_tokens=3))
    chat = GovernedChat(model, counting, "hyde")

    assert run(ask(chat)).text == "text"
    assert counting.days(1) == (DayCost("2026-05-01", "hyde", 1, 0, 17, 3),)
    run(chat.aclose())
    assert model.asked == [Prompt("s" * 40, "u" * 4, QUERY, {"type": "array"}), "closed"]


@pytest.mark.parametrize(("reason", "tokens"), [("timeout", 11), ("unreachable", 0)])
def test_a_failed_call_counts_its_estimated_prompt_if_it_was_read(governor, reason, tokens):
    counting = governor()
    failure = ProviderError("gone", reason=reason)

    with pytest.raises(ProviderError) as caught:
        run(ask(GovernedChat(Model(failure), counting, "hyde")))

    assert caught.value is failure
    assert counting.days(1) == (DayCost("2026-05-01", "hyde", 1, 1, tokens, 0),)


def test_a_call_that_someone_waits_for_is_counted_but_not_held_up_by_the_minute(governor):
    counting, model = governor(calls=1), Model(Completion("text"))
    for _ in range(2):
        run(ask(GovernedChat(model, counting, "hyde")))

    assert len(model.asked) == 2
    assert counting.days(1) == (DayCost("2026-05-01", "hyde", 2, 0, 0, 0),)  # as much as the completions say
    assert counting.admit(1).reason == "calls_per_minute"


def test_a_call_beyond_the_daily_limit_is_refused_and_never_made(governor):
    counting, model = governor(tokens=10), Model(Completion("text"))

    with pytest.raises(ProviderError, match=r"`memory\.daily_token_limit`") as caught:
        run(ask(GovernedChat(model, counting, "hyde")))

    assert caught.value.reason == "limit"
    assert caught.value.retry_after_s > 0
    assert model.asked == []
    assert counting.days(1) == ()


def test_calls_side_by_side_do_not_pass_the_daily_limit_together_and_cost_their_prompt_when_cancelled(
    governor,
):
    counting, model = governor(tokens=25), Model()

    async def scenario():
        calls = [asyncio.create_task(ask(GovernedChat(model, counting, "hyde"))) for _ in range(5)]
        await turns()
        asked = len(model.asked)
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        return asked, [type(error) for error in ended]

    asked, ended = run(scenario())

    assert (asked, ended.count(asyncio.CancelledError)) == (2, 2)
    assert counting.days(1) == (DayCost("2026-05-01", "hyde", 2, 2, 22, 0),)
    assert counting.admit(3) is None  # 22 are spent now, and none is under way
