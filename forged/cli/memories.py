"""`forgectl list`, `show` and `history`: the memories that a workspace sees."""

from __future__ import annotations

import sys

import click

from forged.cli.commands import asks
from forged.cli.exits import NOT_DONE, Stop
from forged.cli.invocation import Invocation
from forged.cli.link import check_read, daemon
from forged.cli.listing import chain_table, memory_page, memory_table
from forged.cli.output import painter, say, say_json, tell
from forged_client.protocol import Memories


@click.command("list")
@click.option("--scope", default="", help="Only this scope: repo or user.")
@click.option("--category", default="", help="Only this category.")
@click.option("--all-versions", is_flag=True, help="Superseded memories too.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--offset", type=click.IntRange(0), default=0, help="Leave out so many of the newest.")
@click.option("--min-generation", default="", metavar="TOKEN", help="Wait until this write is visible.")
@asks
def list_command(
    call: Invocation,
    *,
    scope: str,
    category: str,
    all_versions: bool,
    limit: int,
    offset: int,
    min_generation: str,
) -> None:
    """List the memories of this workspace, newest first."""
    with daemon(call) as client:
        found = client.list(
            call.workspace,
            scope=scope,
            category=category,
            all_versions=all_versions,
            limit=limit,
            offset=offset,
            min_generation=min_generation,
        )
    check_read(found)
    if call.as_json:
        say_json(found)
        return
    if found.memories:
        say("\n".join(memory_table(found.memories)))
    left = found.total - offset - len(found.memories)
    if left > 0:
        tell(f"and {left:,} more; --limit and --offset show them")
    elif not found.total:
        tell("no memory of this scope and category" if scope or category else "no memories")


@click.command("show")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--min-generation", default="", metavar="TOKEN", help="Wait until this write is visible.")
@asks
def show_command(call: Invocation, *, ids: tuple[str, ...], min_generation: str) -> None:
    """Print memories whole. Ids that are not there are named; the exit code is then 1."""
    with daemon(call) as client:
        found = client.get(call.workspace, ids, min_generation=min_generation)
    check_read(found)
    if call.as_json and found.memories:
        say_json(found)
        sys.exit(NOT_DONE if found.missing else 0)
    _say_pages(call, found)
    if found.missing:
        raise Stop("not_found", f"no memory {', '.join(found.missing)} in this workspace")


@click.command("history")
@click.argument("memory_id", metavar="ID")
@click.option("--min-generation", default="", metavar="TOKEN", help="Wait until this write is visible.")
@asks
def history_command(call: Invocation, *, memory_id: str, min_generation: str) -> None:
    """Show the versions of a memory, oldest first; `*` marks the newest."""
    with daemon(call) as client:
        chain = client.history(call.workspace, memory_id, min_generation=min_generation)
    check_read(chain)
    if call.as_json:
        say_json(chain)
    elif chain.memories:
        say("\n".join(chain_table(chain)))


def _say_pages(call: Invocation, found: Memories) -> None:
    pages = ("\n".join(memory_page(memory, painter(call))) for memory in found.memories)
    text = "\n\n".join(pages)
    if text:
        say(text)
