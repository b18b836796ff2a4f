"""What the demo plays on: a scratch HOME, a repository, a daemon and the agents' processes.

Nothing outside the scratch directory is read or written. Whatever does not come out as promised is raised as
`DemoFailed`, which ends forgectl with EX_SOFTWARE; everything that was started ends with the `with` block.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import click

from forged.cli.call import Invocation
from forged.cli.demo.agent import milliseconds_since
from forged.evaluation.scratch import NotStarted, daemon
from forged_client import Client
from forged_client.protocol import MemoryRecord

VISIBLE_S = 5.0
# A model for the demo to use, if the user has named one.
_MODEL_VARIABLES = (
    *("FORGED_LLM__MODEL", "FORGED_LLM__BASE_URL", "FORGED_LLM__API_KEY"),
    *("OPENAI_API_KEY", "OPENAI_BASE_URL"),
)
_GIT_USER = {
    f"GIT_{who}_{what}": f"demo{at}"
    for who in ("AUTHOR", "COMMITTER")
    for what, at in (("NAME", ""), ("EMAIL", "@localhost"))
}


class DemoFailed(click.ClickException):
    """A step did not come out as promised."""

    exit_code = os.EX_SOFTWARE


class Stage:
    """Scratch HOME, repository, daemon and a client; everything ends with the `with` block."""

    def __init__(self, scratch: Path, call: Invocation) -> None:
        self.home = scratch / "home"
        self.repo = scratch / "repo"
        self._socket = str(scratch / "run" / "forged.sock")
        self._log = scratch / "daemon.log"
        self._ends = contextlib.ExitStack()
        self._env = {
            "HOME": str(self.home),
            "PATH": call.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "FORGED_SOCKET": self._socket,
            "GIT_CONFIG_NOSYSTEM": "1",
            # The same everywhere: a model would find by meaning what step 7 wants reached by a hop.
            "FORGED_MEMORY__EMBEDDING_MODEL": "builtin:lexical",
            **{name: call.environ[name] for name in _MODEL_VARIABLES if name in call.environ},
        }

    def __enter__(self) -> Self:
        self.home.mkdir()
        self.repo.mkdir()
        if self.has_git():
            self.git("init", "-q")
        try:
            self._daemon = self._ends.enter_context(daemon(self._env, self._log))
        except NotStarted as error:
            raise DemoFailed(str(error)) from error
        self.client = self._ends.enter_context(Client(self._socket, timeout_s=VISIBLE_S))
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    @property
    def pid(self) -> int:
        return self._daemon.pid

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def memories(self) -> tuple[MemoryRecord, ...]:
        return self.client.list(str(self.repo)).memories

    def agent(self, act: str, *arguments: str) -> bytes:
        """Run an agent process to its end; returns what it printed."""
        module = "forged.cli.demo.agent"
        return self._run([sys.executable, "-m", module, act, str(self.repo), *arguments], "the agent process")

    def has_git(self) -> bool:
        return shutil.which("git") is not None

    def git(self, *arguments: str) -> None:
        self._run(["git", "-C", str(self.repo), *arguments], f"git {arguments[0]}", _GIT_USER)

    def _run(self, command: list[str], name: str, extra: Mapping[str, str] | None = None) -> bytes:
        env = {**self._env, **(extra or {})}
        done = subprocess.run(command, env=env, cwd=self.home, capture_output=True, timeout=60, check=False)
        if done.returncode:
            raise DemoFailed(f"{name} failed:\n{done.stderr.decode(errors='replace')}")
        return done.stdout

    def stop(self) -> tuple[int, float]:
        """End the daemon as a service manager would; its exit code, and the milliseconds that it took."""
        began = time.perf_counter()
        self._daemon.send_signal(signal.SIGTERM)
        code = self._daemon.wait(10)
        took = milliseconds_since(began)
        expect(code == 0, "the daemon ended cleanly")
        expect(not os.path.exists(self._socket), "the socket is gone")
        return code, took


def expect(holds: bool, promise: str) -> None:
    if not holds:
        raise DemoFailed(f"not as promised: {promise}")
    click.echo(f"  ok: {promise}")


def wait_until(check: Callable[[], bool], complaint: Callable[[], str], within_s: float = VISIBLE_S) -> float:
    """The milliseconds until `check` held. Raises DemoFailed with the complaint if it never does."""
    began = time.perf_counter()
    while not check():
        if time.perf_counter() - began > within_s:
            raise DemoFailed(complaint())
        time.sleep(0.002)
    return milliseconds_since(began)
