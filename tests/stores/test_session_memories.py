"""Memories of sessions: lifetime, size, and separation."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from forged.attributes import Facts
from forged.stores import SessionMemories, SessionMemory, new_session_memory
from tests.support.clock import Clock

MINUTE = 60.0


def row(text: str, session: str = "s1", now: float = 0.0, **fields) -> SessionMemory:
    return SessionMemory(new_session_memory(text, session, now), Facts(agent_id="claude", **fields), now)


def texts(memories: SessionMemories, session: str = "s1") -> list[str]:
    return [each.memory.content for each in memories.of(session)]


def test_a_memory_expires_between_59_and_61_minutes_without_a_sweep():
    clock = Clock()
    memories = SessionMemories(clock=clock)
    kept = memories.add(row("the build is red"))

    clock.now = 59 * MINUTE
    assert texts(memories) == ["the build is red"]
    assert memories.find(kept.id) == kept
    clock.now = 61 * MINUTE
    assert texts(memories) == []
    assert memories.find(kept.id) is None
    assert memories.revision("s1") == 0


@pytest.mark.parametrize(
    ("look", "nothing"),
    [
        (lambda memories, kept: memories.find(kept.id), None),
        (lambda memories, kept: memories.remove(kept.id), None),
        (lambda memories, kept: memories.of(kept.session_id), ()),
        (lambda memories, kept: memories.revision(kept.session_id), 0),
        (lambda memories, kept: list(memories.all()), []),
        (lambda memories, kept: memories.remove_saying(lambda text: True), ()),
        (lambda memories, kept: memories.sessions, 0),
        (lambda memories, kept: memories.add(row("the build is red", now=3600.0)) == kept, False),
    ],
    ids=["find", "remove", "of", "revision", "all", "remove_saying", "sessions", "add"],
)
def test_what_has_expired_is_given_out_by_nothing_that_looks_first(look, nothing):
    """Each alone, because one that looks may sweep for the next."""
    clock = Clock()
    memories = SessionMemories(clock=clock)
    kept = memories.add(row("the build is red"))
    memories.use(kept.id)

    clock.now = 60 * MINUTE - 0.001
    assert memories.find(kept.id)
    clock.now = 60 * MINUTE
    assert look(memories, kept) == nothing


def test_the_time_to_live_counts_from_when_each_was_made():
    clock = Clock()
    memories = SessionMemories(clock=clock)
    memories.add(row("early"))
    clock.now = 30 * MINUTE
    memories.add(row("late", now=clock.now))

    clock.now = 61 * MINUTE
    assert texts(memories) == ["late"]


def test_a_session_that_ends_remembers_nothing_however_young_it_is():
    memories = SessionMemories(clock=Clock())
    memories.add(row("one"))
    memories.add(row("two", session="s2"))

    another = row("of another")
    memories.add(replace(another, facts=replace(another.facts, agent_id="another")))

    memories.end("s1", "claude")

    assert texts(memories) == ["of another"]
    assert texts(memories, "s2") == ["two"]
    assert memories.sessions == 2


def test_of_101_memories_of_a_session_the_first_is_gone():
    memories = SessionMemories(clock=Clock())
    for number in range(101):
        memories.add(row(f"fact {number}"))

    assert texts(memories) == [f"fact {number}" for number in range(1, 101)]
    assert memories.dropped == 1


def test_the_session_that_was_not_added_to_for_the_longest_makes_room_first():
    memories = SessionMemories(clock=Clock(), most_bytes=3 * 5000)
    for session in ("old", "young", "old", "young"):
        memories.add(row(f"{session} {memories.estimated_bytes}", session))

    assert len(texts(memories, "old")) == 1
    assert len(texts(memories, "young")) == 2
    assert memories.estimated_bytes <= 3 * 5000


def test_a_memory_of_an_id_that_is_there_takes_its_place_and_its_room():
    memories = SessionMemories(clock=Clock())
    first = memories.add(row("one"))
    size = memories.estimated_bytes
    again = msgspec.structs.replace(first, memory=msgspec.structs.replace(first.memory, content="two"))

    assert memories.add(again) == again
    assert (texts(memories), memories.estimated_bytes, memories.sessions) == (["two"], size, 1)


def test_what_is_there_has_another_revision_whenever_it_is_something_else():
    clock = Clock()
    memories = SessionMemories(clock=clock)
    revisions = [memories.revision("s1")]
    kept = memories.add(row("one"))
    revisions.append(memories.revision("s1"))
    memories.add(row("two", now=1.0))
    revisions.append(memories.revision("s1"))
    memories.remove(kept.id)
    revisions.append(memories.revision("s1"))

    assert len(set(revisions)) == 4
    assert memories.revision("s1") == revisions[-1]
