"""`forgectl retrieve` and `why`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from forged.cli import plain_verbs
from forged.cli.call import Invocation, check_read, open_client, show, stdin_text, tell_notice
from forged.cli.commands import with_daemon_options
from forged.cli.exits import Stop
from forged.cli.listing import explanation
from forged.cli.tables import folded
from forged_client.protocol import Message, Why
from forged_client.typed import resolved

_INDENT = "    "
_conversation = msgspec.json.Decoder(resolved(tuple[Message, ...]))
_as_agent = click.option(
    "--agent",
    default="",
    metavar="NAME",
    help="Include the memories of this agent, if [scopes].retrieve names agent.",
)


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
@with_daemon_options
def retrieve_command(call: Invocation, *, message: str | None, stdin_json: bool, **fields: Any) -> None:
    """Print the block that an agent without a session id would get; `-` reads the message from stdin.

    Control and hidden characters are escaped, in a pipe too; --json has the exact text.
    """
    messages = _read_messages(message, stdin_json)
    if not messages and not fields["hypotheses"]:
        raise Stop("usage", "give a MESSAGE, --hypothesis or --stdin-json")
    plain_verbs.retrieve(call, messages, **fields)


@click.command("why")
@click.argument("query", default="")
@click.option("--session", default="", metavar="ID", help="Session (default: the last one of the workspace).")
@_as_agent
@with_daemon_options
def why_command(call: Invocation, *, query: str, session: str, agent: str) -> None:
    """Explain the last injection of a session, or with QUERY what an agent would get now."""
    if query and session:
        raise Stop("usage", "give a QUERY or --session, not both")
    with open_client(call) as client:
        found = client.ask(Why(workspace=call.workspace, session_id=session, query=query, agent=agent))
    if call.as_json or not found.at:
        check_read(found)
    lines = explanation(found, query, call.paint, call.width) if found.at else ()
    show(call, found, (part for each in lines for part in folded(each, call.width, _INDENT)))
    tell_notice(call, found)


def _read_messages(message: str | None, stdin_json: bool) -> tuple[Message, ...]:
    """Return the conversation for `retrieve`: MESSAGE, stdin's text or JSON, or empty. Raises Stop."""
    if not stdin_json:
        return plain_verbs.user_message(stdin_text() if message == "-" else message or "")
    if message is not None:
        raise Stop("usage", "give a MESSAGE or --stdin-json, not both")
    try:
        return _conversation.decode(stdin_text())
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Stop("usage", f"stdin is not a JSON array of messages: {error}") from error
