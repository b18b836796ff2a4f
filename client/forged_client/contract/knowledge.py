"""Messages about documents that all agents of a user may search."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from forged_client.envelope import Reply, Request


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A text and where it is from; what comes later from the same place takes its place."""

    source: str
    text: str
    is_markdown: bool = False


class DocumentFate(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a document, or what would.

    `became`: new; replaced (there was another text of this source); there (the same text); completed (the
    same text, of which pieces were missing); secret (`reason` names its shape); refused (`reason`). `pieces`
    is how many it has, `written` how many of them were not there.
    """

    source: str
    became: str
    document_id: str = ""
    pieces: int = 0
    written: int = 0
    reason: str = ""


class Ingested(Reply, frozen=True, tag="ingested"):
    """One fate for each document, in their order; `root` is where they went."""

    fates: tuple[DocumentFate, ...] = ()
    root: str = ""
    generation: str = ""


class Ingest(Request[Ingested], frozen=True, tag="ingest"):
    """Cut documents into pieces and write these, each durably, or with `look` only tell what would become.

    `agent_id` is who brings them, `metadata` what recalls can filter by. A document with a secret is refused,
    unless `allow_secret`. Asked again it does nothing that is done already.
    """

    bypassable: ClassVar[bool] = True

    documents: tuple[Document, ...]
    workspace: str = ""
    agent_id: str = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    look: bool = False
    allow_secret: bool = False


class DocumentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A document that is there: `pieces` of it `of` how many that it has."""

    document_id: str
    source: str
    pieces: int
    of: int
    created_at: str = ""
    agent_id: str = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class Documents(Reply, frozen=True, tag="documents"):
    """Some documents, by their sources in order; `total` counts all."""

    documents: tuple[DocumentRecord, ...] = ()
    total: int = 0
    root: str = ""
    generation: str = ""


class ListDocuments(Request[Documents], frozen=True, tag="list_documents"):
    """The documents that are there, `limit` of them from `offset` on."""

    workspace: str = ""
    offset: int = 0
    limit: int = 200


class DocumentRemoved(Reply, frozen=True, tag="document_removed"):
    """The documents that are gone, and how many pieces that was."""

    documents: tuple[DocumentRecord, ...] = ()
    pieces: int = 0
    generation: str = ""


class RemoveDocument(Request[DocumentRemoved], frozen=True, tag="remove_document"):
    """Remove a document by its source or id, for good: all its pieces, everywhere."""

    name: str
    workspace: str = ""
