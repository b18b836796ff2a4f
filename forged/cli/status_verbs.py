"""`forgectl status` and `forgectl ping`: what the daemon is doing, and whether it answers."""

from __future__ import annotations

import sys
import time

import click

from forged.cli import plain_verbs
from forged.cli.call import Invocation
from forged.cli.commands import asks


@click.command("status")
@click.option("--watch", is_flag=True, help="Repeat every 2 s until Ctrl-C.")
@asks
def status_command(call: Invocation, *, watch: bool) -> None:
    """Show what the daemon is doing. Never starts one; exit code 3 says that there is none.

    A degraded or disabled daemon is no failure of this command: exit code 0.
    """
    if watch:
        _watch(call)
    else:
        plain_verbs.status(call)


@click.command("ping")
@asks
def ping_command(call: Invocation) -> None:
    """Ask whether the daemon answers."""
    plain_verbs.ping(call)


def _watch(call: Invocation) -> None:
    clears = call.redraws(sys.stdout) and not call.as_json
    try:
        while True:
            if clears:
                sys.stdout.write("\x1b[H\x1b[2J")
            plain_verbs.status(call)
            time.sleep(call.watch_period_s)
    except KeyboardInterrupt:
        return
