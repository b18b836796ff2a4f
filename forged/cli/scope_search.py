"""`forgectl recall`: what a session, you, an agent and your documents remember about a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click
import msgspec

from forged.cli.call import Invocation, ask, show
from forged.cli.commands import asks
from forged.cli.memories import key_and_value
from forged.cli.tables import folded
from forged.cli.terminal import Painter, counted, escape_line, local_time, say_exactly
from forged_client.protocol import MemoryRecord, Recall, Recalled, Scope

_INDENT = "    "


@click.command("recall")
@click.argument("query")
@click.option("--session", "session_id", default="", metavar="ID", help="What this session remembers, too.")
@click.option("--agent", "agent_id", default="", metavar="NAME", help="What this agent remembers, too.")
@click.option("--user", "user_id", default="", metavar="ID", help="Whose memories (default: yours).")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only what has this in its metadata; a VALUE that is JSON is taken as such; repeatable.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(list(map(str, Scope))),
    help="Search this one instead of session, user, agent and org; repeatable.",
)
@click.option("--text", "as_text", is_flag=True, help="Print the injection, as an agent gets it.")
@asks
def recall_command(call: Invocation, *, filters: tuple[str, ...], as_text: bool, **fields: Any) -> None:
    """Recall over all scopes: one list, the nearest first, each memory with its scope and distance."""
    wanted = dict(key_and_value("--filter", each) for each in filters)
    reply = ask(call, Recall(workspace=call.workspace, filters=wanted, **fields))
    if as_text and not call.as_json:
        say_exactly(reply.text)
    else:
        show(call, reply, _lines(reply, call.paint, call.width))


def _lines(reply: Recalled, paint: Painter, width: int) -> Iterator[str]:
    for number, memory in enumerate(reply.memories, 1):
        yield from folded(paint("strong", f"{number}. {_head(memory)}"), width, _INDENT)
        yield from folded(_INDENT + escape_line(_first_line(memory.content)), width, _INDENT)
        if about := ", ".join(_about(memory)):
            yield from folded(_INDENT + about, width, _INDENT)


def _head(memory: MemoryRecord) -> str:
    distance = memory.found.distance if memory.found is not None else None
    near = "by words" if distance is None else f"distance {distance:.3f}"
    return f"{escape_line(memory.id)}  {escape_line(memory.scope)}  {near}"


def _first_line(content: str) -> str:
    return next((line for line in content.splitlines() if line.strip()), "")


def _about(memory: MemoryRecord) -> Iterable[str]:
    if memory.memory_type:
        yield escape_line(memory.memory_type)
    if memory.importance != 1.0:
        yield f"importance {memory.importance:g}"
    if memory.source:
        yield f"from {escape_line(memory.source)}"
    if memory.metadata:
        yield escape_line(msgspec.json.encode(memory.metadata).decode())
    if memory.access_count:
        yield f"recalled {counted(memory.access_count, 'time')} before"
    if memory.expires_at:
        yield f"until {local_time(memory.expires_at)}"
