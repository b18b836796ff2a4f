"""Injected sets of sessions: when one ends, which replies count, and whose it is."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from forged.memory import Memory
from forged.sessions import Turn
from forged.state import State
from forged_client import protocol as wire
from tests.data.memories import memory
from tests.sessions.made import ONE, STORE, TWO, Story, new
from tests.state.conftest import a_governor, opened

DAY_S = 24 * 3600.0


@pytest.fixture(params=["append", "block"])
def session(request, tmp_path) -> Story:
    return Story(State(str(tmp_path), a_governor()), mode=request.param)


BOTH = ["mem_one", "mem_two"]


async def test_injected_memories_come_again_after_a_day(session):
    assert new(await session.asks("1")) == BOTH
    session.now += DAY_S
    assert new(await session.asks("2")) == []
    session.now += 1
    assert new(await session.asks("3")) == BOTH


async def test_without_reported_compactions_memories_come_again_after_thirty_turns(session):
    turns = [new(await session.asks(str(number))) for number in range(61)]

    assert [number for number, new in enumerate(turns) if new] == [0, 30, 60]


async def test_without_reported_compactions_memories_come_again_after_60_000_tokens(session):
    def said(length: int) -> tuple[wire.Message, ...]:
        return wire.Message("user", "x" * 1_000), wire.Message("assistant", "y" * length)

    assert new(await session.asks("1", messages=said(0))) == BOTH
    assert new(await session.asks("2", messages=said(240_000))) == []
    assert new(await session.asks("3", messages=said(240_001))) == BOTH
    assert new(await session.asks("4", messages=said(240_001))) == []


@pytest.mark.parametrize("how", ["event", "summary"])
async def test_who_tells_of_compactions_has_no_other_end_than_them_and_the_day(session, how):
    await session.asks("0")
    if how == "event":
        session.named().empty_injected_sets()
    since = {} if how == "event" else {"summary": 2}
    texts = (wire.Message("user", "x" * 300_000),)
    turns = [new(await session.asks(str(number), messages=texts, **since)) for number in range(1, 70)]

    assert [number for number, new in enumerate(turns) if new] == [0]


async def test_a_turn_that_is_under_way_is_answered_as_it_was_whatever_time_it_takes(session):
    for number in range(29):
        await session.asks(str(number))
    first = await session.asks("long", (TWO,))
    session.now += 2 * DAY_S
    again = await session.asks("long", (TWO,), messages=(wire.Message("assistant", "z" * 300_000),))

    assert again == first
    assert new(await session.asks("next")) == BOTH


@pytest.mark.parametrize("fault", [{"late": True}, {"whole": False}])
async def test_a_reply_that_was_late_or_not_written_whole_was_not_delivered(session, fault):
    missed = await session.asks("1", **fault)
    second = await session.asks("2")

    assert (new(missed), new(second), second.known) == (BOTH, BOTH, 0)
    assert session.state.injected_sets.uses.of_root("/repo")["mem_one"] == 1
    assert new(await session.asks("3")) == []


async def test_the_session_of_two_agents_is_two_sessions(session):
    assert new(await session.asks("1", agent="a")) == BOTH
    assert new(await session.asks("1", agent="b")) == BOTH
    assert new(await session.asks("2", agent="a")) == new(await session.asks("2", agent="b")) == []
    session.named("a").empty_injected_sets()
    assert (new(await session.asks("3", agent="a")), new(await session.asks("3", agent="b"))) == (BOTH, [])


async def test_an_end_that_names_no_agent_is_that_of_the_unnamed_agents_session(session):
    """Ids like `default` are shared."""
    for agent in ("", "a", "b"):
        await session.asks("1", agent=agent)
    session.named().end()
    session.named("a").end()

    again = [new(await session.asks("2", agent=agent)) for agent in ("", "a", "b")]
    assert again == [BOTH, BOTH, []]


async def test_two_turns_of_a_session_that_are_asked_at_once_have_what_is_new_of_both(session):
    """Whatever was found meanwhile for either: the reply is made of the list as it goes out."""
    first = await session.asks("1", (ONE,))
    second = await session.asks("2", STORE)

    assert (new(first), new(second)) == (["mem_one"], ["mem_two"])
    assert new(await session.asks("1", (ONE,))) == []


def preference(name: str, created_at: str = "2025", length: int = 500, **fields: object) -> Memory:
    return replace(
        memory(name, name.ljust(length, "x"), scope="repo", created_at=created_at),
        category="corrections",
        origin="typed",
        **fields,
    )


async def test_the_newest_turn_of_a_session_is_open_in_however_many_roots_it_was(session):
    """A session may be in more roots, and have more turns, than are kept of it."""
    for number in range(12):
        tops = (f"/repo{number}", "/home")
        for turn in ("1", "2"):
            await session.asks(turn, tops=tops)
            shared = session.named().shared
            assert shared.turns.injected_texts("s", tops, "") == ("about one", "about two")
        assert Turn(session.named(), session.place, **session.request).answer is session.answer


async def test_pinned_memories_that_are_not_read_yet_come_with_a_later_turn(session):
    rule, own = preference("mem_rule"), replace(preference("mem_own"), scope="user")
    early = await session.asks("1", (), speaks=True, maps=())
    half = await session.asks("2", (), speaks=True, maps=((rule,),))
    whole = await session.asks("3", (), speaks=True, maps=((rule,), (own,)))
    later = await session.asks("4", (), speaks=True, maps=((rule, preference("mem_new")), (own,)))

    assert [new(reply) for reply in (early, half, whole, later)] == [[], ["mem_rule"], ["mem_own"], []]


async def test_uses_are_counted_by_chain(session):
    """Standing memories are told by use, and a new version has the uses of what it replaces."""
    old = preference("mem_old", length=1_500)
    newer = preference("mem_newer", length=1_500, supersedes="mem_old", version=2)
    other = preference("mem_other", "2026", 1_500)
    for name in ("t", "u"):
        await session.asks("1", (old,), maps=((old, other), ()), session_id=name)

    reply = await session.asks("1", (), speaks=True, maps=((old, newer, other), ()))

    assert new(reply) == ["mem_newer"]


async def test_few_sets_wait_for_their_rows_whether_the_file_opens_or_not(session):
    for number in range(150):
        await session.asks("1", session_id=f"s-{number}")

    assert len(session.state.injected_sets.now) == 150
    assert len(session.state.injected_sets) > 150 - 64


async def test_a_set_that_was_put_before_the_file_was_open_counts_once_it_is(tmp_path):
    async with opened(tmp_path) as state:
        await Story(state).asks("1", (ONE,))
    early = State(str(tmp_path), a_governor())
    await Story(early).asks("2", (TWO,))
    early.tried.clear()
    opening = asyncio.create_task(early.run())
    await early.wait_until_open()
    assert new(await Story(early).asks("3")) == ["mem_one"]
    opening.cancel()
    await early.close()


async def test_lists_and_uses_are_written_as_they_change_and_read_again(tmp_path):
    async with opened(tmp_path) as state:
        session = Story(state)
        await session.asks("1")
        await session.asks("1", session_id="over")
        await state.injected_sets.save()
        session.named(session_id="over").end()
        await session.asks("2", (), mode="append")
        await state.injected_sets.save()
    async with opened(tmp_path) as state:
        later = Story(state)
        assert new(await later.asks("3")) == []
        assert new(await later.asks("3", session_id="over")) == BOTH
        assert state.injected_sets.uses.of_root("/repo")["mem_one"] == 3
