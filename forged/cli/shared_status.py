"""Show how the endpoints of models and the team's server fare, for `status`, `doctor` and `shared status`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from forged.cli.terminal import Painter, counted, escape_line, span
from forged_client.protocol import EndpointReport, SharedReport, SyncReport

_COLOURS = {"ok": "good", "slow": "warn", "failing": "bad"}


def because(reason: str) -> str:
    return f": {escape_line(reason)}" if reason else ""


def endpoint_lines(endpoints: Iterable[EndpointReport], paint: Painter) -> Iterator[str]:
    """One line for each model at an endpoint: how it fares, for what it is asked, since when and why not."""
    for one in endpoints:
        state = paint(_COLOURS.get(one.state, "strong"), escape_line(one.state))
        named = (
            f"{escape_line(one.model)} at {escape_line(one.host)} ({', '.join(map(escape_line, one.uses))})"
        )
        yield f"  endpoint {state}: {named}{', '.join(('', *endpoint_facts(one)))}{because(one.message)}"


def endpoint_facts(one: EndpointReport) -> Iterator[str]:
    """When it last answered, since when it fails, and when it is asked again where it is skipped."""
    yield _last_success(one)
    if one.failing_s is not None:
        yield f"failing for {span(one.failing_s)}"
    if one.next_s is not None:
        yield f"next attempt in {span(one.next_s)}" if one.next_s else "next attempt with the next turn"


def _last_success(one: EndpointReport | SharedReport) -> str:
    if one.state == "untried":
        return "not asked yet"
    return "no success yet" if one.last_success_s is None else f"last success {span(one.last_success_s)} ago"


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
    yield _last_success(report)
    if report.replayed_s is not None:
        yield f"took what had waited {span(report.replayed_s)} ago"
    if not report.listening:
        yield "not listening"
    yield from map(_in_step, report.sync)
    for name, age_s in report.writers.items():
        yield f"{escape_line(name)} wrote {span(age_s)} ago"


def _in_step(report: SyncReport) -> str:
    whose = f"{escape_line(report.scope)} {escape_line(report.owner)}"
    if report.in_sync_s is None:
        return f"{whose} not in step yet"
    return f"{whose} {f'{report.behind} behind' if report.behind else 'in step'}"


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
    if report.sync_problem and report.sync_problem not in {report.message, report.problem}:
        yield f"files not in step: {escape_line(report.sync_problem)}"
    for each in report.sync:
        if each.kept_here:
            files = counted(each.kept_here, "file")
            yield f"{files} of {escape_line(each.scope)} kept here alone: what looks secret does not leave"
        if each.refused:
            rows = counted(each.refused, "row")
            yield f"{rows} of {escape_line(each.scope)} on the server are no memories, and are left there"
    for refused in report.refused:
        yield f"refused for good: {escape_line(refused)}"
