"""Frozen maps of memories, one search over them (`search_maps`), and the gate of its results (`weigh`).

Pure functions without any I/O. Only the chains are imported at once: the capture worker needs no numpy.
"""

from typing import TYPE_CHECKING

from forged import door
from forged.map.chains import Chains, hops, link, replaced_by

if TYPE_CHECKING:
    from forged.map.baseline import LEAST_DIMENSION, Baseline, carried, thinned
    from forged.map.dense import DenseIndex
    from forged.map.gate import (
        Reading,
        is_hopeless,
        leads,
        rated,
        room,
        threshold,
        verdicts,
        weigh,
    )
    from forged.map.lexical import LexicalIndex
    from forged.map.packing import build_dense, edit_dense
    from forged.map.parts import Cues, Part, Traits, are_cjk
    from forged.map.postings import build_lexical, splice_lexical
    from forged.map.search import CANDIDATES, Cosines, Found, Ranked, compared, search_maps
    from forged.map.vector_map import VectorMap, newest

__all__ = [
    "CANDIDATES",
    "LEAST_DIMENSION",
    "Baseline",
    "Chains",
    "Cosines",
    "Cues",
    "DenseIndex",
    "Found",
    "LexicalIndex",
    "Part",
    "Ranked",
    "Reading",
    "Traits",
    "VectorMap",
    "are_cjk",
    "build_dense",
    "build_lexical",
    "carried",
    "compared",
    "edit_dense",
    "hops",
    "is_hopeless",
    "leads",
    "link",
    "newest",
    "rated",
    "replaced_by",
    "room",
    "search_maps",
    "splice_lexical",
    "thinned",
    "threshold",
    "verdicts",
    "weigh",
]

__getattr__ = door(
    __name__,
    baseline=("Baseline", "LEAST_DIMENSION", "carried", "thinned"),
    dense=("DenseIndex",),
    gate=(
        *("Reading", "is_hopeless", "leads", "rated", "room", "threshold"),
        *("verdicts", "weigh"),
    ),
    lexical=("LexicalIndex",),
    packing=("build_dense", "edit_dense"),
    parts=("Cues", "Part", "Traits", "are_cjk"),
    postings=("build_lexical", "splice_lexical"),
    search=("CANDIDATES", "Cosines", "Found", "Ranked", "compared", "search_maps"),
    vector_map=("VectorMap", "newest"),
)
