"""The watcher against real directories, real inotify and a real git."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from watchfiles._rust_notify import RustNotify

from forged.files import watcher as looking
from forged.files.roots import Root
from forged.files.watcher import Watcher
from forged.memory import Scope
from tests.support.clock import PATIENCE_S, eventually, until
from tests.support.git import git

pytestmark = pytest.mark.inotify


class Received:
    """Counts what the watcher reports, and lets a test wait for it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.files: dict[str, frozenset[str]] = {}
        self.on_report: Callable[[str], None] = lambda _: None
        self._received = asyncio.Event()

    def __call__(self, top: str, files: frozenset[str]) -> None:
        self.counts[top] += 1
        self.files[top] = files
        self.on_report(top)
        self._received.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._received.clear()
                await self._received.wait()

    async def after(self, action: Callable[[], object], root: Root, times: int = 1) -> None:
        """Do something and wait until the root has been reported so many times because of it."""
        before = self.counts[root.top]
        action()
        await self.until(lambda: self.counts[root.top] >= before + times)


@contextlib.asynccontextmanager
async def watching(*roots: Root) -> AsyncIterator[tuple[Watcher, Received]]:
    """A running watcher whose roots have all been reported once."""
    received = Received()
    watcher = Watcher(received)
    watcher.set_roots(roots)
    watcher.used_at = time.monotonic()
    running = asyncio.create_task(watcher.run())
    try:
        await received.until(lambda: set(received.counts) == {root.top for root in roots})
        yield watcher, received
    finally:
        running.cancel()
        await asyncio.wait([running], timeout=PATIENCE_S)
        assert running.cancelled()


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root with its memory directory made."""
    root = Root(str(tmp_path / "project"), Scope.REPO)
    os.makedirs(root.directories[0])
    return root


@pytest.fixture
def other(tmp_path: Path) -> Root:
    other = Root(str(tmp_path / "other"), Scope.REPO)
    os.makedirs(other.directories[0])
    return other


def save(root: Root, name: str = "mem_1.md", directory: int = 0) -> None:
    """Write as forged does: a temporary file beside it, then the final name."""
    final = os.path.join(root.directories[directory], name)
    Path(f"{final}.tmp~").write_text("x")
    os.rename(f"{final}.tmp~", final)


def kernel_watches() -> int:
    """Directories that the kernel watches for this process.

    Those that have ended are among them for some milliseconds more: a thread of watchfiles' own closes them.
    The marks (`Mark`) are on a device of their own, and no directories.
    """
    with open(os.memfd_create("beside"), "rb") as unnamed:
        marks = f"sdev:{os.fstat(unnamed.fileno()).st_dev:x} "
    infos = Path("/proc/self/fdinfo")
    count = 0
    for name in os.listdir(infos):
        try:
            lines = (infos / name).read_text().splitlines()
            count += sum(line.startswith("inotify wd:") and marks not in line for line in lines)
        except OSError:
            continue  # the listing's own descriptor
    return count


def closing_threads() -> int:
    """Threads in which watchfiles watches, or closes what it has watched; each has descriptors of its own."""
    count = 0
    for name in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # it has just ended
            count += name.read_text().startswith("notify-rs")
    return count


@pytest.fixture(autouse=True)
def nothing_of_another_test(kernel) -> None:
    eventually(lambda: closing_threads() == 0)


async def test_root_is_reported_once_its_watches_stand(root):
    seen: list[int] = []
    received = Received()
    received.on_report = lambda _: seen.append(kernel_watches())
    watcher = Watcher(received)
    watcher.set_roots([root])
    running = asyncio.create_task(watcher.run())
    await received.until(lambda: bool(seen))
    running.cancel()
    await asyncio.wait([running])

    assert seen == [3]  # memory, .forge and the top; memories is not there


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.with_name("new.md").write_text("x"),
        lambda path: path.write_text("changed"),
        lambda path: path.rename(path.with_name("renamed.md")),
        lambda path: path.rename(path.parents[2] / "away.md"),
        lambda path: path.unlink(),
        lambda path: os.link(path, path.with_name("linked.md")),
        lambda path: path.chmod(0o400),
    ],
    ids=["create", "write", "rename", "move out", "remove", "link", "mode"],
)
@pytest.mark.parametrize("directory", [0, 1])
async def test_change_of_a_memory_file_is_reported(root, change, directory):
    path = Path(root.directories[directory], "mem_1.md")
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    async with watching(root) as (_, received):
        await received.after(lambda: change(path), root)


@pytest.mark.parametrize("present", ["", "project", "project/.forge", "project/.forge/memory"])
async def test_memory_is_reported_wherever_the_missing_directories_began(tmp_path, present):
    root = Root(str(tmp_path / "project"), Scope.REPO)
    (tmp_path / present).mkdir(parents=True, exist_ok=True)
    async with watching(root) as (watcher, received):
        os.makedirs(root.directories[0], exist_ok=True)
        if present != "project/.forge/memory":
            await received.until(lambda: len(watcher.watched) == 3)
        await received.after(lambda: save(root), root)


@pytest.mark.parametrize("level", [0, 1, 2], ids=["memory", ".forge", "top"])
@pytest.mark.parametrize("how", ["remove", "move away and back", "swap"])
async def test_directory_that_came_back_is_watched_again(root, level, how):
    directory = [Path(root.directories[0]), Path(root.top, ".forge"), Path(root.top)][level]
    aside = directory.with_name("aside")
    async with watching(root) as (_, received):
        for _ in range(3):
            if how == "remove":
                await received.after(lambda: shutil.rmtree(directory), root)
                await received.after(lambda: os.makedirs(root.directories[0]), root)
            elif how == "move away and back":
                await received.after(lambda: directory.rename(aside), root)
                await received.after(lambda: aside.rename(directory), root)
            else:
                shutil.copytree(directory, aside)
                await received.after(lambda: exchange(directory, aside), root)
            await received.until(lambda: holds(root))
            await received.after(lambda: save(root), root)


def exchange(directory: Path, aside: Path) -> None:
    directory.rename(directory.with_name("old"))
    aside.rename(directory)
    shutil.rmtree(directory.with_name("old"))


def holds(root: Root) -> bool:
    """Whether the kernel watches the three directories that are now at the root's paths."""
    paths = (root.directories[0], os.path.join(root.top, ".forge"), root.top)
    return all(f"ino:{os.stat(path).st_ino:x} " in watched_inodes() for path in paths)


