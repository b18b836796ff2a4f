"""What memories speak of, and how one thing relates to another: found in text by rules, joined to a graph.

    spoken_by -> Mentions     entities and relations of a memory: of its front matter, and of its text
    graph_of -> EntityGraph   the memories of a root, joined by what they speak of
    named_in, two_hops        what a question names there, and the memories that this leads to

The capture worker and the quick verbs of forgectl take nothing of it. Pure functions over values.
"""

from typing import TYPE_CHECKING

from forged import door

if TYPE_CHECKING:
    from forged.entities.graph import EntityGraph, graph_of
    from forged.entities.names import LONGEST_NAME, entity_id
    from forged.entities.naming import may_name, named_in
    from forged.entities.rules import Mentions, spoken_of
    from forged.entities.spoken import spoken_by
    from forged.entities.walking import ReachedMemory, two_hops

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
    naming=("may_name", "named_in"),
    rules=("Mentions", "spoken_of"),
    spoken=("spoken_by",),
    walking=("ReachedMemory", "two_hops"),
)
