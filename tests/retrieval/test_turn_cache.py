"""The turn cache by a clock of our own: what is kept, for how long, and what makes it a miss (D9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.retrieval.turn_cache import CACHE_SIZE, FAILURE_TTL_S, TurnCache
from forged.retrieval.values import Answer


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock) -> TurnCache:
    return TurnCache(clock)


def key(turn: str = "t", session: str = "s", roots: tuple[str, ...] = ("/r",), digest: bytes = b"d"):
    return (session, roots, turn, digest)


OK = Answer(status="ok", text="x", generation=7)


def test_what_was_never_put_is_a_miss(cache):
    assert cache.get(key(), 0) is None


@pytest.mark.parametrize("status", ["ok", "empty"])
def test_a_good_answer_is_kept_for_its_turn(cache, clock, status):
    answer = Answer(status=status)
    cache.put(key(), answer)
    clock.now += 3600

    assert cache.get(key(), 0) is answer


@pytest.mark.parametrize(
    "answer",
    [Answer(status="error"), Answer(status="timeout"), Answer(status="ok", degraded=True)],
    ids=["error", "timeout", "fallback"],
)
def test_a_failure_or_a_fallback_is_kept_for_five_seconds(cache, clock, answer):
    cache.put(key(), answer)

    clock.now += FAILURE_TTL_S - 0.001
    assert cache.get(key(), 0) is answer
    clock.now += 0.001
    assert cache.get(key(), 0) is None


def test_an_answer_that_is_too_old_for_the_request_is_a_miss_and_stays_for_others(cache):
    cache.put(key(), OK)

    assert cache.get(key(), 8) is None
    assert cache.get(key(), 7) is OK


@pytest.mark.parametrize(
    "other", [key("t2"), key(session="s2"), key(roots=("/r2",)), key(digest=b"e")],
    ids=["turn", "session", "roots", "request"],
)  # fmt: skip
def test_nothing_is_shared_between_different(cache, other):
    cache.put(key(), OK)

    assert cache.get(other, 0) is None


def test_a_newer_answer_replaces_an_older_one(cache):
    cache.put(key(), Answer(status="error"))
    cache.put(key(), OK)

    assert cache.get(key(), 0) is OK


def test_a_failure_does_not_replace_a_good_answer(cache):
    """A request for a newer generation may fail; who asked without one is still served."""
    cache.put(key(), OK)
    cache.put(key(), Answer(status="error"))

    assert cache.get(key(), 0) is OK


def test_the_least_recently_used_turn_goes_first(clock):
    cache = TurnCache(clock, size=2)
    cache.put(key("a"), OK)
    cache.put(key("b"), OK)
    cache.get(key("a"), 0)
    cache.put(key("c"), OK)

    assert [cache.get(key(turn), 0) is OK for turn in "abc"] == [True, False, True]


def test_purging_drops_everything_and_is_counted(cache):
    cache.put(key(), OK)
    cache.purge()

    assert cache.get(key(), 0) is None
    assert cache.purges == 1


@given(st.lists(st.integers(0, 2 * CACHE_SIZE), max_size=3 * CACHE_SIZE))
def test_it_never_holds_more_than_its_size_and_always_the_newest(turns):
    cache = TurnCache(Clock())
    for turn in turns:
        cache.put(key(str(turn)), OK)

    newest = list(dict.fromkeys(reversed(turns)))
    held = [turn for turn in newest if cache.get(key(str(turn)), 0) is not None]
    assert held == newest[:CACHE_SIZE]
