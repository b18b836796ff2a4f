"""Daemon behind the real `systemd-socket-activate`, with its messages to the service manager."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon.process import DaemonProcess
from tests.support.daemon.processes import is_listening

_ACTIVATE = shutil.which("systemd-socket-activate")

needs_activation = pytest.mark.skipif(
    _ACTIVATE is None, reason="systemd-socket-activate is not installed here"
)


@dataclass(frozen=True)
class Activated:
    """`process` is systemd-socket-activate, which becomes the daemon at the first connection."""

    daemon: DaemonProcess
    process: subprocess.Popen[bytes]
    notify: socket.socket


@contextlib.contextmanager
def activated(home: Path, **variables: str) -> Iterator[Activated]:
    """Run the daemon's command line with these variables, and own its notify socket."""
    daemon = DaemonProcess(home)
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(daemon.directory / "notify"))
    notify.settimeout(PATIENCE_S)
    os.mkdir(os.path.dirname(daemon.socket), 0o700)
    passed = {**daemon.env, "NOTIFY_SOCKET": str(daemon.directory / "notify"), **variables}
    settings = [f"--setenv={name}={value}" for name, value in passed.items()]
    command = [sys.executable, "-m", "forged", "serve"]
    process = subprocess.Popen(
        [str(_ACTIVATE), "-l", daemon.socket, "--fdname=forged", *settings, *command],
        env={"PATH": os.environ["PATH"]},
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: is_listening(daemon.socket))
        yield Activated(daemon, process, notify)
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        notify.close()
        daemon.close()
