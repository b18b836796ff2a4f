"""State of model endpoints and of the team's server, for `status` and `doctor`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from forged.cli.terminal import Painter, counted, escape_line, span
from forged_client.protocol import CopiesReport, EndpointReport, SharedReport, SyncReport

_ABSENT = "not in files here: removed by hand, so left out of answers here; only `forget` removes them there"
_FILES_NAMED = 3
_COLOURS = {"ok": "good", "slow": "warn", "failing": "bad"}


def because(reason: str) -> str:
    """Return `: REASON`, escaped for a terminal, as the end of a sentence; empty without a reason."""
    return f": {escape_line(reason)}" if reason else ""


def endpoint_lines(endpoints: Iterable[EndpointReport], paint: Painter) -> Iterator[str]:
    """Yield a line for each model at an endpoint: state, host, uses, last success, and error."""
    for one in endpoints:
        state = paint(_COLOURS.get(one.state, "strong"), escape_line(one.state))
        named = (
            f"{escape_line(one.model)} at {escape_line(one.host)} ({', '.join(map(escape_line, one.uses))})"
        )
        yield f"  endpoint {state}: {named}{', '.join(('', *endpoint_facts(one)))}{because(one.message)}"


def endpoint_facts(one: EndpointReport) -> Iterator[str]:
    """Yield since when an endpoint works or fails: last success, failing time, next attempt."""
    yield _last_success(one)
    if one.failing_s is not None:
        yield f"failing for {span(one.failing_s)}"
    if one.next_s is not None:
        yield f"next attempt in {span(one.next_s)}" if one.next_s else "next attempt with the next turn"


def _last_success(one: EndpointReport | SharedReport) -> str:
    """Return how long ago an endpoint or the team's server last answered, or that it never has."""
    if one.state == "untried":
        return "not asked yet"
    return "no success yet" if one.last_success_s is None else f"last success {span(one.last_success_s)} ago"


def shared_lines(report: SharedReport | None, paint: Painter) -> Iterator[str]:
    """Yield a line on the team's server, if one is configured, and one for each of its problems."""
    if report is None:
        return
    state = paint(_COLOURS.get(report.state, "strong"), escape_line(report.state))
    yield f"  shared {state}: {escape_line(report.server)}, {', '.join(shared_facts(report))}"
    for trouble in shared_troubles(report):
        yield f"    {paint('warn', trouble)}"


def shared_facts(report: SharedReport) -> Iterator[str]:
    """Yield scopes, last success, sync of each scope, and other writers on the team's server."""
    yield f"scopes {' and '.join(map(escape_line, report.scopes)) or 'none'}"
    yield _last_success(report)
    if report.replayed_s is not None:
        yield f"pending writes were sent {span(report.replayed_s)} ago"
    if not report.listening:
        yield "no live updates"
    if report.copies is not None:
        yield _copies_text(report.copies)
    yield from map(_sync_text, report.sync)
    for name, age_s in report.writers.items():
        yield f"{escape_line(name)} wrote {span(age_s)} ago"


def _copies_text(copies: CopiesReport) -> str:
    """Return how many documents of the team have a copy here, and when they were compared."""
    held = counted(copies.documents, "document")
    looked = "not compared yet" if copies.looked_s is None else f"compared {span(copies.looked_s)} ago"
    more = ", older ones are searched on the server" if copies.has_more else ""
    size = f"{copies.size / 2**20:.1f} of {copies.limit >> 20} MiB"
    return f"copies of {held} of the team ({size}, {looked}{more})"


def _sync_text(report: SyncReport) -> str:
    """Return if an owner's scope is in sync with the team's server, or how far it is behind."""
    owner = f"{escape_line(report.scope)} {escape_line(report.owner)}"
    if report.in_sync_s is None:
        return f"{owner} not synced yet"
    return f"{owner} {f'{report.behind} behind' if report.behind else 'synced'}"


def shared_troubles(report: SharedReport) -> Iterator[str]:
    """Yield a sentence for each problem or pending write of the team's server."""
    if report.failing_s is not None:
        yield f"failing for {span(report.failing_s)}: {escape_line(report.message)}"
    if report.problem:
        yield escape_line(report.problem)
    if report.waiting and not report.waits:
        yield f"{counted(report.waiting, 'write')} waiting here until the server accepts them"
    yield from (f"writes waiting here, {escape_line(reason)}" for reason in report.waits)
    if report.without_vector:
        rows = counted(report.without_vector, "memory", "memories")
        yield f"{rows} cannot be found there yet, for lack of a vector"
    if report.odd:
        yield f"left out of answers, as they cannot be read: {', '.join(map(escape_line, report.odd))}"
    if report.absent_documents:
        documents = counted(report.absent_documents, "document")
        yield f"{documents} of the server {_ABSENT}"
    if (copies := report.copies) is not None:
        if copies.problem and copies.problem not in {report.message, report.problem}:
            yield f"documents of the team: {escape_line(copies.problem)}"
        if not copies.is_shown:
            yield "documents of the team are left out of turns until the server was read"
    if report.sync_problem:
        yield f"files not synced: {escape_line(report.sync_problem)}"
    for each in report.sync:
        yield from _sync_troubles(each, {report.message, report.problem})
    for refused in report.refused:
        yield f"refused by the server: {escape_line(refused)}"


def _sync_troubles(report: SyncReport, known: Collection[str]) -> Iterator[str]:
    """Yield why an owner's files are not synced, unless the reason is known, kept here, or not taken."""
    owner = f"{escape_line(report.scope)} {escape_line(report.owner)}"
    if report.problem and report.problem not in known:
        yield f"files of {owner} not synced: {escape_line(report.problem)}"
    for each, reason in islice(report.reasons.items(), _FILES_NAMED):
        yield f"{escape_line(each)} of {owner} is not on the server: {escape_line(reason)}"
    if report.kept_here > _FILES_NAMED:
        yield f"{counted(report.kept_here - _FILES_NAMED, 'more file')} of {owner} not on the server"
    if report.absent:
        yield f"{counted(report.absent, 'memory', 'memories')} of {owner} on the server {_ABSENT}"
    if report.refused:
        yield f"{counted(report.refused, 'row')} of {owner} on the server are not memories and are skipped"
