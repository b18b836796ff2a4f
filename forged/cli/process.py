"""The daemon as a process: which one it is, its end, and another one in its place.

`running` tells its process id, 0 if there is none, and starts nobody: not even a service manager that listens
at the socket notices. `stop` ends it as SIGTERM does, what was begun is answered and what was acknowledged is
on disk; one that does not end within its own 5 s is killed, which loses nothing either. `restart` puts a
daemon of the installed version in its place, or starts one where none runs.

Raised is `Stop`: `configuration` if the new daemon cannot start with it (the old one goes on),
`not_permitted` if the process is not to be seen from here, `timeout` if it neither ends nor begins in time,
and what a client raises that starts a daemon.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import Literal

import msgspec

from forged.cli.call import Invocation, daemon
from forged.cli.exits import Stop
from forged_client import address
from forged_client.errors import AddressError

# A daemon that is told to end does so in 5 s in any state; then it is killed.
_ENDS_S = 6.0
_KILLED_S = 2.0


class Ended(msgspec.Struct, frozen=True):
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
    pid = _on_record(call)
    return pid if pid and _is_alive(pid) else 0


def stop(call: Invocation) -> Ended:
    """End the daemon, if one runs; the next client that may start one does."""
    if not (pid := running(call)):
        return Ended()
    os.kill(pid, signal.SIGTERM)
    if _ends(pid, _ENDS_S):
        return Ended(pid)
    os.kill(pid, signal.SIGKILL)
    if not _ends(pid, _KILLED_S):
        raise Stop("timeout", f"the daemon (pid {pid}) does not end")
    return Ended(pid, killed=True)


def restart(call: Invocation) -> Restarted:
    """Have a daemon of the installed version serve from now on."""
    before = stop(call).pid
    with daemon(msgspec.structs.replace(call, autostart=True)) as client:
        client.ping()
    return Restarted(running(call), before, "stopped" if before else "started")


def _on_record(call: Invocation) -> int:
    """The process id that the holder of the daemon's lock wrote into it."""
    try:
        with open(f"{address.socket_path(call.environ)}.lock", "rb") as file:
            written = file.read(32).strip()
    except AddressError as error:
        raise Stop("configuration", str(error)) from error
    except OSError:
        return 0
    return int(written) if written.isdigit() else 0


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, 0)
        return True
    return False


def _ends(pid: int, patience_s: float) -> bool:
    """Whether a process ends in time, also one that nobody waits for."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], patience_s)[0])
    finally:
        os.close(watched)
