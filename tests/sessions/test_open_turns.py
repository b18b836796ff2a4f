"""Open turns: the newest of all sessions, the last answer of each, and what is taken out of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forged.retrieval import Answer
from forged.sessions.block import Injection
from forged.sessions.turns import OPEN_TURNS, OpenTurn, OpenTurns, TurnReply
from forged.stores import Ranked
from tests.data.memories import memory

ROOTS, OTHERS = ("/repo", "/home"), ("/other", "/home")
OK = Answer(status="ok", generation=7)


def noted(
    turns: OpenTurns,
    session_id: str,
    tops: tuple[str, ...] = ROOTS,
    answer: Answer = OK,
    included: int = 0,
    *,
    agent: str = "",
    contents: tuple[str, ...] = (),
) -> OpenTurn:
    turn = OpenTurn(agent, session_id, (tops, "t", b""), tops, lambda turn: None)
    turn.kept.put(answer)
    turn.set_reply(TurnReply(answer, answer, Injection(included=included), contents=contents))
    turns.mark_used(turn)
    return turn


def test_the_newest_answer_of_a_session_in_these_roots_is_its_last():
    turns = OpenTurns()
    noted(turns, "s")
    newest, elsewhere = noted(turns, "s"), noted(turns, "s", OTHERS)

    assert turns.last("s", ROOTS) is newest
    assert turns.last("s", OTHERS) is elsewhere
    assert turns.last("who", ROOTS) is turns.last("s", ("/third",)) is None


def test_without_a_session_the_newest_of_the_same_roots_is_meant():
    turns = OpenTurns()
    noted(turns, "a")
    newer = noted(turns, "b")
    noted(turns, "c", OTHERS)

    assert turns.last("", ROOTS) is newer


def test_what_a_session_has_in_context_is_no_other_agents():
    turns = OpenTurns()
    noted(turns, "s", agent="a", contents=("ours",))
    noted(turns, "s", agent="b", contents=("theirs",))

    assert [turns.injected_texts("s", ROOTS, agent) for agent in "abc"] == [("ours",), ("theirs",), ()]
    assert turns.injected_texts("s", OTHERS, "a") == turns.injected_texts("", ROOTS, "a") == ()


def test_the_turn_that_was_not_used_for_longest_makes_room():
    turns = OpenTurns()
    first, second = noted(turns, "first"), noted(turns, "second")
    for number in range(OPEN_TURNS - 2):
        noted(turns, f"{number}")
    turns.mark_used(first)
    noted(turns, "one more")

    assert turns.last("first", ROOTS) is first
    assert turns.last("second", ROOTS) is None is not second


def test_purging_leaves_nothing_to_answer_and_every_record():
    turns = OpenTurns()
    turn = noted(turns, "s")
    turns.purge()

    assert turn.kept.get(0) is None
    assert turns.last("s", ROOTS) is turn


IDS, HOMES = st.sampled_from("abcd"), st.sampled_from(["/repo", "/home"])
MEMORIES = IDS.map(lambda each: memory(each, each))
SOME = st.lists(MEMORIES, max_size=2).map(tuple)
RANKED = st.builds(Ranked, MEMORIES, st.just(1.0), root=HOMES, older=SOME, concurrent_heads=SOME)


@given(st.lists(RANKED, max_size=5), st.integers(0, 5), HOMES, st.sets(IDS))
def test_forgetting_takes_these_memories_of_this_root_out_of_each_record_and_no_other(rows, count, root, ids):
    turns = OpenTurns()
    shown = min(count, len(rows))
    rows, others = rows[:3], rows[3:]
    shown = min(shown, len(rows))
    stayed = tuple(
        Ranked(each.memory, 0.0, root=each.root, rejected="faint", evidence=0.0) for each in others
    )
    answer = Answer(status="ok", ranked=tuple(rows), rejected=stayed)
    turn = noted(turns, "s", answer=answer, included=shown, contents=("a text in context",))

    turns.forget(root, ids)
    left = turns.last("s", ROOTS)

    def is_gone(each) -> bool:
        return each.root == root and each.memory.id in ids

    assert turn.kept.get(0) is None
    assert [each.key for each in left.reply.answer.ranked] == [each.key for each in rows if not is_gone(each)]
    assert left.reply.answer.rejected == tuple(each for each in answer.rejected if not is_gone(each))
    assert left.cleared == sum(map(is_gone, rows[:shown]))
    assert left.reply.block.included == shown - left.cleared
    next_to = {
        (each.root, one.id)
        for each in left.reply.answer.ranked
        for one in (*each.older, *each.concurrent_heads)
    }
    assert not next_to & {(root, each) for each in ids}
    assert left.reply.contents == ("a text in context",)
