"""Show the status report: state first, then each root and capture with what is wrong there.

Functions from a reply to lines, so that the fast path and click print the same text. Lost turns are noticed
weeks later: a state in which nothing is kept is in capitals and with its reason, also without colour.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime

from forged import __version__
from forged.build_id import build_id
from forged.cli.scope_lines import scope_status
from forged.cli.shared_status import because, endpoint_lines, shared_lines
from forged.cli.terminal import Painter, counted, distinct, escape_line, pace, span
from forged_client.protocol import CaptureReport, RootReport, StatusReport, WaitsElsewhere

EVERYWHERE = "*"
"""Stands for all repositories in a list of what is paused."""

_PROBLEMS_SHOWN = 10
_SECRETS_NAMED = 3
_PLAIN = Painter()
_COLOUR_OF_STATE = {
    "ok": "good",
    "ready": "good",
    "degraded": "warn",
    "disabled": "warn",
    "failed": "bad",
    "failing": "bad",
}
_LEARNS = {
    "learning": "words decide what is injected until everyday messages are embedded",
    "failing": "words decide what is injected, as everyday messages could not be embedded",
}
_LOUD = {"off": "warn", "paused": "warn", "waiting": "warn", "failing": "bad"}
# Fields of the report that are shown by their own names, where they are not zero.
_COUNTERS = ("coalesced", "rejected", "replaced", "duplicates", "invalid", "redacted", "failures")


def status_lines(report: StatusReport, paint: Painter = _PLAIN) -> Iterator[str]:
    """The whole report. A state other than ok is loud, and still no error."""
    yield _headline(report, paint)
    yield f"  {_process(report)}"
    if told := skew(report.version, report.build):
        yield f"  {paint('warn', 'version:')} {told}"
    yield f"  {_models(report)}"
    yield from _gate(report, paint)
    yield from endpoint_lines(report.endpoints, paint)
    yield from shared_lines(report.shared, paint)
    for warning in distinct([each for each in report.warnings if each != report.reason]):
        yield f"  {paint('warn', 'warning:')} {escape_line(warning)}"
    for root in report.roots:
        yield ""
        yield from root_lines(root, paint)
    yield ""
    yield from scope_status(report.scopes)
    yield from capture_lines(report.capture, paint, time.time())
    yield from _counters(report, paint)


def skew(version: str, build: str = "") -> str:
    """Return a warning where daemon and forgectl differ in version or build, else an empty text."""
    if version in {"", __version__}:
        ours = build_id() if build else ""
        if build == ours or not ours:
            return ""
        return (
            f"the daemon is another build of forged {__version__} ({escape_line(build)}) than this forgectl "
            f"({ours}); `forgectl restart` has this build take over"
        )
    told = f"the daemon is forged {escape_line(version)}, this forgectl is {__version__}"
    if _release(version) > _release(__version__):
        return f"{told}: another installation runs it"
    return f"{told}; `forgectl restart` has this version take over"


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _gate(report: StatusReport, paint: Painter) -> Iterator[str]:
    gate = report.gate
    if gate.state in _LEARNS:
        yield f"  {paint('warn', 'gate:')} {_LEARNS[gate.state]}{because(gate.reason)}"
    elif gate.state == "off" and gate.reason:
        yield f"  {paint('warn', 'gate:')} off, all that is found is injected{because(gate.reason)}"


def root_lines(root: RootReport, paint: Painter) -> Iterator[str]:
    """One root: its state and size on the first line, its troubles indented below."""
    state = paint(_COLOUR_OF_STATE.get(root.state, "strong"), escape_line(root.state))
    yield f"{state}  {escape_line(root.scope)}  {escape_line(root.root)}"
    yield f"  {_size(root)}"
    if root.state != "ready":
        yield f"  {_answering(root)}"
    yield f"  {_watching(root)}"
    if root.notice:
        named = "NOT USED:" if root.trust == "unread" else "WITHHELD:"
        yield f"  {paint('bad', named)} {escape_line(root.notice)}"
    if root.owner:
        yield f"  {paint('warn', 'owner:')} {escape_line(root.owner)}"
    if root.git_problem:
        yield f"  {paint('warn', 'git:')} {escape_line(root.git_problem)}"
    elif root.git:
        yield f"  {escape_line(root.git)}"
    if root.held:
        yield f"  {paint('warn', 'no text leaves:')} {escape_line(root.held)}"
    if root.last_error and root.last_error != root.held:
        yield f"  {paint('bad', 'last error:')} {escape_line(root.last_error)}"
    if root.quarantined:
        texts = counted(root.quarantined, "text")
        yield f"  {paint('warn', 'quarantined:')} {texts} that the embedding model refuses"
    if root.cut:
        some = ", ".join(map(escape_line, root.cut_ids)) + (", ..." if root.cut > len(root.cut_ids) else "")
        count = counted(root.cut, "text was", "texts were")
        yield f"  {count} cut to fit the embedding model, words find the rest: {some}"
    if root.redacted:
        some = " ".join(map(escape_line, root.redacted_ids[:_SECRETS_NAMED]))
        holds = counted(root.redacted, "memory holds a secret and is", "memories hold a secret and are")
        yield f"  {paint('warn', 'secrets:')} {holds} shown without it; `forgectl show {some}` says which"
    if root.forks:
        some = ", ".join(map(escape_line, root.fork_ids[:_SECRETS_NAMED]))
        told = f"{counted(root.forks, 'memory has', 'memories have')} several newest versions"
        yield f"  {paint('warn', 'forks:')} {told}, `forgectl show ID` shows them: {some}"
    if root.stale:
        told = counted(root.stale, "memory stands", "memories stand")
        yield f"  {paint('warn', 'stale:')} {told} on files that changed; `forgectl list --stale` shows them"
    yield from _problems(root, paint)
    if root.no_memories:
        told = counted(len(root.no_memories), "file here is no memory", "files here are no memories")
        yield f"  {told}; `forgectl list --problems` names them"


def _headline(report: StatusReport, paint: Painter) -> str:
    state = paint(_COLOUR_OF_STATE.get(report.state, "bad"), escape_line(report.state))
    if report.state == "degraded" and not report.reason:
        return f"{state}: see below what is wrong; the rest works"
    return f"{state}{because(report.reason)}"


def _process(report: StatusReport) -> str:
    return (
        f"forged {escape_line(report.version)}, pid {report.pid}, up {span(report.uptime_s)}, "
        f"{counted(report.connections, 'connection')}, {escape_line(report.socket)}"
    )


def _models(report: StatusReport) -> str:
    engine = f" (run by {escape_line(report.engine)})" if report.engine else ""
    embedding = f"{escape_line(report.embedding_model) or 'none'}{engine}"
    retrieval = escape_line(report.retrieval_model) or "none"
    return (
        f"strategy {escape_line(report.strategy)}, embedding model {embedding}, retrieval model {retrieval}"
    )


def _size(root: RootReport) -> str:
    indexes = escape_line("+".join(root.indexes)) or "none"
    built = f", built {span(root.built_age_s)} ago in {root.build_ms:,.0f} ms" if root.build_ms else ""
    count = counted(root.memories, "memory", "memories")
    return f"{count}, indexes {indexes}, generation {escape_line(root.generation) or 'none'}{built}"


def _answering(root: RootReport) -> str:
    """What a question meets while a build is not done: nothing, words, or words and most of the vectors."""
    answering = [
        name for index, name in (("lexical", "words"), ("dense", "vectors")) if index in root.indexes
    ]
    told = f"{' and '.join(answering)} answer" if answering else "nothing answers yet"
    if root.embedded >= root.to_embed:
        return told
    new = "new vectors" if "dense" in root.indexes else "vectors"
    soon = pace(root.rate, root.left_s)
    return f"{told}, {new} {root.embedded:,} of {root.to_embed:,}" + (f", {soon}" if soon else "")


def _watching(root: RootReport) -> str:
    if root.watch in {"", "stopped"}:
        return "not watched"
    return f"watched by {escape_line(root.watch)}, {counted(root.watches, 'watch', 'watches')}"


def _problems(root: RootReport, paint: Painter) -> Iterator[str]:
    if not root.problems:
        return
    yield f"  {paint('warn', counted(len(root.problems), 'problem') + ':')}"
    for problem in root.problems[:_PROBLEMS_SHOWN]:
        yield f"    {escape_line(problem.path)}: {escape_line(problem.reason)}"
    if len(root.problems) > _PROBLEMS_SHOWN:
        yield f"    and {len(root.problems) - _PROBLEMS_SHOWN:,} more"


def _counters(report: StatusReport, paint: Painter) -> Iterator[str]:
    counts = sorted(report.counters.items())
    shown = [(name, count) for name, count in counts if count and name != "secrets_redacted"]
    # What capture counts is above, under its own names.
    if told := [f"{escape_line(name)} {count:,}" for name, count in shown if not name.startswith("captur")]:
        yield ""
        yield f"{paint('strong', 'counted since start')}: {', '.join(told)}"


# --- capture -------------------------------------------------------------------------------------------


def capture_lines(report: CaptureReport, paint: Painter, now: float) -> Iterator[str]:
    """State and classifier, then results, then troubles; `now` is Unix seconds."""
    yield _capture_headline(report, paint)
    yield f"  {_capture_results(report, now)}"
    if report.in_hand:
        yield f"  in hand: {escape_line(report.in_hand)} for {span(report.in_hand_age_s)}"
    if held := captures_waiting(report):
        yield f"  waiting: {held}"
    if report.to_review:
        waiting = counted(report.to_review, "proposal")
        yield f"  {paint('warn', 'to review:')} {waiting}; `forgectl review` shows them"
    if report.last_error and report.last_error != report.reason:
        yield f"  {paint('bad', 'last error:')} {escape_line(report.last_error)}"
    if report.dead:
        dead = f"{counted(report.dead, 'event')} given up; `forgectl dead list` says why"
        yield f"  {paint('warn', 'dead:')} {dead}"
    for each in report.elsewhere:
        yield f"  {paint('warn', 'waits:')} {elsewhere_line(each)}"
    if report.paused:
        yield f"  {paint('warn', 'paused:')} {', '.join(map(paused_place, report.paused))}"
    if told := _capture_counts(report):
        yield f"  counted since start: {told}"


def elsewhere_line(waits: WaitsElsewhere) -> str:
    counts = (
        (waits.events, "event"),
        (waits.proposals, "proposal"),
        (waits.steps, "interrupted removal or move", "interrupted removals or moves"),
    )
    told = ", ".join(counted(*each) for each in counts if each[0])
    return (
        f"{told} for {escape_line(waits.root)}: {escape_line(waits.reason)}. Start forged where that folder "
        "is, such as its container; `forgectl dead list` shows what waits, `forgectl dead drop ID` erases it"
    )


def paused_place(place: str) -> str:
    return "everywhere" if place == EVERYWHERE else escape_line(place)


def _capture_headline(report: CaptureReport, paint: Painter) -> str:
    state = escape_line(report.state)
    shown = paint(_LOUD[state], state.upper()) if state in _LOUD else paint("good", state)
    classifier = f"  {escape_line(report.classifier)}" if report.classifier else ""
    return f"{shown}  capture{classifier}{because(report.reason)}"


def _capture_results(report: CaptureReport, now: float) -> str:
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


def captures_waiting(report: CaptureReport) -> str:
    """What has been heard and not been judged; empty when that is all."""
    turns = f"{counted(report.turns, 'turn')} in memory" if report.turns else ""
    size = f" ({counted(report.spool_bytes, 'byte')})" if report.spool_bytes else ""
    spooled = f"{counted(report.spooled, 'event')} on disk{size}" if report.spooled else ""
    return ", ".join(filter(None, (turns, spooled)))


def _capture_counts(report: CaptureReport) -> str:
    counts = ((name, getattr(report, name)) for name in (*_COUNTERS, "said_again"))
    return ", ".join(f"{name} {count:,}" for name, count in counts if count)


def _ago(time: str, now: float) -> str:
    try:
        return f"{span(now - datetime.fromisoformat(time).timestamp())} ago"
    except ValueError:
        return escape_line(time)
