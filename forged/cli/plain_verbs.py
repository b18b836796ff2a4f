"""The most frequent commands without click: ping, status and retrieve.

A status bar or a hook runs them every few seconds, and click would take half of the time. The commands of
click call these functions, so both ways print the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from forged.cli.call import Invocation, ask, check_read, open_client, show, tell_notice
from forged.cli.status_summary import status_lines
from forged.cli.terminal import say_escaped, say_json
from forged_client.errors import AddressError
from forged_client.protocol import Message, Ping, Status

if TYPE_CHECKING:
    from forged.integrations import AgentState


def ping(call: Invocation) -> None:
    """Ask if the daemon answers, starting it if allowed, and print `pong`. Raises Stop."""
    show(call, ask(call, Ping()), ("pong",))


def status(call: Invocation, *, details: bool = False) -> None:
    """Print the daemon's status report with the state of agents here; never start a daemon."""
    with open_client(msgspec.structs.replace(call, autostart=False)) as client:
        report = client.ask(Status(workspace=call.workspace))
    check_read(msgspec.structs.replace(report, reason=""))  # its reason is part of the report
    agents = () if call.as_json else _agent_states(call)
    show(call, report, status_lines(report, call.paint, agents=agents, details=details))


def _agent_states(call: Invocation) -> Sequence[AgentState]:
    """Return how forged is connected to each agent on this machine; empty without a home directory."""
    from forged import integrations  # noqa: PLC0415 - JSON does not need it

    try:
        machine = integrations.machine_of(call.environ, call.workspace)
    except AddressError:  # without a home
        return ()
    return integrations.report(machine, versions=False)


def retrieve(call: Invocation, messages: tuple[Message, ...], **options: Any) -> None:
    """Print the text injected for a conversation, and its notice; `options` are fields of the request."""
    with open_client(call) as client:
        reply = client.retrieve(call.workspace, messages, mode="plain", **options)
    check_read(reply)
    if call.as_json:
        say_json(reply)
    elif reply.text:
        say_escaped(reply.text)
    tell_notice(call, reply)


def user_message(text: str) -> tuple[Message, ...]:
    """Return a conversation of one user message, or an empty one for a blank text."""
    return (Message("user", text),) if text.strip() else ()
