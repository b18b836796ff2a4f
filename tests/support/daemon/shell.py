"""forgectl as a process of its own, in a pipe or on a terminal, as a person at a shell runs it."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from forged_client import Client
from tests.support.clock import PATIENCE_S
from tests.support.daemon.process import lexical_by_default
from tests.support.daemon.processes import state_of, wait_for_end
from tests.support.daemon.terminals import shell_of_its_own

FORGECTL = os.path.join(os.path.dirname(sys.executable), "forgectl")
FORGED = os.path.join(os.path.dirname(sys.executable), "forged")
_ELSEWHERE = """
import sys
sys.executable, sys.argv = {python!r}, ["forgectl", *{arguments!r}]
from forged.cli import main
main()
"""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, object]:
        """Return the one object on stdout."""
        assert self.out.startswith('{"schema_version":1,'), (self.out, self.err)
        assert self.out.count("\n") == 1
        return msgspec.json.decode(self.out)


@dataclass(frozen=True)
class Shell:
    """A person's shell: `home`, the daemon's address, and the current directory.

    `program` is run by `start` and `on_terminal` in place of forgectl.
    """

    home: Path
    socket: str
    directory: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = (FORGECTL,)

    @property
    def env(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "FORGED_SOCKET": self.socket,
            **lexical_by_default(self.home),
            **self.extra,
        }

    def run(self, *arguments: str, stdin: str = "", program_folder: Path | None = None) -> Outcome:
        """Run forgectl to its end; `program_folder` is used as the folder of its interpreter and `forged`."""
        elsewhere = _ELSEWHERE.format(python=f"{program_folder}/python", arguments=arguments)
        done = subprocess.run(
            [sys.executable, "-P", "-c", elsewhere] if program_folder else [FORGECTL, *arguments],
            env=self.env,
            cwd=self.directory,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def run_as_person(self, *arguments: str) -> str:
        """Run forgectl at a terminal, without any process of the tests above it; return its output."""
        command = f"{shlex.join([FORGECTL, *arguments])}; true"
        with shell_of_its_own(command, env=self.env, folder=self.directory) as lines:
            return "\n".join(lines)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.program, *arguments],
            env=self.env,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def on_terminal(
        self, *arguments: str, act: Callable[[Terminal], None] = lambda _: None
    ) -> tuple[int, str]:
        """Run forgectl on a terminal of its own; `act` may wait and type. Return exit code and output."""
        pid, descriptor = pty.fork()
        if pid == 0:
            os.chdir(self.directory)
            os.execve(self.program[0], [*self.program, *arguments], {**self.env, "TERM": "xterm"})
        terminal = Terminal(descriptor, pid)
        try:
            act(terminal)
            while terminal.read():
                pass
            _, status = os.waitpid(pid, 0)
            return os.waitstatus_to_exitcode(status), terminal.text
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        finally:
            os.close(descriptor)

    def stop_daemon(self) -> None:
        """Send SIGTERM to the daemon at the address, and wait until it is gone."""
        with Client(self.socket) as client:
            pid = client.status().pid
        if pid:
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGTERM)
            wait_for_end(pid)


class Terminal:
    """The other end of a terminal."""

    def __init__(self, descriptor: int, pid: int) -> None:
        self.text = ""
        self._pid = pid
        self._descriptor = descriptor
        self._until = time.monotonic() + PATIENCE_S

    def read(self) -> bool:
        """Read the output so far; return False at the end."""
        ready, _, _ = select.select([self._descriptor], [], [], max(self._until - time.monotonic(), 0))
        assert ready, f"nothing more came: {self.text!r}"
        with contextlib.suppress(OSError):  # Linux answers a terminal without writers with EIO
            data = os.read(self._descriptor, 1 << 16)
            self.text += data.decode()
            return bool(data)
        return False

    def wait_for(self, part: str) -> None:
        while part not in self.text:
            assert self.read(), f"ended without {part!r}: {self.text!r}"

    def type(self, keys: str) -> None:
        """Type once the process sleeps: Python loses a Ctrl-C that comes just before it begins to read."""
        while state_of(self._pid) == "R":
            time.sleep(0.005)
        os.write(self._descriptor, keys.encode())
