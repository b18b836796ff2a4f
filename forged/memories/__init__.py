"""The verbs on memories: write, move, forget, restore, review, import, and documents.

`write` has the checks that every text passes, and `removal` every way in which memories go, with all that is
cleaned then. `MemoryParts` are what verbs share. A verb takes a place and values, and returns values and the
generation that shows its effect; requests and replies are the handlers'.
"""

from forged.memories import absent, document_store, documents, ids, imports, removal, restore, review, write
from forged.memories.parts import PATIENCE_S, MemoryParts

__all__ = [
    "PATIENCE_S",
    "MemoryParts",
    "absent",
    "document_store",
    "documents",
    "ids",
    "imports",
    "removal",
    "restore",
    "review",
    "versions",
    "write",
]
