"""Circuit breaker of an endpoint's model: what opens it, who may probe, and the report."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.errors import ProviderError
from forged.models.health import EndpointHealth, Outage, RetryBudget
from tests.support.clock import Clock

# A little more than half a minute and a minute: the provider counts, too.
A_LOOK_S, A_MINUTE_S = 30.5, 60.5
DOWN = ProviderError("nobody listens", reason="unreachable")


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000.0)


@pytest.fixture
def health(clock) -> EndpointHealth:
    return EndpointHealth("there", "m", clock)


def call(health: EndpointHealth, error: ProviderError | None = DOWN) -> None:
    attempt = health.begin()
    if error is None:
        attempt.record_success()
    else:
        attempt.record_failure(error)


def fail(health: EndpointHealth, times: int = 2) -> None:
    for _ in range(times):
        call(health)


def agent(clock: Clock, within_s: float = 2.0) -> RetryBudget:
    return RetryBudget(clock.now + within_s, clock.now)


def is_admitted(health: EndpointHealth, waiting: RetryBudget | None = None) -> bool:
    try:
        health.admit(waiting)
    except ProviderError:
        return False
    return True


def timed(health: EndpointHealth, clock: Clock, took_s: float, within_s: float = 2.0) -> None:
    """One call of an agent, which goes when its time is up."""
    attempt = health.begin(agent(clock, within_s), timed=True)
    if took_s > within_s:
        clock.now += within_s
        attempt.record_caller_left()
    clock.now += max(took_s - within_s, 0.0) if took_s > within_s else took_s
    attempt.record_success()


# --- what opens it, and what closes it ----------------------------------------------------------------


def test_two_failures_in_a_row_open_it_however_far_apart_and_one_success_closes_it(health, clock):
    fail(health, 1)
    assert health.outage() is None
    clock.now += 86_400

    fail(health, 1)

    assert health.outage() == Outage("unreachable", "nobody listens", A_LOOK_S)
    call(health, None)
    assert (health.outage(), health.is_open) == (None, False)


@pytest.mark.parametrize("end", ["an answer", "a person's word"])
def test_what_began_before_the_last_answer_is_no_news_when_it_fails(health, clock, end):
    late = [health.begin() for _ in range(3)]
    clock.now += 15
    if end == "an answer":
        call(health, None)
    else:
        health.reset()
    clock.now += 2
    for attempt in late:
        attempt.record_failure(DOWN)

    assert health.outage() is None


def test_a_person_who_says_so_has_it_asked_at_once_and_it_is_shown_as_failing_until_it_answers(health):
    call(health, ProviderError("slower", reason="rate_limited", retry_after_s=60))
    fail(health)

    health.reset()

    assert (health.outage(), health.report().state) == (None, "failing")


# --- who may ask meanwhile ----------------------------------------------------------------------------


def test_while_it_is_open_no_one_waits_for_a_call_even_where_one_may_go(health, clock):
    fail(health)
    clock.now += A_MINUTE_S + 5

    assert health.outage().wait_s == 0
    assert is_admitted(health)
    assert not is_admitted(health, agent(clock))


def test_one_call_at_a_time_looks_whether_it_is_back(health, clock):
    fail(health)
    clock.now += A_MINUTE_S
    looking = health.begin()
    clock.now += 45

    assert not is_admitted(health)
    looking.abandon()
    assert is_admitted(health)


@given(
    st.lists(st.tuples(st.floats(0, 40), st.booleans(), st.floats(0, 70)), min_size=1, max_size=60),
)
def test_of_a_dead_endpoint_at_most_two_calls_go_in_any_minute(steps):
    clock = Clock(1_000.0)
    health, made = EndpointHealth(clock=clock), []
    for pause_s, hurry, call_s in steps:
        clock.now += pause_s
        if is_admitted(health, agent(clock) if hurry else None):
            made.append(clock.now)
            attempt = health.begin()
            clock.now += call_s
            attempt.record_failure(DOWN)

    assert max((sum(start <= at < start + 60 for at in made) for start in made), default=0) <= 2


def test_calls_made_elsewhere_count_as_its_own(health, clock):
    health.record_calls(2)
    fail_elsewhere = ProviderError("boom", reason="server")
    health.record_failure(fail_elsewhere)
    health.record_failure(fail_elsewhere)

    assert health.outage().wait_s == A_MINUTE_S


# --- Retry-After --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked_s", "waited_s"), [(20, 20), (1000, 300)])
def test_a_retry_after_holds_for_all_and_not_for_ever(health, clock, asked_s, waited_s):
    call(health, ProviderError("slower", reason="rate_limited", retry_after_s=asked_s))

    assert health.outage() == Outage("rate_limited", "slower", waited_s)
    assert not is_admitted(health)
    clock.now += waited_s
    assert is_admitted(health, agent(clock))


# --- too slow for an agent ----------------------------------------------------------------------------


def test_a_model_whose_last_two_answers_did_not_fit_is_skipped_by_agents_and_by_no_one_else(health, clock):
    timed(health, clock, 20)
    assert health.outage(2.0) is None

    timed(health, clock, 20)

    assert health.outage(2.0).reason == "slow"
    assert (health.outage(), health.outage(30.0)) == (None, None)
    assert not is_admitted(health, agent(clock))


def test_what_is_still_under_way_when_two_agents_have_gone_is_skipped_as_well(health, clock):
    waiting = agent(clock)
    first, second = health.begin(waiting, timed=True), health.begin(waiting, timed=True)
    clock.now += 2
    first.record_caller_left()
    second.record_caller_left()

    assert not is_admitted(health, agent(clock))


def test_a_model_that_was_merely_cold_is_used_by_the_next_turn(health, clock):
    timed(health, clock, 12)
    timed(health, clock, 0.3)
    timed(health, clock, 0.3)

    assert is_admitted(health, agent(clock))
    assert health.report().state == "ok"


def test_a_slow_model_is_used_again_once_an_answer_came_in_time(health, clock):
    timed(health, clock, 20)
    timed(health, clock, 20)
    clock.now += A_MINUTE_S
    looking = health.begin(timed=True)
    clock.now += 0.5
    looking.record_success()

    assert is_admitted(health, agent(clock))


# --- the retry of a turn ------------------------------------------------------------------------------


def test_a_turn_has_one_retry_for_all_of_its_calls_and_none_past_its_deadline():
    assert not RetryBudget(10.0, 0.0).take_retry(10.0)
    waiting = RetryBudget(10.0, 0.0)
    assert [waiting.take_retry(9.0) for _ in range(3)] == [True, False, False]


# --- what is told -------------------------------------------------------------------------------------


def test_a_person_is_informed_since_when_it_fails_why_and_when_it_is_asked_next(health, clock):
    assert health.report().state == "untried"
    call(health, None)
    clock.now += 10
    fail(health)
    clock.now += 5

    report = health.report()

    assert (report.state, report.last_success_s, report.failing_s) == ("failing", 15, 5)
    assert (report.reason, report.message, report.next_s) == ("unreachable", "nobody listens", A_MINUTE_S - 5)


def test_a_model_that_is_late_is_shown_as_slow_in_its_own_words(health, clock):
    attempt = health.begin(agent(clock), timed=True)
    clock.now += 2
    attempt.record_caller_left()

    report = health.report()

    assert (report.state, report.reason) == ("slow", "slow")
    assert report.message == "m at there took longer for its last answer than an agent's 2.0 s"
