"""All writes and removals of memory files go through one `Writer`.

It takes write requests of any number of callers and returns, for each, the written memory or the reason of a
failure. Written memories are durable and marked in their map on return.
"""

from forged.writing.removing import RemovalTerms, new_batch
from forged.writing.root_writer import WriteRequest, Written
from forged.writing.succession import base_of
from forged.writing.trash import TrashEntry
from forged.writing.writer import Writer

__all__ = ["RemovalTerms", "TrashEntry", "WriteRequest", "Writer", "Written", "base_of", "new_batch"]
