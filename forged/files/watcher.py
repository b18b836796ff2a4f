"""Report roots that may have changed on disk, within 20 to 130 ms.

Reports are hints: events can get lost, so the indexer also scans. Whenever watches of a root begin or end,
the root is reported afterwards, so that no change is missed. Four directories of a root are watched, none
recursively: the two memory folders, `.forge`, and the top or its nearest existing parent. inotify follows an
inode and is silent when a directory is replaced, so watches are renewed then. New watches begin before the
old end, and the old ones are read to their end (`WatchBarrier`). A root with a file name that is no text,
which ends all watches of an instance, or that cannot be watched, is reported every two seconds for a minute.

watchfiles' backend runs in one thread instead of `awatch`. So it is known when watches are set, and the pause
between looks can vary: at most 120 looks a second for 5 s after a change or a request of an agent, at most 30
otherwise, and 15 after a minute. A change is reported by the look after the one that saw it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec
from watchfiles import Change
from watchfiles._rust_notify import RustNotify  # documented for direct use in watchfiles' API

from forged.fair_queue import ignore_failure
from forged.files.directory_events import count_inotify_instances, watch_refusal
from forged.files.roots import Root, upwards

logger = logging.getLogger(__name__)

_DEBOUNCE_MS = 10
# Seconds since the last request of an agent, and the pause between looks up to then.
_STEPS_MS = ((5.0, 9), (55.0, 34))
_IDLE_STEP_MS = 66
_LAST_STEP_MS = 1  # pause between looks at old watches
_LAST_LOOKS_S = 0.5  # limit; the backend's thread needs time to deliver
_LOOK_MS = 500  # pause between checks that watched directories are still those at their paths
_FIRST_PAUSE_S = 0.1
_LAST_PAUSE_S = 5.0
_POLL_S = 2.0
_TROUBLE_S = 60.0  # delay until a root with a problem is watched again
_STOP_S = 0.4
_MOST_HELD, _CLOSING_S = 2, 0.002  # inotify instances before new watches are made; a pause of a wait


EVERYTHING = frozenset[str]()
"""In place of changed files: any file may have changed."""


class Watcher:
    """Watches roots on disk and calls `on_change(top, files)` in the event loop for those that may change.

    `files` are the paths of changed memory files, or empty if any file may have changed. `state` is for
    status: "stopped", "inotify", "polling: <cause>" (a limit is reached; every root is reported every 2 s) or
    "restarting: <cause>". `watched` are the watched directories, at most 4 for each root. `used_at` is the
    time of the last request of an agent, in seconds of `time.monotonic`.
    """

    def __init__(self, on_change: Callable[[str, frozenset[str]], None]) -> None:
        self.state = "stopped"
        self.watched: frozenset[Watched] = frozenset()
        self.used_at = float("-inf")
        self._on_change = on_change
        self._roots: tuple[Root, ...] = ()
        self._troubles: dict[str, _WatchTrouble] = {}
        # Used in the thread: roots with an appeared or disappeared directory since watches were set; roots to
        # watch anew when it is quiet, because a directory with the same inode number may have come back; and
        # roots whose new watches are due.
        self._swapped = self._again = self._quiet = frozenset[str]()
        self._look_now = threading.Event()
        self._ended = False

    def state_of(self, top: str) -> str:
        """Return how one root is watched for status, in the words of `state`."""
        trouble = self._troubles.get(top)
        return f"polling: {trouble.cause}" if trouble is not None and self.state == "inotify" else self.state

    def watch_count_of(self, top: str) -> int:
        """Return the number of watched directories of one root; shared parents count for each root."""
        root = next((root for root in self._roots if root.top == top), None)
        if root is None:
            return 0
        paths = {directory.path for directory in self.watched}
        nearest = next((path for path in upwards(top) if path in paths), None)
        return len(paths.intersection(below(root))) + (nearest is not None)

    def set_roots(self, roots: Iterable[Root]) -> None:
        """Watch exactly these roots; report each new one once its watches are set."""
        wanted = tuple(sorted(set(roots), key=lambda root: root.top))
        if wanted != self._roots:
            self._roots = wanted
            self._look_now.set()

    async def run(self) -> None:
        """Watch roots in a thread and report changes until cancelled; restart, or poll, after a failure."""
        thread = ThreadPoolExecutor(1, "forged-watcher")
        pause_s, self._ended = 0.0, False
        try:
            while True:
                began = time.monotonic()
                try:
                    await self._run_in_thread(thread)
                except Exception as error:  # noqa: BLE001 - supervisor: a backend may raise anything
                    if self._handle_root_error(error):
                        continue
                    lasted = time.monotonic() - began > _LAST_PAUSE_S
                    pause_s = _FIRST_PAUSE_S if lasted or not pause_s else min(2 * pause_s, _LAST_PAUSE_S)
                    await asyncio.sleep(self._handle_failure(error, pause_s))
        finally:
            self._set_state("stopped")
            thread.shutdown(wait=False)

    async def _run_in_thread(self, thread: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        session = loop.run_in_executor(thread, self._watch_in_thread, loop)
        session.add_done_callback(ignore_failure)  # the waiting task may be cancelled
        try:
            await asyncio.wait([session])
        except asyncio.CancelledError:
            self._ended = True
            self._look_now.set()
            await asyncio.wait([session], timeout=_STOP_S)
            raise
        session.result()

    def _watch_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch and report, with renewed watches, until the backend fails or the watcher ends."""
        standing: _Watches | None = None
        try:
            while not self._ended:
                self._look_now.clear()
                standing = self._renew(standing, loop)
                self._listen(standing, loop)
        finally:
            if standing is not None:
                standing.close()
            if not self._ended:
                _await_closed()  # the handler of the failure needs an instance of inotify

    def _renew(self, old: _Watches | None, loop: asyncio.AbstractEventLoop) -> _Watches:
        """Set watches on the directories that exist now and end the old ones, kept if that is impossible."""
        while True:
            _await_closed()
            places = WatchedPlaces(tuple(root for root in self._roots if root.top not in self._troubles))
            try:
                fresh = _begin_watching(places)
            except Exception as error:
                _await_closed()
                others = self._unwatched_tops(old)
                if old is None or not others:
                    raise
                self._mark_unwatched(others, self._limit() or _cause(error))
                self._call_in_loop(loop, self._report, dict.fromkeys(others, EVERYTHING))
                return old
            if fresh is not None:
                break
        touched = places.touched_between(old.watched if old is not None else frozenset(), fresh.watched)
        troubled = self._troubles.keys() & {root.top for root in self._roots}
        touched |= dict.fromkeys(troubled | self._swapped | self._quiet, EVERYTHING)
        self._again |= self._swapped
        self._swapped = self._quiet = frozenset()
        self._call_in_loop(loop, self._set_watched, fresh.watched, touched)
        if old is not None:
            if self._take_last(old, loop):
                self._look_now.set()  # it happened while the new watches were set
            old.close()
        return fresh

    def _unwatched_tops(self, old: _Watches | None) -> tuple[str, ...]:
        """Return the tops of roots, not polled ones, with directories that the old watches miss."""
        there = old.watched if old is not None else frozenset()
        return tuple(
            root.top
            for root in self._roots
            if root.top not in self._troubles and not WatchedPlaces((root,)).on_disk() <= there
        )

    def _listen(self, standing: _Watches, loop: asyncio.AbstractEventLoop) -> None:
        """Report changes of watched roots, and poll the others, until watches must be renewed."""
        polled_at = time.monotonic()
        while not self._look_now.is_set():
            swapped = self._take_changes(standing, loop)
            now = time.monotonic()
            if now - polled_at > _POLL_S and self._troubles:
                polled_at = now
                self._call_in_loop(loop, self._report, dict.fromkeys(self._troubles, EVERYTHING))
            if swapped or self._end_troubles(now):
                return

    def _take_changes(self, standing: _Watches, loop: asyncio.AbstractEventLoop) -> bool:
        """Report changes that occur within half a second; return True if watches must be renewed."""
        changes = standing.notify.watch(_DEBOUNCE_MS, self._step_ms(), _LOOK_MS, self._look_now)
        if changes == "timeout":
            self._quiet, self._again = self._again, frozenset()
            return bool(self._quiet) or standing.places.on_disk() != standing.watched
        return self._report_changes(standing, changes, loop)

    def _take_last(self, old: _Watches, loop: asyncio.AbstractEventLoop) -> bool:
        """Report the last events of replaced watches; return True if a directory appeared or disappeared."""
        old.mark.set()
        swapped, end = False, time.monotonic() + (_LAST_LOOKS_S if old.mark.is_there else 0)
        while True:
            changes = old.notify.watch(_DEBOUNCE_MS, _LAST_STEP_MS, _LAST_STEP_MS, None)
            swapped = self._report_changes(old, changes, loop) or swapped
            if old.mark.is_in(changes) or time.monotonic() > end:
                return swapped

    def _report_changes(self, standing: _Watches, changes: object, loop: asyncio.AbstractEventLoop) -> bool:
        """Report the roots that changes touch; return True if a directory appeared or disappeared."""
        if not isinstance(changes, set):
            return False
        touched, swapped = standing.places.affected(changes)
        if touched:
            self.used_at = time.monotonic()  # changes come in groups
            self._call_in_loop(loop, self._report, touched)
        if swapped:
            self._swapped |= {top for top, files in touched.items() if not files}
        return swapped

    def _step_ms(self) -> int:
        """Return the pause before the next look: shorter soon after a change or a request of an agent."""
        quiet_s = time.monotonic() - self.used_at
        return next((step_ms for limit_s, step_ms in _STEPS_MS if quiet_s < limit_s), _IDLE_STEP_MS)

    def _call_in_loop(
        self, loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: object
    ) -> None:
        """Schedule a call in the loop; ends this thread if the loop has ended."""
        try:
            loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            self._ended = True
            self._look_now.set()

    def _handle_root_error(self, error: Exception) -> bool:
        """Poll roots that an error names, and report all; False if none, or at a kernel limit."""
        cause = _cause(error)
        named = [root.top for root in self._roots if f'"{root.top}/' in cause]
        if not named or self._limit():
            return False
        self._mark_unwatched(named, cause)
        self._report(self._all_roots())  # events since the last look are lost
        return True

    def _mark_unwatched(self, tops: Iterable[str], cause: str) -> None:
        """Mark roots as not watched for a minute; they are polled for so long."""
        fresh = {top: _WatchTrouble(cause, time.monotonic() + _TROUBLE_S) for top in tops}
        if fresh.keys() - self._troubles.keys():
            logger.warning("roots are polled roots=%d cause=%s", len(fresh), cause)
        self._troubles = {**self._troubles, **fresh}

    def _end_troubles(self, now: float) -> bool:
        """Drop the trouble of roots that may be watched again now; return True if there are any."""
        over = [top for top, trouble in self._troubles.items() if trouble.until <= now]
        if over:
            self._troubles = {top: each for top, each in self._troubles.items() if top not in over}
        return bool(over)

    def _handle_failure(self, error: Exception, pause_s: float) -> float:
        """Set the state after a failure, report every root, return the seconds until the next attempt."""
        limited = self._limit()
        self._set_state(f"polling: {limited}" if limited else f"restarting: {_cause(error)}")
        self._report(self._all_roots())
        return _POLL_S if limited else pause_s

    def _limit(self) -> str:
        """Return the kernel limit that prevents watches of all directories, or ""."""
        return watch_refusal(directory.path for directory in WatchedPlaces(self._roots).on_disk())

    def _set_watched(self, watched: frozenset[Watched], touched: Mapping[str, frozenset[str]]) -> None:
        """Set the state to inotify with these watched directories, and report touched roots."""
        self._set_state("inotify", watched)
        self._report(touched)

    def _set_state(self, state: str, watched: frozenset[Watched] = frozenset()) -> None:
        """Set the state and the watched directories that status shows; log a new state."""
        self.watched = watched
        if state != self.state:
            level = logging.INFO if state in ("inotify", "stopped") else logging.WARNING
            logger.log(level, "watcher state=%r watches=%d", state, len(watched))
        self.state = state

    def _all_roots(self) -> dict[str, frozenset[str]]:
        return {root.top: EVERYTHING for root in self._roots}

    def _report(self, touched: Mapping[str, frozenset[str]]) -> None:
        """Call `on_change` for each of these roots, with its changed files."""
        for top, files in touched.items():
            self._on_change(top, files)


