"""How the team's server fares, as `status`, `doctor` and `shared status` tell it of what the daemon knows."""

from __future__ import annotations

from collections.abc import Iterator

from forged.cli.terminal import Painter, counted, escape_line, span
from forged_client.protocol import SharedReport

_COLOURS = {"ok": "good", "failing": "bad"}


def shared_lines(report: SharedReport | None, paint: Painter) -> Iterator[str]:
    """One line for the server, and one for each thing that a person should know of it."""
    if report is None:
        return
    state = paint(_COLOURS.get(report.state, "strong"), escape_line(report.state))
    yield f"  shared {state}: {escape_line(report.server)}, {', '.join(shared_facts(report))}"
    for trouble in shared_troubles(report):
        yield f"    {paint('warn', trouble)}"


def shared_facts(report: SharedReport) -> Iterator[str]:
    """What is kept there, when it last answered, and who else writes."""
    yield f"scopes {' and '.join(map(escape_line, report.scopes)) or 'none'}"
    if report.state == "untried":
        yield "not asked yet"
    elif report.last_success_s is None:
        yield "no success yet"
    else:
        yield f"last success {span(report.last_success_s)} ago"
    if report.replayed_s is not None:
        yield f"took what had waited {span(report.replayed_s)} ago"
    if not report.listening:
        yield "not listening"
    for name, age_s in report.writers.items():
        yield f"{escape_line(name)} wrote {span(age_s)} ago"


def shared_troubles(report: SharedReport) -> Iterator[str]:
    """What is wrong, or not done yet, as sentences."""
    if report.failing_s is not None:
        yield f"failing for {span(report.failing_s)}: {escape_line(report.message)}"
    if report.problem:
        yield escape_line(report.problem)
    if report.waiting:
        yield f"{counted(report.waiting, 'write')} kept here until it takes them"
    if report.without_vector:
        rows = counted(report.without_vector, "memory", "memories")
        yield f"{rows} found by nobody there until the embedding model answers"
    for refused in report.refused:
        yield f"refused for good: {escape_line(refused)}"
