"""`forgectl ingest --list` and `--remove`: the documents here and on the team's server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import msgspec

from forged.cli.call import Invocation, check_done, open_client, show
from forged.cli.confirm import confirm, require_answer
from forged.cli.exits import Stop
from forged.cli.pruning import list_documents, remove_all
from forged.cli.tables import columns
from forged.cli.terminal import counted, escape_line, local_time, tell
from forged_client import protocol as wire
from forged_client.client import Client
from forged_client.errors import RequestFailed


class _DocumentList(msgspec.Struct, frozen=True):
    """All ingested documents, as `ingest --list --json` prints them."""

    documents: tuple[wire.DocumentRecord, ...]


def list_all(call: Invocation) -> None:
    """Ask the daemon for all ingested documents, and print them as a table or as JSON."""
    with open_client(call) as client:
        records, problem = list_documents(client)
    show(call, _DocumentList(tuple(records)), _table(records))
    if problem:
        tell(escape_line(problem))
    if not records and not call.as_json:
        tell("there are no documents; `forgectl ingest PATH` adds some")


def _table(records: Sequence[wire.DocumentRecord]) -> list[str]:
    """Return a table of documents: source, parts, time and id."""
    return columns(
        (
            escape_line(each.source),
            _parts_text(each),
            local_time(each.created_at),
            escape_line(each.document_id),
        )
        for each in records
    )


def _parts_text(record: wire.DocumentRecord) -> str:
    """Return a document's number of parts, of stored ones if fewer, and if only on the server."""
    parts = counted(record.of, "part")
    parts = parts if record.pieces >= record.of else f"{record.pieces:,} of {parts}"
    return parts if record.here else f"{parts}, only on the server"


def remove_named(call: Invocation, name: str, *, agreed: bool) -> None:
    """Remove a document by id, source or path, or after a question all of a folder; print them."""
    with open_client(call) as client:
        reply = _remove_one(client, name) or _remove_folder(call, client, name, agreed=agreed)
    lines = (
        f"removed {escape_line(each.source)} ({counted(each.pieces, 'part')})" for each in reply.documents
    )
    show(call, reply, lines)
    if reply.waits and not call.as_json:
        tell("the shared server gets the removal as soon as it answers")


def _remove_one(client: Client, name: str) -> wire.DocumentRemoved | None:
    """Remove a document by its id or source, else by its path; return None if there is none."""
    for each in dict.fromkeys((name, os.path.abspath(name))):
        try:
            reply = client.ask(wire.RemoveDocument(name=each))
        except RequestFailed as failed:
            if failed.code != "not_found":
                raise
            continue
        check_done(reply)
        return reply
    return None


def _remove_folder(call: Invocation, client: Client, name: str, *, agreed: bool) -> wire.DocumentRemoved:
    """Remove all documents of a folder for good, after a question. Raises Stop if there are none."""
    records, problem = list_documents(client)
    found = {each.document_id: each for each in _documents_in(client, records, name)}
    if not found:
        hint = problem or "`forgectl ingest --list` shows what is there"
        raise Stop("not_found", f"no document {name[:80]!r}, and none in a folder of this name; {hint}")
    if not agreed:
        amount = counted(len(found), "document")
        require_answer(call, f"--remove of {amount}")
        confirm(_table([*found.values()]), f"Remove {amount} for good?", "nothing was removed")
    return remove_all(call, client, [*found.values()])


def _documents_in(
    client: Client, records: Sequence[wire.DocumentRecord], name: str
) -> Iterator[wire.DocumentRecord]:
    """Yield the documents whose source, or whose file on record, is below a folder of this name."""
    place = os.path.abspath(name)
    starts = tuple(each.rstrip("/") + "/" for each in (name, place))
    yield from (each for each in records if each.source.startswith(starts))
    yield from list_documents(client, below=os.path.realpath(place))[0]
