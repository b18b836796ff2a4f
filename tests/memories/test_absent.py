"""Memories come, go and stay away in any order: no table keeps what is gone or loses what is absent."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.memories.absent import sweep_absent
from forged.state.removal import GONE_DAYS, KEPT_DAYS
from forged_client import protocol as wire
from tests.daemon.parts import Parts, assembled
from tests.faults.amount import times
from tests.memories.test_nothing_left import CLEANED
from tests.state.conftest import names
from tests.support.clock import run
from tests.support.git import git

DAY_S = 24 * 3600.0
FOLDER = ".forge/memory"


@dataclass
class Kept:
    """A memory as a person sees it: is its file there, may git bring it back, since when is it missing."""

    id: str
    top: Path
    path: Path
    metadata: dict[str, str]
    recalled: int = 0
    is_tracked: bool = False
    days: int = 0

    @property
    def is_here(self) -> bool:
        return self.path.exists()

    @property
    def is_due(self) -> bool:
        return self.days > (KEPT_DAYS if self.is_tracked else GONE_DAYS)


@dataclass
class World:
    """A repository, a daemon's parts, and what there should be of each memory."""

    parts: Parts
    home: Path
    repo: Path
    day: int = 20_000
    made: int = 0
    kept: list[Kept] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    def here(self, number: int) -> Kept | None:
        there = [each for each in self.kept if each.is_here and not each.days]
        return there[number % len(there)] if there else None

    # --- what happens -------------------------------------------------------------------------------------

    async def remember(self, number: int) -> None:
        self.made += 1
        said = {"customer": f"Acme no. {self.made}"}
        scope = "user" if number % 3 == 0 else "repo"
        reported = await self.parts.ask(
            wire.Remember(
                workspace=str(self.repo), content=f"Walrus no. {self.made} sings.", scope=scope, metadata=said
            )
        )
        top = self.home if scope == "user" else self.repo
        self.kept.append(Kept(reported.memory_id, top, Path(reported.path), said))

    async def recall(self, _: int) -> None:
        await self.parts.loaded(self.repo)
        scopes = ("repo", "user")
        found = await self.parts.ask(
            wire.Recall(query="walrus", session_id="s", workspace=str(self.repo), scopes=scopes)
        )
        injected = wire.Retrieve(
            workspace=str(self.repo), messages=(wire.Message("user", "Which walrus sings?"),), session_id="s"
        )
        await self.parts.ask(injected)
        for each in self.kept:
            if each.is_here:
                each.recalled = self.parts.state.accesses.of(str(each.top), each.id).count
        assert all(each.recalled for each in self.kept if each.id in {one.id for one in found.memories})

    async def forget(self, number: int) -> None:
        if one := self.here(number):
            await self.parts.ask(
                wire.Forget(workspace=str(self.repo), memory_id=one.id, erase_now=number % 2 == 0)
            )
            self.kept.remove(one)
            self.gone.append(one.id)

    async def trash_and_restore(self, number: int) -> None:
        if one := self.here(number):
            await self.parts.ask(wire.Forget(workspace=str(self.repo), memory_id=one.id))
            await self.check(gone=one.id)
            await self.parts.ask(wire.Restore(workspace=str(self.repo), memory_id=one.id))
            assert one.is_here

    async def move(self, number: int) -> None:
        one = self.here(number)
        if one is not None and one.top == self.repo:
            moved = await self.parts.ask(wire.Move(workspace=str(self.repo), memory_id=one.id, to="user"))
            self.kept.remove(one)
            self.gone.append(one.id)
            self.kept.append(
                Kept(moved.memory_id, self.home, Path(moved.path), one.metadata, recalled=one.recalled)
            )

    async def delete_by_hand(self, number: int) -> None:
        if one := self.here(number):
            one.path.unlink()

    async def switch_branch(self, number: int) -> None:
        """Away with all files of the repository, or back."""
        if git(self.repo, "branch", "--show-current") == "main":
            git(self.repo, "add", "--all", "--force")
            git(self.repo, "commit", "--quiet", "--allow-empty", "--message", f"{number}")
            for each in self.kept:
                each.is_tracked = each.is_tracked or (each.top == self.repo and each.is_here)
            git(self.repo, "switch", "--quiet", "bare")
        else:
            git(self.repo, "switch", "--quiet", "main")
            await self.parts.loaded(self.repo)

    async def stash(self, _: int) -> None:
        """Away with what was never committed on this branch, and into a commit of its own."""
        git(self.repo, "add", "--all", "--force")
        listed = set(git(self.repo, "diff", "--cached", "--name-only", "--diff-filter=A").splitlines())
        git(self.repo, "stash", "--quiet")
        for each in self.kept:
            each.is_tracked = each.is_tracked or f"{FOLDER}/{each.path.name}" in listed

    async def pass_days(self, number: int, *, counted: bool = True) -> None:
        for _ in range((1, GONE_DAYS, GONE_DAYS + 1, KEPT_DAYS, KEPT_DAYS + 1)[number % 5]):
            self.day += 1
            for _ in range(1 + number % 2):  # twice a day is one day
                await sweep_absent(self.parts.memories, self.day * DAY_S)
            for each in self.kept:
                if each.top == self.home or counted:
                    each.days = 0 if each.is_here else each.days + 1
        for each in [each for each in self.kept if each.is_due]:
            self.kept.remove(each)
            self.gone.append(each.id)

    async def unplug(self, number: int) -> None:
        """The repository is not there, or something else is, or a folder cannot be listed."""
        away = self.repo.with_name("away")
        if number % 3 == 2:
            folder = self.repo / FOLDER
            if not folder.is_dir():
                return
            folder.rename(away)
            folder.symlink_to(self.home)  # leads out, so that it is not followed
            await self.pass_days(number // 3, counted=False)
            folder.unlink()
            away.rename(folder)
            return
        self.repo.rename(away)
        if number % 3 == 1:
            (self.repo / FOLDER).mkdir(parents=True)
            if number % 2:
                git(self.repo, "init", "--quiet")
        await self.pass_days(number // 3, counted=False)
        if self.repo.exists():
            shutil.rmtree(self.repo)
        away.rename(self.repo)

    # --- what must be ---------------------------------------------------------------------------------------

    async def check(self, gone: str = "") -> None:
        """Every row of what is here or away is there, and no row of what is gone."""
        await self.parts.state._save()
        rows = await self.parts.state._database.run(_rows)
        back = {each.removesuffix(".md") for each in _names(self.repo) | _names(self.home)}
        left = {one: [table for table in CLEANED | {"absences"} if one in rows[table]] for one in self.gone}
        assert {one: tables for one, tables in left.items() if tables and one not in back} == {}
        for each in self.kept:
            if each.id == gone:
                assert [table for table in CLEANED - {"capture_log"} if gone in rows[table]] == []
                continue
            top = str(each.top)
            assert self.parts.state.attributes.of(top, each.id).metadata == each.metadata
            assert self.parts.state.accesses.of(top, each.id).count == each.recalled
            assert each.id in rows["own_files"]


def _names(top: Path) -> set[str]:
    folder = top / FOLDER
    return {each.name for each in folder.iterdir()} if folder.is_dir() else set()


def _rows(connection) -> dict[str, str]:
    from forged.state import database as sql

    return {each: str(list(sql.unchecked(connection, each))) for each in names()}


Step = Callable[[World, int], Awaitable[None]]
STEPS: tuple[Step, ...] = (
    World.remember,
    World.recall,
    World.forget,
    World.trash_and_restore,
    World.move,
    World.delete_by_hand,
    World.switch_branch,
    World.stash,
    World.pass_days,
    World.unplug,
)


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[World]:
    with tempfile.TemporaryDirectory() as folder:
        home, repo = Path(folder, "home"), Path(folder, "repo")
        home.mkdir()
        repo.mkdir()
        git(repo, "init", "--quiet")
        git(repo, "commit", "--quiet", "--allow-empty", "--message", "first")
        git(repo, "branch", "bare")
        async with assembled(home) as parts:
            yield World(parts, home, repo)


# Seldom drawn: a branch that is away for long, or comes back in time, and another folder at the path.
_SWITCH, _DELETE = (World.switch_branch, 0), (World.delete_by_hand, 0)
_ONE, _SEVEN, _EIGHT, _NINETY, _ALL = ((World.pass_days, number) for number in range(5))
_OTHER_FOLDER, _SEVEN_OF_ANOTHER = (World.unplug, 16), (World.unplug, 4)
_RARE = (
    [_SWITCH, _EIGHT, _SWITCH],
    [_SWITCH, _ALL, _SWITCH],
    [_SWITCH, _NINETY, _SWITCH, _ONE, _SWITCH, _ONE],
    [_ONE, _SEVEN_OF_ANOTHER, _DELETE, _DELETE, _ONE],
    [_SWITCH, _EIGHT, _OTHER_FOLDER],
    [_DELETE, _DELETE, _SEVEN, (World.stash, 0), _ONE],
)


@pytest.mark.parametrize("steps", _RARE)
def test_in_a_rare_order_too(steps):
    run(_gone_through(steps))


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 29)), min_size=3, max_size=14))
@settings(max_examples=times(60, 12))
def test_in_any_order_no_table_holds_what_is_gone_or_loses_what_is_absent(steps):
    run(_gone_through(steps))


