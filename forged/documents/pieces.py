"""The pieces of a document as memories, with ids that say which piece of which text they are.

The same text from the same source, cut alike, has the same ids wherever and whenever it is ingested: so what
was written before a kill is known again, and what is there of another text, too. Nothing is raised.
"""

from __future__ import annotations

import hashlib

from forged.documents.cutting import PieceSpan, cut
from forged.memory import Category, Memory, Origin, Piece, Scope, Trigger

_HASH_DIGITS = 32
FROM_DOCUMENT = "ingest"
"""In place of a session."""


def document_id(source: str, text: str, size: int, overlap: int) -> str:
    """By what a document is known, cut in this way."""
    said = f"{source}\0{size}\0{overlap}\0{text}".encode("utf-8", "replace")
    return f"doc_{hashlib.sha256(said).hexdigest()[:_HASH_DIGITS]}"


def piece_id(document: str, index: int) -> str:
    """The id of a piece of a document."""
    return f"mem_{document.removeprefix('doc_')}_{index:05d}"


def pieces(
    source: str, text: str, *, size: int, overlap: int, is_markdown: bool, now: str
) -> tuple[Memory, ...]:
    """Its pieces in their order; a text that is blank has none. `now` is the time that they are of."""
    document = document_id(source, text, size, overlap)
    cuts = cut(text, size, overlap, markdown=is_markdown)
    return tuple(
        Memory(
            id=piece_id(document, index),
            content=each.text,
            created_at=now,
            updated_at=now,
            version=1,
            scope=Scope.ORG,
            category=Category.PROJECT_CONVENTIONS,
            session_id=FROM_DOCUMENT,
            trigger=Trigger.EXPLICIT,
            origin=Origin.IMPORT,
            cues=_cues(each),
            piece=Piece(document, index, len(cuts), source),
        )
        for index, each in enumerate(cuts)
    )


def _cues(piece: PieceSpan) -> tuple[str, ...]:
    """The headings above a piece, by which it is found as well, if it does not say them itself."""
    is_said = all(heading in piece.text for heading in piece.headings)
    return () if is_said else (piece.path,)
