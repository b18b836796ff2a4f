"""Clients start a missing daemon in a fresh HOME, one for all, and trust no workspace."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import FORGECTL, FORGED, Shell, is_alive, processes_with, wait_for_end
from tests.support.provider import ScriptedProvider

pytestmark = pytest.mark.long

_SECRET = "sk-do-not-inherit-me"
_AGENT = """
import sys
from forged_client import Client
with Client(autostart=True, executable=sys.argv[1], timeout_s=60) as client:
    report = client.status()
    print(report.status, report.pid, report.reason)
"""


@pytest.fixture
def shell(home, repo) -> Iterator[Shell]:
    """A fresh HOME without any daemon; whichever is started is stopped, and only one may be left."""
    (home / ".config/forged").mkdir(parents=True)
    (home / ".config/forged/config.toml").write_text('[memory]\nembedding_model = "builtin:lexical"\n')
    with tempfile.TemporaryDirectory(prefix="fg") as directory:
        shell = Shell(home, f"{directory}/s/forged.sock", repo, {"OPENAI_API_KEY": _SECRET, "AGENT": _SECRET})
        try:
            yield shell
            shell.stop_daemon()
            # A daemon's helpers notice its end, and end.
            assert eventually(lambda: not processes_with(shell.socket))
        finally:
            for left in processes_with(shell.socket):
                os.kill(left, signal.SIGKILL)


def _pid(shell: Shell) -> int:
    return shell.run("status", "--json").json["pid"]


def _daemons(shell: Shell) -> set[int]:
    """Daemons of this address: each leads a session of its own, in which its helpers are."""
    found = set()
    for pid in processes_with(shell.socket):
        with contextlib.suppress(ProcessLookupError):
            found.add(os.getsid(pid))
    return found


def _environment_of(pid: int) -> dict[str, str]:
    variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(variable.partition("=")[::2] for variable in variables if variable)


def _agent(shell: Shell) -> subprocess.Popen[str]:
    """An agent process that was told where forged is; nothing of it was ever started in this HOME."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _AGENT, FORGED],
        env=shell.env,
        cwd=shell.directory,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_first_call_in_a_fresh_home_is_carried_out_and_what_it_makes_is_closed_to_others(shell):
    written = shell.run("remember", "the walrus sings")
    state = shell.home / ".local/state/forged"

    assert (written.code, written.err) == (0, "")
    assert "walrus" in shell.run("search", "walrus", "--no-autostart").out
    assert (state / "forged.log").stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in state.rglob("*") if path.stat().st_mode & 0o077} == set()
    assert "serving socket=" in (state / "forged.log").read_text()


def test_the_daemon_gets_nothing_of_its_starter_but_what_it_needs(shell):
    shell.run("ping")
    pid = _pid(shell)

    variables = _environment_of(pid)

    assert _SECRET not in variables.values()
    ours = {name for name in variables if name.startswith("FORGED_")}
    assert ours == {"FORGED_SOCKET"}
    assert set(variables) - ours <= {"HOME", "PATH", "LANG", "LC_CTYPE"}
    assert variables["HOME"] == str(shell.home)
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
    assert os.readlink(f"/proc/{pid}/fd/2") == str(shell.home / ".local/state/forged/forged.log")


def test_ten_agents_at_once_get_one_daemon(shell):
    agents = [_agent(shell) for _ in range(10)]

    reported = {agent.communicate(timeout=PATIENCE_S)[0] for agent in agents}

    assert reported == {f"ok {_pid(shell)} \n"}
    assert _daemons(shell) == {_pid(shell)}
    log = (shell.home / ".local/state/forged/forged.log").read_text()
    assert (log.count("serving socket="), log.count("already running")) == (1, 0)


def test_a_killed_daemon_is_replaced_by_the_next_call_and_nothing_is_lost(shell):
    shell.run("remember", "the walrus sings")
    first = _pid(shell)
    os.kill(first, signal.SIGKILL)
    wait_for_end(first)
    assert os.path.exists(shell.socket)

    found = shell.run("search", "walrus")

    assert (found.code, found.err) == (0, "")
    assert "the walrus sings" in found.out
    assert _pid(shell) != first


def test_the_daemon_outlives_the_agent_that_started_it_and_its_terminal(shell):
    code, _ = shell.on_terminal("ping")

    assert code == 0
    assert is_alive(_pid(shell))


