"""Proposals that wait for review: persistent, bounded in number and age, forgettable."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from forged.errors import StoreError
from forged.memory import utc
from forged.state import DecidedMemory
from forged.state.database import Database
from forged.state.to_review import HELD_S, ToReview
from forged.text.forgetting import words_of
from tests.state.conftest import ROOTS, documents, opened, raw
from tests.state.flaky import FlakyDatabase

NOW = 1_800_000_000.0


def proposal(
    number: int, content: str = "", *, at: float = NOW, pasted: str = "", root=ROOTS[0]
) -> DecidedMemory:
    (one, _) = documents(content or f"order {number}")
    memory = msgspec.structs.replace(one.memory, id=f"mem_{number}", created_at=utc(at))
    return DecidedMemory(root, memory, waits="it stands beside pasted text", pasted=pasted)


def ids(waiting: ToReview, *roots) -> list[str]:
    return [each.memory.id for each in waiting.of(roots or None)]


async def test_what_waits_is_there_after_a_restart_and_gone_once_it_was_decided(directory):
    now = time.time()
    first = proposal(1, "use walrus", at=now, pasted="> use walrus")
    second = proposal(2, at=now + 1, root=ROOTS[1])
    async with opened(directory) as state:
        assert await state.to_review.add([first, second]) == ("mem_1", "mem_2")
    async with opened(directory) as state:
        assert state.to_review.of() == (first, second)
        assert ids(state.to_review, ROOTS[1]) == ["mem_2"]
        await state.to_review.remove(["mem_1", "mem_unknown"])
    async with opened(directory) as state:
        assert ids(state.to_review) == ["mem_2"]


@pytest.fixture
def waiting(tmp_path):
    async def nothing(*changes, durable=True):
        for change in changes:
            change.apply()

    database = Database(str(tmp_path / "state.db"))
    database.commit = nothing
    return lambda **given: ToReview(database, **given)


async def test_a_proposal_expires_after_a_month(waiting):
    clock = [NOW]
    kept = waiting(clock=lambda: clock[0])
    await kept.add([proposal(1), proposal(2, at=NOW + 60)])
    clock[0] = NOW + HELD_S + 30
    assert ids(kept) == ["mem_2"]
    await kept.add([proposal(3, at=clock[0])])
    assert sorted(kept) == ["mem_2", "mem_3"]  # from the file as well


def learned(number: int, *, at: float = NOW, **fields: object) -> DecidedMemory:
    """One of a past session, in which it was said long ago."""
    one = proposal(number, at=NOW - 90 * 24 * 3600.0, **fields)
    return msgspec.structs.replace(one, learned_at=at)


async def test_what_was_learned_neither_pushes_out_nor_is_pushed_out(waiting):
    kept = waiting(most=2, clock=lambda: NOW)
    await kept.add([learned(n) for n in range(5)])
    await kept.add([proposal(n, at=NOW - 10 + n) for n in range(5, 8)])
    await kept.add([learned(n) for n in range(8, 10)])

    assert sorted(ids(kept)) == [f"mem_{n}" for n in (0, 1, 2, 3, 4, 6, 7, 8, 9)]
    assert kept.learned == 7


async def test_of_two_that_wait_the_one_that_replaces_takes_the_place_of_the_other(directory):
    """What that was to replace, it replaces; and so a third one, also of the same call."""

    def after(number: int, other: str) -> DecidedMemory:
        one = learned(number, at=time.time())
        memory = msgspec.structs.replace(one.memory, supersedes=other, version=7)
        return msgspec.structs.replace(one, memory=memory)

    async with opened(directory) as state:
        await state.to_review.add([after(1, "mem_file")])
        assert await state.to_review.add([after(2, "mem_1"), after(3, "mem_2")]) == ("mem_2", "mem_3")
    async with opened(directory) as state:
        (left,) = state.to_review.of()
        assert (left.memory.id, left.memory.supersedes, left.memory.version) == ("mem_3", "mem_file", 7)


async def test_forgotten_text_is_removed_from_proposals_and_their_pasted_text(directory):
    unwanted = [words_of("the walrus password is sealion")]
    async with opened(directory) as state:
        at = time.time()
        await state.to_review.add(
            [
                proposal(1, "Use make. The walrus password is sealion.", at=at),
                proposal(2, "Use tofu.", at=at, pasted="ops: use tofu!\nThe walrus password is sealion."),
                proposal(3, "Use tox.", at=at),
            ]
        )
        done = await state.to_review.cut(unwanted)
        assert (done.sentences, done.events) == (2, 2)
        assert [(each.memory.content, each.pasted) for each in state.to_review.of()] == [
            ("Use tofu.", "ops: use tofu!\n"),
            ("Use tox.", ""),
        ]
        await state.erase_traces()
    assert b"sealion" not in raw(directory)
    async with opened(directory) as state:
        assert ids(state.to_review) == ["mem_2", "mem_3"]


async def test_what_is_done_while_another_is_written_is_not_undone_by_it(tmp_path):
    """Two sessions propose something while a person decides."""
    gates: list[asyncio.Event] = []

    async def slow(*changes, durable=True):
        gates.append(asyncio.Event())
        await gates[-1].wait()
        for change in changes:
            change.apply()

    kept = ToReview(database := Database(str(tmp_path / "state.db")), clock=lambda: NOW)
    kept.hold({f"mem_{number}": proposal(number) for number in (1, 2)})
    database.commit = slow
    same = [proposal(number, "the same words") for number in (4, 5)]
    async with asyncio.TaskGroup() as group:
        group.create_task(kept.remove(["mem_1"]))
        for each in (proposal(3), *same):
            group.create_task(kept.add([each]))
        for _ in range(20):
            await asyncio.sleep(0)
            for gate in reversed(gates):
                gate.set()

    assert ids(kept) == ["mem_2", "mem_3", "mem_4"]


async def test_what_cannot_be_written_does_not_wait(state):
    state._database.__class__ = FlakyDatabase
    state._database.failing = frozenset({"to_review"})
    with pytest.raises(StoreError):
        await state.to_review.add([proposal(1, at=time.time())])
    assert state.to_review.of() == ()
