"""Documents on a team's server: list them, and find removed ones.

Used when documents are ingested, listed or removed, never by a search. Raises SharedError, also while nothing
may leave: the name of a document is text of this machine.
"""

# ruff: noqa: S608 - what is put into the text are names from this package, never a value

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from forged.errors import ProviderError, SharedError
from forged.memory import Scope
from forged.postgres.schema import table
from forged.postgres.shared import PURPOSE, SharedServer
from forged.postgres.values import Vector

_ASK_S = 3.0
_MOST = 10_000
_ROWS = table(Scope.ORG)

_DOCUMENTS = f"""
    SELECT document_id, min(source), count(*), min(created_at), max(created_at), min(agent_id),
        (array_agg(metadata ORDER BY chunk_index))[1]
    FROM {_ROWS}"""
_OF = "GROUP BY document_id ORDER BY 2, 1 LIMIT %(most)s"
_ALL = f"{_DOCUMENTS} {_OF}"
_NAMED = f"""{_DOCUMENTS}
    WHERE document_id IN (SELECT document_id FROM {_ROWS} WHERE source = ANY(%(names)s))
        OR document_id = ANY(%(names)s)
    {_OF}"""
_PIECES = f"SELECT id FROM {_ROWS} WHERE document_id = %(document)s"
_VECTORS = f"""SELECT content, embedding FROM {_ROWS}
    WHERE document_id = ANY(%(ids)s) AND embedding IS NOT NULL"""
_GONE = "SELECT id, at FROM forged.tombstones WHERE scope = 'org' AND owner = '' AND id = ANY(%(ids)s)"


class ServerDocument(msgspec.Struct, frozen=True):
    """Document on the server with its number of pieces, metadata, and times of first and newest piece."""

    document_id: str
    source: str
    pieces: int
    created_at: datetime
    newest: datetime
    agent_id: str
    metadata: Mapping[str, Any]


class ServerDocuments:
    """Queries of the documents on the team's server: all, by name, ids of pieces, and removals."""

    def __init__(self, shared: SharedServer) -> None:
        self._shared = shared

    async def all(self) -> list[ServerDocument]:
        """Return all documents on the server, sorted by source, at most 10,000."""
        return [ServerDocument(*found) for found in await self._fetch_rows(_ALL)]

    async def named(self, names: Collection[str]) -> list[ServerDocument]:
        """Return the documents that have one of these sources or ids."""
        return [ServerDocument(*found) for found in await self._fetch_rows(_NAMED, names=list(names))]

    async def piece_ids(self, document_id: str) -> frozenset[str]:
        """Return the ids of a document's pieces."""
        return frozenset(found[0] for found in await self._fetch_rows(_PIECES, document=document_id))

    async def vectors(self, ids: Collection[str]) -> dict[str, Vector]:
        """Return the vectors of the pieces of documents by their texts, for the same texts in another one."""
        found = await self._fetch_rows(_VECTORS, ids=list(ids)) if ids else []
        return {content: np.asarray(vector.to_numpy(), np.float32) for content, vector in found}

    async def gone(self, ids: Sequence[str]) -> dict[str, datetime]:
        """Return those of these document and piece ids that were removed, with the time of removal."""
        return dict(await self._fetch_rows(_GONE, ids=list(ids))) if ids else {}

    async def _fetch_rows(self, statement: str, **values: object) -> list[Any]:
        """Return the rows of a query, within 3 s. Raises SharedError, also while egress is paused."""
        try:
            await self._shared.egress.check(PURPOSE, ())
        except ProviderError as error:
            raise SharedError(str(error), reason="unreachable") from error
        async with self._shared.connection(time.monotonic() + _ASK_S) as connection:
            return await (await connection.execute(statement, {"most": _MOST} | values)).fetchall()