def watched_inodes() -> str:
    texts = []
    for info in Path("/proc/self/fdinfo").iterdir():
        try:
            texts.append(info.read_text())
        except OSError:
            continue
    return "".join(line for text in texts for line in text.splitlines(keepends=True) if "inotify" in line)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed: checkout NOT checked")
async def test_git_checkout_away_and_back_leaves_no_blindness(root):
    git(root.top, "init", "-q")
    git(root.top, "commit", "-q", "--allow-empty", "-m", "bare")
    git(root.top, "branch", "bare")
    save(root)
    git(root.top, "add", ".")
    git(root.top, "commit", "-q", "-m", "memories")
    git(root.top, "branch", "full")
    async with watching(root) as (_, received):
        for _ in range(3):
            await received.after(lambda: git(root.top, "checkout", "-q", "bare"), root)
            await received.after(lambda: git(root.top, "checkout", "-q", "full"), root)
        await received.until(lambda: holds(root))
        await received.after(lambda: save(root, "mem_2.md"), root)


async def test_root_costs_four_watches_however_many_directories_its_repo_has(root):
    os.makedirs(root.directories[1])
    for number in range(500):
        Path(root.top, f"package_{number}").mkdir()
        Path(root.directories[0], f"below_{number}").mkdir()
    async with watching(root) as (watcher, _):
        assert kernel_watches() == len(watcher.watched) == watcher.watch_count_of(root.top) == 4


