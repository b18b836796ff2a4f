"""How the vector map of every root is kept current with its files.

The `Indexer` has all roots in use: it opens them, builds their maps and is told by `mark` what changed. A
`RootIndex` is one of them, with its map and its generations.
"""

from forged.maps.baseline_learner import BaselineLearner
from forged.maps.build_events import BuildEvent, BuildEvents
from forged.maps.builder import Admit, Builder, Draft
from forged.maps.embed_batches import EmbeddingRun
from forged.maps.identity import Identity
from forged.maps.indexer import Indexer
from forged.maps.parcels import MOST_PARCELS, name_of
from forged.maps.remembered import Remembered
from forged.maps.root_index import Generations, Progress, RootIndex
from forged.maps.rows import RowMaker
from forged.maps.vector_cache import text_hash

__all__ = [
    "MOST_PARCELS",
    "Admit",
    "BaselineLearner",
    "BuildEvent",
    "BuildEvents",
    "Builder",
    "Draft",
    "EmbeddingRun",
    "Generations",
    "Identity",
    "Indexer",
    "Progress",
    "Remembered",
    "RootIndex",
    "RowMaker",
    "name_of",
    "text_hash",
]
