"""Messages about documents, which all agents of a user can search."""

from __future__ import annotations

from typing import Any

import msgspec

from forged_client.envelope import Reply, Request


class LocalFile(msgspec.Struct, frozen=True):
    """Document's file on the machine that ingests it: real path, and device and mount point as `disk`."""

    path: str
    disk: str = ""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Text to be ingested, with its source; a later text from the same source replaces it.

    The daemon records which `file` this machine ingested. `moved_from` is the source of the same file before
    it was renamed: that document goes, and its attributes stay.
    """

    source: str
    text: str
    is_markdown: bool = False
    file: LocalFile | None = None
    moved_from: str = ""


class DocumentOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of ingesting one document; with `preview`, the result that it would have.

    `result` is one of: new; replaced (the source had another text); exists (the same text); completed (the
    same text with missing pieces); moved (the text of the source `moved_from`, which is gone); secret
    (`reason` names its shape); refused (`reason`; if the disk refused, `code` is storage_error). `pieces`
    counts all pieces and `written` the new ones. `forgotten` counts pieces that are left out because their
    text was forgotten in the last 7 days. `shared` describes the team's server: there; waits (sent as soon as
    the server answers); or the reason why it is not there.
    """

    source: str
    result: str
    document_id: str = ""
    pieces: int = 0
    written: int = 0
    forgotten: int = 0
    reason: str = ""
    code: str = ""
    shared: str = ""
    moved_from: str = ""


class Ingested(Reply, frozen=True, tag="ingested"):
    """Reply to Ingest: outcomes of documents, in their order; `root` is their destination."""

    outcomes: tuple[DocumentOutcome, ...] = ()
    root: str = ""
    generation: str = ""


class Ingest(Request[Ingested], frozen=True, tag="ingest"):
    """Request to cut documents into pieces and write each durably; with `preview`, to write nothing.

    `agent_id` names the agent that adds them. Searches can filter by `metadata`. A document with a secret is
    refused unless `allow_secret`. Pieces that were forgotten lately are left out unless `allow_forgotten`.
    Repeating it changes nothing, and with a `key` the first answer is repeated.
    """

    effect = "write"
    needs = ("workspace", "memory")
    bypassable = True

    documents: tuple[Document, ...]
    workspace: str = ""
    agent_id: str = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    preview: bool = False
    allow_secret: bool = False
    allow_forgotten: bool = False
    key: str = ""

    @property
    def only_shows(self) -> bool:
        """Return True for a preview, which writes nothing."""
        return self.preview


class DocumentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record of a stored document, without its text: `pieces` of its `of` pieces exist.

    `shared`: it is on the team's server. `here`: it is in files of this machine. In a list with `below`,
    `file` is the file that this machine ingested, and `digest` that of its text.
    """

    document_id: str
    source: str
    pieces: int
    of: int
    created_at: str = ""
    agent_id: str = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    shared: bool = False
    here: bool = True
    file: LocalFile | None = None
    digest: str = ""


class Documents(Reply, frozen=True, tag="documents"):
    """Reply to ListDocuments: a page of documents ordered by source; `total` counts all.

    `reason` explains why documents of the team's server are missing.
    """

    documents: tuple[DocumentRecord, ...] = ()
    total: int = 0
    root: str = ""
    generation: str = ""


class ListDocuments(Request[Documents], frozen=True, kw_only=True, tag="list_documents"):
    """Request a list of `limit` stored documents from `offset` on, ordered by source.

    With `below`, a real path, only those whose file this machine ingested from there; no server is asked.
    """

    effect = "read"
    needs = ("workspace", "memory")

    workspace: str = ""
    offset: int = 0
    limit: int = 200
    below: str = ""


class DocumentRemoved(Reply, frozen=True, tag="document_removed"):
    """Reply to RemoveDocument: documents that were removed, and the count of their pieces.

    `waits`: the team's server gets the removal as soon as it answers.
    """

    documents: tuple[DocumentRecord, ...] = ()
    pieces: int = 0
    generation: str = ""
    waits: bool = False


class _RemoveDocumentOptions(Request[DocumentRemoved], frozen=True, kw_only=True):
    """Optional fields of RemoveDocument: the workspace, and a key to send it twice."""

    workspace: str = ""
    key: str = ""


class RemoveDocument(_RemoveDocumentOptions, frozen=True, tag="remove_document"):
    """Request to remove a document and all its pieces for good, by its source or id.

    With a `key` it may be sent twice.
    """

    effect = "write"
    needs = ("workspace", "memory")

    name: str


class _RemoveDocumentsOptions(Request[DocumentRemoved], frozen=True, kw_only=True):
    """Options of RemoveDocuments. A restore brings back all that requests of one `batch` removed."""

    below: str = ""
    erase: bool = False
    batch: str = ""
    workspace: str = ""
    key: str = ""


class RemoveDocuments(_RemoveDocumentsOptions, frozen=True, tag="remove_documents"):
    """Request to move documents to the trash, from which they can be restored for 7 days.

    Only those go that this machine ingested from files `below` a real path; the reply leaves others out. With
    `erase` all go for good, and `below` is not needed. With a `key` it may be sent twice.
    """

    effect = "write"
    needs = ("workspace", "memory")

    document_ids: tuple[str, ...]
