"""Entities that memories mention, and their relations: found in text by rules, joined to a graph.

Pure functions over values: `mentions_of` reads a memory and `graph_of` joins those of a root. `named_in` and
`two_hops` lead from a question to memories.
"""

from typing import TYPE_CHECKING

from forged import lazy_exports

if TYPE_CHECKING:
    from forged.entities.graph import EntityGraph, graph_of
    from forged.entities.mentions import Mentions, mentions_in, mentions_of
    from forged.entities.names import LONGEST_NAME, entity_id
    from forged.entities.traversal import ReachedMemory, named_in, possible_entity_ids, two_hops

__all__ = [
    "LONGEST_NAME",
    "EntityGraph",
    "Mentions",
    "ReachedMemory",
    "entity_id",
    "graph_of",
    "mentions_in",
    "mentions_of",
    "named_in",
    "possible_entity_ids",
    "two_hops",
]

__getattr__ = lazy_exports(
    __name__,
    graph=("EntityGraph", "graph_of"),
    names=("LONGEST_NAME", "entity_id"),
    mentions=("Mentions", "mentions_of", "mentions_in"),
    traversal=("ReachedMemory", "possible_entity_ids", "named_in", "two_hops"),
)
