"""Every new memory file of the daemon, and every removal that somebody asks for, goes through one `Writer`.

    Writer -> values     what is wanted, and what became of it
           -> versions   what a new version is based on, and what it keeps of that

Drafts of any number of callers come in; out comes, for each, what was written, or why not. What is written is
durable and marked in its map by then.
"""

from forged.writing.removing import UNREACHABLE, Taking, new_batch
from forged.writing.trash import TRASH_S, Trashed
from forged.writing.values import Draft, Gone, Written
from forged.writing.versions import base_of
from forged.writing.writer import Writer

__all__ = [
    "TRASH_S",
    "UNREACHABLE",
    "Draft",
    "Gone",
    "Taking",
    "Trashed",
    "Writer",
    "Written",
    "base_of",
    "new_batch",
]
