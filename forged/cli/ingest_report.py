"""Report of `forgectl ingest`: outcomes, documents whose files are gone, and when all can be found."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec

from forged.cli.call import Invocation, show
from forged.cli.pruning import FollowedFolders, GoneDocument, gone_rows
from forged.cli.tables import columns
from forged.cli.terminal import counted, escape_line, span, tell
from forged_client import protocol as wire
from forged_client.client import Client
from forged_client.errors import ClientError

FRESH = ("new", "replaced", "completed", "moved")
"""Results of documents that searches do not find yet."""

ON_SERVER = {"": "", "there": "on the server", "waits": "waits for the server"}
_IN_COUNTS = {"exists": "unchanged"}
_SEEN_S, _PAUSE_S = 3.0, 0.05


class IngestReport(msgspec.Struct, frozen=True):
    """Result of `ingest` for each document, or the plan if not `done`; not `complete` if interrupted.

    `gone` are documents whose file is not in its folder any more. `install` is the command that installs
    the readers of refused formats, or "". `findable` says when searches find the documents, `not_pruned` why
    a prune was not carried out.
    """

    done: bool
    complete: bool
    counts: dict[str, int]
    documents: tuple[wire.DocumentOutcome, ...]
    gone: tuple[GoneDocument, ...] = ()
    install: str = ""
    seconds: float = 0.0
    findable: str = ""
    not_pruned: str = ""


def findable(client: Client, generation: str) -> str:
    """Return when searches find documents: at once by words, later by meaning; waits 3 s at most."""
    ends, left = time.monotonic() + _SEEN_S, 0
    while time.monotonic() < ends:
        try:
            roots = [each for each in client.ask(wire.Status()).roots if each.scope == wire.Scope.ORG]
        except ClientError:
            break
        for root in roots:
            if not _is_shown(generation, root.generation):
                continue
            if root.held or root.last_error:
                return f"by words now; by meaning later: {root.held or root.last_error}"
            left = root.to_embed - root.embedded
            if left <= 0:
                return "now"
            if root.left_s is not None:
                return f"by words now, by meaning in about {span(root.left_s + 1)}"
        time.sleep(_PAUSE_S)
    return f"by words now, by meaning after {counted(left, 'more text', 'more texts')}" if left else "soon"


def _is_shown(generation: str, shown: str) -> bool:
    """Return True if a map of one generation shows another one of the same run of the daemon."""
    (epoch, _, number), (shown_epoch, _, shown_number) = generation.partition(":"), shown.partition(":")
    return epoch == shown_epoch and int(shown_number or 0) >= int(number or 0)


def show_report(call: Invocation, report: IngestReport, *, verbose: bool = False) -> None:
    """Print the outcomes of `ingest` and documents whose files are gone."""
    show(call, report, _outcome_lines(report, verbose=verbose))


def tell_end(report: IngestReport, folders: FollowedFolders, *, pruning: bool) -> None:
    """Print one line with counts, time, and when searches find the documents, and hints on what is next."""
    for note in folders.notes():
        tell(note)
    if report.install:
        tell(f"to read these formats: {report.install}")
    if not report.documents:
        tell("no markdown, text, PDF, HTML or Word file was found")
        return
    parts = sum(each.pieces for each in report.documents)
    counts = ", ".join(
        f"{count:,} {_IN_COUNTS.get(result, result)}" for result, count in sorted(report.counts.items())
    )
    files = counted(len(report.documents), "file")
    tell(f"{files}: {counts}; {counted(parts, 'part')} in {report.seconds:g} s")
    gone = sum(not each.stays for each in report.gone)
    if gone and not pruning:
        whose = "whose file is gone; `--prune` removes"
        tell(f"{counted(gone, 'document')} {whose} {'it' if gone == 1 else 'them'}")
    if not report.done:
        tell("nothing was written; run it without --dry-run to ingest")
    elif report.findable:
        tell(f"searches find them {report.findable}; try `forgectl search --scope org QUERY`")


def _outcome_lines(report: IngestReport, *, verbose: bool) -> Iterator[str]:
    """Yield a table of outcomes of `ingest`, without unchanged documents unless `verbose`."""
    rows = [
        (each.result, _name(each), escape_line(each.reason) or _facts_of(each))
        for each in report.documents
        if verbose or each.result != "exists" or each.forgotten or each.shared not in {"", "there"}
    ]
    yield from columns([*rows, *gone_rows(report.gone)])
    if unchanged := report.counts.get("exists", 0):
        yield f"{counted(unchanged, 'document')} unchanged"


def _name(outcome: wire.DocumentOutcome) -> str:
    """Return the source of a document, of a renamed one with its former source."""
    former = f"{escape_line(outcome.moved_from)} -> " if outcome.moved_from else ""
    return f"{former}{escape_line(outcome.source)}"


def _facts_of(outcome: wire.DocumentOutcome) -> str:
    """Return an ingested document's number of parts, of parts left out, and its state on the server."""
    refused = f"not on the server: {escape_line(outcome.shared)}"
    facts = (
        counted(outcome.pieces, "part"),
        _forgotten_note(outcome),
        ON_SERVER.get(outcome.shared, refused),
    )
    return ", ".join(filter(None, facts))


def _forgotten_note(outcome: wire.DocumentOutcome) -> str:
    """Return a note on parts of a document that were left out as forgotten, "" if there are none."""
    reason = f"{outcome.forgotten:,} left out, forgotten in the last 7 days (--allow-forgotten adds them)"
    return reason if outcome.forgotten else ""
