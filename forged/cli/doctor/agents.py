"""The part of `forgectl doctor` that looks at the agents of this machine: one line each, and its remedy.

An agent that nobody has connected is a fact and no fault, unless none is: then forged has nobody to serve.
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
    """How each agent that is here is connected, and whether its hooks come through."""
    try:
        states = integrations.report(integrations.machine_of(call.environ, call.workspace), versions=False)
    except AddressError:  # `address` has said so
        return
    here = [state for state in states if state.is_installed or state.connection]
    known = {one.agent: one for one in seen}
    if here and not any(state.connection for state in here):
        names = ", ".join(state.title for state in here)
        yield Check(_NAME, WARN, f"none of {names} is connected", "`forgectl setup`")
        return
    for state in here:
        yield _standing(state, known.get(state.agent))
        yield from _failing(state, known.get(state.agent))


def _standing(state: AgentState, seen: AgentReport | None) -> Check:
    if state.connection == "connected" and state.trust != "missing":
        return Check(_NAME, OK, f"{state.title}: connected, {_last(seen)}")
    if state.connection == "connected":
        detail = f"{state.title}: connected, but its hooks are not trusted and it runs none of them"
        return Check(_NAME, WARN, detail, TRUST_HOOKS)
    if not state.connection:
        return Check(_NAME, OK, f"{state.title}: not connected ({state.remedy} connects it)")
    level = FAIL if state.connection == "damaged" else WARN
    return Check(_NAME, level, f"{state.title}: {state.detail}", state.remedy)


def _last(seen: AgentReport | None) -> str:
    if seen is None or not seen.last_event:
        return "no event yet"
    injected = counted(seen.injected_today, "memory", "memories")
    return f"last {seen.last_event}, today {injected} injected and {seen.kept_today:,} kept"


def _failing(state: AgentState, seen: AgentReport | None) -> Iterator[Check]:
    if seen is not None and seen.failed_today:
        detail = (
            f"{state.title}: {counted(seen.failed_today, 'hook')} came to nothing today: {seen.last_failure}"
        )
        yield Check(_NAME, WARN, detail, "`forgectl logs` says more")
