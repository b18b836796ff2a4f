"""The list of texts that must not come back: it survives a restart, holds no text, and stays small."""

from __future__ import annotations

import asyncio

import pytest

from forged.errors import StoreError
from forged.state import Forgotten, digest
from forged.state.digests import digest_of_0_1
from tests.state.conftest import opened, raw
from tests.state.flaky import FlakyDatabase

TOP = "/repo"


def digests(*texts: str) -> frozenset[str]:
    return frozenset(digest(TOP, text) for text in texts)


def test_a_digest_is_short_hex_and_the_same_for_the_same_text_in_other_typography():
    assert len(digest(TOP, "Use tabs.")) == 32
    assert int(digest(TOP, "Use tabs."), 16)
    assert digest(TOP, "Use tabs.") == digest(TOP, "  use **tabs**")
    assert digest(TOP, "Use tabs, never spaces.") == digest(TOP, "use tabs — never spaces!")
    assert digest(TOP, "Use tabs.") != digest(TOP, "Never use tabs.")
    assert digest(TOP, "Use C++.") != digest(TOP, "Use C#.")
    assert digest(TOP, "Use tabs.") != digest("/other", "Use tabs.")


async def test_what_was_forgotten_is_known_at_once_and_after_a_restart(directory):
    async with opened(directory) as state:
        assert state.forgotten.digests() == frozenset()
        await state.forgotten.add(TOP, ["use tabs", "the walrus password"])
        await state.forgotten.add(TOP, ["a third"])
        assert state.forgotten.digests() == digests("use tabs", "the walrus password", "a third")
        assert b"walrus" not in raw(directory)  # no text is kept
        assert digest(TOP, "the walrus password").encode() in raw(directory)

    async with opened(directory) as state:
        assert state.forgotten.digests() == digests("use tabs", "the walrus password", "a third")


async def test_what_could_not_be_written_is_said_and_holds_all_the_same(state):
    state._database.__class__ = FlakyDatabase
    state._database.failing = frozenset({"change"})
    with pytest.raises(StoreError):
        await state.forgotten.add(TOP, ["one"])

    assert state.forgotten.digests() == digests("one")


async def test_adding_nothing_asks_no_disk(state):
    state._database.__class__ = FlakyDatabase
    await state.forgotten.add(TOP, [])

    assert "change" not in state._database.asked


async def test_the_newest_are_kept(directory):
    async with opened(directory) as state:
        forgotten = Forgotten(state._database, kept=10)
        for number in range(40):
            await forgotten.add(TOP, [f"text {number}"])
            newest = digests(*(f"text {n}" for n in range(max(0, number - 9), number + 1)))
            assert forgotten.digests() == newest
        await forgotten.add(TOP, ["text 30"])  # again: it is among the newest
        await forgotten.add(TOP, [f"new {number}" for number in range(9)])
        kept = digests("text 30", *(f"new {number}" for number in range(9)))
        assert forgotten.digests() == kept

    async with opened(directory) as state:
        assert state.forgotten.digests() == kept


async def test_several_at_once_lose_nothing_to_each_other(directory):
    texts = [f"text {number}" for number in range(50)]
    async with opened(directory) as state:
        await asyncio.gather(*(state.forgotten.add(TOP, [text]) for text in texts))

    async with opened(directory) as state:
        assert state.forgotten.digests() == digests(*texts)


async def test_what_was_forgotten_may_be_said_again_after_a_week(state):
    now = [1_800_000_000.0]
    forgotten = Forgotten(state._database, clock=lambda: now[0])
    await forgotten.add(TOP, ["one"])
    now[0] += 6 * 86_400
    await forgotten.add(TOP, ["two"])
    assert forgotten.digests() == digests("one", "two")
    now[0] += 2 * 86_400
    assert forgotten.digests() == digests("two")


async def test_when_a_text_was_forgotten_is_known_by_its_words_in_any_of_the_roots(directory):
    now = 1_800_000_000.25
    async with opened(directory) as state:
        forgotten = Forgotten(state._database, clock=lambda: now)
        await forgotten.add(TOP, ["Use tabs, always."])
        assert forgotten.since(("/other", TOP), "use tabs always") == now
        assert forgotten.since(("/other",), "use tabs always") is None
        assert forgotten.since((TOP,), "use tabs") is None

    async with opened(directory) as state:
        state.forgotten._clock = lambda: now
        assert state.forgotten.since((TOP,), "Use tabs always!") == now


async def test_what_an_older_forged_wrote_down_holds(directory):
    """It knew whole texts but for typography, and seconds."""
    async with opened(directory) as state:
        now = int(state.forgotten._clock())
        state.forgotten.restore([(digest_of_0_1(TOP, "Use tabs, always."), now - 10)])

        assert state.forgotten.since((TOP,), "use tabs, always") == now - 10
        assert len(state.forgotten.digests()) == 1


async def test_what_is_taken_back_may_be_said_again(state):
    await state.forgotten.add(TOP, ["one", "two"])
    await state.forgotten.withdraw(TOP, ["One!"])

    assert state.forgotten.digests() == digests("two")