class _WatchTrouble(msgspec.Struct, frozen=True):
    """Reason why a root is not watched, and the end of that state in seconds of `time.monotonic`."""

    cause: str
    until: float


class _Watches(msgspec.Struct, frozen=True):
    """Watches of the backend with their directories, and the barrier that marks the end of events."""

    notify: RustNotify
    places: WatchedPlaces
    watched: frozenset[Watched]
    mark: WatchBarrier

    def close(self) -> None:
        self.notify.close()
        self.mark.close()


def _begin_watching(places: WatchedPlaces) -> _Watches | None:
    """Watch the existing directories; None if one disappeared or was replaced at this moment."""
    watched, mark = places.on_disk(), WatchBarrier()
    marks = [mark.path] if mark.is_there else []
    try:
        notify = RustNotify(
            [*(directory.path for directory in sorted(watched)), *marks],
            debug=False,
            force_polling=False,
            poll_delay_ms=0,
            recursive=False,
            ignore_permission_denied=False,  # True would hide every failure, limits too
        )
    except BaseException as error:
        mark.close()
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return None
        raise
    standing = _Watches(notify, places, watched, mark)
    if places.on_disk() == watched:
        return standing
    standing.close()
    return None


def _await_closed() -> None:
    """Wait up to 0.5 s until closed watches leave this process at most two inotify instances."""
    until = time.monotonic() + _LAST_LOOKS_S
    while count_inotify_instances() > _MOST_HELD and time.monotonic() < until:
        time.sleep(_CLOSING_S)


