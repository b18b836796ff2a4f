"""The daemon's process and its surroundings: threads, the last resort to end it, its program on record."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from forged.daemon import listening, systemd
from forged.errors import ForgedError
from forged.files import atomic
from forged_client import framing
from forged_client.autostart import RECORD_NAME
from forged_client.protocol import Failed

logger = logging.getLogger(__name__)


def record(state_dir: str) -> None:
    """Write down the `forged` beside this interpreter, if there is one; a failure is only logged."""
    program = os.path.join(os.path.dirname(sys.executable), "forged")
    if not os.access(program, os.X_OK):
        return
    try:
        listening.private_directory(state_dir)
        file, line = Path(state_dir, RECORD_NAME), os.fsencode(f"{program}\n")
        if not file.exists() or file.read_bytes() != line:
            atomic.replace(str(file), line)
    except (OSError, ForgedError) as error:
        logger.warning("cannot record executable error=%s", error)


def turn_away(env: Mapping[str, str], why: str) -> None:
    """Tell all who wait at the manager's socket why no daemon comes, or it would start us again and again."""
    inherited = systemd.inherited_socket(env, os.getpid())
    if inherited is not None:
        refused = Failed(status="error", reason=why, code="configuration", message=why)
        listening.turn_away(inherited, framing.encode(refused))


class Threads(ThreadPoolExecutor):
    """Threads of `asyncio.to_thread`, one at once: where no further is to be had, those there are do."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="asyncio")
        self.submit(os.getpid).result()

    def _adjust_thread_count(self) -> None:  # there is no public name; in 3.11 to 3.14, a test looks
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise


class HardStop:
    """The end of the process after some seconds, whatever holds it up."""

    def __init__(self, seconds: float, code: int) -> None:
        self._timer: threading.Timer | None = threading.Timer(seconds, os._exit, (code,))
        self._timer.daemon = True
        try:
            self._timer.start()
        except RuntimeError:
            # The system has no thread for it: the kernel's timer says less, and ends as well.
            self._timer = None
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        else:
            signal.setitimer(signal.ITIMER_REAL, 0)


def one_for_each_disk(folders: Sequence[str]) -> tuple[str, ...]:
    firsts: dict[int, str] = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            firsts.setdefault(os.stat(folder).st_dev, folder)
    return tuple(firsts.values())
