from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import pytest

import forged_client
from forged_client import Client, DaemonUnavailable
from forged_client.autostart import LOCK_NAME, DaemonStart, prepare_start, trusted_executable
from forged_client.dial import Deadline
from tests.support.clock import PATIENCE_S
from tests.support.shebang import shebang

_DAEMON = """{shebang}
import os, sys, time
sys.path[:0] = {path!r}
with open({seen!r}, "a") as seen:
    where = os.getpid(), os.getcwd(), os.getsid(0), oct(os.umask(0o77))
    print(*where, sys.argv[1:], sorted(os.environ), file=seen)
print("daemon is up", flush=True)
{body}
"""

_SERVES = """
import threading
from forged_client.protocol import Pong
from tests.support.daemon import Peer, answering
try:
    Peer(os.environ["FORGED_SOCKET"], answering(lambda _: Pong()))
except OSError:
    os._exit(75)
threading.Event().wait()  # from Python 3.12 on no thread is started once the main one has ended
"""


@pytest.fixture
def seen(folder: Path) -> Iterator[Callable[[], list[str]]]:
    """Return the records of the fake daemons."""

    def lines() -> list[str]:
        return (folder / "seen").read_text().splitlines() if (folder / "seen").exists() else []

    yield lines
    for line in lines():
        with suppress(ProcessLookupError):
            os.kill(int(line.split()[0]), signal.SIGKILL)


@pytest.fixture
def install(folder: Path, seen: Seen) -> Callable[[str], str]:
    """Writes an executable that acts as the daemon, and returns its path."""

    def write(body: str = _SERVES) -> str:
        file = folder / "forged"
        repo = Path(__file__).parents[2]
        path = [str(repo), str(Path(forged_client.__file__).parents[1]), *filter(os.path.isdir, sys.path)]
        file.write_text(
            _DAEMON.format(shebang=shebang(folder), path=path, seen=str(folder / "seen"), body=body)
        )
        file.chmod(0o755)
        return str(file)

    return write


Seen = Callable[[], list[str]]


def test_a_missing_daemon_is_started_and_runs_on_its_own(install, socket_file, seen, monkeypatch, home):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with Client(socket_file, autostart=True, executable=install(), timeout_s=PATIENCE_S) as client:
        assert client.ping().status == "ok"

    (line,) = seen()
    pid, cwd, session, umask, rest = line.split(maxsplit=4)
    log = home / ".local/state/forged/forged.log"
    assert (cwd, session, umask) == ("/", pid, "0o77")
    assert rest.startswith("['serve']")
    assert "OPENAI_API_KEY" not in rest
    assert log.read_text() == "daemon is up\n"
    assert log.stat().st_mode & 0o777 == 0o600


def test_of_several_clients_at_once_one_starts_the_daemon(install, socket_file, seen):
    executable = install()

    def ping(_: int) -> str:
        with Client(socket_file, autostart=True, executable=executable, timeout_s=PATIENCE_S) as client:
            return client.ping().status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ping, range(8))) == {"ok"}
    assert len(seen()) == 1


def test_who_waits_for_another_client_goes_on_when_that_one_is_gone(install, socket_file, seen, home):
    """A lock dies with its process; and before a second daemon is started, it is looked whether one is up."""
    state = home / ".local/state/forged"
    state.mkdir(parents=True)
    with open(state / LOCK_NAME, "w") as lock, ThreadPoolExecutor(1) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waits = Client(socket_file, autostart=True, executable=install(), timeout_s=PATIENCE_S)
        reply = pool.submit(waits.ping)
        assert not wait([reply], 0.2).done
        assert seen() == []
        lock.close()

        assert reply.result(PATIENCE_S).status == "ok"
    waits.close()
    assert len(seen()) == 1


def test_a_lock_that_comes_free_because_the_daemon_is_up_starts_no_second_one(folder, home):
    begun = []
    first, second = (DaemonStart(lambda: begun.append(1), str(folder)) for _ in range(2))
    first.proceed()
    second.proceed()
    assert begun == [1]
    first.release_lock()

    second.proceed()  # has the lock now; between this and the next the daemon answers

    assert begun == [1]
    second.proceed()
    assert begun == [1, 1]
    second.release_lock()


@pytest.mark.parametrize(
    ("body", "timeout_s", "reported"),
    [("os._exit(78)", 20, ("exit code 78", "forged.log")), ("time.sleep(60)", 0.5, ("starting the daemon",))],
    ids=["gives up", "never listens"],
)
def test_a_daemon_that_does_not_come_up_is_reported_by_the_deadline(
    install, socket_file, *, body, timeout_s, reported
):
    with Client(socket_file, autostart=True, executable=install(body), timeout_s=timeout_s) as client:
        reply = client.ping()

    assert reply.status == "unavailable"
    assert all(part in reply.reason for part in reported)


