"""`forgectl logs`: print the daemon's log, without asking the daemon.

The log of a service is in systemd's journal. A daemon that a client started writes to a file. A daemon in the
foreground writes to its terminal.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import click

from forged.cli.call import Invocation
from forged.cli.commands import with_json_option
from forged.cli.exits import Stop
from forged.cli.log_file import LogFile
from forged.cli.terminal import escape, say, say_json, tell
from forged.cli.user_manager import SERVICE, login_environment, manager_at_address, program
from forged_client.address import state_dir
from forged_client.autostart import LOG_NAME
from forged_client.errors import AddressError


@click.command("logs")
@click.option(
    *("-n", "--lines", "number"),
    type=click.IntRange(min=0),
    metavar="N",
    default=50,
    help="Number of lines from the end (default: 50).",
)
@click.option("-f", "--follow", "follows", is_flag=True, help="Follow the log until Ctrl-C.")
@with_json_option
def logs_command(call: Invocation, *, number: int, follows: bool) -> None:
    """Show the end of the daemon's log: systemd's journal, or the daemon's own file."""
    if call.as_json and follows:
        raise Stop("usage", "--json prints one object and --follow never ends: use only one of them")
    lines = (_journal_lines if _is_in_journal(call) else _file_lines)(call, number, follows=follows)
    try:
        if call.as_json:
            say_json({"lines": tuple(lines)})
        else:
            for line in lines:
                say(escape(line))
    except KeyboardInterrupt:
        return


def _is_in_journal(call: Invocation) -> bool:
    """Return True if systemd knows the daemon's unit, running or not, so its log is in the journal."""
    manager = manager_at_address(call)
    return manager is not None and manager.unit(SERVICE).load == "loaded"


def _journal_lines(call: Invocation, number: int, *, follows: bool) -> Iterator[str]:
    """Yield the last lines of the daemon's log in systemd's journal, with `follows` each new one."""
    journalctl = program(call, "journalctl")
    if not journalctl:
        raise Stop(
            "unavailable", "systemd runs the daemon, but journalctl was not found, so its log cannot be shown"
        )
    # Of all journals that may be read: where they are not split by users --user would find none.
    command = [journalctl, f"--user-unit={SERVICE}", f"--lines={number}", "--no-pager", "--quiet"]
    with subprocess.Popen(
        [*command, "--follow"] if follows else command,
        env=login_environment(call),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield line.rstrip("\n")
            if process.wait():
                raise Stop("unavailable", f"journalctl ended with exit code {process.returncode}")
        finally:
            process.terminate()


def _file_lines(call: Invocation, number: int, *, follows: bool) -> Iterator[str]:
    """Yield the last lines of the daemon's log file, and with `follows` each new one. Raises Stop."""
    try:
        path = os.path.join(state_dir(call.environ), LOG_NAME)
    except AddressError as error:
        raise Stop("configuration", str(error)) from error
    if not os.path.exists(path):
        if not follows:
            raise Stop("not_found", f"{path} does not exist: no client has started a daemon here yet")
        tell(f"forgectl: waiting for {path}")
    log = LogFile(path)
    try:
        yield from log.read_last(number)
        while follows:
            time.sleep(call.log_period_s)
            yield from log.read_new()
    except OSError as error:
        raise Stop("unavailable", f"{path} cannot be read: {error.strerror}") from error