async def test_watched_roots_change_while_running(root, other):
    async with watching(root) as (watcher, received):
        await received.after(lambda: watcher.set_roots([root, other]), other)
        await until(lambda: kernel_watches() == len(watcher.watched) == 6)
        await received.after(lambda: save(other), other)

        watcher.set_roots([other])
        await until(lambda: kernel_watches() == len(watcher.watched) == 3)
        assert watcher.watch_count_of(root.top) == 0


async def test_file_name_that_is_not_text_slows_no_other_root(root, other, monkeypatch):
    monkeypatch.setattr(looking, "_POLL_S", 0.2)
    odd = os.fsencode(root.directories[0]) + b"/\xff\xfe.md"
    async with watching(root, other) as (watcher, received):
        await received.after(lambda: os.close(os.open(odd, os.O_CREAT)), root)
        await until(lambda: watcher.state_of(root.top).startswith("polling: Unable to decode path"))
        await until(lambda: len(watcher.watched) == 3)
        assert (watcher.state, watcher.state_of(other.top)) == ("inotify", "inotify")
        for number in range(10):
            os.unlink(odd)
            os.close(os.open(odd, os.O_CREAT))
            await reported_of(received, other, number)
        await received.after(lambda: save(root), root, times=2)  # without an event


async def reported_of(received: Received, root: Root, number: int) -> None:
    """Save, and wait for the report."""
    await received.after(lambda: save(root, f"mem_{number}.md"), root)


async def test_root_that_comes_and_goes_disturbs_no_other(root, other):
    whole = []
    async with watching(root, other) as (_, received):
        received.on_report = lambda top: whole.append(top) if not received.files[top] else None
        for number in range(5):
            await received.after(lambda: shutil.rmtree(root.top), root)
            await received.after(lambda: os.makedirs(root.directories[0]), root)
            await reported_of(received, other, number)
        assert set(whole) == {root.top}  # of the other one only its files


async def test_what_happens_while_watches_are_set_anew_is_reported_by_a_backend_that_is_late(
    root, other, monkeypatch
):
    """On a busy machine its thread has not read yet what the kernel has told, when the new watches stand."""

    class Late:
        def __init__(self, *reported, **how):
            self._own, self._looks = RustNotify(*reported, **how), 5
            self.close = self._own.close

        def watch(self, debounce_ms, step_ms, limit_ms, stop):
            if limit_ms < looking._LOOK_MS and self._looks:  # it is given up
                self._looks -= 1
                return "timeout"
            return self._own.watch(debounce_ms, step_ms, limit_ms, stop)

    stand = looking._begin_watching

    def saved_first(places):
        save(other)
        return stand(places)

    monkeypatch.setattr(looking, "RustNotify", Late)
    async with watching(other) as (watcher, received):
        monkeypatch.setattr(looking, "_begin_watching", saved_first)
        await received.after(lambda: watcher.set_roots([root, other]), other)

        assert any(path.endswith("/mem_1.md") for path in received.files[other.top])


async def test_root_whose_directories_came_and_went_twice_is_watched_anew_once_more_when_it_is_quiet(
    root, monkeypatch
):
    monkeypatch.setattr(looking, "_LOOK_MS", 10)
    reported = [{(3, root.top)}, {(1, root.top)}]
    begun, quiet = [], Counter()

    class Scripted:
        def __init__(self, paths, **how):
            self._mark = paths[-1]
            begun.append(self)

        def watch(self, debounce_ms, step_ms, limit_ms, stop):
            if stop is None:
                return {(2, self._mark)}
            if reported:
                return reported.pop(0)
            quiet[len(begun)] += 1
            time.sleep(limit_ms / 1000)
            return "timeout"

        def close(self):
            pass

    monkeypatch.setattr(looking, "RustNotify", Scripted)
    async with watching(root):
        await until(lambda: max(quiet.values(), default=0) > 3)

    assert (len(begun), quiet[3], quiet[4] > 3) == (4, 1, True)


