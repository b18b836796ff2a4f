"""`forgectl stop` and `restart`: the daemon ends, or another one takes its place.

`process` does it where the daemon runs by itself, the user's systemd where that started it. A socket of
systemd outlives `stop` unless it is asked for: whoever connects then has the daemon started again, as
docker.socket does, and a person is told so.
"""

from __future__ import annotations

import click

from forged.cli import process
from forged.cli.call import Invocation, show
from forged.cli.commands import reads
from forged.cli.process import Restarted, StoppedProcess
from forged.cli.terminal import tell
from forged.cli.user_manager import SERVICE, UNITS, UserManager, in_charge

_AGAIN = "the next `forgectl` or agent that may start it starts it again"
_SOCKET_STAYS = "systemd's socket stays: the next request starts it again; `forgectl stop --socket` ends both"


@click.command("stop")
@click.option(
    "--socket", "ends_socket", is_flag=True, help="Also stop systemd's socket, which would start it."
)
@reads
def stop_command(call: Invocation, *, ends_socket: bool) -> None:
    """End the daemon: what was begun is answered, what was acknowledged is on disk."""
    manager = in_charge(call)
    ended = process.stop(call) if manager is None else _end(call, manager, ends_socket=ends_socket)
    has_ended_socket = manager is not None and ends_socket
    show(call, ended, (_ended(ended), *(("stopped systemd's socket",) if has_ended_socket else ())))
    if call.as_json:
        return
    if manager is not None and not ends_socket:
        tell(_SOCKET_STAYS)
    elif ended.pid or has_ended_socket:
        tell(_AGAIN)


@click.command("restart")
@reads
def restart_command(call: Invocation) -> None:
    """Have the installed version of the daemon take over; nobody who asks meanwhile is refused."""
    now = process.restart(call)
    show(call, now, (outcome(now),))


def _end(call: Invocation, manager: UserManager, *, ends_socket: bool) -> StoppedProcess:
    """Have systemd do it; a daemon that it does not know ends as without it."""
    pid = manager.unit(SERVICE).pid
    manager.do("stop", *(UNITS if ends_socket else (SERVICE,)))
    return StoppedProcess(pid) if pid else process.stop(call)


def _ended(ended: StoppedProcess) -> str:
    if not ended.pid:
        return "forged is not running"
    if ended.killed:
        return f"killed forged, pid {ended.pid}: it did not end by itself"
    return f"stopped forged, pid {ended.pid}"


def outcome(now: Restarted) -> str:
    """Which process serves, and how it came to."""
    return {
        "handed_over": f"forged, pid {now.pid}, has taken over from pid {now.before}",
        "manager": f"systemd has restarted forged: pid {now.pid}, before {now.before or 'none'}",
        "stopped": f"restarted forged: pid {now.pid}, before {now.before}",
        "started": f"started forged, pid {now.pid}: none was running",
    }[now.way]
