"""What the demo plays on: a scratch HOME, a repository, a daemon and the agents' processes.

Nothing outside the scratch directory is read or written. Whatever does not come out as promised is raised as
`DemoFailed`, which ends forgectl with EX_SOFTWARE; everything that was started ends with the `with` block.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from forged.cli.call import Invocation
from forged.cli.demo.agent import milliseconds_since
from forged.evaluation import NotStarted, daemon
from forged_client import Client
from forged_client.protocol import MemoryRecord

VISIBLE_S = 5.0
# A model for the demo to use, if the user has named one.
_MODEL_VARIABLES = (
    *("FORGED_LLM__MODEL", "FORGED_LLM__BASE_URL", "FORGED_LLM__API_KEY"),
    *("OPENAI_API_KEY", "OPENAI_BASE_URL"),
)


class DemoFailed(click.ClickException):
    """A step did not come out as promised."""

    exit_code = os.EX_SOFTWARE


class Stage(msgspec.Struct, frozen=True):
    """An empty HOME and repository, and a client of the daemon that serves them."""

    home: Path
    repo: Path
    env: dict[str, str]
    daemon: subprocess.Popen[bytes]
    log: Path
    client: Client

    @property
    def workspace(self) -> str:
        return str(self.repo)

    def said(self) -> str:
        """All that the daemon has logged."""
        return self.log.read_text(errors="replace")

    def memories(self) -> tuple[MemoryRecord, ...]:
        return self.client.list(self.workspace).memories

    def agent(self, act: str, *arguments: str) -> bytes:
        """Run an agent process to its end; returns what it printed."""
        command = (sys.executable, "-m", "forged.cli.demo.agent", act, self.workspace, *arguments)
        return self._run("the agent process", command)

    def git(self, *arguments: str) -> None:
        user = ("-c", "user.name=demo", "-c", "user.email=demo@localhost")
        self._run(f"git {arguments[0]}", ("git", "-C", self.workspace, *user, *arguments))

    def _run(self, name: str, command: Sequence[str]) -> bytes:
        done = subprocess.run(
            command, env=self.env, cwd=self.home, capture_output=True, timeout=60, check=False
        )
        if done.returncode:
            raise DemoFailed(f"{name} failed:\n{done.stderr.decode(errors='replace')}")
        return done.stdout

    def stop(self) -> tuple[int, float]:
        """End the daemon as a service manager would; its exit code, and the milliseconds that it took."""
        began = time.perf_counter()
        self.daemon.send_signal(signal.SIGTERM)
        code = self.daemon.wait(10)
        took = milliseconds_since(began)
        expect(code == 0, "the daemon ended cleanly")
        expect(not os.path.exists(self.env["FORGED_SOCKET"]), "the socket is gone")
        return code, took


@contextmanager
def new_stage(call: Invocation) -> Iterator[Stage]:
    """A stage in a scratch directory; all of it is gone at the end. Raises DemoFailed without a daemon."""
    with tempfile.TemporaryDirectory(prefix="forged-demo-") as directory:
        home, repo, log = (Path(directory, name) for name in ("home", "repo", "daemon.log"))
        home.mkdir()
        repo.mkdir()
        env = {
            "HOME": str(home),
            "PATH": call.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "FORGED_SOCKET": f"{directory}/run/forged.sock",
            "GIT_CONFIG_NOSYSTEM": "1",
            # The same everywhere: a model would find by meaning what step 7 wants reached by a hop.
            "FORGED_MEMORY__EMBEDDING_MODEL": "builtin:lexical",
            **{name: call.environ[name] for name in _MODEL_VARIABLES if name in call.environ},
        }
        try:
            with daemon(env, log) as process, Client(env["FORGED_SOCKET"], timeout_s=VISIBLE_S) as client:
                stage = Stage(home, repo, env, process, log, client)
                if has_git():
                    stage.git("init", "-q")
                yield stage
        except NotStarted as error:
            raise DemoFailed(str(error)) from error


def has_git() -> bool:
    return shutil.which("git") is not None


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
