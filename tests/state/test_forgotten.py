"""The list of texts that must not come back: it survives a restart, holds no text, and stays small."""

from __future__ import annotations

import asyncio

import pytest

from forged.errors import StoreError
from forged.state import Forgotten, digest
from tests.state.conftest import raw
from tests.state.flaky import FlakyDatabase

TOP = "/repo"


def digests(*texts: str) -> frozenset[str]:
    return frozenset(digest(TOP, text) for text in texts)


def test_a_digest_is_short_hex_and_the_same_for_the_same_text_in_other_typography():
    assert len(digest(TOP, "Use tabs.")) == 32
    assert int(digest(TOP, "Use tabs."), 16)
    assert digest(TOP, "Use tabs.") == digest(TOP, "  use **tabs**")
    assert digest(TOP, "Use tabs.") != digest(TOP, "Never use tabs.")
    assert digest(TOP, "Use tabs.") != digest("/other", "Use tabs.")


def test_nothing_is_forgotten_before_anything_was(kept):
    async def scene(state):
        return state.forgotten.digests()

    assert kept(scene) == frozenset()


def test_what_was_forgotten_is_known_at_once_and_after_a_restart(kept):
    async def add(state):
        await state.forgotten.add(TOP, ["use tabs", "deploy on Fridays"])
        await state.forgotten.add(TOP, ["a third"])
        return state.forgotten.digests()

    async def again(state):
        return state.forgotten.digests()

    assert kept(add) == kept(again) == digests("use tabs", "deploy on Fridays", "a third")


def test_no_text_is_kept(kept, directory):
    async def scene(state):
        await state.forgotten.add(TOP, ["the walrus password"])
        held = raw(directory)
        return b"walrus" in held, digest(TOP, "the walrus password").encode() in held

    assert kept(scene) == (False, True)


def test_what_could_not_be_written_is_said_and_holds_all_the_same(kept):
    async def scene(state):
        state._database.__class__ = FlakyDatabase
        state._database.failing = frozenset({"change"})
        with pytest.raises(StoreError):
            await state.forgotten.add(TOP, ["one"])
        return state.forgotten.digests()

    assert kept(scene) == digests("one")


def test_adding_nothing_asks_no_disk(kept):
    async def scene(state):
        state._database.__class__ = FlakyDatabase
        await state.forgotten.add(TOP, [])
        return "change" in state._database.asked

    assert kept(scene) is False


def test_the_newest_are_kept(kept):
    async def scene(state):
        forgotten = Forgotten(state._database, kept=10)
        for number in range(40):
            await forgotten.add(TOP, [f"text {number}"])
            newest = digests(*(f"text {n}" for n in range(max(0, number - 9), number + 1)))
            assert forgotten.digests() == newest
        await forgotten.add(TOP, ["text 30"])  # again: it is among the newest
        await forgotten.add(TOP, [f"new {number}" for number in range(9)])
        return forgotten.digests()

    async def again(state):
        return state.forgotten.digests()

    found = kept(scene)

    assert found == digests("text 30", *(f"new {number}" for number in range(9)))
    assert kept(again) == found


def test_several_at_once_lose_nothing_to_each_other(kept):
    async def scene(state):
        await asyncio.gather(*(state.forgotten.add(TOP, [f"text {number}"]) for number in range(50)))

    async def again(state):
        return state.forgotten.digests()

    kept(scene)

    assert kept(again) == digests(*(f"text {number}" for number in range(50)))


def test_what_was_forgotten_may_be_said_again_after_a_week(kept):
    now = [1_800_000_000.0]

    async def scene(state):
        forgotten = Forgotten(state._database, clock=lambda: now[0])
        await forgotten.add(TOP, ["one"])
        now[0] += 6 * 86_400
        await forgotten.add(TOP, ["two"])
        both = forgotten.digests()
        now[0] += 2 * 86_400
        return both, forgotten.digests()

    assert kept(scene) == (digests("one", "two"), digests("two"))
