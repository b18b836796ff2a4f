"""`forgectl integrations`: show how each agent is connected, and its activity of today."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import click
import msgspec

from forged import integrations
from forged.cli.call import Invocation, open_client, show
from forged.cli.commands import DefaultGroup, with_daemon_options
from forged.cli.exits import NOT_DONE, OK, Stop
from forged.cli.setup import machine_of
from forged.cli.status_summary import TRUST_HOOKS
from forged.cli.terminal import Painter, counted, escape_line, local_time
from forged.integrations import AgentState
from forged_client.protocol import AgentReport

_CONNECTIONS = {
    "": ("warn", "not connected"),
    "connected": ("good", "connected"),
    "older": ("warn", "connected by another forged"),
    "off": ("warn", "switched off"),
    "damaged": ("bad", "damaged"),
}


class AgentActivity(msgspec.Struct, frozen=True):
    """State of an agent on this machine, and in `seen` its activity of today, if the daemon has any."""

    state: AgentState
    seen: AgentReport | None = None


@click.group("integrations", cls=DefaultGroup)
def integrations_command() -> None:
    """Show how each agent is connected."""


@integrations_command.command("status", short_help="Show how each agent is connected.")
@click.option("--all", "each", is_flag=True, help="Also agents that are not on this machine.")
@with_daemon_options
def status_command(call: Invocation, *, each: bool) -> None:
    """Show if each agent is installed, connected and trusted, and its activity of today.

    Exit code 1 if none is connected, or one has a problem.
    """
    silence, seen = _ask_activity(call)
    states = integrations.report(machine_of(call))
    agents = tuple(
        AgentActivity(state, seen.get(state.agent)) for state in states if each or _is_present(state)
    )
    show(call, {"agents": agents, "daemon": silence or "ok"}, _status_lines(agents, silence, call.paint))
    connected = [agent.state for agent in agents if agent.state.connection]
    sys.exit(OK if connected and all(map(is_fine, connected)) else NOT_DONE)


def is_fine(state: AgentState) -> bool:
    """Return True if forged is connected to an agent, and the agent runs its hooks."""
    return state.connection == "connected" and state.trust != "missing"


def _is_present(state: AgentState) -> bool:
    """Return True if an agent is installed, or forged is connected to it."""
    return state.is_installed or bool(state.connection)


def _ask_activity(call: Invocation) -> tuple[str, Mapping[str, AgentReport]]:
    """Ask a running daemon about agents; return why it is silent, or "", and reports by agent."""
    try:
        with open_client(msgspec.structs.replace(call, autostart=False)) as client:
            report = client.status("")
    except Stop as stop:
        return str(stop), {}
    return "", {agent.agent: agent for agent in report.agents}


def _status_lines(agents: tuple[AgentActivity, ...], silence: str, paint: Painter) -> Iterator[str]:
    """Yield the lines of `integrations status` on each agent, and a note if the daemon is silent."""
    for agent in agents:
        yield from _agent_lines(agent, paint)
    if not agents:
        yield "no supported agent was found; `forgectl setup --help` names them"
    if silence:
        yield f"activity of today is unknown: {escape_line(silence)}"


def _agent_lines(agent: AgentActivity, paint: Painter) -> Iterator[str]:
    """Yield lines on one agent: program, connection, trust, MCP server, activity, and the fix."""
    state = agent.state
    colour, word = _CONNECTIONS[state.connection]
    where = state.program or state.folder or "not found"
    yield f"{state.title} {escape_line(state.version)}".rstrip() + f"  ({escape_line(where)})"
    yield f"    {paint(colour, word)}{escape_line(f': {state.detail}') if state.detail else ''}"
    if state.trust == "missing":
        yield f"    {paint('bad', 'not trusted')}: it runs no hooks; {TRUST_HOOKS}"
    elif state.trust:
        yield f"    {paint('good', 'trusted')}"
    yield f"    MCP server: {'yes' if state.mcp else 'no'}"
    if agent.seen is not None:
        yield f"    {_activity_text(agent.seen)}"
    if state.remedy:
        yield f"    fix: {escape_line(state.remedy)}"


def _activity_text(seen: AgentReport) -> str:
    """Return an agent's last event, and today's injected and saved memories and failures, as one text."""
    last = (
        f"last {escape_line(seen.last_event)} {local_time(seen.last_event_at)}"
        if seen.last_event
        else "no event"
    )
    facts = (
        last,
        f"today {counted(seen.injected_today, 'memory', 'memories')} injected",
        f"{seen.kept_today:,} saved",
        f"{seen.failed_today:,} failed ({escape_line(seen.last_failure)})" if seen.failed_today else "",
    )
    return ", ".join(filter(None, facts))
