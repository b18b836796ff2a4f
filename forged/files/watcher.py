"""Which roots may have changed on disk, told within 10 to 100 ms.

A hint and never the truth: events get lost (overflow, directories made and filled faster than they can be
watched), so the indexer scans anyway and the watcher only shortens the wait. Hence one rule: whenever watches
begin or end, every root is reported, first watching and then reporting, so that nothing falls between.

Four directories of a root are watched, none of them recursively: the two that hold memories, `.forge`,
and the top or its nearest existing parent. A repository of 100,000 directories costs what a small one
does, and a directory that comes, goes or is swapped by a checkout is seen by its parent. inotify sticks to
an inode and stays silent when it is replaced, so the watches are then set anew.

watchfiles' own backend is driven from one thread instead of `awatch`: that says when the watches stand,
and lets `step`, the pause between two looks, differ: short while agents are at work (a change is reported
in 10 ms), long when nobody is there (20 wake-ups a second instead of 200).
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec
from watchfiles import Change
from watchfiles._rust_notify import RustNotify  # documented for direct use in watchfiles' API pages

from forged.files.roots import Root, upwards

logger = logging.getLogger(__name__)

_DEBOUNCE_MS = 10
_BUSY_STEP_MS = 2
_IDLE_STEP_MS = 50
_BUSY_S = 30.0
_LOOK_MS = 500  # between two checks that the watched directories are still the ones at their paths
_FIRST_PAUSE_S = 0.1
_LAST_PAUSE_S = 5.0
_POLL_S = 2.0
_STOP_S = 0.4
# What the kernel and watchfiles say when this user or process may not watch any more.
_LIMITS = ("os error 24", "os error 28", "watch limit reached")


class Watched(msgspec.Struct, frozen=True, order=True):
    """A directory under watch; equal values are the same directory at the same path."""

    path: str
    device: int
    inode: int


class Watcher:
    """Calls `on_change(top, files)` in the event loop for each root that may have changed.

    `files` are the paths of the memory files that did, or nothing when it may be any of them.

    `state` is for status: "stopped", "inotify", "polling: <cause>" (a limit is reached; every root is
    reported each 2 s) or "restarting: <cause>". `watched` are the directories under watch, at most 4 a root;
    `used_at` is when an agent was last at work, in seconds of `time.monotonic`, set by who hears of it; for
    half a minute afterwards a change is reported in 10 ms and not in 100.
    """

    def __init__(self, on_change: Callable[[str, frozenset[str]], None]) -> None:
        self.state = "stopped"
        self.watched: frozenset[Watched] = frozenset()
        self.used_at = -_BUSY_S
        self._on_change = on_change
        self._roots: tuple[Root, ...] = ()
        self._ended = threading.Event()

    def watch_count_of(self, top: str) -> int:
        """Directories under watch for one root; a parent that several roots wait at counts for each."""
        root = next((root for root in self._roots if root.top == top), None)
        if root is None:
            return 0
        paths = {directory.path for directory in self.watched}
        nearest = next((path for path in upwards(top) if path in paths), None)
        return len(paths.intersection(_below(root))) + (nearest is not None)

    def set_roots(self, roots: Iterable[Root]) -> None:
        """Watch these roots and no others; every one of them is reported once its watches stand."""
        wanted = tuple(sorted(set(roots), key=lambda root: root.top))
        if wanted != self._roots:
            self._roots = wanted
            self._ended.set()

    async def run(self) -> None:
        """Watch until cancelled, whatever happens to the watches."""
        thread = ThreadPoolExecutor(1, "forged-watcher")
        pause_s = 0.0
        try:
            while True:
                began = time.monotonic()
                try:
                    await self._follow(thread)
                except Exception as error:  # noqa: BLE001 - supervisor: one odd file name ends all watches
                    lasted = time.monotonic() - began > _LAST_PAUSE_S
                    pause_s = _FIRST_PAUSE_S if lasted or not pause_s else min(2 * pause_s, _LAST_PAUSE_S)
                    await asyncio.sleep(self._failed(error, pause_s))
        finally:
            self._enter("stopped")
            thread.shutdown(wait=False)

    async def _follow(self, thread: ThreadPoolExecutor) -> None:
        """Watch the roots of this moment until other directories have to be watched."""
        self._ended.clear()
        loop = asyncio.get_running_loop()
        session = loop.run_in_executor(thread, self._session, self._roots, loop)
        try:
            await asyncio.shield(session)
        except asyncio.CancelledError:
            self._ended.set()
            await asyncio.wait([session], timeout=_STOP_S)
            raise

    def _session(self, roots: tuple[Root, ...], loop: asyncio.AbstractEventLoop) -> None:
        """In the thread: one set of watches, from its beginning to its end."""
        places = _Places(roots)
        watched = places.on_disk()
        paths = [directory.path for directory in sorted(watched)]
        with RustNotify(
            paths,
            debug=False,
            force_polling=False,
            poll_delay_ms=0,
            recursive=False,
            ignore_permission_denied=False,  # true would hide every failure, limits too (watchfiles 1.3)
        ) as notify:
            if places.on_disk() != watched:
                return  # swapped while the watches were being set: they may stand on the old one
            loop.call_soon_threadsafe(self._began, watched)
            while True:
                step_ms = _BUSY_STEP_MS if time.monotonic() < self.used_at + _BUSY_S else _IDLE_STEP_MS
                changes = notify.watch(_DEBOUNCE_MS, step_ms, _LOOK_MS, self._ended)
                if isinstance(changes, set):
                    touched, swapped = places.affected(changes)
                    if swapped:
                        return
                    if touched:
                        self.used_at = time.monotonic()  # one change is seldom alone
                        loop.call_soon_threadsafe(self._report, touched)
                elif changes == "stop" or places.on_disk() != watched:
                    return

    def _began(self, watched: frozenset[Watched]) -> None:
        self._enter("inotify", watched)
        self._report(self._all_roots())

    def _failed(self, error: Exception, pause_s: float) -> float:
        """Note a failure, report every root, and return the seconds until the next attempt."""
        cause = " ".join(str(error).split())[:200] or type(error).__name__
        limited = any(words in cause for words in _LIMITS)
        self._enter(f"polling: {cause}" if limited else f"restarting: {cause}")
        self._report(self._all_roots())
        return _POLL_S if limited else pause_s

    def _enter(self, state: str, watched: frozenset[Watched] = frozenset()) -> None:
        self.watched = watched
        if state != self.state:
            level = logging.INFO if state in ("inotify", "stopped") else logging.WARNING
            logger.log(level, "watcher state=%r watches=%d", state, len(watched))
        self.state = state

    def _all_roots(self) -> dict[str, frozenset[str]]:
        return {root.top: frozenset() for root in self._roots}

    def _report(self, touched: Mapping[str, frozenset[str]]) -> None:
        for top, files in touched.items():
            self._on_change(top, files)


class _Places:
    """What paths mean to a set of roots: where memories lie, and which directories they hang on."""

    def __init__(self, roots: tuple[Root, ...]) -> None:
        self._roots = roots
        self._memories = {directory: root.top for root in roots for directory in root.directories}
        self._structure: dict[str, set[str]] = {}
        for root in roots:
            for directory in (*_below(root), *upwards(root.top)):
                self._structure.setdefault(directory, set()).add(root.top)

    def on_disk(self) -> frozenset[Watched]:
        """Directories to watch at this moment; those that cannot be read are left to the scan."""
        found = set[Watched]()
        for root in self._roots:
            nearest = next(filter(None, map(_look, upwards(root.top))), None)
            candidates = (*map(_look, _below(root)), nearest)
            found.update(directory for directory in candidates if directory is not None)
        return frozenset(found)

    def affected(self, changes: set[tuple[int, str]]) -> tuple[dict[str, frozenset[str]], bool]:
        """Roots that the changes touch, by top, and whether a watched directory came or went.

        With each root its files that changed, or none when it was more than files.
        """
        files: dict[str, set[str]] = {}
        whole = set[str]()
        swapped = False
        for change, path in changes:
            directory, _, name = path.rpartition("/")
            if path in self._structure:
                whole |= self._structure[path]
                swapped = swapped or change != Change.modified
            elif directory in self._memories and name.endswith(".md") and not name.startswith("."):
                files.setdefault(self._memories[directory], set()).add(path)
        touched = {top: frozenset(paths) for top, paths in files.items()}
        return touched | dict.fromkeys(whole, frozenset()), swapped


def _below(root: Root) -> tuple[str, ...]:
    return (*root.directories, os.path.dirname(root.directories[0]))


def _look(path: str) -> Watched | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    readable = stat.S_ISDIR(status.st_mode) and os.access(path, os.R_OK)
    return Watched(path, status.st_dev, status.st_ino) if readable else None
