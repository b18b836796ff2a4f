"""Documents that all agents of a user can search: read, and cut into overlapping pieces.

    reading   files that a person names, or below a folder: their text, or the reason why not
    pieces    a text as pieces of a number of tokens, and these as memories with fixed ids

Pure except `reading`, which treats files as foreign. It raises WorkspaceError for an unreadable path.
"""

from forged.documents.pieces import pieces
from forged.documents.reading import DocumentFile, DocumentText, UnreadFile, find_files, read

__all__ = [
    "DocumentFile",
    "DocumentText",
    "UnreadFile",
    "find_files",
    "pieces",
    "read",
]
