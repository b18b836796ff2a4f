"""What a person is told of an import: before it is done what it would do, and afterwards what it did.

Every item is counted by what becomes of it, what is left out by its reason. Only what is imported is quoted:
what is refused may hold a secret.
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
from forged.importing import Destination, PlannedItem, SkippedItem
from forged_client import protocol as wire

_MOST_TOLD = 10
_MOST_SAID = 160


class ImportedItem(msgspec.Struct, frozen=True):
    """What became of one item, or would; `says` is how its text begins, where that is imported."""

    where: str
    result: str
    scope: str
    root: str
    memory_id: str
    reason: str = ""
    replaces: str = ""
    says: str = ""


class ImportReport(msgspec.Struct, frozen=True):
    """What an import did, or would do: `done` says which."""

    done: bool
    counts: dict[str, int]
    formats: dict[str, int]
    memories: tuple[ImportedItem, ...]
    left: tuple[SkippedItem, ...]


def report_of(
    moves: Sequence[PlannedItem],
    outcomes: Sequence[wire.ImportOutcome],
    formats: dict[str, int],
    left: Sequence[SkippedItem],
    roots: Mapping[Destination, str],
    *,
    done: bool = False,
) -> ImportReport:
    """All of it as one value; `done` says whether it was done."""
    entries = tuple(
        ImportedItem(
            where=move.item.where,
            result=outcome.result,
            scope=move.place.scope,
            root=roots.get(move.place, ""),
            memory_id=outcome.memory_id,
            reason=outcome.reason,
            replaces=outcome.replaces,
            says=" ".join(move.item.text.split())[:_MOST_SAID] if outcome.result == "new" else "",
        )
        for move, outcome in zip(moves, outcomes, strict=True)
    )
    return ImportReport(done, dict(Counter(each.result for each in entries)), formats, entries, tuple(left))


_TOLD = {
    "new": ("imported", "new"),
    "exists": ("there already", "there already"),
    "secret": ("refused, as they hold what looks like a secret", "hold what looks like a secret"),
    "conflict": ("not imported, as their id is there with another content", "in conflict with what is there"),
    "forgotten": ("not imported, as they were forgotten lately", "forgotten lately"),
    "refused": ("refused", "will be refused"),
}


def lines_of(report: ImportReport, *, verbose: bool) -> Iterator[str]:
    """The same as lines for a terminal."""
    for name, count in sorted(report.formats.items()):
        yield f"read {counted(count, 'file')} as {name}"
    for (root, scope), counts in _by_root(report.memories).items():
        told = ", ".join(
            f"{count:,} {_TOLD[name][0 if report.done else 1]}" for name, count in _in_order(counts)
        )
        yield f"{escape_line(root)} ({escape_line(scope)}): {told}"
    replaced = [each for each in report.memories if each.replaces and each.result == "new"]
    if replaced:
        older = counted(len(replaced), "memory that is there", "memories that are there")
        yield f"{older} {'became' if report.done else 'would become'} an older version of an imported one"
    yield from _not_kept(report, verbose=verbose)
    if verbose:
        said = (each.reason or each.says or each.memory_id for each in report.memories)
        rows = zip(report.memories, said, strict=True)
        yield from columns([(escape_line(each.where), each.result, escape_line(says)) for each, says in rows])


def _by_root(entries: Sequence[ImportedItem]) -> dict[tuple[str, str], Counter[str]]:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for each in entries:
        counts.setdefault((each.root, each.scope), Counter())[each.result] += 1
    return counts


def _in_order(counts: Counter[str]) -> list[tuple[str, int]]:
    return [(name, counts[name]) for name in _TOLD if counts[name]]


def _not_kept(report: ImportReport, *, verbose: bool) -> Iterator[str]:
    """What is left out; line by line, or each reason once. What is refused is named in any case."""
    refused = [each for each in report.memories if each.result not in {"new", "exists"}]
    for each in refused[: None if verbose else _MOST_TOLD]:
        yield f"  {escape_line(each.where)}: {escape_line(each.reason)}"
    if len(refused) > _MOST_TOLD and not verbose:
        yield f"  and {len(refused) - _MOST_TOLD:,} more; --verbose names them"
    if not report.left:
        return
    yield f"left out: {counted(len(report.left), 'thing')}" + (
        "" if verbose else "; --verbose names the lines"
    )
    if verbose:
        yield from (f"  {escape_line(each.where)}: {escape_line(each.why)}" for each in report.left)
        return
    for why, count in Counter(each.why for each in report.left).most_common(_MOST_TOLD):
        yield f"  {count:,} x {escape_line(why)}"


def end_with(call: Invocation, report: ImportReport, *, verbose: bool) -> None:
    """Show it; exit code 1 if something that could be a memory is not one now."""
    show(call, report, lines_of(report, verbose=verbose))
    if not call.as_json:
        if not report.counts.get("new"):
            tell("nothing new" if report.memories else "nothing in it could be a memory")
        elif not report.done:
            tell("nothing was written; without --dry-run it is done")
        else:
            tell(
                "they are found from now on, and stand in no session unasked; `forgectl list --origin import`"
            )
    if any(report.counts.get(each) for each in ("secret", "conflict", "refused")):
        sys.exit(NOT_DONE)
