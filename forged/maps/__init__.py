"""How the vector map of every root is kept current with its files.

Indexer      all roots in use: opens them, builds their maps, is told by `mark` what changed
RootIndex    one root: its map, its generations, its progress
Writer       writes and removes memory files on request
"""

from forged.maps.builder import Accepts, Builder, Draft
from forged.maps.indexer import BuildEvent, Indexer
from forged.maps.root_index import Generations, Progress, RootIndex
from forged.maps.writer import Gone, Writer, Written

__all__ = [
    "Accepts",
    "BuildEvent",
    "Builder",
    "Draft",
    "Generations",
    "Gone",
    "Indexer",
    "Progress",
    "RootIndex",
    "Writer",
    "Written",
]
