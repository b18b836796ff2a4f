"""How the vector map of every root is kept current with its files.

The `Indexer` has all roots in use: it opens them, builds their maps and is told by `mark` what changed. A
`RootIndex` is one of them, with its map and its generations.
"""

from forged.maps.baseline_learner import BaselineLearner
from forged.maps.build_events import BuildEvent
from forged.maps.embed_batches import EmbeddingRun
from forged.maps.identity import Identity
from forged.maps.indexer import Indexer
from forged.maps.parcels import MOST_PARCELS, name_of
from forged.maps.remembered import Remembered
from forged.maps.root_index import RootIndex
from forged.maps.rows import RowMaker
from forged.maps.vector_cache import text_hash

__all__ = [
    "MOST_PARCELS",
    "BaselineLearner",
    "BuildEvent",
    "EmbeddingRun",
    "Identity",
    "Indexer",
    "Remembered",
    "RootIndex",
    "RowMaker",
    "name_of",
    "text_hash",
]
