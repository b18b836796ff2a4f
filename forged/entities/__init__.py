"""What memories speak of, and how one thing relates to another: found in text by rules, joined to a graph.

Pure functions over values: `spoken_by` reads a memory, `graph_of` joins those of a root, and `named_in` and
`two_hops` lead from a question to memories.
"""

from typing import TYPE_CHECKING

from forged import door

if TYPE_CHECKING:
    from forged.entities.graph import EntityGraph, graph_of
    from forged.entities.names import LONGEST_NAME, entity_id
    from forged.entities.rules import Mentions, spoken_by, spoken_of
    from forged.entities.walking import ReachedMemory, may_name, named_in, two_hops

__all__ = [
    "LONGEST_NAME",
    "EntityGraph",
    "Mentions",
    "ReachedMemory",
    "entity_id",
    "graph_of",
    "may_name",
    "named_in",
    "spoken_by",
    "spoken_of",
    "two_hops",
]

__getattr__ = door(
    __name__,
    graph=("EntityGraph", "graph_of"),
    names=("LONGEST_NAME", "entity_id"),
    rules=("Mentions", "spoken_by", "spoken_of"),
    walking=("ReachedMemory", "may_name", "named_in", "two_hops"),
)
