"""Every new memory file of the daemon, and every removal that somebody asks for, goes through one `Writer`.

Drafts of any number of callers come in; out comes, for each, what was written, or why not. What is written is
durable and marked in its map by then.
"""

from forged.writing.removing import RemovalTerms, new_batch
from forged.writing.root_writer import WriteRequest, Written
from forged.writing.succession import base_of
from forged.writing.trash import TrashEntry
from forged.writing.writer import Writer

__all__ = ["RemovalTerms", "TrashEntry", "WriteRequest", "Writer", "Written", "base_of", "new_batch"]
