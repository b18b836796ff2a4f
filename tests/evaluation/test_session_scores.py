"""Scores of sessions' turns."""

from __future__ import annotations

import pytest

from tests.evaluation.injected_text import Parts
from tests.evaluation.session_scores import summaries
from tests.evaluation.session_trial import TurnContext
from tests.evaluation.sessions import Turn


def contexts(
    *,
    wanted="",
    harmless="",
    forbidden="",
    context="",
    new="",
    pinned="",
    size=100,
    kind="plain",
    session="s",
):
    labels = (frozenset(each.split()) for each in (wanted, harmless, forbidden))
    return TurnContext(
        session=session,
        store="x",
        size=size,
        turn=Turn("?", "!", kind, *labels),
        reply=frozenset(new.split()),
        context=frozenset(context.split()) | frozenset(new.split()),
        new=tuple(new.split()),
        pinned=frozenset(pinned.split()),
        parts=Parts(1.0, 2.0, 3.0 if new else -3.0),
    )


def of(*turns):
    return summaries(turns)[0]


def test_recall_counts_what_is_in_context_and_not_only_what_this_turn_brought():
    found = of(contexts(wanted="a b", context="a"), contexts(wanted="a", new="a"), contexts(context="a"))

    assert (found.recall.value, found.recall.of) == (0.75, 2)
    assert (found.recall_in_reply.value, found.recall_in_reply.of) == (0.5, 2)


def test_shares_are_of_memories_that_came_newly():
    found = of(contexts(wanted="a", harmless="b", new="a b c d", pinned="c", context="z"))

    assert found.wanted.value == 0.25
    assert found.wanted_or_harmless.value == 0.5
    assert found.useful_or_pinned.value == 0.75


def test_the_first_that_a_turn_brought_is_right_or_not_and_standing_ones_do_not_count():
    found = of(
        contexts(wanted="a", new="s a b", pinned="s"), contexts(wanted="a", new="b a"), contexts(new="b")
    )

    assert (found.first.value, found.first.of) == (0.5, 2)


def test_muted_is_a_turn_that_lacks_something_and_gets_nothing():
    found = of(
        contexts(wanted="a"),
        contexts(wanted="a", context="a"),
        contexts(wanted="a", new="b"),
        contexts(context="c"),
    )

    assert (found.muted.value, found.muted.of) == (0.5, 2)


def test_turns_that_want_nothing_are_counted_apart_and_chat_among_them():
    found = of(
        contexts(wanted="a", new="a"),
        contexts(new="b c", pinned="c"),
        contexts(kind="chat"),
        contexts(kind="chat", new="d"),
    )

    assert found.other_memories.value == pytest.approx(2 / 3, abs=1e-4)
    assert (found.chat_memories.value, found.chat_memories.of) == (0.5, 2)
    assert found.other_tokens.value == 4.0


def test_a_session_is_the_unit_of_tokens_and_forbidden_memories():
    found = of(
        contexts(new="a", forbidden="a"), contexts(new="b"), contexts(session="t", new="c", forbidden="d"),
    )  # fmt: skip

    assert found.sessions == 2
    assert (found.tokens.value, found.tokens_pinned.value) == (9.0, 1.5)
    assert (found.tokens_searched.value, found.tokens_frame.value) == (3.0, 4.5)
    assert found.tokens_a_turn.value == 6.0
    assert (found.forbidden.value, found.memories.value) == (0.5, 1.5)


def test_stores_are_grouped_by_size_and_turns_by_kind():
    turns = [
        contexts(session=str(size), size=size, wanted="a", kind="short" if size > 40 else "plain")
        for size in (5, 12, 30, 31, 90, 91)
    ]

    groups = {each.group: each.sessions for each in summaries(turns)}

    assert groups == {"all": 6, "<= 12": 2, "> 30": 3, "31-90": 2, "> 90": 1}
    assert [(each.kind, each.recall.of) for each in summaries(turns)[0].kinds] == [("plain", 4), ("short", 2)]
