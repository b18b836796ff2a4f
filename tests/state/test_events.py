"""What was acknowledged is in one place, whole, and what is forgotten is in none."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.errors import StoreError
from forged.state import DeadEvent, Event, State
from forged.state.event_values import is_event_id, new_event_id
from tests.files import syscalls
from tests.state.conftest import documents, event, opened, raw
from tests.support.clock import run


async def left(directory: Path) -> tuple[list[Event], list[Event]]:
    """What the next daemon finds: events that wait, and events that were given up."""
    async with opened(directory) as state:
        assert not state.problem
        assert not state.warnings
        return list(state.events.left()), [item.event for item in await state.events.dead()]


# --- events that wait -----------------------------------------------------------------------------------


def test_event_is_the_same_after_a_restart(kept, directory):
    async def scene(state):
        assert await state.events.put(event())

    kept(scene)

    assert run(left(directory)) == ([event()], [])


def test_events_come_back_once_and_in_the_order_of_their_acceptance(kept):
    async def store(state):
        for number in (2, 11, 1):
            await state.events.put(event(number))

    async def twice(state):
        return [item.id for item in state.events.left()], state.events.left()

    kept(store)

    assert kept(twice) == ([event(n).id for n in (1, 2, 11)], ())


def test_ids_are_in_the_order_of_their_making_and_recognised():
    ids = [new_event_id() for _ in range(100)]

    assert [each[:23] for each in sorted(ids)] == [each[:23] for each in ids]
    assert all(map(is_event_id, ids))
    odd = ("", "ev_", "../ev_1", "ev_1/../../x", "ev_1\0", "mem_1", "ev_" + "1" * 65, "ev_1\n")
    assert not any(map(is_event_id, odd))


def test_count_and_bytes_are_those_of_the_events(kept):
    async def store(state):
        await state.events.put(event(1))
        await state.events.put_all([event(2), event(3)])
        state.events.decided(event(1).id, documents())
        await state.events.journal(event(1).id)
        await state.events.remove(event(3).id)
        return state.events.count, state.events.bytes

    async def again(state):
        return state.events.count, state.events.bytes

    count, size = kept(store)

    assert (count, size > 400) == (2, True)
    assert kept(again) == (count, size)


@pytest.mark.parametrize("cap", ["events", "bytes"])
def test_room_ends_with_the_number_of_events_and_with_their_bytes(kept, cap):
    async def scene(state):
        if cap == "events":
            state.events._max_events = 2
        else:
            await state.events.put(event(0))
            state.events._max_bytes = 3 * state.events.bytes
            await state.events.remove(event(0).id)
            state.events._max_bytes -= 1
        words = [await state.events.put(event(number)) for number in (1, 2, 3)]
        await state.events.put_all([event(4), event(5)])  # what was accepted is kept
        await state.events.remove(event(1).id)
        return words, state.events.count

    assert kept(scene) == ([True, True, False], 3)


def test_event_that_could_not_be_read_back_is_refused_and_nothing_of_it_is_there(kept, directory):
    async def scene(state):
        with pytest.raises(StoreError, match="not Unicode"):
            await state.events.put(event(text="half a pair \ud800"))
        with pytest.raises(StoreError, match="not Unicode"):
            await state.events.put_all([event(2), event(3, "\ud800")])
        return state.events.count

    assert kept(scene) == 0
    assert run(left(directory)) == ([], [])


def test_removed_event_leaves_nothing(kept, directory):
    async def scene(state):
        await state.events.put(event())
        state.events.decided(event().id, documents())
        await state.events.journal(event().id)
        await state.events.remove(event().id)
        await state.events.remove(event().id)
        return state.events.count, state.events.documents(event().id), state.events.holds(event().id)

    assert kept(scene) == (0, None, False)
    assert run(left(directory)) == ([], [])


# --- what was decided -----------------------------------------------------------------------------------


def test_what_was_decided_is_the_same_after_a_restart_and_known_before_it_is_durable(kept):
    async def scene(state):
        await state.events.put(event())
        state.events.decided(event().id, documents())
        known = state.events.documents(event().id), state.events.is_journalled(event().id)
        await state.events.journal(event().id)
        return known

    async def again(state):
        return state.events.documents(event().id), state.events.is_journalled(event().id)

    assert kept(scene) == (documents(), False)
    assert kept(again) == (documents(), True)


def test_what_was_decided_about_an_event_of_memory_alone_waits_without_it(kept):
    async def scene(state):
        await state.events.put(event(1))
        for number in (1, 2):
            state.events.decided(event(number).id, documents())
            await state.events.journal(event(number).id)

    async def again(state):
        return [(item.id, bool(item.window)) for item in state.events.left()]

    kept(scene)

    assert kept(again) == [(event(1).id, True), (event(2).id, False)]


# --- events that were given up --------------------------------------------------------------------------


def test_event_that_was_given_up_is_dead_with_all_that_is_known_and_waits_no_longer(kept, directory):
    async def scene(state):
        await state.events.put(event())
        state.events.decided(event().id, documents())
        await state.events.journal(event().id)
        await state.events.give_up(event(), "the worker died 3 times over it")
        return state.events.count, state.events.dead_count, await state.events.dead()

    count, dead, (found,) = kept(scene)

    assert (count, dead) == (0, 1)
    assert found == DeadEvent(
        event(), "the worker died 3 times over it", found.died_at, found.bytes, documents()
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", found.died_at)
    assert found.bytes > 500
    assert run(left(directory)) == ([], [event()])


def test_event_of_memory_alone_can_be_given_up_and_the_dead_are_listed_oldest_first(kept):
    async def scene(state):
        for number in (3, 1, 2):
            await state.events.give_up(event(number, kind="turn"), "no")
        return [item.event for item in await state.events.dead()]

    assert kept(scene) == [event(number, kind="turn") for number in (1, 2, 3)]


@pytest.mark.parametrize("decided", [True, False])
def test_revived_event_waits_again_with_what_was_decided(kept, directory, decided):
    async def scene(state):
        if decided:
            state.events.decided(event().id, documents())
        await state.events.give_up(event(), "no")
        first, second = [await state.events.revive(event().id) for _ in range(2)]
        return first, second, state.events.documents(event().id), state.events.dead_count, state.events.count

    assert kept(scene) == (event(), None, documents() if decided else None, 0, 1)
    assert run(left(directory)) == ([event()], [])


def test_event_of_which_only_the_id_is_known_can_be_dropped_and_not_revived(kept):
    async def scene(state):
        await state.events.give_up(Event(id=event().id, received_at=""), "unreadable")
        return (
            await state.events.revive(event().id),
            await state.events.drop("ev_other"),
            await state.events.drop(event().id),
            await state.events.drop(event().id),
            state.events.dead_count,
        )

    assert kept(scene) == (None, False, True, False, 0)


def test_too_many_dead_cost_the_oldest_turns_and_nothing_else(kept):
    size = 10_000

    async def scene(state):
        state.events._max_dead_bytes = 4 * size
        kinds = ["turn", "compaction", "turn", "explicit", "turn", "session_end", "turn"]
        for number, kind in enumerate(kinds):
            await state.events.give_up(event(number, "x" * (size - 1000), kind=kind), "no")
        first = [item.event.kind for item in await state.events.dead()]
        for number in range(7, 10):
            await state.events.give_up(event(number, "x" * size), "no")
        return first, [item.event.is_durable for item in await state.events.dead()]

    assert kept(scene) == (["compaction", "explicit", "session_end", "turn"], [True] * 6)


def test_dead_events_are_dropped_for_what_was_said_and_for_what_was_decided(kept):
    async def scene(state):
        await state.events.give_up(event(1, "the harbour"), "no")
        state.events.decided(event(2).id, documents("The harbour opens."))
        await state.events.give_up(event(2, "boats"), "no")
        await state.events.give_up(event(3, "trains"), "no")
        dropped = await state.events.drop_unwanted(lambda texts: any("harbour" in text for text in texts))
        return dropped, state.events.dead_count, [item.event for item in await state.events.dead()]

    assert kept(scene) == (2, 1, [event(3, "trains")])


# --- disks that are full, and kills ---------------------------------------------------------------------

FULL = """
import asyncio, errno, sys
from pathlib import Path
from forged.errors import StoreError
from tests.state.conftest import documents, event, opened
from tests.files import syscalls

