"""Keeping the vector map of every root current with its files.

The `Indexer` has all roots in use: it opens them, builds their maps, and `mark` names changes. A
`RootIndex` is one of them, with its map and its generations.
"""

from forged.maps.builds import BuildEvent, RootIndex
from forged.maps.embedding import EmbeddingQueue, text_hash
from forged.maps.identity import Remembered
from forged.maps.indexer import Indexer
from forged.maps.parcel import MOST_PARCELS, name_of
from forged.maps.rows import RowMaker

__all__ = [
    "MOST_PARCELS",
    "BuildEvent",
    "EmbeddingQueue",
    "Indexer",
    "Remembered",
    "RootIndex",
    "RowMaker",
    "name_of",
    "text_hash",
]
