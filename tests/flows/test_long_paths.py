"""A socket path longer than an address: every client and the daemon work as usual."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from forged_client import hook
from forged_client.address import MAX_PATH_BYTES, socket_path
from tests.mcp.agent import started
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import FORGECTL, processes_with

pytestmark = pytest.mark.long

TEXT = "Releases are cut with make dist."
HOOK = (sys.executable, "-I", "-S", hook.__file__)
NAMES = {"plain": "a" * 40, "of several bytes": "ünïcödé-" * 3}
EVERY_CLIENT = """
import asyncio, sys
from forged_client import AsyncClient, Client, Observer

workspace, executable = sys.argv[1:]
options = {"autostart": True, "executable": executable, "timeout_s": 60}
async def later():
    async with AsyncClient(**options) as client:
        return await client.status()
with Client(**options) as client:
    reports = [client.status(), asyncio.run(later())]
observer = Observer(workspace, "s1", autostart=True)
observer.on_turn_complete([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}])
assert observer.close(60)
print(*{f"{report.status} {report.pid} {report.socket}" for report in reports}, sep="|")
"""


class Person:
    """A HOME, a repository in it, and an environment in which the socket's path is long."""

    def __init__(self, env: Mapping[str, str], repo: Path) -> None:
        self.env, self.repo = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **env}, repo
        self.socket = socket_path(self.env, run_user="/nowhere")

    def run(self, *command: str, stdin: bytes = b"", code: int = 0) -> str:
        done = subprocess.run(
            command,
            env=self.env,
            cwd=self.repo,
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, done
        return (done.stdout + done.stderr).decode()

    def forgectl(self, *arguments: str) -> str:
        return self.run(FORGECTL, *arguments)

    def hook(self, event: str, **more: str) -> dict[str, object]:
        payload = {"hook_event_name": event, "session_id": "s", "cwd": str(self.repo), **more}
        reported = self.run(*HOOK, "claude", stdin=json.dumps(payload).encode())
        found: dict[str, object] = json.loads(reported) if reported else {}
        return found


def _runtime(home: Path, long: Path) -> dict[str, str]:
    long.mkdir(parents=True)
    long.chmod(0o700)
    return {"HOME": str(home), "XDG_RUNTIME_DIR": str(long)}


def _state(home: Path, long: Path) -> dict[str, str]:
    return {"HOME": str(home), "XDG_STATE_HOME": str(long)}


def _home(_: Path, long: Path) -> dict[str, str]:
    long.mkdir(parents=True)
    return {"HOME": str(long)}


def _socket(home: Path, long: Path) -> dict[str, str]:
    return {"HOME": str(home), "FORGED_SOCKET": f"{long}/s/forged.sock"}


@pytest.fixture
def folder(home) -> Iterator[Path]:
    """Where all of it lies; whatever still runs of it at the end is stopped."""
    with tempfile.TemporaryDirectory(prefix="fl") as name:
        try:
            yield Path(name)
        finally:
            for left in processes_with(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(left, signal.SIGKILL)
            eventually(lambda: not processes_with(name))


@pytest.fixture(params=NAMES)
def person(request, folder, where) -> Person:
    name = NAMES[request.param]
    repo = folder / "repo"
    (repo / ".git").mkdir(parents=True)
    (folder / "home").mkdir()
    env = where(folder / "home", folder / name / name / name / name)
    config = Path(env["HOME"], ".config/forged")
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[memory]\nembedding_model = "builtin:lexical"\n')
    return Person(env, repo)


@pytest.mark.parametrize("where", [_runtime, _state, _home, _socket])
def test_every_client_finds_the_one_daemon_and_it_ends_as_any_other(person):
    """Of /run/user/UID nothing is taken here: it is not there in a container, and would be shorter."""
    if person.socket != socket_path(person.env):
        pytest.skip("this user has a runtime directory, which comes first")
    assert len(os.fsencode(person.socket)) > MAX_PATH_BYTES + 40

    person.forgectl("remember", TEXT)
    reported = person.run(sys.executable, "-c", EVERY_CLIENT, str(person.repo), FORGECTL.replace("ctl", "d"))
    injected = person.hook("UserPromptSubmit", prompt="How are releases cut with make dist?")
    with started(person.repo, person.env, "claude") as agent:
        listed = agent.tool("list_memories")
    status, doctor = person.forgectl("status", "--all"), person.run(FORGECTL, "doctor", code=0)
    person.forgectl("ping")
    person.forgectl("restart")
    after = person.forgectl("status", "--json")

    assert reported.count("|") == 0
    assert person.socket in reported
    assert TEXT in listed
    assert TEXT in str(injected)
    assert person.socket in status
    assert person.socket in doctor
    assert json.loads(after)["pid"] != int(reported.split()[1])
    person.forgectl("stop")
    eventually(lambda: not os.path.lexists(person.socket))
    eventually(lambda: not processes_with(str(person.socket)))  # its helpers end a moment after it


def test_without_proc_a_person_is_informed_at_a_shell_and_once_a_session_by_a_hook(folder):
    """A mount namespace in which nothing lies at /proc."""
    if os.geteuid() != 0:
        pytest.skip("only root makes a mount namespace here")
    person = Person({"HOME": str(folder), "FORGED_SOCKET": f"{folder}/{'a' * 40}/{'b' * 40}/s"}, folder)
    bare = ("unshare", "-m", "sh", "-ec", 'mount -t tmpfs none /proc; exec "$@"', "sh")
    person.env["FORGED_SOCKET"] = f"{folder}/{'a' * 60}/{'b' * 60}/forged.sock"

    def said(event: str, **more: str) -> str:
        payload = json.dumps({"hook_event_name": event, "session_id": "s", **more}).encode()
        return person.run(*bare, *HOOK, "claude", stdin=payload)

    reported = person.run(*bare, FORGECTL, "status", code=78)
    assert "and may have 107, as there is no /proc/self/fd: set FORGED_SOCKET to a shorter one" in reported
    assert (
        "as there is no /proc/self/fd: set FORGED_SOCKET" in json.loads(said("SessionStart"))["systemMessage"]
    )
    assert said("SessionStart", source="compact") == said("UserPromptSubmit", prompt="hi") == ""
