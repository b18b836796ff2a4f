"""Documents that follow their folder: which files are gone, which were renamed, and `ingest --prune`.

Only documents count whose file this machine ingested from the folder. A file that cannot be seen now, in a
folder without permission or on another disk, is not gone.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

import msgspec

from forged import documents
from forged.cli.call import Invocation, check_done
from forged.cli.confirm import confirm, require_answer
from forged.cli.exits import Stop
from forged.cli.terminal import ProgressBar, counted, escape_line
from forged.documents import DocumentFile, DocumentText, FolderCheck, UnreadFile
from forged_client import protocol as wire
from forged_client.client import Client

PAGE = 1000
# More documents, or a larger part of the folder's, are removed only after a question.
_UNASKED, _UNASKED_PART = 10, 0.1
_PATIENCE_S, _MOST_PARTS = 300.0, 2000


class WalkedPath(msgspec.Struct, frozen=True, dict=True):
    """A path that a person named, its real path, and the files found there; `is_folder`, or one file.

    `source` is the name that its documents begin with.
    """

    path: str
    real: str
    source: str
    is_folder: bool
    found: tuple[DocumentFile | UnreadFile, ...]

    @property
    def files(self) -> list[DocumentFile]:
        return [each for each in self.found if isinstance(each, DocumentFile)]

    @cached_property
    def sources(self) -> frozenset[str]:
        return frozenset(each.source for each in self.found)

    def names(self, record: wire.DocumentRecord) -> bool:
        """Return True if a walk would give a document's file the source that the document has."""
        if record.file is None:
            return False
        below = record.file.path.removeprefix(self.real).lstrip("/")
        return record.source == f"{self.source.rstrip('/')}/{below}"


class GoneDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Document whose file is not in its folder any more.

    A prune `removed` it, or `stays` is the reason. `is_unseen`: it is not known that the file is gone.
    """

    source: str
    document_id: str
    pieces: int
    removed: bool = False
    is_unseen: bool = False
    stays: str = ""


class FollowedFolder:
    """A folder with the documents on record of it, and those whose file is gone or cannot be seen."""

    def __init__(
        self, walked: WalkedPath, records: Sequence[wire.DocumentRecord], found: Collection[str]
    ) -> None:
        """Look for the files of all documents but those `found` by source. An empty folder tells nothing."""
        self.walked = walked
        self.records = {each.source: each for each in records}
        self.gone: dict[str, GoneDocument] = {}
        if walked.files:
            check = FolderCheck(walked.real, walked.files)
            missing = (self._look_for(check, each) for each in records if each.source not in found)
            self.gone = {each.source: each for each in missing if each is not None}

    @staticmethod
    def _look_for(check: FolderCheck, record: wire.DocumentRecord) -> GoneDocument | None:
        """Return a document whose file is gone or cannot be seen; None if it exists."""
        assert record.file is not None, "it is on record by its file"
        state = check.state_of(record.file.path, record.file.disk)
        if not state.is_gone and not state.doubt:
            return None
        return GoneDocument(
            source=record.source,
            document_id=record.document_id,
            pieces=record.pieces,
            is_unseen=not state.is_gone,
            stays=state.doubt,
        )

    @property
    def prunable(self) -> list[GoneDocument]:
        """Documents that a prune removes."""
        return [each for each in self.gone.values() if not each.stays]

    @property
    def is_much(self) -> bool:
        """True if so many documents, or so large a part of the folder's, go only after a question."""
        return len(self.prunable) > min(_UNASKED, len(self.records) * _UNASKED_PART)

    def prune(self, call: Invocation, client: Client, batch: str) -> wire.DocumentRemoved:
        """Remove the documents whose files are still gone, and note it; return the reply."""
        check = FolderCheck(self.walked.real, self.walked.files)
        again = (self._look_for(check, self.records[each.source]) for each in self.prunable)
        still = [each for each in again if each is not None and not each.stays]
        removed = remove_all(call, client, still, below=self.walked.real, batch=batch)
        ids = {each.document_id for each in removed.documents}
        for each in still:
            if each.document_id in ids:
                self.gone[each.source] = msgspec.structs.replace(each, removed=True)
        return removed


