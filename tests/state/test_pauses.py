"""A pause holds at once and for ever; every doubt is decided for it."""

from __future__ import annotations

import pytest

from forged.errors import StoreError
from forged.state import State
from tests.state.conftest import a_governor
from tests.state.flaky import FlakyDatabase
from tests.support.clock import run

REPO, OTHER, HOME = "/w/repo", "/w/other", "/home/me"


def after(*changes: tuple[str | None, bool]):
    """A scene that makes these changes and tells what is paused."""

    async def scene(state: State) -> tuple[str, ...]:
        for top, paused in changes:
            await state.pauses.set(top, paused)
        return state.pauses.listed()

    return scene


def test_before_anything_is_known_everything_is_paused(directory):
    async def scene() -> tuple[str, tuple[str, ...]]:
        pauses = State(str(directory), a_governor()).pauses
        return pauses.reason((REPO,)), pauses.listed()

    reason, listed = run(scene())

    assert "has not been read yet" in reason
    assert listed == ()  # nothing to show to a person, who would take it for a pause
    assert not directory.exists()


def test_a_paused_repo_stops_those_who_see_it_and_nobody_else(kept):
    async def scene(state):
        await state.pauses.set(REPO, True)
        reason = state.pauses.reason
        return reason((REPO, HOME)), reason((OTHER, HOME)), reason(()), state.pauses.listed()

    assert kept(scene) == ("paused; `forgectl resume` ends it", "", "", (REPO,))


def test_paused_everywhere_stops_everybody(kept):
    async def scene(state):
        await state.pauses.set(None, True)
        return state.pauses.reason((REPO, HOME)), state.pauses.reason(()), state.pauses.listed()

    told = "paused everywhere; `forgectl resume --all` ends it"
    assert kept(scene) == (told, told, ("*",))


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
def test_pauses_and_resumptions_survive_a_restart(kept, changes, paused):
    assert kept(after(*changes)) == paused
    assert kept(after()) == paused


@pytest.mark.parametrize("top", [REPO, None])
def test_a_pause_that_cannot_be_written_holds_all_the_same_and_says_so(kept, top):
    async def scene(state):
        state._database.__class__ = FlakyDatabase
        state._database.failing = frozenset({"change"})
        with pytest.raises(StoreError, match=r"paused only until the daemon ends.*the disk is on fire"):
            await state.pauses.set(top, True)
        return state.pauses.reason((REPO,)) != ""

    assert kept(scene)
    assert kept(after()) == ()


@pytest.mark.parametrize("top", [REPO, None])
def test_a_resumption_that_cannot_be_written_does_not_happen(kept, top):
    async def scene(state):
        await state.pauses.set(top, True)
        state._database.__class__ = FlakyDatabase
        state._database.failing = frozenset({"change"})
        with pytest.raises(StoreError, match="still paused"):
            await state.pauses.set(top, False)
        return state.pauses.reason((REPO,)) != ""

    assert kept(scene)
    assert kept(after()) == ("*" if top is None else REPO,)


def test_a_pause_that_was_asked_for_before_the_file_was_open_holds_when_it_is(directory):
    async def scene() -> tuple[str, ...]:
        state = State(str(directory), a_governor())
        with pytest.raises(StoreError, match="is not open"):
            await state.pauses.set(REPO, True)
        await state._open()
        listed = state.pauses.listed()
        await state.close()
        return listed

    assert run(scene()) == (REPO,)
