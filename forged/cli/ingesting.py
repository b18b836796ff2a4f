"""`forgectl ingest`: add markdown and text files as documents that all agents can search.

Existing documents stay as they are, so an interrupted run goes on when it is run again. A text with a secret
is named by the kind of secret, and is never shown.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from forged import documents
from forged.cli.call import Invocation, ask, check_done, open_client, show
from forged.cli.commands import with_daemon_options
from forged.cli.exits import INTERRUPTED, NOT_DONE, Stop
from forged.cli.memories import parse_key_value
from forged.cli.tables import columns
from forged.cli.terminal import ProgressBar, counted, escape_line, local_time, tell
from forged.documents import DocumentFile, DocumentText, UnreadFile
from forged.errors import WorkspaceError
from forged_client import protocol as wire
from forged_client.client import Client

# A request has at most 1 MiB, and one document may fill it.
_MOST_BYTES, _MOST_AT_ONCE = 256 << 10, 50
_PAGE = 1000
_PATIENCE_S = 120.0
_FRESH = ("new", "replaced", "completed")
_ON_SERVER = {"": "", "there": "on the server", "waits": "waits for the server"}


class _IngestReport(msgspec.Struct, frozen=True):
    """Result of `ingest` for each document, or the plan if not `done`; not `complete` if interrupted."""

    done: bool
    complete: bool
    counts: dict[str, int]
    documents: tuple[wire.DocumentOutcome, ...]


class _DocumentList(msgspec.Struct, frozen=True):
    """All ingested documents, as `ingest --list --json` prints them."""

    documents: tuple[wire.DocumentRecord, ...]


@click.command("ingest")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--source", default="", metavar="NAME", help="Name of the file or folder (default: its path).")
@click.option(
    "--meta", multiple=True, metavar="KEY=VALUE", help="Metadata to filter a search by; repeatable."
)
@click.option("--agent", "agent_id", default="", metavar="NAME", help="Agent that adds it.")
@click.option("--allow-secret", is_flag=True, help="Also texts with a secret: agents will see it.")
@click.option("--allow-forgotten", is_flag=True, help="Also texts that were forgotten in the last 7 days.")
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option("--verbose", "-v", is_flag=True, help="Also list unchanged documents.")
@click.option("--list", "lists", is_flag=True, help="List the documents.")
@click.option("--remove", default="", metavar="SOURCE|ID", help="Remove a document with all its parts.")
@with_daemon_options
def ingest_command(
    call: Invocation, *, paths: tuple[str, ...], source: str, lists: bool, remove: str, **how: Any
) -> None:
    """Let all agents search markdown and text files; --list and --remove manage them."""
    if bool(paths) + lists + bool(remove) != 1:
        raise Stop("usage", "give files or folders, or --list, or --remove SOURCE")
    if remove:
        _remove_document(call, remove)
    elif lists:
        _list_documents(call)
    else:
        _ingest(call, _find_files(paths, source), **how)


def _find_files(paths: Sequence[str], source: str) -> list[DocumentFile | UnreadFile]:
    """Return files to ingest at or below paths, with unread ones. Raises Stop for wrong paths."""
    if source and len(paths) > 1:
        raise Stop("usage", "--source names one file or folder; ingest them one by one")
    try:
        return [each for path in paths for each in documents.find_files(os.path.abspath(path), source)]
    except WorkspaceError as error:
        raise Stop("usage", str(error)) from error


def _ingest(
    call: Invocation,
    found: Sequence[DocumentFile | UnreadFile],
    *,
    meta: tuple[str, ...],
    agent_id: str,
    allow_secret: bool,
    allow_forgotten: bool,
    dry_run: bool,
    verbose: bool,
) -> None:
    """Send files to the daemon as documents, or only plan it, and print results; exit code 1 if refused."""
    asked = wire.Ingest(
        documents=(),
        agent_id=agent_id,
        metadata=dict(parse_key_value("--meta", each) for each in meta),
        preview=dry_run,
        allow_secret=allow_secret,
        allow_forgotten=allow_forgotten,
    )
    outcomes: list[wire.DocumentOutcome] = []
    with open_client(call) as client:
        try:
            for some in _send_all(call, client, found, asked):
                outcomes += some
        except KeyboardInterrupt:
            _show_outcomes(call, outcomes, done=not dry_run, complete=False, verbose=verbose)
            files = counted(len(found), "file")
            tell(f"interrupted after {len(outcomes):,} of {files}; run it again to go on")
            sys.exit(INTERRUPTED)
    _show_outcomes(call, outcomes, done=not dry_run, complete=True, verbose=verbose)
    if any(each.result in {"secret", "refused"} or each.shared not in _ON_SERVER for each in outcomes):
        sys.exit(NOT_DONE)


def _send_all(
    call: Invocation, client: Client, found: Sequence[DocumentFile | UnreadFile], asked: wire.Ingest
) -> Iterator[list[wire.DocumentOutcome]]:
    """Send files to ingest in batches, with a progress bar; yield the outcomes of each batch."""
    bar, done = ProgressBar(call.can_redraw(sys.stderr)), 0
    try:
        for batch in _batches(found):
            texts = tuple(each for each in batch if isinstance(each, DocumentText))
            results = iter(_send_batch(call, client, texts, asked))
            yield [
                next(results) if isinstance(each, DocumentText) else _refused_outcome(each) for each in batch
            ]
            done += len(batch)
            bar.draw("looking" if asked.preview else "ingesting", done, len(found))
    finally:
        bar.wipe()


def _batches(found: Sequence[DocumentFile | UnreadFile]) -> Iterator[list[DocumentText | UnreadFile]]:
    """Read the files to ingest, and yield them in batches that the daemon answers quickly."""
    batch: list[DocumentText | UnreadFile] = []
    size = 0
    for file in found:
        each = documents.read(file) if isinstance(file, DocumentFile) else file
        more = len(each.text.encode()) if isinstance(each, DocumentText) else 0
        if batch and (size + more > _MOST_BYTES or len(batch) == _MOST_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += more
    if batch:
        yield batch


def _send_batch(
    call: Invocation, client: Client, texts: Sequence[DocumentText], asked: wire.Ingest
) -> tuple[wire.DocumentOutcome, ...]:
    """Send a batch of documents to the daemon in one request; return an outcome for each."""
    if not texts:
        return ()
    sent = tuple(
        wire.Document(source=each.source, text=each.text, is_markdown=each.is_markdown) for each in texts
    )
    request = msgspec.structs.replace(asked, documents=sent)
    reply = client.ask(request, timeout_s=max(call.timeout_s, _PATIENCE_S))
    check_done(reply)
    return reply.outcomes


def _refused_outcome(each: UnreadFile) -> wire.DocumentOutcome:
    """Return the outcome `refused` for a file to ingest that could not be read."""
    return wire.DocumentOutcome(source=each.source, result="refused", reason=each.why)


# --- what is shown -------------------------------------------------------------------------------------


def _show_outcomes(
    call: Invocation, outcomes: Sequence[wire.DocumentOutcome], *, done: bool, complete: bool, verbose: bool
) -> None:
    """Print the outcomes of `ingest` and their counts, and a hint on the next step."""
    counts = dict(Counter(each.result for each in outcomes))
    show(
        call,
        _IngestReport(done, complete, counts, tuple(outcomes)),
        _outcome_lines(outcomes, counts, verbose=verbose),
    )
    if call.as_json:
        return
    if not outcomes:
        tell("no markdown or text file was found")
    elif not done:
        tell("nothing was written; run it without --dry-run to ingest")
    elif any(counts.get(each) for each in _FRESH):
        tell("agents can find them now; try `forgectl search --scope org QUERY`")


def _outcome_lines(
    outcomes: Sequence[wire.DocumentOutcome], counts: dict[str, int], *, verbose: bool
) -> Iterator[str]:
    """Yield a table of outcomes of `ingest`, without unchanged documents unless `verbose`."""
    rows = [
        (each.result, escape_line(each.source), escape_line(each.reason) or _facts_of(each))
        for each in outcomes
        if verbose or each.result != "exists" or each.forgotten or each.shared not in {"", "there"}
    ]
    yield from columns(rows)
    if unchanged := counts.get("exists", 0):
        yield f"{counted(unchanged, 'document')} unchanged"


def _facts_of(outcome: wire.DocumentOutcome) -> str:
    """Return an ingested document's number of parts, of parts left out, and its state on the server."""
    refused = f"not on the server: {escape_line(outcome.shared)}"
    facts = (
        counted(outcome.pieces, "part"),
        _forgotten_note(outcome),
        _ON_SERVER.get(outcome.shared, refused),
    )
    return ", ".join(filter(None, facts))


