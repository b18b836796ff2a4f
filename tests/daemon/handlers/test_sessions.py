"""What each session has heard: when its list ends, which replies count, and whose list it is."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from forged.config import MemoryConfig
from forged.daemon.handlers.sessions import Sessions, Wanted, place_of
from forged.files import Root
from forged.map import VectorMap
from forged.memory import Memory, Scope
from forged.retrieval import Answer, Said, TurnKey
from forged.scopes import Ranked, Workplace
from forged.state import State
from forged_client import protocol as wire
from tests.data.maps import vector_map
from tests.data.memories import memory
from tests.state.conftest import a_governor, opened

DAY_S = 24 * 3600.0
ONE, TWO = memory("mem_one", "about one"), memory("mem_two", "about two")
STORE = (ONE, TWO)


class Session:
    """A session of an agent at a daemon that nothing is left of but this."""

    def __init__(self, state: State, **fields: object) -> None:
        self.now = 1_000.0
        self.state = state
        self.sessions = Sessions(lambda: self.now)
        self.fields = {"session_id": "s", "mode": "append", **fields}
        self.settings = MemoryConfig()

    def workplace(self, maps: tuple[VectorMap, ...] = ()) -> Workplace:
        roots = (Root("/repo", Scope.REPO), Root("/home", Scope.USER))
        files = SimpleNamespace(maps=lambda: maps)
        return Workplace(roots, files, tuple(root.top for root in roots), self.settings)

    def asks(
        self,
        turn: str,
        found: Sequence[Memory] = STORE,
        *,
        whole: bool = True,
        late: bool = False,
        maps: Sequence[Sequence[Memory]] = (STORE, ()),
        speaks: bool = False,
        **fields: object,
    ) -> Said:
        """One turn's reply, which is written `whole`, or `late`, or not."""
        request = wire.Retrieve(workspace="/repo", turn_id=turn, **{**self.fields, **fields})
        where, key = place_of(request, self.workplace()), self.key(turn)
        before = self.sessions.before(self.state, request, where, key)
        ranked = tuple(Ranked(each, 0.5, root="/repo") for each in found)
        answer = Answer(status="ok" if found else "empty", ranked=ranked)
        wanted = Wanted(where, key, answer, speaks, 4_000, request.mode == "block")
        there = tuple(
            vector_map(store, lexical=False, root=top)
            for store, top in zip(maps, ("/repo", "/home"), strict=False)
        )
        reply = self.sessions.said(self.state, self.workplace(there), wanted, before).said
        self.sessions.replied(request, where, 4_000, 0.0 if late else float("inf"))
        self.sessions.sent(self.state, request, whole=whole)
        return reply

    def key(self, turn: str) -> TurnKey:
        return "s", ("/repo", "/home"), turn, b""


@pytest.fixture(params=["append", "block"])
def session(request, tmp_path) -> Session:
    return Session(State(str(tmp_path), a_governor()), mode=request.param)


def told(reply: Said) -> list[str]:
    """What came that was not heard before."""
    return [each.memory.id for each in reply.ranked[reply.heard :]]


BOTH = ["mem_one", "mem_two"]


def test_what_was_heard_comes_again_after_a_day(session):
    assert told(session.asks("1")) == BOTH
    session.now += DAY_S
    assert told(session.asks("2")) == []
    session.now += 1
    assert told(session.asks("3")) == BOTH


def test_where_no_compaction_was_ever_told_it_comes_again_after_thirty_turns(session):
    turns = [told(session.asks(str(number))) for number in range(61)]

    assert [number for number, new in enumerate(turns) if new] == [0, 30, 60]


def test_where_no_compaction_was_ever_told_it_comes_again_after_60_000_tokens(session):
    def said(length: int) -> tuple[wire.Message, ...]:
        return wire.Message("user", "x" * 1_000), wire.Message("assistant", "y" * length)

    assert told(session.asks("1", messages=said(0))) == BOTH
    assert told(session.asks("2", messages=said(240_000))) == []
    assert told(session.asks("3", messages=said(240_001))) == BOTH
    assert told(session.asks("4", messages=said(240_001))) == []


