"""`forgectl stop` and `restart` with a real daemon; tests of systemd are in flows."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess, running


@pytest.fixture
def served(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaemonProcess]:
    with running(home) as daemon:
        monkeypatch.setenv("FORGED_SOCKET", daemon.socket)
        yield daemon


def test_stop_starts_no_one_and_what_does_not_run_is_no_failure(forgectl, no_daemon):
    stopped = forgectl("stop")

    assert (stopped.code, stopped.out, stopped.err) == (0, "forged is not running\n", "")
    assert not os.path.exists(os.path.dirname(no_daemon))


def test_a_record_of_a_daemon_that_was_killed_ends_no_other_process(forgectl, served):
    """Its number may be somebody else's by now."""
    served.kill()
    with subprocess.Popen(["sleep", "60"]) as bystander:
        Path(f"{served.socket}.lock").write_text(f"{bystander.pid}\n")

        stopped = forgectl("stop")

        assert (stopped.out, bystander.poll()) == ("forged is not running\n", None)
        bystander.kill()
