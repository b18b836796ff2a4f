"""A daemon of its own for a measurement or the demo: its own HOME and socket, gone at the end.

The same program that a user runs, `forged serve`, so that nothing between the files and the reply is left
out. The user's own daemon, files and configuration are never touched.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from forged.errors import ForgedError
from forged_client import Client

_READY_S = 30.0
_LOG_SHOWN = 2000


class NotStarted(ForgedError):  # noqa: N818 - reads as the state it names
    """The daemon did not come up; the message ends with its last words."""


@contextmanager
def daemon(env: Mapping[str, str], log: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A new daemon that answers, which is killed at the end of the block if it still runs.

    `env` is all of its environment, HOME and FORGED_SOCKET included; `options` are those of `forged serve`.
    Raises NotStarted.
    """
    with ExitStack() as ends:
        with log.open("wb") as output, _signals_held():
            process = subprocess.Popen(
                [sys.executable, "-m", "forged", "serve", *options],
                env=dict(env),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            ends.callback(_end, process)
        _wait_for(env["FORGED_SOCKET"], process, log)
        yield process


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and its children; nothing in a scratch directory is worth a longer goodbye."""
    if process.poll() is None:
        os.killpg(os.getpgid(process.pid), signal.SIGKILL)
    process.wait()


@contextmanager
def _signals_held() -> Iterator[None]:
    """A signal that ends this program waits for the end of the block, in which a process is begun.

    Raised before anybody has the process in hand, it would leave that behind. Only the main thread runs
    signal handlers; elsewhere there is nothing to hold. What the process inherits stays as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    held = {number: handler for number, handler in handlers.items() if callable(handler)}
    for held_number in held:
        signal.signal(held_number, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for held_number, handler in held.items():
            signal.signal(held_number, handler)
        for number in came:
            signal.raise_signal(number)


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    with Client(address, timeout_s=_READY_S) as client:
        while client.ping().status != "ok":
            if process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace").strip()[-_LOG_SHOWN:]
                raise NotStarted(f"the daemon did not start: {said or 'it said nothing'}")
            time.sleep(0.01)