@pytest.fixture
def env(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}


@pytest.fixture
def program(folder: Path) -> Path:
    file = folder / "program"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def state(folder: Path) -> str:
    return str(folder / "state" / "forged")


def test_the_executable_is_the_argument_then_the_record_and_no_variable(program, folder, state, monkeypatch):
    monkeypatch.setenv("FORGED_EXECUTABLE", str(program))
    with pytest.raises(DaemonUnavailable, match="run `forged serve` once"):
        trusted_executable(None, state)
    record = Path(state, "executable")
    record.parent.mkdir(parents=True)
    record.write_text(f"{program}\n")
    record.chmod(0o600)
    missing = str(folder / "missing")
    monkeypatch.setenv("FORGED_EXECUTABLE", missing)

    assert trusted_executable(None, state) == str(program)
    with pytest.raises(DaemonUnavailable, match="missing"):
        trusted_executable(missing, state)
    record.chmod(0o666)
    with pytest.raises(DaemonUnavailable, match="others"):
        trusted_executable(None, state)
    assert trusted_executable(str(program), state) == str(program)


@pytest.mark.parametrize("name", ["program", "./program", "bin/program"])
def test_an_executable_is_never_searched_for(state, program, monkeypatch, name):
    monkeypatch.chdir(program.parent)
    monkeypatch.setenv("PATH", str(program.parent))

    with pytest.raises(DaemonUnavailable, match="absolute"):
        trusted_executable(name, state)


def test_an_executable_that_others_can_write_and_a_directory_are_refused(state, program, folder):
    for mode in (0o775, 0o757, 0o777):
        program.chmod(mode)
        with pytest.raises(DaemonUnavailable, match="not be writable"):
            trusted_executable(str(program), state)
    with pytest.raises(DaemonUnavailable):
        trusted_executable(str(folder), state)


def test_an_executable_in_a_folder_that_others_can_write_is_refused(state, program, folder):
    trusted_executable(str(program), state)
    folder.chmod(0o777)

    with pytest.raises(DaemonUnavailable, match="others can write to"):
        trusted_executable(str(program), state)


@pytest.mark.parametrize("kept_in_git", [True, False])
def test_an_executable_in_the_tree_where_the_caller_works_is_refused(
    state, program, folder, monkeypatch, kept_in_git
):
    standing = folder / "src" / "deep" if kept_in_git else folder
    if kept_in_git:
        (folder / ".git").mkdir()
        (folder / "src" / ".git").mkdir(parents=True)  # a clone in a clone: the outer one counts
        standing.mkdir()
    monkeypatch.chdir(standing)

    with pytest.raises(DaemonUnavailable, match=f"lies in {folder}, where"):
        trusted_executable(str(program), state)


def test_an_executable_below_home_is_started_by_who_is_in_home(state, program, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("forged_client.daemon_environment.home", lambda _: str(folder))

    assert trusted_executable(str(program), state) == str(program)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_executable_is_refused(state, program):
    os.chown(program, 12345, 12345)

    with pytest.raises(DaemonUnavailable):
        trusted_executable(str(program), state)


@pytest.fixture
def unit(env: dict[str, str], folder: Path) -> str:
    """An installed socket unit; the address it listens at."""
    (folder / ".config/systemd/user").mkdir(parents=True)
    (folder / ".config/systemd/user/forged.socket").write_text("[Socket]\n")
    (folder / "r").mkdir(mode=0o700)
    env["XDG_RUNTIME_DIR"] = str(folder / "r")
    return f"{folder}/r/forged/forged.sock"


def systemctl(folder: Path, exit_code: int) -> tuple[str]:
    file = folder / "systemctl"
    file.write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\nexit {exit_code}\n')
    file.chmod(0o755)
    return (str(file),)


def test_an_installed_socket_unit_is_preferred(env, unit, folder, install, seen):
    prepare_start(unit, install(), Deadline(20), env=env, systemctl=systemctl(folder, 0)).proceed()

    assert (folder / "asked").read_text() == "--user start forged.socket\n"
    assert seen() == []


@pytest.mark.parametrize("exit_code", [1, None])
def test_the_daemon_is_started_directly_when_systemd_cannot(env, unit, folder, install, exit_code):
    programs = ("/missing/systemctl",) if exit_code is None else systemctl(folder, exit_code)

    starting = prepare_start(unit, install("pass"), Deadline(20), env=env, systemctl=programs)
    starting.proceed()

    assert starting._process is not None
    starting._process.wait(PATIENCE_S)
