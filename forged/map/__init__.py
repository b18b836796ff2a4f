"""Frozen maps of memories, the search over them (`search_maps`) and the gate (`score_search`).

Pure functions without any I/O. Only the chains are imported at once: the capture worker needs no numpy.
"""

from typing import TYPE_CHECKING

from forged import lazy_exports
from forged.map.chains import Chains, build_chains, follow_links, replaced_ids

if TYPE_CHECKING:
    from forged.map.baseline import LEAST_DIMENSION, Baseline, carry_calibration, thin_calibration
    from forged.map.dense import DenseIndex
    from forged.map.gate import (
        GateScore,
        admission_limit,
        evidence_threshold,
        gate_decisions,
        is_hopeless,
        label_confidence,
        may_follow,
        score_search,
    )
    from forged.map.lexical import LexicalIndex
    from forged.map.packing import build_dense, edit_dense
    from forged.map.parts import Cues, MapPart, Traits, are_cjk
    from forged.map.postings import build_lexical, splice_lexical
    from forged.map.search import CANDIDATES, Cosines, MapSearch, Ranked, compare_batch, search_maps
    from forged.map.vector_map import VectorMap, newest_page

__all__ = [
    "CANDIDATES",
    "LEAST_DIMENSION",
    "Baseline",
    "Chains",
    "Cosines",
    "Cues",
    "DenseIndex",
    "GateScore",
    "LexicalIndex",
    "MapPart",
    "MapSearch",
    "Ranked",
    "Traits",
    "VectorMap",
    "admission_limit",
    "are_cjk",
    "build_chains",
    "build_dense",
    "build_lexical",
    "carry_calibration",
    "compare_batch",
    "edit_dense",
    "evidence_threshold",
    "follow_links",
    "gate_decisions",
    "is_hopeless",
    "label_confidence",
    "may_follow",
    "newest_page",
    "replaced_ids",
    "score_search",
    "search_maps",
    "splice_lexical",
    "thin_calibration",
]

__getattr__ = lazy_exports(
    __name__,
    baseline=("Baseline", "LEAST_DIMENSION", "carry_calibration", "thin_calibration"),
    dense=("DenseIndex",),
    gate=(
        *("GateScore", "is_hopeless", "may_follow", "label_confidence", "admission_limit"),
        *("evidence_threshold", "gate_decisions", "score_search"),
    ),
    lexical=("LexicalIndex",),
    packing=("build_dense", "edit_dense"),
    parts=("Cues", "MapPart", "Traits", "are_cjk"),
    postings=("build_lexical", "splice_lexical"),
    search=("CANDIDATES", "Cosines", "MapSearch", "Ranked", "compare_batch", "search_maps"),
    vector_map=("VectorMap", "newest_page"),
)