def _cause(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


class Watched(msgspec.Struct, frozen=True, order=True):
    """A directory under watch, by path, device and inode, which tell if it was replaced."""

    path: str
    device: int
    inode: int


class WatchedPlaces:
    """Watched paths of a set of roots: memory folders, and the directories that they depend on."""

    def __init__(self, roots: tuple[Root, ...]) -> None:
        self._roots = roots
        self._memories = {directory: root.top for root in roots for directory in root.directories}
        self._structure: dict[str, set[str]] = {}
        for root in roots:
            for directory in (*below(root), *upwards(root.top)):
                self._structure.setdefault(directory, set()).add(root.top)

    def on_disk(self) -> frozenset[Watched]:
        """Return the existing directories of these roots to watch; unreadable ones are left to the scan."""
        found = set[Watched]()
        for root in self._roots:
            nearest = next(filter(None, map(_watched_at, upwards(root.top))), None)
            candidates = (*map(_watched_at, below(root)), nearest)
            found.update(directory for directory in candidates if directory is not None)
        return frozenset(found)

    def touched_between(
        self, before: frozenset[Watched], now: frozenset[Watched]
    ) -> dict[str, frozenset[str]]:
        """Return roots with an appeared or disappeared directory; absent roots are watched by parents."""
        changed = {directory.path for directory in before ^ now}
        there = {directory.path for directory in now}
        tops = (
            root.top
            for root in self._roots
            if changed & {root.top, *below(root)}
            or (root.top not in there and changed & set(upwards(root.top)))
        )
        return dict.fromkeys(tops, EVERYTHING)

    def affected(self, changes: set[tuple[int, str]]) -> tuple[dict[str, frozenset[str]], bool]:
        """Return roots that changes touch with changed files, and if a watched directory came or went.

        Without files, any file of a root may have changed. The second value is True for such a directory.
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


def below(root: Root) -> tuple[str, ...]:
    """Return the directories of a root that are watched if they exist."""
    return (*root.directories, os.path.dirname(root.directories[0]))


def _watched_at(path: str) -> Watched | None:
    """Return the readable directory at a path with its device and inode, else None."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    readable = stat.S_ISDIR(status.st_mode) and os.access(path, os.R_OK)
    return Watched(path, status.st_dev, status.st_ino) if readable else None


class WatchBarrier:
    """A nameless file among the watched directories that marks the end of their events.

    The kernel reports in order, but the backend's thread may deliver late. Before old watches end, the
    barrier is touched, and all events before it belong to them. Linux only (`is_there`).
    """

    def __init__(self) -> None:
        self._descriptor = _open_memfd()
        self.path = f"/proc/self/fd/{self._descriptor}"
        self.is_there = self._descriptor >= 0 and os.path.exists(self.path)

    def set(self) -> None:
        """Touch the barrier's file, so that its watch reports it after all earlier events."""
        if self.is_there:
            os.utime(self._descriptor)

    def is_in(self, changes: object) -> bool:
        """Return True if the barrier is among the reported changes: all earlier events are there then."""
        return isinstance(changes, set) and any(path == self.path for _, path in changes)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor, self.is_there = -1, False


def _open_memfd() -> int:
    if sys.platform != "linux":
        return -1
    try:
        return os.memfd_create("forged-watches")
    except OSError:  # no descriptor is left; the watches report that
        return -1
