"""The searches of one recall: one statement for each scope, all sent at once and answered in one round trip.

In: a connection, whose rows are wanted, and what is looked for. Out: for each scope its rows, nearest first,
with their cosine distances. psycopg's errors are raised as they are; the pool translates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from psycopg.types.json import Jsonb

from forged.memory import Scope
from forged.postgres import statements
from forged.postgres.connecting import Connection
from forged.postgres.tables import TABLES
from forged.postgres.values import Stored, Vector


class RowQuery(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is looked for: the rows nearest to `vector` that have all of `filters` in their metadata.

    `limits` is how many rows of each scope; `least` the importance that a row must have; of sessions only
    what is not over at `now`. `vectors`: the rows are wanted with their own.
    """

    vector: Vector
    limits: Mapping[Scope, int]
    now: datetime
    filters: Mapping[str, Any] = {}
    least: float = 0.0
    vectors: bool = False


async def recall(
    connection: Connection, owners: Mapping[Scope, str], wanted: RowQuery, set_name: str = ""
) -> dict[Scope, list[Stored]]:
    """The nearest rows of these owners, by scope."""
    cursors = {}
    async with connection.pipeline():
        for scope, owner in owners.items():
            cursors[scope] = connection.cursor(binary=True)
            await cursors[scope].execute(statement(scope, wanted, set_name), values(owner, wanted, scope))
    return {scope: _rows(scope, await each.fetchall(), wanted) for scope, each in cursors.items()}


def statement(scope: Scope, wanted: RowQuery, set_name: str = "") -> str:
    """What is asked of one scope."""
    return statements.search(
        scope,
        set_name,
        dimension=len(wanted.vector),
        filters=bool(wanted.filters),
        nested=len(_nested(wanted.filters)),
        vectors=wanted.vectors,
    )


def values(owner: str, wanted: RowQuery, scope: Scope) -> dict[str, object]:
    """With which values."""
    given: dict[str, object] = {
        "owner": owner,
        "vector": wanted.vector,
        "filters": Jsonb(wanted.filters),
        "least": wanted.least,
        "now": wanted.now,
        "limit": wanted.limits[scope],
    }
    for at, (key, value) in enumerate(_nested(wanted.filters).items()):
        given |= {f"key{at}": key, f"value{at}": Jsonb(value)}
    return given


def _nested(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Filters that must be equal as a whole: to contain a list or an object is not to be it."""
    return {key: value for key, value in filters.items() if isinstance(value, (dict, list, tuple))}


def _rows(scope: Scope, found: list[Any], wanted: RowQuery) -> list[Stored]:
    columns = statements.found_columns(scope, vectors=wanted.vectors)
    return [TABLES[scope].stored(row, columns) for row in found]
