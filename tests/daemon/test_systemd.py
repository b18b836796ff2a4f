"""What is said to systemd, on real sockets and under the real systemd-socket-activate."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forged.daemon import systemd
from tests.support.clock import PATIENCE_S

REPO = Path(__file__).parents[2]
ACTIVATE = shutil.which("systemd-socket-activate")

SERVICE = """
import os, socket
from forged.daemon import systemd
env = dict(os.environ)
fd = systemd.inherited_socket(env, os.getpid())
for name in systemd.consumed(env):
    del os.environ[name]
systemd.notify(env, "READY=1")
listener = socket.socket(fileno=fd)
peer, _ = listener.accept()
left = [name for name in os.environ if name.startswith(("LISTEN_", "NOTIFY_"))]
peer.sendall(f"fd={fd} inheritable={os.get_inheritable(fd)} left={left}".encode())
systemd.notify(env, "STOPPING=1")
"""


@pytest.fixture
def manager(tmp_path):
    """The receiving end of NOTIFY_SOCKET."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(PATIENCE_S)
        yield receiver


def test_states_reach_the_service_manager(manager):
    env = {"NOTIFY_SOCKET": manager.getsockname()}

    assert systemd.notify(env, "READY=1\nSTATUS=3 memories, größer")
    assert manager.recv(4096).decode() == "READY=1\nSTATUS=3 memories, größer"


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
    ("env", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "9" * 20}, None),
        ({"WATCHDOG_USEC": "9" * 5000}, None),
    ],
)
def test_watchdog_is_fed_twice_per_allowed_interval(env, seconds):
    assert systemd.watchdog_interval(env) == seconds


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
def test_socket_passed_to_nobody_or_another_process_is_not_taken(env):
    assert systemd.inherited_socket(env, os.getpid()) is None


def test_only_variables_that_are_set_are_named_for_removal():
    env = {"NOTIFY_SOCKET": "/x", "LISTEN_PID": "1", "LISTEN_FDNAMES": "forged", "HOME": "/root"}

    assert sorted(systemd.consumed(env)) == ["LISTEN_FDNAMES", "LISTEN_PID", "NOTIFY_SOCKET"]


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


@pytest.mark.skipif(ACTIVATE is None, reason="systemd-socket-activate is missing: activation NOT checked")
def test_service_started_by_systemd_takes_its_socket_and_says_so(manager, tmp_path):
    path = tmp_path / "forged.sock"
    (tmp_path / "service.py").write_text(SERVICE)
    passed = {"NOTIFY_SOCKET": manager.getsockname(), "PYTHONPATH": str(REPO)}
    options = [f"--setenv={name}={value}" for name, value in passed.items()]
    command = [
        ACTIVATE,
        "-l",
        str(path),
        "--fdname=forged",
        *options,
        sys.executable,
        str(tmp_path / "service.py"),
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as service:
        try:
            answer = ask(path)
            states = [manager.recv(4096), manager.recv(4096)]
            code = service.wait(PATIENCE_S)
        finally:
            service.kill()

    assert answer == "fd=3 inheritable=False left=[]"
    assert states == [b"READY=1", b"STOPPING=1"]
    assert code == 0


def ask(path: Path) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_S)
            try:
                client.connect(str(path))
            except (FileNotFoundError, ConnectionRefusedError):
                assert time.monotonic() < deadline
                time.sleep(0.01)
                continue
            return client.recv(4096).decode()
