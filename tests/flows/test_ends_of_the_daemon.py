"""End of a daemon that cannot start or go on: a sentence, and an exit code for its manager."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged_client import framing
from forged_client.protocol import Failed
from tests.support.clock import PATIENCE_S
from tests.support.daemon import DaemonProcess, activated, needs_activation

WRONG = "[memory]\nretrieval_top_k = 900\n"
# A part of the daemon that has to live as long as it does, and does not.
DYING = """
from forged.files.watcher import Watcher
async def run(self):
    raise RuntimeError("planted")
Watcher.run = run
from forged.__main__ import serve
serve("info")
"""


@pytest.fixture
def daemon(home: Path) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(home)
    try:
        yield daemon
    finally:
        daemon.close()


def served(daemon: DaemonProcess, *command: str) -> tuple[int, str]:
    """Exit code and words of a daemon that ends by itself."""
    command = command or (sys.executable, "-m", "forged", "serve")
    done = subprocess.run(
        command, env=daemon.env, capture_output=True, text=True, timeout=PATIENCE_S, cwd="/"
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("place", "make"),
    [
        ("forged.sock", os.mkdir),
        ("forged.sock.lock", lambda path: os.symlink("/nowhere", path)),
    ],
    ids=["directory", "lock a link"],
)
def test_something_else_in_the_socket_s_place_is_named_and_left_alone(daemon, place, make):
    """What else may lie there is in tests/daemon/test_listening."""
    os.mkdir(os.path.dirname(daemon.socket), 0o700)
    odd = os.path.join(os.path.dirname(daemon.socket), place)
    make(odd)
    before = os.lstat(odd)

    code, reported = served(daemon)

    assert code == os.EX_UNAVAILABLE
    assert reported.splitlines()[-1].startswith(f"forged: {odd} ")
    assert "set FORGED_SOCKET" in reported
    assert "Traceback" not in reported
    assert os.lstat(odd).st_ino == before.st_ino


def test_a_relative_socket_path_is_refused_with_a_sentence(daemon):
    daemon.env["FORGED_SOCKET"] = "forged.sock"

    code, reported = served(daemon)

    assert (code, reported.count("\n")) == (os.EX_CONFIG, 1)
    assert "'forged.sock' is not a socket path: set FORGED_SOCKET to an absolute path" in reported


def test_a_part_that_dies_ends_the_daemon_with_a_code_that_has_it_started_again(daemon):
    code, reported = served(daemon, sys.executable, "-c", DYING)

    assert code == os.EX_SOFTWARE
    assert "task died error=RuntimeError('planted')" in reported
    assert not os.path.exists(daemon.socket)


@needs_activation
def test_who_waits_for_a_daemon_that_cannot_be_configured_hears_why_at_once(home):
    (home / ".config/forged").mkdir(parents=True)
    (home / ".config/forged/config.toml").write_text(WRONG)
    with activated(home) as service, socket.socket(socket.AF_UNIX) as first:
        first.settimeout(PATIENCE_S)
        first.connect(service.daemon.socket)
        received = framing.FrameCutter(65536)
        while (frame := received.take()) is None:
            received.held += first.recv_into(received.room())
        refused = framing.decode_reply(frame)

        assert service.process.wait(PATIENCE_S) == os.EX_CONFIG
    assert isinstance(refused, Failed)
    assert refused.code == "configuration"
    assert "memory.retrieval_top_k" in refused.message
