"""Kept answers of turns by a clock of our own: for how long, and which of two."""

from __future__ import annotations

import pytest

from forged.retrieval import Answer
from forged.retrieval.retriever import FAILURE_TTL_S, CachedAnswer
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def kept(clock) -> CachedAnswer:
    return CachedAnswer(clock)


OK = Answer(status="ok", generation=7)


@pytest.mark.parametrize(
    "answer",
    [Answer(status="error"), Answer(status="timeout"), Answer(status="ok", degraded=True)],
    ids=["error", "timeout", "fallback"],
)
def test_a_failure_or_a_fallback_is_kept_for_five_seconds(kept, clock, answer):
    kept.put(answer)

    clock.now += FAILURE_TTL_S - 0.001
    assert kept.get(0) is answer
    clock.now += 0.001
    assert kept.get(0) is None


@pytest.mark.parametrize("statuses", [("error", "ok"), ("ok", "error")])
def test_the_good_one_of_two_answers_is_kept(kept, statuses):
    """A request for a newer generation may fail; who asked without one is still served."""
    for status in statuses:
        kept.put(OK if status == "ok" else Answer(status=status))

    assert kept.get(0) is OK
