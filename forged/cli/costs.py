"""`forgectl cost`: what model calls have used, by day and purpose, and what the limits leave for today."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from forged.cli.call import Invocation, ask, show
from forged.cli.commands import asks
from forged.cli.tables import columns
from forged.cli.terminal import escape_line, local_time, tell
from forged_client.protocol import Cost, Costs, DayCost

_HEAD = ("day", "purpose", "calls", "failed", "prompt tokens", "of these said", "completion tokens")


@click.command("cost")
@click.option("--days", type=click.IntRange(1, 90), default=7, show_default=True, help="Today included.")
@asks
def cost_command(call: Invocation, *, days: int) -> None:
    """Show what model calls have used by day (UTC) and purpose, and what today's limit is.

    Of the prompt tokens "of these said" are the conversation, the others instructions and lists.
    """
    costs = ask(call, Cost(days=days))
    if not (costs.days or call.as_json):
        tell("no model was called in that time")
    show(call, costs, _report(costs, call.width))


def _report(costs: Costs, width: int) -> Iterator[str]:
    if costs.days:
        yield from cost_table(costs.days, width)
    if costs.token_limit:
        of_limit = f"of {costs.token_limit:,} tokens (`memory.daily_token_limit`)"
    else:
        of_limit = "tokens, without a limit (`memory.daily_token_limit`)"
    yield f"today {costs.tokens_today:,} {of_limit}; starts anew at {local_time(costs.resets_at)}"
    yield f"at most {costs.calls_per_minute:,} calls a minute"


def _counts(day: DayCost) -> tuple[int, ...]:
    return (day.calls, day.failed, day.prompt_tokens, day.said_tokens, day.completion_tokens)


def cost_table(days: Iterable[DayCost], width: int = 0) -> list[str]:
    """One line a day and purpose, numbers to the right."""
    rows = [
        (
            escape_line(day.day),
            escape_line(day.purpose),
            *(f"{n:,}" for n in _counts(day)),
        )
        for day in days
    ]
    return columns([_HEAD, *rows], numbers_from=2, width=width)