@pytest.mark.parametrize("how", ["event", "summary"])
def test_who_tells_of_compactions_has_no_other_end_than_them_and_the_day(session, how):
    session.asks("0")
    if how == "event":
        session.sessions.end(session.state, "s", compacts=True)
    since = {} if how == "event" else {"last_summary_index": 2}
    texts = (wire.Message("user", "x" * 300_000),)
    turns = [told(session.asks(str(number), messages=texts, **since)) for number in range(1, 70)]

    assert [number for number, new in enumerate(turns) if new] == [0]


def test_a_turn_that_is_under_way_is_answered_as_it_was_whatever_time_it_takes(session):
    for number in range(29):
        session.asks(str(number))
    first = session.asks("long", (TWO,))
    session.now += 2 * DAY_S
    again = session.asks("long", (TWO,), messages=(wire.Message("assistant", "z" * 300_000),))

    assert again == first
    assert told(session.asks("next")) == BOTH


@pytest.mark.parametrize("fault", [{"late": True}, {"whole": False}])
def test_a_reply_that_was_late_or_not_written_whole_was_not_heard(session, fault):
    missed = session.asks("1", **fault)
    second = session.asks("2")

    assert (told(missed), told(second), second.heard) == (BOTH, BOTH, 0)
    assert session.state.told.uses.of_root("/repo")["mem_one"] == 1
    assert told(session.asks("3")) == []


def test_the_session_of_two_agents_is_two_sessions(session):
    assert told(session.asks("1", agent="a")) == BOTH
    assert told(session.asks("1", agent="b")) == BOTH
    assert told(session.asks("2", agent="a")) == told(session.asks("2", agent="b")) == []
    session.sessions.end(session.state, "s", "a", compacts=True)
    assert (told(session.asks("3", agent="a")), told(session.asks("3", agent="b"))) == (BOTH, [])
    session.sessions.end(session.state, "s", compacts=False)
    assert told(session.asks("4", agent="a")) == told(session.asks("4", agent="b")) == BOTH


def preference(name: str, created_at: str = "2025", length: int = 500, **fields: object) -> Memory:
    return replace(
        memory(name, "x" * length, scope="repo", created_at=created_at),
        category="corrections",
        origin="typed",
        **fields,
    )


def test_what_stands_and_is_not_read_yet_comes_with_a_later_turn(session):
    rule, own = preference("mem_rule"), replace(preference("mem_own"), scope="user")
    early = session.asks("1", (), speaks=True, maps=())
    half = session.asks("2", (), speaks=True, maps=((rule,),))
    whole = session.asks("3", (), speaks=True, maps=((rule,), (own,)))
    later = session.asks("4", (), speaks=True, maps=((rule, preference("mem_new")), (own,)))

    assert [told(reply) for reply in (early, half, whole, later)] == [[], ["mem_rule"], ["mem_own"], []]


def test_uses_are_counted_by_chain(session):
    """Standing memories are told by use, and a new version has the uses of what it replaces."""
    old = preference("mem_old", length=1_500)
    newer = preference("mem_newer", length=1_500, supersedes="mem_old", version=2)
    other = preference("mem_other", "2026", 1_500)
    for name in ("t", "u"):
        session.asks("1", (old,), maps=((old, other), ()), session_id=name)

    reply = session.asks("1", (), speaks=True, maps=((old, newer, other), ()))

    assert told(reply) == ["mem_newer"]


async def test_lists_and_uses_are_written_as_they_change_and_read_again(tmp_path):
    async with opened(tmp_path) as state:
        session = Session(state)
        session.asks("1")
        session.asks("1", session_id="over")
        await state.told.save()
        session.sessions.end(state, "over", compacts=False)
        session.asks("2", (), mode="append")
        await state.told.save()
    async with opened(tmp_path) as state:
        later = Session(state)
        assert told(later.asks("3")) == []
        assert told(later.asks("3", session_id="over")) == BOTH
        assert state.told.uses.of_root("/repo")["mem_one"] == 3
