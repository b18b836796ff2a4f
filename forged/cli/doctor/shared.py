"""The part of `forgectl doctor` about the team's server, as the daemon sees it."""

from __future__ import annotations

from collections.abc import Iterator

from forged.cli.doctor.checks import OK, WARN, Check
from forged.cli.shared_status import shared_facts, shared_troubles
from forged_client.protocol import StatusReport

_FIX = "`forgectl shared doctor` looks at the server itself"


def server(report: StatusReport) -> Iterator[Check]:
    """How it fares, and each thing that is wrong with it."""
    if (shared := report.shared) is None:
        return
    yield Check("shared", OK, f"{shared.server}: {shared.state}, {', '.join(shared_facts(shared))}")
    for trouble in shared_troubles(shared):
        yield Check("shared", WARN, trouble, _FIX)
