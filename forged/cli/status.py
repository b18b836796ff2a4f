"""Details of the status report, as `forgectl status --all` prints them after the summary.

Functions from a reply to lines, so that the fast path and click print the same text. A state in which no
memory is saved is in capitals and has its reason, also without colour.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from datetime import datetime

from forged import __version__
from forged.build_id import build_id
from forged.cli.scope_lines import scope_status
from forged.cli.shared_status import because, endpoint_lines, shared_lines
from forged.cli.terminal import Painter, counted, distinct, escape_line, pace, span
from forged_client.protocol import CaptureReport, RootReport, StatusReport, WaitsElsewhere

# All repositories, in a list of paused ones; and the classifier that needs no model.
EVERYWHERE, BUILT_IN = "*", "builtin:rules"
_PROBLEMS_SHOWN = 10
_SECRETS_NAMED = 3
_PLAIN = Painter()
_COLOUR_OF_STATE = {"ready": "good", "failed": "bad"}
_GATES = {
    "words": "keyword scores decide what is injected",
    "learning": "keyword scores decide what is injected for a few seconds, until the model is calibrated",
    "failing": "keyword scores decide what is injected, because the model could not be calibrated",
    "vectors": "embedding and keyword scores decide what is injected",
    "off": "everything that is found is injected",
}
_INDEXES = {"lexical": "keywords", "dense": "embeddings"}
_LOUD = {"off": "warn", "paused": "warn", "waiting": "warn", "failing": "bad"}
# Fields of the report that are shown by their own names, where they are not zero.
_COUNTERS = ("coalesced", "rejected", "replaced", "duplicates", "invalid", "redacted", "failures")


def detail_lines(report: StatusReport, paint: Painter = _PLAIN) -> Iterator[str]:
    """Yield the details for `status --all`: process, models, servers, warnings, roots, capture, counters."""
    yield _process_line(report)
    yield _models_line(report)
    yield from _gate_lines(report)
    yield from endpoint_lines(report.endpoints, paint)
    yield from shared_lines(report.shared, paint)
    for warning in distinct([each for each in report.warnings if each != report.reason]):
        yield f"{paint('warn', 'warning:')} {escape_line(warning)}"
    for root in report.roots:
        yield ""
        yield from root_lines(root, paint)
    yield ""
    yield from scope_status(report.scopes)
    yield from capture_lines(report.capture, paint, time.time())
    yield from _counter_lines(report, paint)


def skew(version: str, build: str = "") -> str:
    """Return a sentence if daemon and forgectl differ in version or build, with the remedy, else ""."""
    if version in {"", __version__}:
        ours = build_id() if build else ""
        if build == ours or not ours:
            return ""
        return (
            f"the daemon is another build of forged {__version__} ({escape_line(build)}) than this forgectl "
            f"({ours}); `forgectl restart` starts this build"
        )
    differs = f"the daemon is forged {escape_line(version)}, this forgectl is {__version__}"
    if _release_numbers(version) > _release_numbers(__version__):
        return f"{differs}: another installation runs it"
    return f"{differs}; `forgectl restart` starts this version"


def _release_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _gate_lines(report: StatusReport) -> Iterator[str]:
    if report.gate.state:
        decides = _GATES.get(report.gate.state, escape_line(report.gate.state))
        yield f"gate: {decides}{because(report.gate.reason)}"


def root_lines(root: RootReport, paint: Painter) -> Iterator[str]:
    """Yield the lines of `status --all` on a root: state, size, search, watch, and each problem."""
    state = paint(_COLOUR_OF_STATE.get(root.state, "strong"), escape_line(root.state))
    yield f"{state}  {escape_line(root.scope)}  {escape_line(root.root)}"
    yield f"  {_size_text(root)}"
    if root.state != "ready":
        yield f"  {search_state((root,))}"
    yield f"  {_watch_text(root)}"
    if root.notice:
        yield f"  {paint('bad', 'NOT USED:')} {escape_line(root.notice)}"
    if root.owner:
        yield f"  {paint('warn', 'owner:')} {escape_line(root.owner)}"
    if root.git_problem:
        yield f"  {paint('warn', 'git:')} {escape_line(root.git_problem)}"
    elif root.git:
        yield f"  {escape_line(root.git)}"
    if root.held:
        yield f"  {paint('warn', 'nothing is sent:')} {escape_line(root.held)}"
    if root.last_error and root.last_error != root.held:
        yield f"  {paint('bad', 'last error:')} {escape_line(root.last_error)}"
    if root.cut:
        some = ", ".join(map(escape_line, root.cut_ids)) + (", ..." if root.cut > len(root.cut_ids) else "")
        count = counted(root.cut, "memory is", "memories are")
        yield f"  {count} longer than the embedding model takes; keywords find the rest: {some}"
    for named, sentence in root_notes(root):
        yield f"  {paint('warn', f'{named}:')} {sentence}"
    yield from _problem_lines(root, paint)
    if root.no_memories:
        files = counted(len(root.no_memories), "file here is not a memory", "files here are not memories")
        yield f"  {files}; `forgectl list --problems` lists them with the reason"


def root_notes(root: RootReport) -> Iterator[tuple[str, str]]:
    """Yield a word and a sentence each on refused texts, secrets, forks and stale memories of a root."""
    if root.quarantined:
        texts = counted(root.quarantined, "text was", "texts were")
        yield "refused", f"{texts} refused by the embedding model and can only be found by keywords"
    if root.redacted:
        some = " ".join(map(escape_line, root.redacted_ids[:_SECRETS_NAMED]))
        holds = counted(root.redacted, "memory contains a secret", "memories contain a secret")
        yield "secrets", f"{holds}, which agents do not see; `forgectl show {some}` names it"
    if root.forks:
        some = ", ".join(map(escape_line, root.fork_ids[:_SECRETS_NAMED]))
        count = counted(root.forks, "memory has", "memories have")
        yield "forks", f"{count} more than one current version; `forgectl show ID` lists them: {some}"
    if root.stale:
        count = counted(root.stale, "memory depends", "memories depend")
        yield "stale", f"{count} on files that changed; `forgectl list --stale` lists them"


def _process_line(report: StatusReport) -> str:
    return (
        f"forged {escape_line(report.version)}, pid {report.pid}, up {span(report.uptime_s)}, "
        f"{counted(report.connections, 'connection')}, {escape_line(report.socket)}"
    )


def _models_line(report: StatusReport) -> str:
    engine = f" (run by {escape_line(report.engine)})" if report.engine else ""
    embedding = f"{escape_line(report.embedding_model) or 'none'}{engine}"
    retrieval = escape_line(report.retrieval_model) or "none"
    return (
        f"strategy {escape_line(report.strategy)}, embedding model {embedding}, retrieval model {retrieval}"
    )


def _size_text(root: RootReport) -> str:
    built = f", indexed {span(root.built_age_s)} ago in {root.build_ms:,.0f} ms" if root.build_ms else ""
    return f"{counted(root.memories, 'memory', 'memories')}, search: {index_names(root.indexes)}{built}"


def index_names(names: Sequence[str]) -> str:
    """Name the indexes by which memories can be searched: `keywords + embeddings`, or `none`."""
    return " + ".join(_INDEXES.get(name, escape_line(name)) for name in names) or "none"


def search_state(roots: Sequence[RootReport]) -> str:
    """Return a text on search in these roots: by keywords and embeddings, ready or in progress."""
    found = [name for name in _INDEXES if any(name in root.indexes for root in roots)]
    building = next((root for root in roots if root.embedded < root.to_embed), None)
    if building is None:
        return f"search: {index_names(found)}" if found else "search: not ready yet, files are being read"
    ready = "keyword search ready" if "lexical" in found else "search: not ready yet"
    embedded, to_embed = sum(root.embedded for root in roots), sum(root.to_embed for root in roots)
    speed = pace(building.rate, building.left_s)
    return f"{ready}; embedding {embedded:,} of {to_embed:,}" + (f", {speed}" if speed else "")


def _watch_text(root: RootReport) -> str:
    if root.watch in {"", "stopped"}:
        return "file changes: not watched"
    return f"file changes: {escape_line(root.watch)}, {counted(root.watches, 'watch', 'watches')}"


def _problem_lines(root: RootReport, paint: Painter) -> Iterator[str]:
    if not root.problems:
        return
    yield f"  {paint('warn', counted(len(root.problems), 'problem') + ':')}"
    for problem in root.problems[:_PROBLEMS_SHOWN]:
        yield f"    {escape_line(problem.path)}: {escape_line(problem.reason)}"
    if len(root.problems) > _PROBLEMS_SHOWN:
        yield f"    and {len(root.problems) - _PROBLEMS_SHOWN:,} more; `forgectl list --problems` lists all"


def _counter_lines(report: StatusReport, paint: Painter) -> Iterator[str]:
    counts = sorted(report.counters.items())
    shown = [(name, count) for name, count in counts if count and name != "secrets_redacted"]
    # Capture's own counters are above.
    if parts := [f"{escape_line(name)} {count:,}" for name, count in shown if not name.startswith("captur")]:
        yield ""
        yield f"{paint('strong', 'counted since start')}: {', '.join(parts)}"


# --- capture -------------------------------------------------------------------------------------------


def capture_lines(report: CaptureReport, paint: Painter, now: float) -> Iterator[str]:
    """Yield the lines of `status --all` on capture: state, results, waiting events, problems, counts."""
    yield _capture_headline(report, paint)
    yield f"  {_capture_results(report, now)}"
    if report.in_hand:
        yield f"  working on: {escape_line(report.in_hand)} for {span(report.in_hand_age_s)}"
    if waiting := captures_waiting(report):
        yield f"  waiting: {waiting}"
    if report.to_review:
        yield f"  {paint('warn', 'to review:')} {proposals_note(report.to_review)}"
    if report.last_error and report.last_error != report.reason:
        yield f"  {paint('bad', 'last error:')} {escape_line(report.last_error)}"
    if report.dead:
        yield f"  {paint('warn', 'dead:')} {dead_events_note(report.dead)}"
    for each in report.elsewhere:
        yield f"  {paint('warn', 'waits:')} {elsewhere_line(each)}"
    if report.paused:
        yield f"  {paint('warn', 'paused:')} {', '.join(map(paused_place_name, report.paused))}"
    if counts := _capture_counts(report):
        yield f"  counted since start: {counts}"


def proposals_note(count: int) -> str:
    """Return how many proposed memories wait for review, with the command that shows them."""
    return f"{counted(count, 'proposal')}; `forgectl review` shows them"


def dead_events_note(count: int) -> str:
    """Return how many capture events were given up, with the command that shows why."""
    return f"{counted(count, 'capture event')} given up; `forgectl dead list` shows why"


def elsewhere_line(waits: WaitsElsewhere) -> str:
    """Return a sentence on what waits for an absent folder: counts, the reason, and the remedy."""
    counts = (
        (waits.events, "event"),
        (waits.proposals, "proposal"),
        (waits.steps, "interrupted removal or move", "interrupted removals or moves"),
    )
    waiting = ", ".join(counted(*each) for each in counts if each[0])
    return (
        f"{waiting} for {escape_line(waits.root)}: {escape_line(waits.reason)}. Start forged where that "
        "folder is, for example in its container; `forgectl dead list` shows them, "
        "`forgectl dead drop ID` erases one"
    )


def paused_place_name(place: str) -> str:
    """Return the repository of a pause for display, escaped; `everywhere` for `*`."""
    return "everywhere" if place == EVERYWHERE else escape_line(place)


def classifier_name(classifier: str) -> str:
    """Name capture's classifier for display: `the built-in classifier`, or its configured name, escaped."""
    return "the built-in classifier" if classifier == BUILT_IN else escape_line(classifier)


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
        f"last success {ago(report.last_success, now)}" if report.last_success else "no success yet",
        _tokens_text(report),
        f"worker pid {report.worker_pid}{restarts}" if report.worker_pid else f"no worker{restarts}",
    )
    return ", ".join(filter(None, facts))


def _tokens_text(report: CaptureReport) -> str:
    if report.token_limit:
        return f"{report.tokens_today:,} of {report.token_limit:,} tokens today"
    return f"{counted(report.tokens_today, 'token')} today" if report.tokens_today else ""


def captures_waiting(report: CaptureReport) -> str:
    """Return numbers of turns (in memory) and events (on disk) still to judge; empty if none."""
    turns = f"{counted(report.turns, 'turn')} in memory" if report.turns else ""
    size = f" ({counted(report.spool_bytes, 'byte')})" if report.spool_bytes else ""
    spooled = f"{counted(report.spooled, 'event')} on disk{size}" if report.spooled else ""
    return ", ".join(filter(None, (turns, spooled)))


def _capture_counts(report: CaptureReport) -> str:
    counts = ((name, getattr(report, name)) for name in (*_COUNTERS, "said_again"))
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts if count)


def ago(time: str, now: float) -> str:
    """Return how long ago an RFC 3339 time was, such as `3 h ago`; an invalid time unchanged."""
    try:
        return f"{span(now - datetime.fromisoformat(time).timestamp())} ago"
    except ValueError:
        return escape_line(time)
