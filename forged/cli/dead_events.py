"""`forgectl dead`: capture events that were given up, to be looked at, tried again or thrown away."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import click

from forged.cli.asking import agree, require_answer
from forged.cli.commands import asks
from forged.cli.escape import escape, escape_line
from forged.cli.exits import NOT_DONE, Stop
from forged.cli.invocation import Invocation
from forged.cli.link import check_read, daemon
from forged.cli.output import Painter, painter, say, say_json, tell
from forged.cli.spans import columns, counted
from forged_client.client import Client
from forged_client.protocol import DeadEvent, DeadEvents

_NONE = "no capture event was given up"
_ALL = click.option("--all", "every", is_flag=True, help="All of them.")
_IDS = click.argument("ids", nargs=-1, metavar="[ID...]")


@click.group("dead")
def dead_command() -> None:
    """List, show, retry or drop capture events that were given up."""


@dead_command.command("list", short_help="List them, and why each was given up.")
@asks
def list_command(call: Invocation) -> None:
    """List capture events that were given up, oldest first, and why."""
    with daemon(call) as client:
        found = client.dead()
    check_read(found)
    if call.as_json:
        say_json(found)
    elif found.events:
        say("\n".join(event_table(found.events)))
    else:
        tell(_NONE)


@dead_command.command("show", short_help="Print one with its conversation.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@asks
def show_command(call: Invocation, *, ids: tuple[str, ...]) -> None:
    """Print what is known of an event, and the part of the conversation that it holds."""
    with daemon(call) as client:
        found = client.dead("show", ids)
    check_read(found)
    if found.events and not call.as_json:
        say("\n\n".join("\n".join(event_page(event, painter(call))) for event in found.events))
    _end(call, found)


@dead_command.command("retry", short_help="Queue them again.")
@_IDS
@_ALL
@asks
def retry_command(call: Invocation, *, ids: tuple[str, ...], every: bool) -> None:
    """Queue events again, as if they had just come."""
    _require_choice(ids, every)
    with daemon(call) as client:
        done = client.dead("retry", ids)
    _say_done(call, done, "queued again")


@dead_command.command("drop", short_help="Erase them.")
@_IDS
@_ALL
@click.option("--yes", is_flag=True, help="Do not ask. Needed where nobody can answer.")
@asks
def drop_command(call: Invocation, *, ids: tuple[str, ...], every: bool, yes: bool) -> None:
    """Erase events for ever; what they held is never captured."""
    _require_choice(ids, every)
    if not yes:
        require_answer(call, "drop")
    with daemon(call) as client:
        if not yes:
            ids = _ask(client, ids)
        # No ids would be all of them, and not only those that were shown.
        done = client.dead("drop", ids) if ids or yes else DeadEvents(status="empty")
    _say_done(call, done, "dropped")


def event_table(events: Iterable[DeadEvent]) -> list[str]:
    """One line an event: id, when it died, kind, repository, reason."""
    return columns(
        (
            escape_line(event.id),
            escape_line(event.died_at[:19]),
            escape_line(event.kind),
            escape_line(event.root),
            escape_line(event.reason),
        )
        for event in events
    )


def event_page(event: DeadEvent, paint: Painter) -> Iterator[str]:
    """An event whole: its fields, an empty line, its conversation."""
    yield paint("strong", escape_line(event.id))
    fields = {
        "kind": event.kind,
        "session": event.session_id,
        "root": event.root,
        "received": event.received_at,
        "died": event.died_at,
        "size": counted(event.bytes, "byte"),
        "reason": event.reason,
    }
    yield from (f"{name} {escape_line(value)}" for name, value in fields.items() if value)
    if event.text:
        yield ""
        yield escape(event.text.rstrip("\n"))


def _require_choice(ids: tuple[str, ...], every: bool) -> None:
    if bool(ids) == every:
        raise Stop("usage", "say which events by their ids, or --all")


def _ask(client: Client, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Show what would go and ask; the ids to drop. Raises Stop when the answer is no."""
    found = client.dead("list", ids)
    check_read(found)
    if found.events:
        agree(
            event_table(found.events),
            f"Erase {counted(len(found.events), 'event')} for ever?",
            declined="nothing was dropped",
        )
    return ids or tuple(event.id for event in found.events)


def _say_done(call: Invocation, done: DeadEvents, what: str) -> None:
    check_read(done)
    if not call.as_json:
        if done.events:
            say(f"{what}: {', '.join(escape_line(event.id) for event in done.events)}")
        elif not done.missing:
            tell(_NONE)
    _end(call, done)


def _end(call: Invocation, found: DeadEvents) -> None:
    """Name what is not there; exit code 1 then."""
    if call.as_json and (found.events or not found.missing):
        say_json(found)
        sys.exit(NOT_DONE if found.missing else 0)
    if found.missing:
        raise Stop("not_found", f"no event {', '.join(found.missing)} was given up")
