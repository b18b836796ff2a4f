"""The daemon under a service manager: socket activation, readiness, watchdog, a clean stop.

`systemd-socket-activate` is the real one; the notify socket is the test's own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from forged_client import Client
from tests.support.daemon import DaemonProcess, eventually

_ACTIVATE = shutil.which("systemd-socket-activate")

pytestmark = pytest.mark.skipif(_ACTIVATE is None, reason="systemd-socket-activate is not installed here")


@pytest.fixture
def activated(home):
    """The daemon's command line waiting behind systemd-socket-activate, and what it tells its manager."""
    daemon = DaemonProcess(home)
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(daemon.directory / "notify"))
    notify.settimeout(20)
    os.mkdir(os.path.dirname(daemon.socket), 0o700)
    passed = {**daemon.env, "NOTIFY_SOCKET": str(daemon.directory / "notify"), "WATCHDOG_USEC": "400000"}
    settings = [f"--setenv={name}={value}" for name, value in passed.items()]
    process = subprocess.Popen(
        [
            _ACTIVATE,
            "-l",
            daemon.socket,
            "--fdname=forged",
            *settings,
            sys.executable,
            "-m",
            "forged",
            "serve",
        ],
        env={"PATH": os.environ["PATH"]},
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        eventually(lambda: os.path.exists(daemon.socket), 10)
        yield daemon, process, notify
    finally:
        process.kill()
        process.communicate(timeout=10)
        notify.close()
        daemon.close()


def test_the_first_connection_starts_the_daemon_which_says_ready(activated):
    daemon, process, notify = activated

    with Client(daemon.socket, timeout_s=20, strict=True) as client:
        pid = client.status().pid

    assert pid == process.pid  # systemd-socket-activate replaces itself
    assert notify.recv(1024).startswith(b"READY=1")


def test_the_watchdog_is_fed_in_time(activated):
    daemon, _, notify = activated
    with Client(daemon.socket, timeout_s=20, strict=True) as client:
        client.ping()
    notify.recv(1024)

    notify.settimeout(5)

    assert [notify.recv(1024) for _ in range(3)] == [b"WATCHDOG=1"] * 3


def test_sigterm_says_stopping_and_leaves_the_socket_to_its_owner(activated):
    daemon, process, notify = activated
    with Client(daemon.socket, timeout_s=20, strict=True) as client:
        client.ping()

    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0

    told = b""
    while b"STOPPING=1" not in told:
        told = notify.recv(1024)
    assert Path(daemon.socket).is_socket()
