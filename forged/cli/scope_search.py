"""`forgectl search` in named scopes: memories of a session, user, agent, organization and repository."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
import msgspec

from forged.cli.call import Invocation, ask, show
from forged.cli.exits import Stop
from forged.cli.memories import SCOPES, key_and_value
from forged.cli.tables import folded
from forged.cli.terminal import Painter, counted, escape_line, local_time, say_exactly, tell
from forged_client.protocol import MemoryRecord, Recall, Recalled, Scope

_INDENT = "    "
_ALL = tuple(map(str, Scope))
_OPTIONS = (
    click.option(
        "--scope",
        "scopes",
        multiple=True,
        type=SCOPES,
        help="Search only this scope; documents are in org; repeatable.",
    ),
    click.option(
        "--session", "session_id", default="", metavar="ID", help="Search the memories of a session, too."
    ),
    click.option(
        "--agent", "agent_id", default="", metavar="NAME", help="Search the memories of an agent, too."
    ),
    click.option("--user", "user_id", default="", metavar="ID", help="Owner of the user memories."),
    click.option(
        "--filter",
        "filters",
        multiple=True,
        metavar="KEY=VALUE",
        help="Only memories with this in their metadata; repeatable.",
    ),
    click.option("--text", "as_text", is_flag=True, help="Print the block that an agent would get."),
)


def scope_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name scopes, and what is wanted of them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def search_scopes(
    call: Invocation,
    query: str,
    limit: int | None,
    *,
    scopes: tuple[str, ...],
    filters: tuple[str, ...],
    as_text: bool,
    **owners: Any,
) -> None:
    """Search scopes and print one list, nearest first, each memory with its scope and distance.

    Without `scopes` all are searched: those of a session or an agent only if `owners` names it.
    """
    wanted = dict(key_and_value("--filter", each) for each in filters)
    request = Recall(query=query, workspace=call.workspace, filters=wanted, scopes=scopes or _ALL, **owners)
    for scope, owner in (("session", request.session_id), ("agent", request.agent_id)):
        if scope in scopes and not owner:
            raise Stop("usage", f"--scope {scope} needs --{scope}, whose memories it searches")
    reply = ask(call, request)
    if limit is not None:
        reply = msgspec.structs.replace(reply, memories=reply.memories[:limit])
    if as_text and not call.as_json:
        say_exactly(reply.text)
    else:
        show(call, reply, _lines(reply, call.paint, call.width))
    if not (call.as_json or reply.memories or reply.reason):
        tell(f"no memory matches the query; searched: {', '.join(request.scopes)}")


def _lines(reply: Recalled, paint: Painter, width: int) -> Iterator[str]:
    for number, memory in enumerate(reply.memories, 1):
        yield from folded(paint("strong", f"{number}. {_head(memory)}"), width, _INDENT)
        yield from folded(_INDENT + escape_line(_gist(memory.content, width)), width, _INDENT)
        if about := ", ".join(_about(memory)):
            yield from folded(_INDENT + about, width, _INDENT)


def _head(memory: MemoryRecord) -> str:
    distance = memory.found.distance if memory.found is not None else None
    near = "by keywords" if distance is None else f"distance {distance:.3f}"
    return f"{escape_line(memory.id)}  {escape_line(memory.scope)}  {near}"


def _gist(content: str, width: int) -> str:
    """Return the first line for a terminal, and the whole text as one line for a pipe."""
    lines = list(filter(None, map(str.strip, content.split("\n"))))
    return " ".join(lines[:1] if width else lines)


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
        yield f"found {counted(memory.access_count, 'time')} before"
    if memory.expires_at:
        yield f"until {local_time(memory.expires_at)}"
