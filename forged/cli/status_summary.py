"""Summary of the status report: is memory on here, how much does it hold, what needs the person.

`forgectl status` prints it alone. With `--all` the details of `status` follow.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from forged.cli.shared_status import because, endpoint_facts, shared_troubles
from forged.cli.status import (
    EVERYWHERE,
    ago,
    captures_waiting,
    classifier_name,
    dead_events_note,
    detail_lines,
    elsewhere_line,
    proposals_note,
    root_notes,
    search_state,
    skew,
)
from forged.cli.terminal import Painter, counted, distinct, escape_line, listed
from forged_client.protocol import OFF_HERE, AgentReport, RootReport, StatusReport

if TYPE_CHECKING:
    from forged.integrations import AgentState

TRUST_HOOKS = 'start `codex` and choose "Trust all and continue" (later: /hooks)'
"""The step that makes Codex run the hooks."""

_PLAIN = Painter()
_FILES_NAMED = 3
_STOPPED = "nothing is saved or injected"
_PAUSED_HERE = "here: paused"  # how a warning begins that the first line says already
_TRUST = {
    "own": "own: no memories were here before forged",
    "follow": "follow: memories that reach its branch are used, too",
    "locked": "locked: only memories that you allowed are used",
    "unknown": "not asked: only memories that forged wrote here are used",
}
_CAPTURING = ("idle", "busy", "waiting")


def status_lines(
    report: StatusReport,
    paint: Painter = _PLAIN,
    *,
    agents: Sequence[AgentState] = (),
    details: bool = False,
) -> Iterator[str]:
    """Yield the lines of `forgectl status`: summary, decisions, problems; `details` adds those of `--all`."""
    here = [root for root in report.roots if root.root in report.here]
    problems = tuple(_problems(report, here, agents))
    yield _headline(report, here, len(problems), paint)
    yield from _memory_lines(here)
    yield f"  {_search_line(report, here)}"
    yield f"  {_capture_line(report, paint)}"
    yield f"  {_agents_line(agents, report.agents)}"
    waiting = tuple(_waiting_decisions(report, here))
    if not waiting:
        yield "  waiting for you: nothing"
    for each in waiting:
        yield f"  {paint('warn', 'waiting for you:')} {each}"
    if problems:
        yield f"{paint('bad', counted(len(problems), 'problem') + ':')}"
        yield from (f"  {each}" for each in problems)
    if details:
        yield ""
        yield from detail_lines(report, paint)


def _headline(report: StatusReport, here: Sequence[RootReport], problems: int, paint: Painter) -> str:
    """Return the first line of `status`: memory is on, off, paused or failing here, and the reason."""
    if report.state == "disabled":
        return f"{paint('warn', 'OFF')}{because(report.reason)}"
    if not report.here:
        return f"{paint('warn', 'OFF here')}: {OFF_HERE}"
    if report.capture.doubt:
        return f"{paint('bad', 'FAILING')}: {escape_line(report.capture.doubt)}"
    if EVERYWHERE in report.capture.paused:
        return f"{paint('warn', 'PAUSED')} everywhere: {_STOPPED}; `forgectl resume --all` ends it"
    place = " and ".join(escape_line(root.root) for root in here if root.scope == "repo")
    if any(root in report.here for root in report.capture.paused):
        return f"{paint('warn', 'PAUSED')} in {place}: {_STOPPED}; `forgectl resume` ends it"
    on = f"{paint('good', 'on')} in {place}" if place else f"{paint('good', 'on')}, in no repository"
    if report.reason:
        return f"{on}, {paint('bad', 'but')}{because(report.reason)}"
    return f"{on}; {counted(problems, 'problem')} (see below)" if problems else f"{on}; no problems"


def _memory_lines(here: Sequence[RootReport]) -> Iterator[str]:
    """Yield the lines of `status` on memories here and of the user, skipped files, and trust."""
    repos = [root for root in here if root.scope == "repo"]
    yours = sum(root.memories for root in here if root.scope == "user")
    counts = [f"{yours:,} of yours for all repositories"]
    if repos:
        counts.insert(0, f"{sum(root.memories for root in repos):,} here")
    yield f"  memories: {', '.join(counts)}"
    if passed := sum(len(root.no_memories) for root in here):
        files = counted(passed, "file is not a memory", "files are not memories")
        yield f"  {files} and not read; `forgectl list --problems` shows why"
    for root in repos:
        if root.trust in _TRUST:
            yield f"  trust: {_TRUST[root.trust]}"


def _search_line(report: StatusReport, here: Sequence[RootReport]) -> str:
    """Return the line of `status` on search: what is ready, and if the embedding gate warms up."""
    is_built = all(root.embedded >= root.to_embed for root in here)
    warms_up = "; warming up: keyword matching only for a few seconds"
    return search_state(here) + (warms_up if report.gate.state == "learning" and is_built else "")


def _capture_line(report: StatusReport, paint: Painter) -> str:
    """Return the line of `status` on capture: on by which classifier, saved, still to judge; or why off."""
    capture = report.capture
    if capture.state not in _CAPTURING:
        return f"capture: {paint('warn', escape_line(capture.state.upper()))}{because(capture.reason)}"
    by = f" by {classifier_name(capture.classifier)}" if capture.classifier else ""
    saved = counted(capture.memories, "memory", "memories")
    last = f", last judged {ago(capture.last_success, time.time())}" if capture.last_success else ""
    waiting = captures_waiting(capture)
    return f"capture: on, judged{by}; {saved} saved since start{last}" + (
        f"; still to judge: {waiting}" if waiting else ""
    )


def _agents_line(agents: Sequence[AgentState], seen: Sequence[AgentReport]) -> str:
    """Return the line of `status` on agents: connected ones with their last event, and the others."""
    active = {one.agent: one for one in seen if one.last_event_at}
    connected = [
        escape_line(state.title)
        + (
            f" (active {ago(active[state.agent].last_event_at, time.time())})"
            if state.agent in active
            else ""
        )
        for state in agents
        if state.connection == "connected"
    ]
    others = listed(state.title for state in agents if state.is_installed and not state.connection)
    more = f"; not connected: {others} (`forgectl setup` connects them)" if others else ""
    if connected:
        return f"agents: {', '.join(connected)}{more}"
    return f"agents: none is connected{more or '; `forgectl setup` connects them'}"


def _waiting_decisions(report: StatusReport, here: Sequence[RootReport]) -> Iterator[str]:
    """Yield decisions that wait: proposals, trust notices, unused files of other repositories."""
    if report.capture.to_review:
        yield proposals_note(report.capture.to_review)
    for root in here:
        if root.notice and root.trust != "unread":
            yield escape_line(root.notice)
    others = [root for root in report.roots if root not in here and root.withheld]
    if others:
        files = counted(sum(root.withheld for root in others), "memory file", "memory files")
        places = counted(len(others), "other repository", "other repositories")
        yield f"{files} in {places} not used yet; `forgectl trust --list` lists them"


def _problems(
    report: StatusReport, here: Sequence[RootReport], agents: Sequence[AgentState]
) -> Iterator[str]:
    """Yield a sentence for each problem for `status`: version, warnings, models, capture, roots, agents."""
    if differs := skew(report.version, report.build):
        yield differs
    first = {report.reason, report.capture.doubt}  # the first line says them
    for warning in distinct([each for each in report.warnings if each not in first]):
        if warning != OFF_HERE and not warning.startswith(_PAUSED_HERE):
            yield escape_line(warning)
    yield from _model_problems(report)
    yield from _capture_problems(report)
    for root in here:
        yield from _root_problems(root)
    for state in agents:
        yield from _agent_problems(state)
    elsewhere = [root for root in report.roots if root not in here and any(_root_problems(root))]
    if elsewhere:
        places = counted(len(elsewhere), "other repository has", "other repositories have")
        yield f"{places} problems; `forgectl status --all` shows them"


def _model_problems(report: StatusReport) -> Iterator[str]:
    """Yield for `status` the problems of embedding calibration, of endpoints, and of the team's server."""
    if report.gate.state == "failing":
        why = because(report.gate.reason)
        yield f"keyword matching only: the embedding model could not be calibrated{why}"
    for one in report.endpoints:
        if one.state in {"failing", "slow"}:
            named = f"{escape_line(one.model)} at {escape_line(one.host)}"
            facts = ", ".join((escape_line(one.state), *endpoint_facts(one)))
            yield f"{named}: {facts}{because(one.message)}"
    if report.shared is not None:
        server = escape_line(report.shared.server)
        yield from (f"shared server {server}: {each}" for each in shared_troubles(report.shared))


