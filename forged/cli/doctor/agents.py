"""Checks of the agents on this machine, for `forgectl doctor`.

An unconnected agent is no problem, unless no agent is connected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forged import integrations
from forged.cli.call import Invocation
from forged.cli.doctor.checks import FAIL, OK, WARN, Check
from forged.cli.status_summary import TRUST_HOOKS
from forged.cli.terminal import counted
from forged.integrations import AgentState
from forged_client.errors import AddressError
from forged_client.protocol import AgentReport

_NAME = "agent"


def agents(call: Invocation, seen: Sequence[AgentReport]) -> Iterator[Check]:
    """Yield findings on agents here (connection, activity, failures), or that none is connected."""
    try:
        states = integrations.report(integrations.machine_of(call.environ, call.workspace), versions=False)
    except AddressError:  # `address` reports it
        return
    here = [state for state in states if state.is_installed or state.connection]
    known = {one.agent: one for one in seen}
    if here and not any(state.connection for state in here):
        names = ", ".join(state.title for state in here)
        yield Check(_NAME, WARN, f"none of {names} is connected", "`forgectl setup`")
        return
    for state in here:
        yield _connection_check(state, known.get(state.agent))
        yield from _hook_failures(state, known.get(state.agent))


def _connection_check(state: AgentState, seen: AgentReport | None) -> Check:
    """Return the finding on an agent: connected with activity, hooks untrusted, not connected, or damaged."""
    if state.connection == "connected" and state.trust != "missing":
        return Check(_NAME, OK, f"{state.title}: connected, {_activity_text(seen)}")
    if state.connection == "connected":
        detail = f"{state.title}: connected, but it runs no hooks before you trust them"
        return Check(_NAME, WARN, detail, TRUST_HOOKS)
    if not state.connection:
        return Check(_NAME, OK, f"{state.title}: not connected ({state.remedy} connects it)")
    level = FAIL if state.connection == "damaged" else WARN
    return Check(_NAME, level, f"{state.title}: {state.detail}", state.remedy)


def _activity_text(seen: AgentReport | None) -> str:
    """Format for doctor an agent's last event, and today's number of injected and saved memories."""
    if seen is None or not seen.last_event:
        return "no event yet"
    injected = counted(seen.injected_today, "memory", "memories")
    return f"last event {seen.last_event}, today {injected} injected and {seen.kept_today:,} saved"


def _hook_failures(state: AgentState, seen: AgentReport | None) -> Iterator[Check]:
    """Yield a warning with the number and the last of an agent's hook failures today, if any."""
    if seen is not None and seen.failed_today:
        detail = (
            f"{state.title}: {counted(seen.failed_today, 'hook')} failed today, the last: {seen.last_failure}"
        )
        yield Check(_NAME, WARN, detail, "`forgectl logs` shows the details")
