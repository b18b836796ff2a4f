"""The verbs that are asked most, without click: ping, status and retrieve.

A status bar or a hook runs them every few seconds, and click would be half of their cost. click's commands
call the same functions, so both ways print the same bytes.
"""

from __future__ import annotations

import msgspec

from forged.cli.invocation import Invocation
from forged.cli.link import check_read, daemon
from forged.cli.output import painter, say, say_exactly, say_json
from forged.cli.status import status_lines
from forged_client.protocol import Message


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What `retrieve` was asked; `budget_tokens` None is the configured budget."""

    messages: tuple[Message, ...] = ()
    hypotheses: tuple[str, ...] = ()
    session_id: str = ""
    turn_id: str = ""
    budget_tokens: int | None = None


def ping(call: Invocation) -> None:
    with daemon(call) as client:
        reply = client.ping()
    check_read(reply)
    if call.as_json:
        say_json(reply)
    else:
        say("pong")


def status(call: Invocation) -> None:
    """One status report; never starts a daemon, because looking must not change what is seen."""
    with daemon(msgspec.structs.replace(call, autostart=False)) as client:
        report = client.status(call.workspace)
    check_read(msgspec.structs.replace(report, reason=""))  # its reason is part of the report
    if call.as_json:
        say_json(report)
    else:
        say("\n".join(status_lines(report, painter(call))))


def retrieve(call: Invocation, asked: Asked) -> None:
    """Print the injection, exactly; nothing when there is none."""
    with daemon(call) as client:
        reply = client.retrieve(
            call.workspace,
            asked.messages,
            session_id=asked.session_id,
            turn_id=asked.turn_id,
            hypotheses=asked.hypotheses,
            token_budget=asked.budget_tokens,
        )
    check_read(reply)
    if call.as_json:
        say_json(reply)
    elif reply.text:
        say_exactly(reply.text)


def user_message(text: str) -> tuple[Message, ...]:
    """A conversation of one user message; of none when the text is blank."""
    return (Message("user", text),) if text.strip() else ()
