"""Find the daemon's process, end it, or put another one in its place.

`running` is its process id or 0, and starts nobody. `stop` ends it as SIGTERM does; one that takes over 5 s
is killed, which loses nothing. `restart` has the installed version take over, or starts it. Raises Stop:
`configuration` or `unavailable` if a new daemon cannot serve (the old one goes on), `timeout`, and what a
client raises that starts a daemon.
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

from forged.cli.call import Invocation, daemon
from forged.cli.exits import Stop
from forged.cli.user_manager import SERVICE, address_of, in_charge
from forged_client import autostart
from forged_client.client import Client
from forged_client.errors import ClientError
from forged_client.protocol import Ping

# A daemon that is told to end does so in 5 s in any state; then it is killed.
_ENDS_S = 6.0
_KILLED_S = 2.0
# A daemon begins within a second, but for one that waits for the end of another.
_BEGINS_S = 20.0
_PERIOD_S = 0.02
_ASKED_S = 2.0
_PROCESSES = "/proc"


class StoppedProcess(msgspec.Struct, frozen=True):
    """Which process ended; 0: none ran. `killed`: it did not end by itself."""

    pid: int = 0
    killed: bool = False


class Restarted(msgspec.Struct, frozen=True):
    """Which process serves now, and which did before; 0: none ran.

    `handed_over`: the old daemon gave the new one its socket, so that nobody was refused meanwhile;
    `manager`: systemd restarted its service; `stopped`: the old one ended first; `started`: there was none.
    """

    pid: int
    before: int
    way: Literal["handed_over", "manager", "stopped", "started"]


def running(call: Invocation) -> int:
    """Process id of the daemon at this address, 0 if none runs."""
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
    """End the daemon, if one runs; the next client that may start one does."""
    if not (pid := running(call)):
        return StoppedProcess()
    for number, patience_s in ((signal.SIGTERM, _ENDS_S), (signal.SIGKILL, _KILLED_S)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if _within(patience_s, lambda: running(call) != pid):
            return StoppedProcess(pid, killed=number == signal.SIGKILL)
    raise Stop("timeout", f"the daemon (pid {pid}) does not end")


def restart(call: Invocation) -> Restarted:
    """Have a daemon of the installed version serve from now on."""
    _check_configuration(call)
    before, manager = running(call), in_charge(call)
    if manager is not None:
        manager.do("restart", SERVICE)
        return Restarted(_serving(call), before, "manager")
    if not before:
        return Restarted(_serving(call), 0, "started")
    if _gives_its_place(call, before):
        return Restarted(_serving(call), before, "handed_over")
    stop(call)
    return Restarted(_serving(call), before, "stopped")


def _check_configuration(call: Invocation) -> None:
    """Raise Stop for what a new daemon could not start with; it sees no variables of this shell."""
    from forged import config  # noqa: PLC0415 - the fast verbs do without it
    from forged.errors import ConfigError  # noqa: PLC0415

    seen = {name: value for name, value in call.environ.items() if not name.startswith("FORGED_")}
    try:
        config.load(seen)
    except ConfigError as error:
        raise Stop("configuration", str(error)) from error


def _gives_its_place(call: Invocation, before: int) -> bool:
    """Whether the daemon `before` gave its place to a new one; else it hangs, or is too old for that."""
    try:
        successor = autostart.replace(address_of(call), call.executable, env=call.environ)
    except ClientError as error:
        raise Stop("unavailable", str(error)) from error
    if not _within(_BEGINS_S, lambda: running(call) not in {0, before} or successor.poll() is not None):
        successor.kill()
        raise Stop("timeout", f"the new daemon (pid {successor.pid}) did not begin in time")
    return running(call) not in {0, before} or not _was_refused(successor, before)


def _was_refused(successor: subprocess.Popen[bytes], before: int) -> bool:
    if (code := successor.poll()) == os.EX_TEMPFAIL:
        return True
    word = "configuration" if code == os.EX_CONFIG else "unavailable"
    told = f"the new daemon ended with exit code {code}, see `{autostart.LOG_NAME}`; pid {before} goes on"
    raise Stop(word, told)


def _serving(call: Invocation) -> int:
    """Process id of the daemon that answers, after starting one if need be."""
    with daemon(msgspec.structs.replace(call, autostart=True)) as client:
        client.ask(Ping())
    return running(call)


def _within(patience_s: float, happens: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + patience_s
    while not happens():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PERIOD_S)
    return True


def _is_daemon(pid: int, lock: str, at: str) -> bool:
    """Whether a process has the lock open, as no process has that got the same number later.

    Where the system does not tell, the daemon does; one that hangs then counts as none.
    """
    if not os.path.isdir(f"{_PROCESSES}/self/fd"):
        with Client(at, timeout_s=_ASKED_S) as client:
            return client.status().pid == pid
    with contextlib.suppress(OSError):
        wanted, folder = os.stat(lock), f"{_PROCESSES}/{pid}/fd"
        return any(_is_same(f"{folder}/{name}", wanted) for name in os.listdir(folder))
    return False


def _is_same(path: str, wanted: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.stat(path), wanted)
    return False
