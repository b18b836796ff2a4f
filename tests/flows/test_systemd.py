"""The daemon under a service manager: its watchdog, and what a person has who installed the units.

`systemd-socket-activate` and `systemd --user` are the real ones; the notify socket is the test's own. More of
what a manager is told is in test_reload.
"""

from __future__ import annotations

import pytest

from forged_client import Client
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import UserManager, activated, needs_activation, needs_user_manager, user_manager


@needs_activation
def test_the_watchdog_is_fed_in_time(home):
    with activated(home, WATCHDOG_USEC="400000") as service:
        with Client(service.daemon.socket, timeout_s=PATIENCE_S, strict=True) as client:
            client.ping()
        service.notify.recv(1024)
        service.notify.settimeout(PATIENCE_S)

        assert [service.notify.recv(1024) for _ in range(3)] == [b"WATCHDOG=1"] * 3


@pytest.mark.inotify
@needs_user_manager
def test_the_first_request_starts_the_service_and_one_during_a_restart_waits(home):
    with user_manager(home) as manager:
        manager.install()
        first = asked(manager)

        manager.systemctl("restart", "--no-block", "forged.service")
        second = eventually(lambda: (now := asked(manager)) != first and now)

        assert str(second) == manager.shown("forged.service", "MainPID")["MainPID"]


def asked(manager: UserManager) -> int:
    """Process id of the daemon that answers."""
    with manager.client() as client:
        return client.status().pid