def _capture_problems(report: StatusReport) -> Iterator[str]:
    """Yield why capture waits, its last error, given-up events, and events for folders elsewhere."""
    capture = report.capture
    if capture.state == "waiting" and capture.reason:
        yield f"capture waits: {escape_line(capture.reason)}"
    if capture.last_error and capture.last_error not in {capture.reason, capture.doubt}:
        yield f"last error of capture: {escape_line(capture.last_error)}"
    if capture.dead:
        yield dead_events_note(capture.dead)
    for each in capture.elsewhere:
        yield elsewhere_line(each)


def _root_problems(root: RootReport) -> Iterator[str]:
    """Yield for `status` a root's problems: trust, errors, watch, owner, git, memories, and bad files."""
    name = escape_line(root.root)
    if root.trust == "unread" and root.notice:
        yield escape_line(root.notice)
    if root.held:
        yield f"{name}: nothing is sent: {escape_line(root.held)}"
    if root.last_error and root.last_error != root.held:
        yield f"{name}: {escape_line(root.last_error)}"
    if root.watch.startswith(("polling", "restarting")):
        yield f"{name}: file changes: {escape_line(root.watch)}"
    for sentence in (root.owner, root.git_problem):
        if sentence:
            yield f"{name}: {escape_line(sentence)}"
    for _, sentence in root_notes(root):
        yield f"{name}: {sentence}"
    yield from (
        f"{escape_line(each.path)}: {escape_line(each.reason)}" for each in root.problems[:_FILES_NAMED]
    )
    if len(root.problems) > _FILES_NAMED:
        more = counted(len(root.problems) - _FILES_NAMED, "more file", "more files")
        yield f"{name}: {more} with problems; `forgectl list --problems` lists all"


def _agent_problems(state: AgentState) -> Iterator[str]:
    """Yield for `status`, with the fix, an agent's faulty connection, or its untrusted hooks."""
    title = escape_line(state.title)
    if state.connection and state.connection != "connected":
        yield f"{title}: {escape_line(state.detail)}; {escape_line(state.remedy)}"
    elif state.trust == "missing":
        yield f"{title}: connected, but it runs no hooks before you trust them; {TRUST_HOOKS}"
