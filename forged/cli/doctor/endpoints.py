"""Check how each model at an endpoint fares, by one call if asked for, and the team's server.

The daemon makes the call, so it passes the door and is counted; without a daemon there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from forged.cli.doctor.checks import OK, WARN, Check
from forged.cli.shared_status import endpoint_facts, shared_facts, shared_troubles
from forged_client.protocol import StatusReport, Trial

_FIXES = {
    "auth": "set the key of this endpoint; `forgectl config show --origin` says where it comes from",
    "bad_reply": "look at the base URL (is /v1 missing?) and at the name of the model",
    "unreachable": "start the server, or mend the base URL",
    "rate_limited": "it goes on by itself",
    "slow": "take a smaller model, or a longer `memory.retrieval_timeout_s`; until then it is skipped",
}
_OTHERWISE = "its own log says more; it is asked again by itself"


def known(report: StatusReport) -> Iterator[Check]:
    """What the daemon knows of each model that it asks at an endpoint."""
    for one in report.endpoints:
        detail = f"{_named(one.model, one.host, one.uses)}: {one.state}, {', '.join(endpoint_facts(one))}"
        if one.state in {"failing", "slow"}:
            told = f"{detail}; {one.message}"
            yield Check("endpoint", WARN, told, _FIXES.get(one.reason, _OTHERWISE))
        else:
            yield Check("endpoint", OK, detail)


def tried(trials: Iterable[Trial]) -> Iterator[Check]:
    """What one real call to each came to."""
    found = tuple(trials)
    for one in found:
        named = _named(one.model, one.host, one.uses)
        if one.ok:
            yield Check("endpoint tried", OK, f"{named}: answered in {one.took_ms:,.0f} ms")
        else:
            detail = f"{named}: {one.reason}: {one.message}"
            yield Check("endpoint tried", WARN, detail, _FIXES.get(one.reason, _OTHERWISE))
    if not found:
        yield Check("endpoint tried", OK, "no model is asked at an endpoint")


def server(report: StatusReport) -> Iterator[Check]:
    """Report the state of the team's server, and each problem."""
    if (shared := report.shared) is None:
        return
    yield Check("shared", OK, f"{shared.server}: {shared.state}, {', '.join(shared_facts(shared))}")
    for trouble in shared_troubles(shared):
        yield Check("shared", WARN, trouble, "`forgectl shared doctor` looks at the server itself")


def _named(model: str, host: str, uses: Iterable[str]) -> str:
    return f"{model} at {host} ({', '.join(uses)})"
