"""`forgectl restart` and `stop` as typed, and the effect of a wrong configuration."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from forged.cli import process
from forged.cli.call import Invocation
from forged_client import Client
from tests.support.clock import eventually
from tests.support.daemon import FORGECTL, Shell, needs_user_manager, processes_with, user_manager

pytestmark = pytest.mark.long

_RIGHT = '[memory]\nembedding_model = "builtin:lexical"\n'
_WRONG = "[memory]\nretrieval_top_k = 900\n"


def configure(home: Path, text: str) -> None:
    (home / ".config/forged").mkdir(parents=True, exist_ok=True)
    (home / ".config/forged/config.toml").write_text(text)


@pytest.fixture
def shell(home: Path, repo: Path) -> Iterator[Shell]:
    """A HOME without any daemon; whichever is started is stopped."""
    configure(home, _RIGHT)
    with tempfile.TemporaryDirectory(prefix="fg") as directory:
        shell = Shell(home, f"{directory}/s/forged.sock", repo)
        try:
            yield shell
            configure(home, _RIGHT)
            assert shell.run("stop").code == 0
            assert eventually(lambda: not processes_with(shell.socket))
        finally:
            for left in processes_with(shell.socket):
                os.kill(left, signal.SIGKILL)


def serves(shell: Shell) -> int:
    """Process id of the daemon, 0 if there is none; starts nobody."""
    with Client(shell.socket) as client:
        return client.status().pid


def test_restart_puts_another_daemon_in_the_place_of_one_that_runs_and_stop_ends_it(shell):
    started = shell.run("restart", "--json")
    first = serves(shell)
    assert (started.code, started.json["way"], started.json["pid"]) == (0, "started", first)

    with Client(shell.socket) as attached:
        assert attached.ping().status == "ok"
        restarted = shell.run("restart", "--json")
        second = serves(shell)
        assert attached.ping().status == "ok"

    assert (restarted.code, restarted.json["way"]) == (0, "handed_over")
    assert (restarted.json["before"], restarted.json["pid"]) == (first, second)
    assert second not in {0, first}
    stopped = shell.run("stop", "--json")
    assert (stopped.code, stopped.json["pid"], stopped.json["killed"]) == (0, second, False)
    assert serves(shell) == 0


def test_a_wrong_configuration_ends_no_daemon_and_once_mended_the_next_request_is_served(shell, home):
    shell.run("ping")
    first = serves(shell)
    configure(home, _WRONG)

    refused = shell.run("restart")

    assert (refused.code, refused.out) == (os.EX_CONFIG, "")
    assert "memory.retrieval_top_k" in refused.err
    assert serves(shell) == first
    assert shell.run("stop").code == 0
    assert shell.run("ping").code == os.EX_CONFIG
    configure(home, _RIGHT)
    assert shell.run("ping").code == 0


@pytest.mark.long
@needs_user_manager
def test_under_systemd_a_restart_with_a_wrong_configuration_is_refused_until_it_is_mended(home):
    configure(home, _RIGHT)
    with user_manager(home) as manager, manager.client(strict=False) as client:
        manager.install()
        before = client.status().pid
        configure(home, _WRONG)

        refused = manager.run(FORGECTL, "restart")

        assert (refused.returncode, client.status().pid) == (os.EX_CONFIG, before)
        assert "memory.retrieval_top_k" in refused.stderr
        manager.run("systemctl", "--user", "restart", "forged.service")  # all the same
        reported = eventually(lambda: (now := client.ping()).status == "error" and now)
        assert "memory.retrieval_top_k" in reported.reason
        eventually(lambda: manager.shown("forged.service", "SubState")["SubState"] == "failed")
        configure(home, _RIGHT)
        assert client.ping().status == "ok"  # the very next request
        restarted = manager.run(FORGECTL, "restart", "--json")
        assert (restarted.returncode, msgspec.json.decode(restarted.stdout)["way"]) == (0, "manager")


def test_where_the_system_does_not_tell_of_processes_the_daemon_says_which_it_is(shell, monkeypatch):
    shell.run("ping")
    monkeypatch.setattr(process, "_PROCESSES", "/nowhere")
    call = Invocation(workspace=str(shell.directory), environ=shell.env)

    assert process.running_pid(call) == serves(shell) != 0
    Path(f"{shell.socket}.lock").write_text(f"{os.getpid()}\n")
    assert process.running_pid(call) == 0
    Path(f"{shell.socket}.lock").write_text(f"{serves(shell)}\n")
