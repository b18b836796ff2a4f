"""Documents that all agents of a user can search: read, and cut into overlapping pieces.

    reading        files that a person names, or below a folder: their text, or the reason why not
    formats        PDF, HTML and Word files, whose text a process with limits reads (converter)
    folder_check   which files are gone from a folder, and which only cannot be seen now
    pieces         a text as pieces of a number of tokens, and these as memories with fixed ids

Files are treated as foreign. `pieces` is pure; `find_files` raises WorkspaceError for an unreadable path.
"""

from forged.documents.folder_check import FolderCheck, place_of
from forged.documents.pieces import document_of, pieces, text_digest
from forged.documents.reading import DocumentFile, DocumentText, UnreadFile, find_files, read

__all__ = [
    "DocumentFile",
    "DocumentText",
    "FolderCheck",
    "UnreadFile",
    "document_of",
    "find_files",
    "pieces",
    "place_of",
    "read",
    "text_digest",
]