@pytest.mark.parametrize("before", [True, False], ids=["never started here", "started before"])
def test_a_workspace_cannot_choose_what_is_started(shell, before):
    """It holds programs of the same name, stands first in PATH, and has Python modules of that name too."""
    if not before:
        shell.run("ping")
        shell.stop_daemon()
    trap = shell.directory / "trap"
    for name in ("forged", "forgectl", "python", "python3", "git", "systemctl", "env"):
        program = shell.directory / name
        program.write_text(f'#!/bin/sh\necho "$0 $*" >> {trap}\nexit 1\n')
        program.chmod(0o755)
    for name in ("forged_client.py", "msgspec.py", "click.py"):
        (shell.directory / name).write_text(f"open({str(trap)!r}, 'a').write(__name__)\n")
    caught = Shell(
        shell.home, shell.socket, shell.directory, {"PATH": f".:{shell.directory}:{os.environ['PATH']}"}
    )

    written = caught.run("remember", "the walrus sings")
    reported = _agent(caught).communicate(timeout=PATIENCE_S)[0]

    assert (written.code, written.err) == (0, "")
    assert reported == f"ok {_pid(caught)} \n"
    assert not trap.exists()


def test_an_environment_made_by_the_workspace_neither_configures_the_daemon_nor_runs_in_it(shell, tmp_path):
    """A wrapper such as direnv or a harness's settings can be sets all there is; memories stay."""
    shell.run("remember", "the walrus sings", "--scope", "user")
    shell.stop_daemon()
    tools, trap = shell.directory / "tools", shell.directory / "trap"
    (tools / "forged").mkdir(parents=True)
    for name in ("run", "git", "systemctl", "python3"):
        (tools / name).write_text(f"#!/bin/sh\necho $0 >> {trap}\nexit 1\n")
        (tools / name).chmod(0o755)
    (tools / "sitecustomize.py").write_text(f"import sys\nif 'serve' in sys.argv: open({str(trap)!r}, 'a')\n")
    (tools / "forged/config.toml").write_text('[memory]\nembedding_model = "their-model"\n')
    with ScriptedProvider() as provider:
        theirs = {
            "FORGED_EXECUTABLE": f"{tools}/run",
            "FORGED_MEMORY__EMBEDDING_MODEL": "their-model",
            "FORGED_MEMORY__EMBEDDING_BASE_URL": provider.base_url,
            "FORGED_LLM__BASE_URL": provider.base_url,
            "OPENAI_API_KEY": "k",
            "PYTHONPATH": str(tools),
            "LD_LIBRARY_PATH": str(tools),
            "GIT_EXEC_PATH": str(tools),
            "LANG": f"{tools}/locale",
            "PATH": f"{tools}:/usr/bin:/bin",
            **{f"XDG_{kind}_HOME": str(tools) for kind in ("CONFIG", "DATA", "CACHE")},
        }
        wrapper = tools / "enter"
        exports = "".join(f"export {name}='{value}'\n" for name, value in theirs.items())
        wrapper.write_text(f'#!/bin/sh\n{exports}exec "$@"\n')
        wrapper.chmod(0o755)

        found = subprocess.run(
            [wrapper, FORGECTL, "search", "walrus"],
            env=shell.env,
            cwd=shell.directory,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

        assert "the walrus sings" in found.stdout
        assert _environment_of(_pid(shell)) == {
            "HOME": str(shell.home),
            "PATH": "/usr/bin:/bin",
            "FORGED_SOCKET": shell.socket,
        }
        assert provider.requests() == []
    assert not trap.exists()


@pytest.mark.parametrize("inside", ["this", "another"])
def test_a_home_in_a_clone_is_refused_with_a_sentence_and_no_other_home_is_taken(shell, tmp_path, inside):
    clone = shell.directory if inside == "this" else tmp_path / "another"
    (clone / ".git").mkdir(parents=True, exist_ok=True)
    (clone / "home").mkdir()

    shown = Shell(clone / "home", shell.socket, shell.directory).run("ping")

    assert shown.code == 69
    assert shown.err.startswith(
        f"forgectl: cannot start the daemon: HOME ({clone}/home) must be a folder that only you "
        "can write to, outside of git work trees: it is in the git work tree "
        f"{clone}; set HOME to your own home directory"
    )
    assert _daemons(shell) == set()
    assert list((clone / "home").iterdir()) == []


def test_what_cannot_be_started_ends_the_call_at_once_and_says_where_to_look(shell, tmp_path):
    program = tmp_path / "forged"
    program.write_text("#!/bin/sh\necho cannot >&2\nexit 70\n")
    program.chmod(0o700)

    shown = shell.run("ping", program_folder=tmp_path)

    log = shell.home / ".local/state/forged/forged.log"
    assert (shown.code, shown.err) == (69, f"forgectl: the daemon ended with exit code 70; see {log}\n")
    assert log.read_text() == "cannot\n"
