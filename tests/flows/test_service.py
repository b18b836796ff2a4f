"""forgectl as a person runs it where a real `systemd --user` answers: install, stop, look, uninstall."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clock import eventually
from tests.support.daemon import (
    FORGECTL,
    FORGED,
    UserManager,
    needs_user_manager,
    user_manager,
)

pytestmark = [pytest.mark.long, needs_user_manager]


@pytest.fixture
def manager(home: Path) -> Iterator[UserManager]:
    (home / ".config/forged").mkdir(parents=True)
    (home / ".config/forged/config.toml").write_text('[memory]\nembedding_model = "builtin:lexical"\n')
    with user_manager(home) as manager:
        yield manager


def forgectl(manager: UserManager, *arguments: str, code: int = 0) -> str:
    """What forgectl prints, and on which exit code it must end."""
    done = manager.run(FORGECTL, *arguments)
    assert done.returncode == code, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def pid_of(manager: UserManager) -> int:
    return json.loads(forgectl(manager, "status", "--json"))["pid"]


def active(manager: UserManager, unit: str) -> str:
    return manager.shown(unit, "ActiveState")["ActiveState"]


def test_a_daemon_that_ran_by_itself_becomes_a_service_and_one_by_itself_again(manager):
    assert "pong" in forgectl(manager, "ping")
    by_itself = pid_of(manager)

    installed = forgectl(manager, "service", "install")

    assert f"stopped the daemon that ran without systemd, pid {by_itself}\n" in installed
    assert f"systemd listens at {manager.socket}" in installed
    with manager.client() as client:  # the first request starts it
        assert client.status().status == "ok"
    service = manager.shown("forged.service", "MainPID", "ExecStart")
    assert service["MainPID"] == str(pid_of(manager))
    assert f"path={FORGED} " in service["ExecStart"]
    assert f"pid {pid_of(manager)}" in forgectl(manager, "service", "status")

    removed = forgectl(manager, "service", "uninstall")

    assert f"the daemon has ended, pid {service['MainPID']}" in removed
    assert list((manager.home / ".config/systemd/user").iterdir()) == []
    assert manager.shown("forged.socket", "LoadState")["LoadState"] == "not-found"
    forgectl(manager, "status", code=3)
    assert "pong" in forgectl(manager, "ping")


def test_a_service_that_is_stopped_is_started_by_the_next_request_unless_its_socket_is_stopped_too(manager):
    forgectl(manager, "service", "install")
    assert "pong" in forgectl(manager, "ping")
    first = pid_of(manager)

    stopped = forgectl(manager, "stop")

    assert f"stopped forged, pid {first}\n" in stopped
    assert "it starts again on next use, by systemd's socket; `forgectl stop --socket`" in stopped
    assert (active(manager, "forged.service"), active(manager, "forged.socket")) == ("inactive", "active")
    assert "pong" in forgectl(manager, "ping", "--no-autostart")
    second = pid_of(manager)
    assert second != first
    restarted = forgectl(manager, "restart")
    assert restarted == f"systemd has restarted forged: pid {pid_of(manager)}, before {second}\n"

    stopped = forgectl(manager, "stop", "--socket")

    assert "stopped systemd's socket\n" in stopped
    assert "by systemd's socket" not in stopped
    assert active(manager, "forged.socket") == "inactive"
    forgectl(manager, "ping", "--no-autostart", code=3)
    assert "pong" in forgectl(manager, "ping")  # by systemd again, for a client that may start it
    assert active(manager, "forged.socket") == "active"


def test_stopping_a_service_that_fails_over_and_over_ends_that(manager):
    """Between two attempts there is no daemon, and systemd is about to start one."""
    forgectl(manager, "service", "install")
    os.makedirs(f"{manager.home}/.config/systemd/user/forged.service.d")
    Path(manager.home, ".config/systemd/user/forged.service.d/broken.conf").write_text(
        "[Service]\nExecStart=\nExecStart=/bin/false\nRestartSec=60\n"
    )
    manager.systemctl("daemon-reload")
    manager.systemctl("start", "--no-block", "forged.service")
    eventually(lambda: manager.shown("forged.service", "SubState")["SubState"] == "auto-restart")

    assert "forged is not running" in forgectl(manager, "stop")

    assert active(manager, "forged.service") == "inactive"
    assert "disabled and stopped" in forgectl(manager, "service", "uninstall")
    assert "broken.conf" in {file.name for file in Path(manager.home, ".config/systemd").rglob("*")}
