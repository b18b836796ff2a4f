"""Checks of model endpoints and of the team's server, for `forgectl doctor`.

The daemon makes the test calls, so they pass its egress guard and are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from forged.cli.doctor.checks import OK, WARN, Check
from forged.cli.shared_status import endpoint_facts, shared_facts, shared_troubles
from forged_client.protocol import StatusReport, Trial

_FIXES = {
    "auth": "set the key of this endpoint; `forgectl config show --origin` shows its source",
    "bad_reply": "check the base URL (is /v1 missing?) and the name of the model",
    "unreachable": "start the server, or fix the base URL",
    "rate_limited": "none needed; it is tried again",
    "slow": "use a smaller model, or a longer `memory.retrieval_timeout_s`; until then it is skipped",
}
_OTHERWISE = "see the log of that server; it is tried again automatically"


def reported(report: StatusReport) -> Iterator[Check]:
    """Yield a finding for each model at an endpoint, by the state that the daemon reports, with a fix."""
    for one in report.endpoints:
        detail = (
            f"{_endpoint_name(one.model, one.host, one.uses)}: {one.state}, {', '.join(endpoint_facts(one))}"
        )
        if one.state in {"failing", "slow"}:
            yield Check("endpoint", WARN, f"{detail}; {one.message}", _FIXES.get(one.reason, _OTHERWISE))
        else:
            yield Check("endpoint", OK, detail)


def tried(trials: Iterable[Trial]) -> Iterator[Check]:
    """Yield a finding for each test call that the daemon made to a model at an endpoint, with a fix."""
    found = tuple(trials)
    for one in found:
        named = _endpoint_name(one.model, one.host, one.uses)
        if one.ok:
            yield Check("endpoint tried", OK, f"{named}: answered in {one.took_ms:,.0f} ms")
        else:
            detail = f"{named}: {one.reason}: {one.message}"
            yield Check("endpoint tried", WARN, detail, _FIXES.get(one.reason, _OTHERWISE))
    if not found:
        yield Check("endpoint tried", OK, "no model at an endpoint is used")


def server(report: StatusReport) -> Iterator[Check]:
    """Yield findings on the state and the problems of the team's server, if one is configured."""
    if (shared := report.shared) is None:
        return
    yield Check("shared", OK, f"{shared.server}: {shared.state}, {', '.join(shared_facts(shared))}")
    for trouble in shared_troubles(shared):
        yield Check("shared", WARN, trouble, "`forgectl shared doctor` checks the server itself")


def _endpoint_name(model: str, host: str, uses: Iterable[str]) -> str:
    """Name a model at an endpoint for doctor: model, host and uses as one text."""
    return f"{model} at {host} ({', '.join(uses)})"
