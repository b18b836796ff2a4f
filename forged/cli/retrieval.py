"""`forgectl search`, `retrieve` and `why`: what is found, what an agent would get, and the reasons."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from forged.cli import plain_verbs
from forged.cli.call import Invocation, ask, check_read, daemon, show, stdin_text, tell_notice
from forged.cli.commands import asks, min_generation_option
from forged.cli.exits import Stop
from forged.cli.listing import explanation, hit_lines
from forged.cli.tables import folded
from forged.cli.terminal import tell
from forged_client.protocol import Message, Search, Why

_INDENT = "    "
_conversation = msgspec.json.Decoder(tuple[Message, ...])


# Where [scopes].retrieve wants what is their own.
_as_agent = click.option("--agent", default="", metavar="NAME", help="As this agent, which has its own, too.")
_in_session = click.option(
    "--session", "session_id", default="", metavar="ID", help="As in this session, which has its own, too."
)


@click.command("search")
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Also the figures that the order comes of.")
@_as_agent
@_in_session
@min_generation_option
@asks
def search_command(call: Invocation, *, verbose: bool, **fields: Any) -> None:
    """Find memories by text, best first, and say in a word what speaks for each: strong, near or weak."""
    found = ask(call, Search(workspace=call.workspace, rated=True, **fields))
    show(call, found, hit_lines(found.memories, call.paint, call.width, figures=verbose))
    tell_notice(call, found)
    if not (call.as_json or found.memories or found.reason):
        tell("nothing found")


@click.command("retrieve")
@click.argument("message", required=False)
@click.option("--session", "session_id", default="", metavar="ID", help="Session to note this injection for.")
@click.option(
    "--turn", "turn_id", default="", metavar="ID", help="Turn; the same turn is answered from the cache."
)
@click.option(
    "--hypothesis",
    "hypotheses",
    multiple=True,
    metavar="TEXT",
    help="Sentence a memory might hold; repeatable.",
)
@click.option(
    "--budget", "token_budget", type=click.IntRange(0), metavar="TOKENS", help="Most tokens; 0 is no limit."
)
@click.option(
    "--stdin-json", is_flag=True, help="Read the conversation from stdin: a JSON array of messages."
)
@_as_agent
@asks
def retrieve_command(call: Invocation, *, message: str | None, stdin_json: bool, **fields: Any) -> None:
    """Print the injection for a message, as an agent gets it that names no session; `-` reads it from stdin.

    Controls and hidden characters are shown and not printed, in a pipe too; --json has the exact text.
    """
    messages = _messages(message, stdin_json)
    if not messages and not fields["hypotheses"]:
        raise Stop("usage", "say a MESSAGE, or --hypothesis, or --stdin-json")
    plain_verbs.retrieve(call, messages, **fields)


@click.command("why")
@click.argument("query", default="")
@click.option("--session", default="", metavar="ID", help="Session (default: the last one of the workspace).")
@_as_agent
@asks
def why_command(call: Invocation, *, query: str, session: str, agent: str) -> None:
    """Explain the last injection of a session, or with QUERY what a retrieval would find now."""
    if query and session:
        raise Stop("usage", "give a QUERY or --session, not both")
    with daemon(call) as client:
        found = client.ask(Why(workspace=call.workspace, session_id=session, query=query, agent=agent))
    if call.as_json or not found.at:
        check_read(found)
    said = explanation(found, query, call.paint, call.width) if found.at else ()
    show(call, found, (line for each in said for line in folded(each, call.width, _INDENT)))
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
