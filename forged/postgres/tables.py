"""Tables of memories by scope: columns, and conversion of rows from and to values.

`statements.py` builds its SQL from these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from psycopg.types.json import Jsonb

from forged.attributes import Facts
from forged.memory import Scope
from forged.postgres.schema import VECTORS
from forged.postgres.values import Stored

# Columns with another name in `Stored`, and columns with NULL for "".
_FIELDS = {"importance_score": "importance"}
_MODELS = {column: model for model, column in VECTORS.items()}
_NULLABLE = frozenset({"user_id", "supersedes"})
_FACTS = frozenset(Facts.__struct_fields__)
# Types of ambiguous parameters.
_TYPES = {
    **dict.fromkeys(VECTORS.values(), "vector"),
    "importance_score": "float4",
    "metadata": "jsonb",
    "version": "int4",
    "chunk_index": "int4",
    "is_head": "bool",
    "file": "bytea",
} | dict.fromkeys(("created_at", "updated_at", "expires_at"), "timestamptz")
_NEEDED = frozenset({"content", "created_at", "updated_at", "expires_at", "metadata", "source"})
# Longer values, in bytes, are read as NULL: they would cost a search its memory and time.
_LONGEST = {"content": 262_144, "metadata": 65_536, "source": 4_096}
_VERSIONED = (
    *(
        "content",
        *VECTORS.values(),
        "memory_type",
        "category",
        "version",
        "supersedes",
        "importance_score",
    ),
    *("created_at", "updated_at", "metadata", "file", "file_sha256"),
)


class OddRowError(Exception):
    """Raised for a row with values that no program of ours writes; its text is the row's id."""


class ScopeTable(msgspec.Struct, frozen=True):
    """Columns of one scope's table; `owner` is the owner's column, "" if rows belong to everybody.

    `columns` are written, including the owner. `versions`: rows replace one another; a recall sees heads and
    counts its answers.
    """

    scope: Scope
    owner: str
    columns: tuple[str, ...]
    versions: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """Return the columns of the primary key."""
        return (self.owner, "id") if self.owner else ("id",)

    @property
    def read(self) -> tuple[str, ...]:
        """Return the columns that a search reads: all but vectors and file, and any counts of answers."""
        counted = ("access_count", "last_accessed") if self.versions else ()
        return (*(each for each in self.columns if each not in {*VECTORS.values(), "file"}), *counted)

    def read_as(self, column: str, table: str = "") -> str:
        """Return the SQL that reads a column, NULL if its value is too long."""
        name = f"{table}.{column}" if table else column
        if column not in _LONGEST:
            return name
        size = "pg_column_size" if column == "metadata" else "octet_length"
        return f"CASE WHEN {size}({name}) <= {_LONGEST[column]} THEN {name} END"

    def type_of(self, column: str) -> str:
        """Return the SQL type of a column."""
        return _TYPES.get(column, "text")

    def values(self, row: Stored) -> dict[str, object]:
        """Return the values to write for a row, by column."""
        return {column: self._value(row, column) for column in self.columns}

    def _value(self, row: Stored, column: str) -> object:
        """Return the value to write for a row into a column, with JSON, times and NULL converted."""
        if column in _MODELS:
            return row.vector if row.model == _MODELS[column] else None
        field = self._field(column)
        value = getattr(row.facts if field in _FACTS else row, field)
        if column == "metadata":
            return Jsonb(value)
        if column == "expires_at":
            return datetime.fromisoformat(value) if value else None
        return None if column in _NULLABLE and column != self.owner and value == "" else value

    def stored(self, found: Sequence[Any], columns: Sequence[str]) -> Stored:
        """Convert a found database row to `Stored`; the columns may include `distance` and vectors.

        Raises OddRowError for values that no program of ours writes.
        """
        values = dict(zip(columns, found, strict=True))
        if any(values.get(column, "") is None for column in _NEEDED & values.keys()):
            raise OddRowError(str(values["id"]))
        if (
            not isinstance(values.get("metadata", {}), dict)
            or not 0 <= values.get("importance_score", 1) <= 1
        ):
            raise OddRowError(str(values["id"]))
        pairs = zip(columns, found, strict=True)
        fields = {self._field(column): value for column, value in pairs if value is not None}
        for column in _MODELS.keys() & fields.keys():
            vector = np.asarray(fields.pop(column).to_numpy(), np.float32)
            fields |= {"vector": vector, "model": _MODELS[column]}
        facts = {name: _time_as_text(fields.pop(name)) for name in _FACTS & fields.keys()}
        given: dict[str, Any] = {"scope": self.scope, "owner": ""} | fields
        return Stored(**given, facts=Facts(**facts))

    def _field(self, column: str) -> str:
        """Return the name of the field, of `Stored` or its `Facts`, that a column stores."""
        return "owner" if column == self.owner else _FIELDS.get(column, column)


def _time_as_text(value: Any) -> Any:
    """Return a time as text, any other value unchanged."""
    if not isinstance(value, datetime):
        return value
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


TABLES: Mapping[Scope, ScopeTable] = {
    Scope.SESSION: ScopeTable(
        Scope.SESSION,
        "session_id",
        (
            *(
                "session_id",
                "id",
                "agent_id",
                "user_id",
                "content",
                *VECTORS.values(),
                "importance_score",
            ),
            *("created_at", "expires_at", "metadata"),
        ),
    ),
    Scope.USER: ScopeTable(Scope.USER, "user_id", ("user_id", "id", "agent_id", *_VERSIONED), versions=True),
    Scope.AGENT: ScopeTable(
        Scope.AGENT, "agent_id", ("agent_id", "id", "user_id", *_VERSIONED), versions=True
    ),
    Scope.ORG: ScopeTable(
        Scope.ORG,
        "",
        (
            *("id", "agent_id", "source", "content", *VECTORS.values(), "chunk_index", "document_id"),
            *("created_at", "metadata"),
        ),
    ),
}
