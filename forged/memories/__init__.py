"""The verbs on memories: write, move, forget, restore, review, import, and documents.

`write` checks every text, and `removal` covers every way in which memories go, with all cleanup.
`MemoryParts` are shared parts, and `sharing` has those for a team's server. A verb takes a place and values,
and returns values and the generation that shows its effect. Handlers deal with requests and replies.
"""

from forged.memories import (
    absent,
    document_store,
    documents,
    ids,
    imports,
    pruning,
    removal,
    restore,
    review,
    sharing,
    versions,
    write,
)
from forged.memories.parts import PATIENCE_S, MemoryParts

__all__ = [
    "PATIENCE_S",
    "MemoryParts",
    "absent",
    "document_store",
    "documents",
    "ids",
    "imports",
    "pruning",
    "removal",
    "restore",
    "review",
    "sharing",
    "versions",
    "write",
]
