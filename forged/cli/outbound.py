"""`forgectl outbound`: what left the machine, by day, host and purpose. Counts, never text."""

from __future__ import annotations

from collections.abc import Iterable

import click

from forged.cli.call import Invocation, ask, show
from forged.cli.commands import asks
from forged.cli.tables import columns
from forged.cli.terminal import escape_line, tell
from forged_client.protocol import DayOutbound, Outbound

_HEAD = ("day", "host", "purpose", "calls", "failed", "texts", "characters")


@click.command("outbound")
@click.option("--days", type=click.IntRange(1, 90), default=7, show_default=True, help="Today included.")
@asks
def outbound_command(call: Invocation, *, days: int) -> None:
    """Show what left for endpoints by day (UTC), host and purpose: calls, texts and characters."""
    found = ask(call, Outbound(days=days))
    if not (found.days or call.as_json):
        tell("nothing left in that time")
    show(call, found, _table(found.days, call.width) if found.days else ())


def _table(days: Iterable[DayOutbound], width: int) -> list[str]:
    """One line a day, host and purpose, numbers to the right."""
    rows = [
        (
            *(escape_line(text) for text in (day.day, day.host, day.purpose)),
            *(f"{n:,}" for n in (day.calls, day.failed, day.texts, day.characters)),
        )
        for day in days
    ]
    return columns([_HEAD, *rows], numbers_from=3, width=width)
