"""`forgectl ingest`: add texts of files as documents that all agents can search.

Existing documents stay as they are, so an interrupted run goes on when it is run again. A text with a secret
is named by the kind of secret, and is never shown. Documents follow their folder by `pruning`.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from forged import config, documents
from forged.cli.call import Invocation, check_done, open_client
from forged.cli.commands import with_daemon_options
from forged.cli.confirm import yes_option
from forged.cli.document_list import list_all, remove_named
from forged.cli.exits import INTERRUPTED, NOT_DONE, Stop
from forged.cli.ingest_report import FRESH, ON_SERVER, IngestReport, findable, show_report, tell_end
from forged.cli.memories import parse_key_value
from forged.cli.pruning import FollowedFolders, WalkedPath, is_text
from forged.cli.terminal import ProgressBar, counted, tell
from forged.documents import DocumentFile, UnreadFile
from forged.errors import WorkspaceError
from forged_client import protocol as wire
from forged_client.client import Client

# A request has at most 1 MiB, and one document may fill it.
_MOST_BYTES, _MOST_AT_ONCE = 256 << 10, 50
_PATIENCE_S, _DRAWN_S = 120.0, 0.1


@click.command("ingest")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--source", default="", metavar="NAME", help="Name of the file or folder (default: its path).")
@click.option(
    "--meta", multiple=True, metavar="KEY=VALUE", help="Metadata to filter a search by; repeatable."
)
@click.option("--agent", "agent_id", default="", metavar="NAME", help="Agent that adds it.")
@click.option("--allow-secret", is_flag=True, help="Also texts with a secret: agents will see it.")
@click.option("--allow-forgotten", is_flag=True, help="Also texts that were forgotten in the last 7 days.")
@click.option("--prune", is_flag=True, help="Remove documents whose file is gone from a folder.")
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option("--verbose", "-v", is_flag=True, help="Also list unchanged documents.")
@click.option("--list", "lists", is_flag=True, help="List the documents.")
@click.option("--remove", default="", metavar="SOURCE|ID", help="Remove a document, or all of a folder.")
@yes_option
@with_daemon_options
def ingest_command(
    call: Invocation, *, paths: tuple[str, ...], source: str, lists: bool, remove: str, **how: Any
) -> None:
    """Let all agents search markdown, text, PDF, HTML and Word files; --list and --remove manage them."""
    if bool(paths) + lists + bool(remove) != 1:
        raise Stop("usage", "give files or folders, or --list, or --remove SOURCE")
    if not paths and (how["prune"] or how["dry_run"]):
        raise Stop("usage", "--prune and --dry-run need files or folders")
    if remove:
        remove_named(call, remove, agreed=how["yes"])
    elif lists:
        list_all(call)
    else:
        _ingest(call, _walk_all(paths, source), **how)


def _walk_all(paths: Sequence[str], source: str) -> list[WalkedPath]:
    """Return paths with the files to ingest at or below each. Raises Stop for wrong paths."""
    if source and len(paths) > 1:
        raise Stop("usage", "--source names one file or folder; ingest them one by one")
    walked = []
    for path in map(os.path.abspath, paths):
        try:
            found = tuple(documents.find_files(path, source))
        except WorkspaceError as error:
            hint = f"; `forgectl ingest --remove {path}` removes what was ingested from it"
            raise Stop("usage", f"{error}{'' if os.path.lexists(path) else hint}") from error
        real, is_folder = os.path.realpath(path), os.path.isdir(path)
        walked.append(WalkedPath(path, real, source or path, is_folder, found))
    return walked


def _ingest(
    call: Invocation,
    walked: Sequence[WalkedPath],
    *,
    meta: tuple[str, ...],
    prune: bool,
    yes: bool,
    dry_run: bool,
    verbose: bool,
    **terms: Any,
) -> None:
    """Send files to the daemon as documents, or only plan it, and print results; exit code 1 if refused."""
    metadata = dict(parse_key_value("--meta", each) for each in meta)
    asked = wire.Ingest(documents=(), metadata=metadata, preview=dry_run, **terms)
    with open_client(call) as client:
        folders = FollowedFolders(call, client, walked)
        if prune:
            folders.check_prunable()
        run = _IngestRun(call, client, folders, [each for path in walked for each in path.found])
        try:
            for outcomes in run.send_all(asked):
                run.outcomes += outcomes
        except KeyboardInterrupt:
            show_report(call, run.report(done=not dry_run, complete=False), verbose=verbose)
            files = counted(run.total, "file")
            tell(f"interrupted after {len(run.outcomes):,} of {files}; run it again to go on")
            sys.exit(INTERRUPTED)
        report = run.report(done=not dry_run, complete=True)
        if not call.as_json:
            show_report(call, report, verbose=verbose)
        report = run.with_time(report)
        if not call.as_json:
            tell_end(report, folders, pruning=prune)
        stopped = _prune(call, folders, agreed=yes) if prune and not dry_run else None
        if call.as_json:
            why = "" if stopped is None else str(stopped)
            show_report(call, msgspec.structs.replace(report, gone=folders.gone, not_pruned=why))
    if stopped is not None:
        if call.as_json:
            sys.exit(stopped.exit_code)
        raise stopped
    refused = (each.result in {"secret", "refused"} or each.shared not in ON_SERVER for each in run.outcomes)
    if any(refused):
        sys.exit(NOT_DONE)


class _IngestRun:
    """Run of `ingest`: reads files, sends them in batches with a progress bar, and collects outcomes."""

    def __init__(
        self,
        call: Invocation,
        client: Client,
        folders: FollowedFolders,
        found: Sequence[DocumentFile | UnreadFile],
    ) -> None:
        self.outcomes: list[wire.DocumentOutcome] = []
        self.total = len(found)
        self._call, self._client, self._folders, self._found = call, client, folders, found
        self._bar = ProgressBar(call.can_redraw(sys.stderr))
        self._began = self._drawn = time.monotonic()
        self._lacks = self._generation = ""

    def send_all(self, asked: wire.Ingest) -> Iterator[list[wire.DocumentOutcome]]:
        """Read and send the files in batches, with a progress bar; yield the outcomes of each batch."""
        doing = "looking" if asked.preview else "ingesting"
        try:
            for batch in self._batches(doing):
                texts = [each for each in batch if isinstance(each, wire.Document)]
                results = iter(self._send(texts, asked))
                yield [
                    next(results) if isinstance(each, wire.Document) else _refused_outcome(each)
                    for each in batch
                ]
                self._draw(doing, len(self.outcomes), at_once=True)
        finally:
            self._bar.wipe()

    def _batches(self, doing: str) -> Iterator[list[wire.Document | UnreadFile]]:
        """Read the files to ingest, and yield them in batches that the daemon answers quickly."""
        batch: list[wire.Document | UnreadFile] = []
        size = 0
        for number, file in enumerate(self._found):
            self._draw(doing, number)
            each = self._read(file)
            more = len(each.text.encode()) if isinstance(each, wire.Document) else 0
            if batch and (size + more > _MOST_BYTES or len(batch) == _MOST_AT_ONCE):
                yield batch
                batch, size = [], 0
            batch.append(each)
            size += more
        if batch:
            yield batch

    def _read(self, file: DocumentFile | UnreadFile) -> wire.Document | UnreadFile:
        """Return a file as a document to send, with its former name if it was renamed, or why not."""
        read = documents.read(file) if isinstance(file, DocumentFile) else file
        if isinstance(read, UnreadFile) or not isinstance(file, DocumentFile):
            self._lacks = self._lacks or getattr(read, "lacks", "")
            assert isinstance(read, UnreadFile)
            return read
        return wire.Document(
            source=read.source,
            text=read.text,
            is_markdown=read.is_markdown,
            file=_local_file(file.path),
            moved_from=self._folders.former_source(read),
        )

    def _send(self, texts: Sequence[wire.Document], asked: wire.Ingest) -> Sequence[wire.DocumentOutcome]:
        """Send a batch of documents to the daemon in one request; return an outcome for each."""
        if not texts:
            return ()
        request = msgspec.structs.replace(asked, documents=tuple(texts))
        reply = self._client.ask(request, timeout_s=max(self._call.timeout_s, _PATIENCE_S))
        check_done(reply)
        self._generation = reply.generation
        for text, outcome in zip(texts, reply.outcomes, strict=True):
            self._folders.settle(outcome, text.moved_from)
        return reply.outcomes

    def _draw(self, doing: str, done: int, *, at_once: bool = False) -> None:
        """Draw the number of files and parts that are done, at most ten times a second."""
        if at_once or time.monotonic() - self._drawn > _DRAWN_S:
            self._drawn = time.monotonic()
            parts = sum(each.pieces for each in self.outcomes)
            self._bar.draw(doing, done, self.total, counted(parts, "part"))

    def report(self, *, done: bool, complete: bool) -> IngestReport:
        """Return the report about all outcomes so far; if something is new, with when it can be found."""
        counts = dict(Counter(each.result for each in self.outcomes))
        return IngestReport(
            done=done,
            complete=complete,
            counts=counts,
            documents=tuple(self.outcomes),
            gone=self._folders.gone,
            install=config.install_command(self._lacks) if self._lacks else "",
            seconds=round(time.monotonic() - self._began, 1),
        )

    def with_time(self, report: IngestReport) -> IngestReport:
        """Return the report with the time when searches find its documents, if something is new."""
        if not report.done or not any(report.counts.get(each) for each in FRESH):
            return report
        return msgspec.structs.replace(report, findable=findable(self._client, self._generation))


def _local_file(path: str) -> wire.LocalFile | None:
    """Return a file's place to record; None for a path that is no text, which no request can contain."""
    real, disk = documents.place_of(path)
    return wire.LocalFile(real, disk) if is_text(real) else None


def _refused_outcome(each: UnreadFile) -> wire.DocumentOutcome:
    """Return the outcome `refused` for a file to ingest that could not be read."""
    return wire.DocumentOutcome(source=each.source, result="refused", reason=each.why)


# --- prune ---------------------------------------------------------------------------------------------


def _prune(call: Invocation, folders: FollowedFolders, *, agreed: bool) -> Stop | None:
    """Remove documents whose files are gone, print how to undo it; return why a person did not agree."""
    try:
        removed = folders.prune(agreed=agreed)
    except Stop as stop:
        return stop
    if call.as_json or not removed.documents:
        return None
    first, count = removed.documents[0].document_id, counted(len(removed.documents), "document")
    print(f"pruned {count} ({counted(removed.pieces, 'part')})")
    tell(f"`forgectl restore {first}` brings them back, for 7 days")
    if removed.waits:
        tell("the shared server gets the removal as soon as it answers")
    return None
