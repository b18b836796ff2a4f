"""Documents that all agents of a user may search: read, and cut into pieces that overlap.

    reading   files that a person names, or below a folder: as text, or the reason why not
    cutting   a text as pieces of so many tokens
    pieces    these as memories, known by their ids

Pure but for `reading`, which opens files as somebody else's: WorkspaceError is raised for a path from which
nothing can be read.
"""

from forged.documents.pieces import pieces
from forged.documents.reading import DocumentFile, DocumentText, UnreadFile, found, read

__all__ = [
    "DocumentFile",
    "DocumentText",
    "UnreadFile",
    "found",
    "pieces",
    "read",
]
