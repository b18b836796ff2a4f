"""Frozen maps of memories, one search over them (`search_maps`), and the gate of its results (`weigh`).

Pure functions without any I/O. Only the chains are imported at once: the capture worker needs no numpy.
"""

from typing import TYPE_CHECKING

from forged import door
from forged.map.chains import Chains, hops, link, replaced_by

if TYPE_CHECKING:
    from forged.map.baseline import LEAST_DIMENSION, Baseline, carried, thinned
    from forged.map.dense import DenseLeg, are_cjk
    from forged.map.gate import (
        UNGATED,
        Reading,
        Verdict,
        is_hopeless,
        is_near,
        leads,
        room,
        threshold,
        verdicts,
        weigh,
    )
    from forged.map.lexical import LexicalLeg
    from forged.map.search import CANDIDATES, Candidate, Cosines, Found, Waiting, joined, search_maps
    from forged.map.vector_map import Cues, Part, Traits, VectorMap, newest

__all__ = [
    "CANDIDATES",
    "LEAST_DIMENSION",
    "UNGATED",
    "Baseline",
    "Candidate",
    "Chains",
    "Cosines",
    "Cues",
    "DenseLeg",
    "Found",
    "LexicalLeg",
    "Part",
    "Reading",
    "Traits",
    "VectorMap",
    "Verdict",
    "Waiting",
    "are_cjk",
    "carried",
    "hops",
    "is_hopeless",
    "is_near",
    "joined",
    "leads",
    "link",
    "newest",
    "replaced_by",
    "room",
    "search_maps",
    "thinned",
    "threshold",
    "verdicts",
    "weigh",
]

__getattr__ = door(
    __name__,
    baseline=("Baseline", "LEAST_DIMENSION", "carried", "thinned"),
    dense=("DenseLeg", "are_cjk"),
    gate=(
        *("Reading", "UNGATED", "Verdict", "is_hopeless", "is_near", "leads", "room", "threshold"),
        *("verdicts", "weigh"),
    ),
    lexical=("LexicalLeg",),
    search=("CANDIDATES", "Candidate", "Cosines", "Found", "Waiting", "joined", "search_maps"),
    vector_map=("Cues", "Part", "Traits", "VectorMap", "newest"),
)
