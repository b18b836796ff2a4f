"""`forgectl cost`: what model calls have used, by day and purpose, and what the limits leave for today."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import click

from forged.cli.commands import asks
from forged.cli.escape import escape_line
from forged.cli.invocation import Invocation
from forged.cli.link import check_read, daemon
from forged.cli.output import say, say_json, tell
from forged.cli.spans import columns
from forged_client.protocol import Costs, DayCost

_HEAD = ("day", "purpose", "calls", "failed", "prompt tokens", "completion tokens")
_WORDS = 2  # columns of words; the rest are numbers


@click.command("cost")
@click.option("--days", type=click.IntRange(1, 90), default=7, show_default=True, help="Today included.")
@asks
def cost_command(call: Invocation, *, days: int) -> None:
    """Show what model calls have used by day (UTC) and purpose, and what today's limit is."""
    with daemon(call) as client:
        costs = client.cost(days=days)
    check_read(costs)
    if call.as_json:
        say_json(costs)
        return
    if costs.days:
        say("\n".join(cost_table(costs.days)))
    else:
        tell("no model was called in that time")
    say("\n".join(_limits(costs)))


def cost_table(days: Iterable[DayCost]) -> list[str]:
    """One line a day and purpose, numbers to the right."""
    rows = [
        (
            escape_line(day.day),
            escape_line(day.purpose),
            *(f"{n:,}" for n in (day.calls, day.failed, day.prompt_tokens, day.completion_tokens)),
        )
        for day in days
    ]
    return columns(_numbers_right([_HEAD, *rows]))


def _numbers_right(rows: Sequence[Sequence[str]]) -> Iterator[Sequence[str]]:
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        numbers = zip(row[_WORDS:], widths[_WORDS:], strict=True)
        yield (*row[:_WORDS], *(cell.rjust(width) for cell, width in numbers))


def _limits(costs: Costs) -> Iterator[str]:
    if costs.token_limit:
        of_limit = f"of {costs.token_limit:,} tokens (`memory.daily_token_limit`)"
    else:
        of_limit = "tokens, without a limit (`memory.daily_token_limit`)"
    yield f"today {costs.tokens_today:,} {of_limit}; starts anew at {escape_line(costs.resets_at)}"
    if costs.calls_per_minute:
        yield f"at most {costs.calls_per_minute:,} calls a minute (`llm.calls_per_minute`)"
