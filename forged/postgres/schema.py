"""Names of what stands in the schema `forged`, and the one expression by which vectors are near.

The tables of memories exist once for each set: set "" has plain names, any other ends them, as in
`user_memories_cjk`.
"""

from __future__ import annotations

import re

from forged.memory import Scope

SCHEMA = "forged"
MAIN = ""
"""The set of the embedding model that the configuration names."""

_MEMORIES = {
    Scope.SESSION: ("session_memories", "session_id"),
    Scope.USER: ("user_memories", "user_id"),
    Scope.AGENT: ("agent_memories", "agent_id"),
    Scope.ORG: ("organizational_memories", ""),
}
_SET = re.compile(r"[a-z][a-z0-9]{0,7}|")


def table(scope: Scope, set_name: str = MAIN) -> str:
    """The table of a scope's memories, with its schema."""
    return f"{SCHEMA}.{_MEMORIES[scope][0]}{suffix(set_name)}"


def owner_column(scope: Scope) -> str:
    """The column that says whose a row is, "" where rows are everybody's."""
    return _MEMORIES[scope][1]


def suffix(set_name: str) -> str:
    """What ends the names of a set's tables."""
    if not _SET.fullmatch(set_name):
        raise ValueError(f"{set_name!r} names no set of tables")
    return f"_{set_name}" if set_name else ""


def nearness(dimension: int) -> str:
    """What is indexed and compared: half precision, which takes half the room and up to 4,000 numbers.

    A statement orders by `{nearness(d)} <=> query::{near_type(d)}`, or the index is not used.
    """
    return f"(embedding::{near_type(dimension)})"


def near_type(dimension: int) -> str:
    return f"halfvec({dimension})"


OPERATORS = "halfvec_cosine_ops"
