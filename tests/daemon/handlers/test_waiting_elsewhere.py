"""Stored work waits while another folder, or none, is at its path.

Each kind is stored while one folder is there and looked at while another is, in this process: what a person
asks for is refused with a sentence, the rest waits and is named. Once the first folder is back it is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from forged.conversation import Utterance
from forged.errors import InvalidRequest
from forged.files import Root, agent_root
from forged.memories.restore import resume
from forged.memory import Memory, Scope, new_id, utc_now
from forged.state import Change, DecidedMemory, Event, Intent
from forged.trust import stored_identity
from forged_client import protocol as wire
from tests.capture.pipeline import accept
from tests.daemon.parts import Parts, assembled
from tests.data.memories import memory, put
from tests.memories.test_restoring import files
from tests.support.clock import until

TEXT = "The broker is called lou."
ELSEWHERE = "another folder is at this path now"
ABSENT = "there is no folder at this path now"


def another(top: Path) -> None:
    """As in another container."""
    top.rename(top.with_name("aside"))
    (top / ".git").mkdir(parents=True)


def absent(top: Path) -> None:
    """As where the container's mount is not there."""
    top.rename(top.with_name("aside"))


def cloned_again(top: Path) -> None:
    """Another repository in the same folder."""
    (top / ".git").rename(top.with_name("aside"))
    (top / ".git").mkdir()


def back(top: Path) -> None:
    aside = top.with_name("aside")
    if (aside / ".git").is_dir():
        if top.exists():
            shutil.rmtree(top)
        aside.rename(top)
    else:
        (top / ".git").rmdir()
        aside.rename(top / ".git")


MOVES = pytest.mark.parametrize(
    ("swap", "why"), [(another, ELSEWHERE), (absent, ABSENT), (cloned_again, ELSEWHERE)]
)


def document(root: Root, content: str = TEXT, **fields: object) -> DecidedMemory:
    now = utc_now()
    found = Memory(new_id(), content, now, now, 1, root.scope, "project-conventions", "s7", "cadence")
    return DecidedMemory(root, found, identity=stored_identity(root), **fields)  # type: ignore[arg-type]


def event(root: Root) -> Event:
    said = (Utterance("user", "Remember: " + TEXT),)
    return Event(kind="compaction", roots=(root,), window=said, identities=(stored_identity(root),))


def repository(repo: Path) -> Root:
    return Root(str(repo), Scope.REPO)


async def elsewhere_of(parts: Parts) -> list[tuple[str, int, int, int]]:
    report = (await parts.ask(wire.Status())).capture
    return [(each.reason, each.events, each.proposals, each.steps) for each in report.elsewhere]


# --- each kind ----------------------------------------------------------------------------------------


async def decided(parts: Parts, repo: Path) -> None:
    """An event that is decided upon, of which nothing is written yet."""
    waiting = event(repository(repo))
    await parts.state.events.put(waiting)
    parts.state.events.set_decision(waiting.id, (document(repository(repo)),))
    await parts.state.events.journal(waiting.id)


@MOVES
async def test_a_folder_that_is_back_is_seen_by_a_running_daemon(home, repo, swap, why):
    async with assembled(home) as parts:
        await decided(parts, repo)
    swap(repo)
    async with assembled(home) as parts, at_work(parts):
        await until(lambda: bool(parts.capture._queue.elsewhere()))
        back(repo)
        await parts.capture.recheck_folders()
        await until(lambda: len(files(repo)) == 1 and not parts.capture.waiting())


@MOVES
async def test_a_dead_event_is_not_tried_again_for_another_folder(home, repo, swap, why):
    async with assembled(home) as parts:
        given_up = event(repository(repo))
        await parts.state.events.give_up(given_up, "it was given up")
        swap(repo)
        refused = await parts.ask(wire.Dead(action="retry", ids=(given_up.id,)))
        assert why in refused.reason
        assert refused.events == ()
        back(repo)
        again = await parts.ask(wire.Dead(action="retry", ids=(given_up.id,)))
    assert [each.id for each in again.events] == [given_up.id]


@MOVES
async def test_a_proposal_is_neither_shown_nor_kept_for_another_folder(home, repo, swap, why):
    waits = document(repository(repo), waits="it stands beside pasted text")
    async with assembled(home) as parts:
        await parts.state.to_review.add([waits])
        swap(repo)
        if swap is not absent:
            shown = await parts.ask(wire.Review(workspace=str(repo)))
            assert shown.waiting == ()
            with pytest.raises(InvalidRequest, match=why):
                await parts.ask(wire.Review(workspace=str(repo), keep=(waits.memory.id,)))
            assert not files(repo)
        assert await elsewhere_of(parts) == [(why, 0, 1, 0)]
        back(repo)
        parts.resolver._places.drop(str(repo))
        kept = await parts.ask(wire.Review(workspace=str(repo), keep=(waits.memory.id,)))
    assert kept.kept == (waits.memory.id,)
    assert len(files(repo)) == 1


