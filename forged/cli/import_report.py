"""Report of an import: the plan before it, the result after it.

Items are counted by their result, left-out lines by their reason. Only imported texts are quoted: a refused
one may contain a secret.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from forged.cli.call import Invocation, show
from forged.cli.exits import NOT_DONE
from forged.cli.tables import columns
from forged.cli.terminal import counted, escape_line, tell
from forged.importing import Destination, PlannedItem, SkippedPart
from forged_client import protocol as wire

_MOST_LISTED = 10
_LONGEST_QUOTE = 160


class ImportedItem(msgspec.Struct, frozen=True):
    """Result of importing one item: where it is from, where it went, why not; `says` is its beginning."""

    where: str
    result: str
    scope: str
    root: str
    memory_id: str
    reason: str = ""
    replaces: str = ""
    says: str = ""


class ImportReport(msgspec.Struct, frozen=True):
    """Result of an import, or its plan if not `done`: counts, each memory, and entries left out."""

    done: bool
    counts: dict[str, int]
    formats: dict[str, int]
    memories: tuple[ImportedItem, ...]
    left: tuple[SkippedPart, ...]


def report_of(
    moves: Sequence[PlannedItem],
    outcomes: Sequence[wire.ImportOutcome],
    formats: dict[str, int],
    left: Sequence[SkippedPart],
    roots: Mapping[Destination, str],
    *,
    done: bool = False,
) -> ImportReport:
    """Build the report of an import, or of its plan, from planned items and the daemon's outcomes."""
    entries = tuple(
        ImportedItem(
            where=move.item.where,
            result=outcome.result,
            scope=move.place.scope,
            root=roots.get(move.place, ""),
            memory_id=outcome.memory_id,
            reason=outcome.reason,
            replaces=outcome.replaces,
            says=" ".join(move.item.text.split())[:_LONGEST_QUOTE] if outcome.result == "new" else "",
        )
        for move, outcome in zip(moves, outcomes, strict=True)
    )
    return ImportReport(done, dict(Counter(each.result for each in entries)), formats, entries, tuple(left))


_RESULTS = {
    "new": ("imported", "new"),
    "exists": ("already there", "already there"),
    "secret": ("refused, because they seem to contain a secret", "seem to contain a secret"),
    "conflict": ("not imported, because their id exists with another text", "in conflict with existing ones"),
    "forgotten": (
        "not imported, because they were forgotten in the last 7 days",
        "forgotten in the last 7 days",
    ),
    "refused": ("refused", "will be refused"),
}


def report_lines(report: ImportReport, *, verbose: bool) -> Iterator[str]:
    """Yield an import's report or plan: files, counts by root, replaced and refused memories, the rest."""
    for name, count in sorted(report.formats.items()):
        yield f"read {counted(count, 'file')} as {name}"
    for (root, scope), counts in _counts_by_root(report.memories).items():
        parts = ", ".join(
            f"{count:,} {_RESULTS[name][0 if report.done else 1]}" for name, count in _ordered_counts(counts)
        )
        yield f"{escape_line(root)} ({escape_line(scope)}): {parts}"
    replaced = [each for each in report.memories if each.replaces and each.result == "new"]
    if replaced:
        older = counted(len(replaced), "existing memory", "existing memories")
        yield f"{older} {'became' if report.done else 'would become'} an older version of an imported memory"
    yield from _not_imported_lines(report, verbose=verbose)
    if verbose:
        said = (each.reason or each.says or each.memory_id for each in report.memories)
        rows = zip(report.memories, said, strict=True)
        yield from columns([(escape_line(each.where), each.result, escape_line(says)) for each, says in rows])


def _counts_by_root(entries: Sequence[ImportedItem]) -> dict[tuple[str, str], Counter[str]]:
    """Count the items of an import by their result, for each root and scope."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for each in entries:
        counts.setdefault((each.root, each.scope), Counter())[each.result] += 1
    return counts


def _ordered_counts(counts: Counter[str]) -> list[tuple[str, int]]:
    """Return the results of an import with their counts, in the order of `_RESULTS`, without zeros."""
    return [(name, counts[name]) for name in _RESULTS if counts[name]]


def _not_imported_lines(report: ImportReport, *, verbose: bool) -> Iterator[str]:
    """Yield refused items (all with `verbose`) and left-out lines, by reason or with `verbose` each."""
    refused = [each for each in report.memories if each.result not in {"new", "exists"}]
    for each in refused[: None if verbose else _MOST_LISTED]:
        yield f"  {escape_line(each.where)}: {escape_line(each.reason)}"
    if len(refused) > _MOST_LISTED and not verbose:
        yield f"  and {len(refused) - _MOST_LISTED:,} more; --verbose lists them"
    if not report.left:
        return
    yield f"left out: {counted(len(report.left), 'line or entry', 'lines or entries')}" + (
        "" if verbose else "; --verbose lists them"
    )
    if verbose:
        yield from (f"  {escape_line(each.where)}: {escape_line(each.why)}" for each in report.left)
        return
    for why, count in Counter(each.why for each in report.left).most_common(_MOST_LISTED):
        yield f"  {count:,} x {escape_line(why)}"


def print_report(call: Invocation, report: ImportReport, *, verbose: bool) -> None:
    """Print an import's report and a hint on the next step; exit code 1 if a memory was refused."""
    show(call, report, report_lines(report, verbose=verbose))
    if not call.as_json:
        if not report.counts.get("new"):
            tell("nothing new" if report.memories else "no text in it can be a memory")
        elif not report.done:
            tell("nothing was written; run it without --dry-run to import")
        else:
            tell(
                "searchable now, and injected when they match; not pinned. "
                "`forgectl list --origin import` lists them"
            )
    if any(report.counts.get(each) for each in ("secret", "conflict", "refused")):
        sys.exit(NOT_DONE)
