"""`forgectl stop` and `restart`: end the daemon, or replace it.

`process` does it for a daemon without systemd, the user's systemd for one that it started. systemd's socket
stays after `stop` unless `--socket` is given, as docker.socket does: the next connection starts the daemon
again, and the output says so.
"""

from __future__ import annotations

import click

from forged.cli import process
from forged.cli.call import Invocation, show
from forged.cli.commands import with_json_option
from forged.cli.process import RestartedProcess, StoppedProcess
from forged.cli.terminal import tell
from forged.cli.user_manager import SERVICE, UNITS, UserManager, in_charge

_AGAIN = "it starts again on next use"
_SOCKET_STAYS = "it starts again on next use, by systemd's socket; `forgectl stop --socket` stops both"


@click.command("stop")
@click.option(
    "--socket", "ends_socket", is_flag=True, help="Also stop systemd's socket, which starts it again."
)
@with_json_option
def stop_command(call: Invocation, *, ends_socket: bool) -> None:
    """Stop the daemon after it has answered running requests and saved everything."""
    manager = in_charge(call)
    ended = process.stop(call) if manager is None else _stop_service(call, manager, ends_socket=ends_socket)
    has_ended_socket = manager is not None and ends_socket
    show(call, ended, (_stop_sentence(ended), *(("stopped systemd's socket",) if has_ended_socket else ())))
    if call.as_json:
        return
    if manager is not None and not ends_socket:
        tell(_SOCKET_STAYS)
    elif ended.pid or has_ended_socket:
        tell(_AGAIN)


@click.command("restart")
@with_json_option
def restart_command(call: Invocation) -> None:
    """Restart the daemon with the installed version, without refusing a request."""
    now = process.restart(call)
    show(call, now, (restart_sentence(now),))


def _stop_service(call: Invocation, manager: UserManager, *, ends_socket: bool) -> StoppedProcess:
    """Stop the daemon that systemd runs, or one without a unit; with `ends_socket` the socket unit, too."""
    pid = manager.unit(SERVICE).pid
    manager.execute("stop", *(UNITS if ends_socket else (SERVICE,)))
    return StoppedProcess(pid) if pid else process.stop(call)


def _stop_sentence(ended: StoppedProcess) -> str:
    """Return a sentence for `stop`: the daemon was stopped, killed, or not running."""
    if not ended.pid:
        return "forged is not running"
    if ended.killed:
        return f"killed forged, pid {ended.pid}: it did not end by itself"
    return f"stopped forged, pid {ended.pid}"


def restart_sentence(now: RestartedProcess) -> str:
    """Return a sentence for `restart`: how the daemon was replaced or started, with process ids."""
    return {
        "handed_over": f"forged, pid {now.pid}, has taken over from pid {now.before}",
        "manager": f"systemd has restarted forged: pid {now.pid}, before {now.before or 'none'}",
        "stopped": f"restarted forged: pid {now.pid}, before {now.before}",
        "started": f"started forged, pid {now.pid}: none was running",
    }[now.way]