async def main():
    async with opened(Path(sys.argv[1])) as state:
        await state.events.put(event(1))
        state.events.decided(event(1).id, documents())
        syscalls.NUMBERS["fdatasync"] = 75
        syscalls.NUMBERS["pwrite64"] = 18
        await state._database._in_thread(lambda: syscalls.fail({call}=errno.{error}))
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


A, B = event(1), event(2)


async def put_b(state: State) -> None:
    await state.events.put(B)


async def put_many(state: State) -> None:
    await state.events.put_all([event(number, "x" * 5000) for number in (2, 3, 4)])


async def decide_b(state: State) -> None:
    state.events.decided(B.id, documents())
    await state.events.journal(B.id)


async def store_b(state: State) -> None:
    await put_b(state)
    await decide_b(state)


async def remove_b(state: State) -> None:
    await state.events.remove(B.id)


async def give_up_b(state: State) -> None:
    await state.events.give_up(B, "no")


async def dead_b(state: State) -> None:
    await store_b(state)
    await give_up_b(state)


async def revive_b(state: State) -> None:
    await state.events.revive(B.id)


async def drop_b(state: State) -> None:
    await state.events.drop(B.id)


async def nothing(_: State) -> None:
    pass


Left = tuple[list[Event], list[Event], int]


async def left_with_documents(directory: Path) -> Left:
    """What the next daemon finds, and how many of B's documents wait with it; the dead have all of them."""
    async with opened(directory) as state:
        dead = await state.events.dead()
        assert all(item.documents == documents() for item in dead)
        decided = state.events.documents(B.id) or ()
        return list(state.events.left()), [item.event for item in dead], len(decided)


