"""What a request may search: the roots of its workspace, and whatever other source is asked beside them."""

from forged.scopes.file_source import FileRoots, FileSource
from forged.scopes.resolve import Resolver, Workplace
from forged.scopes.source import Question, Ranked, Rows, See, Source, Sources

__all__ = [
    "FileRoots",
    "FileSource",
    "Question",
    "Ranked",
    "Resolver",
    "Rows",
    "See",
    "Source",
    "Sources",
    "Workplace",
]
