"""Which roots may have changed on disk, told within some milliseconds.

A hint and never the truth: events get lost (overflow, directories made and filled faster than they can be
watched), so the indexer scans anyway and the watcher only shortens the wait. Hence one rule: whenever watches
of a root begin or end, it is reported, first watching and then reporting, so that nothing falls between.

Four directories of a root are watched, none of them recursively: the two that hold memories, `.forge`,
and the top or its nearest existing parent. A repository of 100,000 directories costs what a small one
does, and a directory that comes, goes or is swapped by a checkout is seen by its parent. A watch sticks to a
directory and stays silent when another takes its place: so every two seconds, and when the structure changes,
all are asked for again, and a number that is another one now is a directory that was swapped.

Events are read in the event loop, and nothing wakes it while there are none; however many come, it looks at
them 100 times a second at most. What walks a path may hang on a dead disk and happens in a thread. A root
that cannot be watched (no watch is left) is reported every two seconds, and the others are not disturbed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec

from forged.files import inotify
from forged.files.inotify import Event, Inotify
from forged.files.roots import Root, upwards

logger = logging.getLogger(__name__)

_LOOK_S = 2.0
# An editor's save is several events: so long after the first one they are read, and then at this pace. What
# comes again and again is gathered for longer, so that nothing wakes the loop more than 100 times a second.
_GATHER_S, _GATHER_LONG_S = 0.001, 0.02
_PACE_S = 0.01
_QUIET_S = 0.1
_FILES = (
    inotify.ENTRIES
    | inotify.DELETE_SELF
    | inotify.MOVE_SELF
    | inotify.CLOSE_WRITE
    | inotify.MODIFY
    | inotify.ATTRIB
)
_STRUCTURE = inotify.ENTRIES | inotify.DELETE_SELF | inotify.MOVE_SELF
_EVERYTHING = frozenset[str]()


class Watcher:
    """Calls `on_change(top, files)` in the event loop for each root that may have changed.

    `files` are the paths of the memory files that did, or nothing when it may be any of them.

    `state` is for status: "stopped", "inotify" or "polling: <cause>", the worst of all roots; `state_of` is
    that of one. `watched` are the directories under watch and their watches, at most 4 a root.
    """

    def __init__(self, on_change: Callable[[str, frozenset[str]], None]) -> None:
        self.state = "stopped"
        self._on_change = on_change
        self._roots: tuple[Root, ...] = ()
        self._found = _Found(places=_Places(()))
        self._listening: Inotify | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._read_at = float("-inf")
        self._look_now = threading.Event()
        self._ended = threading.Event()

    @property
    def watched(self) -> Mapping[str, int]:
        return self._found.watched

    def state_of(self, top: str) -> str:
        """How one root is watched, in the words of `state`."""
        trouble = self._found.troubles.get(top, "")
        return f"polling: {trouble}" if trouble else "stopped" if self.state == "stopped" else "inotify"

    def watch_count_of(self, top: str) -> int:
        """Directories under watch for one root; a parent that several roots wait at counts for each."""
        root = next((root for root in self._roots if root.top == top), None)
        if root is None:
            return 0
        nearest = next((path for path in upwards(top) if path in self.watched), None)
        return len(self.watched.keys() & _below(root)) + (nearest is not None)

    def set_roots(self, roots: Iterable[Root]) -> None:
        """Watch these roots and no others; each that is new is reported once its watches stand."""
        self._roots = tuple(sorted(set(roots), key=lambda root: root.top))
        self._look_now.set()

    async def run(self) -> None:
        """Watch until cancelled, whatever happens to the watches."""
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, "forged-watcher")
        self._ended.clear()
        try:
            await loop.run_in_executor(thread, self._keep_watches, loop)
        finally:  # the thread closes what it opened, and one that hangs on a dead disk is not waited for
            self._ended.set()
            self._look_now.set()
            self._listen_to(None)
            self._enter("stopped", _Found(places=_Places(())))
            thread.shutdown(wait=False)

    def _keep_watches(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the thread: see to it that the right directories are watched."""
        watches = _Watches()
        try:
            while not self._ended.is_set():
                self._look_now.clear()
                loop.call_soon_threadsafe(self._settle, watches.look(self._roots))
                watches.drop_old()
                self._look_now.wait(_LOOK_S)
        finally:
            watches.close()

    # --- in the loop ----------------------------------------------------------------------------------

    def _settle(self, found: _Found) -> None:
        """Go by what the thread has found, and report the roots whose watches began or ended."""
        if self._ended.is_set():
            return
        if found.kernel is not self._listening:
            self._listen_to(found.kernel)
        cause = next(iter(found.troubles.values()), "")
        self._enter(f"polling: {cause}" if cause else "inotify", found)
        self._report(dict.fromkeys(found.touched, _EVERYTHING))

    def _enter(self, state: str, found: _Found) -> None:
        self._found = found
        if state != self.state:
            level = logging.WARNING if found.troubles else logging.INFO
            logger.log(level, "watcher state=%r watches=%d", state, len(found.watched))
        self.state = state

    def _listen_to(self, kernel: Inotify | None) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        if self._listening is not None:
            loop.remove_reader(self._listening.descriptor)
        self._listening = kernel
        if kernel is not None:
            loop.add_reader(kernel.descriptor, self._gather, kernel)

    def _gather(self, kernel: Inotify) -> None:
        """Something has happened: let the events that belong to it come as well."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(kernel.descriptor)
        gather_s = _GATHER_S if loop.time() > self._read_at + _QUIET_S else _GATHER_LONG_S
        self._timer = loop.call_later(gather_s, self._drain, kernel)

    def _drain(self, kernel: Inotify) -> None:
        """Report what has happened, and look again soon; when nothing has, wait for the next event."""
        loop = asyncio.get_running_loop()
        events = kernel.read()
        if not events:
            loop.add_reader(kernel.descriptor, self._gather, kernel)
            return
        self._timer, self._read_at = loop.call_later(_PACE_S, self._drain, kernel), loop.time()
        touched, restructured = self._found.affected(events)
        if restructured:
            self._look_now.set()
        self._report(touched)

    def _report(self, touched: Mapping[str, frozenset[str]]) -> None:
        for top, files in touched.items():
            self._on_change(top, files)


class _Places:
    """What paths mean to a set of roots: where memories lie, and which directories they hang on."""

    def __init__(self, roots: tuple[Root, ...]) -> None:
        self.tops = frozenset(root.top for root in roots)
        self.memories = {directory: root.top for root in roots for directory in root.directories}
        self.structure: dict[str, set[str]] = {}
        for root in roots:
            for directory in (*_below(root), *upwards(root.top)):
                self.structure.setdefault(directory, set()).add(root.top)


class _Found(msgspec.Struct, frozen=True):
    """What a look has found: watches by path and paths by watch, causes by top of what cannot be watched."""

    places: _Places
    kernel: Inotify | None = None
    watched: Mapping[str, int] = {}
    paths: Mapping[int, tuple[str, ...]] = {}
    troubles: Mapping[str, str] = {}
    touched: frozenset[str] = frozenset()  # tops of roots to report

    def affected(self, events: Iterable[Event]) -> tuple[dict[str, frozenset[str]], bool]:
        """Roots that the events touch, by top, and whether a watched directory came or went.

        With each root its files that changed, or none when it was more than files.
        """
        files: dict[str, set[str]] = {}
        whole = set[str]()
        restructured = False
        for event in events:
            if event.mask & inotify.OVERFLOW:
                whole |= self.places.tops
            for directory in self.paths.get(event.watch, ()):
                path = os.path.join(directory, os.fsdecode(event.name)) if event.name else directory
                if path in self.places.structure:
                    whole |= self.places.structure[path]
                    restructured = restructured or bool(event.mask & (inotify.ENTRIES | inotify.GONE))
                elif directory in self.places.memories and _is_memory(event.name):
                    files.setdefault(self.places.memories[directory], set()).add(path)
        touched = {top: frozenset(paths) for top, paths in files.items()}
        return touched | dict.fromkeys(whole, _EVERYTHING), restructured


class _Watches:
    """Used in the thread: all that the kernel watches for us, root by root."""

    def __init__(self) -> None:
        self._kernel: Inotify | None = None
        self._standing: dict[str, dict[str, int]] = {}  # by top of the root, then by path
        self._old = set[int]()
        self._polled_at = float("-inf")

    def look(self, roots: tuple[Root, ...]) -> _Found:
        """Ask for all watches that the roots need now; those that stand stay as they are."""
        standing: dict[str, dict[str, int]] = {root.top: {} for root in roots}
        troubles = self._stand(roots, standing)
        touched = {top for top, watches in standing.items() if watches != self._standing.get(top)}
        if troubles and time.monotonic() >= self._polled_at + _LOOK_S:
            self._polled_at = time.monotonic()
            touched |= troubles.keys()
        watched = {path: number for watches in standing.values() for path, number in watches.items()}
        paths: dict[int, tuple[str, ...]] = {}
        for path, number in watched.items():
            paths[number] = (*paths.get(number, ()), path)
        before = {number for watches in self._standing.values() for number in watches.values()}
        self._old |= before - paths.keys()
        self._standing = standing
        return _Found(_Places(roots), self._kernel, watched, paths, troubles, frozenset(touched))

    def _stand(self, roots: tuple[Root, ...], standing: dict[str, dict[str, int]]) -> dict[str, str]:
        """Fill in the watches of each root; returns the causes of those that cannot be had."""
        troubles: dict[str, str] = {}
        for root in roots:
            try:
                self._kernel = self._kernel or Inotify()
                for path, number in _watches_of(root, self._kernel):
                    standing[root.top][path] = number
            except OSError as error:
                troubles[root.top] = str(error.strerror)
        return troubles

    def drop_old(self) -> None:
        """End the watches that nobody needs; call it when what was found last is known to all."""
        if self._kernel is not None:
            for number in self._old:
                self._kernel.unwatch(number)
        self._old.clear()

    def close(self) -> None:
        if self._kernel is not None:
            self._kernel.close()


def _watches_of(root: Root, kernel: Inotify) -> Iterator[tuple[str, int]]:
    """Directories to watch at this moment; those that cannot be read are left to the scan."""
    for path in _below(root):
        number = kernel.watch(path, _FILES if path in root.directories else _STRUCTURE)
        if number is not None:
            yield path, number
    for path in upwards(root.top):
        number = kernel.watch(path, _STRUCTURE)
        if number is not None:
            yield path, number
            return


def _below(root: Root) -> tuple[str, ...]:
    return (*root.directories, os.path.dirname(root.directories[0]))


def _is_memory(name: bytes) -> bool:
    return name.endswith(b".md") and not name.startswith(b".")
