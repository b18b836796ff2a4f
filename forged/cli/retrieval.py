"""`forgectl search`, `retrieve` and `why`: what is found, what an agent would get, and the reasons."""

from __future__ import annotations

import sys

import click
import msgspec

from forged.cli import plain_verbs
from forged.cli.commands import asks
from forged.cli.exits import Stop
from forged.cli.invocation import Invocation
from forged.cli.link import check_read, daemon
from forged.cli.listing import explanation, hit_lines
from forged.cli.output import painter, say, say_json, tell
from forged_client.protocol import Message

_conversation = msgspec.json.Decoder(tuple[Message, ...])


@click.command("search")
@click.argument("query")
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True)
@click.option("--min-generation", default="", metavar="TOKEN", help="Wait until this write is visible.")
@asks
def search_command(call: Invocation, *, query: str, limit: int, min_generation: str) -> None:
    """Find memories by text, best first."""
    with daemon(call) as client:
        found = client.search(call.workspace, query, limit=limit, min_generation=min_generation)
    check_read(found)
    if call.as_json:
        say_json(found)
    elif found.memories:
        say("\n".join(hit_lines(found.memories, painter(call))))
    elif not found.reason:
        tell("nothing found")


@click.command("retrieve")
@click.argument("message", required=False)
@click.option("--session", default="", metavar="ID", help="Session to note this injection for.")
@click.option("--turn", default="", metavar="ID", help="Turn; the same turn is answered from the cache.")
@click.option("--hypothesis", multiple=True, metavar="TEXT", help="Sentence a memory might hold; repeatable.")
@click.option("--budget", type=click.IntRange(0), metavar="TOKENS", help="Most tokens; 0 is no limit.")
@click.option(
    "--stdin-json", is_flag=True, help="Read the conversation from stdin: a JSON array of messages."
)
@asks
def retrieve_command(
    call: Invocation,
    *,
    message: str | None,
    session: str,
    turn: str,
    hypothesis: tuple[str, ...],
    budget: int | None,
    stdin_json: bool,
) -> None:
    """Print the injection for a message, exactly as an agent gets it; `-` reads the message from stdin.

    Controls and hidden characters are shown and not printed, in a pipe too; --json has the exact text.
    """
    asked = plain_verbs.Asked(
        messages=_messages(message, stdin_json),
        hypotheses=hypothesis,
        session_id=session,
        turn_id=turn,
        budget_tokens=budget,
    )
    if not asked.messages and not hypothesis:
        raise Stop("usage", "say a MESSAGE, or --hypothesis, or --stdin-json")
    plain_verbs.retrieve(call, asked)


@click.command("why")
@click.argument("query", default="")
@click.option("--session", default="", metavar="ID", help="Session (default: the last one of the workspace).")
@asks
def why_command(call: Invocation, *, query: str, session: str) -> None:
    """Explain the last injection of a session, or with QUERY what a retrieval would find now."""
    if query and session:
        raise Stop("usage", "give a QUERY or --session, not both")
    with daemon(call) as client:
        found = client.why(call.workspace, session_id=session, query=query)
    if call.as_json or not found.at:
        check_read(found)
    if call.as_json:
        say_json(found)
    elif found.at:
        say("\n".join(explanation(found, query, painter(call))))


def _messages(message: str | None, stdin_json: bool) -> tuple[Message, ...]:
    if not stdin_json:
        return plain_verbs.user_message(sys.stdin.read() if message == "-" else message or "")
    if message is not None:
        raise Stop("usage", "give a MESSAGE or --stdin-json, not both")
    try:
        return _conversation.decode(sys.stdin.read())
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Stop("usage", f"stdin is not a JSON array of messages: {error}") from error
