"""Messages about documents that all agents of a user may search."""

from __future__ import annotations

from typing import Any

import msgspec

from forged_client.envelope import Reply, Request


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A text and where it is from; what comes later from the same place takes its place."""

    source: str
    text: str
    is_markdown: bool = False


class DocumentOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a document, or what would.

    `result`: new; replaced (there was another text of this source); there (the same text); completed (the
    same text, of which pieces were missing); secret (`reason` names its shape); refused (`reason`; by the
    disk with the `code` storage_error). `pieces` is how many it has, `written` how many of them were not
    there, and `forgotten` how many are left out, as what they say was forgotten in the last 7 days. `shared`:
    what the team's server has of it, where documents are shared: there; waits (it is brought as soon as the
    server can be asked); or why not.
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


class Ingested(Reply, frozen=True, tag="ingested"):
    """One fate for each document, in their order; `root` is where they went."""

    outcomes: tuple[DocumentOutcome, ...] = ()
    root: str = ""
    generation: str = ""


class Ingest(Request[Ingested], frozen=True, tag="ingest"):
    """Cut documents into pieces and write these, each durably, or with `preview` only tell what would become.

    `agent_id` is who brings them, `metadata` what recalls can filter by. A document with a secret is refused,
    unless `allow_secret`; pieces that were forgotten lately are left out, unless `allow_forgotten`. Asked
    again it does nothing that is done already, and with a `key` it answers as the first time.
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
        return self.preview


class DocumentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A document that is there: `pieces` of it `of` how many that it has.

    `shared`: the team's server has it. `here`: it is in files of this machine.
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


class Documents(Reply, frozen=True, tag="documents"):
    """Some documents, by their sources in order; `total` counts all.

    `reason` is why those of the team's server are not among them.
    """

    documents: tuple[DocumentRecord, ...] = ()
    total: int = 0
    root: str = ""
    generation: str = ""


class ListDocuments(Request[Documents], frozen=True, kw_only=True, tag="list_documents"):
    """The documents that are there, `limit` of them from `offset` on."""

    effect = "read"
    needs = ("workspace", "memory")

    workspace: str = ""
    offset: int = 0
    limit: int = 200


class DocumentRemoved(Reply, frozen=True, tag="document_removed"):
    """The documents that are gone, and how many pieces that was.

    `waits`: the team's server hears of it as soon as it can be asked.
    """

    documents: tuple[DocumentRecord, ...] = ()
    pieces: int = 0
    generation: str = ""
    waits: bool = False


class _RemoveDocumentOptions(Request[DocumentRemoved], frozen=True, kw_only=True):
    """Place of the document."""

    workspace: str = ""
    key: str = ""


class RemoveDocument(_RemoveDocumentOptions, frozen=True, tag="remove_document"):
    """Remove a document by its source or id, for good: all its pieces, everywhere.

    With a `key` it may be sent twice.
    """

    effect = "write"
    needs = ("workspace", "memory")

    name: str
