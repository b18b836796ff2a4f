"""A real daemon process for a test: own HOME and socket, ready when it reports so, gone at the end."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from forged_client import Client
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon.trusting import trusting

_MINUTE_S = 60.0
_HEALS_S = 6.0
T = TypeVar("T")
ALTERED = (sys.executable, str(Path(__file__).with_name("altered.py")))
# Python's messages in a worker whose daemon was killed during its start.
_UNBORN = re.compile(
    r"Traceback \(most recent call last\):\n(?:  .*\n)*?  .* in spawn_main\n(?:  .*\n)*"
    r"(?:EOFError|_pickle\.\w+).*\n"
)


def lexical_by_default(home: Path) -> dict[str, str]:
    """Keep `auto` from loading the local model, which takes seconds of CPU, unless a test wants it."""
    file = home / ".config/forged/config.toml"
    if file.exists() and "embedding_model" in file.read_text():
        return {}
    return {"FORGED_MEMORY__EMBEDDING_MODEL": "builtin:lexical"}


class DaemonProcess:
    """`forged serve` under a HOME of its own; its socket path is short, so not under tmp_path."""

    def __init__(
        self,
        home: Path,
        *,
        env: Mapping[str, str] | None = None,
        config: str = "",
        command: Sequence[str] = (sys.executable, "-m", "forged"),
    ) -> None:
        self.home = home
        self._command = (*command, "serve")
        self.directory = Path(tempfile.mkdtemp(prefix="fg"))
        self._trusted: set[str] = set()
        self.socket = str(self.directory / "s" / "forged.sock")
        self.log_path = self.directory / "log"
        (home / ".config/forged").mkdir(parents=True, exist_ok=True)
        if config:
            (home / ".config/forged/config.toml").write_text(config)
        self.env = {
            "HOME": str(home),
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "FORGED_SOCKET": self.socket,
            "PYTHONWARNINGS": "error",
            **{k: v for k, v in os.environ.items() if k.startswith("OPENBLAS_")},
            **lexical_by_default(home),
            **(env or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        """Start the daemon, and wait until it has sent READY=1 to a notify socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            path = str(self.directory / "notify")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            notify.bind(path)
            notify.settimeout(PATIENCE_S)
            with open(self.log_path, "ab") as log:
                self.process = subprocess.Popen(
                    [*self._command, *options],
                    env={**self.env, "NOTIFY_SOCKET": path},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    start_new_session=True,
                )
            try:
                while b"READY=1" not in notify.recv(4096):
                    pass
            except TimeoutError:
                self.kill()
                raise AssertionError(f"the daemon did not become ready:\n{self.log()}") from None

    def replace(self) -> subprocess.Popen[bytes]:
        """Replace this daemon by another one, and wait until that is ready; return the old process."""
        old = self.process
        assert old is not None
        self.start("--replace")
        return old

    def successor(self, *command: str) -> subprocess.Popen[bytes]:
        """Start another daemon that takes over; the caller waits for it, and ends it."""
        program = (*command, "serve") if command else self._command
        with open(self.log_path, "ab") as log:
            return subprocess.Popen(
                [*program, "--replace"], env=self.env, stdout=log, stderr=log, cwd="/", start_new_session=True
            )

    def client(self, *, trusts: bool = True, **options: object) -> Client:
        """Return a client; with `trusts`, of a person who trusts every repository."""
        options = {"timeout_s": PATIENCE_S, **options}
        if trusts:
            return trusting(self.socket, self._trusted, **options)
        return Client(self.socket, **options)  # type: ignore[arg-type]

    def trust(self, *tops: Path) -> None:
        """Trust repositories for another process."""
        with Client(self.socket, timeout_s=PATIENCE_S, strict=True) as client:
            for top in tops:
                client.trust(str(top), action="trust")

    def pass_a_minute(self) -> None:
        """Advance the clock of an altered daemon while it is idle."""
        assert self._command[1] == ALTERED[1], "this daemon goes by the real clock"
        with self.client(trusts=False) as client:
            before = client.status().uptime_s
            os.kill(self.pid, signal.SIGUSR2)
            eventually(lambda: client.status().uptime_s > before + _MINUTE_S)

    def within_minutes(self, check: Callable[[], T], minutes: int = 3) -> T:
        """Return the true result of `check`, after advancing the clock a few minutes if needed.

        A call that began before time was advanced may end after it, and its result counts from then.
        """
        for _ in range(minutes - 1):
            self.pass_a_minute()
            with contextlib.suppress(AssertionError):
                return eventually(check, _HEALS_S)
        self.pass_a_minute()
        return eventually(check)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def assert_no_traceback(self) -> None:
        """Assert that the log has no traceback, but those of workers whose daemon was killed."""
        assert "Traceback" not in _UNBORN.sub("", self.log()), self.log()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """Send SIGTERM and wait; return the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL the daemon alone: its worker and Python's resource tracker have to end by themselves."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def running(
    home: Path,
    *,
    env: Mapping[str, str] | None = None,
    config: str = "",
    clocked: bool = False,
    constants: Sequence[str] = (),
) -> Iterator[DaemonProcess]:
    """Yield a started daemon; at the end it is gone and its log holds no traceback.

    The clock of a `clocked` one can be advanced; `constants` are changed as in `altered.py`.
    """
    command = {"command": (*ALTERED, *constants)} if clocked or constants else {}
    daemon = DaemonProcess(home, env=env, config=config, **command)
    try:
        daemon.start()
        yield daemon
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.stop()
        daemon.assert_no_traceback()
    finally:
        daemon.close()
