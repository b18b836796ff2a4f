"""Acknowledged events are in one place, whole, and forgotten ones in none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.conversation import Utterance
from forged.errors import StoreError
from forged.state import CutCount, DeadLetter, Event, State, cut
from forged.text.forgetting import words_of
from tests.files import syscalls
from tests.state.conftest import documents, event, opened, raw
from tests.support.clock import run


async def left(directory: Path) -> tuple[list[Event], list[Event]]:
    """What the next daemon finds: events that wait, and events that were given up."""
    async with opened(directory) as state:
        assert not state.problem
        assert not state.warnings
        return list(state.events.take_restored()), [item.event for item in await state.events.dead()]


# --- events that wait -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", ["events", "bytes"])
async def test_room_ends_with_the_number_of_events_and_with_their_bytes(state, cap):
    if cap == "events":
        state.events._max_events = 2
    else:
        await state.events.put(event(0))
        state.events._max_bytes = 3 * state.events.bytes
        await state.events.remove(event(0).id)
        state.events._max_bytes -= 1

    assert [await state.events.put(event(number)) for number in (1, 2, 3)] == [True, True, False]
    await state.events.put_all([event(4), event(5)])  # what was accepted is kept
    await state.events.remove(event(1).id)
    assert state.events.count == 3


async def test_event_that_could_not_be_read_back_is_refused_and_nothing_of_it_is_there(directory):
    async with opened(directory) as state:
        with pytest.raises(StoreError, match="not Unicode"):
            await state.events.put(event(text="half a pair \ud800"))
        with pytest.raises(StoreError, match="not Unicode"):
            await state.events.put_all([event(2), event(3, "\ud800")])
        assert state.events.count == 0

    assert await left(directory) == ([], [])


# --- what was decided -----------------------------------------------------------------------------------


async def decide(state: State, number: int = 1) -> None:
    state.events.set_decision(event(number).id, documents())
    await state.events.journal(event(number).id)


async def test_what_was_decided_is_the_same_after_a_restart_and_known_before_it_is_durable(directory):
    async with opened(directory) as state:
        await state.events.put(event())
        state.events.set_decision(event().id, documents())
        assert state.events.documents(event().id) == documents()
        assert not state.events.is_journalled(event().id)
        await state.events.journal(event().id)
        await decide(state, 2)  # an event of memory alone: what was decided waits without it

    async with opened(directory) as state:
        for number in (1, 2):
            assert state.events.documents(event(number).id) == documents()
            assert state.events.is_journalled(event(number).id)
        waiting = [(item.id, bool(item.window)) for item in state.events.take_restored()]
        assert waiting == [(event(1).id, True), (event(2).id, False)]


# --- events that were given up --------------------------------------------------------------------------


async def test_event_that_was_given_up_is_dead_with_all_that_is_known_and_waits_no_longer(directory):
    async with opened(directory) as state:
        await state.events.put(event())
        await decide(state)
        await state.events.give_up(event(), "the worker died 3 times on it")
        assert (state.events.count, state.events.dead_count) == (0, 1)
        (found,) = await state.events.dead()

    assert found == DeadLetter(
        event(), "the worker died 3 times on it", found.died_at, found.bytes, documents()
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", found.died_at)
    assert found.bytes > 500
    assert await left(directory) == ([], [event()])


@pytest.mark.parametrize("decided", [documents(), None], ids=["decided", "undecided"])
async def test_revived_event_waits_again_with_what_was_decided(directory, decided):
    async with opened(directory) as state:
        if decided:
            state.events.set_decision(event().id, decided)
        await state.events.give_up(event(), "no")
        assert [await state.events.revive(event().id) for _ in range(2)] == [event(), None]
        assert state.events.documents(event().id) == decided
        assert (state.events.dead_count, state.events.count) == (0, 1)

    assert await left(directory) == ([event()], [])


async def test_too_many_dead_cost_the_oldest_turns_and_nothing_else(state):
    size = 10_000
    state.events._max_dead_bytes = 4 * size
    kinds = ["turn", "compaction", "turn", "explicit", "turn", "session_end", "turn"]
    for number, kind in enumerate(kinds):
        await state.events.give_up(event(number, "x" * (size - 1000), kind=kind), "no")
    left_of_seven = [item.event.kind for item in await state.events.dead()]
    for number in range(7, 10):
        await state.events.give_up(event(number, "x" * size), "no")

    assert left_of_seven == ["compaction", "explicit", "session_end", "turn"]
    assert [item.event.is_durable for item in await state.events.dead()] == [True] * 6


async def test_sentences_leave_dead_events_for_what_was_said_and_for_what_was_decided(state):
    """An event of which nothing is left is gone."""
    alone = msgspec.structs.replace(event(1), window=(Utterance("user", "the harbour"),))
    await state.events.give_up(alone, "no")
    state.events.set_decision(event(2).id, documents("The harbour opens."))
    await state.events.give_up(event(2, "boats"), "no")
    await state.events.give_up(event(3, "trains"), "no")
    await state.events.give_up(event(4, "Boats float. The, harbour!  Trains run."), "no")

    assert await state.events.cut_dead([words_of("the harbour")]) == CutCount(4, 3)
    assert state.events.dead_count == 3
    dead = [(item.event, item.documents) for item in await state.events.dead()]
    assert dead == [
        (event(2, "boats"), ()),
        (event(3, "trains"), None),
        (event(4, "Boats float. Trains run."), None),
    ]
    assert await state.events.cut_dead([words_of("the harbour")]) == CutCount()


async def test_what_is_left_of_a_waiting_event_takes_its_place_on_disk_with_what_was_decided(directory):
    async with opened(directory) as state:
        await state.events.put(event(1, "Boats float. The harbour opens."))
        state.events.set_decision(event(1).id, documents("The harbour opens. Boats float."))
        await state.events.journal(event(1).id)
        found = event(1, "Boats float. The harbour opens.")
        left = cut(found, state.events.documents(found.id), [words_of("harbour opens")])
        await state.events.rewrite(left)
        await state.erase_traces()
        assert b"harbour" not in raw(directory)
        assert (left.sentences, left.is_empty) == (3, False)

    async with opened(directory) as state:
        assert state.events.take_restored() == (event(1, "Boats float. "),)
        contents = [each.memory.content for each in state.events.documents(event(1).id)]
        assert contents == ["Boats float."] * 2


async def test_what_is_cut_while_it_is_journalled_is_not_on_disk_afterwards(directory):
    """The journal is written anew as soon as it is."""
    async with opened(directory) as state:
        await state.events.put(event(1, "Boats float."))
        state.events.set_decision(event(1).id, documents("The harbour opens."))
        writing = asyncio.create_task(state.events.journal(event(1).id))
        await asyncio.sleep(0)
        left = cut(event(1, "Boats float."), state.events.documents(event(1).id), [words_of("harbour")])
        await state.events.rewrite(left)
        await writing
        await state.erase_traces()
        assert b"harbour" not in raw(directory)


# --- disks that are full, and kills ---------------------------------------------------------------------

FULL = """
import asyncio, errno, sys
from pathlib import Path
from forged.errors import StoreError
from tests.state.conftest import documents, event, opened
from forged.text.forgetting import words_of
from tests.files import syscalls

