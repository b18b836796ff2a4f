"""Names in the schema `forged`, and the expression for the distance of vectors.

Tables of memories exist once for each set: names of set "" are plain, others get a suffix, as in
`user_memories_cjk`.
"""

from __future__ import annotations

import re

from forged.memory import Scope

SCHEMA = "forged"
MAIN = ""
"""The set of the configured embedding model."""

_MEMORIES = {
    Scope.SESSION: ("session_memories", "session_id"),
    Scope.USER: ("user_memories", "user_id"),
    Scope.AGENT: ("agent_memories", "agent_id"),
    Scope.ORG: ("organizational_memories", ""),
}
_SET = re.compile(r"[a-z][a-z0-9]{0,7}|")


def table(scope: Scope, set_name: str = MAIN) -> str:
    """Return the qualified name of the table with a scope's memories."""
    return f"{SCHEMA}.{_MEMORIES[scope][0]}{suffix(set_name)}"


def owner_column(scope: Scope) -> str:
    """Return the column of a row's owner, "" if rows belong to everybody."""
    return _MEMORIES[scope][1]


def suffix(set_name: str) -> str:
    """Return the suffix of table names for a set of tables, "" for the main one. Raises ValueError."""
    if not _SET.fullmatch(set_name):
        raise ValueError(f"{set_name!r} names no set of tables")
    return f"_{set_name}" if set_name else ""


def indexed_expression(dimension: int) -> str:
    """Return the indexed SQL expression: vectors in half precision, for up to 4,000 numbers.

    Statements must order by `{indexed_expression(d)} <=> query::{indexed_type(d)}`, or the index is unused.
    """
    return f"(embedding::{indexed_type(dimension)})"


def indexed_type(dimension: int) -> str:
    """Return the SQL type of the indexed expression: a half precision vector of this length."""
    return f"halfvec({dimension})"


OPERATORS = "halfvec_cosine_ops"
