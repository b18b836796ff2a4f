"""`forgectl service`: let the user's systemd listen on the socket and run the daemon.

`units` writes and compares unit files, `installing` has the steps and their order. Each step is printed when
it is done, so a failure shows how far it got; a second run changes nothing. Lingering is only suggested,
because the owner of the machine decides on it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from forged.cli.call import Invocation, show
from forged.cli.commands import with_json_option
from forged.cli.exits import NOT_DONE, NOT_RUNNING, OK
from forged.cli.service.installing import install, uninstall
from forged.cli.service.status import ServiceStatus, lingering, read_status
from forged.cli.service.units import UnitFileState
from forged.cli.tables import columns
from forged.cli.terminal import counted, escape_line, say, say_json, tell
from forged.cli.user_manager import UnitState


@click.group("service")
def service_command() -> None:
    """Let systemd run the daemon, show its units, or remove them."""


@service_command.command("install", short_help="Let systemd start the daemon on the first request.")
@click.option(
    "--replace", "replaces", is_flag=True, help="Also overwrite units that a person wrote or changed."
)
@with_json_option
def install_command(call: Invocation, *, replaces: bool) -> None:
    """Write the user units and enable the socket: the first request starts the daemon."""
    _say_steps(call, install(call, replaces=replaces))
    if lingering(call) == "no":
        tell("the daemon ends when you log out; `loginctl enable-linger` keeps it running from boot on")


@service_command.command("uninstall", short_help="Stop letting systemd run the daemon.")
@with_json_option
def uninstall_command(call: Invocation) -> None:
    """Stop the daemon and its socket, and remove the units that `install` wrote."""
    _say_steps(call, uninstall(call))


@service_command.command("status", short_help="Show the units and their state.")
@with_json_option
def status_command(call: Invocation) -> None:
    """Show the unit files and their state in systemd.

    Exit code 1: they are not installed; 3: systemd does not listen on the socket.
    """
    found = read_status(call)
    show(call, found, _status_lines(found))
    sys.exit(_status_exit_code(found))


def _say_steps(call: Invocation, steps: Iterator[str]) -> None:
    """Run install or uninstall and print each step when it is done; with `--json` all at the end."""
    if call.as_json:
        say_json({"done": tuple(steps)})
        return
    for step in steps:
        say(escape_line(step))


def _status_lines(found: ServiceStatus) -> Iterator[str]:
    """Yield the lines of `service status`: unit files, units or why systemd is silent, and lingering."""
    for file in found.files:
        yield f"{escape_line(file.path)}: {file.state}"
    if found.silence:
        yield escape_line(found.silence)
    else:
        yield from columns((unit.name, _unit_text(unit)) for unit in found.units)
    if found.lingering:
        yield f"lingering: {escape_line(found.lingering)}"


def _unit_text(unit: UnitState) -> str:
    """Format a systemd unit's state for `service status`, with a hint if its file has changed."""
    facts = (
        f"{unit.active} ({unit.sub})",
        unit.enabled,
        f"pid {unit.pid}" if unit.pid else "",
        counted(unit.restarts, "restart") if unit.restarts else "",
        "its file changed since: `systemctl --user daemon-reload`" if unit.is_outdated else "",
    )
    return escape_line(", ".join(filter(None, facts)))


def _status_exit_code(found: ServiceStatus) -> int:
    """Return exit code of `status`: 1 if a unit file is missing, 3 if systemd is not listening."""
    if any(file.state == UnitFileState.MISSING for file in found.files):
        return NOT_DONE
    return OK if any(unit.is_socket and unit.is_active for unit in found.units) else NOT_RUNNING