def _forgotten_note(outcome: wire.DocumentOutcome) -> str:
    """Return a note on parts of a document that were left out as forgotten, "" if there are none."""
    reason = f"{outcome.forgotten:,} left out, forgotten in the last 7 days (--allow-forgotten adds them)"
    return reason if outcome.forgotten else ""


def _list_documents(call: Invocation) -> None:
    """Ask the daemon for all ingested documents, and print them as a table or as JSON."""
    records, problem = list[wire.DocumentRecord](), ""
    with open_client(call) as client:
        while True:
            reply = client.ask(wire.ListDocuments(offset=len(records), limit=_PAGE))
            if reply.status != "empty":
                check_done(reply)
            records += reply.documents
            problem = reply.reason
            if not reply.documents or len(records) >= reply.total:
                break
    rows = [
        (
            escape_line(each.source),
            _parts_text(each),
            local_time(each.created_at),
            escape_line(each.document_id),
        )
        for each in records
    ]
    show(call, _DocumentList(tuple(records)), columns(rows))
    if problem:
        tell(escape_line(problem))
    if not records and not call.as_json:
        tell("there are no documents; `forgectl ingest PATH` adds some")


def _parts_text(record: wire.DocumentRecord) -> str:
    """Return a document's number of parts, of stored ones if fewer, and if only on the server."""
    parts = counted(record.of, "part")
    parts = parts if record.pieces >= record.of else f"{record.pieces:,} of {parts}"
    return parts if record.here else f"{parts}, only on the server"


def _remove_document(call: Invocation, name: str) -> None:
    """Let the daemon remove a document by id or source, else by path; print what was removed."""
    try:
        reply = ask(call, wire.RemoveDocument(name=name), check_done)
    except Stop as stop:
        path = os.path.abspath(name)
        if stop.word != "not_found" or path == name:
            raise
        reply = ask(call, wire.RemoveDocument(name=path), check_done)
    lines = (
        f"removed {escape_line(each.source)} ({counted(each.pieces, 'part')})" for each in reply.documents
    )
    show(call, reply, lines)
    if reply.waits and not call.as_json:
        tell("the shared server gets the removal as soon as it answers")
