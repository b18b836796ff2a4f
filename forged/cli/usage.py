"""`forgectl usage`: counts of text that left the machine and of model calls by day, and the limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from forged.cli.call import Invocation, check_read, open_client, show
from forged.cli.commands import with_daemon_options
from forged.cli.tables import columns
from forged.cli.terminal import Painter, escape_line, local_time
from forged_client.protocol import Cost, Costs, DayCost, DayEgress, Egress

_EGRESS = ("day", "host", "purpose", "calls", "failed", "texts", "characters")
_CALLS = ("day", "purpose", "calls", "failed", "prompt tokens", "conversation tokens", "completion tokens")


@click.command("usage")
@click.option(
    "--days",
    type=click.IntRange(1, 90),
    default=7,
    show_default=True,
    metavar="N",
    help="Number of days, today included.",
)
@with_daemon_options
def usage_command(call: Invocation, *, days: int) -> None:
    """Show what left the machine, what model calls used, and the limits; by day (UTC) and purpose.

    Conversation tokens are part of the prompt tokens; the others are instructions and lists.
    """
    with open_client(call) as client:
        egress, costs = client.ask(Egress(days=days)), client.ask(Cost(days=days))
    check_read(egress)
    check_read(costs)
    report = {
        "egress": egress.days,
        "calls": costs.days,
        "tokens_today": costs.tokens_today,
        "token_limit": costs.token_limit,
        "calls_per_minute": costs.calls_per_minute,
        "resets_at": costs.resets_at,
    }
    show(call, report, _usage_lines(egress.days, costs, days, call.paint, call.width))


def _usage_lines(
    egress: Sequence[DayEgress], costs: Costs, days: int, paint: Painter, width: int
) -> Iterator[str]:
    """Yield the lines of `usage`: tables of egress and of model calls, and the limits."""
    since = "today" if days == 1 else f"in the last {days} days"
    yield paint("strong", "What left the machine")
    yield from _egress_table(egress, width) if egress else (f"no text left the machine {since}",)
    yield ""
    yield paint("strong", "Model calls")
    yield from _calls_table(costs.days, width) if costs.days else (f"no model was called {since}",)
    yield ""
    yield paint("strong", "Limits")
    if costs.token_limit:
        limit = f"of {costs.token_limit:,} tokens (`memory.daily_token_limit`)"
    else:
        limit = "tokens, no limit (`memory.daily_token_limit`)"
    yield f"today {costs.tokens_today:,} {limit}; the count restarts at {local_time(costs.resets_at)}"
    yield f"at most {costs.calls_per_minute:,} calls a minute"


def _egress_table(days: Sequence[DayEgress], width: int) -> list[str]:
    """Return a table of text that left the machine: calls and amounts by day, host and purpose."""
    rows: list[tuple[str, ...]] = [_EGRESS]
    for day in days:
        counts = (day.calls, day.failed, day.texts, day.characters)
        rows.append((*map(escape_line, (day.day, day.host, day.purpose)), *(f"{n:,}" for n in counts)))
    return columns(rows, numbers_from=3, width=width)


def _calls_table(days: Sequence[DayCost], width: int) -> list[str]:
    """Return a table of model calls, failures and tokens, by day and purpose."""
    rows: list[tuple[str, ...]] = [_CALLS]
    for day in days:
        counts = (day.calls, day.failed, day.prompt_tokens, day.said_tokens, day.completion_tokens)
        rows.append((escape_line(day.day), escape_line(day.purpose), *(f"{n:,}" for n in counts)))
    return columns(rows, numbers_from=2, width=width)
