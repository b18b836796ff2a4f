"""Documents that all agents of a user may search: read, and cut into pieces that overlap.

    reading   files that a person names, or below a folder: as text, or the reason why not
    cutting   a text as pieces of so many tokens
    pieces    these as memories, known by their ids

Pure but for `reading`, which opens files as somebody else's: WorkspaceError is raised for a path from which
nothing can be read.
"""

from forged.documents.cutting import Cut, cut
from forged.documents.pieces import FROM_DOCUMENT, document_id, piece_id, pieces
from forged.documents.reading import MOST_BYTES, Document, File, Refused, found, read

__all__ = [
    "FROM_DOCUMENT",
    "MOST_BYTES",
    "Cut",
    "Document",
    "File",
    "Refused",
    "cut",
    "document_id",
    "found",
    "piece_id",
    "pieces",
    "read",
]