async def _gone_through(steps: Sequence[tuple[Step, int]]) -> None:
    async with world() as one:
        await one.remember(1)
        await one.remember(0)
        await one.recall(0)
        for step, number in steps:
            await step(one, number)
            await one.check()


@pytest.mark.parametrize("restarts", [False, True], ids=["same daemon", "next daemon"])
async def test_what_is_deleted_by_hand_is_swept_after_seven_days_to_the_last_byte(home, tmp_path, restarts):
    """The case of the survey: metadata, two turns, a second memory that moves, and an `rm`."""
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "--quiet")
    where = {"workspace": str(repo)}
    async with assembled(home) as parts:
        first = await parts.ask(
            wire.Remember(**where, content="The walrus pays.", metadata={"customer": "Acme GmbH"})
        )
        second = await parts.ask(wire.Remember(**where, content="The walrus sleeps."))
        one = World(parts, home, repo)
        await one.recall(0)
        await one.recall(0)
        await parts.ask(wire.Move(**where, memory_id=second.memory_id, to="user"))
        Path(first.path).unlink()
        await parts.loaded(repo)
        for day in range(1, GONE_DAYS + 1):
            await sweep_absent(parts.memories, day * DAY_S)
        rows = await parts.state._database.run(_rows)
        assert "Acme GmbH" in rows["attributes"]
        assert second.memory_id not in "".join(rows[each] for each in CLEANED)
        if not restarts:
            await _swept(parts, (first.memory_id, second.memory_id))
    if restarts:
        async with assembled(home) as parts:
            await _swept(parts, (first.memory_id, second.memory_id))


async def _swept(parts: Parts, ids: tuple[str, ...]) -> None:
    await sweep_absent(parts.memories, (GONE_DAYS + 1) * DAY_S)
    await parts.state._save()
    rows = await parts.state._database.run(_rows)
    assert [(each, table) for each in ids for table in CLEANED | {"absences"} if each in rows[table]] == []
    held = b"".join(path.read_bytes() for path in parts.folder.iterdir() if path.is_file())
    assert b"Acme GmbH" not in held