async def main():
    async with opened(Path(sys.argv[1])) as state:
        await state.events.put(event(1))
        state.events.set_decision(event(1).id, documents())
        syscalls.NUMBERS["fdatasync"] = 75
        syscalls.NUMBERS["pwrite64"] = 18
        await state._database._run_in_thread(lambda: syscalls.fail({call}=errno.{error}))
        events = state.events
        for attempt in (events.put(event(2)), events.journal(event(1).id), events.give_up(event(1), "no")):
            try:
                await attempt
            except StoreError as error:
                assert "{said}" in str(error), error
            else:
                raise AssertionError("done")
        print(events.count, events.dead_count, bool(events.trouble))

asyncio.run(main())
"""


@syscalls.needs_seccomp
@pytest.mark.parametrize(
    ("call", "error", "said"),
    [("fdatasync", "EIO", "input/output error"), ("pwrite64", "ENOSPC", "free some and try again")],
)
def test_disk_that_takes_nothing_is_explained_and_nothing_counted(directory, call, error, said):
    child = syscalls.run(FULL.format(call=call, error=error, said=said), str(directory))

    assert (child.stdout, child.stderr) == ("1 0 True\n", "")
    assert run(left(directory)) == ([event(1)], [])


A, B, MANY = event(1), event(2), [event(number, "x" * 5000) for number in (2, 3, 4)]

# What is done, step by step; the last one is cut short.
DECIDED = [("put", B), ("set_decision", B.id, documents()), ("journal", B.id)]
DEAD = [*DECIDED, ("give_up", B, "no")]


async def do(state: State, steps: list[tuple]) -> None:
    for name, *arguments in steps:
        done = getattr(state.events, name)(*arguments)
        if done is not None:
            await done


Left = tuple[list[Event], list[Event], int]


async def left_with_documents(directory: Path) -> Left:
    """What the next daemon finds, and how many of B's documents wait with it; the dead have all of them."""
    async with opened(directory) as state:
        dead = await state.events.dead()
        assert all(item.documents == documents() for item in dead)
        decided = state.events.documents(B.id) or ()
        return list(state.events.take_restored()), [item.event for item in dead], len(decided)


