"""`forgectl cost` and `forgectl outbound`: what calls used and what left, by day. Counts, never text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from forged.cli.call import Invocation, ask, show
from forged.cli.commands import asks
from forged.cli.tables import columns
from forged.cli.terminal import escape_line, local_time, tell
from forged_client.protocol import Cost, Costs, DayCost, Egress

_LEFT = ("day", "host", "purpose", "calls", "failed", "texts", "characters")
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
        yield from _cost_table(costs.days, width)
    if costs.token_limit:
        of_limit = f"of {costs.token_limit:,} tokens (`memory.daily_token_limit`)"
    else:
        of_limit = "tokens, without a limit (`memory.daily_token_limit`)"
    yield f"today {costs.tokens_today:,} {of_limit}; starts anew at {local_time(costs.resets_at)}"
    yield f"at most {costs.calls_per_minute:,} calls a minute"


def _cost_table(days: Iterable[DayCost], width: int) -> list[str]:
    rows: list[tuple[str, ...]] = [_HEAD]
    for day in days:
        counts = (day.calls, day.failed, day.prompt_tokens, day.said_tokens, day.completion_tokens)
        rows.append((escape_line(day.day), escape_line(day.purpose), *(f"{n:,}" for n in counts)))
    return columns(rows, numbers_from=2, width=width)


@click.command("outbound")
@click.option("--days", type=click.IntRange(1, 90), default=7, show_default=True, help="Today included.")
@asks
def outbound_command(call: Invocation, *, days: int) -> None:
    """Show what left for endpoints by day (UTC), host and purpose: calls, texts and characters."""
    found, rows = ask(call, Egress(days=days)), list[tuple[str, ...]]([_LEFT])
    if not (found.days or call.as_json):
        tell("nothing left in that time")
    for day in found.days:
        counts = (f"{n:,}" for n in (day.calls, day.failed, day.texts, day.characters))
        rows.append((*map(escape_line, (day.day, day.host, day.purpose)), *counts))
    show(call, found, columns(rows, numbers_from=3, width=call.width) if found.days else ())
