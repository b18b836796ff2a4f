"""The daemon's process and its environment: threads, disks, a hard stop, its recorded program."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from forged.daemon import listening, systemd
from forged.daemon.handlers import Daemon
from forged.errors import ForgedError
from forged.files import Root, atomic
from forged.maps import BuildEvent
from forged.memory import Scope
from forged_client import framing
from forged_client.autostart import RECORD_NAME
from forged_client.protocol import Failed

logger = logging.getLogger(__name__)

_DAY_S, _SWEEP_S = 24 * 3600.0, 60.0
# Seconds after which a temporary file is garbage.
_TEMPS_S = 3600.0


def record_program(state_dir: str) -> None:
    """Record the path of this `forged` in the state folder, for clients that start it; only logs errors."""
    program = os.path.join(os.path.dirname(sys.executable), "forged")
    if not os.access(program, os.X_OK):
        return
    try:
        listening.ensure_private_directory(state_dir)
        file, line = Path(state_dir, RECORD_NAME), os.fsencode(f"{program}\n")
        if not file.exists() or file.read_bytes() != line:
            atomic.replace(str(file), line)
    except (OSError, ForgedError) as error:
        logger.warning("cannot record executable error=%s", error)


def turn_away(env: Mapping[str, str], why: str) -> None:
    """Send clients that wait at systemd's socket the reason why no daemon starts, and hang up."""
    inherited = systemd.inherited_socket(env, os.getpid())
    if inherited is not None:
        refused = Failed(status="error", reason=why, code="configuration", message=why)
        listening.turn_away(inherited, framing.encode(refused))


class Threads(ThreadPoolExecutor):
    """Thread pool for `asyncio.to_thread`; if the system refuses a thread, it uses those it has."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="asyncio")
        self.submit(os.getpid).result()

    def _adjust_thread_count(self) -> None:  # no public name; a test checks 3.11 to 3.14
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise


class HardStop:
    """Ends the process with an exit code after some seconds, whatever blocks it, unless cancelled."""

    def __init__(self, seconds: float, code: int) -> None:
        self._timer: threading.Timer | None = threading.Timer(seconds, os._exit, (code,))
        self._timer.daemon = True
        try:
            self._timer.start()
        except RuntimeError:
            # Without a thread for it the kernel's timer ends the process, without a message.
            self._timer = None
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def cancel(self) -> None:
        """Cancel the hard stop: the process goes on."""
        if self._timer is not None:
            self._timer.cancel()
        else:
            signal.setitimer(signal.ITIMER_REAL, 0)


async def housekeeping(daemon: Daemon, state_dir: str) -> None:
    """Once a day erase trash older than 7 days, and temporary files that killed daemons left."""
    while True:
        now = time.time()
        try:
            await asyncio.to_thread(daemon.memories.writer.trash.erase_expired, now)
            await asyncio.to_thread(atomic.sweep_at, state_dir, now - _TEMPS_S)
        except OSError as error:  # no reason to end the daemon
            logger.warning("state directory not tidied error=%s", error)
        await asyncio.sleep(_DAY_S)


async def sweep_sessions(daemon: Daemon) -> None:
    """Once a minute drop expired memories of sessions and their maps, for ever."""
    while True:
        await asyncio.sleep(_SWEEP_S)
        daemon.session_views.sweep()


def record_seen_memories(daemon: Daemon, event: BuildEvent) -> None:
    """After a build of a root, record absent memories that its new map holds as seen again."""
    if event.kind == "swapped" and daemon.state.absences.of_root(event.root):
        for index in daemon.indexer.indexes():
            if index.root.top == event.root and index.map is not None:
                daemon.state.removal.note_seen(event.root, (each.id for each in index.map.memories))


async def try_disks(daemon: Daemon, state_dir: str) -> None:
    """Write a trial to each disk with memories or state, and record refusals: one may still be full."""
    await daemon.trust.wait_until_open()
    roots = [Root(daemon.resolver.home, Scope.USER)]
    roots += [Root(top, Scope.REPO) for top in await daemon.trust.known_tops()]
    folders = [state_dir, *(root.directories[0] for root in roots)]
    await daemon.disk_refusals.try_out(await asyncio.to_thread(_first_folder_of_each_disk, folders))


def _first_folder_of_each_disk(folders: Sequence[str]) -> tuple[str, ...]:
    """Return the first of the folders on each disk, without missing ones."""
    firsts: dict[int, str] = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            firsts.setdefault(os.stat(folder).st_dev, folder)
    return tuple(firsts.values())
