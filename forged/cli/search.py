"""`forgectl search`: in repository and user memories, or in the scopes that options name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
import msgspec

from forged.cli.call import Invocation, ask, show, tell_notice
from forged.cli.commands import min_generation_option, with_daemon_options
from forged.cli.exits import Stop
from forged.cli.listing import gist, hit_lines
from forged.cli.memories import SCOPES, parse_key_value
from forged.cli.tables import folded
from forged.cli.terminal import Painter, counted, escape_line, local_time, say_escaped, tell
from forged_client.protocol import MemoryRecord, Recall, Recalled, Scope, Search

_INDENT = "    "
_LIMIT = 10
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


def _add_scope_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a search in named scopes (scope, owners, filters) to a click command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("search")
@click.argument("query")
@_add_scope_options
@click.option(
    "--limit",
    type=click.IntRange(1, 100),
    metavar="N",
    help=f"Most memories (default: {_LIMIT}; scopes: all).",
)
@click.option("-v", "--verbose", is_flag=True, help="Show the figures of each match, too.")
@min_generation_option
@with_daemon_options
def search_command(
    call: Invocation, *, query: str, limit: int | None, verbose: bool, min_generation: str, **scoped: Any
) -> None:
    """Find memories of this repository and your own by text, best first, marked strong, near or weak.

    With --scope it searches these scopes; with --session, --agent, --user, --filter or --text all scopes:
    repo, user, org (documents), and the session and agent that are named. It then prints distances.
    """
    if any(scoped.values()):
        if min_generation:
            raise Stop("usage", "--min-generation is for a search without options that name scopes")
        _search_scopes(call, query, limit, **scoped)
        return
    request = Search(
        workspace=call.workspace,
        query=query,
        limit=limit or _LIMIT,
        min_generation=min_generation,
        rated=True,
    )
    found = ask(call, request)
    show(call, found, hit_lines(found.memories, call.paint, call.width, figures=verbose))
    tell_notice(call, found)
    if not (call.as_json or found.memories or found.status == "disabled"):
        tell("no memory found; searched: repo, user (--scope, --session and --agent search others)")


def _search_scopes(
    call: Invocation,
    query: str,
    limit: int | None,
    *,
    scopes: tuple[str, ...],
    filters: tuple[str, ...],
    as_text: bool,
    **owners: Any,
) -> None:
    """Search the named scopes, or all, and print one list, nearest first, as lines, text or JSON."""
    wanted = dict(parse_key_value("--filter", each) for each in filters)
    request = Recall(query=query, workspace=call.workspace, filters=wanted, scopes=scopes or _ALL, **owners)
    for scope, owner in (("session", request.session_id), ("agent", request.agent_id)):
        if scope in scopes and not owner:
            raise Stop("usage", f"--scope {scope} needs --{scope}, whose memories it searches")
    reply = ask(call, request)
    if limit is not None:
        reply = msgspec.structs.replace(reply, memories=reply.memories[:limit])
    if as_text and not call.as_json:
        say_escaped(reply.text)
    else:
        show(call, reply, _hit_lines(reply, call.paint, call.width))
    if not (call.as_json or reply.memories or reply.reason):
        tell(f"no memory matches the query; searched: {', '.join(request.scopes)}")


def _hit_lines(reply: Recalled, paint: Painter, width: int) -> Iterator[str]:
    """Yield lines for each hit of a search in scopes: id, scope, distance, text, and attributes."""
    for number, memory in enumerate(reply.memories, 1):
        yield from folded(paint("strong", f"{number}. {_hit_head(memory)}"), width, _INDENT)
        yield from folded(_INDENT + gist(memory.content, width), width, _INDENT)
        if about := ", ".join(_hit_facts(memory)):
            yield from folded(_INDENT + about, width, _INDENT)


def _hit_head(memory: MemoryRecord) -> str:
    """Return id and scope of a search hit, and its distance, or that keywords found it."""
    distance = memory.found.distance if memory.found is not None else None
    near = "by keywords" if distance is None else f"distance {distance:.3f}"
    return f"{escape_line(memory.id)}  {escape_line(memory.scope)}  {near}"


def _hit_facts(memory: MemoryRecord) -> Iterable[str]:
    """Yield a search hit's type, importance, source, metadata, number of uses and expiry, if set."""
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
