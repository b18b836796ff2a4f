"""`forgectl remember` and `forget`: the two verbs that change what is remembered."""

from __future__ import annotations

import sys

import click

from forged.cli.asking import agree, require_answer
from forged.cli.commands import asks
from forged.cli.escape import escape_line
from forged.cli.invocation import Invocation
from forged.cli.link import check_done, daemon
from forged.cli.listing import chain_table
from forged.cli.output import say, say_json, tell
from forged.cli.spans import counted
from forged_client.client import Client
from forged_client.protocol import Edge, Forgotten, Remembered


@click.command("remember")
@click.argument("text")
@click.option("--scope", default="repo", show_default=True, help="Who it is for: repo or user.")
@click.option("--category", default="user-facts", show_default=True, help="What it is about.")
@click.option("--supersedes", default="", metavar="ID", help="Memory that this one replaces.")
@click.option("--related", multiple=True, metavar="ID[:RELATIONSHIP]", help="Link to a memory; repeatable.")
@asks
def remember_command(
    call: Invocation, *, text: str, scope: str, category: str, supersedes: str, related: tuple[str, ...]
) -> None:
    """Write one memory, durably; `-` reads its text from stdin."""
    content = sys.stdin.read() if text == "-" else text
    with daemon(call) as client:
        written = client.remember(
            call.workspace,
            content,
            scope=scope,
            category=category,
            supersedes=supersedes,
            related=tuple(map(_edge, related)),
        )
    check_done(written)
    if call.as_json:
        say_json(written)
    else:
        _say_written(written)


@click.command("forget")
@click.argument("memory_id", metavar="ID")
@click.option("--version", "version_only", is_flag=True, help="Only this version, not the whole chain.")
@click.option("--now", "erase_now", is_flag=True, help="Erase at once instead of 7 days in the trash.")
@click.option("--yes", is_flag=True, help="Do not ask. Needed where nobody can answer.")
@asks
def forget_command(
    call: Invocation, *, memory_id: str, version_only: bool, erase_now: bool, yes: bool
) -> None:
    """Take a memory and its older versions away; the receipt says what forged cannot reach."""
    if not yes:
        require_answer(call, "forget")
    with daemon(call) as client:
        if not yes:
            _ask(call, client, memory_id, version_only, erase_now)
        gone = client.forget(call.workspace, memory_id, version_only=version_only, erase_now=erase_now)
    check_done(gone)
    if call.as_json:
        say_json(gone)
    else:
        _say_receipt(gone)


def _edge(text: str) -> Edge:
    memory_id, colon, relationship = text.partition(":")
    return Edge(memory_id, relationship) if colon else Edge(memory_id)


def _say_written(written: Remembered) -> None:
    say(f"remembered {escape_line(written.memory_id)}, version {written.version}")
    say(f"path {escape_line(written.path)}")
    say(f"generation {escape_line(written.generation)}")


def _ask(call: Invocation, client: Client, memory_id: str, version_only: bool, erase_now: bool) -> None:
    """Show what would go and ask. Raises Stop when the answer is no."""
    chain = client.history(call.workspace, memory_id)
    check_done(chain)
    what = "this version" if version_only else counted(len(chain.memories), "version")
    where = "erase it for ever" if erase_now else "move it to the trash for 7 days"
    agree(
        chain_table(chain),
        f"Forget {escape_line(memory_id)} ({what}) and {where}?",
        declined="nothing was forgotten",
    )


def _say_receipt(gone: Forgotten) -> None:
    say(f"forgotten: {', '.join(map(escape_line, gone.ids))}")
    say(f"in the trash for 7 days: {escape_line(gone.trash)}" if gone.trash else "erased")
    for place in gone.unreachable:
        say(f"not reached: {escape_line(place)}")
    say(f"generation {escape_line(gone.generation)}")
    if gone.unreachable:
        tell("what is not reached must be removed by hand")
