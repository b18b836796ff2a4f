"""`forgectl import`: make memories of other programs' files, or of another folder of forged.

The plan is shown before anything is written, with everything that cannot be imported. `--dry-run` ends
there. A text with a secret is named by the kind of secret and its place, and is never shown. An import that
was interrupted goes on when it is run again: existing memories stay as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import click
import msgspec

from forged.cli import gathering
from forged.cli.call import Invocation, check_done, open_client
from forged.cli.commands import with_daemon_options
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import Stop
from forged.cli.import_report import ImportReport, print_report, report_lines, report_of
from forged.cli.terminal import ProgressBar, counted, project_name
from forged.errors import WorkspaceError
from forged.importing import (
    FORMS,
    Destination,
    ImportBatch,
    PlannedItem,
    ReadOptions,
    RepositoryPaths,
    SkippedPart,
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
@click.option("--as", "form", type=click.Choice(FORMS), help="Format of the files, if it cannot be detected.")
@click.option("--scope", type=click.Choice(("repo", "user")), help="Scope of the new memories.")
@click.option(
    "--into",
    multiple=True,
    metavar="[NAME=]PATH",
    help="Folder of the repository NAME, or for all memories; repeatable.",
)
@click.option("--mine", is_flag=True, help="The memory files are mine: keep the authors that they name.")
@click.option("--allow-secret", is_flag=True, help="Also texts with a secret: agents will see it.")
@click.option("--allow-forgotten", is_flag=True, help="Also texts that were forgotten in the last 7 days.")
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option("--verbose", "-v", is_flag=True, help="List each memory, and each line that is left out.")
@yes_option
@with_daemon_options
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
    """Import memories from CLAUDE.md and the like, notes, exports of other tools, or folders of forged."""
    found = _read_items(paths, ReadOptions(call.environ.get("HOME", ""), form or "", scope or ""))
    places = _parse_into(into)
    if not (yes or dry_run):
        require_answer(call, "import")
    with open_client(call) as client:
        here = RepositoryPaths(call.workspace, _repository_name(client, call.workspace), places)
        moves, twice = plan_items(found.items, here)
        how = wire.Import(workspace="", own=mine, allow_secret=allow_secret, allow_forgotten=allow_forgotten)
        one = _ImportRun(call, client, moves, how)
        preview = one.preview()
        left = (*found.left, *twice, *preview.unlinked)
        report = report_of(moves, preview.outcomes, found.formats, left, preview.roots)
        if not dry_run and report.counts.get("new"):
            if not yes:
                _confirm_plan(report, verbose=verbose)
                left, verbose = (left, verbose) if call.as_json else ((), False)  # it has been shown
            done = one.write(preview)
            report = report_of(moves, done, found.formats, left, preview.roots, done=True)
    print_report(call, report, verbose=verbose)


def _confirm_plan(report: ImportReport, *, verbose: bool) -> None:
    """Show the plan of an import and ask for confirmation. Raises Stop if declined."""
    question = f"Import {counted(report.counts['new'], 'memory', 'memories')}?"
    confirm(report_lines(report, verbose=verbose), question, declined="nothing was imported")


def _read_items(paths: Sequence[str], asked: ReadOptions) -> ImportBatch:
    """Read the items to import from all paths, merged into one batch. Raises Stop for a wrong path."""
    try:
        return merge_batches([read_path(os.path.abspath(path), asked) for path in paths])
    except WorkspaceError as error:
        raise Stop("usage", str(error)) from error


def _parse_into(given: Sequence[str]) -> Mapping[str, str]:
    """Parse `--into [NAME=]PATH` into folders of repositories by name. Raises Stop if not a folder."""
    places: dict[str, str] = {}
    for each in given:
        name, _, path = ("", "", each) if os.path.isdir(each) else each.partition("=")
        if not os.path.isdir(path):
            raise Stop("usage", f"--into {each}: {path or name} is not a directory; give [NAME=]PATH")
        places[name] = os.path.abspath(path)
    return places


def _repository_name(client: Client, workspace: str) -> str:
    """Return the name of the workspace's repository, by its folder; "" outside of one."""
    here = [root for root in gathering.workspace_roots(client, workspace) if root.scope == "repo"]
    shared = sorted(here, key=lambda root: root.directory.startswith(f"{root.root}/.forge/"))
    return project_name(shared[0].root) if shared else ""


# --- the daemon's part ---------------------------------------------------------------------------------


class _ImportPreview(msgspec.Struct, frozen=True):
    """Preview of an import: each item's result, drafts with links, links left out, and target roots."""

    outcomes: tuple[wire.ImportOutcome, ...]
    drafts: tuple[wire.ImportedDraft, ...]
    unlinked: tuple[SkippedPart, ...]
    roots: dict[Destination, str]


class _ImportRun:
    """Sends the planned items of one import to the daemon, to preview and then to write them.

    `how` has the permissions.
    """

    def __init__(
        self, call: Invocation, client: Client, moves: Sequence[PlannedItem], how: wire.Import
    ) -> None:
        self._call = call
        self._client = client
        self._moves = moves
        self._how = how
        self._roots: dict[Destination, str] = {}

    def preview(self) -> _ImportPreview:
        """Ask the daemon for each item's result without writing, and plan the links between items."""
        drafts = [_draft(move, ()) for move in self._moves]
        outcomes = self._send(drafts, range(len(drafts)), preview=True)
        ids = {
            (move.place, move.memory_id): outcomes[number].memory_id
            for number, move in enumerate(self._moves)
            if outcomes[number].result in _GONE_ON
        }
        links, unlinked = plan_links(self._moves, ids)
        linked = tuple(_draft(move, links[number]) for number, move in enumerate(self._moves))
        return _ImportPreview(
            tuple(outcomes[each] for each in range(len(drafts))), linked, unlinked, self._roots
        )

    def write(self, preview: _ImportPreview) -> tuple[wire.ImportOutcome, ...]:
        """Let the daemon write the items that are new by the preview; return the results of all."""
        fresh = [number for number, outcome in enumerate(preview.outcomes) if outcome.result == "new"]
        done = self._send(preview.drafts, fresh, preview=False)
        return tuple(done.get(number, outcome) for number, outcome in enumerate(preview.outcomes))

    def _send(
        self, drafts: Sequence[wire.ImportedDraft], numbers: Iterable[int], *, preview: bool
    ) -> dict[int, wire.ImportOutcome]:
        """Send drafts in batches for each destination, with a progress bar; return results by number."""
        outcomes: dict[int, wire.ImportOutcome] = {}
        asked = list(numbers)
        bar = ProgressBar(self._call.can_redraw(sys.stderr))
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
    """Yield the numbers of an import's drafts in batches that fit into a request."""
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
    """Build the draft of an item to import: a whole memory file, or a text with attributes and links."""
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
