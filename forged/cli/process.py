"""Find, stop or restart the daemon's process.

`stop` sends SIGTERM, and SIGKILL after 6 s, which loses nothing. `restart` replaces the daemon by the
installed version, or starts it. Raises Stop: `configuration` or `unavailable` if a new daemon cannot serve
(the old one goes on), `timeout`, and the errors of a client that starts a daemon.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Literal

import msgspec

from forged.cli.call import Invocation, open_client
from forged.cli.exits import Stop
from forged.cli.user_manager import SERVICE, address_of, in_charge
from forged_client import autostart
from forged_client.client import Client
from forged_client.errors import ClientError
from forged_client.protocol import Ping

# A daemon ends within 5 s of SIGTERM in any state; then it is killed.
_ENDS_S = 6.0
_KILLED_S = 2.0
# A daemon starts within a second, unless it waits for the end of another.
_BEGINS_S = 20.0
_PERIOD_S = 0.02
_ASKED_S = 2.0
_PROCESSES = "/proc"


class StoppedProcess(msgspec.Struct, frozen=True):
    """Result of stopping the daemon: its process id, 0 if none ran; `killed` if SIGTERM did not end it."""

    pid: int = 0
    killed: bool = False


class RestartedProcess(msgspec.Struct, frozen=True):
    """Result of restarting the daemon: process ids now and before (0: none ran), and the way it was done.

    `handed_over`: the new daemon took over the socket of the old one, without a gap. `manager`: systemd
    restarted its service. `stopped`: the old one ended first. `started`: there was none.
    """

    pid: int
    before: int
    way: Literal["handed_over", "manager", "stopped", "started"]


def running_pid(call: Invocation) -> int:
    """Return the process id of the daemon at the call's address, by its lock file; 0 if none runs."""
    at = address_of(call)
    lock = f"{at}.lock"
    try:
        with open(lock, "rb") as file:
            written = file.read(32).strip()
    except OSError:
        return 0
    pid = int(written) if written.isdigit() else 0
    return pid if pid and _is_daemon(pid, lock, at) else 0


def stop(call: Invocation) -> StoppedProcess:
    """Stop the daemon by SIGTERM, after 6 s by SIGKILL; return pid (0: none ran) and if killed."""
    if not (pid := running_pid(call)):
        return StoppedProcess()
    for number, patience_s in ((signal.SIGTERM, _ENDS_S), (signal.SIGKILL, _KILLED_S)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if _wait_until(patience_s, lambda: running_pid(call) != pid):
            return StoppedProcess(pid, killed=number == signal.SIGKILL)
    raise Stop("timeout", f"the daemon (pid {pid}) did not end after SIGKILL")


def restart(call: Invocation) -> RestartedProcess:
    """Restart the daemon, by hand-over or systemd if possible, or start it; return pids and way."""
    _check_configuration(call)
    before, manager = running_pid(call), in_charge(call)
    if manager is not None:
        manager.execute("restart", SERVICE)
        return RestartedProcess(_ensure_running(call), before, "manager")
    if not before:
        return RestartedProcess(_ensure_running(call), 0, "started")
    if _hand_over(call, before):
        return RestartedProcess(_ensure_running(call), before, "handed_over")
    stop(call)
    return RestartedProcess(_ensure_running(call), before, "stopped")


def _check_configuration(call: Invocation) -> None:
    """Raise Stop if a daemon without this shell's FORGED_ variables would refuse the configuration."""
    from forged import config  # noqa: PLC0415 - the fast verbs do without it
    from forged.errors import ConfigError  # noqa: PLC0415

    seen = {name: value for name, value in call.environ.items() if not name.startswith("FORGED_")}
    try:
        config.load(seen)
    except ConfigError as error:
        raise Stop("configuration", str(error)) from error


def _hand_over(call: Invocation, before: int) -> bool:
    """Start a daemon that takes over the old one's socket; return False if the old one refuses."""
    try:
        successor = autostart.start_replacement(address_of(call), call.executable, env=call.environ)
    except ClientError as error:
        raise Stop("unavailable", str(error)) from error
    if not _wait_until(
        _BEGINS_S, lambda: running_pid(call) not in {0, before} or successor.poll() is not None
    ):
        successor.kill()
        raise Stop("timeout", f"the new daemon (pid {successor.pid}) did not start in {_BEGINS_S:g} s")
    return running_pid(call) not in {0, before} or not _was_refused(successor, before)


def _was_refused(successor: subprocess.Popen[bytes], before: int) -> bool:
    """Return True if the new daemon ended as the old one refused to hand over. Raises Stop otherwise."""
    if (code := successor.poll()) == os.EX_TEMPFAIL:
        return True
    word = "configuration" if code == os.EX_CONFIG else "unavailable"
    log = autostart.LOG_NAME
    raise Stop(word, f"the new daemon ended with exit code {code}, see `{log}`; pid {before} goes on")


def _ensure_running(call: Invocation) -> int:
    """Ping the daemon, starting it if none runs, and return its process id."""
    with open_client(msgspec.structs.replace(call, autostart=True)) as client:
        client.ask(Ping())
    return running_pid(call)


def _wait_until(patience_s: float, happens: Callable[[], bool]) -> bool:
    """Wait until `happens` returns True; return False if it has not after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while not happens():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PERIOD_S)
    return True


def _is_daemon(pid: int, lock: str, at: str) -> bool:
    """Return True if the process has the daemon's lock file open; without /proc by asking the daemon."""
    if not os.path.isdir(f"{_PROCESSES}/self/fd"):
        with Client(at, timeout_s=_ASKED_S) as client:
            return client.status().pid == pid
    with contextlib.suppress(OSError):
        wanted, folder = os.stat(lock), f"{_PROCESSES}/{pid}/fd"
        return any(_is_same_file(f"{folder}/{name}", wanted) for name in os.listdir(folder))
    return False


def _is_same_file(path: str, wanted: os.stat_result) -> bool:
    """Return True if the path is the file with these attributes (device and inode)."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.stat(path), wanted)
    return False
