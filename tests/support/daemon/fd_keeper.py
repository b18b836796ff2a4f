"""Fake service manager that keeps descriptors for its service, as systemd does (sd_notify(3)).

It starts the daemon on a listening socket, stores and removes descriptors at FDSTORE=1 and FDSTOREREMOVE=1,
and passes them to the next process. It runs where no systemd does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from forged_client import Client
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon.process import DaemonProcess

# A service manager's descriptors begin at 3, and it names the process that they are for.
_BECOME_THE_DAEMON = """
import fcntl, os, sys
above = [fcntl.fcntl(int(each), fcntl.F_DUPFD, 100) for each in sys.argv[1:]]
for place, descriptor in enumerate(above, 3):
    os.dup2(descriptor, place)
os.closerange(3 + len(above), 300)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, "-m", "forged", "serve"])
"""
_MOST_AT_ONCE = 8


class FdKeeper:
    """`held` are descriptors by name, `messages` all other notifications; `process` is the daemon."""

    def __init__(self, home: Path) -> None:
        self.daemon = DaemonProcess(home)
        self.socket = self.daemon.socket
        self.held: dict[str, int] = {}
        self.messages: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        os.mkdir(os.path.dirname(self.socket), 0o700)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(self.socket)
        self._listening.listen(64)
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(self.daemon.directory / "notify"))
        self._hearing = threading.Thread(target=self._receive, daemon=True)
        self._hearing.start()

    def _receive(self) -> None:
        while True:
            said, descriptors, _, _ = socket.recv_fds(self._notify, 4096, _MOST_AT_ONCE)
            lines = dict(line.split("=", 1) for line in said.decode().splitlines())
            name = lines.get("FDNAME", "")
            if not said:
                return
            if "FDSTORE" in lines:
                (self.held[name],) = descriptors
            elif "FDSTOREREMOVE" in lines:
                os.close(self.held.pop(name))
            else:
                self.messages.append(said.decode())

    def start(self) -> None:
        """Start the daemon with all stored descriptors, and wait until it is ready."""
        passed = {"forged": self._listening.fileno(), **self.held}
        env = {
            **self.daemon.env,
            "NOTIFY_SOCKET": str(self.daemon.directory / "notify"),
            "LISTEN_FDS": str(len(passed)),
            "LISTEN_FDNAMES": ":".join(passed),
        }
        self.messages.clear()
        with open(self.daemon.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _BECOME_THE_DAEMON, *map(str, passed.values())],
                env=env,
                pass_fds=tuple(passed.values()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        eventually(lambda: any("READY=1" in each for each in self.messages))

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send the daemon a signal and wait for its end."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE_S)

    def client(self) -> Client:
        return Client(self.socket, timeout_s=PATIENCE_S, strict=True)

    def close(self) -> None:
        self.end(signal.SIGKILL)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.sendto(b"", self._notify.getsockname())
        self._hearing.join(PATIENCE_S)
        for each in (*self.held.values(), self._notify.detach(), self._listening.detach()):
            os.close(each)
        self.daemon.close()


@contextlib.contextmanager
def fd_keeper(home: Path) -> Iterator[FdKeeper]:
    """Yield a manager with a started daemon; at the end both are gone."""
    keeper = FdKeeper(home)
    try:
        keeper.start()
        yield keeper
    finally:
        keeper.close()
