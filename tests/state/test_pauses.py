"""A pause holds at once and for ever; every doubt is decided for it."""

from __future__ import annotations

import pytest

from forged.errors import StoreError
from forged.state import State
from tests.state.conftest import a_governor, opened
from tests.state.flaky import FlakyDatabase

REPO, OTHER, HOME = "/w/repo", "/w/other", "/home/me"


def test_before_anything_is_known_nothing_goes_on(directory):
    pauses = State(str(directory), a_governor()).pauses

    assert "has not been read yet" in pauses.reason((REPO,))
    assert pauses.listed() == ()  # nothing to show to a person, who would take it for a pause
    assert not directory.exists()


async def test_a_paused_repo_stops_those_who_see_it_and_everywhere_everybody(state):
    reported, reason = "paused everywhere; `forgectl resume --all` ends it", state.pauses.reason
    await state.pauses.set(REPO, True)
    stopped = reason((REPO, HOME)), reason((OTHER, HOME)), reason(())
    assert stopped == ("paused; `forgectl resume` ends it", "", "")
    assert state.pauses.listed() == (REPO,)

    await state.pauses.set(REPO, False)
    await state.pauses.set(None, True)
    assert (reason((REPO, HOME)), reason(()), state.pauses.listed()) == (reported, reported, ("*",))


@pytest.mark.parametrize(
    ("changes", "paused"),
    [
        ((), ()),
        (((REPO, True), (OTHER, True), (None, True)), ("*", OTHER, REPO)),
        (((REPO, True), (OTHER, True), (None, True), (None, False), (OTHER, False)), (REPO,)),
        # Who silenced one project long ago must not have it speak because of something else.
        (((REPO, True), (None, True), (None, False)), (REPO,)),
        (((None, True), (REPO, False)), ("*",)),
        (((REPO, False), (None, False)), ()),
    ],
)
async def test_pauses_and_resumptions_survive_a_restart(directory, changes, paused):
    async with opened(directory) as state:
        for top, is_paused in changes:
            await state.pauses.set(top, is_paused)
        assert state.pauses.listed() == paused

    async with opened(directory) as state:
        assert state.pauses.listed() == paused


@pytest.mark.parametrize("top", [REPO, None])
async def test_a_pause_that_cannot_be_written_holds_all_the_same_and_says_so(directory, top):
    async with opened(directory) as state:
        state._database.__class__ = FlakyDatabase
        state._database.failing = frozenset({"change"})
        with pytest.raises(StoreError, match=r"paused only until the daemon ends.*the disk is on fire"):
            await state.pauses.set(top, True)
        assert state.pauses.reason((REPO,))

    async with opened(directory) as state:
        assert state.pauses.listed() == ()


@pytest.mark.parametrize("top", [REPO, None])
async def test_a_resumption_that_cannot_be_written_does_not_happen(directory, top):
    async with opened(directory) as state:
        await state.pauses.set(top, True)
        state._database.__class__ = FlakyDatabase
        state._database.failing = frozenset({"change"})
        with pytest.raises(StoreError, match="nothing was resumed"):
            await state.pauses.set(top, False)
        assert state.pauses.reason((REPO,))

    async with opened(directory) as state:
        assert state.pauses.listed() == (top or "*",)
