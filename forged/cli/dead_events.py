"""`forgectl dead`: list, show, retry or drop capture events that failed.

Events that wait for a folder, which is not at its path now, are listed with them and dropped by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from forged.cli.call import Invocation, ask, check_read, open_client, show, show_found
from forged.cli.commands import with_daemon_options
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import Stop
from forged.cli.tables import columns
from forged.cli.terminal import Painter, counted, escape, escape_line, listed, local_time, shown_fields, tell
from forged_client.client import Client
from forged_client.protocol import Dead, DeadEvent, DeadEvents

_NONE = "no capture event has failed"
_ALL = click.option("--all", "every", is_flag=True, help="All failed events.")
_IDS = click.argument("ids", nargs=-1, metavar="[ID...]")


@click.group("dead")
def dead_command() -> None:
    """List, show, retry or drop capture events that failed for good."""


@dead_command.command("list", short_help="List them with the reason.")
@with_daemon_options
def list_command(call: Invocation) -> None:
    """List capture events that failed for good, oldest first, with the reason.

    Events that wait because another folder, or none, is at their path now are listed, too.
    """
    found = ask(call, Dead())
    show(call, found, event_table(found.events, call.width))
    if not (found.events or call.as_json):
        tell(_NONE)


@dead_command.command("show", short_help="Print events with their messages.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@with_daemon_options
def show_command(call: Invocation, *, ids: tuple[str, ...]) -> None:
    """Print failed events with their attributes and messages."""
    found = ask(call, Dead(action="show", ids=ids))
    _show_events(call, found, ["\n".join(event_page(event, call.paint)) for event in found.events])


@dead_command.command("retry", short_help="Queue them again.")
@_IDS
@_ALL
@with_daemon_options
def retry_command(call: Invocation, *, ids: tuple[str, ...], every: bool) -> None:
    """Queue failed events again, as new ones.

    An event whose folder is not at its path now is refused.
    """
    _require_choice(ids, every)
    _show_receipt(call, ask(call, Dead(action="retry", ids=ids)), "queued again")


@dead_command.command("drop", short_help="Erase them.")
@_IDS
@_ALL
@yes_option
@with_daemon_options
def drop_command(call: Invocation, *, ids: tuple[str, ...], every: bool, yes: bool) -> None:
    """Erase failed events for ever; their messages are never captured.

    `--all` erases the failed events. Events that wait for a folder are erased only by ID.
    """
    _require_choice(ids, every)
    if not yes:
        require_answer(call, "dead drop")
    with open_client(call) as client:
        if not yes:
            ids = _confirm(call, client, ids)
        # A request without ids would drop all of them, not only those that were shown.
        done = client.ask(Dead(action="drop", ids=ids)) if ids or yes else DeadEvents(status="empty")
    check_read(done)
    _show_receipt(call, done, "dropped")


def event_table(events: Iterable[DeadEvent], width: int = 0) -> list[str]:
    """Return a table of failed or waiting capture events: id, time, kind, repository, reason."""
    rows = (
        (event.id, local_time(event.died_at) or "waits", event.kind, event.root, event.reason)
        for event in events
    )
    return columns((tuple(map(escape_line, row)) for row in rows), width=width)


def event_page(event: DeadEvent, paint: Painter) -> Iterator[str]:
    """Yield a failed capture event whole: its attributes, an empty line, its messages."""
    yield paint("strong", escape_line(event.id))
    fields = {
        "kind": event.kind,
        "session": event.session_id,
        "repository": event.root,
        "received": event.received_at,
        "failed": event.died_at,
        "size": counted(event.bytes, "byte"),
        "reason": event.reason,
    }
    yield from shown_fields(fields)
    if event.text:
        yield ""
        yield escape(event.text.rstrip("\n"))


def _require_choice(ids: tuple[str, ...], every: bool) -> None:
    """Raise Stop unless a command on failed events has either ids or `--all`."""
    if bool(ids) == every:
        raise Stop("usage", "name events by ID, or give --all")


def _confirm(call: Invocation, client: Client, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Show events that `dead drop` would erase, if any, and ask; return ids. Raises Stop on no."""
    found = client.ask(Dead(action="list", ids=ids))
    check_read(found)
    meant = [event for event in found.events if ids or not event.waits]
    if meant:
        question = f"Erase {counted(len(meant), 'event')} for ever?"
        confirm(event_table(meant, call.width), question, declined="nothing was dropped")
    return ids or tuple(event.id for event in meant)


def _show_receipt(call: Invocation, done: DeadEvents, what: str) -> None:
    """Print ids of events retried or dropped, or that none failed; exit code 1 if one is absent."""
    if not (done.events or done.missing or call.as_json):
        tell(_NONE)
    _show_events(call, done, [f"{what}: {listed(event.id for event in done.events)}"] if done.events else [])


def _show_events(call: Invocation, found: DeadEvents, pages: list[str]) -> None:
    """Print texts about failed events; exit code 1 if an id was not found or is refused."""
    sentence = found.reason or f"there is no failed event {', '.join(found.missing)}"
    show_found(call, found, pages, found.missing, sentence)
