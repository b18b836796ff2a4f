"""The daemon under a service manager: socket activation, readiness, watchdog, a clean stop.

`systemd-socket-activate` is the real one; the notify socket is the test's own.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged_client import Client
from tests.support.clock import PATIENCE_S
from tests.support.daemon import Activated, activated, needs_activation

pytestmark = needs_activation


@pytest.fixture
def service(home: Path) -> Iterator[Activated]:
    with activated(home, WATCHDOG_USEC="400000") as service:
        yield service


def test_the_first_connection_starts_the_daemon_which_says_ready(service):
    with Client(service.daemon.socket, timeout_s=PATIENCE_S, strict=True) as client:
        pid = client.status().pid

    assert pid == service.process.pid  # systemd-socket-activate replaces itself
    assert service.notify.recv(1024).startswith(b"READY=1")


def test_the_watchdog_is_fed_in_time(service):
    with Client(service.daemon.socket, timeout_s=PATIENCE_S, strict=True) as client:
        client.ping()
    service.notify.recv(1024)

    service.notify.settimeout(PATIENCE_S)

    assert [service.notify.recv(1024) for _ in range(3)] == [b"WATCHDOG=1"] * 3


def test_sigterm_says_stopping_and_leaves_the_socket_to_its_owner(service):
    with Client(service.daemon.socket, timeout_s=PATIENCE_S, strict=True) as client:
        client.ping()

    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(PATIENCE_S) == 0

    told = b""
    while b"STOPPING=1" not in told:
        told = service.notify.recv(1024)
    assert Path(service.daemon.socket).is_socket()
