"""Environment of the demo: a scratch HOME, a repository, a daemon and agent processes.

Nothing outside the scratch directory is read or written. A failed step raises `DemoFailed`; the
command then ends with EX_SOFTWARE. Every process ends with the `with` block.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
import msgspec

from forged.cli.call import Invocation
from forged.cli.demo.agent import milliseconds_since
from forged.errors import ForgedError
from forged_client import Client
from forged_client.protocol import MemoryRecord

VISIBLE_S = 5.0
_READY_S = 30.0
_LOG_SHOWN = 2000
# A chat model for the demo, if the user has configured one.
_MODEL_VARIABLES = (
    *("FORGED_LLM__MODEL", "FORGED_LLM__BASE_URL", "FORGED_LLM__API_KEY"),
    *("OPENAI_API_KEY", "OPENAI_BASE_URL"),
)


class DemoFailed(click.ClickException):
    """Raised if a step of the demo fails; forgectl prints the message, exits with EX_SOFTWARE."""

    exit_code = os.EX_SOFTWARE


class Stage(msgspec.Struct, frozen=True):
    """Environment of the demo: scratch HOME and repository, a daemon that serves them, and its client."""

    home: Path
    repo: Path
    env: dict[str, str]
    daemon: subprocess.Popen[bytes]
    log: Path
    client: Client

    @property
    def workspace(self) -> str:
        """Path of the demo's scratch repository, as text for requests to the daemon."""
        return str(self.repo)

    def log_text(self) -> str:
        """Return all that the demo's daemon has logged so far."""
        return self.log.read_text(errors="replace")

    def memories(self) -> tuple[MemoryRecord, ...]:
        """Return the memories that the daemon lists for the scratch repository."""
        return self.client.list(self.workspace).memories

    def agent(self, act: str, *arguments: str) -> bytes:
        """Run an act of the demo's agent (write, read, turns) in a process; return its JSON output."""
        command = (sys.executable, "-m", "forged.cli.demo.agent", act, self.workspace, *arguments)
        return self._run("the agent process", command)

    def git(self, *arguments: str) -> None:
        """Run git in the demo's repository, with its own author. Raises DemoFailed if that fails."""
        user = ("-c", "user.name=demo", "-c", "user.email=demo@localhost")
        self._run(f"git {arguments[0]}", ("git", "-C", self.workspace, *user, *arguments))

    def _run(self, name: str, command: Sequence[str]) -> bytes:
        """Run a program in the scratch HOME; return its stdout. Raises DemoFailed if it fails."""
        done = subprocess.run(
            command, env=self.env, cwd=self.home, capture_output=True, timeout=60, check=False
        )
        if done.returncode:
            raise DemoFailed(f"{name} failed:\n{done.stderr.decode(errors='replace')}")
        return done.stdout

    def stop(self) -> tuple[int, float]:
        """Stop the demo's daemon by SIGTERM, check that it ended cleanly; return exit code and time."""
        began = time.perf_counter()
        self.daemon.send_signal(signal.SIGTERM)
        code = self.daemon.wait(10)
        took = milliseconds_since(began)
        expect(code == 0, "the daemon ended cleanly")
        expect(not os.path.exists(self.env["FORGED_SOCKET"]), "the socket is gone")
        return code, took


@contextmanager
def new_stage(call: Invocation) -> Iterator[Stage]:
    """Set up the demo's scratch files and daemon for a `with` block; remove all at its end."""
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
            # The same everywhere: with embeddings step 7 would not need the link.
            "FORGED_MEMORY__EMBEDDING_MODEL": "builtin:lexical",
            **{name: call.environ[name] for name in _MODEL_VARIABLES if name in call.environ},
        }
        try:
            with run_daemon(env, log) as process, Client(env["FORGED_SOCKET"], timeout_s=VISIBLE_S) as client:
                stage = Stage(home, repo, env, process, log, client)
                if has_git():
                    stage.git("init", "-q")
                yield stage
        except NotStarted as error:
            raise DemoFailed(str(error)) from error


def has_git() -> bool:
    """Return True if git is installed."""
    return shutil.which("git") is not None


def expect(is_true: bool, promise: str) -> None:
    """Print a promise of the demo as kept if the condition is true. Raises DemoFailed if it is not."""
    if not is_true:
        raise DemoFailed(f"failed: {promise}")
    click.echo(f"  ok: {promise}")


def wait_until(check: Callable[[], bool], complaint: Callable[[], str], within_s: float = VISIBLE_S) -> float:
    """Wait until `check` is true; return the milliseconds. Raises DemoFailed if it takes too long."""
    began = time.perf_counter()
    while not check():
        if time.perf_counter() - began > within_s:
            raise DemoFailed(complaint())
        time.sleep(0.002)
    return milliseconds_since(began)


# --- a daemon of its own ----------------------------------------------------------------------


class NotStarted(ForgedError):  # noqa: N818 - reads as the state it names
    """Raised if a daemon of `run_daemon` ends or is silent too long; the message has its log."""


@contextmanager
def run_daemon(env: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon for a `with` block: wait until it answers; kill it at the end if it still runs.

    `env` is all of its environment, HOME and FORGED_SOCKET included. Raises NotStarted.
    """
    with ExitStack() as ends:
        with log.open("wb") as output, _delay_signals():
            process = subprocess.Popen(
                [sys.executable, "-m", "forged", "serve"],
                env=dict(env),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            ends.callback(_kill, process)
        _wait_until_ready(env["FORGED_SOCKET"], process, log)
        yield process


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a daemon with its process group if it still runs, and wait for its end."""
    if process.poll() is None:
        os.killpg(os.getpgid(process.pid), signal.SIGKILL)
    process.wait()


@contextmanager
def _delay_signals() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the end of a `with` block, in the main thread only."""
    # A signal during the start would leave the process behind. Only the main thread runs signal handlers.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handled = {number: handler for number, handler in handlers.items() if callable(handler)}
    for each in handled:
        signal.signal(each, lambda number, _frame: received.append(number))
    try:
        yield
    finally:
        for each, handler in handled.items():
            signal.signal(each, handler)
        for number in received:
            signal.raise_signal(number)


def _wait_until_ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the demo's daemon answers a ping. Raises NotStarted with the end of its log."""
    deadline = time.monotonic() + _READY_S
    with Client(address, timeout_s=_READY_S) as client:
        while client.ping().status != "ok":
            if process.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(errors="replace").strip()[-_LOG_SHOWN:]
                raise NotStarted(f"the daemon did not start: {tail or 'its log is empty'}")
            time.sleep(0.01)
