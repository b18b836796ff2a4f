"""Notifications to systemd, on real sockets and under the real systemd-socket-activate."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from forged.daemon import systemd
from tests.support.clock import PATIENCE_S

REPO = Path(__file__).parents[2]


@pytest.fixture
def manager(tmp_path):
    """The receiving end of NOTIFY_SOCKET."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(PATIENCE_S)
        yield receiver


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's: NOT checked")
def test_abstract_address_is_understood():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0forged-test-{os.getpid()}")
        receiver.settimeout(PATIENCE_S)

        assert systemd.notify({"NOTIFY_SOCKET": f"@forged-test-{os.getpid()}"}, "WATCHDOG=1")
        assert receiver.recv(4096) == b"WATCHDOG=1"


@pytest.mark.parametrize("address", [None, "", "relative", "vsock:2:1234"])
def test_without_a_usable_address_nothing_is_sent(address):
    env = {} if address is None else {"NOTIFY_SOCKET": address}

    assert not systemd.notify(env, "READY=1")


@pytest.mark.parametrize("address", ["/nowhere/notify", "/" + "x" * 200])
def test_manager_that_is_gone_is_logged_and_harmless(address, caplog):
    assert not systemd.notify({"NOTIFY_SOCKET": address}, "READY=1\nSTATUS=secret")
    assert "READY=1" in caplog.text
    assert "secret" not in caplog.text


def test_manager_that_does_not_read_cannot_hold_the_daemon(manager):
    env = {"NOTIFY_SOCKET": manager.getsockname()}
    sent = 0
    while sent < 100_000 and systemd.notify(env, "WATCHDOG=1"):
        sent += 1

    assert 0 < sent < 100_000


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "0", "LISTEN_PID": str(os.getpid())},
        {"LISTEN_FDS": "no", "LISTEN_PID": str(os.getpid())},
    ],
)
def test_socket_passed_to_no_or_another_process_is_not_taken(env):
    assert systemd.inherited_socket(env, os.getpid()) is None


def test_only_variables_that_are_set_are_named_for_removal():
    env = {"NOTIFY_SOCKET": "/x", "LISTEN_PID": "1", "LISTEN_FDNAMES": "forged", "HOME": "/root"}

    assert sorted(systemd.variables_to_unset(env)) == ["LISTEN_FDNAMES", "LISTEN_PID", "NOTIFY_SOCKET"]


PASS = """
import os, socket, sys
from forged.daemon import systemd
kinds = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM}
made = []
for number, kind in enumerate(sys.argv[2:]):
    if kind == "file":
        fd = os.open("/dev/null", os.O_RDONLY)
    elif kind == "tcp":
        made.append(socket.create_server(("127.0.0.1", 0)))
        fd = made[-1].fileno()
    else:
        made.append(socket.socket(socket.AF_UNIX, kinds[kind.removeprefix("deaf-")]))
        made[-1].bind(f"{os.environ['HOME']}/{number}")
        if kind == "stream":
            made[-1].listen()
        fd = made[-1].fileno()
    assert fd == 3 + number, fd
env = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(sys.argv) - 2), "LISTEN_FDNAMES": sys.argv[1]}
print(systemd.inherited_socket(env, os.getpid()))
os._exit(print(end="", flush=True) or 0)
"""


@pytest.mark.parametrize(
    ("names", "kinds", "taken"),
    [
        ("", ["stream"], "3"),
        ("other:forged", ["stream", "stream"], "4"),
        ("forged:other", ["file", "stream"], "4"),
        ("forged", ["deaf-stream"], "None"),
        ("forged", ["datagram"], "None"),
        ("forged", ["tcp"], "None"),
        ("forged", ["file"], "None"),
    ],
)
def test_only_a_listening_unix_stream_socket_is_taken(names, kinds, taken, home):
    # A process of its own, because the passed descriptors have fixed numbers.
    command = [sys.executable, "-c", PASS, names, *kinds]
    env = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S)

    assert done.stdout.strip() == taken, done.stderr
    assert ("no listening Unix stream socket" in done.stderr) == (taken == "None")