class FollowedFolders:
    """Folders of one call with their documents: gone ones, and renamed ones among these."""

    def __init__(self, call: Invocation, client: Client, walked: Sequence[WalkedPath]) -> None:
        """Ask the daemon for the documents of each folder, and look for their files."""
        self._call, self._client = call, client
        found = frozenset(each.source for path in walked for each in path.found)
        self._folders = [
            FollowedFolder(each, list_documents(client, below=each.real)[0], found)
            for each in walked
            if each.is_folder and is_text(each.real)
        ]
        self._by_digest: dict[str, list[str]] = {}
        for folder in self._folders:
            for record in (folder.records[gone.source] for gone in folder.prunable):
                if folder.walked.names(record):
                    self._by_digest.setdefault(record.digest, []).append(record.source)

    def check_prunable(self) -> None:
        """Raise Stop if a prune makes no sense: no folder is named, or there is no document in one."""
        if not self._folders:
            raise Stop("usage", "--prune needs a folder: it removes documents whose files are gone from it")
        for each in self._folders:
            if not each.walked.files:
                raise Stop("usage", f"{_empty(each.walked)}: nothing was done; {_remove_hint(each.walked)}")

    def notes(self) -> Iterator[str]:
        """Yield a note on each folder that has no document in it now, and had some."""
        for each in self._folders:
            if each.records and not each.walked.files:
                count = counted(len(each.records), "document")
                yield f"{_empty(each.walked)}: its {count} stay; {_remove_hint(each.walked)}"

    def former_source(self, text: DocumentText) -> str:
        """Return the source under which a new file's text was ingested before it was renamed, or "".

        It must be of the same folder. Of several the one with the same file name is meant, else the first,
        and each once.
        """
        here = next((each for each in self._folders if text.source in each.walked.sources), None)
        if here is None or not self._by_digest or text.source in here.records:
            return ""
        known = self._by_digest.get(documents.text_digest(text.text), [])
        sources = [each for each in known if each in here.gone]
        name = os.path.basename(text.source)
        found = next((each for each in sources if os.path.basename(each) == name), "")
        if found := found or next(iter(sources), ""):
            known.remove(found)
        return found

    def settle(self, outcome: wire.DocumentOutcome, former: str) -> None:
        """Take a moved document off the list; keep one whose text was refused under its new name."""
        for each in self._folders:
            if former in each.gone and outcome.result == "moved":
                del each.gone[former]
            elif former in each.gone and outcome.result in {"refused", "secret"}:
                stays = f"{outcome.source} has the same text, and was refused"
                each.gone[former] = msgspec.structs.replace(each.gone[former], stays=stays)

    @property
    def gone(self) -> tuple[GoneDocument, ...]:
        """All documents whose file is gone or cannot be seen, each once."""
        return tuple(
            {each.source: each for folder in self._folders for each in folder.gone.values()}.values()
        )

    def prune(self, *, agreed: bool) -> wire.DocumentRemoved:
        """Remove the documents whose files are gone, after a question if they are many; return the reply."""
        going = [each for each in self.gone if not each.stays]
        if not agreed and (len(going) > _UNASKED or any(each.is_much for each in self._folders)):
            total = len({source for each in self._folders for source in each.records})
            amount = f"{counted(len(going), 'document')} of {total:,}"
            require_answer(self._call, f"--prune of {amount}")
            shown = (f"{kind}  {name}" for kind, name, _ in gone_rows(going)) if self._call.as_json else ()
            question = f"Remove {amount}, whose files are gone? (7 days in the trash)"
            confirm(shown, question, "nothing was pruned")
        removed, batch = wire.DocumentRemoved(), secrets.token_hex(8)
        for each in self._folders:
            removed = merged(removed, each.prune(self._call, self._client, batch))
        return removed


def is_text(path: str) -> bool:
    """Return True for a path in UTF-8, as a request can contain it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _empty(walked: WalkedPath) -> str:
    return f"there is no document in {walked.path} now (is its disk there?)"


def _remove_hint(walked: WalkedPath) -> str:
    return f"`forgectl ingest --remove {walked.path}` removes all that was ingested from it"


def gone_rows(gone: Iterable[GoneDocument]) -> Iterator[tuple[str, str, str]]:
    """Yield a row of the table of `ingest` for each document whose file is gone or cannot be seen."""
    for each in gone:
        result = "unseen" if each.is_unseen else "gone"
        about = each.stays or counted(each.pieces, "part")
        yield result, escape_line(each.source), escape_line(about)


def list_documents(client: Client, *, below: str = "") -> tuple[list[wire.DocumentRecord], str]:
    """Return all documents, or those ingested from a folder, and why the server was not asked."""
    records, problem = list[wire.DocumentRecord](), ""
    while True:
        reply = client.ask(wire.ListDocuments(offset=len(records), limit=PAGE, below=below))
        if reply.status != "empty":
            check_done(reply)
        records += reply.documents
        problem = reply.reason
        if not reply.documents or len(records) >= reply.total:
            return records, problem


def remove_all(
    call: Invocation,
    client: Client,
    records: Sequence[GoneDocument | wire.DocumentRecord],
    *,
    below: str = "",
    batch: str = "",
) -> wire.DocumentRemoved:
    """Remove documents, some at a time: from a folder to the trash, else for good; return one reply."""
    removed, bar = wire.DocumentRemoved(), ProgressBar(call.can_redraw(sys.stderr))
    try:
        for some in _portions(records):
            bar.draw("removing", len(removed.documents), len(records))
            ids = tuple(each.document_id for each in some)
            request = wire.RemoveDocuments(document_ids=ids, below=below, erase=not below, batch=batch)
            reply = client.ask(request, timeout_s=_PATIENCE_S)
            check_done(reply)
            removed = merged(removed, reply)
    finally:
        bar.wipe()
    return removed


def _portions(
    records: Iterable[GoneDocument | wire.DocumentRecord],
) -> Iterator[list[GoneDocument | wire.DocumentRecord]]:
    """Yield documents in portions that the daemon removes within a minute."""
    some: list[GoneDocument | wire.DocumentRecord] = []
    for each in records:
        if some and (len(some) == PAGE or sum(one.pieces for one in some) + each.pieces > _MOST_PARTS):
            yield some
            some = []
        some.append(each)
    if some:
        yield some


def merged(one: wire.DocumentRemoved, other: wire.DocumentRemoved) -> wire.DocumentRemoved:
    """Return one reply about the documents that two requests removed."""
    return wire.DocumentRemoved(
        documents=(*one.documents, *other.documents),
        pieces=one.pieces + other.pieces,
        waits=one.waits or other.waits,
    )