@pytest.mark.parametrize("swap", [another, cloned_again])
async def test_the_trash_of_another_folder_does_not_come_back_into_this_one(home, repo, swap):
    put(repo, memory("mem_1", TEXT))
    async with assembled(home) as parts:
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        swap(repo)
        listed = await parts.ask(wire.Restore(workspace=str(repo)))
        assert listed.restorable == ()
        with pytest.raises(InvalidRequest, match=ELSEWHERE):
            await parts.ask(wire.Restore(workspace=str(repo), memory_id="mem_1"))
        assert not files(repo)
        back(repo)
        await parts.ask(wire.Restore(workspace=str(repo), memory_id="mem_1"))
    assert len(files(repo)) == 1


def removal(repo: Path, home: Path) -> Intent:
    root = repository(repo)
    return Intent(
        "k1", "remove", root.top, root.scope, ("mem_1",), why="forget", identity=stored_identity(root)
    )


def return_(repo: Path, home: Path) -> Intent:
    return replace(removal(repo, home), kind="restore", batch="b1")


def move_from(repo: Path, home: Path) -> Intent:
    user = Root(str(home), Scope.USER)
    to = {"became": "mem_2", "to_top": user.top, "to_scope": user.scope, "to_identity": stored_identity(user)}
    return replace(removal(repo, home), kind="move", **to)


def move_to(repo: Path, home: Path) -> Intent:
    user, root = Root(str(home), Scope.USER), repository(repo)
    at = {"top": user.top, "scope": user.scope, "identity": stored_identity(user)}
    to = {"became": "mem_1", "to_top": root.top, "to_scope": root.scope, "to_identity": stored_identity(root)}
    return replace(removal(repo, home), kind="move", **at, **to)


@MOVES
@pytest.mark.parametrize("intent", [removal, return_, move_from, move_to])
async def test_what_a_kill_interrupted_goes_on_in_its_own_folder_alone(home, repo, intent, swap, why):
    begun = intent(repo, home)
    swap(repo)
    if swap is not absent:
        put(repo, memory("mem_1", "Another project's text."))
    put(home, memory("mem_2", "Yours."), memory("mem_1", "Yours as well."))
    before = files(repo), files(home)
    async with assembled(home) as parts:
        await parts.state.intents.begin(begun)
        await resume(parts.memories)
        assert await elsewhere_of(parts) == [(why, 0, 0, 1)]
        assert (files(repo), files(home)) == before
        assert list(parts.state.intents) == ["k1"]
    async with assembled(home) as parts:
        dropped = await parts.ask(wire.Dead(action="drop", ids=("k1",)))
        assert [each.kind for each in dropped.events] == [begun.kind]
        assert await elsewhere_of(parts) == []
    assert (files(repo), files(home)) == before


async def test_a_folder_that_changes_while_an_event_is_in_hand(home, repo):
    """The look before the first step is not enough: a model may take a minute."""
    async with assembled(home) as parts, at_work(parts):
        journal = parts.state.events.journal

        async def meanwhile(event_id: str, *also: Change) -> None:
            await journal(event_id, *also)
            another(repo)

        parts.state.events.journal = meanwhile
        waiting = event(repository(repo))
        parts.state.events.set_decision(waiting.id, (document(repository(repo)),))
        await accept(parts.capture, waiting)
        await until(lambda: bool(parts.capture._queue.elsewhere()))
        assert not files(repo)
        back(repo)
        await parts.capture.recheck_folders()
        await until(lambda: len(files(repo)) == 1 and not parts.capture.waiting())


# --- what does not wait -------------------------------------------------------------------------------


async def test_a_waiting_event_does_not_delay_those_of_an_existing_folder(home, repo):
    async with assembled(home) as parts:
        await decided(parts, repo)
    another(repo)
    async with assembled(home) as parts:
        await decided(parts, repo)
    async with assembled(home) as parts, at_work(parts):
        await until(lambda: len(files(repo)) == 1 and len(parts.capture.waiting()) == 1)
        assert await elsewhere_of(parts) == [(ELSEWHERE, 1, 0, 0)]


@pytest.mark.parametrize("scope", [Scope.USER, Scope.AGENT])
async def test_the_user_s_own_roots_go_by_the_folder_of_home(home, repo, scope):
    """An agent's may be made after the event was accepted, and git may come into HOME."""
    root = Root(str(home), scope) if scope is Scope.USER else agent_root(str(home), "codex")
    stored = stored_identity(root)
    (home / ".git").mkdir()
    (home / ".forge/agents/codex").mkdir(parents=True)
    assert stored_identity(root) == stored


@contextlib.asynccontextmanager
async def at_work(parts: Parts) -> AsyncIterator[None]:
    """What an earlier daemon left is taken up, and written when that is possible."""
    task = asyncio.create_task(parts.capture.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await parts.capture.close()