WAITS, IS_DECIDED, IS_DEAD, IS_GONE = ([A, B], [], 0), ([A, B], [], 2), ([A], [B], 0), ([A], [], 0)
STEPS = {
    "put": ([("put", B)], IS_GONE, WAITS),
    "put many": ([("put_all", MANY)], IS_GONE, ([A, *MANY], [], 0)),
    "decide": (DECIDED, WAITS, IS_DECIDED),
    "remove": ([*DECIDED, ("remove", B.id)], IS_DECIDED, IS_GONE),
    "give up": (DEAD, IS_DECIDED, IS_DEAD),
    "revive": ([*DEAD, ("revive", B.id)], IS_DEAD, IS_DECIDED),
    "drop": ([*DEAD, ("drop", B.id)], IS_DEAD, IS_GONE),
}


@pytest.mark.parametrize(("steps", "old", "new"), STEPS.values(), ids=STEPS.keys())
async def test_whatever_is_cut_short_has_happened_or_has_not(tmp_path, steps, old, new):
    """The journal of the file is written from start to end: each beginning of it is what a kill left."""
    journal = "state.db-wal"
    async with opened(tmp_path / "state") as state:
        await state.events.put(A)
        await do(state, steps[:-1])
        await state.erase_traces()
        start = (tmp_path / "state" / journal).stat().st_size
        await do(state, steps[-1:])
        shutil.copytree(tmp_path / "state", tmp_path / "killed")

    end = (tmp_path / "killed" / journal).stat().st_size
    found = []
    for size in [*range(start, end, 997), end]:
        place = tmp_path / f"cut-{size}"
        shutil.copytree(tmp_path / "killed", place)
        os.truncate(place / journal, size)
        found.append(await left_with_documents(place))
    assert all(place in (old, new) for place in found)
    assert (found[0], found[-1]) == (old, new)


# --- what is forgotten leaves no byte -------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_what_was_removed_leaves_no_byte_anywhere(tmp_path_factory, seed):
    directory = tmp_path_factory.mktemp("traces") / "state"
    chance = random.Random(seed)
    live: list[Event] = []
    gone: list[Event] = []

    async def scene() -> None:
        async with opened(directory) as state:
            for number in range(60):
                if live and chance.random() < 0.5:
                    gone.append(live.pop(chance.randrange(len(live))))
                    await state.events.remove(gone[-1].id)
                else:
                    mark = f"SECRET{number:04} " * chance.choice([1, 3, 20, 60, 300])
                    live.append(event(chance.randrange(10**9), mark))
                    await state.events.put(live[-1])
            await state.erase_traces()
            held = raw(directory)
            for item in gone:
                assert item.window[0].text[:11].encode() not in held
            for item in live:
                assert item.window[0].text[:11].encode() in held

    run(scene())


async def test_what_was_moved_to_another_page_before_it_was_removed_leaves_no_byte(tmp_path):
    """A page that is split may keep a copy of what moved: with rows of this size, in most of these seeds."""
    for seed in range(4):
        chance = random.Random(seed)
        texts = [f"SECRET{number:04} {'x' * chance.randint(100, 700)}" for number in range(400)]
        events = [event(chance.randrange(10**9), text) for text in texts]
        removed = chance.sample(events, 240)
        async with opened(tmp_path / str(seed)) as state:
            await state.events.put_all(events)
            for item in removed:
                await state.events.remove(item.id)
            await state.erase_traces()
            held = raw(tmp_path / str(seed))
        assert not [item for item in removed if item.window[0].text[:11].encode() in held]


async def test_the_journal_of_the_file_holds_what_was_removed_until_traces_are_erased(state, directory):
    """Or the test above would prove nothing."""
    await state.events.put(event(text="the walrus password"))
    await state.events.remove(event().id)
    assert b"walrus" in raw(directory)
    await state.erase_traces()
    assert b"walrus" not in raw(directory)


async def test_the_file_is_the_daemons_alone(state, directory):
    await state.events.put(event())
    with (
        contextlib.closing(sqlite3.connect(directory / "state.db", timeout=0)) as connection,
        pytest.raises(sqlite3.OperationalError) as caught,
    ):
        connection.execute("SELECT * FROM events").fetchall()
    assert caught.value.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

    files = list(directory.iterdir())
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert {"state.db", "state.db-wal"} <= {path.name for path in files}
    assert directory.stat().st_mode & 0o777 == 0o700


def test_a_forgotten_sentence_is_cut_from_the_question_before_an_event():
    asked = "The harbour opens at nine. How long do we keep the rows?"
    event = Event(asked=asked, window=(Utterance("user", "Ninety days."),))

    found = cut(event, None, [words_of("the harbour opens at nine")])

    assert (found.event.asked.strip(), found.sentences) == ("How long do we keep the rows?", 1)
    assert found.event.window == event.window
