"""Names in the schema `forged`, columns of vectors, and the expression for the distance of vectors."""

from __future__ import annotations

from forged.memory import Scope

SCHEMA = "forged"
MAIN, CJK = "", "cjk"
"""Names of a database's embedding models: the main one, and one for Chinese, Japanese and Korean."""
VECTORS = {MAIN: "embedding", CJK: "embedding_cjk"}
"""Column with the vectors of each model; a row has a vector of one of them."""
CJK_LETTERS = r"[\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]"
"""Regular expression of PostgreSQL for a letter of these languages; more texts have one than are of them."""

_MEMORIES = {
    Scope.SESSION: ("session_memories", "session_id"),
    Scope.USER: ("user_memories", "user_id"),
    Scope.AGENT: ("agent_memories", "agent_id"),
    Scope.ORG: ("organizational_memories", ""),
}


def table(scope: Scope) -> str:
    """Return the qualified name of the table with a scope's memories."""
    return f"{SCHEMA}.{_MEMORIES[scope][0]}"


def owner_column(scope: Scope) -> str:
    """Return the column of a row's owner, "" if rows belong to everybody."""
    return _MEMORIES[scope][1]


def indexed_expression(dimension: int, model: str = MAIN) -> str:
    """Return the indexed SQL expression: a model's vectors in half precision, for up to 4,000 numbers.

    Statements must order by `{indexed_expression(d)} <=> query::{indexed_type(d)}`, or the index is unused.
    """
    return f"({VECTORS[model]}::{indexed_type(dimension)})"


def indexed_type(dimension: int) -> str:
    """Return the SQL type of the indexed expression: a half precision vector of this length."""
    return f"halfvec({dimension})"


OPERATORS = "halfvec_cosine_ops"