WAITS, IS_DECIDED, IS_DEAD, IS_GONE = ([A, B], [], 0), ([A, B], [], 2), ([A], [B], 0), ([A], [], 0)
STEPS = [
    (nothing, put_b, IS_GONE, WAITS),
    (nothing, put_many, IS_GONE, ([A, *(event(number, "x" * 5000) for number in (2, 3, 4))], [], 0)),
    (put_b, decide_b, WAITS, IS_DECIDED),
    (store_b, remove_b, IS_DECIDED, IS_GONE),
    (store_b, give_up_b, IS_DECIDED, IS_DEAD),
    (dead_b, revive_b, IS_DEAD, IS_DECIDED),
    (dead_b, drop_b, IS_DEAD, IS_GONE),
]


@pytest.mark.parametrize(("before", "act", "old", "new"), STEPS, ids=[step[1].__name__ for step in STEPS])
def test_whatever_is_cut_short_has_happened_or_has_not(tmp_path, before, act, old, new):
    """The journal of the file is written from start to end: each beginning of it is what a kill left."""

    async def written() -> tuple[Path, int, int]:
        async with opened(tmp_path / "state") as state:
            await state.events.put(A)
            await before(state)
            await state.erase_traces()
            size = (tmp_path / "state/state.db-wal").stat().st_size
            await act(state)
            shutil.copytree(tmp_path / "state", tmp_path / "killed")
        return tmp_path / "killed", size, (tmp_path / "killed/state.db-wal").stat().st_size

    killed, start, end = run(written())
    found = []
    for size in [*range(start, end, 997), end]:
        place = tmp_path / f"cut-{size}"
        shutil.copytree(killed, place)
        with (place / "state.db-wal").open("r+b") as journal:
            journal.truncate(size)
        found.append(run(left_with_documents(place)))
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


def test_what_was_moved_to_another_page_before_it_was_removed_leaves_no_byte(tmp_path):
    """A page that is split may keep a copy of what moved: with rows of this size, in most of these seeds."""

    async def held_of_removed(seed: int) -> list[str]:
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
        marks = [item.window[0].text[:11] for item in removed]
        return [mark for mark in marks if mark.encode() in held]

    assert not any(run(held_of_removed(seed)) for seed in range(4))


def test_the_journal_of_the_file_holds_what_was_removed_until_traces_are_erased(kept, directory):
    """Or the test above would prove nothing."""

    async def scene(state):
        await state.events.put(event(text="the walrus password"))
        await state.events.remove(event().id)
        before = b"walrus" in raw(directory)
        await state.erase_traces()
        return before, b"walrus" in raw(directory)

    assert kept(scene) == (True, False)


def test_the_file_is_the_daemons_alone(kept, directory):
    async def scene(state):
        await state.events.put(event())
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            sqlite3.connect(directory / "state.db", timeout=0).execute("SELECT * FROM events").fetchall()
        return [(path.name, path.stat().st_mode & 0o777) for path in sorted(directory.iterdir())]

    modes = kept(scene)

    assert {mode for _, mode in modes} == {0o600}
    assert {"state.db", "state.db-wal"} <= {name for name, _ in modes}
    assert directory.stat().st_mode & 0o777 == 0o700
