"""`forgectl status` and `forgectl ping`: show the state of memory, and ask if the daemon answers."""

from __future__ import annotations

import sys
import time

import click

from forged.cli import plain_verbs
from forged.cli.call import Invocation
from forged.cli.commands import with_daemon_options


@click.command("status")
@click.option("--all", "details", is_flag=True, help="Also show models, other repositories and counters.")
@click.option("--watch", is_flag=True, help="Repeat every 2 s until Ctrl-C.")
@with_daemon_options
def status_command(call: Invocation, *, details: bool, watch: bool) -> None:
    """Show if memory is on here, how much it holds, and what waits for you.

    Never starts the daemon; exit code 3 if it does not run. Problems do not change exit code 0.
    """
    if watch:
        _repeat_status(call, details=details)
    else:
        plain_verbs.status(call, details=details)


@click.command("ping")
@with_daemon_options
def ping_command(call: Invocation) -> None:
    """Ask whether the daemon answers."""
    plain_verbs.ping(call)


def _repeat_status(call: Invocation, *, details: bool) -> None:
    """Print the status every two seconds until Ctrl-C, over the last one where the terminal can."""
    clears = call.can_redraw(sys.stdout) and not call.as_json
    try:
        while True:
            if clears:
                sys.stdout.write("\x1b[H\x1b[2J")
            plain_verbs.status(call, details=details)
            time.sleep(call.watch_period_s)
    except KeyboardInterrupt:
        return
