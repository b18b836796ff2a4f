"""Keep the vector map of every root current with its files.

The `Indexer` holds all roots in use. It opens them, builds their maps, and takes note of changes by `mark`. A
`RootIndex` is one of them, with its map and its generations.
"""

from forged.maps.builds import BuildEvent, RootIndex
from forged.maps.embedding import EmbeddingQueue, text_hash
from forged.maps.indexer import Indexer
from forged.maps.model_identity import ModelCache
from forged.maps.vector_pack import MOST_PACKS, pack_name

__all__ = [
    "MOST_PACKS",
    "BuildEvent",
    "EmbeddingQueue",
    "Indexer",
    "ModelCache",
    "RootIndex",
    "pack_name",
    "text_hash",
]
