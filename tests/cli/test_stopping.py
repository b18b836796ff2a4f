"""`forgectl stop` and `restart` beside a real daemon; systemd's part is tried with the real one, in flows."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.cli.process import Restarted
from forged.cli.stopping import outcome
from tests.support.clock import PATIENCE_S
from tests.support.daemon import DaemonProcess, running


@pytest.fixture
def served(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaemonProcess]:
    with running(home) as daemon:
        monkeypatch.setenv("FORGED_SOCKET", daemon.socket)
        yield daemon


def test_stop_ends_the_daemon_and_says_who_starts_it_again(forgectl, served):
    stopped = forgectl("stop")

    assert (stopped.code, stopped.out) == (0, f"stopped forged, pid {served.pid}\n")
    assert "the next `forgectl` or agent that may start it starts it again" in stopped.err
    assert served.process.wait(PATIENCE_S) == 0
    again = forgectl("stop", "--json")
    assert (again.code, again.json["pid"], again.err) == (0, 0, "")


def test_stop_starts_nobody_and_what_does_not_run_is_no_failure(forgectl, no_daemon):
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


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (Restarted(7, 6, "handed_over"), "forged, pid 7, has taken over from pid 6"),
        (Restarted(7, 6, "stopped"), "restarted forged: pid 7, before 6"),
        (Restarted(7, 0, "manager"), "systemd has restarted forged: pid 7, before none"),
        (Restarted(7, 0, "started"), "started forged, pid 7: none was running"),
    ],
    ids=lambda value: getattr(value, "way", ""),
)
def test_restart_says_which_process_serves_and_how_it_came_to(now, told):
    assert outcome(now) == told
