"""`forgectl search`, `retrieve` and `why`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from forged.cli import plain_verbs
from forged.cli.call import Invocation, ask, check_read, daemon, show, stdin_text, tell_notice
from forged.cli.commands import asks, min_generation_option
from forged.cli.exits import Stop
from forged.cli.listing import explanation, hit_lines
from forged.cli.scope_search import scope_options, search_scopes
from forged.cli.tables import folded
from forged.cli.terminal import tell
from forged_client.protocol import Message, Search, Why

_INDENT = "    "
_LIMIT = 10
_conversation = msgspec.json.Decoder(tuple[Message, ...])
_as_agent = click.option(
    "--agent",
    default="",
    metavar="NAME",
    help="Include the memories of this agent, if [scopes].retrieve names agent.",
)


@click.command("search")
@click.argument("query")
@scope_options
@click.option("--limit", type=click.IntRange(1, 100), help=f"Most memories (default: {_LIMIT}; scopes: all).")
@click.option("-v", "--verbose", is_flag=True, help="Show the figures of each match, too.")
@min_generation_option
@asks
def search_command(
    call: Invocation, *, query: str, limit: int | None, verbose: bool, min_generation: str, **scoped: Any
) -> None:
    """Find memories of this repository and your own by text, best first, marked strong, near or weak.

    With --scope, --session, --agent, --user, --filter or --text it searches scopes: session, user, agent,
    org (documents) and repo, and prints the distance of each memory.
    """
    if any(scoped.values()):
        if min_generation:
            raise Stop("usage", "--min-generation is for a search without options that name scopes")
        search_scopes(call, query, limit, **scoped)
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


@click.command("retrieve")
@click.argument("message", required=False)
@click.option("--session", "session_id", default="", metavar="ID", help="Record it under this session.")
@click.option(
    "--turn", "turn_id", default="", metavar="ID", help="Turn; the same turn is answered from the cache."
)
@click.option(
    "--hypothesis",
    "hypotheses",
    multiple=True,
    metavar="TEXT",
    help="Sentence to search for instead; repeatable.",
)
@click.option(
    "--budget", "token_budget", type=click.IntRange(0), metavar="TOKENS", help="Most tokens; 0: no limit."
)
@click.option(
    "--stdin-json", is_flag=True, help="Read the conversation from stdin: a JSON array of messages."
)
@_as_agent
@asks
def retrieve_command(call: Invocation, *, message: str | None, stdin_json: bool, **fields: Any) -> None:
    """Print the block that an agent without a session id would get; `-` reads the message from stdin.

    Control and hidden characters are escaped, in a pipe too; --json has the exact text.
    """
    messages = _messages(message, stdin_json)
    if not messages and not fields["hypotheses"]:
        raise Stop("usage", "give a MESSAGE, --hypothesis or --stdin-json")
    plain_verbs.retrieve(call, messages, **fields)


@click.command("why")
@click.argument("query", default="")
@click.option("--session", default="", metavar="ID", help="Session (default: the last one of the workspace).")
@_as_agent
@asks
def why_command(call: Invocation, *, query: str, session: str, agent: str) -> None:
    """Explain the last injection of a session, or with QUERY what an agent would get now."""
    if query and session:
        raise Stop("usage", "give a QUERY or --session, not both")
    with daemon(call) as client:
        found = client.ask(Why(workspace=call.workspace, session_id=session, query=query, agent=agent))
    if call.as_json or not found.at:
        check_read(found)
    lines = explanation(found, query, call.paint, call.width) if found.at else ()
    show(call, found, (part for each in lines for part in folded(each, call.width, _INDENT)))
    tell_notice(call, found)


def _messages(message: str | None, stdin_json: bool) -> tuple[Message, ...]:
    if not stdin_json:
        return plain_verbs.user_message(stdin_text() if message == "-" else message or "")
    if message is not None:
        raise Stop("usage", "give a MESSAGE or --stdin-json, not both")
    try:
        return _conversation.decode(stdin_text())
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Stop("usage", f"stdin is not a JSON array of messages: {error}") from error
