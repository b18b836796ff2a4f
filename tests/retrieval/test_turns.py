"""What is kept of turns by a clock of our own, for how long, and for whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.retrieval.turns import ANSWERS, FAILURE_TTL_S, SESSIONS, Turns
from forged.retrieval.values import Answer
from forged.scopes import Ranked, Stayed
from tests.data.memories import memory
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def cache(clock) -> Turns:
    return Turns(clock)


def key(turn: str = "t", session: str = "s", roots: tuple[str, ...] = ("/r",), digest: bytes = b"d"):
    return (session, roots, turn, digest)


OK = Answer(status="ok", generation=7)


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


@pytest.mark.parametrize("statuses", [("error", "ok"), ("ok", "error")])
def test_the_good_one_of_two_answers_is_kept(cache, statuses):
    """A request for a newer generation may fail; who asked without one is still served."""
    for status in statuses:
        cache.put(key(), OK if status == "ok" else Answer(status=status))

    assert cache.get(key(), 0) is OK


def test_the_least_recently_used_turn_goes_first(clock):
    cache = Turns(clock, size=2)
    cache.put(key("a"), OK)
    cache.put(key("b"), OK)
    cache.get(key("a"), 0)
    cache.put(key("c"), OK)

    assert [cache.get(key(turn), 0) is OK for turn in "abc"] == [True, False, True]


@given(st.lists(st.integers(0, 2 * ANSWERS), max_size=3 * ANSWERS))
def test_it_never_holds_more_than_its_size_and_always_the_newest(turns):
    cache = Turns(Clock(100.0))
    for turn in turns:
        cache.put(key(str(turn)), OK)

    newest = list(dict.fromkeys(reversed(turns)))
    held = [turn for turn in newest if cache.get(key(str(turn)), 0) is not None]
    assert held == newest[:ANSWERS]


# --- the last answer of a session ----------------------------------------------------------------------

ROOTS, OTHERS = ("/repo", "/home"), ("/other", "/home")


def answer(text: str) -> Answer:
    return Answer(status="ok", reason=text)


def test_another_workspace_does_not_see_a_session(cache):
    cache.note("s", "t", ROOTS, answer("x"), 0)

    assert cache.last("s", OTHERS) is cache.last("", OTHERS) is cache.last("who", ROOTS) is None


def test_the_session_that_was_silent_longest_is_dropped_first(cache):
    for number in range(SESSIONS):
        cache.note(f"s{number}", "t", ROOTS, answer("x"), 0)
    cache.note("s0", "t2", ROOTS, answer("again"), 0)
    cache.note("one more", "t", ROOTS, answer("x"), 0)

    assert cache.last("s1", ROOTS) is None
    assert cache.last("s0", ROOTS) is not None
    assert cache.last("s2", ROOTS) is not None


def test_purging_leaves_nothing_to_answer_and_every_record(cache):
    cache.put(key(), OK)
    cache.note("s", "t", ROOTS, answer("x"), 0, contents=("text",))
    before = cache.last("s", ROOTS)
    cache.purge()

    assert cache.get(key(), 0) is None
    assert cache.last("s", ROOTS) is before
    assert cache.injected("s", ROOTS) == ("text",)


IDS, HOMES = st.sampled_from("abcd"), st.sampled_from(["/repo", "/home"])
MEMORIES = IDS.map(lambda each: memory(each, each))
SOME = st.lists(MEMORIES, max_size=2).map(tuple)
RANKED = st.builds(Ranked, MEMORIES, st.just(1.0), root=HOMES, older=SOME, rivals=SOME)


@given(st.lists(RANKED, max_size=5), st.integers(0, 5), HOMES, st.sets(IDS))
def test_forgetting_takes_these_memories_of_this_root_out_of_each_record_and_no_other(rows, count, root, ids):
    cache = Turns(Clock(100.0))
    shown = min(count, len(rows))
    rows, others = rows[:3], rows[3:]
    shown = min(shown, len(rows))
    stayed = tuple(Stayed(each.memory, each.root, "faint", 0.0) for each in others)
    answer = Answer(status="ok", ranked=tuple(rows), stayed=stayed)
    cache.put(key(), OK)
    cache.note("s", "t", ROOTS, answer, shown)
    known = cache.injected("s", ROOTS)

    cache.forget(root, ids)
    left = cache.last("s", ROOTS)

    def is_gone(each) -> bool:
        return each.root == root and each.memory.id in ids

    assert cache.get(key(), 0) is None
    assert [each.key for each in left.answer.ranked] == [each.key for each in rows if not is_gone(each)]
    assert left.answer.stayed == tuple(each for each in answer.stayed if not is_gone(each))
    assert left.cleared == sum(map(is_gone, rows[:shown]))
    assert left.included == shown - left.cleared
    beside = {(each.root, one.id) for each in left.answer.ranked for one in (*each.older, *each.rivals)}
    assert not beside & {(root, each) for each in ids}
    assert cache.injected("s", ROOTS) == known
