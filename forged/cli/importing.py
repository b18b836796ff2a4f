"""`forgectl import`: memories out of other programs' files, or out of another root of ours.

What it will do is shown before anything is written, with all that cannot be kept; `--dry-run` ends there. A
text with a secret is named by the shape of that and its place, and never shown. An import that was killed is
asked for again and goes on: what is there already stays as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import click
import msgspec

from forged.cli import gathering
from forged.cli.call import Invocation, check_done, daemon
from forged.cli.commands import asks
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import Stop
from forged.cli.import_report import ImportReport, end_with, lines_of, report_of
from forged.cli.terminal import ProgressBar, counted, project_name
from forged.errors import WorkspaceError
from forged.importing import (
    FORMS,
    Destination,
    ImportBatch,
    PlannedItem,
    ReadOptions,
    RepositoryPaths,
    SkippedItem,
    merge_batches,
    plan_items,
    plan_links,
    read_path,
)
from forged_client import protocol as wire
from forged_client.client import Client

_MOST_AT_ONCE, _MOST_BYTES = 200, 512 << 10
_PATIENCE_S = 60.0
_GONE_ON = ("new", "exists")


@click.command("import")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--as", "form", type=click.Choice(FORMS), help="What form the files have, if they do not show it."
)
@click.option("--scope", type=click.Choice(("repo", "user")), help="Whose memories they become.")
@click.option(
    "--into",
    multiple=True,
    metavar="[NAME=]PATH",
    help="Where the repository NAME is, or all go; repeatable.",
)
@click.option("--mine", is_flag=True, help="The memory files are my own: believe who they say wrote them.")
@click.option("--allow-secret", is_flag=True, help="Also what holds a secret: agents will see it.")
@click.option("--allow-forgotten", is_flag=True, help="Also what was forgotten in the last 7 days.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--verbose", "-v", is_flag=True, help="Name each memory, and each line that is left out.")
@yes_option
@asks
def import_command(
    call: Invocation,
    *,
    paths: tuple[str, ...],
    form: str | None,
    scope: str | None,
    into: tuple[str, ...],
    mine: bool,
    allow_secret: bool,
    allow_forgotten: bool,
    dry_run: bool,
    verbose: bool,
    yes: bool,
) -> None:
    """Take over memories from CLAUDE.md and its kin, notes, exports of other tools, other roots of forged."""
    found = _read(paths, ReadOptions(call.environ.get("HOME", ""), form or "", scope or ""))
    places = _into(into)
    if not (yes or dry_run):
        require_answer(call, "import")
    with daemon(call) as client:
        here = RepositoryPaths(call.workspace, _repository_name(client, call.workspace), places)
        moves, twice = plan_items(found.items, here)
        how = wire.Import(workspace="", own=mine, allow_secret=allow_secret, allow_forgotten=allow_forgotten)
        one = _Import(call, client, moves, how)
        looked = one.looked()
        left = (*found.left, *twice, *looked.unlinked)
        report = report_of(moves, looked.outcomes, found.formats, left, looked.roots)
        if not dry_run and report.counts.get("new"):
            if not yes:
                _ask(report, verbose=verbose)
                left, verbose = (left, verbose) if call.as_json else ((), False)  # it has been shown
            done = one.written(looked)
            report = report_of(moves, done, found.formats, left, looked.roots, done=True)
    end_with(call, report, verbose=verbose)


def _ask(report: ImportReport, *, verbose: bool) -> None:
    """Raises Stop unless the person wants it."""
    question = f"Import {counted(report.counts['new'], 'memory', 'memories')}?"
    confirm(lines_of(report, verbose=verbose), question, declined="nothing was imported")


def _read(paths: Sequence[str], asked: ReadOptions) -> ImportBatch:
    """All that the paths come to. Raises Stop."""
    try:
        return merge_batches([read_path(os.path.abspath(path), asked) for path in paths])
    except WorkspaceError as error:
        raise Stop("usage", str(error)) from error


def _into(given: Sequence[str]) -> Mapping[str, str]:
    """Where repositories are, by name. Raises Stop."""
    places: dict[str, str] = {}
    for each in given:
        name, _, path = ("", "", each) if os.path.isdir(each) else each.partition("=")
        if not os.path.isdir(path):
            raise Stop("usage", f"--into {each}: {path or name} is no directory; say [NAME=]PATH")
        places[name] = os.path.abspath(path)
    return places


def _repository_name(client: Client, workspace: str) -> str:
    """What the repository of a workspace is called: the name of its folder."""
    here = [root for root in gathering.roots(client, workspace) if root.scope == "repo"]
    shared = sorted(here, key=lambda root: root.directory.startswith(f"{root.root}/.forge/"))
    return project_name(shared[0].root) if shared else ""


# --- the daemon's part ---------------------------------------------------------------------------------


class _Looked(msgspec.Struct, frozen=True):
    """What would become of each move, and how they are linked then."""

    outcomes: tuple[wire.ImportOutcome, ...]
    drafts: tuple[wire.ImportedDraft, ...]
    unlinked: tuple[SkippedItem, ...]
    roots: dict[Destination, str]


class _Import:
    """One import of these moves; `how` says what is permitted."""

    def __init__(
        self, call: Invocation, client: Client, moves: Sequence[PlannedItem], how: wire.Import
    ) -> None:
        self._call = call
        self._client = client
        self._moves = moves
        self._how = how
        self._roots: dict[Destination, str] = {}

    def looked(self) -> _Looked:
        """Ask what would become of each; nothing is written."""
        drafts = [_draft(move, ()) for move in self._moves]
        outcomes = self._asked(drafts, range(len(drafts)), preview=True)
        ids = {
            (move.place, move.memory_id): outcomes[number].memory_id
            for number, move in enumerate(self._moves)
            if outcomes[number].result in _GONE_ON
        }
        links, unlinked = plan_links(self._moves, ids)
        linked = tuple(_draft(move, links[number]) for number, move in enumerate(self._moves))
        return _Looked(tuple(outcomes[each] for each in range(len(drafts))), linked, unlinked, self._roots)

    def written(self, looked: _Looked) -> tuple[wire.ImportOutcome, ...]:
        """Write what is new; the fates of all."""
        fresh = [number for number, outcome in enumerate(looked.outcomes) if outcome.result == "new"]
        done = self._asked(looked.drafts, fresh, preview=False)
        return tuple(done.get(number, outcome) for number, outcome in enumerate(looked.outcomes))

    def _asked(
        self, drafts: Sequence[wire.ImportedDraft], numbers: Iterable[int], *, preview: bool
    ) -> dict[int, wire.ImportOutcome]:
        outcomes: dict[int, wire.ImportOutcome] = {}
        asked = list(numbers)
        bar = ProgressBar(self._call.redraws(sys.stderr))
        for place in dict.fromkeys(self._moves[number].place for number in asked):
            here = [number for number in asked if self._moves[number].place == place]
            for batch in _batches(here, drafts):
                request = msgspec.structs.replace(
                    self._how,
                    workspace=place.workspace,
                    scope=place.scope,
                    drafts=tuple(drafts[number] for number in batch),
                    preview=preview,
                )
                reply = self._client.ask(request, timeout_s=max(self._call.timeout_s, _PATIENCE_S))
                check_done(reply)
                self._roots[place] = reply.root
                outcomes |= zip(batch, reply.outcomes, strict=True)
                bar.draw("looking" if preview else "importing", len(outcomes), len(asked))
        bar.wipe()
        return outcomes


def _batches(numbers: Sequence[int], drafts: Sequence[wire.ImportedDraft]) -> Iterator[list[int]]:
    batch: list[int] = []
    room = _MOST_BYTES
    for number in numbers:
        size = len(msgspec.msgpack.encode(drafts[number]))
        if batch and (size > room or len(batch) == _MOST_AT_ONCE):
            yield batch
            batch, room = [], _MOST_BYTES
        batch.append(number)
        room -= size
    if batch:
        yield batch


def _draft(move: PlannedItem, links: Sequence[tuple[str, str]]) -> wire.ImportedDraft:
    item = move.item
    if item.file:
        return wire.ImportedDraft(memory_id=move.memory_id, file=item.file, name=item.name)
    return wire.ImportedDraft(
        memory_id=move.memory_id,
        content=item.text,
        category=item.category,
        created_at=item.created_at,
        updated_at=item.updated_at,
        source=item.source,
        cues=item.cues,
        related=tuple(wire.Edge(id_, relationship) for id_, relationship in links),
    )
