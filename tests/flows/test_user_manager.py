"""The daemon under a real `systemd --user`: what a person has who installed the units."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clock import eventually
from tests.support.daemon import UserManager, needs_user_manager, user_manager

pytestmark = needs_user_manager


@pytest.fixture
def manager(home: Path) -> Iterator[UserManager]:
    with user_manager(home) as manager:
        yield manager


@pytest.mark.inotify
def test_the_first_request_starts_the_service_and_one_during_a_restart_waits(manager):
    manager.install()
    first = asked(manager)

    manager.systemctl("restart", "--no-block", "forged.service")
    second = eventually(lambda: (now := asked(manager)) != first and now)

    assert str(second) == manager.shown("forged.service", "MainPID")["MainPID"]


def asked(manager: UserManager) -> int:
    """Process id of the daemon that answers."""
    with manager.client() as client:
        return client.status().pid