async def test_root_for_which_no_watch_is_left_is_polled_and_the_others_are_not(root, other, monkeypatch):
    monkeypatch.setattr(looking, "_POLL_S", 0.2)
    monkeypatch.setattr(looking, "_TROUBLE_S", 1.0)
    stand, limited = looking._begin_watching, threading.Event()
    limited.set()

    def refusing(places):
        if limited.is_set() and any(each.path == other.directories[0] for each in places.on_disk()):
            raise OSError("OS file watch limit reached")
        return stand(places)

    monkeypatch.setattr(looking, "_begin_watching", refusing)
    async with watching(root) as (watcher, received):
        await received.after(lambda: watcher.set_roots([root, other]), other)
        assert watcher.state_of(other.top) == "polling: OS file watch limit reached"
        assert watcher.state_of(root.top) == "inotify"
        await reported_of(received, root, 1)
        await received.after(lambda: None, other, times=2)  # without an event

        limited.clear()
        await until(lambda: watcher.state_of(other.top) == "inotify" and len(watcher.watched) > 3)
        await reported_of(received, other, 1)


@pytest.mark.parametrize(("quiet_s", "most"), [(0, 120), (3, 120), (6, 30), (50, 30), (56, 16), (3600, 16)])
async def test_looks_a_second_are_few_when_no_one_is_at_work(root, monkeypatch, quiet_s, most):
    """The backend looks once in `step_ms`, whatever happens."""
    steps = []

    class Counted:
        def __init__(self, *reported, **how):
            self._own = RustNotify(*reported, **how)
            self.close = self._own.close

        def watch(self, debounce_ms, step_ms, *rest):
            steps.append(step_ms)
            return self._own.watch(debounce_ms, step_ms, *rest)

    monkeypatch.setattr(looking, "RustNotify", Counted)
    async with watching(root) as (watcher, _):
        watcher.used_at = time.monotonic() - quiet_s
        steps.clear()
        await until(lambda: len(steps) >= 2)
        assert most / 1.2 <= 1000 / steps[-1] <= most


@pytest.mark.parametrize("left", [*(pytest.param(left, marks=pytest.mark.long) for left in (0, 1)), 2])
async def test_limit_of_watches_means_polling_until_it_is_lifted(root, left):
    """A watcher takes three descriptors."""
    received = Received()
    watcher = Watcher(received)
    watcher.set_roots([root])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(free := [os.dup(0) for _ in range(left + 1)])
    for descriptor in free:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    running = asyncio.create_task(watcher.run())
    try:
        await received.until(lambda: received.counts[root.top] == 2)
        state = watcher.state
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await received.until(lambda: watcher.state == "inotify")
    await received.after(lambda: save(root), root)
    running.cancel()
    await asyncio.wait([running])

    assert state.startswith("polling: ")
    assert "used up" in state
    assert watcher.state == "stopped"


async def test_directory_that_cannot_be_read_blinds_no_other_root(root, other):
    if os.geteuid() == 0:
        pytest.skip("root reads everything: NOT checked")
    os.chmod(other.directories[0], 0)
    async with watching(root, other) as (watcher, received):
        assert len(watcher.watched) == 5
        await received.after(lambda: save(root), root)


async def test_first_root_may_come_after_the_start(root):
    async with watching() as (watcher, received):
        await received.after(lambda: watcher.set_roots([root]), root)

        assert len(watcher.watched) == 3


async def test_cancelling_leaves_no_watch_behind(root):
    async with watching(root) as (watcher, _):
        watcher.used_at = time.monotonic() - 3600  # the longest pause between two looks

    eventually(lambda: kernel_watches() == 0)
