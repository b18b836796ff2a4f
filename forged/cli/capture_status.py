"""Capture's part of the status report: two lines when all is well, and more only where there is more to say.

Whoever's turns are not kept notices it weeks later, by what is missing. So a state in which nothing is kept
is written in capitals and with its reason, which is loud also where there is no colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from forged.cli.terminal import Painter, counted, escape_line, span
from forged_client.protocol import CaptureReport

EVERYWHERE = "*"

_LOUD = {"off": "warn", "paused": "warn", "waiting": "warn", "failing": "bad"}
# Fields of the report that are shown by their own names, where they are not zero.
_COUNTERS = ("coalesced", "rejected", "replaced", "duplicates", "invalid", "redacted", "failures")


def capture_lines(report: CaptureReport, paint: Painter, now: float) -> Iterator[str]:
    """State and classifier, then results, then troubles; `now` is Unix seconds."""
    yield _headline(report, paint)
    yield f"  {_results(report, now)}"
    if report.in_hand:
        yield f"  in hand: {escape_line(report.in_hand)} for {span(report.in_hand_age_s)}"
    if waiting := _waiting(report):
        yield f"  waiting: {waiting}"
    if report.last_error:
        yield f"  {paint('bad', 'last error:')} {escape_line(report.last_error)}"
    if report.dead:
        dead = f"{counted(report.dead, 'event')} given up; `forgectl dead list` says why"
        yield f"  {paint('warn', 'dead:')} {dead}"
    if report.paused:
        yield f"  {paint('warn', 'paused:')} {', '.join(map(paused_place, report.paused))}"
    if told := _counts(report):
        yield f"  counted since start: {told}"


def paused_place(place: str) -> str:
    """A place of a list of what is paused, for a person."""
    return "everywhere" if place == EVERYWHERE else escape_line(place)


def _headline(report: CaptureReport, paint: Painter) -> str:
    state = escape_line(report.state)
    shown = paint(_LOUD[state], state.upper()) if state in _LOUD else paint("good", state)
    classifier = f"  {escape_line(report.classifier)}" if report.classifier else ""
    reason = f": {escape_line(report.reason)}" if report.reason else ""
    return f"{shown}  capture{classifier}{reason}"


def _results(report: CaptureReport, now: float) -> str:
    memories = counted(report.memories, "memory", "memories")
    restarts = f", {counted(report.worker_restarts, 'restart')}" if report.worker_restarts else ""
    facts = (
        f"{memories} from {counted(report.finished, 'event')}",
        f"last success {_ago(report.last_success, now)}" if report.last_success else "no success yet",
        _tokens(report),
        f"worker pid {report.worker_pid}{restarts}" if report.worker_pid else f"no worker{restarts}",
    )
    return ", ".join(filter(None, facts))


def _tokens(report: CaptureReport) -> str:
    if report.token_limit:
        return f"{report.tokens_today:,} of {report.token_limit:,} tokens today"
    return f"{counted(report.tokens_today, 'token')} today" if report.tokens_today else ""


def _waiting(report: CaptureReport) -> str:
    turns = f"{counted(report.turns, 'turn')} in memory" if report.turns else ""
    size = f" ({counted(report.spool_bytes, 'byte')})" if report.spool_bytes else ""
    spooled = f"{counted(report.spooled, 'event')} on disk{size}" if report.spooled else ""
    return ", ".join(filter(None, (turns, spooled)))


def _counts(report: CaptureReport) -> str:
    counts = ((name, getattr(report, name)) for name in _COUNTERS)
    return ", ".join(f"{name} {count:,}" for name, count in counts if count)


def _ago(time: str, now: float) -> str:
    try:
        return f"{span(now - datetime.fromisoformat(time).timestamp())} ago"
    except ValueError:
        return escape_line(time)
