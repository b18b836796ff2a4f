"""The verbs that are asked most, without click: ping, status and retrieve.

A status bar or a hook runs them every few seconds, and click would be half of their cost. click's commands
call the same functions, so both ways print the same bytes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from forged.cli.call import Invocation, ask, check_read, daemon, show, tell_notice
from forged.cli.status import status_lines
from forged.cli.terminal import say_exactly, say_json
from forged_client.protocol import Message, Ping, Status


def ping(call: Invocation) -> None:
    show(call, ask(call, Ping()), ("pong",))


def status(call: Invocation) -> None:
    """One status report; never starts a daemon, because looking must not change what is seen."""
    with daemon(msgspec.structs.replace(call, autostart=False)) as client:
        report = client.ask(Status(workspace=call.workspace))
    check_read(msgspec.structs.replace(report, reason=""))  # its reason is part of the report
    show(call, report, status_lines(report, call.paint))


def retrieve(call: Invocation, messages: tuple[Message, ...], **options: Any) -> None:
    """Print the injection, exactly; nothing when there is none. `options` are fields of the request."""
    with daemon(call) as client:
        reply = client.retrieve(call.workspace, messages, mode="plain", **options)
    check_read(reply)
    if call.as_json:
        say_json(reply)
    elif reply.text:
        say_exactly(reply.text)
    tell_notice(call, reply)


def user_message(text: str) -> tuple[Message, ...]:
    """A conversation of one user message; of none when the text is blank."""
    return (Message("user", text),) if text.strip() else ()
